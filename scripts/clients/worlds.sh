# shellcheck shell=bash
# The servers and issuers that the client tests run against. Source it after
# test-lib.sh. A world sets URL, CA, ISSUER, PASSWORD, PUBLIC_CLIENT and how a
# token is had: static_token USER, other_audience USER, expired_token USER.

URL='' CA='' ISSUER='' PASSWORD='' PUBLIC_CLIENT='' PORT=''

# build_worker: the tools' process; it lies where the accounts that run it may execute it.
build_worker() {
  local bin
  if [ "$(id -u)" = 0 ]; then bin=/usr/local/libexec/gatehouse-test.$$; else bin=$WORK/bin; fi
  mkdir -p "$bin"
  chmod 755 "$bin"
  at_exit rm -rf "$bin"
  (cd "$ROOT" && CGO_ENABLED=0 go build -o "$bin/worker" ./scripts/clients/worker)
  export MCP_WORKER_COMMAND="[\"$bin/worker\"]"
}

# start_demo_server [NAME=VALUE…]: a demo with these settings on a free port.
start_demo_server() {
  [ -z "$PORT" ] || "$ROOT/scripts/stop-server.sh" "$PORT" >/dev/null
  PORT=$(free_port)
  env MCP_PORT="$PORT" MCP_EXTRA_SCOPES=offline_access "$@" "$ROOT/scripts/run-auth-server.sh" --demo >"$WORK/start.log" 2>&1 ||
    { cat "$WORK/start.log"; die "the server did not start"; }
  at_exit "$ROOT/scripts/stop-server.sh" "$PORT"
  URL=https://localhost:$PORT/mcp ISSUER=https://localhost:$((PORT + 1))
  CA=$(sed -n 's/^ *export NODE_EXTRA_CA_CERTS=//p' "$WORK/start.log" | head -1)
  PASSWORD=$(sed -n 's/^ *sign in .*, password //p' "$WORK/start.log")
  LOG=$(sed -n 's/^ *log  *//p' "$WORK/start.log")
}

world_demo() {
  PUBLIC_CLIENT=gatehouse-demo
  start_demo_server
}
demo_token() { MCP_PORT=$PORT "$ROOT/scripts/demo-token.sh" "$@"; }
static_token() { demo_token "$1"; }
other_audience() { demo_token "$1" --audience https://other.example/mcp; }
expired_token() { demo_token "$1" --life=-1h; }
allow_registration() { :; } # the demo issuer always does

# short_tokens: OUTLIVES is how many seconds a token is not served any more.
short_tokens() {
  OUTLIVES=8
  start_demo_server MCP_DEMO_TOKEN_LIFE=4s MCP_TOKEN_LEEWAY=1s
}

MACHINE_CLIENT='' MACHINE_SECRET='' MACHINE_SUBJECT=''
machine_client() {
  start_demo_server
  MACHINE_CLIENT=gatehouse-demo-machine MACHINE_SUBJECT=gatehouse-demo-machine MACHINE_SECRET=$PASSWORD
  ACCOUNTS=${LOG%/*}/accounts.yaml
  cp "$ACCOUNTS" "$WORK/accounts.people"
}

# map_machine yes|no: whether the accounts file names the machine's client.
map_machine() {
  local new=$ACCOUNTS.new
  (umask 077 && cp "$WORK/accounts.people" "$new")
  [ "$1" = no ] || cat >>"$new" <<YAML
- issuer: $ISSUER
  subject: $MACHINE_SUBJECT
  client_id: $MACHINE_CLIENT
  account: gatehouse-bob
YAML
  mv -f "$new" "$ACCOUNTS"
  kill -HUP "$(cut -d' ' -f1 "${LOG%/*}/server.pid")"
  sleep 0.5
}
