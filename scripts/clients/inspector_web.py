#!/usr/bin/env python3
"""Drives MCP Inspector's web page in a headless Chromium; person.py says how it is told what to do.

PROGRAM is Inspector's launcher, NODE the Node.js to run it with. The page is at
http://localhost:6274: the server allows pages of loopback, the issuer has to
have it among the client's web origins.
"""

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from person import env
from webdriver import Browser

ORIGIN = "http://localhost:6274"
home = tempfile.mkdtemp()
atexit.register(shutil.rmtree, home, True)


def start_inspector():
    """Inspector, and the address of its page."""
    config = {"mcpServers": {"gatehouse": {"type": "streamable-http", "url": env("URL")}}}
    if env("CLIENT_ID"):
        config["mcpServers"]["gatehouse"]["oauth"] = {"clientId": env("CLIENT_ID")}
    path = os.path.join(home, "mcp.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f)
    log = os.path.join(home, "log")
    with open(log, "wb") as out:
        p = subprocess.Popen(
            [env("NODE"), env("PROGRAM"), "--web", "--config", path], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            env=dict(os.environ, HOME=home, MCP_STORAGE_DIR=home, NODE_EXTRA_CA_CERTS=env("CA"),
                     MCP_AUTO_OPEN_ENABLED="false", MCP_INSPECTOR_SECRET_STORE="memory"))
    atexit.register(lambda: (p.terminate(), p.wait(10)))
    until = time.time() + 30
    while time.time() < until and p.poll() is None:
        with open(log, encoding="utf-8") as f:
            found = re.search(r"MCP_INSPECTOR_API_TOKEN=[0-9a-f]+", f.read())
        if found:
            return f"{ORIGIN}/?{found.group(0)}"
        time.sleep(0.2)
    with open(log, encoding="utf-8") as f:
        sys.exit("Inspector did not start: " + f.read()[-1000:])


FETCH = """
return (async () => {
  const out = {};
  for (const [name, url, init] of arguments[0]) {
    try {
      const r = await fetch(url, init);
      out[name] = [r.status, r.headers.get('www-authenticate') ?? '', (await r.text()).slice(0, 300)];
    } catch (e) { out[name] = [0, '', String(e)]; }
  }
  return out;
})();
"""


def cross_origin(browser):
    """What a page at this origin may read of the server: asked by the page itself."""
    url = env("URL")
    root, _, path = url.partition("/mcp")
    got = browser.script(FETCH, [
        ["metadata", f"{root}/.well-known/oauth-protected-resource/mcp{path}", {}],
        ["refusal", url, {"method": "POST", "body": "{}", "headers": {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25", "Authorization": "Bearer a.b.c"}}],
    ])
    assert got["metadata"][0] == 200 and "authorization_servers" in got["metadata"][2], got
    assert got["refusal"][0] == 401, got
    assert "resource_metadata" in got["refusal"][1], f"the page may not read the challenge: {got}"
    # A page from nowhere, such as one of a mail.
    browser.open("data:text/html,<p>stranger")
    other = browser.script(FETCH, [["call", url, {"method": "POST", "body": "{}", "headers": {
        "Content-Type": "application/json", "Authorization": "Bearer a.b.c"}}]])
    assert other["call"][0] == 0, f"a page of an origin that is not allowed read an answer: {other}"
    print("cross-origin: the allowed page reads metadata and challenge, another page nothing")


def main():
    address = start_inspector()
    browser = Browser()
    try:
        browser.open(address)
        switch = "//input[@role='switch' and contains(@aria-label, 'onnect')]"
        browser.until(lambda: browser.find(switch), "no switch to connect with")
        browser.script("document.querySelector('input[role=switch]').click()")
        browser.until(lambda: not browser.url().startswith(ORIGIN), "Inspector did not go to the issuer")
        print("asks at", browser.url().split("?")[0])
        browser.sign_in(ORIGIN, env("SIGN_IN"), env("PASSWORD"))
        browser.until(lambda: "whoami" in browser.text() or browser.find("//*[normalize-space(text())='Tools']"),
                      "not connected", 40)
        if "whoami" not in browser.text():
            browser.click("//*[normalize-space(text())='Tools']")
        browser.until(lambda: "whoami" in browser.text(), "the tools are not listed")
        print("tools", sum(name in browser.text() for name in ("echo", "whoami", "progress", "slow", "cancellations", "ask", "change")))
        browser.click("//*[normalize-space(text())='whoami']")
        browser.click("//button[contains(., 'Execute') or contains(., 'Run') or contains(., 'Call')]")
        said = browser.until(lambda: re.search(r"account=\S+ uid=\d+ pid=\d+", browser.text()), "no answer of the tool")
        print("whoami", said.group(0))
        cross_origin(browser)
        print("OK")
    except (RuntimeError, AssertionError) as e:
        print("ERROR", e)
        if env("SHOT"):
            browser.screenshot(env("SHOT"))
        sys.exit(1)
    finally:
        browser.close()


main()
