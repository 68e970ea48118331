#!/usr/bin/env bash
# The toolsets through the real front end, over TLS, on shared repositories, each
# person as an account of their own.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/test-toolsets.sh [story] [race] [choices]   (as root; makes accounts ghtest-… and removes them)

  story   alice and bob write, carol may only read
  race    eight sessions of four people edit, commit, refresh, abort and die at random;
          GATEHOUSE_RACE_SEED=N,N makes the choices of an earlier run again
  choices MCP_TITLE, MCP_TOOLSETS, MCP_TOOLSET_OPTIONS, MCP_INSTRUCTIONS_FILE, and gatehouse toolsets
HELP
}
for arg in "$@"; do
  case $arg in
    -h | --help) usage; exit 0 ;;
    story | race | choices) ;;
    *) echo "${0##*/}: unknown argument $arg" >&2; usage >&2; exit 2 ;;
  esac
done
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
[ "$(id -u)" = 0 ] || die "needs root: it starts workers as other accounts"
need_packages git acl:setfacl curl
parts=("$@")
[ $# -gt 0 ] || parts=(story race choices)

# Where every account gets through, and nobody else can write.
HOST=/var/lib/gatehouse-test.$$
install -d -m 755 "$HOST" "$HOST/bin"
at_exit rm -rf "$HOST"
(cd "$ROOT" && CGO_ENABLED=0 go build -o "$HOST/bin/" ./cmd/gatehouse ./cmd/gatehouse-monitor ./cmd/gatehouse-keykeeper ./cmd/gatehouse-worker)
chmod 755 "$HOST"/bin/*
for u in gatehouse gatehouse-keys; do
  getent passwd $u >/dev/null || useradd -r -M -d /nonexistent -s /usr/sbin/nologin $u
done
WRITERS=ghtest-write-$$ READERS=ghtest-read-$$
for g in $WRITERS $READERS; do
  groupadd "$g"
  at_exit groupdel "$g"
done
declare -A account=()
# person NAME GROUP: makes the account NAME works as.
person() {
  account[$1]=ghtest-$1-$$
  useradd -m -U -p '*' -s /bin/sh -K HOME_MODE=0700 -G "$2" "${account[$1]}"
  at_exit userdel -r "${account[$1]}"
}
for who in alice bob dave erin; do person $who "$WRITERS"; done
person carol "$READERS"
rights=(--write-group "$WRITERS" --read-group "$READERS")
order() { check "the rights of the repository for the $1 are in order" "$ROOT/scripts/setup-workspace.sh" "$HOST/$1.git" --check "${rights[@]}"; }

# play PART TEST WHAT: a Go test that starts the server itself, on a repository
# that setup-workspace.sh has made from the sample or from SOURCE.
play() {
  local part=$1 test=$2 what=$3 people='' who
  shift 3
  "$ROOT/scripts/setup-workspace.sh" "$HOST/$part.git" "$@" "${rights[@]}" >"$WORK/setup.log" 2>&1 ||
    { cat "$WORK/setup.log"; die "the workspace could not be made"; }
  order "$part"
  for who in "${!account[@]}"; do people+=" $who=${account[$who]}"; done
  if (cd "$ROOT" && GATEHOUSE_HOST=$HOST GATEHOUSE_PEOPLE=$people env "GATEHOUSE_${part^^}_REPOSITORY=$HOST/$part.git" \
    go test -count=1 -timeout 20m -run "^$test\$" -v ./cmd/gatehouse-worker) >"$WORK/$part.log" 2>&1 && grep -q "^--- PASS: $test" "$WORK/$part.log"; then
    ok "$what"
    sed -n 's/^ *[a-z_]*_test\.go:[0-9]*: /      /p' "$WORK/$part.log"
  else
    not_ok "$what" "$(tail -60 "$WORK/$part.log")"
  fi
  order "$part"
}
# ask PORT METHOD PARAMS OPTION…: what a server without tokens answers.
ask() {
  curl -sS --max-time 20 -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' "${@:4}" \
    -d "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"$2\",\"params\":$3}" "http://localhost:$1/mcp"
}

# refuses WHAT WORDS VARIABLE…: such a start fails and says so.
refuses() {
  local what=$1 words=$2
  shift 2
  if env MCP_PORT="$port" "$@" "$ROOT/scripts/run-server.sh" >"$WORK/refused.log" 2>&1; then
    "$ROOT/scripts/stop-server.sh" "$port" >/dev/null
    not_ok "$what stops the start"
  elif grep -qF -- "$words" "$WORK/refused.log"; then
    ok "$what stops the start"
  else
    not_ok "$what stops the start and says \"$words\"" "$(tail -5 "$WORK/refused.log")"
  fi
}

# choices: what the operator sets about the toolsets, on a server without tokens.
choices() {
  local port answer session tools file=$WORK/instructions
  local hello='{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}'
  port=$(free_port)
  own_state
  chmod 755 "$WORK"
  printf 'Be brief.' >"$file"
  chmod 644 "$file"
  if env MCP_PORT="$port" MCP_TITLE='Code of the team' MCP_TOOLSETS=session,listing MCP_TOOLSET_OPTIONS='{"session":{"keep_lost":"1d"}}' \
    MCP_INSTRUCTIONS_FILE="$file" "$ROOT/scripts/run-server.sh" >"$WORK/choices.log" 2>&1; then
    at_exit "$ROOT/scripts/stop-server.sh" "$port"
    answer=$(ask "$port" initialize "$hello" -D "$WORK/headers")
    if grep -qF '"title":"Code of the team"' <<<"$answer"; then ok "MCP_TITLE is serverInfo.title"; else not_ok "MCP_TITLE is serverInfo.title" "$answer"; fi
    if grep -qF '"instructions":"Be brief."' <<<"$answer"; then ok "the file's text is the instructions"; else not_ok "the file's text is the instructions" "$answer"; fi
    session=$(tr -d '\r' <"$WORK/headers" | sed -n 's/^[Mm]cp-[Ss]ession-[Ii]d: //p')
    tools=$(ask "$port" tools/list '{}' -H "Mcp-Session-Id: $session" -H 'MCP-Protocol-Version: 2025-11-25' | grep -oE '"(list_packages|list_all_types|status|commit|run_tests|execute_code|find_callers)"' | sort -u | tr -d '"\n')
    if [ "$tools" = commitlist_all_typeslist_packagesstatus ]; then ok "the tools are those of the named toolsets"; else not_ok "the tools are those of the named toolsets" "$tools"; fi
    "$ROOT/scripts/stop-server.sh" "$port" >/dev/null
  else
    not_ok "a server with title, toolsets, options and instructions starts" "$(tail -5 "$WORK/choices.log")"
  fi
  refuses "an unknown toolset" 'there is no toolset "nope"; accepted: session, listing' MCP_TOOLSETS=session,nope
  refuses "an unknown option" 'toolset "testing" has no option "timout"; accepted: timeout' MCP_TOOLSET_OPTIONS='{"testing":{"timout":"5m"}}'
  refuses "an option of the wrong type" 'option "timeout" of toolset "testing" must be a duration' MCP_TOOLSET_OPTIONS='{"testing":{"timeout":true}}'
  refuses "an option of a toolset that is not served" 'there are options for "testing"' MCP_TOOLSETS=session MCP_TOOLSET_OPTIONS='{"testing":{"timeout":"5m"}}'
  head -c 32769 /dev/zero | tr '\0' x >"$file"
  refuses "a file of instructions that is too long" 'at most 32768' MCP_INSTRUCTIONS_FILE="$file"
  answer=$("$HOST/bin/gatehouse" toolsets 2>&1 || true)
  if [ "$(grep -cE '^  [a-z]+(_[a-z]+)* {2,}' <<<"$answer")" = 31 ] && grep -q '^  option run_hooks (boolean, default false)' <<<"$answer"; then
    ok "gatehouse toolsets lists 31 tools and the options"
  else
    not_ok "gatehouse toolsets lists 31 tools and the options" "$answer"
  fi
}
for part in "${parts[@]}"; do
  case $part in
    story) play story TestStoryThroughTheFrontEnd "the story of alice, bob and carol" --sample ;;
    race)
      GATEHOUSE_RACE_SOURCE=$WORK/race go -C "$ROOT" test -count=1 -run '^TestWriteTheRaceModule$' ./cmd/gatehouse-worker >/dev/null
      play race TestRaceThroughTheFrontEnd "the race of eight sessions" --from "$WORK/race"
      ;;
    choices) choices ;;
  esac
done
summary
