# shellcheck shell=bash
# What the scripts share: where things lie, building and installing, accounts,
# and starting and stopping a server in the background. Source it.
#
#   ROOT   the checkout           BIN   where the programs are run from
#   STATE  state of the service   RUNS  one folder a port: $RUNS/PORT

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PROGRAMS=(gatehouse gatehouse-monitor gatehouse-keykeeper gatehouse-worker gatehouse-demo)
SYSTEM_USERS=(gatehouse gatehouse-keys gatehouse-worker)
DEMO_ACCOUNTS=(gatehouse-alice gatehouse-bob)
DEMO_GROUP=gatehouse-demo-code # who may commit to the demo's sample

say() { printf '%s\n' "$*"; }
note() { printf '%s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
am_root() { [ "$(id -u)" = 0 ]; }

if am_root; then
  umask 022 # other accounts run the programs and read the development CA; what is private says so
  BIN=/usr/local/libexec/gatehouse
  STATE=${MCP_STATE_DIR:-/var/lib/gatehouse}
else
  BIN=$ROOT/bin
  STATE=${MCP_STATE_DIR:-${XDG_STATE_HOME:-${HOME:?HOME is not set}/.local/state}/gatehouse}
fi
case $STATE in /*) ;; *) STATE=$PWD/$STATE ;; esac
RUNS=$STATE/run
MADE=/var/lib/gatehouse/made-accounts # what add_user made: NAME UID, one a line

# ---- building ---------------------------------------------------------------

# find_go: sets GO, also where sudo has cleaned PATH.
find_go() {
  local p
  for p in "$(command -v go || true)" /usr/local/go/bin/go "${HOME:-/root}/go/bin/go" /usr/lib/go-*/bin/go /snap/bin/go; do
    if [ -x "$p" ]; then GO=$p; return 0; fi
  done
  return 1
}

# build_programs DIR: builds all programs; go itself finds out what is current.
build_programs() {
  local dir=$1 p packages=() vcs=auto
  find_go || die "no Go here: install Go 1.26 or later (https://go.dev/dl), or put it in PATH"
  for p in "${PROGRAMS[@]}"; do
    [ ! -d "$ROOT/cmd/$p" ] || packages+=("./cmd/$p")
  done
  # Git refuses to look at somebody else's checkout; the build works without it.
  git -C "$ROOT" rev-parse HEAD >/dev/null 2>&1 || vcs=false
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  (cd "$ROOT" && CGO_ENABLED=0 "$GO" build -trimpath "-buildvcs=$vcs" -o "$dir/" "${packages[@]}") || die "the build failed"
  # Built by root in a person's checkout: leave bin/ to the person.
  if am_root && [ "$dir" = "$ROOT/bin" ]; then chown -R --reference="$ROOT" "$dir"; fi
}

# lock_file FILE: makes a file to lock that nobody else can open, since whoever can
# open it can hold its lock for ever.
lock_file() { (umask 077 && : >>"$1") && chmod 600 "$1"; }

# prepare_programs: makes BIN current. As root the programs are installed where
# every account may execute them, each by an atomic rename.
prepare_programs() {
  local p
  if find_go; then
    if [ ! -x "$ROOT/bin/gatehouse" ]; then note "Building (the first time takes a minute or two) …"; fi
    make_folder "$STATE"
    lock_file "$STATE/.build.lock"
    (flock 9 && build_programs "$ROOT/bin") 9>"$STATE/.build.lock" || exit 1
  elif [ ! -x "$ROOT/bin/gatehouse" ]; then
    die "no Go here to build with: install Go 1.26 or later (https://go.dev/dl), or put it in PATH"
  fi
  am_root || return 0
  mkdir -p "$BIN"
  chmod 755 "$BIN"
  for p in "${PROGRAMS[@]}"; do
    [ -x "$ROOT/bin/$p" ] || continue
    if ! cmp -s "$ROOT/bin/$p" "$BIN/$p"; then
      install -o root -g root -m 755 "$ROOT/bin/$p" "$BIN/.$p.$$"
      mv -f "$BIN/.$p.$$" "$BIN/$p"
    fi
  done
}

# make_folder FOLDER: of the state; says which setting moves it when it cannot be made.
make_folder() {
  local why
  why=$(mkdir -p -- "$1" 2>&1) || die "no folder for the state: $why; MCP_STATE_DIR chooses another place"
}

