#!/usr/bin/env bash
# Makes the shared Git repository that the workspace toolsets work on, or checks it.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/setup-workspace.sh DIR [OPTION…]
       scripts/setup-workspace.sh DIR --check [OPTION…]   says what is wrong; changes nothing

Makes DIR a bare repository that several accounts share, or brings one in order:
members of the write group commit, everybody else (or, with --read-group, that
group alone) reads. It can be run again: what is right is left alone. It prints
what it changes.

  sudo scripts/setup-workspace.sh /srv/code.git --from https://example.com/code.git \
       --write-group coders --read-group readers --writer alice --writer bob --reader carol
  scripts/setup-workspace.sh ~/sample.git --sample       a small module to try the tools on

  --from SOURCE          clone this when DIR is not there yet (a path or an address)
  --sample               make a small Go module when DIR is not there yet
  --branch NAME          the shared branch of a new repository (main, or what SOURCE has)
  --write-group GROUP    who may commit; made when it is missing (root only)
  --read-group GROUP     who may read, and nobody else; needs setfacl (Debian: acl)
  --writer ACCOUNT       put the account into the write group; may be repeated (root only)
  --reader ACCOUNT       put the account into the read group; may be repeated (root only)

Without a write group only the owner of DIR may commit. Workers get their groups
when they start: a new member needs a new session.

Exit status: 0 done, or --check found all in order; 1 --check found something
wrong; 2 refused or failed.
HELP
}
say() { printf '%s\n' "$*"; }
die() { printf 'setup-workspace.sh: %s\n' "$*" >&2; exit 2; }
need() { [ -n "${2:-}" ] || die "$1 needs a value; --help shows how"; }

dir='' from='' sample='' check='' branch='' write_group='' read_group='' writers=() readers=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --check) check=1 ;;
    --sample) sample=1 ;;
    --from) need "$1" "${2:-}"; from=$2; shift ;;
    --branch) need "$1" "${2:-}"; branch=$2; shift ;;
    --write-group) need "$1" "${2:-}"; write_group=$2; shift ;;
    --read-group) need "$1" "${2:-}"; read_group=$2; shift ;;
    --writer) need "$1" "${2:-}"; writers+=("$2"); shift ;;
    --reader) need "$1" "${2:-}"; readers+=("$2"); shift ;;
    -*) die "unknown option $1; --help shows the options" ;;
    *) [ -z "$dir" ] || die "one folder at a time"; dir=$1 ;;
  esac
  shift
