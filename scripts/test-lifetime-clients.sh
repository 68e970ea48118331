#!/usr/bin/env bash
# The official TypeScript and Python SDKs through us: progress, cancel, sampling and
# elicitation answered, a GET stream that breaks and is given back, a session that ended.
set -euo pipefail
usage() { echo "usage: scripts/test-lifetime-clients.sh   (needs node, python3 and, the first time, the package registries)"; }
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  ?*) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
HERE=$ROOT/scripts/clients
# shellcheck source=scripts/clients/drivers.sh
. "$HERE/drivers.sh"
need_node
npm_cached typescript-sdks @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0
python_cached python-mcp mcp==2.3.0

DIR=$WORK/world
if [ "$(id -u)" = 0 ]; then
  DIR=/var/lib/gatehouse-sdks.$$
  for u in gatehouse gatehouse-worker; do
    getent passwd $u >/dev/null || useradd -r -M -d /nonexistent -s /bin/sh $u
  done
fi
mkdir -p "$DIR/bin" "$DIR/state"
chmod 755 "$DIR" "$DIR/bin"
at_exit rm -rf "$DIR"
(cd "$ROOT" && CGO_ENABLED=0 go build -o "$DIR/bin/" ./cmd/gatehouse ./cmd/gatehouse-monitor ./cmd/gatehouse-worker ./scripts/chaos \
  github.com/modelcontextprotocol/go-sdk/conformance/everything-server)
chmod 755 "$DIR"/bin/*
PORT=$(free_port)
cat >"$DIR/gatehouse.yaml" <<EOF
mode: loopback
state_dir: $DIR/state
listen: {port: $PORT}
operators: {socket: $DIR/op.sock}
servers:
  - {path: /mcp, worker: {command: ["$DIR/bin/chaos", worker]}}
  - {path: /every, worker: {command: ["$DIR/bin/everything-server"]}}
EOF
chmod 600 "$DIR/gatehouse.yaml"
"$DIR/bin/gatehouse" serve --config "$DIR/gatehouse.yaml" >"$WORK/log" 2>&1 &
SERVER=$!
at_exit kill "$SERVER"
for _ in $(seq 100); do
  if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then break; fi
  sleep 0.1
done

export URL=http://127.0.0.1:$PORT MODULES=$CACHE/typescript-sdks
# client NAME COMMAND…: runs one.
client() {
  local name=$1
  shift
  if timeout 90 "$@" >"$WORK/out" 2>&1; then ok "$name ($(grep -c '^ok' "$WORK/out") steps)"; else
    not_ok "$name" "see below"
    cat "$WORK/out"
  fi
}
SDK=v1 client "TypeScript SDK 1" "$NODE" "$HERE/lifetime.mjs"
SDK=v2 client "TypeScript SDK 2" "$NODE" "$HERE/lifetime.mjs"
client "Python SDK" "$CACHE/python-mcp/bin/python" "$HERE/lifetime.py"
summary
