#!/usr/bin/env bash
# Starts the authenticated server with TLS, or the whole demo of it.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/run-auth-server.sh [--demo] [--foreground]
       scripts/run-auth-server.sh --check [OPTION…]   tests these settings and what they
                                                      depend on; starts nothing

Starts the server with TLS and bearer tokens in the background, waits until it
answers and prints how to connect.

  scripts/run-auth-server.sh --demo       # with an issuer of its own: users alice and bob
  scripts/demo-token.sh alice             # a token of the demo, good for 12 h

  sudo MCP_ISSUER=https://id.example.com/realms/staff MCP_TOKEN_PROFILE=keycloak \
       MCP_AUDIENCE=https://mcp.example.com/mcp MCP_PORT=443 MCP_BIND_ADDRESS=0.0.0.0 \
       MCP_TLS_CERT=/etc/ssl/mcp.pem MCP_TLS_KEY=/etc/ssl/private/mcp.key \
       MCP_RUN_AS=monitor MCP_ACCOUNTS_FILE=/etc/gatehouse/accounts.yaml \
       scripts/run-auth-server.sh

  scripts/stop-server.sh 443              # stops it

--foreground stays; Ctrl-C ends everything that was started. --check takes the options of
"gatehouse check": --token-stdin explains a token that it reads.

MCP_PORT           port (8443); the demo issuer takes MCP_DEMO_PORT (the next one)
MCP_DEMO_TOKEN_LIFE   how long the demo's tokens are good (12h); short ones show a client's refresh
MCP_ISSUER         the issuer's URL, exactly as its tokens say it
MCP_AUDIENCE       this server's resource identifier: its https URL, as clients type it
MCP_RUN_AS         monitor (root: workers run as the token's account), same-account, shared-account
MCP_ACCOUNTS_FILE  issuer, subject and account of each person; or MCP_USERID_CLAIM
MCP_TLS_CERT, MCP_TLS_KEY   without them a development certificate for localhost is made
MCP_ISSUER_CA      PEM file of the issuer's private CA
MCP_BIND_ADDRESS   loopback; 0.0.0.0 opens it to the network
MCP_CONFIG         a YAML file with any of the settings; variables win over it

Every other setting is an MCP_ variable too: docs/config.md.
HELP
}
demo='' foreground='' check='' options=()
while [ $# -gt 0 ]; do
  case $1 in
    --demo) demo=1 ;;
    --foreground) foreground=1 ;;
    --check) check=1 options=("${@:2}"); break ;;
    -h | --help) usage; exit 0 ;;
    *) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export MCP_MODE=authenticated
settle_state
[ -z "$check" ] || [ -z "$demo" ] || die "--check tests settings of your own, and --demo brings its own"
read_config
MCP_PORT=${MCP_PORT:-$(config_value listen.port)}
export MCP_PORT=${MCP_PORT:-8443}
run=$RUNS/$MCP_PORT
path=${MCP_PATH:-$(config_value 'servers[0].path')}
path=${path:-/mcp}
bind=${MCP_BIND_ADDRESS:-$(config_value listen.bind_address)}

# demo_settings: what --demo decides; it says aloud what everybody runs as.
demo_settings() {
  local name
  for name in MCP_ISSUER MCP_DISCOVERY_URL MCP_JWKS_URL MCP_ISSUER_CA MCP_TOKEN_PROFILE MCP_ACCOUNTS_FILE MCP_USERID_CLAIM; do
    [ -z "${!name:-}" ] || die "--demo brings its own issuer; unset $name"
  done
  if am_root; then
    export MCP_RUN_AS=${MCP_RUN_AS:-monitor}
  else
    export MCP_RUN_AS=${MCP_RUN_AS:-shared-account}
  fi
  case $MCP_RUN_AS in
    monitor) say "Demo in monitor mode: alice's and bob's workers run as ${DEMO_ACCOUNTS[0]} and ${DEMO_ACCOUNTS[1]}." ;;
    shared-account) say "Demo in shared-account mode: alice's and bob's workers all run as $(if am_root; then echo "${MCP_WORKER_USER:-gatehouse-worker}"; else id -un; fi), each session in a process of its own." ;;
    *) die "--demo runs in monitor mode (as root) or in shared-account mode, not in $MCP_RUN_AS" ;;
  esac
  export MCP_DEMO=1 MCP_AUDIENCE=${MCP_AUDIENCE:-https://localhost:$MCP_PORT$path}
  want_port MCP_PORT "$MCP_PORT"
  DEMO_PORT=${MCP_DEMO_PORT:-$((MCP_PORT + 1))}
  want_port MCP_DEMO_PORT "$DEMO_PORT"
  export MCP_ISSUER=https://localhost:$DEMO_PORT
}