# settle_state: a state folder that was chosen by a relative path is passed on by
# its whole one. One that was not chosen is not: MCP_CONFIG may name another.
settle_state() { if [ -n "${MCP_STATE_DIR:-}" ]; then export MCP_STATE_DIR=$STATE; fi; }

# prepare_state: the folders. The development CA is for every user to read, the
# rest is private.
prepare_state() {
  make_folder "$STATE"
  make_folder "$RUNS"
  if am_root; then chmod 755 "$STATE" "$RUNS"; else chmod 700 "$STATE"; fi
}

# ---- accounts (root only) ---------------------------------------------------

# ensure_system_users [NAME…]: system users without a password or a home folder
# of other people; those of every installation by default.
ensure_system_users() {
  local u home shell
  [ $# -gt 0 ] || set -- "${SYSTEM_USERS[@]}"
  for u in "$@"; do
    ! getent passwd "$u" >/dev/null || continue
    home=/nonexistent shell=/usr/sbin/nologin
    # Workers run as this one, and programs want a home folder and a shell.
    if [ "$u" = gatehouse-worker ]; then home=/var/lib/gatehouse-worker shell=/bin/sh; fi
    add_user "$u" -r -M -d "$home" -s "$shell" -c "Gatehouse service"
    if [ "$home" != /nonexistent ]; then install -d -m 700 -o "$u" -g "$u" "$home"; fi
    note "made the system user $u"
  done
}

# ensure_account NAME [COMMENT]: a person's account: a private home folder, no
# password, no group but its own.
ensure_account() {
  ! getent passwd "$1" >/dev/null || return 0
  add_user "$1" -m -K UMASK=077 -s /bin/bash -c "${2:-Gatehouse account}"
  chmod 700 "$(home_of "$1")"
  note "made the account $1"
}

# ensure_demo_accounts: what --demo needs as root.
ensure_demo_accounts() {
  local a
  ensure_system_users gatehouse-demo
  for a in "${DEMO_ACCOUNTS[@]}"; do ensure_account "$a" "Gatehouse demo"; done
}

home_of() { getent passwd "$1" | cut -d: -f6; }

# add_user NAME OPTION…: useradd, and a line in MADE, so that what we did not
# make is never removed.
add_user() {
  local name=$1 useradd
  shift
  useradd=$(command -v useradd || echo /usr/sbin/useradd)
  [ -x "$useradd" ] || die "no useradd here to make the account $name: apt-get install passwd"
  "$useradd" -p '*' -U "$@" "$name" || die "useradd could not make $name"
  mkdir -p "${MADE%/*}"
  printf '%s %s\n' "$name" "$(id -u "$name")" >>"$MADE"
}

# made_by_us NAME: whether add_user made it, under the uid that it has now.
made_by_us() { grep -qxF "$1 $(id -u "$1" 2>/dev/null || echo none)" "$MADE" 2>/dev/null; }

# ---- a sample to work on ----------------------------------------------------

# sample_workspace NAME [OPTION…]: so that every built-in tool has something to work
# on: a small repository STATE/NAME, made by setup-workspace.sh with these options.
# Without any it belongs to whom workers run as. It sets SAMPLE and MCP_WORKSPACE,
# unless a worker, a workspace or a configuration file was chosen.
SAMPLE=
sample_workspace() {
  local repository=$STATE/$1
  shift
  [ -z "${MCP_WORKER_COMMAND:-}${MCP_WORKSPACE:-}${MCP_CONFIG:-}" ] || return 0
  if ! command -v git >/dev/null; then
    note "git is missing: no sample workspace was made, and the workspace tools have nothing to work on"
    return 0
  fi
  lock_file "$STATE/.sample.lock"
  (flock 9 && make_sample "$repository" "$@") 9>"$STATE/.sample.lock" || exit 1
  export MCP_WORKSPACE=$repository
  SAMPLE=$repository
}
make_sample() {
  local repository=$1 said owner=${MCP_WORKER_USER:-gatehouse-worker}
  shift
  if [ ! -d "$repository" ] || [ $# -gt 0 ]; then
    said=$("$ROOT/scripts/setup-workspace.sh" "$repository" --sample "$@" 2>&1) || die "the sample workspace could not be made: ${said##*$'\n'}"
  fi
  if am_root && [ $# = 0 ] && [ "$(stat -c %U -- "$repository")" != "$owner" ]; then
    find "$repository" -depth -exec chown -h "$owner:" {} + # itself last: an owner that fits says that all of it does
  fi
}

# ---- processes --------------------------------------------------------------

# start_time PID: the kernel's start time, which tells a process from a later
# one with the same number. A process that has ended and waits to be collected
# has none.
start_time() {
  local stat fields
  { IFS= read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  read -r -a fields <<<"${stat##*) }"
  [ "${fields[0]}" != Z ] && printf '%s\n' "${fields[19]}"
}

# program_of PID: the name of the program that the process runs. Hardened
# processes hide their executable even from their owner; their command line
# shows.
program_of() {
  local exe
  exe=$(readlink "/proc/$1/exe" 2>/dev/null || true)
  exe=${exe% (deleted)}
  if [ -z "$exe" ]; then
    { IFS= read -r -d '' exe <"/proc/$1/cmdline"; } 2>/dev/null || true
  fi
  basename -- "${exe:-unknown}"
}

# is_ours PID: one of our programs.
is_ours() {
  local name p
  [ -d "/proc/$1" ] || return 1
  name=$(program_of "$1")
  for p in "${PROGRAMS[@]}"; do [ "$name" != "$p" ] || return 0; done
  return 1
}

# write_pid FILE PID / read_pid FILE: read_pid prints the pid when that very
# process still runs and is ours.
write_pid() { printf '%s %s\n' "$2" "$(start_time "$2" || echo 0)" >"$1"; }
read_pid() {
  local pid start
  read -r pid start 2>/dev/null <"$1" || return 1
  [ "$(start_time "$pid")" = "$start" ] && is_ours "$pid" && printf '%s\n' "$pid"
}

# launch PIDFILE LOGFILE COMMAND…: starts a process in a session of its own.
launch() {
  local pidfile=$1 log=$2
  shift 2
  (umask 077 && : >>"$log")
  setsid -- "$@" </dev/null >>"$log" 2>&1 {START_LOCK}>&- &
  LAUNCHED=$!
  disown "$LAUNCHED"
  # setsid execs in place: the number stays.
  write_pid "$pidfile" "$LAUNCHED"
}

# wait_ready PID SECONDS LOGFILE URL [CERT]: until the log says that the process
# listens (somebody else could answer before) and the URL answers, with CERT when
# that is known. When the process dies or the time is over: what its log says,
# and failure.
wait_ready() {
  local pid=$1 until=$((SECONDS + $2)) log=$3 url=$4 trust=(--any-certificate)
  [ -z "${5:-}" ] || trust=(--cert "$5")
  while start_time "$pid" >/dev/null && [ $SECONDS -lt "$until" ]; do
    if grep -qE '^gatehouse: listening on |"demo issuer listens"' "$log" &&
      "$BIN/gatehouse-demo" probe "${trust[@]}" "$url" >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  if start_time "$pid" >/dev/null; then note "$url does not answer after $2 s; the log says:"; else note "it did not start; the log says:"; fi
  if [ -s "$log" ]; then tail -n 20 "$log" | sed 's/^/  /' >&2; else note "  nothing; is there room for $log?"; fi
  return 1
}

# descendants PID: all processes below it. There need not be a ps.
descendants() {
  local -A children=()
  local stat pid rest queue=("$1") child
  for stat in /proc/[0-9]*/stat; do
    { IFS= read -r rest <"$stat"; } 2>/dev/null || continue
    pid=${rest%% *} rest=${rest##*) }
    read -r _ rest _ <<<"$rest"
    children[$rest]+=" $pid"
  done
  while [ ${#queue[@]} -gt 0 ]; do
    for child in ${children[${queue[0]}]:-}; do
      printf '%s\n' "$child"
      queue+=("$child")
    done
    queue=("${queue[@]:1}")
  done
}

# end_process PID SECONDS: SIGTERM, and SIGKILL when that did not do. What it
# started goes too.
end_process() {
  local pid=$1 seconds=$2 p i start
  local -A below=()
  for p in $(descendants "$pid"); do below[$p]=$(start_time "$p" || true); done
  start=$(start_time "$pid") || return 0
  kill -TERM "$pid" 2>/dev/null || { note "no right to stop process $pid: it belongs to $(stat -c %U "/proc/$pid")"; return 1; }
  for ((i = 0; i < seconds * 10; i++)); do
    [ "$(start_time "$pid" || true)" = "$start" ] || break
    sleep 0.1
  done
  if [ "$(start_time "$pid" || true)" = "$start" ]; then
    note "process $pid did not end in $seconds s; killed"
    kill -KILL "$pid" 2>/dev/null || true
  fi
  for ((i = 0; i < 30; i++)); do
    for p in "${!below[@]}"; do
      if [ -z "${below[$p]}" ] || [ "$(start_time "$p" || true)" != "${below[$p]}" ]; then unset "below[$p]"; fi
    done
    if [ ${#below[@]} = 0 ] && [ "$(start_time "$pid" || true)" != "$start" ]; then return 0; fi
    if [ $i -ge 20 ] && [ ${#below[@]} -gt 0 ]; then kill -KILL "${!below[@]}" 2>/dev/null || true; fi
    sleep 0.1
  done
  note "still running: $pid ${!below[*]}"
  return 1
}

# listening LOG: the addresses that the server says it listens on.
listening() { sed -n 's/^gatehouse: listening on //p' "$1" 2>/dev/null | tr '\n' ' '; }

# start_warnings LOG: what the server warned of at its start.
start_warnings() { sed -n 's/^gatehouse: \(warning: .*\)/\1/p' "$1" >&2; }

# info RUN NAME: a value of the run folder's info file, or nothing.
info() { if [ -r "$1/info" ]; then sed -n "s/^$2=//p" "$1/info"; fi; }

# want_port NAME PORT: refuses what is no port.
want_port() {
  case $2 in
    '' | *[!0-9]* | 0* | ??????*) ;;
    *) [ "$2" -gt 65535 ] || return 0 ;;
  esac
  die "$1='$2': want a port number, 1 to 65535, such as 8443"
}

# read_config: with a configuration file: keeps what the settings come to.
CONFIG=
read_config() {
  [ -n "${MCP_CONFIG:-}" ] || return 0
  prepare_programs
  CONFIG=$("$BIN/gatehouse" check --offline 2>/dev/null || true)
}

# config_value KEY: of read_config; nothing when it is unset or there is no file.
config_value() {
  local key value
  while read -r key value; do
    [ "$key" = "$1" ] || continue
    value=${value%%  *}
    [ "$value" = - ] || printf '%s\n' "$value"
    return
  done <<<"$CONFIG"
}

# probe_host ADDRESSES: an address of this machine on which the server listens.
probe_host() {
  local a=${1%%[, ]*}
  case $a in
    '' | localhost | 0.0.0.0) echo 127.0.0.1 ;;
    ::) echo '[::1]' ;;
    *:*) echo "[$a]" ;;
    *) echo "$a" ;;
  esac
}

# check_port PORT: refuses a second server of ours on a port.
check_port() {
  local pid
  want_port MCP_PORT "$1"
  if pid=$(read_pid "$RUNS/$1/server.pid"); then
    die "a server of ours runs on port $1 already (process $pid); stop it first: $ROOT/scripts/stop-server.sh $1"
  fi
}

# begin_run RUN MODE URL: a fresh run folder; the logs of the run before are kept once.
# Of two starts on one port at the same time one is refused: it would take the
# other's half-started server for what is left of a run before.
begin_run() {
  local port=${1##*/} log
  lock_file "$RUNS/.$port.lock"
  exec {START_LOCK}>"$RUNS/.$port.lock"
  flock -n "$START_LOCK" || die "another start on port $port is under way"
  check_port "$port" # again: it may be the one that we waited for while building
  abandon "$1" # the demo issuer of a server that died
  (umask 077 && mkdir -p "$1")
  rm -f "$1"/*.pid "$1/info"
  for log in "$1/server.log" "$1/demo.log"; do
    if [ -s "$log" ]; then mv -f "$log" "$log.1"; fi
  done
  printf 'root=%s\nmode=%s\nurl=%s\n' "$ROOT" "$2" "$3" >"$1/info"
}

# abandon RUN: ends what a failed start has left.
abandon() {
  local f pid
  for f in "$1/server.pid" "$1/demo.pid"; do
    if pid=$(read_pid "$f"); then end_process "$pid" 5 || true; fi
  done
  rm -f "$1"/*.pid "$1/info"
}
