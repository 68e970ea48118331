#!/usr/bin/env bash
# Makes what the authenticated server needs of accounts, and at Keycloak.
set -euo pipefail
usage() {
  cat <<'HELP'
usage: scripts/setup-oidc-users.sh [OPTION…] [--user NAME[:ACCOUNT][=SUBJECT]]…
       scripts/setup-oidc-users.sh --check …      says what is missing; changes nothing
       scripts/setup-oidc-users.sh --remove …     undoes what this script has made

Makes the service's system users and, for each --user, an account without a
password (unless it is there) and an entry in the accounts file that pins the
person's issuer and subject. With --keycloak it prepares the realm as well. It
can be run again: what is right is left alone. It prints what it changes.

  sudo MCP_AUDIENCE=https://mcp.example.com/mcp scripts/setup-oidc-users.sh \
       --keycloak https://id.example.com --realm staff --user alice --user bob:robert
  sudo scripts/setup-oidc-users.sh --issuer https://id.example.com/realms/staff \
       --user alice=f4442d85-ab89-4e67-9659-01bcc70e254d
  sudo scripts/setup-oidc-users.sh --demo                   # the accounts of run-auth-server.sh --demo
  sudo scripts/setup-oidc-users.sh --remove --user alice    # all that was made for alice
  sudo scripts/setup-oidc-users.sh --remove --keycloak https://id.example.com --realm staff

people
  --user NAME[:ACCOUNT][=SUBJECT]   user name at the issuer, account here (default: NAME), and the
                         subject of the person's tokens, which --keycloak can look up
  --issuer URL           the issuer, exactly as tokens say it (MCP_ISSUER)
  --demo                 the accounts gatehouse-alice, gatehouse-bob and gatehouse-demo; with --remove
                         also the keys and passwords of demos that run no more
Keycloak
  --keycloak URL --realm REALM      base URL and realm. Makes what is missing: the realm, the client
                         scope mcp:use with the audience, a public client for native MCP clients, users
  --audience URL         the server's resource identifier (MCP_AUDIENCE)
  --client-id NAME       the public client (mcp-cli)
  --allow-dcr            lets clients on this host register themselves; --dcr-host HOST (repeatable)
                         allows other hosts: an address, a name or *.domain
  --password-file FILE   lines NAME:PASSWORD for users that are made. Without it each gets a first
                         password, which is printed once
  --admin-user NAME      administrator (admin), of the realm --admin-realm REALM (master)
  --admin-password-file FILE        else KC_ADMIN_PASSWORD, else it is asked for
  --realm-only           only the realm and its users: no accounts, no accounts file, no root
MCP_ACCOUNTS_FILE        the accounts file (/etc/gatehouse/accounts.yaml)
MCP_ISSUER_CA            PEM file of Keycloak's private CA
--remove --purge         removes home folders too

Exit status: 0 done, or --check found all in order; 1 --check found something
missing; 2 refused or failed.
HELP
}
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/keycloak/accounts.sh
. "$ROOT/scripts/keycloak/accounts.sh"
die() { printf 'setup-oidc-users.sh: %s\n' "$*" >&2; exit 2; }

realm_only='' keycloak='' realm='' realm_args=() users=() password_file='' admin_file=''
# need OPTION VALUE: refuses an option without its value.
need() { [ -n "${2:-}" ] || die "$1 needs a value; --help shows how"; }
while [ $# -gt 0 ]; do
  case $1 in
    --check) action=check ;;
    --remove) action=remove ;;
    --purge) purge=1 ;;
    --demo) demo=1 ;;
    --realm-only) realm_only=1 ;;
    --allow-dcr) realm_args+=(--allow-dcr) ;;
    -h | --help) usage; exit 0 ;;
    --user) need "$1" "${2:-}"; users+=("$2"); shift ;;
    --issuer) need "$1" "${2:-}"; issuer=$2; shift ;;
    --audience) need "$1" "${2:-}"; audience=$2; shift ;;
    --keycloak) need "$1" "${2:-}"; keycloak=${2%/}; shift ;;
    --realm) need "$1" "${2:-}"; realm=$2; shift ;;
    --client-id) need "$1" "${2:-}"; realm_args+=(--client "$2"); shift ;;
    --dcr-host) need "$1" "${2:-}"; realm_args+=(--allow-dcr --dcr-host "$2"); shift ;;
    --admin-user | --admin-realm) need "$1" "${2:-}"; realm_args+=("$1" "$2"); shift ;;
    --password-file) need "$1" "${2:-}"; password_file=$2; shift ;;
    --admin-password-file) need "$1" "${2:-}"; admin_file=$2; shift ;;
    --*password*) die "passwords are never options, which other users can read: --admin-password-file, KC_ADMIN_PASSWORD, or the prompt" ;;
    *) note "unknown argument $1"; usage >&2; exit 2 ;;
  esac
  shift
