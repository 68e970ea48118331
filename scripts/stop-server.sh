#!/usr/bin/env bash
# Stops servers of ours, with their workers and helper processes.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/stop-server.sh [PORT]

Stops the server on PORT, with its workers, its other processes and its demo
issuer. Without PORT: every server that was started from this checkout. A
process that is not Gatehouse is left alone.

  scripts/stop-server.sh 8443
  scripts/stop-server.sh

Exit status 0 when nothing of ours is left, 1 otherwise or when PORT belongs to
another program.
HELP
}
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  *[!0-9]* | ??????*) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
esac
if [ $# -gt 1 ]; then echo "${0##*/}: unknown argument $2" >&2; usage >&2; exit 2; fi
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# = 0 ] || want_port PORT "$1"

failed=0 stopped=0
# stop_run RUN: what its pid files name.
stop_run() {
  local what pid port=${1##*/}
  await_start "$port"
  for what in server demo; do
    pid=$(read_pid "$1/$what.pid") || continue
    # The server drains first: calls that run may finish.
    if end_process "$pid" 30; then
      say "stopped the $what on port $port (process $pid)"
      stopped=1
    else
      failed=1
    fi
  done
  if [ "$failed" = 0 ]; then rm -f "$1"/*.pid "$1/info"; fi
}

# await_start PORT: a start under way would go on with what is stopped here.
await_start() {
  local lock
  [ -r "$RUNS/.$1.lock" ] || return 0
  exec {lock}<"$RUNS/.$1.lock"
  if ! flock -n "$lock"; then
    note "a start on port $1 is under way; it is waited for"
    flock -w 60 "$lock" || note "it takes too long"
  fi
  exec {lock}<&-
}

# sockets PORT: what listens there, as /proc names it.
sockets() {
  local hex local_address state inode
  hex=$(printf '%04X' "$1")
  while read -r _ local_address _ state _ _ _ _ _ inode _; do
    if [ "${local_address##*:}" = "$hex" ] && [ "$state" = 0A ]; then printf 'socket:[%s] ' "$inode"; fi
  done < <(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null)
}

# listeners PORT: the processes that listen there, as far as we may know.
listeners() {
  local sockets fd target pid
  sockets=" $(sockets "$1")"
  [ "$sockets" != ' ' ] || return 0
  for fd in /proc/[0-9]*/fd/*; do
    target=$(readlink "$fd" 2>/dev/null) || continue
    case $sockets in *" $target "*) pid=${fd#/proc/}; echo "${pid%%/*}" ;; esac
  done | sort -nu
}

# stop_listener PORT: a server that no script started.
stop_listener() {
  local pid all parent ours=()
  all=$(listeners "$1")
  if [ -z "$all" ] && [ -n "$(sockets "$1")" ]; then
    note "something listens on port $1 that this user may not look at: a server of another user, or one that was started by hand (end its gatehouse-monitor with kill)"
    failed=1
  fi
  for pid in $all; do
    case $(program_of "$pid") in
      gatehouse-monitor | gatehouse-demo) ours+=("$pid") ;;
      gatehouse) # the front end: its monitor, which may hide its files, ends it
        parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null || true)
        if [ -n "$parent" ] && [ "$(program_of "$parent")" = gatehouse-monitor ]; then ours+=("$parent"); fi
        ;;
      *)
        note "port $1 belongs to process $pid ($(program_of "$pid")), which is not Gatehouse; left alone"
        failed=1
        ;;
    esac
  done
  for pid in "${ours[@]}"; do
    start_time "$pid" >/dev/null || continue # ended with the one before
    if end_process "$pid" 30; then say "stopped process $pid on port $1"; stopped=1; else failed=1; fi
  done
}

if [ $# -gt 0 ]; then
  stop_run "$RUNS/$1"
  stop_listener "$1"
  if [ $stopped = 0 ] && [ $failed = 0 ]; then note "nothing of ours runs on port $1"; fi
else
  for run in "$RUNS"/*; do
    if [ "$(info "$run" root)" = "$ROOT" ]; then stop_run "$run"; fi
  done
  if [ $stopped = 0 ] && [ $failed = 0 ]; then note "nothing of this checkout runs"; fi
fi
exit $failed