# development_certificate NAME: sets CA, CERT and KEY.
development_certificate() {
  local out
  out=$("$BIN/gatehouse-demo" cert --dir "$STATE/tls" --name "$1") || exit 1
  { read -r CA && read -r CERT && read -r KEY; } <<<"$out"
}

server_certificate() {
  # A configuration file may name a certificate; then it has to.
  if [ -n "${MCP_TLS_CERT:-}${MCP_TLS_KEY:-}" ] || { [ -n "${MCP_CONFIG:-}" ] && [ -z "$demo" ]; }; then CA=; return; fi
  development_certificate server
  export MCP_TLS_CERT=$CERT MCP_TLS_KEY=$KEY
  [ -n "$demo" ] || note "MCP_TLS_CERT is not set: made a development certificate for localhost ($CERT)"
}

# start_demo: the issuer, as an account of its own when we are root.
start_demo() {
  local state=$STATE/demo-$DEMO_PORT server_ca=$CA own=()
  development_certificate issuer
  export MCP_ISSUER_CA=$CA
  CA=$server_ca
  if am_root; then
    ensure_demo_accounts
    install -d -m 700 -o gatehouse-demo -g gatehouse-demo "$state"
    install -m 600 -o gatehouse-demo -g gatehouse-demo "$KEY" "$state/tls.key"
    KEY=$state/tls.key
    own=(setpriv --reuid=gatehouse-demo --regid=gatehouse-demo --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all --)
    if [ "$MCP_RUN_AS" = monitor ]; then
      (umask 077 && "$BIN/gatehouse-demo" accounts --issuer "$MCP_ISSUER" >"$run/accounts.yaml")
      export MCP_ACCOUNTS_FILE=$run/accounts.yaml
    fi
  else
    (umask 077 && mkdir -p "$state")
  fi
  printf 'demo_state=%s\nissuer=%s\n' "$state" "$MCP_ISSUER" >>"$run/info"
  launch "$run/demo.pid" "$run/demo.log" "${own[@]}" "$BIN/gatehouse-demo" serve --port "$DEMO_PORT" \
    --resource "$MCP_AUDIENCE" --scope "$(demo_scopes)" --state "$state" --cert "$CERT" --key "$KEY" --token-life "$TOKEN_LIFE"
  wait_ready "$LAUNCHED" 20 "$run/demo.log" "https://127.0.0.1:$DEMO_PORT/healthz" "$CERT" ||
    { abandon "$run"; die "the demo issuer did not start: see above; MCP_DEMO_PORT chooses another port for it"; }
  PASSWORD=$(cat "$state/password")
}

# demo_scopes: required and extra scopes, with commas.
demo_scopes() { printf '%s %s' "${MCP_REQUIRED_SCOPES:-mcp:use}" "${MCP_EXTRA_SCOPES:-}" | tr -s ' ,' ',' | sed 's/^,//; s/,$//'; }

# demo_sample: what the tools work on. Accounts of their own share it by a group.
demo_sample() {
  local a people=()
  if [ "$MCP_RUN_AS" != monitor ]; then
    sample_workspace sample.git
    return
  fi
  for a in "${DEMO_ACCOUNTS[@]}"; do people+=(--writer "$a"); done
  sample_workspace demo-sample.git --write-group "$DEMO_GROUP" "${people[@]}"
}

