#!/usr/bin/env bash
# What the front end costs, as ratios from one run beside a null handler and two
# floors (hand-written relays without limits, eras or a monitor).
set -euo pipefail
usage() {
  cat <<'EOF'
usage: scripts/bench.sh [--rounds N] [--seconds S] [--table calls|churn|sessions|growth]
                        [--only NAME,…] [--clients N,…] [--payloads BYTES,…]

--table calls, the default, prints F, F/N, L1 and K (explained in scripts/bench/ratios.py) for
  the null handler, the floors (simple; best; best with TLS),
  gatehouse in loopback mode, with TLS and RS256 tokens in shared-account mode,
  and, as root, with TLS, RS256 tokens and the monitor (real accounts).
churn: open, call, DELETE. sessions: memory of idle sessions. growth: F by clients
and by payload. --only keeps the front ends whose names hold one of the words, and
the null handler.
Machines differ and are shared: compare ratios within one table only.
About 6 minutes for the default of 3 rounds of 2.5 s.
EOF
}
rounds=3 seconds=2.5 more=()
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --table | --only | --clients | --payloads) more+=("$1" "$2"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
command -v taskset >/dev/null || need_packages util-linux:taskset
[ "$(nproc)" -ge 2 ] || die "needs two CPUs: the server on one, the client on the other"

# Where every account may execute the programs.
if [ "$(id -u)" = 0 ]; then BIN=/usr/local/libexec/gatehouse-bench.$$; else BIN=$WORK/bin; fi
install -d -m 755 "$BIN"
at_exit rm -rf "$BIN"
(cd "$ROOT" && CGO_ENABLED=0 go build -trimpath -o "$BIN/" ./scripts/bench/... ./cmd/...)
chmod 755 "$BIN"/*

audience=https://localhost:19443/mcp
issuer_plain=$(free_port) issuer_tls=$(free_port)
install -d -m 700 "$WORK/issuer"
"$BIN/issuer" -http "127.0.0.1:$issuer_plain" -https "127.0.0.1:$issuer_tls" -dir "$WORK/issuer" -audience "$audience" &
at_exit kill $!
for _ in $(seq 100); do curl -sf --cacert "$WORK/issuer/ca.pem" "https://127.0.0.1:$issuer_tls/jwks" >/dev/null 2>&1 && break; sleep 0.1; done
plain=http://127.0.0.1:$issuer_plain secure=https://127.0.0.1:$issuer_tls
export plain secure audience BIN WORK

common() { # the settings that a load of many sessions wants raised
  printf '"MCP_MAX_SESSIONS":"1100","MCP_MAX_SESSIONS_PER_PRINCIPAL":"1100","MCP_SPAWN_RATE":"1000","MCP_SPAWN_BURST":"1000","MCP_WORKER_COMMAND":"[\\"%s/worker\\"]","MCP_STATE_DIR":"%s"' "$BIN" "$STATE_DIR"
}
authenticated() {
  printf '"MCP_MODE":"authenticated","MCP_ISSUER":"%s","MCP_ISSUER_CA":"%s/issuer/ca.pem","MCP_AUDIENCE":"%s","MCP_REQUIRED_SCOPES":"mcp:use","MCP_TLS_CERT":"%s","MCP_TLS_KEY":"%s"' "$secure" "$WORK" "$audience" "$WORK/tls/server.pem" "$WORK/tls/server.key"
}
floor() { # NAME SCHEME ISSUER OPTIONS…; an empty ISSUER: no tokens
  local name=$1 scheme=$2 issuer=$3 port tokens=""
  shift 3
  port=$(free_port)
  if [ -n "$issuer" ]; then
    tokens=",\"tokens\":\"$WORK/issuer/tokens-http\""
    set -- -issuer "$issuer" -aud "$audience" "$@"
  fi
  printf ',{"name":"%s","port":%d,"url":"%s://127.0.0.1:%d/mcp"%s,"cmd":["%s/floor","-addr","127.0.0.1:%d","-worker","%s/worker"%s]}' \
    "$name" "$port" "$scheme" "$port" "$tokens" "$BIN" "$port" "$BIN" "$(printf ',"%s"' "$@")"
}
ours() { # NAME SCHEME TOKENS ENVIRONMENT
  local port
  port=$(free_port)
  printf ',{"name":"%s","port":%d,"settle":1.5,"url":"%s://localhost:%d/mcp"%s,"cmd":["%s/gatehouse","serve"],"env":{"MCP_PORT":"%d",%s}}' \
    "$1" "$port" "$2" "$port" "${3:+,\"tokens\":\"$3\"}" "$BIN" "$port" "$4"
}

"$BIN/gatehouse-demo" cert --dir "$WORK/tls" --name server >/dev/null
STATE_DIR=$WORK/state
if [ "$(id -u)" = 0 ]; then
  bash -c '. "$1" && ensure_system_users' bash "$ROOT/scripts/lib.sh" >/dev/null
  STATE_DIR=/var/lib/gatehouse-bench.$$
  at_exit rm -rf "$STATE_DIR"
  account=ghtest-bench
  id $account >/dev/null 2>&1 || useradd -m -p '*' -s /bin/bash $account
  at_exit userdel -r $account
  install -m 600 /dev/null "$WORK/accounts.yaml"
  for i in $(seq 0 31); do printf -- '- {issuer: "%s", subject: u%d, account: %s}\n' "$secure" "$i" $account; done >"$WORK/accounts.yaml"
fi
port=$(free_port)
{
  printf '[{"name":"null net/http handler","port":%d,"url":"http://127.0.0.1:%d/mcp","cmd":["%s/null","-addr","127.0.0.1:%d"]}' "$port" "$port" "$BIN" "$port"
  floor "floor, simple, RS256" http "$plain" -simple
  floor "floor, best, no token" http ""
  floor "floor, best, RS256" http "$plain"
  floor "floor, best, RS256 + TLS" https "$plain" -tls
  ours "gatehouse, loopback" http "" "\"MCP_MODE\":\"loopback\",$(common)"
  ours "gatehouse, TLS + RS256, shared-account" https "$WORK/issuer/tokens-https" "$(authenticated),\"MCP_RUN_AS\":\"shared-account\",$(common)"
  if [ "$(id -u)" = 0 ]; then
    ours "gatehouse, TLS + RS256, monitor" https "$WORK/issuer/tokens-https" "$(authenticated),\"MCP_RUN_AS\":\"monitor\",\"MCP_ACCOUNTS_FILE\":\"$WORK/accounts.yaml\",$(common)"
  else
    say "SKIPPED: the monitor with real accounts needs root" >&2
  fi
  printf ']\n'
} | sed 's/,""\]/]/g' >"$WORK/cases.json"
jq -e . "$WORK/cases.json" >/dev/null || die "the list of cases is no JSON"
python3 "$ROOT/scripts/bench/ratios.py" --bin "$BIN" --cases "$WORK/cases.json" --rounds "$rounds" --seconds "$seconds" "${more[@]}" || {
  tail -5 "$BIN/fronts.log" >&2
  exit 1
}
