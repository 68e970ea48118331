#!/usr/bin/env bash
# The public MCP conformance suite, both requirement sets, against one running front
# end on one port with one and the same stdio worker behind it.
set -euo pipefail
usage() {
  cat <<'EOF'
usage: scripts/test-conformance.sh [loopback] [auth]

  loopback   our server without tokens, cleartext on loopback
  auth       our server with TLS and tokens (the demo issuer; as root every
             worker runs as the token's account), through a test-only hop
             that adds the token, because the suite has no token option

Without an argument: both. Every set runs against every worker:

  REQUIREMENTS  the sets (default "2025-11-25 2026-07-28")
  WORKERS       the stdio workers (default "both legacy modern"):
                  both    the official Go SDK's everything-server, unmodified
                  legacy  the same, refusing everything of the modern era
                  modern  the same, refusing initialize and what follows it
  EXPECT        how many checks of 2025-11-25 must pass at least (default 82;
                one more where the polling scenario gets a stream to poll)

No required check may fail. What a set does not score is reported as it is.
EOF
}
for arg in "$@"; do
  case $arg in
    -h | --help) usage; exit 0 ;;
    loopback | auth) ;;
    *) echo "${0##*/}: unknown argument $arg" >&2; usage >&2; exit 2 ;;
  esac
done
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"

REQUIREMENTS=${REQUIREMENTS:-2025-11-25 2026-07-28}
WORKERS=${WORKERS:-both legacy modern}
EXPECT=${EXPECT:-82}
modes=("$@")
[ ${#modes[@]} -gt 0 ] || modes=(loopback auth)

own_state
need_node
npm_cached conformance @modelcontextprotocol/conformance@0.2.0-alpha.12
SUITE=$CACHE/conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js

# The worker lies where the accounts that run it may execute it.
if [ "$(id -u)" = 0 ]; then BIN=/usr/local/libexec/gatehouse-test.$$; else BIN=$WORK/bin; fi
mkdir -p "$BIN"
chmod 755 "$BIN"
at_exit rm -rf "$BIN"
(cd "$ROOT" && CGO_ENABLED=0 go build -o "$BIN/everything-server" github.com/modelcontextprotocol/go-sdk/conformance/everything-server)
(cd "$ROOT" && CGO_ENABLED=0 go build -o "$BIN/eraworker" ./scripts/eraworker)
chmod 755 "$BIN/everything-server" "$BIN/eraworker"

# worker_command NAME: the worker's argv as JSON.
worker_command() {
  case $1 in
    both) echo "[\"$BIN/everything-server\"]" ;;
    legacy | modern) echo "[\"$BIN/eraworker\",\"$1\",\"$BIN/everything-server\"]" ;;
    *) die "WORKERS: there is no worker $1; there are both, legacy, modern" ;;
  esac
}

# suite NAME URL SET: runs the set. The suite's exit status says whether a scored
# check failed; its closing line counts those that are not scored as well.
suite() {
  local out=$WORK/$1-$3.out rc=0 line passed
  timeout 300 "$NODE" "$SUITE" server --url "$2" --requirements "$3" >"$out" 2>&1 || rc=$?
  line=$(grep -aEo '[0-9]+ passed, [0-9]+ failed' "$out" | tail -1)
  passed=${line%% *}
  if [ "$3" = 2025-11-25 ]; then
    [ "$line" = "$passed passed, 0 failed" ] && [ "${passed:-0}" -ge "$EXPECT" ] || rc=1
  fi
  if [ "$rc" = 0 ]; then
    ok "conformance $3, $1 ($line$(grep -aEo '^Not scored.*' "$out" | sed 's/^Not scored for [^:]*:/, of which not scored:/; s/These do not.*//; s/^/ /'))"
  else
    not_ok "conformance $3, $1" "exit $rc, ${line:-no closing line}"
    grep -aE '✗|FAIL|❌|Error:' "$out" | head -20 || tail -20 "$out"
  fi
}

# sets NAME URL: all sets, one after the other, against the same running server.
sets() {
  local set
  for set in $REQUIREMENTS; do suite "$1" "$2" "$set"; done
}

for mode in "${modes[@]}"; do
  for worker in $WORKERS; do
    port=$(free_port)
    export MCP_PORT=$port
    MCP_WORKER_COMMAND=$(worker_command "$worker")
    export MCP_WORKER_COMMAND
    case $mode in
      loopback)
        "$ROOT/scripts/run-server.sh" >"$WORK/start.log" 2>&1 || { cat "$WORK/start.log"; die "the server did not start"; }
        at_exit "$ROOT/scripts/stop-server.sh" "$port"
        sets "$mode-$worker" "http://localhost:$port/mcp"
        ;;
      auth)
        "$ROOT/scripts/run-auth-server.sh" --demo >"$WORK/start.log" 2>&1 || { cat "$WORK/start.log"; die "the server did not start"; }
        at_exit "$ROOT/scripts/stop-server.sh" "$port"
        "$ROOT/scripts/demo-token.sh" alice >"$WORK/token"
        ca=$(grep -aEo 'NODE_EXTRA_CA_CERTS=[^ "]+' "$WORK/start.log" | head -1 | cut -d= -f2)
        (cd "$ROOT" && go build -o "$WORK/hop" ./scripts/hop)
        : >"$WORK/hop.addr"
        "$WORK/hop" -to "https://localhost:$port" -ca "$ca" -token-file "$WORK/token" >"$WORK/hop.addr" 2>"$WORK/hop.log" &
        at_exit kill $!
        for _ in $(seq 50); do [ -s "$WORK/hop.addr" ] && break; sleep 0.1; done
        hop=$(cat "$WORK/hop.addr")
        sets "$mode-$worker" "http://localhost:${hop##*:}/mcp"
        ;;
    esac
    "$ROOT/scripts/stop-server.sh" "$port" >/dev/null
  done
done
summary