done
[ -n "$dir" ] || { usage >&2; exit 2; }
case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
[ "$dir" = / ] || dir=${dir%/}
[ -z "$from" ] || [ -z "$sample" ] || die "--from and --sample exclude each other"
[ ${#writers[@]} = 0 ] || [ -n "$write_group" ] || die "--writer needs --write-group"
[ ${#readers[@]} = 0 ] || [ -n "$read_group" ] || die "--reader needs --read-group"
PATH=$PATH:/usr/sbin:/sbin # groupadd, where su has left them out
command -v git >/dev/null || die "git is missing: apt-get install git"
[ -z "$branch" ] || git check-ref-format "refs/heads/$branch" || die "\"$branch\" is no name for a branch"
if [ -n "$read_group" ]; then
  [ -n "$write_group" ] || die "--read-group needs --write-group"
  command -v setfacl >/dev/null || die "setfacl is missing: apt-get install acl"
fi

# Git without anybody's configuration, and without asking who owns the folder:
# the one who runs this names it.
g() {
  GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_COUNT=0 GIT_TERMINAL_PROMPT=0 HOME=/nonexistent git "$@"
}
bare() { GIT_DIR=$dir g "$@"; }

wrong=0 made=''
# fix WHAT COMMAND…: runs the command and says so; with --check only counts. Of a
# repository that was made just now nothing was wrong.
fix() {
  local what=$1
  shift
  if [ -n "$check" ]; then
    say "wrong: $what"
    wrong=1
    return 0
  fi
  "$@" || die "could not fix: $what"
  [ -n "$made" ] || say "fixed: $what"
}

# ---- groups and their members -----------------------------------------------

in_group() { id -nG -- "$1" 2>/dev/null | tr ' ' '\n' | grep -qxF -- "$2"; }

# fix_as_root WHAT COMMAND…: what nobody else can.
fix_as_root() {
  [ -n "$check" ] || [ "$(id -u)" = 0 ] || die "$1, which only root can change: run this as root"
  fix "$@"
}

groups() {
  local gname a
  for gname in $write_group $read_group; do
    getent group "$gname" >/dev/null || fix_as_root "the group $gname is missing" groupadd "$gname"
  done
  for a in ${writers[@]+"${writers[@]}"}; do
    id -u -- "$a" >/dev/null 2>&1 || die "there is no account $a"
    in_group "$a" "$write_group" || fix_as_root "$a is not in the group $write_group" gpasswd -a "$a" "$write_group"
  done
  for a in ${readers[@]+"${readers[@]}"}; do
    id -u -- "$a" >/dev/null 2>&1 || die "there is no account $a"
    in_group "$a" "$read_group" || fix_as_root "$a is not in the group $read_group" gpasswd -a "$a" "$read_group"
  done
}

# ---- the repository ---------------------------------------------------------

# make_repository: beside its place first, so that what is cut short can be run again.
make_repository() {
  local new
  making=$({ mkdir -p -- "$(dirname "$dir")" && mktemp -d "$dir.XXXXXX"; } 2>&1) || die "no place for the repository: $making"
  trap 'rm -rf "$making"' EXIT
  new=$making/repository
  if [ -n "$from" ]; then
    # The source may be an account's own: its address decides what is asked.
    GIT_CONFIG_NOSYSTEM=1 git clone --quiet --bare --no-hardlinks --template= ${branch:+--branch="$branch"} -- "$from" "$new" || die "could not clone $from"
  else
    g init --quiet --bare --template= --initial-branch="${branch:=main}" "$new"
    [ -z "$sample" ] || make_sample "$new" "$making/tree"
  fi
  mv -T -- "$new" "$dir" || die "could not put the new repository into its place"
  rm -rf "$making"
}

# make_sample REPOSITORY FOLDER: its first commit, from a folder that is not there yet.
make_sample() {
  local w=$2
  mkdir -p "$w/greet" "$w/cmd/hello"
  cat >"$w/go.mod" <<'FILE'
module example.com/sample

go 1.24
FILE
  cat >"$w/greet/greet.go" <<'FILE'
// Package greet makes greetings.
package greet

import "fmt"

// Greeter greets somebody.
type Greeter interface {
	Greet(name string) string
}

// Polite greets politely.
type Polite struct {
	// Title stands before the name.
	Title string
}

// Greet says good day.
func (p Polite) Greet(name string) string {
	return fmt.Sprintf("Good day, %s %s.", p.Title, name)
}

// Short greets in one word.
type Short struct{}

// Greet says hi.
func (Short) Greet(name string) string {
	return "Hi " + name
}

// All greets every name.
func All(g Greeter, names ...string) []string {
	var out []string
	for _, n := range names {
		out = append(out, g.Greet(n))
	}
	return out
}
FILE
  cat >"$w/greet/greet_test.go" <<'FILE'
package greet

import "testing"

func TestAll(t *testing.T) {
	got := All(Short{}, "Ada", "Grace")
	if len(got) != 2 || got[0] != "Hi Ada" {
		t.Errorf("got %q", got)
	}
}
FILE
  cat >"$w/cmd/hello/main.go" <<'FILE'
// Command hello greets the world.
package main

import (
	"fmt"

	"example.com/sample/greet"
)

func main() {
	fmt.Println(greet.All(greet.Polite{Title: "Dr."}, "World")[0])
}
FILE
  g -C "$w" init --quiet --template= --initial-branch="$branch"
  g -C "$w" add --all
  g -C "$w" -c user.name=Gatehouse -c user.email=gatehouse@localhost commit --quiet -m "A small module to try the tools on"
  g -C "$w" push --quiet "$1" "HEAD:refs/heads/$branch"
}

setting() { # NAME VALUE WHY
  [ "$(bare config --local --get "$1" || true)" = "$2" ] || fix "$3" bare config --local "$1" "$2"
}

# settled TEST…: find in the repository, without what a commit is just bringing in.
settled() { find "$dir" \( -name 'tmp_objdir-*' -o -name '*.lock' \) -prune -o "$@"; }

# rights: with umask 077 new objects follow core.sharedRepository; "group" would
# leave readers outside the group without them.
rights() {
  local odd top
  setting core.sharedRepository 0664 "core.sharedRepository is not 0664: others could not read what somebody commits"
  setting receive.denyNonFastForwards true "the shared branch could be rewritten"
  setting receive.denyDeletes true "branches could be deleted"
  setting gc.auto 0 "automatic clean-up could take objects that a view borrows: it is for the owner to run"
  setting core.logAllRefUpdates false "reflogs of a bare repository belong to whoever writes them first"
  # What a commit that died left behind; younger ones may still be at work.
  odd=$(find "$dir/objects" -mindepth 1 -maxdepth 1 -name 'tmp_objdir-*' -mmin +60 -print -quit)
  [ -z "$odd" ] || fix "a commit that died left objects behind ($odd)" find "$dir/objects" -mindepth 1 -maxdepth 1 -name 'tmp_objdir-*' -mmin +60 -exec rm -rf {} +
  [ -n "$write_group" ] || return 0
  odd=$(settled ! -group "$write_group" -print -quit 2>/dev/null || true)
  [ -z "$odd" ] || fix "not all of it belongs to the group $write_group ($odd)" chgrp -R -- "$write_group" "$dir"
  odd=$(settled -mindepth 1 -type d ! -perm -2775 -print -quit)
  [ -z "$odd" ] || fix "folders do not pass on their group ($odd)" settled -mindepth 1 -type d -exec chmod 2775 {} +
  odd=$(settled -type f -path '*/objects/*' ! -perm 0444 -print -quit)
  [ -z "$odd" ] || fix "objects are not readable to all, or writable ($odd)" settled -type f -path '*/objects/*' -exec chmod 0444 {} +
  odd=$(settled -type f ! -path '*/objects/*' ! -path '*/hooks/*' ! -perm 0664 -print -quit)
  [ -z "$odd" ] || fix "files are not writable by the group ($odd)" settled -type f ! -path '*/objects/*' ! -path '*/hooks/*' -exec chmod 0664 {} +
  if [ -z "$read_group" ]; then
    [ "$(stat -c %a -- "$dir")" = 2775 ] || fix "the folder itself is not 2775" chmod 2775 "$dir"
    return 0
  fi
  # One gate for everything: who can't enter the top folder reads nothing below it.
  top=$(getfacl --absolute-names --omit-header -- "$dir" 2>/dev/null || true)
  if [ "$(stat -c %A -- "$dir" | cut -c8-10)" != --- ] || ! grep -qx "group:$read_group:r-x" <<<"$top" || ! grep -qx 'group::rwx' <<<"$top" || ! grep -qx 'mask::rwx' <<<"$top"; then
    fix "the folder lets others in, or the group $read_group not" close_top
  fi
}

close_top() {
  chmod 2770 "$dir" && setfacl -b -- "$dir" && chmod 2770 "$dir" && setfacl -m "g:$read_group:r-x,m::rwx" -- "$dir"
}

parents() {
  local p=$dir
  [ -n "$write_group$read_group" ] || return 0
  while [ "$p" != / ]; do
    p=$(dirname "$p")
    case $(stat -c %A -- "$p") in
      *x | *t) ;;
      *) say "note: $p does not let everybody through; accounts that can't pass it reach nothing below" ;;
    esac
  done
}

groups
if [ ! -e "$dir" ]; then
  if [ -n "$check" ]; then
    say "wrong: $dir is not there"
    exit 1
  fi
  make_repository
  made=1
  say "made: the repository $dir${write_group:+, which the group $write_group may write}${read_group:+ and the group $read_group may read}"
fi
[ "$(bare rev-parse --is-bare-repository 2>/dev/null || true)" = true ] || die "$dir is no bare Git repository"
rights
parents
head=$(bare symbolic-ref HEAD)
bare rev-parse --verify --quiet "$head^{commit}" >/dev/null || say "note: the branch ${head#refs/heads/} has no commit yet; the tools need one"
if [ -n "$check" ]; then
  [ "$wrong" = 0 ] || exit 1
  say "$dir is in order."
  exit 0
fi
say "The workspace is $dir, its shared branch ${head#refs/heads/}."
