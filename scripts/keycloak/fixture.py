#!/usr/bin/env python3
"""What only tests do to a realm. The administrator's password is the first line of standard input.

  fixture.py URL REALM people USER…   complete profiles, so that a sign-in asks for nothing more
  fixture.py URL REALM client NAME    a public client that may use the password grant
  fixture.py URL REALM service NAME   a confidential client with a service account; prints its secret
  fixture.py URL REALM rotate         a new signing key, and the old ones withdrawn
  fixture.py URL REALM lifespan SECS  how long the realm's access tokens live
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from admin import Keycloak, Problem, quote  # noqa: E402

KEYS = "org.keycloak.keys.KeyProvider"


def people(kc, base, *names):
    for name in names:
        user = kc.get(f"{base}/users?exact=true&username={quote(name)}")[0]
        kc.put(f"{base}/users/{user['id']}", {**user, "firstName": name.title(), "lastName": "Test",
                                              "email": f"{name}@example.org", "emailVerified": True})


def client(kc, base, name):
    kc.post(f"{base}/clients", {"clientId": name, "publicClient": True, "standardFlowEnabled": False,
                                "directAccessGrantsEnabled": True})


def service(kc, base, name):
    made = kc.post(f"{base}/clients", {"clientId": name, "publicClient": False, "standardFlowEnabled": False,
                                       "serviceAccountsEnabled": True})
    print(kc.get(f"{base}/clients/{made}/client-secret")["value"])


def lifespan(kc, base, seconds):
    kc.put(base, {**kc.get(base), "accessTokenLifespan": int(seconds)})


def rotate(kc, base):
    parent = kc.get(base)["id"]
    old = [c for c in kc.get(f"{base}/components?type={KEYS}") if c["providerId"] == "rsa-generated"]
    kc.post(f"{base}/components", {
        "name": "rotated", "providerId": "rsa-generated", "providerType": KEYS, "parentId": parent,
        "config": {"priority": ["200"], "enabled": ["true"], "active": ["true"], "algorithm": ["RS256"]}})
    for c in old:
        kc.delete(f"{base}/components/{c['id']}")


def main():
    url, realm, what, *names = sys.argv[1:]
    kc = Keycloak(url, "admin", sys.stdin.readline().rstrip("\n"))
    {"people": people, "client": client, "service": service, "lifespan": lifespan,
     "rotate": rotate}[what](kc, f"/realms/{quote(realm)}", *names)


if __name__ == "__main__":
    try:
        main()
    except Problem as e:
        sys.exit(str(e))
