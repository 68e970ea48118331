"""What a realm needs for the MCP server, one method for each part. All of it can be run again."""

import secrets
import sys
from dataclasses import dataclass

from admin import Problem, quote
from compare import NOTHING, Including, before, merged, told, wanting

SCOPE = "mcp:use"
REGISTRATION_POLICY = "org.keycloak.services.clientregistration.policy.ClientRegistrationPolicy"


@dataclass
class Person:
    name: str
    subject: str
    full_name: str = ""
    email: str = ""


def note(text):
    print(text, file=sys.stderr)


class Setup:
    """dry: looks and says what is missing, and changes nothing."""

    def __init__(self, kc, journal, realm, dry):
        self.kc, self.journal, self.name, self.dry = kc, journal, realm, dry
        self.base = f"/realms/{quote(realm)}"
        self.gone = False  # dry, and there is no realm
        self.differences = 0
        self.issuer = ""
        self.people = []
        self.scope_id = None
        self.default_role = None  # the composite role that every user should have

    def realm_itself(self):
        realm = self.kc.get(self.base, missing_ok=True)
        if realm is None:
            if self._missing(f"the realm {self.name}"):
                self.gone = True
                return
            self.kc.post("/realms", {"realm": self.name, "enabled": True})
            self._made(f"the realm {self.name}", "realm", "")
            realm = self.kc.get(self.base)
        self.default_role = realm["defaultRole"]

    def scope(self, audience):
        """The scope that clients ask for, and bound to it the audience that the server wants.

        Realm-optional: clients that register themselves later may ask for it.
        """
        what = f"the client scope {SCOPE}"
        found = [s for s in self.kc.get(f"{self.base}/client-scopes") if s["name"] == SCOPE]
        in_token = {"attributes": {"include.in.token.scope": "true"}}
        if found:
            self.scope_id = found[0]["id"]
            self._patch(what, f"/client-scopes/{self.scope_id}", in_token)
        elif self._missing(what):
            return
        else:
            self.scope_id = self.kc.post(f"{self.base}/client-scopes", {
                "name": SCOPE, "protocol": "openid-connect",
                "description": "Use of the MCP server; puts its address into the token as audience.",
                "attributes": {"include.in.token.scope": "true", "display.on.consent.screen": "true",
                               "consent.screen.text": "Use MCP tools in your name"}})
            self._made(what, "made", f"/client-scopes/{self.scope_id}")
        self._audience(audience)
        optional = self.kc.get(f"{self.base}/default-optional-client-scopes")
        default = self.kc.get(f"{self.base}/default-default-client-scopes")
        self._link(f"{SCOPE} as an optional scope of new clients", optional + default, self.scope_id,
                   f"/default-optional-client-scopes/{self.scope_id}")

    def _audience(self, audience):
        mappers = f"/client-scopes/{self.scope_id}/protocol-mappers/models"
        what = f"the audience {audience} in {SCOPE}"
        config = {"included.custom.audience": audience, "access.token.claim": "true",
                  "introspection.token.claim": "true", "id.token.claim": "false"}
        for m in self.kc.get(self.base + mappers):
            if m["protocolMapper"] == "oidc-audience-mapper" and m["config"].get("included.custom.audience") == audience:
                self._patch(what, f"{mappers}/{m['id']}", {"config": {"access.token.claim": "true"}})
                return
        if not self._missing(what):
            made = self.kc.post(self.base + mappers, {
                "name": f"audience {audience}", "protocol": "openid-connect",
                "protocolMapper": "oidc-audience-mapper", "config": config})
            self._made(what, "made", f"{mappers}/{made}")

    def client(self, client_id):
        """The public client of claude and other native clients: PKCE, loopback, device grant."""
        what = f"the client {client_id}"
        want = {
            "publicClient": True, "standardFlowEnabled": True,
            "redirectUris": Including(["http://127.0.0.1/*", "http://localhost/*"]),  # any port
            "webOrigins": Including(["http://localhost:6274", "http://127.0.0.1:6274"]),  # MCP Inspector
            "attributes": {
                "pkce.code.challenge.method": "S256",
                "oauth2.device.authorization.grant.enabled": "true",
                "access.token.header.type.rfc9068": "true",
            },
        }
        found = self.kc.get(f"{self.base}/clients?clientId={quote(client_id)}")
        if found:
            cid = found[0]["id"]
            if not found[0].get("publicClient"):
                raise Problem(f"{what} of the realm {self.name} is confidential; choose another with --client-id")
            self._patch(what, f"/clients/{cid}", want)
        elif self._missing(what):
            return
        else:
            cid = self.kc.post(f"{self.base}/clients", {
                "clientId": client_id, "name": "MCP clients", "protocol": "openid-connect",
                "description": "Claude Code and other native MCP clients (public, PKCE, loopback redirects).",
                "directAccessGrantsEnabled": False, "implicitFlowEnabled": False,
                "serviceAccountsEnabled": False, "fullScopeAllowed": False, **want})
            self._made(what, "made", f"/clients/{cid}")
        self._client_scopes(what, cid)

    def _client_scopes(self, what, cid):
        default = self.kc.get(f"{self.base}/clients/{cid}/default-client-scopes")
        optional = self.kc.get(f"{self.base}/clients/{cid}/optional-client-scopes")
        if self.scope_id:
            # A realm-optional scope comes to a new client as optional; one may be only one of both.
            path = f"/clients/{cid}/optional-client-scopes/{self.scope_id}"
            if any(s["id"] == self.scope_id for s in optional) and not self.dry:
                self.kc.delete(self.base + path)
            self._link(f"{SCOPE} as a default scope of {what}", default, self.scope_id,
                       f"/clients/{cid}/default-client-scopes/{self.scope_id}")
        offline = [s for s in self.kc.get(f"{self.base}/client-scopes") if s["name"] == "offline_access"]
        if offline:
            oid = offline[0]["id"]
            self._link(f"offline_access as an optional scope of {what}", default + optional, oid,
                       f"/clients/{cid}/optional-client-scopes/{oid}")

    def registration(self, hosts):
        """The policies that stop anonymous registration in a realm as it comes."""
        policies = {c["providerId"]: c for c in self.kc.get(f"{self.base}/components?type={REGISTRATION_POLICY}")
                    if c.get("subType") == "anonymous"}
        wants = {
            "trusted-hosts": {
                "trusted-hosts": Including(["127.0.0.1", "localhost", *hosts]),
                "host-sending-registration-request-must-match": ["true"],
                # "true" looks at every address in the request, and some clients name their home page.
                "client-uris-must-match": ["false"],
            },
            "allowed-client-templates": {
                "allow-default-scopes": ["true"],
                "allowed-client-scopes": Including(["openid", SCOPE]),  # openid is no scope of a realm
            },
        }
        for provider, config in wants.items():
            if provider in policies:  # without the policy there is no such limit
                self._patch(f"the registration policy {provider}", f"/components/{policies[provider]['id']}",
                            {"config": config})

    def person(self, name, password):
        found = [u for u in self.kc.get(f"{self.base}/users?exact=true&username={quote(name)}")
                 if u["username"] == name.lower()]
        what = f"the user {name}"
        if found:
            user = found[0]
            if not user.get("enabled"):
                note(f"note: {what} is disabled in the realm {self.name}")
        elif self._missing(what):
            return
        else:
            user = self._new_person(name, password)
        full = " ".join(filter(None, [user.get("firstName"), user.get("lastName")]))
        self.people.append(Person(name, user["id"], _plain(full), _plain(user.get("email", ""))))
        self._default_roles(what, user["id"], name)

    def _new_person(self, name, password):
        generated = password is None
        if generated:
            password = secrets.token_urlsafe(12)
        user = {"username": name.lower(), "enabled": True, "credentials": [
            {"type": "password", "value": password, "temporary": generated}]}
        user["id"] = self.kc.post(f"{self.base}/users", user)
        self._made(f"the user {name}", "made", f"/users/{user['id']}", person=name.lower())
        if generated:
            print(f"  first password of {name}: {password}   (shown once; to be changed at the first sign-in)")
        return user

    def _default_roles(self, what, uid, name):
        """Imported users may lack them, and with them the right to refresh for longer (offline_access)."""
        path = f"/users/{uid}/role-mappings/realm"
        body = [{k: self.default_role[k] for k in ("id", "name")}]
        role = f"the role {self.default_role['name']} of {what}"
        if any(r["id"] == self.default_role["id"] for r in self.kc.get(self.base + path)) or self._missing(role):
            return
        self.kc.post(self.base + path, body)
        self._made(role, "role", path, body=body, person=name.lower())

    # ---- what all parts share -------------------------------------------------

    def _missing(self, what):
        """In a dry run: says so, and true."""
        if self.dry:
            self.differences += 1
            print(f"missing: {what}")
        return self.dry

    def _made(self, what, kind, path, **more):
        self.differences += 1
        self.journal.add({"kind": kind, "what": what, "path": path, **more})
        print(f"made {what}")

    def _patch(self, what, path, want):
        have = self.kc.get(self.base + path)
        change = wanting(have, want)
        if change is NOTHING:
            return
        self.differences += 1
        if self.dry:
            print(f"differs: {what}: want {told(change)}")
            return
        self.kc.put(self.base + path, merged(have, change))
        self.journal.add({"kind": "patched", "what": what, "path": path,
                          "before": before(have, change), "after": change})
        print(f"changed {what}: {told(change)}")

    def _link(self, what, there, sid, path):
        if any(s["id"] == sid for s in there) or self._missing(what):
            return
        self.kc.put(self.base + path)
        self._made(what, "made", path)


def _plain(text):
    """Nothing that a line of the accounts file would have to quote."""
    text = text or ""
    return text if text.isprintable() and not set(text) & set('"\\<>') else ""
