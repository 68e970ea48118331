#!/usr/bin/env bash
# Our TLS server behind a real Keycloak: every kind of token that a realm gives.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/test-keycloak.sh

Takes Keycloak from Maven Central (once; about 180 MB, kept outside the tree),
starts it and our server on free ports of loopback, prepares its realm with
setup-oidc-users.sh and calls a tool with tokens of every grant. As root each
person's worker has an account of its own, made and removed here; as another
user workers run as that user. Prints one line a check and "N passed, N failed".

KEYCLOAK_VERSION   another version
HELP
}
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  ?*) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
# shellcheck source=scripts/keycloak/server.sh
. "$ROOT/scripts/keycloak/server.sh"
for name in $(compgen -e MCP_); do unset "$name"; done
export MCP_ISSUER_CA
own_state
need_packages curl jq || exit 1
AS_ROOT=''
if [ "$(id -u)" = 0 ]; then AS_ROOT=1; fi

# ---- the world --------------------------------------------------------------

REALM=staff OTHER=other
PORT=$(free_port)
URL=https://localhost:$PORT/mcp
declare -A ACCOUNT=([alice]=ghtest-kc$$-alice [bob]=ghtest-kc$$-bob)
keycloak_install || exit 1
"$ROOT/scripts/build.sh"
certificate() { # NAME: sets CERT and KEY
  { read -r MCP_ISSUER_CA && read -r CERT && read -r KEY; } < <("$ROOT/bin/gatehouse-demo" cert --dir "$WORK/tls" --name "$1" 2>/dev/null)
}
certificate keycloak
keycloak_start "$CERT" "$KEY"
certificate server
keycloak_wait
ISSUER=$KC_URL/realms/$REALM

for name in alice bob; do (umask 077 && head -c 12 /dev/urandom | base64 | tr '+/' xy >"$WORK/$name.password"); done
for name in alice bob; do printf '%s:%s\n' $name "$(cat "$WORK/$name.password")"; done >"$WORK/passwords"

# setup [OPTION…]: setup-oidc-users.sh with a state folder of its own.
setup() {
  MCP_STATE_DIR=$WORK/setup MCP_ACCOUNTS_FILE=$WORK/accounts.yaml MCP_AUDIENCE=$URL "$ROOT/scripts/setup-oidc-users.sh" \
    --keycloak "$KC_URL" --admin-password-file "$KC_SECRET" --password-file "$WORK/passwords" "$@"
}
PEOPLE=(--user "alice:${ACCOUNT[alice]}" --user "bob:${ACCOUNT[bob]}")
if [ -n "$AS_ROOT" ]; then
  remove_accounts() {
    MCP_STATE_DIR=$WORK/setup MCP_ACCOUNTS_FILE=$WORK/accounts.yaml "$ROOT/scripts/setup-oidc-users.sh" --remove --purge "${PEOPLE[@]}"
  }
  at_exit remove_accounts
else
  say "SKIPPED: accounts (not root): workers run as $(id -un)"
  PEOPLE+=(--realm-only)
fi
# state: what must not change when setup-oidc-users.sh has nothing to do.
state() { find "$WORK/accounts.yaml" "$WORK"/setup/made-* -type f -exec sha256sum {} + 2>/dev/null || true; }
has() { grep -q -- "$1" "$WORK/setup.out"; }

not_yet() { ! setup --realm $REALM --check "${PEOPLE[@]}" >"$WORK/setup.out" 2>&1 && has 'missing: the realm'; }
check "setup-oidc-users.sh --check says that the realm is missing" not_yet
check "setup-oidc-users.sh prepares the realm" setup --realm $REALM "${PEOPLE[@]}"
before=$(state)
again() { setup --realm $REALM "${PEOPLE[@]}" >"$WORK/setup.out" && has '^nothing to change' && [ "$(state)" = "$before" ]; }
check "the second time it changes nothing" again
check "--check finds all in order" setup --realm $REALM --check "${PEOPLE[@]}"
check "a second realm, without accounts" setup --realm $OTHER --realm-only --user alice

