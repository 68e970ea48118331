"""What the Python drivers of the client tests share.

Every driver takes its task from the environment:

  URL            the MCP endpoint
  CA             PEM file that server and issuer are verified with
  TOKEN          a bearer token; without one the client signs in by itself
  SIGN_IN        the user whose name is filled in at the issuer, PASSWORD the password
  CLIENT_ID      a client that exists; without one the client registers itself
  CLIENT_SECRET  with CLIENT_ID: client credentials, no user
  ISSUER         the issuer, for the clients that want it told
  REDIRECT       redirect URI, where the client lets us choose
  MODE           legacy or auto: how the client finds the protocol version
  HOLD           seconds to hold the session before a last call, longer than a token lives

and exits with 0 when all went well, 3 when it was refused, 1 otherwise.
"""

import os
import sys
import urllib.parse

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "keycloak"))
env = os.environ.get
os.environ["MCP_ISSUER_CA"] = env("CA", "")
import login  # noqa: E402


def parameters(url):
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))


def sign_in(url):
    """Signs in where url leads. Returns the address that the browser would open at the client."""
    p = parameters(url)
    if p.get("code_challenge_method") != "S256":
        sys.exit(f"the client asks without PKCE S256: {url}")
    print("asks for", p.get("scope", "no scope"), "resource", p.get("resource"), "as", p.get("client_id"))
    return login.Browser(p["redirect_uri"]).sign_in(url, env("SIGN_IN"), env("PASSWORD"))


def leaves(e):
    """The errors inside groups of errors."""
    if isinstance(e, BaseExceptionGroup):
        for x in e.exceptions:
            yield from leaves(x)
    else:
        yield e


def report(error, statuses):
    """Prints what the client said, and exits."""
    for x in leaves(error):
        print(f"ERROR {type(x).__name__}: {str(x)[:600]}")
    sys.exit(3 if {401, 403} & set(statuses) else 1)
