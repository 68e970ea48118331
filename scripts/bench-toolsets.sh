#!/usr/bin/env bash
# What the toolsets cost beside gopls and ripgrep, on one module, in one run.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/bench-toolsets.sh [--rounds N] [--write PAGE]

Prints, for golang.org/x/tools (some 200 packages): the first answer after the
start, references and implementations when warm, references after an edit,
memory, text search, and the opening of a view of 10,000 files beside "git clone
--shared". Machines differ and are shared: only the ratios of one table count.
--write puts the table between its markers into PAGE (docs/performance.md).
gopls (v0.23.0) and ripgrep are installed if they are missing.
HELP
}
rounds=15 page=""
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --write) page=$(realpath "$2"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
  esac
done
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
cd "$ROOT"
need_packages ripgrep:rg git
gopls=$CACHE/gopls-0.23.0
[ -x "$gopls/gopls" ] || GOBIN=$gopls go install golang.org/x/tools/gopls@v0.23.0
PATH=$gopls:$PATH
work=$WORK
at_exit chmod -R u+w "$work"
CGO_ENABLED=0 go build -trimpath -o "$work/" ./cmd/gatehouse-worker ./scripts/bench/toolsets

# x/tools as the module cache has it, as a checkout and as a bare repository.
cp -r "$(go list -m -f '{{.Dir}}' golang.org/x/tools)" "$work/checkout"
chmod -R u+w "$work/checkout"
seed() { # DIR BARE
  export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
  git -C "$1" init --quiet --initial-branch=main
  git -C "$1" add --all --force
  git -C "$1" -c user.name=bench -c user.email=bench@localhost commit --quiet -m seed
  git clone --quiet --bare "$1" "$2"
}
seed "$work/checkout" "$work/tools.git"
report=$ROOT/scripts/bench/tables/report.py
PYTHONDONTWRITEBYTECODE=1 python3 "$report" "medians of $rounds questions" >"$work/table"
GOPLSCACHE=$work/gopls-cache "$work/toolsets" -worker "$work/gatehouse-worker" -repo "$work/tools.git" -dir "$work/checkout" -rounds "$rounds" | tee -a "$work/table"

# A view of 10,000 files.
mkdir "$work/many"
printf 'module example.com/many\n\ngo 1.24\n' >"$work/many/go.mod"
printf 'package many\n' >"$work/many/a.go"
for i in $(seq 100); do
  mkdir "$work/many/d$i"
  for j in $(seq 100); do echo "$i $j" >"$work/many/d$i/f$j.txt"; done
done
seed "$work/many" "$work/many.git"
"$work/toolsets" -worker "$work/gatehouse-worker" -repo "$work/many.git" -open | tee -a "$work/table"
[ -z "$page" ] || PYTHONDONTWRITEBYTECODE=1 python3 "$report" "$page" toolsets <"$work/table"
