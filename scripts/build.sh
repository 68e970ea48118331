#!/usr/bin/env bash
# Builds every program of this checkout. What is current is not built again.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/build.sh [DIR]

Builds gatehouse, gatehouse-monitor, gatehouse-keykeeper, gatehouse-worker and
gatehouse-demo into DIR (default: bin/ of this checkout), without cgo.

  scripts/build.sh                     # bin/gatehouse and the others
  scripts/build.sh /tmp/gatehouse-bin  # somewhere else
HELP
}
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  -*) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
esac
if [ $# -gt 1 ]; then echo "${0##*/}: unknown argument $2" >&2; usage >&2; exit 2; fi
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
build_programs "${1:-$ROOT/bin}"