# fixture ARGUMENT…: what only a test does to a realm.
fixture() { python3 -IB "$ROOT/scripts/keycloak/fixture.py" "$KC_URL" "$@" <"$KC_SECRET"; }
fixture $REALM people alice bob
fixture $REALM client test-password
fixture $REALM service test-service >"$WORK/service.secret"
fixture $OTHER people alice
fixture $OTHER client test-password

export MCP_PORT=$PORT MCP_ISSUER=$ISSUER MCP_AUDIENCE=$URL MCP_TOKEN_PROFILE=keycloak MCP_TLS_CERT=$CERT MCP_TLS_KEY=$KEY
if [ -n "$AS_ROOT" ]; then
  export MCP_RUN_AS=monitor MCP_ACCOUNTS_FILE=$WORK/accounts.yaml
else
  export MCP_RUN_AS=shared-account
fi
at_exit "$ROOT/scripts/stop-server.sh" "$PORT"
"$ROOT/scripts/run-auth-server.sh" >"$WORK/start.log" 2>&1 || { cat "$WORK/start.log"; die "the server did not start"; }
SERVER=$(sed -n 's/^ *pid *//p' "$WORK/start.log")
LOG=$(sed -n 's/^ *log *//p' "$WORK/start.log")

# ---- calls ------------------------------------------------------------------

# sign_in FILE SECRET-FILE HOW ARGUMENT…: the issuer's answer in WORK/FILE.json
# and its access token, as a header, in WORK/FILE.
sign_in() {
  local file=$1 secret=$2
  shift 2
  python3 -IB "$ROOT/scripts/keycloak/login.py" "$@" <"$secret" >"$WORK/$file.json" || { cat "$WORK/$file.json"; return 1; }
  header "$file" access_token
}
# header FILE MEMBER: the member of FILE.json as a header in WORK/FILE.
header() { jq -r --arg m "$2" '"Authorization: Bearer " + .[$m]' "$WORK/$1.json" >"$WORK/$1"; }
# member FILE PART NAME: a member of the token's header (0) or payload (1).
member() {
  jq -rR --argjson part "$2" --arg name "$3" \
    'ltrimstr("Authorization: Bearer ") | split(".")[$part] | gsub("-"; "+") | gsub("_"; "/") | @base64d | fromjson | .[$name]' "$WORK/$1"
}
password_grant() { # FILE USER SCOPE [REALM]
  sign_in "$1" "$WORK/$2.password" password "$KC_URL/realms/${4:-$REALM}" test-password "$3" "$2"
}

