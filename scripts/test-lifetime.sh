#!/usr/bin/env bash
# Each promise of docs/session-lifetime.md once in real time, with short settings,
# and 500 sessions that nobody ends.
set -euo pipefail
case ${1:-} in
  -h | --help)
    echo "usage: scripts/test-lifetime.sh   (as root workers run as gatehouse-worker)"
    exit 0
    ;;
esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"

DIR=$WORK/world
if [ "$(id -u)" = 0 ]; then
  # Files that decide over others must lie where nobody else can write.
  DIR=/var/lib/gatehouse-lifetime.$$
  for u in gatehouse gatehouse-keys gatehouse-worker; do
    getent passwd $u >/dev/null || useradd -r -M -d /nonexistent -s /bin/sh $u
  done
fi
mkdir -p "$DIR/bin"
chmod 755 "$DIR" "$DIR/bin"
at_exit rm -rf "$DIR"
(cd "$ROOT" && CGO_ENABLED=0 go build -o "$DIR/bin/" ./cmd/gatehouse ./cmd/gatehouse-monitor ./cmd/gatehouse-keykeeper ./cmd/gatehouse-worker ./scripts/chaos)
chmod 755 "$DIR"/bin/*
if "$DIR/bin/chaos" --lifetime --bin "$DIR/bin" --dir "$DIR"; then
  ok "lifetimes"
else
  for run in short many brief fair; do cp "$DIR/$run/log" "${TMPDIR:-/tmp}/gatehouse-lifetime-$run.log" 2>/dev/null || true; done
  not_ok "lifetimes" "the servers' logs are ${TMPDIR:-/tmp}/gatehouse-lifetime-*.log"
fi
summary
