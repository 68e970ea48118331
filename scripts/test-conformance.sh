#!/usr/bin/env bash
# The public MCP conformance suite against our front end, with the official Go
# SDK's everything-server, unmodified, as the stdio worker.
set -euo pipefail
usage() {
  cat <<'EOF'
usage: scripts/test-conformance.sh [loopback] [auth]

  loopback   our server without tokens, cleartext on loopback
  auth       our server with TLS and tokens (the demo issuer; as root every
             worker runs as the token's account), through a test-only hop
             that adds the token, because the suite has no token option

Without an argument: both. REQUIREMENTS (default 2025-11-25) names the set.
EXPECT (default 83) is how many checks must pass; none may fail.
EOF
}
case ${1:-} in -h | --help) usage; exit 0 ;; esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"

REQUIREMENTS=${REQUIREMENTS:-2025-11-25}
EXPECT=${EXPECT:-83}
modes=("$@")
[ ${#modes[@]} -gt 0 ] || modes=(loopback auth)

need_node
npm_cached conformance @modelcontextprotocol/conformance@0.2.0-alpha.12
SUITE=$CACHE/conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js

# The worker lies where the accounts that run it may execute it.
if [ "$(id -u)" = 0 ]; then BIN=/usr/local/libexec/gatehouse-test.$$; else BIN=$WORK/bin; fi
mkdir -p "$BIN"
chmod 755 "$BIN"
at_exit rm -rf "$BIN"
(cd "$ROOT" && CGO_ENABLED=0 go build -o "$BIN/everything-server" github.com/modelcontextprotocol/go-sdk/conformance/everything-server)
chmod 755 "$BIN/everything-server"
export MCP_WORKER_COMMAND="[\"$BIN/everything-server\"]"

# suite NAME URL: runs the set and compares the suite's own closing line.
suite() {
  local out=$WORK/$1.out rc=0 line
  timeout 300 "$NODE" "$SUITE" server --url "$2" --requirements "$REQUIREMENTS" >"$out" 2>&1 || rc=$?
  line=$(grep -aEo '[0-9]+ passed, [0-9]+ failed' "$out" | tail -1)
  if [ "$rc" = 0 ] && [ "$line" = "$EXPECT passed, 0 failed" ]; then
    ok "conformance $REQUIREMENTS, $1 ($line)"
  else
    not_ok "conformance $REQUIREMENTS, $1" "exit $rc, ${line:-no closing line}, wanted $EXPECT passed, 0 failed"
    grep -aE '✗|FAIL|❌' "$out" | head -20 || tail -20 "$out"
  fi
}

for mode in "${modes[@]}"; do
  port=$(free_port)
  export MCP_PORT=$port
  case $mode in
    loopback)
      "$ROOT/scripts/run-server.sh" >"$WORK/start.log" 2>&1 || { cat "$WORK/start.log"; die "the server did not start"; }
      at_exit "$ROOT/scripts/stop-server.sh" "$port"
      suite loopback "http://localhost:$port/mcp"
      ;;
    auth)
      "$ROOT/scripts/run-auth-server.sh" --demo >"$WORK/start.log" 2>&1 || { cat "$WORK/start.log"; die "the server did not start"; }
      at_exit "$ROOT/scripts/stop-server.sh" "$port"
      "$ROOT/scripts/demo-token.sh" alice >"$WORK/token"
      ca=$(grep -aEo 'NODE_EXTRA_CA_CERTS=[^ "]+' "$WORK/start.log" | head -1 | cut -d= -f2)
      (cd "$ROOT" && go build -o "$WORK/hop" ./scripts/hop)
      "$WORK/hop" -to "https://localhost:$port" -ca "$ca" -token-file "$WORK/token" >"$WORK/hop.addr" 2>"$WORK/hop.log" &
      at_exit kill $!
      for _ in $(seq 50); do [ -s "$WORK/hop.addr" ] && break; sleep 0.1; done
      hop=$(cat "$WORK/hop.addr")
      suite auth "http://localhost:${hop##*:}/mcp"
      ;;
    *) usage >&2; exit 2 ;;
  esac
  "$ROOT/scripts/stop-server.sh" "$port" >/dev/null
done
summary