# mcp FILE METHOD [BODY [SESSION]]: sets STATUS; the answer is in WORK/answer and
# its headers in WORK/headers.
mcp() {
  STATUS=$(curl -s -o "$WORK/body" -D "$WORK/headers" -w '%{http_code}' --max-time 20 --cacert "$MCP_ISSUER_CA" -X "$2" -H "@$WORK/$1" \
    -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
    ${4:+-H "Mcp-Session-Id: $4"} ${3:+-d "$3"} "$URL") || true
  sed -n 's/^data: //p; /^{/p' "$WORK/body" >"$WORK/answer"
}
unexpected() { echo "status $STATUS: $(cat "$WORK/body")"; }
INITIALIZE='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}'
# open FILE: a session; sets SESSION.
open() {
  mcp "$1" POST "$INITIALIZE"
  SESSION=$(tr -d '\r' <"$WORK/headers" | sed -n 's/^mcp-session-id: //Ip')
  if [ "$STATUS" != 200 ] || [ -z "$SESSION" ]; then unexpected; return 1; fi
  mcp "$1" POST '{"jsonrpc":"2.0","method":"notifications/initialized"}' "$SESSION"
}
# status_call FILE: calls the tool; sets WORKER, its process.
status_call() {
  mcp "$1" POST '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"status","arguments":{}}}' "$SESSION"
  WORKER=$(jq -r '.result.structuredContent.pid' "$WORK/answer")
  if [ "$STATUS" != 200 ] || [ ! -d "/proc/$WORKER" ]; then unexpected; return 1; fi
}
# uids PID: its four user ids, as the kernel says.
uids() { sed -n 's/^Uid:[[:space:]]*//p' "/proc/$1/status" | tr '\t' ' '; }
# reaches FILE USER: a tool call runs in a process of the user's account.
reaches() {
  local uid want
  open "$1" && status_call "$1" || return 1
  if [ -n "$AS_ROOT" ]; then uid=$(id -u "${ACCOUNT[$2]}"); else uid=$(id -u); fi
  want="$uid $uid $uid $uid"
  [ "$(uids "$WORKER")" = "$want" ] || { echo "process $WORKER has the uids $(uids "$WORKER"), want $want"; return 1; }
  mcp "$1" DELETE "" "$SESSION"
  [ "$STATUS" = 200 ] || { unexpected; return 1; }
}
# refused FILE STATUS CHALLENGE: the request gets the status and a challenge that
# matches; "" means that there is none. No session, no worker.
refused() {
  local challenge
  mcp "$1" POST "$INITIALIZE"
  challenge=$(tr -d '\r' <"$WORK/headers" | sed -n 's/^www-authenticate: //Ip')
  if [ "$STATUS" != "$2" ] || grep -qi '^mcp-session-id:' "$WORK/headers"; then
    echo "status $STATUS, want $2: $(cat "$WORK/body")"
    return 1
  fi
  if [ -n "$3" ]; then
    [[ $challenge == *"$3"* ]] || { echo "challenge: $challenge"; return 1; }
  else
    [[ $challenge != *error=* ]] || { echo "challenge: $challenge"; return 1; }
  fi
}

# refused_in_time FILE CHALLENGE: 401 for a key that no issuer of ours has. Until
# the issuer could be asked, which is done once in 10 s, the answer is 503: never
# 200.
refused_in_time() {
  local until=$((SECONDS + 12))
  mcp "$1" POST "$INITIALIZE"
  while [ "$STATUS" = 503 ] && [ $SECONDS -lt $until ]; do
    sleep 0.5
    mcp "$1" POST "$INITIALIZE"
  done
  refused "$1" 401 "$2"
}

# ---- every kind of token ----------------------------------------------------

by_password() { password_grant password alice "openid mcp:use" && reaches password alice; }
by_code() { sign_in code "$WORK/alice.password" code "$ISSUER" mcp-cli mcp:use alice && reaches code alice; }
by_device() { sign_in device "$WORK/bob.password" device "$ISSUER" mcp-cli mcp:use bob && reaches device bob; }
by_offline() {
  sign_in offline "$WORK/bob.password" code "$ISSUER" mcp-cli "mcp:use offline_access" bob && reaches offline bob &&
    jq -r .refresh_token "$WORK/offline.json" >"$WORK/offline.refresh" &&
    sign_in refreshed "$WORK/offline.refresh" refresh "$ISSUER" mcp-cli && reaches refreshed bob
}
check "password grant: a worker of alice's account" by_password
check "authorization code with PKCE: a worker of alice's account" by_code
check "device grant with PKCE: a worker of bob's account" by_device
check "offline_access, and after a refresh: a worker of bob's account" by_offline

invalid='error="invalid_token"'
by_service() { sign_in service "$WORK/service.secret" client "$ISSUER" test-service mcp:use && refused service 403 ""; }
without_scope() { password_grant narrow alice openid && refused narrow 401 "$invalid"; }
id_token() { cp "$WORK/password.json" "$WORK/id.json" && header id id_token && refused id 401 "$invalid"; }
refresh_token() { cp "$WORK/password.json" "$WORK/refresh.json" && header refresh refresh_token && refused refresh 401 "$invalid"; }
other_realm() { password_grant other alice mcp:use $OTHER && refused_in_time other "$invalid"; }
check "client credentials: refused, 403 without an error" by_service
check "without mcp:use, and so without audience: 401" without_scope
check "an ID token: 401" id_token
check "a refresh token: 401" refresh_token
check "a token of another realm: 401" other_realm

