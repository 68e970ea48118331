#!/usr/bin/env bash
# What a newcomer does, in a fresh clone with empty caches, as an ordinary user
# and as root: two commands, and Claude Code says Connected. Then the worker alone
# over stdio, as docs/toolsets.md shows it.
set -euo pipefail
usage() { echo "usage: scripts/test-newcomer.sh [user] [root]   (as root; makes the account ghtest-newcomer and removes it)"; }
for arg in "$@"; do
  case $arg in
    -h | --help) usage; exit 0 ;;
    user | root) ;;
    *) echo "${0##*/}: unknown argument $arg" >&2; usage >&2; exit 2 ;;
  esac
done
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
[ "$(id -u)" = 0 ] || die "needs root: it makes an account to be the newcomer"
who=("$@")
[ ${#who[@]} -gt 0 ] || who=(user root)

need_packages git
need_node
npm_cached claude @anthropic-ai/claude-code

# The newcomer's own copies of Node.js and Claude Code, readable by all.
TOOLS=/var/lib/gatehouse-newcomer.$$
install -d -m 755 "$TOOLS"
at_exit rm -rf "$TOOLS"
cp -r "$CACHE/claude/node_modules" "$TOOLS/node_modules"
cp "$NODE" "$TOOLS/node"
chmod -R a+rX "$TOOLS"
GO=$(dirname "$(command -v go)")
GOREAL=$(go env GOROOT)/bin

USERNAME=ghtest-newcomer
remove_user() {
  pkill -KILL -u $USERNAME || true
  sleep 0.2
  userdel -r $USERNAME
}

# newcomer NAME COMMAND…: the two commands in the home folder of NAME.
newcomer() {
  local name=$1 port list
  shift
  port=$(free_port)
  cat >"$WORK/newcomer.sh" <<EOF
set -e
export HOME=\$PWD PATH=$GOREAL:$GO:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin MCP_PORT=$port
unset GOFLAGS GOMODCACHE GOCACHE XDG_STATE_HOME XDG_CACHE_HOME
git clone -q '$WORK/source.bundle' gatehouse
cd gatehouse
git checkout -q $(git -C "$ROOT" rev-parse HEAD)
scripts/run-auth-server.sh --demo >../start.log 2>&1 || { cat ../start.log; exit 1; }
line=\$(grep -aEo 'export NODE_EXTRA_CA_CERTS=[^ ]+' ../start.log | head -1)
eval "\$line"
export DISABLE_TELEMETRY=1 DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 PATH=$TOOLS:\$PATH
claude() { timeout 120 $TOOLS/node_modules/.bin/claude "\$@" </dev/null; }
grep -aq "claude mcp add --transport http gatehouse https://localhost:$port/mcp" ../start.log || { echo "the start printed no claude line"; cat ../start.log; exit 1; }
claude mcp add --transport http gatehouse https://localhost:$port/mcp --header "Authorization: Bearer \$(scripts/demo-token.sh alice)"
claude mcp list
scripts/stop-server.sh $port
scripts/setup-workspace.sh ~/sample.git --sample
claude mcp add sample -- "\$PWD/bin/gatehouse-worker" --workspace ~/sample.git
claude mcp list
EOF
  chmod 644 "$WORK/newcomer.sh"
  list=$("$@" bash "$WORK/newcomer.sh" 2>&1 </dev/null) || true
  if grep -q 'gatehouse.*✔ Connected' <<<"$list"; then
    ok "newcomer as $name: two commands, ✔ Connected"
  else
    not_ok "newcomer as $name"
    tail -25 <<<"$list"
  fi
  if grep -q 'sample.*✔ Connected' <<<"$list"; then
    ok "the worker alone as $name: ✔ Connected"
  else
    not_ok "the worker alone as $name"
    tail -5 <<<"$list"
  fi
}

chmod 755 "$WORK"
# A bundle, because git refuses to clone a folder that another account owns.
git -C "$ROOT" bundle create -q "$WORK/source.bundle" HEAD
chmod 644 "$WORK/source.bundle"
for w in "${who[@]}"; do
  case $w in
    user)
      ! id $USERNAME >/dev/null 2>&1 || remove_user
      useradd -m -p '*' -s /bin/bash $USERNAME
      at_exit remove_user
      cd "/home/$USERNAME"
      newcomer "an ordinary user" runuser -u $USERNAME --
      first=$(head -1 "/home/$USERNAME/start.log" 2>/dev/null || true)
      if grep -qi 'shared-account' <<<"$first"; then ok "its first line says shared-account"; else not_ok "its first line" "$first"; fi
      left=$(ps -u $USERNAME -o stat=,pid=,args= | grep -v '^Z' || true)
      if [ -z "$left" ]; then ok "stop-server.sh left none of the user's processes"; else not_ok "left running" "$left"; fi
      ;;
    root)
      mkdir -p "$WORK/rootnew"
      cd "$WORK/rootnew"
      newcomer root env
      ;;
  esac
done
cd /
summary