done

# ---- what was asked for -----------------------------------------------------

# parse_user SPEC: NAME[:ACCOUNT][=SUBJECT]
parse_user() {
  local who=${1%%=*} name account own
  name=${who%%:*} account=${who#*:}
  case $name in '' | *[[:cntrl:][:space:]\"\\]*) die "--user '$1': want NAME[:ACCOUNT][=SUBJECT]" ;; esac
  [[ $account =~ ^[a-z_][a-z0-9_-]{0,30}$ ]] ||
    die "--user '$1': '$account' is not the form of an account name (small letters, digits, _ and -, at most 31); choose one: --user $name:ACCOUNT"
  for own in "${SYSTEM_USERS[@]}" gatehouse-demo root; do
    [ "$account" != "$own" ] || die "--user '$1': nobody may get the account $account"
  done
  [ -z "${ACCOUNT[$name]:-}" ] || die "--user $name is there twice"
  NAMES+=("$name")
  ACCOUNT[$name]=$account
  SUBJECT[$name]=
  case $1 in *=*)
    SUBJECT[$name]=${1#*=}
    case ${SUBJECT[$name]} in '' | *[[:cntrl:]\"\\]*) die "--user '$1': a subject has no control characters, quotes or backslashes" ;; esac
    ;;
  esac
}

# https_url WHAT URL: refuses what the server would refuse.
https_url() {
  case $2 in
    https://?*) ;;
    *) die "$1 '$2': want an https:// URL" ;;
  esac
  case $2 in *[[:space:][:cntrl:]\"\\\#]*) die "$1 '$2': spaces, quotes and # have no place in it" ;; esac
}

validate() {
  local spec name
  for spec in "${users[@]}"; do parse_user "$spec"; done
  if [ -n "$keycloak" ]; then
    https_url --keycloak "$keycloak"
    case $keycloak in */realms/*) die "--keycloak wants the URL before /realms/: --keycloak ${keycloak%%/realms/*} --realm ${keycloak##*/realms/}" ;; esac
    [ -n "$realm" ] || die "--keycloak needs --realm"
    [ "$realm" != master ] || die "the realm master is for administrators of Keycloak alone; choose another"
    if [ "$action" != remove ]; then
      [ -n "$audience" ] || die "set MCP_AUDIENCE (or --audience): the https URL of the server, as clients type it; tokens get it as their audience"
      https_url --audience "$audience"
      case $audience in */) die "--audience '$audience': without the slash at the end" ;; esac
    fi
  elif [ -n "$realm$realm_only" ] || [ ${#realm_args[@]} -gt 0 ]; then
    die "--realm and the other options of Keycloak need --keycloak URL"
  fi
  [ "$action" = remove ] || [ -z "$purge" ] || die "--purge goes with --remove"
  [ -z "$realm_only" ] || [ -z "$demo" ] || die "--realm-only and --demo exclude each other"
  if [ "$action" = remove ] || [ -n "$realm_only" ]; then return; fi
  [ -z "$issuer" ] || https_url --issuer "$issuer"
  for name in "${NAMES[@]}"; do
    [ -n "$keycloak" ] || [ -n "${SUBJECT[$name]}" ] ||
      die "no subject for $name: give --user $name=SUBJECT (the sub of the person's tokens), or --keycloak URL --realm R to look it up"
    [ -n "$keycloak$issuer" ] || die "--user needs --issuer URL or --keycloak URL --realm R"
  done
}

# ---- Keycloak ---------------------------------------------------------------

# admin_password: sets PASSWORD from the file, the environment or a prompt.
admin_password() {
  if [ -n "$admin_file" ]; then
    { IFS= read -r PASSWORD <"$admin_file"; } 2>/dev/null || [ -n "$PASSWORD" ] || die "--admin-password-file $admin_file: cannot be read, or empty"
  elif [ -n "$KC_PASSWORD" ]; then
    PASSWORD=$KC_PASSWORD
  elif { : </dev/tty; } 2>/dev/null; then
    IFS= read -rsp "Password of the Keycloak administrator: " PASSWORD </dev/tty
    note ""
  else
    die "no administrator's password: --admin-password-file FILE or KC_ADMIN_PASSWORD"
  fi
}

# realm_step ACTION [NAME…]: the part that speaks to Keycloak; its status.
realm_step() {
  local what=$1 args=() name
  shift
  for name in "$@"; do args+=(--user "$name"); done
  [ -z "$password_file" ] || args+=(--passwords "$password_file")
  printf '%s\n' "$PASSWORD" | python3 -IB "$ROOT/scripts/keycloak/realm.py" "$what" --url "$keycloak" --realm "$realm" \
    --audience "$audience" --journal "$SETUP/made-keycloak.json" --out "$LOOKED_UP" "${realm_args[@]}" "${args[@]}"
}

# realm_users: prepares or checks the realm, and takes over what it says of its users.
realm_users() {
  local rc=0 kind a b c d
  LOOKED_UP=$(mktemp)
  trap 'rm -f "$LOOKED_UP"' EXIT
  realm_step "$action" "${NAMES[@]}" || rc=$?
  case $rc in
    0) ;;
    3) DIFFERENCES=$((DIFFERENCES + 1)) ;;
    *) die "the realm $realm at $keycloak is not ready" ;;
  esac
  while IFS=$'\t' read -r kind a b c d; do
    case $kind in
      issuer)
        [ -z "$issuer" ] || [ "$issuer" = "$a" ] ||
          die "the realm says that its issuer is $a, and you say $issuer; tokens say what the realm says (its hostname setting)"
        issuer=$a
        ;;
      user)
        [ -z "${SUBJECT[$a]}" ] || [ "${SUBJECT[$a]}" = "$b" ] || die "$a's subject at Keycloak is $b, not ${SUBJECT[$a]}"
        SUBJECT[$a]=$b FULL_NAME[$a]=$c EMAIL[$a]=$d
        ;;
    esac
  done <"$LOOKED_UP"
}

