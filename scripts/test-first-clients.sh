#!/usr/bin/env bash
# The first two clients, as a newcomer meets them: Claude Code and the official
# Go SDK connect through TLS, with the development CA and a bearer header.
set -euo pipefail
usage() { echo "usage: scripts/test-first-clients.sh   (starts scripts/run-auth-server.sh --demo on a free port, stops it at the end)"; }
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  ?*) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"

need_node
npm_cached claude @anthropic-ai/claude-code
CLAUDE=$CACHE/claude/node_modules/.bin/claude

port=$(free_port)
export MCP_PORT=$port
own_state
"$ROOT/scripts/run-auth-server.sh" --demo >"$WORK/start.log" 2>&1 || { cat "$WORK/start.log"; die "the server did not start"; }
at_exit "$ROOT/scripts/stop-server.sh" "$port"
ca=$(grep -aEo 'NODE_EXTRA_CA_CERTS=[^ "]+' "$WORK/start.log" | head -1 | cut -d= -f2)
url=https://localhost:$port/mcp
"$ROOT/scripts/demo-token.sh" alice >"$WORK/alice"
"$ROOT/scripts/demo-token.sh" bob >"$WORK/bob"
check "demo-token.sh prints one token and nothing else" grep -qxE '[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+' "$WORK/alice"

# Claude Code keeps its settings in HOME; it gets one of its own.
mkdir -p "$WORK/home"
claude() { HOME=$WORK/home NODE_EXTRA_CA_CERTS=$ca DISABLE_TELEMETRY=1 DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 timeout 120 "$CLAUDE" "$@" </dev/null; }
(cd "$WORK/home" && claude mcp add --transport http gatehouse "$url" --header "Authorization: Bearer $(cat "$WORK/alice")") >"$WORK/add.out" 2>&1 || cat "$WORK/add.out"
(cd "$WORK/home" && claude mcp list) >"$WORK/list.out" 2>&1 || true
if grep -q 'gatehouse.*✔ Connected' "$WORK/list.out"; then ok "claude mcp list says ✔ Connected"; else not_ok "claude mcp list" "$(tr '\n' ' ' <"$WORK/list.out")"; fi
(cd "$WORK/home" && claude mcp remove gatehouse && claude mcp add --transport http gatehouse "$url" --header "Authorization: Bearer nonsense") >/dev/null 2>&1 || true
(cd "$WORK/home" && claude mcp list) >"$WORK/list.out" 2>&1 || true
if grep -q 'gatehouse' "$WORK/list.out" && ! grep -q '✔ Connected' "$WORK/list.out"; then ok "claude mcp list with a bad token does not say Connected"; else not_ok "claude mcp list with a bad token" "$(tr '\n' ' ' <"$WORK/list.out")"; fi

(cd "$ROOT" && go build -o "$WORK/goclient" ./scripts/goclient)
for user in alice bob; do
  for era in legacy auto; do
    if "$WORK/goclient" -url "$url" -ca "$ca" -token-file "$WORK/$user" -tool status -era "$era" >"$WORK/go.out" 2>&1; then
      if [ "$(id -u)" != 0 ] || grep -q "gatehouse-$user" "$WORK/go.out"; then
        ok "Go SDK client ($era): lists tools, calls status as $user"
      else
        not_ok "Go SDK client ($era) as $user" "status does not name gatehouse-$user: $(tr '\n' ' ' <"$WORK/go.out")"
      fi
    else
      not_ok "Go SDK client ($era) as $user" "$(tr '\n' ' ' <"$WORK/go.out")"
    fi
  done
done
call() { "$WORK/goclient" -url "$url" -ca "$ca" -token-file "$WORK/$1" -tool "$2" -args "$3" -era legacy >"$WORK/go.out" 2>&1; }
# sampled USER: the tools of that person see the sample's code and run it.
sampled() {
  call "$1" list_packages '{}' && grep -q 'example.com/sample/greet' "$WORK/go.out" &&
    call "$1" execute_code '{"code":"greet.All(greet.Short{}, \"Ada\")"}' && grep -q 'Hi Ada' "$WORK/go.out"
}
for user in alice bob; do
  if sampled $user; then ok "the demo's tools have a sample to work on, as $user"; else not_ok "the demo's sample as $user" "$(tr '\n' ' ' <"$WORK/go.out")"; fi
done
if [ "$(id -u)" = 0 ]; then
  rights=$(stat -c '%a %G' "$MCP_STATE_DIR/demo-sample.git")
  if [ "$rights" = "2775 gatehouse-demo-code" ]; then ok "alice and bob share it by a group"; else not_ok "alice and bob share it by a group" "$rights"; fi
fi
echo nonsense >"$WORK/bad"
rc=0
"$WORK/goclient" -url "$url" -ca "$ca" -token-file "$WORK/bad" >"$WORK/go.out" 2>&1 || rc=$?
if [ "$rc" = 3 ]; then ok "Go SDK client with a bad token is refused"; else not_ok "Go SDK client with a bad token" "exit $rc"; fi
check "stop-server.sh leaves nothing" "$ROOT/scripts/stop-server.sh" "$port"
summary
