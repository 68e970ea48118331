#!/usr/bin/env bash
# The tools beside gopls, the go command, go doc and grep, on modules that nobody
# here wrote.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/test-realcode.sh [--every N] [--whole] [PART]

Fetches gopls (into the test cache) and seven modules from the module proxy, and
compares what the tools say of them. PART is a part of the name of those modules
that are wanted.

  --every N   ask gopls about every N-th name; without it each module has its own
              share, and all take some minutes. 1 asks about all: hours
  --whole     also export every type of every module and compile it, and define
              every function and type by its own source

Differences that have a reason are in toolsets/realcode/testdata/differences.txt.
HELP
}
every='' whole='' part=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --every) every=${2:?--every needs a number}; shift ;;
    --whole) whole=1 ;;
    -*) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
    *) part=$1 ;;
  esac
  shift
done
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
cd "$ROOT"
VERSION=v0.23.0 # the last one that Go 1.26 builds
need_packages git
bin=$CACHE/gopls-$VERSION
[ -x "$bin/gopls" ] || GOBIN=$bin go install "golang.org/x/tools/gopls@$VERSION" >"$WORK/install.log" 2>&1 ||
  { tail -5 "$WORK/install.log"; die "gopls could not be installed"; }
mkdir -p "$CACHE/gopls-cache"
export GATEHOUSE_GOPLS=$bin/gopls GATEHOUSE_GOPLS_CACHE=$CACHE/gopls-cache GATEHOUSE_REAL_ONLY=$part GATEHOUSE_REAL_EVERY=$every

# run NAME PACKAGE… -- TEST: a Go test, and what it says it has compared.
run() {
  local what=$1 packages=()
  shift
  while [ "$1" != -- ]; do packages+=("$1"); shift; done
  if go test -count=1 -timeout 24h -run "$2" -v "${packages[@]}" >"$WORK/out" 2>&1 && grep -q '^--- PASS' "$WORK/out"; then
    ok "$what"
    grep -E '^ +--- PASS|_test\.go:[0-9]+: ' "$WORK/out" | sed -E 's/^ *[a-z_]+_test\.go:[0-9]+: /      /'
  else
    not_ok "$what" "$(grep -vE '^=== |^ *--- PASS' "$WORK/out" | cut -c1-500 | tail -60)"
  fi
}
run "the answers of listing, browsing, search and edits" ./toolsets/realcode -- '^TestRealCode$'
if [ -n "$whole" ]; then
  GATEHOUSE_REAL_MODULES=$(sed -n 's/^\t{"\([^"]*\)", [0-9]*}.*/\1/p' toolsets/realcode/world_test.go | grep -F -- "$part" | tr '\n' ' ')
  export GATEHOUSE_REAL_MODULES
  run "every type exported, every declaration by its own source" ./toolsets/browsing ./toolsets/mutation -- 'OfRealCode'
fi
summary
