#!/usr/bin/env bash
# Starts the loopback server: no token, cleartext, this machine only.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/run-server.sh [--foreground]
       scripts/run-server.sh --check     tests these settings; starts nothing

Starts the server without tokens, in the background, on 127.0.0.1 and ::1, waits
until it answers and prints how to connect. Any user of this machine can use it.

  scripts/run-server.sh                     # http://localhost:8000/mcp
  MCP_PORT=9000 scripts/run-server.sh       # another port
  MCP_WORKSPACE=~/code scripts/run-server.sh   # the tools work on your repository; else on a small sample
  MCP_WORKER_COMMAND='["/usr/bin/my-mcp-server"]' scripts/run-server.sh
  scripts/run-server.sh --foreground        # stays; Ctrl-C ends it
  scripts/stop-server.sh 8000               # stops it

Every other setting is an MCP_ variable too: docs/config.md. Workers run as you;
when root starts the server they run as MCP_WORKER_USER (gatehouse-worker).
HELP
}
foreground='' check='' options=()
while [ $# -gt 0 ]; do
  case $1 in
    --foreground) foreground=1 ;;
    --check) check=1 options=("${@:2}"); break ;;
    -h | --help) usage; exit 0 ;;
    *) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export MCP_MODE=loopback
settle_state
if [ -n "$check" ]; then
  prepare_programs
  exec "$BIN/gatehouse" check "${options[@]}"
fi
read_config
MCP_PORT=${MCP_PORT:-$(config_value listen.port)}
export MCP_PORT=${MCP_PORT:-8000}
run=$RUNS/$MCP_PORT
path=${MCP_PATH:-$(config_value 'servers[0].path')}
url=http://localhost:$MCP_PORT${path:-/mcp}
bind=${MCP_BIND_ADDRESS:-$(config_value listen.bind_address)}

check_port "$MCP_PORT"
prepare_programs
prepare_state
if am_root; then ensure_system_users; fi

sample_workspace sample.git
trap 'abandon "$run"; exit 130' INT TERM HUP
begin_run "$run" loopback "$url"

print_info() {
  cat <<INFO

Gatehouse (loopback, no tokens)
  URL        $url
  listens    $3
  pid        $1
  log        $2
  stop       $ROOT/scripts/stop-server.sh $MCP_PORT
${SAMPLE:+  workspace  $SAMPLE  (a sample; MCP_WORKSPACE names your own repository)
}
Connect Claude Code:
  claude mcp add --transport http gatehouse $url
INFO
}

if [ -n "$foreground" ]; then
  print_info $$ "this terminal" "port $MCP_PORT"
  write_pid "$run/server.pid" $$
  exec "$BIN/gatehouse" serve
fi
launch "$run/server.pid" "$run/server.log" "$BIN/gatehouse" serve
wait_ready "$LAUNCHED" 30 "$run/server.log" "http://$(probe_host "$bind"):$MCP_PORT/healthz" || { abandon "$run"; exit 1; }
trap - INT TERM HUP
print_info "$LAUNCHED" "$run/server.log" "$(listening "$run/server.log")"
start_warnings "$run/server.log"
