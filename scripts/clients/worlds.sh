# shellcheck shell=bash
# The servers and issuers that the client tests run against. Source it after
# test-lib.sh. world_NAME sets URL, CA, ISSUER, PASSWORD, PUBLIC_CLIENT and PREFIX;
# how a token is had: NAME_static_token USER, NAME_other_audience USER,
# NAME_expired_token USER; and NAME_allow_registration, NAME_short_tokens and
# NAME_machine_client prepare what a way of connecting needs.

URL='' CA='' ISSUER='' PASSWORD='' PUBLIC_CLIENT='' PORT='' ACCOUNTS=''
PREFIX='' # of the accounts: PREFIX and the user's name
MACHINE_CLIENT='' MACHINE_SECRET='' MACHINE_SUBJECT=''

# build_worker: the tools' process; it lies where the accounts that run it may execute it.
# With WORKER_ERA (legacy or modern) it refuses the other era.
build_worker() {
  local bin
  if [ "$(id -u)" = 0 ]; then bin=/usr/local/libexec/gatehouse-test.$$; else bin=$WORK/bin; fi
  mkdir -p "$bin"
  chmod 755 "$bin"
  at_exit rm -rf "$bin"
  (cd "$ROOT" && CGO_ENABLED=0 go build -o "$bin/worker" ./scripts/clients/worker)
  export MCP_WORKER_COMMAND="[\"$bin/worker\"]"
  if [ -n "${WORKER_ERA:-}" ]; then
    (cd "$ROOT" && CGO_ENABLED=0 go build -o "$bin/eraworker" ./scripts/eraworker)
    MCP_WORKER_COMMAND="[\"$bin/eraworker\",\"$WORKER_ERA\",\"$bin/worker\"]"
  fi
}

# start_server [--demo] [NAME=VALUE…]: run-auth-server.sh with these settings on PORT.
start_server() {
  local demo=()
  if [ "$1" = --demo ]; then demo=(--demo); shift; fi
  env MCP_PORT="$PORT" "$@" "$ROOT/scripts/run-auth-server.sh" "${demo[@]}" >"$WORK/start.log" 2>&1 ||
    { cat "$WORK/start.log"; die "the server did not start"; }
  at_exit "$ROOT/scripts/stop-server.sh" "$PORT"
  URL=https://localhost:$PORT/mcp
  LOG=$(sed -n 's/^ *log  *//p' "$WORK/start.log")
}
stop_server() { [ -z "$PORT" ] || "$ROOT/scripts/stop-server.sh" "$PORT" >/dev/null; }

# ---- the demo issuer --------------------------------------------------------

start_demo_server() {
  stop_server
  PORT=$(free_port)
  start_server --demo MCP_EXTRA_SCOPES=offline_access "$@"
  ISSUER=https://localhost:$((PORT + 1))
  CA=$(sed -n 's/^ *export NODE_EXTRA_CA_CERTS=//p' "$WORK/start.log" | head -1)
  PASSWORD=$(sed -n 's/^ *sign in .*, password //p' "$WORK/start.log")
  ACCOUNTS=${LOG%/*}/accounts.yaml
}

world_demo() {
  PUBLIC_CLIENT=gatehouse-demo PREFIX=gatehouse-
  start_demo_server
}
demo_token() { MCP_PORT=$PORT "$ROOT/scripts/demo-token.sh" "$@"; }
demo_static_token() { demo_token "$1"; }
demo_other_audience() { demo_token "$1" --audience https://other.example/mcp; }
demo_expired_token() { demo_token "$1" --life=-1h; }
demo_allow_registration() { :; } # it always does

# demo_short_tokens: OUTLIVES is after how many seconds a token is not served any more.
demo_short_tokens() {
  OUTLIVES=8
  start_demo_server MCP_DEMO_TOKEN_LIFE=4s MCP_TOKEN_LEEWAY=1s
}

demo_machine_client() {
  start_demo_server
  MACHINE_CLIENT=gatehouse-demo-machine MACHINE_SUBJECT=gatehouse-demo-machine MACHINE_SECRET=$PASSWORD
}

# demo_built_in: a server with the built-in worker.
demo_built_in() {
  unset MCP_WORKER_COMMAND
  start_demo_server
}

accounts_reads() { grep -c '"accounts file read again"' "$LOG" || true; }

# map_machine yes|no: whether the accounts file names the machine's client.
map_machine() {
  local new=$ACCOUNTS.new
  [ -e "$WORK/accounts.people" ] || cp "$ACCOUNTS" "$WORK/accounts.people"
  (umask 077 && cp "$WORK/accounts.people" "$new")
  [ "$1" = no ] || cat >>"$new" <<YAML
- issuer: $ISSUER
  subject: $MACHINE_SUBJECT
  client_id: $MACHINE_CLIENT
  account: ${PREFIX}bob
YAML
  mv -f "$new" "$ACCOUNTS"
  local reads i
  reads=$(accounts_reads)
  kill -HUP "$(cut -d' ' -f1 "${LOG%/*}/server.pid")"
  for i in $(seq 100); do
    if [ "$(accounts_reads)" -gt "$reads" ]; then break; fi
    sleep 0.1
  done
  sleep 2.5 # a running worker that is mapped no more gets two seconds to end
}
