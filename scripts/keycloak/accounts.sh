# shellcheck shell=bash
# The part of setup-oidc-users.sh that makes and removes accounts and entries of
# the accounts file. It uses lib.sh and the variables of that script.
#
#   SETUP/made-entries   FILE, NAME, ACCOUNT and the line, with tabs between
#   SETUP/kept-homes     ACCOUNT, UID and folder of homes that --remove has left
#   MADE                 (lib.sh) the accounts that add_user made

SETUP=$STATE
action=ensure demo='' purge='' issuer=${MCP_ISSUER:-} audience=${MCP_AUDIENCE:-} # the script sets them
DIFFERENCES=0                                                                   # made, or with --check: to be made
NAMES=()                                                                        # who was named by --user
declare -A ACCOUNT=() SUBJECT=() FULL_NAME=() EMAIL=()                          # of each
ACCOUNTS_FILE=$(readlink -m -- "${MCP_ACCOUNTS_FILE:-/etc/gatehouse/accounts.yaml}")
DENIED_GROUPS=' root sudo wheel adm shadow disk docker lxd kvm '

# missing WHAT: in a check: says so, counts it, and succeeds; else fails.
missing() {
  [ "$action" = check ] || return 1
  say "missing: $1"
  DIFFERENCES=$((DIFFERENCES + 1))
}
made() { say "$1"; DIFFERENCES=$((DIFFERENCES + 1)); }

# ---- accounts ---------------------------------------------------------------

# unfit ACCOUNT: why the server would refuse it; nothing when it would not, or
# when there is no such account. The server's own rules are in docs/security.md.
unfit() {
  local uid gid home shell g
  IFS=: read -r _ _ uid gid _ home shell < <(getent passwd "$1") || return 0
  if [ "$uid" -lt 1000 ] || [ "$uid" -gt 60000 ] || [ "$gid" -lt 1000 ] || [ "$gid" -gt 60000 ]; then
    echo "uid $uid and gid $gid have to be between 1000 and 60000"
  fi
  for g in $(id -Gn "$1" 2>/dev/null); do
    case $DENIED_GROUPS in *" $g "*) echo "is in the group $g" ;; esac
  done
  case $shell in */nologin | */false) echo "has the shell $shell" ;; esac
  if [ ! -d "$home" ]; then
    echo "has no home folder ($home)"
  elif [ "$(stat -Lc %u -- "$home")" != "$uid" ]; then
    echo "does not own its home folder $home"
  elif [ $((0$(stat -Lc %a -- "$home") & 022)) != 0 ]; then
    echo "has a home folder that others may write ($home)"
  fi
}

# refuse_unfit ACCOUNT: ends the script before anything has been changed.
refuse_unfit() {
  local why
  why=$(unfit "$1" | paste -sd ';' - | sed 's/;/; /g')
  [ -z "$why" ] || die "the server would refuse the account $1: $why"
}

want_system_users() {
  local u all=("${SYSTEM_USERS[@]}")
  [ -z "$demo" ] || all+=(gatehouse-demo)
  for u in "${all[@]}"; do
    if getent passwd "$u" >/dev/null || missing "the system user $u"; then continue; fi
    ensure_system_users "$u" 2>&1
    DIFFERENCES=$((DIFFERENCES + 1))
  done
  [ -z "$demo" ] || for u in "${DEMO_ACCOUNTS[@]}"; do want_account "$u"; done
}

want_account() {
  if getent passwd "$1" >/dev/null || missing "the account $1"; then return 0; fi
  am_root || die "needs root to make the account $1; with --realm-only just the realm"
  if kept_home "$1"; then
    add_user "$1" -u "$UID_THEN" -M -d "$HOME_THEN" -s /bin/bash -c "Gatehouse account"
    forget_home "$1"
    say "made the account $1 again, with the home folder that it had"
  else
    ensure_account "$1" 2>&1
  fi
  DIFFERENCES=$((DIFFERENCES + 1))
}

