#!/usr/bin/env bash
# The one command that tests Gatehouse. It installs what it needs (as root, by
# package name; as another user it prints the line that does) and says aloud
# what it skips.
set -uo pipefail
usage() {
  cat <<'EOF'
usage: scripts/test.sh [fast|full|soak] [STAGE…]

  fast   build, gofmt, vet, the Go tests without the race detector's cost (about a minute when cached)
  full   everything that CI runs: linters, the Go tests under the race detector (with the fuzz targets' seeds),
         end-to-end scripts, the conformance suite, real clients, a real Keycloak, 3 minutes of chaos
  soak   long campaigns: every fuzz target for FUZZ_SECONDS (default 300), the chaos test for CHAOS_MINUTES (30),
         all names of seven modules beside gopls (every REAL_EVERY-th: hours with 1);
         "scripts/test.sh soak fuzz" gives each fuzz target 3 s

With STAGE names only those stages of the level run. --list prints them.
In full a stage that fails is tried once more, and the table says so.
Exit status 0 when every stage that ran passed.
EOF
}
level=fast
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  fast | full | soak) level=$1; shift ;;
esac
# shellcheck source=scripts/test-lib.sh
. "$(dirname "$0")/test-lib.sh"
cd "$ROOT" || exit 1
STATICCHECK=honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK=golang.org/x/vuln/cmd/govulncheck@v1.9.0
am_root() { [ "$(id -u)" = 0 ]; }

