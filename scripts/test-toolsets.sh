#!/usr/bin/env bash
# The toolsets through the real front end: two people over TLS, as their own
# accounts, on one shared repository.
set -euo pipefail
case ${1:-} in
  -h | --help)
    echo "usage: scripts/test-toolsets.sh   (as root; starts the demo on a free port, stops it at the end)"
    exit 0
    ;;
esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
[ "$(id -u)" = 0 ] || die "needs root: it starts workers as other accounts"
need_packages git acl:setfacl curl

# Where every account gets through.
SHARED=/var/lib/gatehouse-test.$$
install -d -m 755 "$SHARED"
at_exit rm -rf "$SHARED"
PORT=$(free_port)
export MCP_PORT=$PORT MCP_WORKSPACE=$SHARED/code.git
# The demo makes its accounts; the groups are ones that every Debian has.
"$ROOT/scripts/setup-oidc-users.sh" --demo >"$WORK/users.log" 2>&1 || { cat "$WORK/users.log"; die "the accounts could not be made"; }
for group in users games; do
  for who in alice bob; do at_exit gpasswd -d "gatehouse-$who" "$group"; done
done
"$ROOT/scripts/setup-workspace.sh" "$MCP_WORKSPACE" --sample --write-group users --read-group games --writer gatehouse-alice --writer gatehouse-bob >"$WORK/setup.log" 2>&1 ||
  { cat "$WORK/setup.log"; die "the workspace could not be made"; }
check "setup-workspace.sh --check finds it in order" "$ROOT/scripts/setup-workspace.sh" "$MCP_WORKSPACE" --check --write-group users --read-group games
"$ROOT/scripts/run-auth-server.sh" --demo >"$WORK/start.log" 2>&1 || { cat "$WORK/start.log"; die "the server did not start"; }
at_exit "$ROOT/scripts/stop-server.sh" "$PORT"
ca=$(grep -aEo 'NODE_EXTRA_CA_CERTS=[^ "]+' "$WORK/start.log" | head -1 | cut -d= -f2)
export GATEHOUSE_STORY_URL=https://localhost:$PORT/mcp GATEHOUSE_STORY_CA=$ca GATEHOUSE_STORY_REPOSITORY=$MCP_WORKSPACE
GATEHOUSE_STORY_TOKEN_alice=$("$ROOT/scripts/demo-token.sh" alice)
GATEHOUSE_STORY_TOKEN_bob=$("$ROOT/scripts/demo-token.sh" bob)
export GATEHOUSE_STORY_TOKEN_alice GATEHOUSE_STORY_TOKEN_bob
if (cd "$ROOT" && env -u MCP_WORKSPACE go test -count=1 -run '^TestStoryThroughTheFrontEnd$' -v ./cmd/gatehouse-worker) >"$WORK/story.log" 2>&1 && grep -q '^--- PASS' "$WORK/story.log"; then
  ok "the story of alice, bob and a reader"
else
  not_ok "the story of alice, bob and a reader" "$(tail -40 "$WORK/story.log")"
fi
check "the repository's rights are in order afterwards" "$ROOT/scripts/setup-workspace.sh" "$MCP_WORKSPACE" --check --write-group users --read-group games
summary