# drop_account ACCOUNT: if we made it. An account that is in use stays.
drop_account() {
  local uid home userdel
  if ! getent passwd "$1" >/dev/null; then
    if [ -n "$purge" ]; then drop_kept_home "$1"; fi
    return 0
  fi
  if ! made_by_us "$1"; then
    say "kept the account $1: it was not made by these scripts"
    return 0
  fi
  if [ -e "$ACCOUNTS_FILE" ] && list_entries "$ACCOUNTS_FILE" | cut -f4 | grep -xF -- "$1" >/dev/null; then
    say "kept the account $1: an entry of $ACCOUNTS_FILE uses it"
    return 0
  fi
  uid=$(id -u "$1") home=$(home_of "$1")
  userdel=$(command -v userdel || echo /usr/sbin/userdel)
  "$userdel" "$1" >&2 || die "could not remove the account $1 (stop the server first: scripts/stop-server.sh)"
  drop_lines "$MADE" "$1 $uid"
  say "removed the account $1"
  if owned "$home" "$uid"; then
    printf '%s %s %s\n' "$1" "$uid" "$home" >>"$SETUP/kept-homes"
    if [ -n "$purge" ]; then drop_kept_home "$1"; else say "kept its home folder $home (--purge removes it)"; fi
  fi
}

# owned FOLDER UID
owned() { [ -d "$1" ] && [ ! -L "$1" ] && [ "$(stat -c %u -- "$1")" = "$2" ]; }

# kept_home ACCOUNT: sets UID_THEN and HOME_THEN when the account was removed
# and its home folder is still there, under a number that nobody else has got.
kept_home() {
  read -r UID_THEN HOME_THEN < <(awk -v a="$1" '$1 == a { l = $2 " " $3 } END { if (l) print l }' "$SETUP/kept-homes" 2>/dev/null) || return 1
  owned "$HOME_THEN" "$UID_THEN" && ! getent passwd "$UID_THEN" >/dev/null
}

drop_kept_home() {
  if kept_home "$1"; then
    rm -rf --one-file-system -- "$HOME_THEN"
    say "removed the home folder $HOME_THEN"
  fi
  forget_home "$1"
}
forget_home() {
  local line
  [ -s "$SETUP/kept-homes" ] || return 0
  while read -r line; do drop_lines "$SETUP/kept-homes" "$line"; done < <(grep "^$1 " "$SETUP/kept-homes" || true)
}

# drop_lines FILE LINE: without it, atomically; no empty file is left.
drop_lines() {
  local new
  [ -e "$1" ] || return 0
  new=$(mktemp "$1.XXXXXX")
  grep -vxF -- "$2" "$1" >"$new" || true
  chmod --reference="$1" "$new"
  if [ -s "$new" ]; then mv -f "$new" "$1"; else rm -f "$new" "$1"; fi
}

# ---- the accounts file ------------------------------------------------------

# list_entries FILE: issuer, subject, client id, account and line of every
# entry, read by the server's own reader, which refuses what it would refuse.
list_entries() {
  if [ -z "${LISTER:-}" ]; then
    LISTER=$BIN/gatehouse
    if find_go; then
      build_programs "$ROOT/bin" >&2
      LISTER=$ROOT/bin/gatehouse
    fi
    [ -x "$LISTER" ] || die "no Go here to build with: install Go 1.26 or later (https://go.dev/dl), or put it in PATH"
  fi
  "$LISTER" accounts "$1"
}

# entry_line NAME: the entry in one line, so that it can be found again.
entry_line() {
  local extra=''
  case ${FULL_NAME[$1]:--} in -) ;; *) extra+=", name: \"${FULL_NAME[$1]}\"" ;; esac
  case ${EMAIL[$1]:--} in -) ;; *@*@*) ;; *@*) extra+=", email: \"${EMAIL[$1]}\"" ;; esac
  printf -- '- {issuer: "%s", subject: "%s", account: "%s"%s}  # %s\n' "$issuer" "${SUBJECT[$1]}" "${ACCOUNT[$1]}" "$extra" "$1"
}

