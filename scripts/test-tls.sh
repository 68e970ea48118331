#!/usr/bin/env bash
# The TLS server from outside, with curl -k, as a user would read it.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/test-tls.sh [URL [TOKEN]]

Checks handshake, protocol, sessions, refusals and the metadata document, one
line a check, and closes with "N passed, N failed". Without URL it starts the
demo on free ports with an empty state folder, and stops it at the end.

  scripts/test-tls.sh
  scripts/test-tls.sh https://localhost:8443/mcp "$(scripts/demo-token.sh alice)"
  MCP_TOKEN=… WRONG_AUDIENCE_TOKEN=… scripts/test-tls.sh https://mcp.example.com/mcp

TOOL and TOOL_ARGS (status, {}) are the tool call; an empty TOOL skips it.
HELP
}
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  -*) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
need_packages curl jq openssl

TOOL=${TOOL-status} TOOL_ARGS=${TOOL_ARGS-'{}'}
OWN=''
if [ $# -gt 0 ]; then
  URL=$1
  case $URL in https://?*) ;; *) die "'$URL': want the server's URL, such as https://mcp.example.com/mcp" ;; esac
  token=${2:-${MCP_TOKEN:-}}
  [ -n "$token" ] || die "a token is missing: give it as the second argument, or in MCP_TOKEN"
  wrong=${WRONG_AUDIENCE_TOKEN:-}
else
  OWN=1
  for name in ${!MCP_@}; do unset "$name"; done
  own_state
  MCP_PORT=$(free_port)
  MCP_DEMO_PORT=$(free_port)
  export MCP_PORT MCP_DEMO_PORT
  at_exit "$ROOT/scripts/stop-server.sh" "$MCP_PORT"
  "$ROOT/scripts/run-auth-server.sh" --demo >"$WORK/start.log" 2>&1 || { cat "$WORK/start.log"; die "the server did not start"; }
  URL=https://localhost:$MCP_PORT/mcp
  token=$("$ROOT/scripts/demo-token.sh" alice)
  wrong=$("$ROOT/scripts/demo-token.sh" alice --audience https://other.example/mcp)
fi
ORIGIN=$(sed -E 's|^(https://[^/]+).*|\1|' <<<"$URL")
PATH_OF=${URL#"$ORIGIN"}
HOSTPORT=${ORIGIN#https://}
case $HOSTPORT in *:*) ;; *) HOSTPORT=$HOSTPORT:443 ;; esac
[ "$ORIGIN" != "$URL" ] || die "$URL is no https URL with a path"
# Tokens go to curl in files: arguments can be read by every user of the machine.
(umask 077 && printf 'header = "Authorization: Bearer %s"\n' "$token" >"$WORK/good" && printf 'header = "Authorization: Bearer %s"\n' "$wrong" >"$WORK/wrong" &&
  printf 'header = "Authorization: Bearer %sx"\n' "${token%?????}" >"$WORK/bad")

# ask [CURL OPTION…]: sets STATUS; headers and body are in WORK/head and WORK/body.
ask() {
  STATUS=$(curl -k -sS --max-time 30 -D "$WORK/head" -o "$WORK/body" -w '%{http_code}' "$@" 2>"$WORK/err") || STATUS="curl: $(head -c 200 "$WORK/err")"
  tr -d '\r' <"$WORK/head" >"$WORK/headers" 2>/dev/null || : >"$WORK/headers"
}
# post BODY [CURL OPTION…]
post() {
  local body=$1
  shift
  ask -X POST -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -d "$body" "$@" "$URL"
}
header() { sed -n "s/^$1: //Ip" "$WORK/headers" | head -n 1; }
# message: the JSON-RPC message of the body, be it JSON or an event stream.
message() { if grep -qi '^content-type: text/event-stream' "$WORK/headers"; then sed -n 's/^data: *//p' "$WORK/body" | grep '^{' | tail -n 1; else cat "$WORK/body"; fi; }
# want NAME STATUS [COMMAND…]: the status, and a command that must succeed.
want() {
  local name=$1 status=$2
  shift 2
  if [ "$STATUS" != "$status" ]; then
    not_ok "$name" "status $STATUS, want $status: $(head -c 200 "$WORK/body" 2>/dev/null | tr '\n' ' ')"
  elif [ $# -gt 0 ] && ! "$@" >"$WORK/why" 2>&1; then
    not_ok "$name" "$* | $(head -n 12 "$WORK/headers" | tr '\n' ' ') $(head -c 300 "$WORK/body" | tr '\n' ' ')"
  else
    ok "$name"
  fi
}
body_has() { grep -qiE "$1" "$WORK/body"; }
challenge_is() { # PATTERN [NOT-PATTERN]
  [ "$(grep -ci '^www-authenticate:' "$WORK/headers")" = 1 ] && header www-authenticate | grep -qE "$1" && { [ -z "${2:-}" ] || ! header www-authenticate | grep -qE "$2"; }
}
message_is() { message | jq -e "$1"; }

say "TLS server at $URL"

# ---- TLS
ask --tlsv1.3 "$ORIGIN/healthz"
want "TLS 1.3 handshake" 200
ask --tlsv1.2 --tls-max 1.2 "$ORIGIN/healthz"
want "TLS 1.2 handshake" 200
for v in 1.0 1.1; do
  # The cipher level lets this curl offer such an old version at all.
  if curl -k -sS --max-time 10 --tlsv1.0 --tls-max $v --ciphers 'DEFAULT@SECLEVEL=0' -o "$WORK/body" "$ORIGIN/healthz" 2>"$WORK/err"; then not_ok "TLS $v is refused"; elif grep -qiE 'alert|protocol version' "$WORK/err"; then ok "TLS $v is refused"; else not_ok "TLS $v is refused" "$(cat "$WORK/err")"; fi
done
if [ -n "$OWN" ]; then
  ca=$MCP_STATE_DIR/tls/dev-ca.pem
  check "a development certificate was made, and its key is private" test "$(stat -c %a "$MCP_STATE_DIR/tls/server.key" "$ca" | tr '\n' ' ')" = "600 644 "
  for host in localhost 127.0.0.1 '[::1]'; do
    check "the development CA vouches for $host" curl -sS --max-time 10 --cacert "$ca" -o /dev/null "https://$host:$MCP_PORT/healthz"
  done
fi
check "the certificate is within its dates" bash -c "openssl s_client -connect '$HOSTPORT' </dev/null 2>/dev/null | openssl x509 -noout -checkend 0"
ask "http://$HOSTPORT$PATH_OF"
want "plaintext on the TLS port is refused with a sentence" 400 body_has 'https'

# ---- no token, bad tokens
INIT='{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test-tls","version":"1"}}}'
META="resource_metadata=\"$ORIGIN/.well-known/oauth-protected-resource"
post "$INIT"
want "no token: 401, challenge with metadata and scope, no error" 401 challenge_is "^Bearer .*$META.*scope=\"[^\"]+\"" 'error='
ask -H 'Accept: text/event-stream' "$URL"
want "no token on GET: 401" 401 challenge_is "^Bearer .*$META" 'error='
ask -X DELETE "$URL"
want "no token on DELETE: 401" 401 challenge_is "^Bearer .*$META" 'error='
post "$INIT" -H 'Authorization: Basic dTpw'
want "another scheme counts as no token" 401 challenge_is '^Bearer ' 'error='
post "$INIT" -H 'Authorization: Bearer nonsense'
want "a malformed token: 401 invalid_token" 401 challenge_is "^Bearer .*error=\"invalid_token\".*error_description=\"malformed token\""
post "$INIT" -K "$WORK/bad"
want "a broken signature: 401 invalid_token, and nothing about why" 401 challenge_is "^Bearer .*error=\"invalid_token\".*error_description=\"(unverifiable|malformed) token\""
if [ -n "$wrong" ]; then
  post "$INIT" -K "$WORK/wrong"
  want "a token for another audience: 401 invalid_token" 401 challenge_is "^Bearer .*error=\"invalid_token\".*error_description=\"wrong audience\""
else
  say "skip  a token for another audience: WRONG_AUDIENCE_TOKEN is not set"
fi
if [ -n "$OWN" ]; then
  for kind in expired:--life=-1h 'scopeless:--scope='; do
    t=$("$ROOT/scripts/demo-token.sh" alice "${kind#*:}")
    (umask 077 && printf 'header = "Authorization: Bearer %s"\n' "$t" >"$WORK/other")
    post "$INIT" -K "$WORK/other"
    case $kind in
      expired*) want "an expired token: 401 invalid_token" 401 challenge_is "^Bearer .*error=\"invalid_token\".*error_description=\"expired\"" ;;
      *) want "a token without the scope: 403 insufficient_scope" 403 challenge_is "^Bearer .*error=\"insufficient_scope\".*scope=\"[^\"]+\"" ;;
    esac
  done
fi
ask -K "$WORK/good" -H 'Origin: https://evil.example' "$URL"
want "a foreign Origin: 403 before anything else" 403

# ---- the metadata document (RFC 9728)
ask "$ORIGIN/.well-known/oauth-protected-resource"
# shellcheck disable=SC2016 # $u is a variable of jq
want "metadata at the root form" 200 jq -e --arg u "$URL" '.resource == $u and (.authorization_servers | length > 0) and (.scopes_supported | length > 0) and .bearer_methods_supported == ["header"] and (.resource_name | type == "string") and (has("jwks_uri") | not)' "$WORK/body"
cp "$WORK/body" "$WORK/root.json"
ask "$ORIGIN/.well-known/oauth-protected-resource$PATH_OF"
want "metadata at the path form, the same bytes" 200 cmp "$WORK/body" "$WORK/root.json"
ask "$ORIGIN/.well-known/oauth-authorization-server"
want "other well-known paths: a JSON 404" 404 jq -e . "$WORK/body"
ask -X POST -d '{}' "$ORIGIN/register"
want "POST /register at our origin: 404" 404

# ---- a session
post "$INIT" -K "$WORK/good"
SESSION=$(header mcp-session-id)
want "initialize" 200 message_is '.id == 0 and .result.protocolVersion == "2025-11-25"'
if [ -n "$SESSION" ]; then ok "initialize gives a session id"; else not_ok "initialize gives a session id"; fi
S=(-K "$WORK/good" -H "Mcp-Session-Id: $SESSION" -H 'MCP-Protocol-Version: 2025-11-25')
post '{"jsonrpc":"2.0","method":"notifications/initialized"}' "${S[@]}"
want "notifications/initialized: 202" 202
post '{"jsonrpc":"2.0","id":"list-1","method":"tools/list"}' "${S[@]}"
want "tools/list, its string id intact" 200 message_is '.id == "list-1" and (.result.tools | length > 0)'
if [ -n "$TOOL" ]; then
  post "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"$TOOL\",\"arguments\":$TOOL_ARGS}}" "${S[@]}"
  want "tools/call $TOOL reaches the worker" 200 message_is '.id == 2 and (.result.content | length > 0) and (.result.isError != true)'
fi
# The stream stays open: curl ends it after two seconds (exit status 28).
rc=0
curl -k -sS -N --max-time 2 -D "$WORK/head" -o "$WORK/body" "${S[@]}" -H 'Accept: text/event-stream' "$URL" 2>/dev/null || rc=$?
tr -d '\r' <"$WORK/head" >"$WORK/headers"
if [ $rc = 28 ] && grep -q ' 200' "$WORK/headers" && header content-type | grep -q '^text/event-stream'; then ok "GET opens an event stream that stays open"; else not_ok "GET opens an event stream" "curl $rc, $(head -n 1 "$WORK/headers")"; fi
post '{"jsonrpc":"2.0","id":3,"method":"ping"}' -K "$WORK/good" -H 'Mcp-Session-Id: AAAAAAAAAAAAAAAAAAAAAA' -H 'MCP-Protocol-Version: 2025-11-25'
want "an unknown session: 404" 404
cp "$WORK/body" "$WORK/unknown.json"
if [ -n "$OWN" ]; then
  (umask 077 && printf 'header = "Authorization: Bearer %s"\n' "$("$ROOT/scripts/demo-token.sh" bob)" >"$WORK/bob")
  post '{"jsonrpc":"2.0","id":3,"method":"ping"}' -K "$WORK/bob" -H "Mcp-Session-Id: $SESSION" -H 'MCP-Protocol-Version: 2025-11-25'
  want "a stranger's session: 404, the same bytes" 404 cmp "$WORK/body" "$WORK/unknown.json"
fi
post '{"jsonrpc":"2.0","id":4,"method":"ping"}' -K "$WORK/good" -H 'MCP-Protocol-Version: 2025-11-25'
want "no session id: 400" 400
ask -X DELETE "${S[@]}" "$URL"
want "DELETE: 200" 200
post '{"jsonrpc":"2.0","id":5,"method":"ping"}' "${S[@]}"
want "the session after DELETE: 404" 404

if [ -n "$OWN" ]; then
  check "stop-server.sh leaves nothing" "$ROOT/scripts/stop-server.sh" "$MCP_PORT"
  ask "$ORIGIN/healthz"
  if [[ $STATUS == curl:* ]]; then ok "the port is free again"; else not_ok "the port is free again" "$STATUS"; fi
fi
summary
