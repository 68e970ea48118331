#!/usr/bin/env bash
# What the front end costs, as ratios from one run beside a null handler, two floors
# (hand-written relays without limits, eras or a monitor) and what others offer.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/bench.sh [--table NAME] [--rounds N] [--seconds S] [--only WORD,…] [--write PAGE] [--beside FILE] [--by-session]
       scripts/bench.sh --smoke
       scripts/bench.sh toolsets [--rounds N] [--write PAGE]

Tables (--table; their columns are explained in scripts/bench/tables/__main__.py):
  calls     F, F/N, L1 and K of a call beside the floors, in both eras and bridged between them
  tokens    what the first use of a token costs more than the next
  churn     open, call, DELETE, beside fork, exec and handshake of the worker alone, and
            beside the monitor's spawn without HTTP
  sessions  1,000 idle sessions: memory by kind of connection beside a plain handler, calls
            beside them, their opening and their end
  streams   1,000 streams with a message a second each beside a plain writer of events;
            results of 16 MiB; clients that do not read
  growth    F by clients (1 to 512) and by payload (10 B to 1 MiB), with exponents
  rivals    supergateway, mcp-proxy (npm and PyPI), fastmcp and a bridge on the Go SDK,
            installed by name and version; what cannot be is skipped aloud
  all       each of them in turn
gatehouse is measured in loopback mode, with TLS and RS256 tokens in shared-account mode
and, as root, with TLS, tokens and the monitor (real accounts).

--only keeps the front ends whose names hold one of the words. --write puts each table
between its markers into PAGE (docs/performance.md), and the plot of growth beside it.
--beside measures the calls of further front ends as well; FILE is a JSON list such as
  [{"name": "mine", "cmd": ["/path/mine", "{port}", "{worker}", "{issuer}", "{audience}"],
    "url": "http://127.0.0.1:{port}/mcp", "auth": true}]
Everything runs in one control group for the processor, as under a service manager or in a
container; only root can make one. --by-session leaves that out: where the kernel has
autogroups, it then shares the processor out by session, and workers have one each. The
table is written between markers that end in "-by-session".
--smoke runs every table with tiny numbers, which mean nothing, in less than a minute;
it fails when a front end answers with an error or leaves a process.
toolsets measures the tools beside gopls and ripgrep (scripts/bench-toolsets.sh).

3 rounds of 2.5 s are the default: 8 minutes for calls, an hour for all. Machines
differ and are shared: compare ratios within one table only.
HELP
}
if [ "${1:-}" = toolsets ]; then
  shift
  exec "$(dirname "$0")/bench-toolsets.sh" "$@"
fi
table=calls fresh=500 grouping=one more=()
while [ $# -gt 0 ]; do
  case $1 in
    --table) table=$2; shift 2 ;;
    --rounds | --seconds | --only) more+=("$1" "$2"); shift 2 ;;
    --write | --beside) more+=("$1" "$(realpath "$2")"); shift 2 ;;
    --by-session) grouping=session; shift ;;
    --smoke) table=all fresh=50; more+=(--smoke --rounds 1 --seconds 0.1); shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "${0##*/}: unknown argument $1" >&2; usage >&2; exit 2 ;;
  esac
done
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
# shellcheck source=scripts/bench/rivals.sh
. "$ROOT/scripts/bench/rivals.sh"
need_packages util-linux:taskset curl
[ "$(nproc)" -ge 2 ] || die "needs two CPUs: the server on one, the client on the other"
ulimit -n "$(ulimit -H -n)" # a thousand clients in one process

# ---- programs, where every account may execute them -------------------------

if [ "$(id -u)" = 0 ]; then BIN=/usr/local/libexec/gatehouse-bench.$$; else BIN=$WORK/bin; fi
install -d -m 755 "$BIN"
at_exit rm -rf "$BIN"
(cd "$ROOT" && CGO_ENABLED=0 go build -trimpath -o "$BIN/" ./scripts/bench/... ./cmd/... \
  github.com/modelcontextprotocol/go-sdk/conformance/everything-server)
install -d -m 755 "$BIN/nofront" # where the load generator takes the front end's place
for p in gatehouse-monitor gatehouse-keykeeper; do ln "$BIN/$p" "$BIN/nofront/"; done
ln "$BIN/gatehouse" "$BIN/nofront/serve"
ln "$BIN/load" "$BIN/nofront/gatehouse"
chmod -R 755 "$BIN"
case $table:${more[*]} in
  *--smoke*) ;;
  rivals:* | all:*) install_rivals ;;
esac

# ---- an issuer, a certificate, accounts --------------------------------------

audience=https://localhost:19443/mcp
plain=127.0.0.1:$(free_port) secure=127.0.0.1:$(free_port)
install -d -m 700 "$WORK/issuer"
"$BIN/issuer" -http "$plain" -https "$secure" -dir "$WORK/issuer" -audience "$audience" -fresh $fresh &
at_exit kill $!
for _ in $(seq 300); do curl -sf --cacert "$WORK/issuer/ca.pem" "https://$secure/jwks" >/dev/null 2>&1 && break; sleep 0.1; done
"$BIN/gatehouse-demo" cert --dir "$WORK/tls" --name server >/dev/null 2>&1
state=$WORK/state
if [ "$(id -u)" = 0 ]; then
  bash -c '. "$1" && ensure_system_users' bash "$ROOT/scripts/lib.sh" >/dev/null
  state=/var/lib/gatehouse-bench.$$
  at_exit rm -rf "$state"
  account=ghtest-bench-$$
  useradd -m -p '*' -s /bin/bash "$account"
  at_exit userdel -r "$account"
  install -m 600 /dev/null "$WORK/accounts.yaml"
  for i in $(seq 0 31); do printf -- '- {issuer: "https://%s", subject: u%d, account: %s}\n' "$secure" "$i" "$account"; done >"$WORK/accounts.yaml"
fi

# ---- one control group -------------------------------------------------------

autogroups() { [ "$(cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null)" = 1 ]; }
enter_group() { echo $$ >"$1/cgroup.procs"; }
# one_group: this script and all that it starts share one scheduling group.
one_group() {
  local top group
  autogroups || return 0
  for top in /sys/fs/cgroup/cpu /sys/fs/cgroup; do # version 1, version 2
    group=$top/gatehouse-bench.$$
    mkdir "$group" 2>/dev/null || continue
    at_exit rmdir "$group"
    [ -e "$group/cpu.shares" ] || [ -e "$group/cpu.weight" ] || continue
    at_exit enter_group "$top"
    enter_group "$group" && return 0
  done
  return 1
}
if [ $grouping = session ]; then
  autogroups || die "--by-session needs a kernel with autogroups (kernel.sched_autogroup_enabled)"
elif ! one_group; then
  say "no control group for the processor can be made here; it is shared out as the system does" >&2
  grouping=system
fi

PYTHONDONTWRITEBYTECODE=1 python3 "$ROOT/scripts/bench/tables" --bin "$BIN" --work "$WORK" --state "$state" --plain "http://$plain" \
  --secure "https://$secure" --audience "$audience" --cache "$CACHE" --table "$table" --grouping $grouping "${more[@]}" || {
  tail -5 "$WORK/fronts.log" >&2
  exit 1
}
