"""A fastmcp proxy in front of a stdio worker, with tokens: fastmcp_proxy.py PORT WORKER ISSUER AUDIENCE"""
import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
from fastmcp.server.auth.providers.jwt import JWTVerifier

port, worker, issuer, audience = sys.argv[1:]
auth = JWTVerifier(jwks_uri=issuer + "/jwks", issuer=issuer, audience=audience, algorithm="RS256", required_scopes=["mcp:use"])
proxy = create_proxy(StdioTransport(worker, []), name="bench", auth=auth)
proxy.run(transport="http", host="127.0.0.1", port=int(port), path="/mcp", show_banner=False, log_level="ERROR")
