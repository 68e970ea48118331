"""The front ends that are measured: gatehouse in its ways of running, the null handler and the floors."""
import json
import os
from dataclasses import dataclass, replace

from front import Case


@dataclass(frozen=True)
class World:
    """What scripts/bench.sh has prepared."""
    bin: str            # folder of the programs, which every account may execute
    work: str           # issuer/ with ca.pem and the tokens, tls/ with a certificate, accounts.yaml
    state: str          # folder for gatehouse's state
    plain: str          # the issuer, in cleartext for the floors
    secure: str         # the issuer, over TLS
    audience: str

    @property
    def root(self):
        return os.geteuid() == 0

    def tokens(self, scheme):
        return f"{self.work}/issuer/tokens-{scheme}"

    def null(self, tls=False, every="", together=False):
        cmd = [f"{self.bin}/null", "-addr", "127.0.0.1:{port}"]
        if tls:
            cmd += ["-cert", f"{self.work}/tls/server.pem", "-key", f"{self.work}/tls/server.key"]
        if every:
            cmd += ["-every", every] + ["-together"] * together
        url = "https://127.0.0.1:{port}/mcp" if tls else Case.url
        return Case("null net/http handler" + ", TLS" * tls + ", ticking from the opening on" * together, tuple(cmd), url)

    def floor(self, name, tokens=True, tls=False, simple=False, setsid=False):
        cmd = [f"{self.bin}/floor", "-addr", "127.0.0.1:{port}", "-worker", f"{self.bin}/worker"]
        if tokens:
            cmd += ["-issuer", self.plain, "-aud", self.audience]
        cmd += ["-tls"] * tls + ["-simple"] * simple + ["-setsid"] * setsid
        url = "https://127.0.0.1:{port}/mcp" if tls else Case.url
        return Case(name, tuple(cmd), url, self.tokens("http") if tokens else "")

    def foreign(self, file):
        """Front ends of somebody else's, from a JSON list of {"name", "cmd", "url", "auth"}."""
        with open(file) as f:
            listed = json.load(f)
        fill = lambda s: s.replace("{worker}", f"{self.bin}/worker").replace("{issuer}", self.plain).replace("{audience}", self.audience)
        return [Case(c["name"], tuple(map(fill, c["cmd"])), c.get("url", Case.url), self.tokens("http") if c.get("auth") else "") for c in listed]

    def loopback(self, name="gatehouse, loopback", **more):
        return self._gatehouse(name, "http://localhost:{port}/mcp", "", {"MCP_MODE": "loopback"}, **more)

    def shared_account(self, name="gatehouse, TLS + RS256, shared-account", **more):
        return self._authenticated(name, {"MCP_RUN_AS": "shared-account"}, **more)

    def monitor(self, name="gatehouse, TLS + RS256, monitor", **more):
        """The whole front end: TLS, tokens, the monitor and real accounts. As another user than root, a shared account."""
        if not self.root:
            return self.shared_account(name + " (SHARED ACCOUNT: not root)", **more)
        return self._authenticated(name, {"MCP_RUN_AS": "monitor", "MCP_ACCOUNTS_FILE": f"{self.work}/accounts.yaml"}, **more)

    def spawn_alone(self, case):
        """The same service with the load generator in place of the front end: all that starting and ending a worker takes, without HTTP."""
        name = case.name.replace("gatehouse", "spawn by the monitor alone")
        return replace(case, name=name, cmd=(f"{self.bin}/nofront/serve", "serve"), load=(*case.load, "-mode", "monitor"))

    def _authenticated(self, name, settings, **more):
        settings = {"MCP_MODE": "authenticated", "MCP_ISSUER": self.secure, "MCP_ISSUER_CA": f"{self.work}/issuer/ca.pem",
                    "MCP_AUDIENCE": self.audience, "MCP_REQUIRED_SCOPES": "mcp:use", "MCP_TLS_CERT": f"{self.work}/tls/server.pem",
                    "MCP_TLS_KEY": f"{self.work}/tls/server.key", "MCP_MAX_SESSIONS_PER_PRINCIPAL": "1100",
                    "MCP_SPAWN_RATE": "1000", "MCP_SPAWN_BURST": "1000", **settings}
        return self._gatehouse(name, "https://localhost:{port}/mcp", self.tokens("https"), settings, **more)

    def _gatehouse(self, name, url, tokens, settings, worker=(), load=(), more=None, program="worker"):
        env = {"MCP_PORT": "{port}", "MCP_MAX_SESSIONS": "1100", "MCP_STATE_DIR": self.state,
               "MCP_WORKER_COMMAND": json.dumps([f"{self.bin}/{program}", *worker]), **settings, **(more or {})}
        return Case(name, (f"{self.bin}/gatehouse", "serve"), url, tokens, env, tuple(load))