# plan_entries: NEW gets the names that lack their entry. It refuses what would
# contradict an entry that is there.
plan_entries() {
  local name there='' line
  NEW=()
  if [ -e "$ACCOUNTS_FILE" ]; then there=$(list_entries "$ACCOUNTS_FILE") || die "correct the accounts file first"; fi
  for name in "${NAMES[@]}"; do
    if [ -z "${SUBJECT[$name]}" ]; then
      missing "the entry of $name in $ACCOUNTS_FILE" || die "no subject of $name could be found"
      continue
    fi
    refuse_other_subject "$name"
    line=$(awk -F '\t' -v i="$issuer" -v s="${SUBJECT[$name]}" -v a="${ACCOUNT[$name]}" \
      '$1 == i && $2 == s && $3 == "" { print ($4 == a ? "same" : $5 " " $4) }' <<<"$there")
    case $line in
      same) ;;
      '') missing "the entry of $name in $ACCOUNTS_FILE" || NEW+=("$name") ;;
      *) die "$ACCOUNTS_FILE, line ${line% *}: $name's subject has the account ${line#* } already, not ${ACCOUNT[$name]}; change it there, or --remove --user $name first" ;;
    esac
  done
}

# refuse_other_subject NAME: a user name that means somebody else now must not
# get the account of whoever had the name before.
refuse_other_subject() {
  local old
  [ -s "$SETUP/made-entries" ] || return 0
  old=$(awk -F '\t' -v f="$ACCOUNTS_FILE" -v n="$1" -v i="issuer: \"$issuer\"" -v s="subject: \"${SUBJECT[$1]}\"" \
    '$1 == f && $2 == n && index($4, i) && !index($4, s) { print $4 }' "$SETUP/made-entries")
  [ -z "$old" ] || die "$1's subject is another one now (${SUBJECT[$1]}) than when the entry was made:
  $old
If it is the same person: --remove --user $1, then add $1 again"
}