# print_info PID LOG LISTENS
print_info() {
  cat <<INFO

Gatehouse
  URL        $url
  listens    $3
  pid        $1
  log        $2
  reload     kill -HUP $1   (certificate, accounts, limits)
  stop       $ROOT/scripts/stop-server.sh $MCP_PORT
INFO
  if [ -n "$demo" ]; then
    cat <<INFO
  issuer     $MCP_ISSUER  (demo; log $run/demo.log)
  sign in    users alice and bob, password $PASSWORD
  token      $ROOT/scripts/demo-token.sh alice   (good for ${TOKEN_LIFE/%12h/12 hours})
INFO
    [ -z "$SAMPLE" ] || say "  workspace  $SAMPLE  (a sample; MCP_WORKSPACE names your own repository)"
  fi
  printf '\nConnect Claude Code:\n'
  if [ -n "$CA" ]; then
    printf '  export NODE_EXTRA_CA_CERTS=%q\n' "$CA"
  fi
  if [ -n "$demo" ]; then
    cat <<INFO
  claude mcp add --transport http gatehouse $url --header "Authorization: Bearer \$($ROOT/scripts/demo-token.sh alice)"
INFO
  else
    cat <<INFO
  claude mcp add --transport http --client-id mcp-cli gatehouse $url
then sign in there under /mcp. mcp-cli is the client that setup-oidc-users.sh makes at Keycloak; leave it
out where the issuer registers clients. Other clients and ways: docs/clients.md
INFO
  fi
  if [ -n "$CA" ]; then
    cat <<INFO

The client trusts the development CA only while that variable is set. To set it
for good, put this into ~/.claude/settings.json:
  {"env":{"NODE_EXTRA_CA_CERTS":"$CA"}}
INFO
  fi
  case $bind in
    '' | localhost | 127.* | ::1)
      [ -n "$demo" ] || printf '\nOnly this machine can connect. To open it to the network: MCP_BIND_ADDRESS=0.0.0.0 %s/scripts/run-auth-server.sh\n' "$ROOT" ;;
  esac
  if [ -n "$demo" ] && am_root; then
    printf '\nThe demo uses the accounts %s and gatehouse-demo, and a group. To remove them again:\n  %s/scripts/setup-oidc-users.sh --demo --remove\n' "${DEMO_ACCOUNTS[*]}" "$ROOT"
  fi
}

# warnings LOG: what the server warned of at its start, and, when the keys of an
# issuer could not be fetched at once, that.
warnings() {
  local i
  start_warnings "$1"
  for ((i = 0; i < 30; i++)); do
    if grep -q '"message":"keys not refreshed"' "$1"; then
      note "warning: the keys of $(sed -n 's/.*"issuer":"\([^"]*\)","reason":"\([^"]*\)".*"keys not refreshed".*/\1 are not there yet (\2)/p' "$1" | head -1)"
      note "  every call is answered 503 until they are; they are fetched again and again; --check with these settings tests it"
      return
    fi
    ! grep -q '"message":"keys are current"' "$1" || return 0
    sleep 0.1
  done
}

TOKEN_LIFE=${MCP_DEMO_TOKEN_LIFE:-12h} configured=${MCP_CONFIG:-}${MCP_ISSUER:-}
DEMO_PORT='' PASSWORD='' CA='' CERT='' KEY=''
if [ -n "$demo" ]; then demo_settings; fi
url=${MCP_AUDIENCE:-$(config_value 'servers[0].resource')}
url=${url:-https://localhost:$MCP_PORT$path}
if [ -n "$check" ]; then
  prepare_programs
  server_certificate # which the start would make
  exec "$BIN/gatehouse" check "${options[@]}"
fi
check_port "$MCP_PORT"
prepare_programs
prepare_state
if am_root; then ensure_system_users; fi
trap 'abandon "$run"; exit 130' INT TERM HUP
begin_run "$run" authenticated "$url"
server_certificate
if [ -n "$demo" ]; then
  start_demo
  demo_sample
fi

if [ -n "$foreground" ]; then
  print_info $$ "this terminal" "port $MCP_PORT"
  if [ -z "$demo" ]; then
    write_pid "$run/server.pid" $$
    exec "$BIN/gatehouse" serve
  fi
  "$BIN/gatehouse" serve &
  server=$!
  write_pid "$run/server.pid" "$server"
  exec {START_LOCK}>&- # from here on it can be stopped
  trap 'kill -TERM "$server" 2>/dev/null || true' INT TERM HUP
  rc=0
  while :; do
    rc=0
    wait "$server" || rc=$?
    start_time "$server" >/dev/null || break
  done
  abandon "$run"
  exit "$rc"
fi
launch "$run/server.pid" "$run/server.log" "$BIN/gatehouse" serve
wait_ready "$LAUNCHED" 30 "$run/server.log" "https://$(probe_host "$bind"):$MCP_PORT/healthz" "${MCP_TLS_CERT:-}" ||
  { abandon "$run"; [ -n "$demo$configured" ] || note "--help shows a whole example; --demo needs no settings"; exit 1; }
trap - INT TERM HUP
print_info "$LAUNCHED" "$run/server.log" "$(listening "$run/server.log")"
warnings "$run/server.log"
