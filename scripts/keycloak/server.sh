# shellcheck shell=bash
# A real Keycloak for tests: taken from Maven Central by its coordinates, built
# once, run on a free port of loopback with a database of its own. It uses
# test-lib.sh. After keycloak_start:
#
#   KC_URL  its base URL    KC_SECRET  file with the administrator's password (user: admin)

KEYCLOAK_VERSION=${KEYCLOAK_VERSION:-26.7.3}
KEYCLOAK_HOME=$CACHE/keycloak-$KEYCLOAK_VERSION
# Small, and quick to start rather than fast: the first compiler alone halves the time.
KEYCLOAK_JAVA="-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms128m -Xmx512m -XX:MaxMetaspaceSize=256m -Dfile.encoding=UTF-8 -XX:+ExitOnOutOfMemoryError"
MAVEN_COPY=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy

# keycloak_install: the built distribution in KEYCLOAK_HOME.
keycloak_install() {
  need_packages default-jre-headless:java maven:mvn unzip python3 || return 1
  keycloak_java || return 1
  (
    flock 7
    [ ! -e "$KEYCLOAK_HOME/.built" ] || exit 0
    say "taking Keycloak $KEYCLOAK_VERSION from Maven Central and building it (once; into $CACHE) …"
    new=$CACHE/keycloak.$$
    trap 'rm -rf "$new"' EXIT
    mkdir -p "$new"
    mvn -q -B "$MAVEN_COPY" "-Dartifact=org.keycloak:keycloak-quarkus-dist:$KEYCLOAK_VERSION:zip" \
      -DoutputDirectory="$new" >"$WORK/maven.log" 2>&1 || { tail -5 "$WORK/maven.log" >&2; exit 1; }
    unzip -q "$new"/*.zip -d "$new" || exit 1
    JAVA_OPTS=$KEYCLOAK_JAVA "$new/keycloak-$KEYCLOAK_VERSION/bin/kc.sh" build --db=dev-file >"$WORK/keycloak-build.log" 2>&1 ||
      { tail -20 "$WORK/keycloak-build.log" >&2; exit 1; }
    rm -rf "$KEYCLOAK_HOME"
    mv "$new/keycloak-$KEYCLOAK_VERSION" "$KEYCLOAK_HOME"
    touch "$KEYCLOAK_HOME/.built"
  ) 7>"$CACHE/.keycloak.lock" || die "could not prepare Keycloak $KEYCLOAK_VERSION"
}

# keycloak_java: Java has to be 17 or later.
keycloak_java() {
  local version
  version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge 17 ] || { say "Keycloak needs Java 17 or later, this is ${version:-none}: apt-get install default-jre-headless" >&2; return 1; }
}

# keycloak_start CERT KEY: in the background; keycloak_wait waits for it.
keycloak_start() {
  local home=$WORK/keycloak port d
  port=$(free_port)
  KC_URL=https://localhost:$port
  KC_SECRET=$WORK/keycloak-admin
  mkdir "$home"
  # Its state is beside its programs; these are links into the cache.
  cp -r "$KEYCLOAK_HOME/bin" "$KEYCLOAK_HOME/conf" "$home"
  for d in lib providers themes version.txt; do ln -s "$KEYCLOAK_HOME/$d" "$home/$d"; done
  (umask 077 && head -c 18 /dev/urandom | base64 >"$KC_SECRET")
  at_exit keycloak_stop
  env KC_BOOTSTRAP_ADMIN_USERNAME=admin KC_BOOTSTRAP_ADMIN_PASSWORD="$(cat "$KC_SECRET")" \
    JAVA_OPTS="$KEYCLOAK_JAVA" setsid "$home/bin/kc.sh" start --optimized --cache=local --hostname="$KC_URL" --https-port="$port" --http-host=127.0.0.1 \
    --https-certificate-file="$1" --https-certificate-key-file="$2" </dev/null >"$WORK/keycloak.log" 2>&1 &
  KC_PID=$!
}

# keycloak_wait: until it answers.
keycloak_wait() {
  local until=$((SECONDS + 240))
  until curl -sf -o /dev/null --cacert "$MCP_ISSUER_CA" --max-time 5 "$KC_URL/realms/master"; do
    if ! kill -0 "$KC_PID" 2>/dev/null || [ $SECONDS -ge $until ]; then
      tail -20 "$WORK/keycloak.log" >&2
      die "Keycloak did not start"
    fi
    sleep 0.2
  done
}

# keycloak_stop: at once; nothing of its database is wanted.
keycloak_stop() {
  kill -KILL -- "-$KC_PID" 2>/dev/null || kill -KILL "$KC_PID" 2>/dev/null || true
  wait "$KC_PID" 2>/dev/null || true
}
