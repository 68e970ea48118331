# shellcheck shell=bash
# The ways of connecting, and what each client must have shown. Source it after
# drivers.sh and worlds.sh.

ALL_WAYS=(header wrong public-client registration refresh machine page)
TOKEN='' SIGN_IN='' CLIENT_ID='' CLIENT_SECRET='' MODE=auto HOLD=''

# verdict NAME LOG RC PATTERN…: ok when the status is 0 and every pattern shows.
verdict() {
  local name=$1 log=$2 rc=$3 p
  shift 3
  if [ "$rc" != 0 ]; then
    not_ok "$name" "exit $rc: $(tail -n 6 "$log" | cut -c1-500 | tr '\n' ' ')"
    return
  fi
  for p in OK "$@"; do
    if ! grep -qE -- "$p" "$log"; then
      not_ok "$name" "no line matches '$p': $(tail -n 6 "$log" | cut -c1-300 | tr '\n' ' ')"
      return
    fi
  done
  ok "$name"
}

# as_account USER: what whoami says for the user.
as_account() { if [ "$(id -u)" = 0 ]; then echo "account=$PREFIX$1 "; else echo "account=$(id -un) "; fi; }

# full NAME: what a whole session of the client shows.
full() {
  calls "$1" || return 0
  printf '%s\n' '^tools 7$' "^whoami $(as_account "$2")"
  [[ $1 = inspector* ]] || echo '^progress 3$'
  if cancels "$1"; then echo '^cancelled=1$'; fi
  if answers "$1"; then printf '%s\n' '^ask Ann said$' '^heard tools, updated test://resource$'; fi
}

# answers NAME: whether the driver gives its client what questions need, and listens.
answers() { case $1 in python | typescript-* | go) ;; *) return 1 ;; esac; }

# closes NAME: whether the client ends its session (DELETE), in the era that has sessions.
closes() { [ "$MODE" = legacy ] && case $1 in python | fastmcp | typescript-* | go) ;; *) return 1 ;; esac; }
deletes() { grep -c '"method":"DELETE","path":"/mcp","status":200' "$LOG" || true; }

# ended BEFORE: one DELETE more in the log, which is written a moment later.
ended() {
  local i
  for i in $(seq 30); do
    [ "$(deletes)" = $(($1 + 1)) ] && return 0
    sleep 0.1
  done
  return 1
}

# try NAME LABEL [PATTERN…]: one run that must go well.
try() {
  local client=$1 label=$2 log rc=0 before patterns=()
  before=$(deletes)
  shift 2
  log=$OUT/$client.${label// /-}
  mapfile -t patterns < <(full "$client" "${SIGN_IN:-alice}")
  drive "$client" "$log" || rc=$?
  if [ $rc = 0 ] && closes "$client" && ! ended "$before"; then
    echo "the server saw no end of the session (DELETE)" >>"$log"
    rc=no-close
  fi
  verdict "$client, $label" "$log" "$rc" "${patterns[@]}" "$@"
}

prepare_header() { :; }
way_header() {
  local era
  takes_token "$1" || return 0
  TOKEN=$("${ISSUER_KIND}_static_token" alice)
  for era in $(eras "$1"); do
    MODE=$era
    try "$1" "header, $era${WORKER_ERA:+, $WORKER_ERA worker}"
  done
  TOKEN='' MODE=auto
}

# refused NAME LABEL PATTERN: the client is turned away, and what it says can be acted on.
refused() {
  local log=$OUT/$1.${2// /-} rc=0
  drive "$1" "$log" || rc=$?
  if [ "$rc" != 3 ]; then
    not_ok "$1, $2" "exit $rc, wanted 3 (refused): $(tail -n 4 "$log" | cut -c1-400 | tr '\n' ' ')"
  elif ! grep -qiE -- "$3" "$log"; then
    not_ok "$1, $2" "what it says does not match '$3': $(cut -c1-400 "$log" | tr '\n' ' ')"
  else
    ok "$1, $2"
  fi
}

prepare_wrong() { :; }
way_wrong() {
  local audience=audience expired=expired
  takes_token "$1" || return 0
  # mcp-remote keeps the server's words to itself and wants a sign-in instead.
  [ "$1" != mcp-remote ] || audience='authorize this client by visiting|Client Registration rejected' expired=$audience
  MODE=legacy
  TOKEN=$("${ISSUER_KIND}_other_audience" alice)
  refused "$1" "token of another audience" "$audience"
  TOKEN=$("${ISSUER_KIND}_expired_token" alice)
  refused "$1" "expired token" "$expired"
  TOKEN='' MODE=auto
}

prepare_public_client() { :; }
way_public_client() {
  can_sign_in "$1" || return 0
  SIGN_IN=alice CLIENT_ID=$PUBLIC_CLIENT
  try "$1" "own sign-in, public client"
  SIGN_IN='' CLIENT_ID=''
}

prepare_registration() { "${ISSUER_KIND}_allow_registration"; }
way_registration() {
  can_sign_in "$1" || return 0
  SIGN_IN=bob
  try "$1" "own sign-in, registration"
  SIGN_IN=''
}

# takes_token NAME: whether it is given a token; the others sign in by themselves.
takes_token() { case $1 in inspector-web | gatehouse) return 1 ;; esac; }
# can_sign_in NAME: Claude Code has no way to sign in without a terminal.
can_sign_in() { [ "$1" != claude-code ]; }

# Tokens live so shortly that the client has to get a new one to go on, and the
# session is the same one: the same process answers.
prepare_refresh() { "${ISSUER_KIND}_short_tokens"; }
way_refresh() {
  # Each call of Inspector's command line is a session of its own.
  if ! can_sign_in "$1" || [[ $1 = inspector* ]]; then return 0; fi
  SIGN_IN=alice CLIENT_ID=$PUBLIC_CLIENT HOLD=$OUTLIVES
  for MODE in $(eras "$1"); do
    try "$1" "own sign-in, refresh in mid-session, $MODE" "^again $(as_account alice)"
  done
  SIGN_IN='' CLIENT_ID='' HOLD='' MODE=auto
}

# A client's own token is refused until the accounts file names the client.
prepare_machine() {
  [ "$(id -u)" = 0 ] || { say "SKIPPED: client credentials need root (accounts of workers)"; return; }
  "${ISSUER_KIND}_machine_client"
}
way_machine() {
  case $1 in inspector* | claude-code | gatehouse) return 0 ;; esac # no client credentials there
  [ "$(id -u)" = 0 ] || return 0
  CLIENT_ID=$MACHINE_CLIENT CLIENT_SECRET=$MACHINE_SECRET
  map_machine no
  refused "$1" "client credentials, not mapped" '403|forbidden|account|no user|Not Allowed'
  map_machine yes
  SIGN_IN=bob # whose account the entry names
  try "$1" "client credentials, mapped"
  SIGN_IN='' CLIENT_ID='' CLIENT_SECRET=''
}

