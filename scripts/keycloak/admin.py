"""A client of Keycloak's admin REST API: standard library only."""

import json
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT = 30  # seconds for one answer
MAX_ANSWER = 16 << 20  # bytes


class Problem(Exception):
    """Something that a person has to do something about; str() says what."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The API never redirects; whoever does would get the password."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        return None


def tls_context():
    """The system's CAs, or the PEM file that MCP_ISSUER_CA names, as the server itself does it."""
    ca = os.environ.get("MCP_ISSUER_CA")
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as e:
        raise Problem(f"MCP_ISSUER_CA={ca}: {e}") from e
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def quote(part):
    """One segment of a path."""
    return urllib.parse.quote(part, safe="")


class Keycloak:
    """One Keycloak and one administrator of it. Tokens are fetched anew when they end."""

    def __init__(self, url, user, password, admin_realm="master"):
        self.url = url.rstrip("/")
        self.user, self.password, self.admin_realm = user, password, admin_realm
        self.opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=tls_context()), _NoRedirect())
        self.token, self.ends = None, 0.0

    def login(self):
        form = {"grant_type": "password", "client_id": "admin-cli",
                "username": self.user, "password": self.password}
        path = f"/realms/{quote(self.admin_realm)}/protocol/openid-connect/token"
        status, answer, _ = self._send("POST", path, urllib.parse.urlencode(form).encode(),
                                       {"Content-Type": "application/x-www-form-urlencoded"})
        if status != 200:
            raise Problem(f"sign in at {self.url} as {self.user}, administrator in the realm "
                          f"{self.admin_realm}: {reason(status, answer)}")
        self.token = answer["access_token"]
        self.ends = time.monotonic() + answer.get("expires_in", 60) - 10

    def call(self, method, path, body=None, missing_ok=False):
        """The decoded answer; for what was made, its id; None for a 404 when missing_ok."""
        if time.monotonic() >= self.ends:
            self.login()
        headers = {"Authorization": f"Bearer {self.token}"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        status, answer, location = self._send(method, "/admin" + path, data, headers)
        if status == 404 and missing_ok:
            return None
        if status == 201 and location:
            return location.rstrip("/").rsplit("/", 1)[-1]
        if not 200 <= status < 300:
            raise Problem(f"{method} {self.url}/admin{path}: {reason(status, answer)}")
        return answer

    def get(self, path, missing_ok=False):
        return self.call("GET", path, missing_ok=missing_ok)

    def post(self, path, body=None):
        return self.call("POST", path, body if body is not None else {})

    def put(self, path, body=None):
        return self.call("PUT", path, body)

    def delete(self, path, body=None):
        """Deletes; False when it was gone already."""
        return self.call("DELETE", path, body, missing_ok=True) is not None

    def discovery(self, realm):
        """The realm's public metadata."""
        status, answer, _ = self._send("GET", f"/realms/{quote(realm)}/.well-known/openid-configuration", None, {})
        if status != 200:
            raise Problem(f"read the metadata of the realm {realm}: {reason(status, answer)}")
        return answer

    def _send(self, method, path, data, headers):
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with self.opener.open(request, timeout=TIMEOUT) as r:
                return r.status, _decode(r.read(MAX_ANSWER)), r.headers.get("Location")
        except urllib.error.HTTPError as e:
            return e.code, _decode(e.read(MAX_ANSWER)), None
        except (urllib.error.URLError, OSError) as e:
            why = getattr(e, "reason", e)
            hint = ""
            if isinstance(why, ssl.SSLCertVerificationError):
                hint = " (a private CA? name its PEM file in MCP_ISSUER_CA)"
            raise Problem(f"reach {self.url}: {why}{hint}") from e


def _decode(raw):
    """JSON, text, or {} for nothing."""
    if not raw:
        return {}
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")


def reason(status, answer):
    """What Keycloak said, on one line and without control characters."""
    text = answer
    if isinstance(answer, dict):
        text = " ".join(str(answer[k]) for k in ("error", "errorMessage", "error_description") if answer.get(k))
    text = re.sub(r"<[^>]*>|[\x00-\x1f\x7f]+", " ", str(text or "")).strip()[:300]
    return f"status {status}" + (f": {text}" if text else "")