# ---- a machine that is mapped to an account ---------------------------------

if [ -n "$AS_ROOT" ]; then
  machine() {
    local subject until=$((SECONDS + 10))
    subject=$(member service 1 sub)
    printf -- '- issuer: %s\n  subject: "%s"\n  client_id: test-service\n  account: %s\n' "$ISSUER" "$subject" "${ACCOUNT[bob]}" >>"$WORK/accounts.yaml"
    kill -HUP "$SERVER"
    until open service >"$WORK/open.out"; do
      [ $SECONDS -lt $until ] || { cat "$WORK/open.out"; return 1; }
      sleep 0.2
    done
    reaches service bob
  }
  check "client credentials, with an entry for that client: a worker of bob's account" machine
fi

# ---- dynamic registration ---------------------------------------------------

register() { sign_in registered /dev/null register "$ISSUER" "openid mcp:use"; }
closed() { ! register; }
registered() {
  register && jq -re .client_id "$WORK/registered.json" >"$WORK/client" &&
    sign_in dcr "$WORK/alice.password" code "$ISSUER" "$(cat "$WORK/client")" "openid mcp:use" alice && reaches dcr alice
}
check "dynamic registration is refused in a realm as it comes" closed
check "setup-oidc-users.sh --allow-dcr" setup --realm $REALM --allow-dcr "${PEOPLE[@]}"
check "a client registers itself, and its token reaches a worker of alice's account" registered

# ---- rotation ---------------------------------------------------------------

open password || say "no session to watch"
status_call password || true
OLD_WORKER=$WORKER
fixture $REALM rotate
TIMED=$SECONDS
new_token() {
  password_grant rotated alice mcp:use
  [ "$(member rotated 0 kid)" != "$(member password 0 kid)" ] || { echo "the key has not changed"; return 1; }
  until open rotated >"$WORK/open.out"; do
    [ $((SECONDS - TIMED)) -le 12 ] || { cat "$WORK/open.out"; return 1; }
    sleep 0.5
  done
  status_call rotated
}
old_token() { refused_in_time password "$invalid"; }
old_worker() {
  local i
  for i in $(seq 50); do [ -d "/proc/$OLD_WORKER" ] || return 0; sleep 0.1; done
  echo "process $OLD_WORKER still runs"
  return 1
}
same_server() { [ -d "/proc/$SERVER" ] && [ "$(grep -c '"front end serves"' "$LOG")" = 1 ]; }
check "after a rotation a token of the new key is good within 12 s" new_token
say "      (it took $((SECONDS - TIMED)) s)"
check "a token of the withdrawn key: 401" old_token
check "the session of the withdrawn key is over" old_worker
check "the server was not restarted for it" same_server

# ---- and away ---------------------------------------------------------------

check "stop-server.sh" "$ROOT/scripts/stop-server.sh" "$PORT"
if [ -n "$AS_ROOT" ]; then
  kept() { remove_accounts && getent passwd "${ACCOUNT[bob]}" && ! grep -q alice "$WORK/accounts.yaml" && grep -q test-service "$WORK/accounts.yaml"; }
  gone() { rm "$WORK/accounts.yaml" && remove_accounts && ! getent passwd "${ACCOUNT[alice]}" && ! getent passwd "${ACCOUNT[bob]}"; }
  check "--remove keeps an entry that it did not make, and its account" kept
  check "without that entry the account goes too" gone
fi
undone() {
  setup --realm $REALM --realm-only --remove >"$WORK/setup.out" && has '^restored the registration policy trusted-hosts' &&
    has '^removed the client scope mcp:use' && has '^removed the user alice' && has '^kept the realm' # it holds others' clients
}
check "and what it made in the realm" undone
summary
