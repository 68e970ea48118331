# shellcheck shell=bash
# The clients: how each is installed and driven. Source it after test-lib.sh.
# What a driver is to do it reads from the environment; person.py lists it.

ALL_CLIENTS=(python fastmcp typescript-v1 typescript-v2 go inspector inspector-web mcp-remote claude-code gatehouse)
HERE=$ROOT/scripts/clients
export LOGIN=$ROOT/scripts/keycloak/login.py
NODE=''

# install_clients NAME…: the versions that docs/clients.md speaks of.
install_clients() {
  local c
  for c in "$@"; do
    case $c in
      python) python_cached python-mcp mcp==2.3.0 ;;
      fastmcp) python_cached python-fastmcp fastmcp==4.2.3 ;;
      typescript-*) need_node; npm_cached typescript-sdks @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0 ;;
      gatehouse) need_packages chromium chromium-driver:chromedriver; install_clients go ;;
      inspector-web) need_packages chromium chromium-driver:chromedriver; install_clients inspector ;;
      inspector) need_node; npm_cached inspector @modelcontextprotocol/inspector@2.12.0 ;;
      mcp-remote) need_node; npm_cached mcp-remote mcp-remote@0.15.1 ;;
      claude-code) need_node; npm_cached claude @anthropic-ai/claude-code ;;
      go) (cd "$ROOT" && go build -o "$WORK/gosdk" ./scripts/clients/gosdk) ;;
    esac
  done
  export NODE
}

# limited COMMAND…: no client may hang the test.
limited() { timeout "$((120 + ${HOLD:-0}))" "$@"; }
drive_python() { limited "$CACHE/python-mcp/bin/python" "$HERE/python_sdk.py"; }
drive_fastmcp() { HOME=$(mktemp -d "$WORK/home.XXXXXX") limited "$CACHE/python-fastmcp/bin/python" "$HERE/fastmcp_client.py"; }
drive_typescript_v1() { SDK=v1 drive_typescript_v2; }
drive_typescript_v2() { MODULES=$CACHE/typescript-sdks NODE_EXTRA_CA_CERTS=$CA limited "$NODE" "$HERE/typescript.mjs"; }
drive_go() { limited "$WORK/gosdk"; }
drive_inspector() {
  PROGRAM=$CACHE/inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js limited python3 "$HERE/inspector.py"
}
drive_inspector_web() {
  PROGRAM=$CACHE/inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js limited python3 "$HERE/inspector_web.py"
}
drive_mcp_remote() { PROGRAM=$CACHE/mcp-remote/node_modules/mcp-remote/dist/proxy.js limited python3 "$HERE/mcp_remote.py"; }
# drive_gatehouse: our own login, token and logout; the Go SDK uses the token.
drive_gatehouse() { GATEHOUSE=$ROOT/bin/gatehouse GOSDK=$WORK/gosdk limited "$HERE/gatehouse.sh"; }
# drive_claude_code: Claude Code keeps its settings in HOME; it gets one of its own.
drive_claude_code() {
  local home claude=$CACHE/claude/node_modules/.bin/claude
  home=$(mktemp -d "$WORK/home.XXXXXX")
  (
    cd "$home" || exit 1
    export HOME=$home NODE_EXTRA_CA_CERTS=$CA DISABLE_TELEMETRY=1 DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
    limited "$claude" mcp add --transport http gatehouse "$URL" ${TOKEN:+--header "Authorization: Bearer $TOKEN"} </dev/null || exit 1
    limited "$claude" mcp list </dev/null >list.out 2>&1
    cat list.out
    if grep -q 'gatehouse.*✔ Connected' list.out; then echo OK; exit 0; fi
    exit 3
  )
}

# cancels NAME: whether the client can cancel a call. Inspector's command line
# is over after one call; mcp-remote passes no cancellation on; Claude Code
# needs a model to call anything.
cancels() { case $1 in inspector* | mcp-remote | claude-code) return 1 ;; esac; }
# calls NAME: whether the driver calls tools.
calls() { [ "$1" != claude-code ]; }
# eras NAME: how the client can be told to find the protocol version.
eras() {
  case $1 in
    python | fastmcp | typescript-v2 | go | inspector) echo legacy auto ;;
    *) echo legacy ;;
  esac
}

# drive NAME LOG: runs the driver; its exit status.
drive() {
  local rc=0
  (export URL CA TOKEN SIGN_IN PASSWORD CLIENT_ID CLIENT_SECRET ISSUER MODE HOLD
   "drive_${1//-/_}" </dev/null >"$2" 2>&1) || rc=$?
  return $rc
}
