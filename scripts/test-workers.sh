#!/usr/bin/env bash
# Any stdio MCP server works as a worker, unmodified: the official Go SDK's
# everything-server, the reference server-everything (TypeScript), and one on the
# official Python SDK of today and of 2024. Each is listed and called through the
# front end by a client of either era, which answers what it is asked.
set -euo pipefail
usage() { echo "usage: scripts/test-workers.sh   (starts the loopback server on free ports, once a worker)"; }
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  ?*) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"

own_state
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
# python_venv FOLDER PACKAGE…: an environment that the workers' account may use.
python_venv() {
  /usr/bin/python3 -m venv --copies "$BIN/$1"
  "$BIN/$1/bin/pip" -q install --disable-pip-version-check "${@:2}"
}
python_venv python mcp==2.3.0
python_venv python-2024 mcp==1.2.0 pydantic==2.10.6 # protocol 2024-11-05; of the newer pydantic it has not heard
cp "$ROOT"/scripts/testdata/python-worker*.py "$BIN/"
chmod -R a+rX,go-w "$BIN"

# worker NAME COMMAND (TOOL ARGUMENTS WANT)…: list and call through the front end.
worker() {
  local name=$1 port out era version
  port=$(free_port)
  if ! MCP_PORT=$port MCP_WORKER_COMMAND=$2 "$ROOT/scripts/run-server.sh" >"$WORK/start.log" 2>&1; then
    not_ok "$name: the server starts" "$(tail -3 "$WORK/start.log")"
    return
  fi
  at_exit "$ROOT/scripts/stop-server.sh" "$port"
  shift 2
  while [ $# -gt 0 ]; do
    for era in legacy auto; do
      if [ $era = legacy ]; then version=2025-11-25; else version=2026-07-28; fi
      out=$("$WORK/goclient" -url "http://localhost:$port/mcp" -tool "$1" -args "$2" -era "$era" 2>&1) || true
      if grep -q "^protocol $version" <<<"$out" && grep -q "$3" <<<"$out"; then
        ok "$name, client of $version: $1"
      else
        not_ok "$name, client of $version: $1" "$(tr '\n' ' ' <<<"$out")"
      fi
    done
    shift 3
  done
  check "$name: stops" "$ROOT/scripts/stop-server.sh" "$port"
}
worker "Go SDK everything-server" "[\"$BIN/everything-server\"]" \
  test_simple_text '{}' 'simple text'
worker "server-everything" "[\"$BIN/node\", \"$BIN/node_modules/@modelcontextprotocol/server-everything/dist/index.js\", \"stdio\"]" \
  echo '{"message":"through the door"}' 'through the door' \
  trigger-elicitation-request '{}' 'Ann' \
  trigger-sampling-request '{"prompt":"Say"}' 'said' \
  trigger-long-running-operation '{"duration":1,"steps":2}' 'Steps: 2'
worker "Python SDK server" "[\"$BIN/python/bin/python3\", \"-I\", \"$BIN/python-worker.py\"]" \
  whoami '{}' 'uid='
worker "Python SDK server of 2024" "[\"$BIN/python-2024/bin/python3\", \"-I\", \"$BIN/python-worker-2024.py\"]" \
  whoami '{}' 'uid=' ask '{}' 'said'
summary
