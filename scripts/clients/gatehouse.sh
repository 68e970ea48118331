#!/usr/bin/env bash
# Drives gatehouse login, token and logout; person.py says how it is told what to
# do. GATEHOUSE is the program, GOSDK the driver that uses the token.
#
# It signs in with Chromium, or with HOLD by a code on another device. With HOLD
# two processes ask for tokens for so long, before the token is used.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export HOME=$home XDG_STATE_HOME=$home/state MCP_CA=$CA
client=()
if [ -n "$CLIENT_ID" ]; then client=(--client-id "$CLIENT_ID"); fi

# by_device: the person reads the address and goes there.
by_device() {
  local at=''
  "$GATEHOUSE" login --device "${client[@]}" "$URL" >"$home/login.log" 2>&1 &
  local login=$!
  for _ in $(seq 100); do
    at=$(grep -oE 'https://[^ ]+user_code=[^ ]+' "$home/login.log") && break
    sleep 0.2
  done
  MCP_ISSUER_CA=$CA python3 "$here/device.py" "$at"
  wait "$login" || { cat "$home/login.log"; return 1; }
}

if [ -n "$HOLD" ]; then
  by_device
  ask() {
    local n=0 until=$((SECONDS + HOLD))
    while [ $SECONDS -lt $until ]; do
      "$GATEHOUSE" token "$URL" >"$home/token.$1"
      n=$((n + 1))
    done
    echo "process $1 asked $n times"
  }
  ask a & first=$!
  ask b & second=$!
  wait "$first"
  wait "$second"
else
  BROWSER=$here/chromium.py "$GATEHOUSE" login "${client[@]}" "$URL"
fi
TOKEN=$("$GATEHOUSE" token "$URL")
export TOKEN
HOLD='' "$GOSDK" | tee "$home/session"
if [ -n "$HOLD" ]; then sed -n 's/^whoami /again /p' "$home/session"; fi
"$GATEHOUSE" logout "$URL"
rc=0
"$GATEHOUSE" token "$URL" || rc=$?
[ "$rc" = 3 ] || { echo "after the sign-out token exits with $rc, not with 3"; exit 1; }