stage_tools() {
  if [ "$level" = full ]; then
    need_packages curl jq openssl python3 shellcheck npm
  else
    need_packages curl jq openssl
  fi
}
stage_build() { scripts/build.sh; }
stage_format() {
  local out
  out=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
  [ -z "$out" ] || { say "not formatted by gofmt:" "$out"; return 1; }
}
stage_vet() { go vet ./...; }
stage_layout() {
  local extra
  extra=$(git ls-files | cut -d/ -f1 | sort -u | grep -vxE 'cmd|auth|router|session|toolsets|certs|scripts|docs|go\.mod|go\.sum|README\.md|\..*' || true)
  [ -z "$extra" ] || { say "not in the agreed layout: $extra"; return 1; }
  extra=$(git ls-files | grep -iE '\.(pem|key|p12|pfx)$|(^|/)id_(rsa|ed25519)' || true)
  [ -z "$extra" ] || { say "key material in the tree: $extra"; return 1; }
  git grep -nIE 'BEGIN [A-Z ]*PRIVATE KEY-----$' -- . && { say "a private key in the tree"; return 1; }
  return 0
}
stage_staticcheck() { go run "$STATICCHECK" ./...; }
stage_vulnerabilities() {
  local out rc=0
  out=$(go run "$GOVULNCHECK" ./... 2>&1) || rc=$?
  if [ "$rc" != 0 ] && grep -q 'fetching vulnerabilities' <<<"$out"; then
    say "SKIPPED: the vulnerability database cannot be reached from here"
    return 0
  fi
  say "$out"
  return "$rc"
}
stage_shellcheck() { git ls-files 'scripts/*.sh' .ci/run | xargs shellcheck -x; }
stage_unit() { go test ./... 2>&1 | grep -v 'no test files'; return "${PIPESTATUS[0]}"; }
stage_race() {
  am_root || say "SKIPPED: the tests that need root (real accounts, credentials, cgroups)"
  go test -race ./... 2>&1 | grep -v 'no test files'
  return "${PIPESTATUS[0]}"
}
# Every fuzz target, one after the other: fuzz_all SECONDS.
fuzz_all() {
  local pkg target bad=0
  while read -r pkg; do
    for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
      if go test -run '^$' -fuzz "^$target\$" -fuzztime "${1}s" "$pkg" >"$WORK/fuzz.out" 2>&1; then
        say "ok   $pkg $target"
      else
        say "FAIL $pkg $target"
        tail -30 "$WORK/fuzz.out"
        bad=1
      fi
    done
  done < <(git grep -lE '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's|^|./|')
  return "$bad"
}
stage_fuzz() { fuzz_all 3; }
stage_fuzz_long() { fuzz_all "${FUZZ_SECONDS:-300}"; }
stage_tls() { scripts/test-tls.sh; }
stage_conformance() { scripts/test-conformance.sh; }
stage_clients() { scripts/test-first-clients.sh; }
stage_workers() { scripts/test-workers.sh; }
stage_all_clients() { scripts/test-clients.sh; }
stage_client_grid() {
  local era bad=0
  for era in legacy modern; do
    WORKER_ERA=$era scripts/test-clients.sh --way header --client python --client typescript-v1 --client typescript-v2 --client go || bad=1
  done
  return "$bad"
}
stage_all_clients_keycloak() { scripts/test-clients.sh --issuer keycloak; }
stage_lifetime() { scripts/test-lifetime.sh; }
stage_lifetime_clients() { scripts/test-lifetime-clients.sh; }
stage_chaos() { scripts/test-chaos.sh; }
stage_chaos_long() { scripts/test-chaos.sh --minutes "${CHAOS_MINUTES:-30}"; }
stage_toolsets() {
  if am_root; then scripts/test-toolsets.sh; else say "SKIPPED: needs root (several accounts)"; fi
}
# Arguments made to break each of the tools, so many seconds for each.
random_arguments() { GATEHOUSE_FUZZ_SECONDS=$1 go test -count=1 -timeout 2h -run '^TestRandomArguments$' ./cmd/gatehouse-worker; }
stage_arguments() { random_arguments 3; }
stage_arguments_long() { random_arguments 60; }
stage_realcode() { scripts/test-realcode.sh; }
stage_realcode_long() { scripts/test-realcode.sh --whole --every "${REAL_EVERY:-1}"; }
stage_keycloak() { scripts/test-keycloak.sh; }
stage_newcomer() {
  if am_root; then scripts/test-newcomer.sh; else say "SKIPPED: needs root (makes an account to be a newcomer)"; fi
}
stage_bench() { scripts/bench.sh --smoke; }
stage_identity() {
  if am_root; then scripts/test-identity.sh; else say "SKIPPED: needs root (workers of real accounts)"; fi
}

fast=(tools build format vet layout unit)
full=(tools build format vet layout staticcheck vulnerabilities shellcheck race tls identity conformance workers
  clients keycloak newcomer toolsets arguments realcode bench lifetime lifetime_clients chaos all_clients client_grid all_clients_keycloak)
soak=(tools build fuzz_long arguments_long chaos_long realcode_long)
declare -n stages=$level
if [ "${1:-}" = --list ]; then printf '%s\n' "${stages[@]}"; exit 0; fi
known=("${stages[@]}")
[ $# = 0 ] || stages=("$@")
for s in "${stages[@]}"; do
  declare -F "stage_$s" >/dev/null || { echo "test.sh: no stage $s; $level has: ${known[*]}" >&2; exit 2; }
done

# attempt STAGE: no "if" around the subshell: that would switch set -e off.
attempt() {
  (set -e; "stage_$1") </dev/null
}

table=()
bad=0
for s in "${stages[@]}"; do
  say "=== $s"
  start=$(date +%s)
  attempt "$s"
  rc=$?
  verdict=ok
  if [ $rc != 0 ] && [ "$level" = full ]; then
    # Services, registries and a shared machine: a stage that fails gets one more
    # try, and the table says that it needed it.
    say "=== $s failed; once more"
    attempt "$s"
    rc=$?
    verdict="ok, 2nd"
  fi
  [ $rc = 0 ] || { verdict=FAILED; bad=1; }
  table+=("$(printf '%-22s %-8s %4d s' "$s" "$verdict" $(($(date +%s) - start)))")
  say ""
done
say "stage                  result      time"
printf '%s\n' "${table[@]}"
n_ok=$(printf '%s\n' "${table[@]}" | grep -c ' ok')
say "$n_ok passed, $((${#table[@]} - n_ok)) failed"
exit $bad
