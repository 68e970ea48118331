#!/usr/bin/env bash
# The identity is real: through the running server, as root, two people's calls
# run as two accounts that cannot reach each other. Checked from outside.
set -euo pipefail
usage() { echo "usage: scripts/test-identity.sh   (as root; starts the demo on a free port, stops it at the end)"; }
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  ?*) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
[ "$(id -u)" = 0 ] || die "needs root: it starts workers as other accounts"
own_state
need_packages curl jq
[ -x /usr/bin/python3 ] || apt-get install -y -qq python3-minimal >/dev/null

BIN=/usr/local/libexec/gatehouse-test.$$
install -d -m 755 "$BIN"
at_exit rm -rf "$BIN"
install -m 755 "$ROOT/scripts/testdata/identity-worker.py" "$BIN/identity-worker.py"

# start COMMAND: (re)starts the demo with that worker; sets PORT, CA, MONITOR.
start() {
  PORT=$(free_port)
  export MCP_PORT=$PORT MCP_WORKER_COMMAND=$1
  [ -n "$1" ] || unset MCP_WORKER_COMMAND
  "$ROOT/scripts/run-auth-server.sh" --demo >"$WORK/start.log" 2>&1 || { cat "$WORK/start.log"; die "the server did not start"; }
  at_exit "$ROOT/scripts/stop-server.sh" "$PORT"
  CA=$(grep -aEo 'NODE_EXTRA_CA_CERTS=[^ "]+' "$WORK/start.log" | head -1 | cut -d= -f2)
  for user in alice bob; do "$ROOT/scripts/demo-token.sh" $user >"$WORK/$user.token"; done
}
# post USER BODY [SESSION]: the answer's body, headers in WORK/headers.
post() {
  curl -sS --cacert "$CA" -D "$WORK/headers" -H "Authorization: Bearer $(cat "$WORK/$1.token")" -H 'Content-Type: application/json' \
    -H 'Accept: application/json, text/event-stream' ${3:+-H "Mcp-Session-Id: $3"} -d "$2" "https://localhost:$PORT/mcp" |
    sed -n 's/^data: //p; /^{/p'
}
# open_session USER: its session id.
open_session() {
  post "$1" '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' >"$WORK/init.$1"
  local id
  id=$(tr -d '\r' <"$WORK/headers" | sed -n 's/^mcp-session-id: //Ip')
  post "$1" '{"jsonrpc":"2.0","method":"notifications/initialized"}' "$id" >/dev/null
  echo "$id"
}
# call USER SESSION TOOL ARGUMENTS: the text of the tool's answer.
call() {
  post "$1" "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"$3\",\"arguments\":$4}}" "$2" |
    jq -r '.result.content[0].text // .'
}
# alive PID: it runs; a zombie does not.
alive() { [ -d "/proc/$1" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }
same() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got '$2', want '$3'"; fi; }
status_of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" | tr -s '[:space:]' ' ' | sed 's/ $//'; }

start "[\"/usr/bin/python3\", \"-I\", \"$BIN/identity-worker.py\"]"
declare -A S P
for user in alice bob; do
  S[$user]=$(open_session $user)
  call $user "${S[$user]}" whoami '{}' >"$WORK/$user.json"
  P[$user]=$(jq .pid "$WORK/$user.json")
  account=gatehouse-$user
  uid=$(id -u $account) gid=$(id -g $account)
  groups=$(id -G $account | tr ' ' '\n' | sort -n | tr '\n' ' ' | sed 's/ $//')
  pid=${P[$user]}
  same "$user: real, effective, saved and fs uid are $account's" "$(status_of "$pid" Uid)" "$uid $uid $uid $uid"
  same "$user: the four gids are $account's" "$(status_of "$pid" Gid)" "$gid $gid $gid $gid"
  same "$user: exactly $account's supplementary groups" "$(status_of "$pid" Groups | tr ' ' '\n' | sort -n | tr '\n' ' ' | sed 's/ $//')" "$groups"
  for c in CapInh CapPrm CapEff CapBnd CapAmb; do same "$user: $c is empty" "$(status_of "$pid" $c)" 0000000000000000; done
  same "$user: no new privileges" "$(status_of "$pid" NoNewPrivs)" 1
  same "$user: umask" "$(jq -r .umask "$WORK/$user.json")" 077
  same "$user: inherited descriptors" "$(jq -c '[.fds[][0]]' "$WORK/$user.json")" '[0,1,2]'
  same "$user: environment names" "$(jq -c '.env|keys - ["TMPDIR","TZ"]' "$WORK/$user.json")" '["HOME","LANG","LOGNAME","PATH","SHELL","USER"]'
  same "$user: HOME, USER and working folder" "$(jq -r '[.env.HOME,.env.USER,.env.LOGNAME,.cwd]|join(" ")' "$WORK/$user.json")" "$(getent passwd $account | cut -d: -f6) $account $account $(getent passwd $account | cut -d: -f6)"
  if grep -aqF "$(cut -d. -f3 "$WORK/$user.token")" "/proc/$pid/environ" "/proc/$pid/cmdline" "$WORK/$user.json"; then not_ok "$user: the token reached the worker"; else ok "$user: the token is nowhere in the worker's environment or arguments"; fi
done
secret=$(getent passwd gatehouse-alice | cut -d: -f6)/gatehouse-test-secret
at_exit rm -f "$secret"
same "alice writes a file of her own, mode 0600" "$(call alice "${S[alice]}" try_write "{\"path\":\"$secret\",\"text\":\"hers\"}")" '{"mode": "600"}'
same "alice reads it" "$(call alice "${S[alice]}" try_read "{\"path\":\"$secret\"}")" '{"read": "hers"}'
same "bob cannot read it" "$(call bob "${S[bob]}" try_read "{\"path\":\"$secret\"}")" '{"error": "Permission denied"}'
same "bob cannot signal alice's worker" "$(call bob "${S[bob]}" try_kill "{\"pid\":${P[alice]}}")" '{"error": "Operation not permitted"}'
same "bob cannot read alice's worker's environment" "$(call bob "${S[bob]}" try_read "{\"path\":\"/proc/${P[alice]}/environ\"}")" '{"error": "Permission denied"}'
same "a stranger's session id is an unknown one" "$(post bob '{"jsonrpc":"2.0","id":9,"method":"ping"}' "${S[alice]}" | jq -c .error)" "$(post bob '{"jsonrpc":"2.0","id":9,"method":"ping"}' AAAAAAAAAAAAAAAAAAAAAA | jq -c .error)"
S2=$(open_session alice)
pid2=$(call alice "$S2" whoami '{}' | jq .pid)
if [ "$pid2" != "${P[alice]}" ]; then ok "two sessions of alice have two workers"; else not_ok "two sessions of alice share worker $pid2"; fi

# The service's own processes.
monitor=$(status_of "${P[alice]}" PPid)
for child in $(pgrep -P "$monitor"); do
  # A process's /proc/PID/exe can be read by root whatever its account.
  case $(readlink "/proc/$child/exe") in
    */gatehouse) want=gatehouse name="front end" ;;
    */gatehouse-keykeeper) want=gatehouse-keys name=keykeeper ;;
    *) continue ;;
  esac
  u=$(id -u "$want")
  same "the $name runs as $want" "$(status_of "$child" Uid)" "$u $u $u $u"
  same "the $name has no capabilities" "$(status_of "$child" CapPrm) $(status_of "$child" CapEff) $(status_of "$child" CapBnd)" "0000000000000000 0000000000000000 0000000000000000"
  same "the $name has no new privileges" "$(status_of "$child" NoNewPrivs)" 1
