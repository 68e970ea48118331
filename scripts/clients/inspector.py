#!/usr/bin/env python3
"""Drives MCP Inspector's command line; person.py says how it is told what to do.

PROGRAM is its launcher's index.js, NODE the Node.js to run it with.
"""

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request

from person import env, sign_in

home = tempfile.mkdtemp()
atexit.register(shutil.rmtree, home, True)


def command(*method):
    era = {"legacy": "legacy", "auto": "auto"}[env("MODE", "legacy")]
    cmd = [env("NODE"), env("PROGRAM"), "--cli", env("URL"), "--transport", "http", "--protocol-era", era,
           "--format", "json"]
    if env("TOKEN"):
        cmd += ["--stored-auth-only", "--header", "Authorization: Bearer " + env("TOKEN")]
    elif env("CLIENT_ID"):
        cmd += ["--client-id", env("CLIENT_ID")]
    return cmd + list(method)


def surroundings():
    programs = os.path.join(home, "bin")
    os.makedirs(programs, exist_ok=True)
    for name in ("xdg-open", "x-www-browser"):
        with open(os.path.join(programs, name), "w") as f:
            f.write("#!/bin/sh\nexit 0\n")
        os.chmod(os.path.join(programs, name), 0o755)
    return dict(os.environ, HOME=home, MCP_STORAGE_DIR=home, NODE_EXTRA_CA_CERTS=env("CA"),
                MCP_AUTO_OPEN_ENABLED="true", PATH=programs + ":" + os.environ["PATH"])


def open_browser(address):
    urllib.request.urlopen(sign_in(address)).close()


def run(*method):
    p = subprocess.Popen(command(*method), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, env=surroundings())
    errors, opened = [], set()

    def read_errors():
        for line in p.stderr:
            errors.append(line)
            found = re.search(r"https?://[^\s\"]+[?&]code_challenge=[^\s\"]+", line)
            if found and not env("TOKEN") and found.group(0) not in opened:
                opened.add(found.group(0))
                threading.Thread(target=open_browser, args=(found.group(0),), daemon=True).start()
    reader = threading.Thread(target=read_errors, daemon=True)
    reader.start()
    out = p.stdout.read()
    rc = p.wait(90)
    reader.join(5)
    if rc != 0:
        print("ERROR", "".join(errors)[-1500:])
        sys.exit(rc if rc in (1, 3) else 1)
    return json.loads(out)["result"]


def tool(name, arguments=None):
    r = run("--method", "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments or {}))
    return r["content"][0]["text"]


print("tools", len(run("--method", "tools/list")["tools"]))
assert tool("echo", {"text": "hi"}) == "hi"
print("whoami", tool("whoami"))
print("OK")
