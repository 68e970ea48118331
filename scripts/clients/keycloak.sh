# shellcheck shell=bash
# The world with a real Keycloak for the client tests; worlds.sh says what a world is.
# shellcheck source=scripts/keycloak/server.sh
. "$ROOT/scripts/keycloak/server.sh"

KC_REALM=staff

# realm_setup OPTION…: setup-oidc-users.sh with a state folder of its own.
realm_setup() {
  MCP_STATE_DIR=$WORK/setup MCP_ACCOUNTS_FILE=$WORK/accounts.yaml MCP_AUDIENCE=https://localhost:$PORT/mcp MCP_ISSUER_CA=$CA \
    "$ROOT/scripts/setup-oidc-users.sh" --keycloak "$KC_URL" --realm "$KC_REALM" --admin-password-file "$KC_SECRET" \
    --password-file "$WORK/passwords" "${PEOPLE[@]}" "$@" >"$WORK/setup.log" 2>&1 || { cat "$WORK/setup.log"; die "the realm could not be prepared"; }
}
# fixture ARGUMENT…: what only a test does to a realm.
fixture() { MCP_ISSUER_CA=$CA python3 -IB "$ROOT/scripts/keycloak/fixture.py" "$KC_URL" "$KC_REALM" "$@" <"$KC_SECRET"; }
# kc_token HOW ARGUMENT…: an access token.
kc_token() {
  local secret=$1
  shift
  MCP_ISSUER_CA=$CA python3 -IB "$ROOT/scripts/keycloak/login.py" "$@" <<<"$secret" | jq -re .access_token
}
remove_people() {
  # Without the machine's entry, which would keep the account that it names.
  if [ -e "$WORK/accounts.people" ]; then cp "$WORK/accounts.people" "$WORK/accounts.yaml"; fi
  MCP_STATE_DIR=$WORK/setup MCP_ACCOUNTS_FILE=$WORK/accounts.yaml "$ROOT/scripts/setup-oidc-users.sh" --remove --purge "${PEOPLE[@]}"
}

world_keycloak() {
  local cert key
  need_packages curl jq || exit 1
  keycloak_install
  "$ROOT/scripts/build.sh"
  PORT=$(free_port) PUBLIC_CLIENT=mcp-cli PREFIX=ghcl$$-
  { read -r CA && read -r cert && read -r key; } < <("$ROOT/bin/gatehouse-demo" cert --dir "$WORK/tls" --name keycloak 2>/dev/null)
  export MCP_ISSUER_CA=$CA
  keycloak_start "$cert" "$key"
  keycloak_wait
  ISSUER=$KC_URL/realms/$KC_REALM
  PASSWORD=$(head -c 12 /dev/urandom | base64 | tr '+/' xy)
  (umask 077 && printf 'alice:%s\nbob:%s\n' "$PASSWORD" "$PASSWORD" >"$WORK/passwords")
  PEOPLE=(--user "alice:${PREFIX}alice" --user "bob:${PREFIX}bob")
  if [ "$(id -u)" = 0 ]; then at_exit remove_people; else PEOPLE+=(--realm-only); fi
  realm_setup
  fixture people alice bob
  fixture client test-password
  fixture lifespan 1
  KC_EXPIRED=$(kc_token "$PASSWORD" code "$ISSUER" mcp-cli mcp:use alice)
  fixture lifespan 300
  { read -r _ && read -r cert && read -r key; } < <("$ROOT/bin/gatehouse-demo" cert --dir "$WORK/tls" --name server 2>/dev/null)
  ACCOUNTS=$WORK/accounts.yaml
  KC_CERT=$cert KC_KEY=$key
  keycloak_server
}

# keycloak_server: our server with the tokens of the realm.
keycloak_server() {
  local way=(MCP_RUN_AS=shared-account)
  if [ "$(id -u)" = 0 ]; then way=(MCP_RUN_AS=monitor "MCP_ACCOUNTS_FILE=$ACCOUNTS"); fi
  start_server MCP_ISSUER="$ISSUER" MCP_AUDIENCE="https://localhost:$PORT/mcp" MCP_TOKEN_PROFILE=keycloak \
    MCP_TLS_CERT="$KC_CERT" MCP_TLS_KEY="$KC_KEY" MCP_TOKEN_LEEWAY=2s "${way[@]}"
}
keycloak_built_in() {
  fixture lifespan 300
  unset MCP_WORKER_COMMAND
  stop_server
  keycloak_server
}

# realm_checked PATTERN: gatehouse check --keycloak finds the realm in order, and says so much.
realm_checked() {
  local rc=0
  KC_ADMIN_PASSWORD=$(cat "$KC_SECRET") MCP_MODE=authenticated MCP_AUDIENCE=$URL MCP_ISSUER_CA=$CA \
    "$ROOT/bin/gatehouse" check --keycloak "$KC_URL" --realm "$KC_REALM" >"$WORK/realm.log" 2>&1 || rc=$?
  if [ $rc != 0 ] || ! grep -qE -- "$1" "$WORK/realm.log"; then
    cat "$WORK/realm.log"
    return 1
  fi
}

keycloak_static_token() { kc_token "$PASSWORD" code "$ISSUER" mcp-cli mcp:use "$1"; }
# keycloak_other_audience: without the scope mcp:use a token of the realm is not for us.
keycloak_other_audience() { kc_token "$PASSWORD" password "$ISSUER" test-password openid "$1"; }
keycloak_expired_token() { printf '%s\n' "$KC_EXPIRED"; }
keycloak_allow_registration() {
  check "check --keycloak: a realm as setup-oidc-users.sh makes it" realm_checked '^warn  registration: refused from here'
  realm_setup --allow-dcr
  check "check --keycloak: a realm that registers clients" realm_checked '^ok    registration: clients on this host'
}
keycloak_short_tokens() {
  OUTLIVES=9
  fixture lifespan 5
}
keycloak_machine_client() {
  local payload
  fixture lifespan 300
  MACHINE_CLIENT=test-service MACHINE_SECRET=$(fixture service test-service)
  payload=$(kc_token "$MACHINE_SECRET" client "$ISSUER" test-service mcp:use | cut -d. -f2 | tr '_-' '/+')
  MACHINE_SUBJECT=$({ base64 -d <<<"$payload==" 2>/dev/null || true; } | jq -r .sub)
}
