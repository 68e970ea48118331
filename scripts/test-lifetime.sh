#!/usr/bin/env bash
# Each promise of docs/session-lifetime.md once in real time, with short settings;
# 500 sessions that nobody ends; and, as root, what befalls accounts and keys.
set -euo pipefail
usage() {
  echo "usage: scripts/test-lifetime.sh [--only WORLD]   (as root also with accounts of its own, ghtest-*; worlds: scripts/chaos/lifetime.go)"
}
more=("$@")
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --only) shift $(($# < 2 ? 1 : 2)) ;;
    *) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
  esac
done
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
if [ "$(id -u)" = 0 ]; then
  # One for each thing that is done to an account, all in one group.
  export GROUP=ghtest-lt$$ ACCOUNTS=''
  groupadd "$GROUP"
  at_exit groupdel "$GROUP"
  for i in 1 2 3 4 5 6; do
    useradd -m -p '*' -s /bin/sh -K HOME_MODE=0700 -G "$GROUP" "$GROUP-$i"
    at_exit userdel -r "$GROUP-$i"
    ACCOUNTS+=" $GROUP-$i"
  done
fi
mkdir -p "$DIR/bin"
chmod 755 "$DIR" "$DIR/bin"
at_exit rm -rf "$DIR"
(cd "$ROOT" && CGO_ENABLED=0 go build -o "$DIR/bin/" ./cmd/gatehouse ./cmd/gatehouse-monitor ./cmd/gatehouse-keykeeper ./cmd/gatehouse-worker ./scripts/chaos)
chmod 755 "$DIR"/bin/*
if "$DIR/bin/chaos" --lifetime --bin "$DIR/bin" --dir "$DIR" "${more[@]}"; then
  ok "lifetimes"
else
  for log in "$DIR"/*/log; do cp "$log" "${TMPDIR:-/tmp}/gatehouse-lifetime-$(basename "$(dirname "$log")").log" || true; done
  not_ok "lifetimes" "the servers' logs are ${TMPDIR:-/tmp}/gatehouse-lifetime-*.log"
fi
summary
