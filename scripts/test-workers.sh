#!/usr/bin/env bash
# Any stdio MCP server works as a worker, unmodified: the official Go SDK's
# everything-server, the reference server-everything (TypeScript) and one on the
# official Python SDK, each listed and called through the front end.
set -euo pipefail
case ${1:-} in
  -h | --help)
    echo "usage: scripts/test-workers.sh   (starts the loopback server on free ports, once a worker)"
    exit 0
    ;;
esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"

need_packages curl jq
need_node
npm_cached everything @modelcontextprotocol/server-everything

# Where the account that runs the workers may execute them.
if [ "$(id -u)" = 0 ]; then BIN=/usr/local/libexec/gatehouse-test.$$; else BIN=$WORK/bin; fi
install -d -m 755 "$BIN"
at_exit rm -rf "$BIN"
(cd "$ROOT" && CGO_ENABLED=0 go build -o "$BIN/everything-server" github.com/modelcontextprotocol/go-sdk/conformance/everything-server && go build -o "$WORK/goclient" ./scripts/goclient)
cp "$NODE" "$BIN/node"
cp -r "$CACHE/everything/node_modules" "$BIN/node_modules"
if ! /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null; then
  [ "$(id -u)" = 0 ] || die "missing Python's venv; run: sudo apt-get install python3-venv"
  apt-get update -qq >/dev/null || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
fi
/usr/bin/python3 -m venv --copies "$BIN/python"
"$BIN/python/bin/pip" -q install --disable-pip-version-check mcp==2.3.0
cp "$ROOT/scripts/testdata/python-worker.py" "$BIN/"
chmod -R a+rX,go-w "$BIN"

# worker NAME COMMAND TOOL ARGUMENTS WANT: list and call through the front end.
worker() {
  local port out
  port=$(free_port)
  if ! MCP_PORT=$port MCP_WORKER_COMMAND=$2 "$ROOT/scripts/run-server.sh" >"$WORK/start.log" 2>&1; then
    not_ok "$1: the server starts" "$(tail -3 "$WORK/start.log")"
    return
  fi
  at_exit "$ROOT/scripts/stop-server.sh" "$port"
  for era in legacy auto; do
    out=$("$WORK/goclient" -url "http://localhost:$port/mcp" -tool "$3" -args "$4" -era "$era" 2>&1) || true
    if grep -q "$5" <<<"$out"; then ok "$1 ($era): $3 answers"; else not_ok "$1 ($era): $3" "$(tr '\n' ' ' <<<"$out")"; fi
  done
  check "$1: stops" "$ROOT/scripts/stop-server.sh" "$port"
}
worker "Go SDK everything-server" "[\"$BIN/everything-server\"]" test_simple_text '{}' 'simple text'
worker "server-everything" "[\"$BIN/node\", \"$BIN/node_modules/@modelcontextprotocol/server-everything/dist/index.js\", \"stdio\"]" echo '{"message":"through the door"}' 'through the door'
worker "Python SDK server" "[\"$BIN/python/bin/python3\", \"-I\", \"$BIN/python-worker.py\"]" whoami '{}' 'uid='
summary
