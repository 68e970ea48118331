#!/usr/bin/env bash
# Every official client against a real server with TLS, the development CA and
# bearer tokens: with a token that it is given, and by its own sign-in.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/test-clients.sh [--client NAME]… [--issuer demo|keycloak] [--way NAME]…

  --client   python, fastmcp, typescript-v1, typescript-v2, go, inspector,
             inspector-web (in headless Chromium), mcp-remote, claude-code,
             gatehouse (our own login, token and logout); without one: all
  --issuer   demo (default): the embedded issuer; keycloak: a real Keycloak
  --way      header          a token in the Authorization header
             wrong           a token of another audience, and an expired one
             public-client   own sign-in with a client that exists
             registration    own sign-in with dynamic registration
             refresh         own sign-in, and the token expires in mid-session
             machine         client credentials
             page            the commands of docs/clients.md as they stand there

WORKER_ERA=legacy or modern runs the worker in one era of the protocol alone.
One line a client and way; exit status 0 when all passed. KEEP=DIR keeps what
the clients printed.
HELP
}
CLIENTS=() WAYS=() ISSUER_KIND=demo
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --client) CLIENTS+=("${2:?}"); shift ;;
    --issuer) ISSUER_KIND=${2:?}; shift ;;
    --way) WAYS+=("${2:?}"); shift ;;
    *) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
# shellcheck source=scripts/clients/drivers.sh
. "$ROOT/scripts/clients/drivers.sh"
# shellcheck source=scripts/clients/worlds.sh
. "$ROOT/scripts/clients/worlds.sh"
# shellcheck source=scripts/clients/keycloak.sh
. "$ROOT/scripts/clients/keycloak.sh"
# shellcheck source=scripts/clients/ways.sh
. "$ROOT/scripts/clients/ways.sh"
[ ${#CLIENTS[@]} -gt 0 ] || CLIENTS=("${ALL_CLIENTS[@]}")
[ ${#WAYS[@]} -gt 0 ] || WAYS=("${ALL_WAYS[@]}")
for c in "${CLIENTS[@]}"; do declare -F "drive_${c//-/_}" >/dev/null || die "no client $c; there are: ${ALL_CLIENTS[*]}"; done
for w in "${WAYS[@]}"; do declare -F "way_${w//-/_}" >/dev/null || die "no way $w; there are: ${ALL_WAYS[*]}"; done
declare -F "world_$ISSUER_KIND" >/dev/null || die "--issuer: demo or keycloak"

own_state
OUT=${KEEP:-$WORK/out}
mkdir -p "$OUT"
install_clients "${CLIENTS[@]}"
build_worker
"world_$ISSUER_KIND"
for w in "${WAYS[@]}"; do
  "prepare_${w//-/_}"
  for c in "${CLIENTS[@]}"; do "way_${w//-/_}" "$c"; done
done
summary