# add_entries NAME…: atomically, and only when the server can read the outcome.
add_entries() {
  local tmp name dir=${ACCOUNTS_FILE%/*}
  if [ ! -d "$dir" ]; then
    install -d -m 755 -- "$dir"
    made "made the folder $dir"
  fi
  tmp=$(mktemp "$ACCOUNTS_FILE.XXXXXX") || die "cannot write to $dir"
  if [ -s "$ACCOUNTS_FILE" ]; then
    awk 1 "$ACCOUNTS_FILE" >"$tmp" # its last line may lack its end
  else
    echo "# Who may use the MCP server, and as which account: see docs/keycloak.md." >"$tmp"
  fi
  for name in "$@"; do entry_line "$name"; done >>"$tmp"
  if ! list_entries "$tmp" >/dev/null; then
    rm -f "$tmp"
    die "$ACCOUNTS_FILE is written in a way to which this script cannot add; nothing was changed"
  fi
  for name in "$@"; do printf '%s\t%s\t%s\t%s\n' "$ACCOUNTS_FILE" "$name" "${ACCOUNT[$name]}" "$(entry_line "$name")"; done >>"$SETUP/made-entries"
  mv -f "$tmp" "$ACCOUNTS_FILE"
  for name in "$@"; do made "made the entry of $name in $ACCOUNTS_FILE: subject ${SUBJECT[$name]}, account ${ACCOUNT[$name]}"; done
}

# want_private: root's (or ours) alone.
want_private() {
  [ -e "$ACCOUNTS_FILE" ] || return 0
  [ "$(stat -c '%u %a' -- "$ACCOUNTS_FILE")" != "$(id -u) 600" ] || return 0
  if missing "mode 0600 and owner $(id -un) of $ACCOUNTS_FILE"; then return; fi
  chown "$(id -u):$(id -g)" -- "$ACCOUNTS_FILE"
  chmod 600 -- "$ACCOUNTS_FILE"
  made "made $ACCOUNTS_FILE readable by $(id -un) alone"
}

# drop_entries NAME: those that we made; "" for everybody's. Prints their accounts.
drop_entries() {
  local file name account line tmp
  [ -s "$SETUP/made-entries" ] || return 0
  while IFS=$'\t' read -r file name account line; do
    [ -z "$1" ] || [ "$name" = "$1" ] || continue
    if [ -e "$file" ] && grep -qxF -- "$line" "$file"; then
      tmp=$(mktemp "$file.XXXXXX")
      grep -vxF -- "$line" "$file" >"$tmp" || true
      chown --reference="$file" "$tmp"
      chmod --reference="$file" "$tmp"
      mv -f "$tmp" "$file"
      note "removed the entry of $name from $file"
      drop_empty "$file"
    fi
    drop_lines "$SETUP/made-entries" "$file"$'\t'"$name"$'\t'"$account"$'\t'"$line"
    printf '%s\n' "$account"
  done < <(cat "$SETUP/made-entries")
}

# drop_empty FILE: when only our own heading is left in it.
drop_empty() {
  ! grep -qv '^# Who may use the MCP server' "$1" || return 0
  rm -f -- "$1"
  note "removed $1, which was empty"
  if [ "${1%/*}" = /etc/gatehouse ]; then rmdir /etc/gatehouse 2>/dev/null || true; fi
}

# ---- removing ---------------------------------------------------------------

# drop_person NAME ACCOUNT
drop_person() {
  local account
  for account in $({ drop_entries "$1"; printf '%s\n' "$2"; } | sort -u); do drop_account "$account"; done
}

drop_everybody() {
  local name
  drop_entries "" >/dev/null
  [ -s "$MADE" ] || { say "no account of these scripts is left"; return 0; }
  while read -r name; do drop_account "$name"; done < <(cut -d' ' -f1 "$MADE" | sort -u)
}

# drop_demo_group: who may commit to the demo's sample, which goes with the states.
drop_demo_group() {
  local groupdel
  getent group "$DEMO_GROUP" >/dev/null || return 0
  groupdel=$(command -v groupdel || echo /usr/sbin/groupdel)
  "$groupdel" "$DEMO_GROUP" || die "could not remove the group $DEMO_GROUP"
  say "removed the group $DEMO_GROUP"
}

# drop_demo_states: the sample, and the keys and passwords of demos that run no more.
drop_demo_states() {
  local d run used=' '
  for run in "$RUNS"/*; do
    if read_pid "$run/demo.pid" >/dev/null; then used+="$(info "$run" demo_state) "; fi
  done
  for d in "$STATE"/demo-*; do
    case $used in *" $d "*) continue ;; esac
    if [ ! -d "$d" ] || [ -L "$d" ]; then continue; fi
    rm -rf --one-file-system -- "$d"
    say "removed the demo's folder $d"
  done
}

# next_steps: what to do with what has been made.
next_steps() {
  local host=${audience#https://} port=443 bind=' MCP_BIND_ADDRESS=0.0.0.0'
  host=${host%%/*}
  [[ ! $host =~ :([0-9]+)$ ]] || port=${BASH_REMATCH[1]}
  case $host in localhost | localhost:* | 127.* | '[::1]'*) bind='' ;; esac
  cat <<NEXT

Start the server:
  sudo MCP_ISSUER=$issuer MCP_TOKEN_PROFILE=keycloak \\
       MCP_AUDIENCE=$audience MCP_RUN_AS=monitor MCP_ACCOUNTS_FILE=$ACCOUNTS_FILE${MCP_ISSUER_CA:+ \\
       MCP_ISSUER_CA=$MCP_ISSUER_CA} \\
       MCP_PORT=$port$bind \\
       MCP_TLS_CERT=… MCP_TLS_KEY=… $ROOT/scripts/run-auth-server.sh
One that runs already reads the accounts file anew on SIGHUP to its monitor.
NEXT
}