# ---- the three actions ------------------------------------------------------

ensure_or_check() {
  local name
  if [ -z "$realm_only" ]; then for name in "${NAMES[@]}"; do refuse_unfit "${ACCOUNT[$name]}"; done; fi
  if [ -n "$keycloak" ]; then realm_users; fi
  if [ -n "$realm_only" ]; then return; fi
  if [ ${#NAMES[@]} -gt 0 ]; then plan_entries; fi
  if am_root; then want_system_users; fi
  for name in "${NAMES[@]}"; do want_account "${ACCOUNT[$name]}"; done
  if [ ${#NEW[@]} -gt 0 ]; then add_entries "${NEW[@]}"; fi
  if [ ${#NAMES[@]} -gt 0 ]; then want_private; fi
}

remove_all() {
  local name
  if [ -n "$keycloak" ]; then
    LOOKED_UP=/dev/null
    realm_step remove "${NAMES[@]}" || die "could not undo everything at $keycloak; run it again"
  elif [ -e "$SETUP/made-keycloak.json" ]; then
    note "what was made at Keycloak stays; to remove it too, add --keycloak URL --realm REALM:"
    sed -n 's/^ *"url": "\(.*\)",/  \1/p' "$SETUP/made-keycloak.json" | sort -u >&2
  fi
  [ -z "$realm_only" ] || return 0
  if [ ${#NAMES[@]} -gt 0 ]; then
    for name in "${NAMES[@]}"; do drop_person "$name" "${ACCOUNT[$name]}"; done
  elif [ -z "$demo" ]; then
    drop_everybody
    drop_demo_group
  fi
  if [ -n "$demo" ]; then
    for name in "${DEMO_ACCOUNTS[@]}" gatehouse-demo; do drop_account "$name"; done
    drop_demo_group
    drop_demo_states
  fi
}

PASSWORD='' LOOKED_UP='' NEW=()
KC_PASSWORD=${KC_ADMIN_PASSWORD:-}
unset KC_ADMIN_PASSWORD # no child needs it
validate
if ! am_root && [ "$action" != remove ] && [ -z "$keycloak$demo" ] && [ ${#NAMES[@]} = 0 ]; then
  die "nothing to do without root: give --user, or --keycloak URL --realm R; --help shows how"
fi
if [ -z "$realm_only" ] && ! am_root; then
  if [ -n "$demo" ] || [ "$action" = remove ]; then die "needs root (accounts); with --realm-only just the realm"; fi
fi
if [ -n "$keycloak" ]; then
  command -v python3 >/dev/null || die "needs Python 3 for Keycloak: apt-get install python3"
  admin_password
fi
prepare_state
lock_file "$SETUP/.setup.lock"
exec 8>"$SETUP/.setup.lock"
flock 8
case $action in
  remove) remove_all ;;
  *) ensure_or_check ;;
esac
case $action:$DIFFERENCES in
  check:0) say "all is as it should be" ;;
  check:*) exit 1 ;;
  ensure:0) say "nothing to change" ;;
esac
if [ "$action" = ensure ] && [ $DIFFERENCES -gt 0 ] && [ -n "$keycloak" ] && [ -z "$realm_only" ]; then next_steps; fi
