#!/usr/bin/env bash
# The toolsets through the real front end, over TLS, on shared repositories, each
# person as an account of their own.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/test-toolsets.sh [story] [race]   (as root; makes accounts ghtest-… and removes them)

  story   alice and bob write, carol may only read
  race    eight sessions of four people edit, commit, refresh, abort and die at random;
          GATEHOUSE_RACE_SEED=N,N makes the choices of an earlier run again
HELP
}
case ${1:-} in -h | --help) usage; exit 0 ;; esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
[ "$(id -u)" = 0 ] || die "needs root: it starts workers as other accounts"
need_packages git acl:setfacl curl
parts=("$@")
[ $# -gt 0 ] || parts=(story race)

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
for part in "${parts[@]}"; do
  case $part in
    story) play story TestStoryThroughTheFrontEnd "the story of alice, bob and carol" --sample ;;
    race)
      GATEHOUSE_RACE_SOURCE=$WORK/race go -C "$ROOT" test -count=1 -run '^TestWriteTheRaceModule$' ./cmd/gatehouse-worker >/dev/null
      play race TestRaceThroughTheFrontEnd "the race of eight sessions" --from "$WORK/race"
      ;;
    *) usage >&2; exit 2 ;;
  esac
done
summary