done
[ "$PASSED" -ge 40 ] || not_ok "the front end or the keykeeper was not found below the monitor ($monitor)"
curl -sS -o /dev/null --cacert "$CA" -X DELETE -H "Authorization: Bearer $(cat "$WORK/bob.token")" -H "Mcp-Session-Id: ${S[bob]}" "https://localhost:$PORT/mcp"
for _ in $(seq 60); do alive "${P[bob]}" || break; sleep 0.1; done
if alive "${P[bob]}"; then not_ok "bob's worker outlives DELETE"; else ok "DELETE ends bob's worker"; fi
if alive "${P[alice]}"; then ok "alice's worker is untouched by it"; else not_ok "alice's worker died with bob's"; fi
check "stop-server.sh succeeds" "$ROOT/scripts/stop-server.sh" "$PORT"
left=$(for p in "${P[@]}" "$pid2" "$monitor"; do ! alive "$p" || echo "$p"; done)
same "nothing is left running" "$left" ""

# The built-in worker gets its settings on a sealed memory file.
start ""
s=$(open_session alice)
call alice "$s" status '{}' >"$WORK/status"
# Whom it serves it can only know from there: its environment and arguments do not say it.
if grep -q 'subject demo-alice' "$WORK/status"; then ok "gatehouse-worker got its settings on descriptor 3"; else not_ok "gatehouse-worker's settings" "$(cat "$WORK/status")"; fi
if grep -q gatehouse-alice "$WORK/status"; then ok "its status tool names the account"; else not_ok "its status tool" "$(cat "$WORK/status")"; fi
check "stop-server.sh succeeds again" "$ROOT/scripts/stop-server.sh" "$PORT"

# Warm workers: the second session's worker was there before it, and is like the first's.
export MCP_WARM_WORKERS=1
start "[\"/usr/bin/python3\", \"-I\", \"$BIN/identity-worker.py\"]"
listed() { "$ROOT/bin/gatehouse" sessions list --port "$PORT" --json | jq -c "select($1)"; }
like() { jq -Sc 'del(.pid) | .fds |= map([.[0], (.[1] | sub("\\[.*"; ""))])' "$1"; } # pipes have numbers
s=$(open_session alice)
call alice "$s" whoami '{}' >"$WORK/cold.json"
for _ in $(seq 50); do
  warm=$(listed .warm)
  [ -z "$warm" ] || break
  sleep 0.1
done
pid=$(jq .pid <<<"$warm")
same "one warm worker of alice's account" "$(jq -r '[.account,.server]|join(" ")' <<<"$warm")" "gatehouse-alice /mcp"
uid=$(id -u gatehouse-alice)
same "the warm worker's uids" "$(status_of "$pid" Uid)" "$uid $uid $uid $uid"
sb=$(open_session bob)
same "bob is not given it" "$(call bob "$sb" whoami '{}' | jq -r .env.USER)" gatehouse-bob
if [ "$(listed ".pid == $pid and .warm" | jq -r .pid)" = "$pid" ]; then ok "it still waits"; else not_ok "it waits no more"; fi
s2=$(open_session alice)
call alice "$s2" whoami '{}' >"$WORK/warm.json"
same "alice's second session is given it" "$(jq .pid "$WORK/warm.json")" "$pid"
same "environment, folder, umask and descriptors are those of a cold one" "$(like "$WORK/warm.json")" "$(like "$WORK/cold.json")"
for f in Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp; do same "$f as well" "$(status_of "$pid" $f)" "$(status_of "$(jq .pid "$WORK/cold.json")" $f)"; done
all=$(listed true | jq .pid)
check "stop-server.sh succeeds with warm workers" "$ROOT/scripts/stop-server.sh" "$PORT"
same "no worker is left, warm or not" "$(for p in $all; do ! alive "$p" || echo "$p"; done)" ""
summary