# The page docs/clients.md, as it stands there. The built-in worker answers.
prepare_page() {
  "${ISSUER_KIND}_built_in"
  PAGE_HOME=$WORK/page.home
  mkdir -p "$PAGE_HOME"
  # The programs by the names that the page uses.
  mkdir -p "$WORK/page.bin"
  ln -sf "$ROOT/bin/gatehouse" "$WORK/page.bin/gatehouse"
  printf '#!/bin/sh\nexec python3 %q "$@"\n' "$HERE/browser.py" >"$WORK/page.bin/browser"
  chmod +x "$WORK/page.bin/browser"
  page_block login "page, login"
}
# page_tests NAME: the page's tests of a client.
page_tests() {
  case $1 in
    claude-code) echo claude-helper claude-header ;;
    inspector) echo inspector-header ;;
    typescript-v2) echo typescript ;;
    typescript-v1 | inspector-web | gatehouse) ;;
    *) echo "$1" ;;
  esac
}
way_page() {
  local t
  for t in $(page_tests "$1"); do page_block "$t" "$1, page ($t)"; done
}
# page_block TEST LABEL: runs the blocks of a test in a folder of its own.
page_block() {
  local dir=$WORK/page.$1 log=$OUT/page.$1 rc=0 line python=mcp
  [ "$1" != fastmcp ] || python=fastmcp
  mkdir -p "$dir"
  python3 "$HERE/page.py" "$ROOT/docs/clients.md" "$1" "$dir"
  (
    cd "$dir" || exit 1
    mkdir -p home
    # What Go and npm have downloaded does not depend on the home folder.
    GOPATH=$(go env GOPATH) GOCACHE=$(go env GOCACHE) npm_config_cache=$CACHE/npm
    export GOPATH GOCACHE npm_config_cache
    export HOME=$PAGE_HOME URL CA BROWSER=$WORK/page.bin/browser SIGN_IN=alice PASSWORD
    [ "$1" = login ] || HOME=$dir/home XDG_STATE_HOME=$PAGE_HOME/.local/state
    export XDG_STATE_HOME MCP_CA=$CA DISABLE_TELEMETRY=1 DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
    export PATH=$WORK/page.bin:$CACHE/python-$python/bin:$CACHE/claude/node_modules/.bin:$PATH
    # An input that is silent and has no end, like a person who reads.
    mkfifo input
    timeout 180 bash -eu run.sh <>input >"$log" 2>&1
  ) || rc=$?
  touch "$dir/expect"
  if [ "$rc" != 0 ]; then
    not_ok "$2" "exit $rc: $(tail -n 5 "$log" | cut -c1-400 | tr '\n' ' ')"
    return
  fi
  while IFS= read -r line; do
    if ! grep -qF -- "$line" "$log"; then
      not_ok "$2" "no line holds '$line': $(tail -n 5 "$log" | cut -c1-400 | tr '\n' ' ')"
      return
    fi
  done <"$dir/expect"
  ok "$2"
}
