#!/usr/bin/env python3
"""Signs in at a Keycloak without a browser, for tests: fills in its forms. Standard library only.

  login.py password ISSUER CLIENT SCOPE USER          password grant
  login.py code     ISSUER CLIENT SCOPE USER          authorization code with PKCE
  login.py device   ISSUER CLIENT SCOPE USER          device grant with PKCE
  login.py client   ISSUER CLIENT SCOPE               client credentials
  login.py refresh  ISSUER CLIENT                     refresh grant
  login.py register ISSUER SCOPE                      dynamic registration of a native client
  login.py follow   AUTHORIZE_URL USER                another program's sign-in: prints where its browser would go

The secret (the user's password, the client's secret, the refresh token) is the
first line of standard input. Prints the issuer's answer as JSON; exit status 1
when it is an error. The CA is MCP_ISSUER_CA, else the system's.
"""

import base64
import hashlib
import html
import http.cookiejar
import json
import os
import re
import secrets
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

REDIRECT = "http://127.0.0.1:45123/callback"  # nothing listens there: the last step is not taken
STEPS = 12  # redirects, and pages with a form

context = ssl.create_default_context(cafile=os.environ.get("MCP_ISSUER_CA") or None)


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl):
        return None


class Browser:
    """Cookies and redirects, as far as a sign-in needs them."""

    def __init__(self, until):
        """until: the beginning of an address that is not opened any more."""
        self.until = until
        self.opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context),
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), Stay())

    def arrived(self, url):
        return bool(self.until) and url.startswith(self.until)

    def go(self, url, form=None):
        """Follows redirects; the address at the end and the page there."""
        for _ in range(STEPS):
            if self.arrived(url):
                return url, ""
            data = urllib.parse.urlencode(form).encode() if form is not None else None
            try:
                with self.opener.open(urllib.request.Request(url, data), timeout=30) as r:
                    return url, r.read().decode()
            except urllib.error.HTTPError as e:
                if e.code in (301, 302, 303, 307) and e.headers.get("Location"):
                    url, form = urllib.parse.urljoin(url, e.headers["Location"]), None
                    continue
                return url, e.read().decode("utf-8", "replace")
        sys.exit(f"more than {STEPS} redirects, the last to {url}")

    def sign_in(self, url, user, password):
        """Fills in what comes: the login form, then forms of consent. The address at the end."""
        url, page = self.go(url)
        tried = False
        for _ in range(STEPS):
            if self.arrived(url) or not page:
                return url
            answer = fill_in(page, user, password)
            if answer and "password" in answer[1]:
                if tried:
                    sys.exit(f"Keycloak refused the sign-in of {user}: {words(page)}")
                tried = True
            if answer is None:
                if self.until:
                    sys.exit(f"no form that can be filled in at {url}: {words(page)}")
                return url
            url, page = self.go(urllib.parse.urljoin(url, answer[0]), answer[1])
        sys.exit(f"more than {STEPS} forms, the last at {url}: {words(page)}")


def fill_in(page, user, password):
    """(address, fields) of the form that goes on, or None."""
    for form in re.findall(r"<form[^>]*>.*?</form>", page, re.S):
        action = re.search(r'action="([^"]*)"', form)
        action = html.unescape(action.group(1)) if action else ""
        fields = {}
        for tag in re.findall(r"<(?:input|button)[^>]*>", form):
            name, value = re.search(r'\bname="([^"]*)"', tag), re.search(r'\bvalue="([^"]*)"', tag)
            if name:
                fields[html.unescape(name.group(1))] = html.unescape(value.group(1)) if value else ""
        if "password" in fields:
            return action, {"username": user, "password": password, "credentialId": ""}
        if "accept" in fields:
            fields.pop("cancel", None)
            return action, fields
    return None


def words(page):
    page = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)).strip()[:300]


def post(url, form):
    return send(urllib.request.Request(url, urllib.parse.urlencode(form).encode()))


def send(request):
    """The answer as a dict, with "status" when it is an error."""
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as r:
            return json.load(r)
    except urllib.error.HTTPError as e:
        return {**json.loads(e.read() or b"{}"), "status": e.code}


def pkce():
    """A verifier and its challenge."""
    verifier = secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode()).digest()
    return verifier, base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class Realm:
    def __init__(self, issuer):
        self.issuer, self.at = issuer, issuer + "/protocol/openid-connect"

    def token(self, grant, client, **form):
        return post(f"{self.at}/token", {"grant_type": grant, "client_id": client, **form})

    def password(self, password, client, scope, user):
        return self.token("password", client, scope=scope, username=user, password=password)

    def client(self, secret, client, scope):
        return self.token("client_credentials", client, scope=scope, client_secret=secret)

    def refresh(self, refresh_token, client):
        return self.token("refresh_token", client, refresh_token=refresh_token)

    def register(self, _, scope):
        """Without authentication, as MCP clients do (RFC 7591)."""
        body = {"client_name": "test", "redirect_uris": [REDIRECT], "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"], "token_endpoint_auth_method": "none", "scope": scope}
        return send(urllib.request.Request(f"{self.issuer}/clients-registrations/openid-connect",
                                           json.dumps(body).encode(), {"Content-Type": "application/json"}))

    def code(self, password, client, scope, user):
        verifier, challenge = pkce()
        state = secrets.token_urlsafe(8)
        url = f"{self.at}/auth?" + urllib.parse.urlencode({
            "response_type": "code", "client_id": client, "redirect_uri": REDIRECT, "scope": scope,
            "state": state, "code_challenge": challenge, "code_challenge_method": "S256"})
        end = Browser(REDIRECT).sign_in(url, user, password)
        got = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(end).query))
        if "code" not in got or got.get("state") != state:
            sys.exit(f"no code came back: {end}")
        return self.token("authorization_code", client, code=got["code"], redirect_uri=REDIRECT,
                          code_verifier=verifier)

    def device(self, password, client, scope, user):
        verifier, challenge = pkce()
        started = post(f"{self.at}/auth/device", {
            "client_id": client, "scope": scope, "code_challenge": challenge, "code_challenge_method": "S256"})
        if "device_code" not in started:
            return started
        Browser("").sign_in(started["verification_uri_complete"], user, password)
        for _ in range(4):
            answer = self.token("urn:ietf:params:oauth:grant-type:device_code", client,
                                device_code=started["device_code"], code_verifier=verifier)
            if answer.get("error") not in ("authorization_pending", "slow_down"):
                break
            time.sleep(started["interval"] + 0.2)
        return answer


def main():
    ways = ("password", "code", "device", "client", "refresh", "register", "follow")
    if len(sys.argv) < 4 or sys.argv[1] not in ways:
        sys.exit(__doc__)
    what, *rest = sys.argv[1:]
    secret = sys.stdin.readline().rstrip("\n")
    if what == "follow":
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(rest[0]).query))
        print(Browser(query["redirect_uri"]).sign_in(rest[0], rest[1], secret))
        return
    answer = getattr(Realm(rest[0]), what)(secret, *rest[1:])
    print(json.dumps(answer))
    sys.exit(1 if "error" in answer else 0)


if __name__ == "__main__":
    main()
