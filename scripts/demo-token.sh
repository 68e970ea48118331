#!/usr/bin/env bash
# Prints an access token of the running demo, and nothing else.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/demo-token.sh USER [OPTION…]

Prints an access token of the running demo for alice or bob: good for 12 hours.

  scripts/demo-token.sh alice
  curl -H "Authorization: Bearer $(scripts/demo-token.sh bob)" …
  MCP_PORT=9443 scripts/demo-token.sh alice       # when several demos run

To see tokens refused:
  scripts/demo-token.sh alice --audience https://other.example/mcp
  scripts/demo-token.sh alice --life=-1h          # has expired
  scripts/demo-token.sh alice --scope ''          # without mcp:use
HELP
}
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  '') usage >&2; exit 2 ;;
  -*) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
esac
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# demo_state: the state folder of the demo that is meant.
demo_state() {
  local run found=()
  if [ -n "${MCP_PORT:-}" ]; then
    info "$RUNS/$MCP_PORT" demo_state
    return
  fi
  for run in "$RUNS"/*; do
    if read_pid "$run/demo.pid" >/dev/null; then found+=("$run"); fi
  done
  [ ${#found[@]} -le 1 ] || die "several demos run; choose one with MCP_PORT: ${found[*]##*/}"
  [ ${#found[@]} = 0 ] || info "${found[0]}" demo_state
}
state=$(demo_state)
if [ -z "$state" ]; then
  if ! am_root && [ -d /var/lib/gatehouse/run ]; then hint=" (or, when root started it: sudo scripts/demo-token.sh $1)"; fi
  die "no demo is running${MCP_PORT:+ on port $MCP_PORT}: start one with scripts/run-auth-server.sh --demo${hint:-}"
fi
user=$1
shift
exec "$BIN/gatehouse-demo" token --state "$state" --user "$user" "$@"
