#!/usr/bin/env bash
# A server under 32 clients that behave badly, workers that behave worse, and an
# operator who reloads all the time. At the end nothing may be left.
set -euo pipefail
usage() {
  cat <<'EOF'
usage: scripts/test-chaos.sh [--minutes N] [--seed N]

Builds the programs into a scratch folder, runs for 3 minutes (--minutes) after a
warm-up of 30 s, and prints the seed, with which --seed makes the same choices.
As root workers run as gatehouse-worker.
EOF
}
more=("$@")
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --minutes | --seed) shift $(($# < 2 ? 1 : 2)) ;;
    *) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
  esac
done
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"

DIR=$WORK/world
if [ "$(id -u)" = 0 ]; then
  # Files that decide over others must lie where nobody else can write.
  DIR=/var/lib/gatehouse-chaos.$$
  for u in gatehouse gatehouse-keys gatehouse-worker; do
    getent passwd $u >/dev/null || useradd -r -M -d /nonexistent -s /bin/sh $u
  done
fi
mkdir -p "$DIR/bin" "$DIR/tls"
chmod 755 "$DIR" "$DIR/bin"
at_exit rm -rf "$DIR"
(cd "$ROOT" && CGO_ENABLED=0 go build -o "$DIR/bin/" ./cmd/gatehouse ./cmd/gatehouse-monitor ./cmd/gatehouse-keykeeper ./cmd/gatehouse-worker ./scripts/chaos)
chmod 755 "$DIR"/bin/*
if "$DIR/bin/chaos" --bin "$DIR/bin" --dir "$DIR" "${more[@]}"; then
  ok "chaos"
else
  cp "$DIR/log" "${TMPDIR:-/tmp}/gatehouse-chaos.log" 2>/dev/null || true
  not_ok "chaos" "the server's log is ${TMPDIR:-/tmp}/gatehouse-chaos.log"
fi
summary
