#!/usr/bin/env python3
"""Drives mcp-remote over its stdio; person.py says how it is told what to do.

PROGRAM is its dist/proxy.js, NODE the Node.js to run it with.
"""

import atexit
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from person import env, sign_in

home = tempfile.mkdtemp()
atexit.register(shutil.rmtree, home, True)
says, errors, opened = queue.Queue(), [], set()
refused = threading.Event()  # it wants a sign-in although it has a token


def command():
    cmd = [env("NODE"), env("PROGRAM"), env("URL"), "--transport", "http-only"]
    if env("TOKEN"):
        # Claude Desktop and others split arguments at blanks: the value comes by the environment.
        cmd += ["--header", "Authorization:${AUTH_HEADER}"]
    elif env("CLIENT_ID"):
        info = {"client_id": env("CLIENT_ID")}
        if env("CLIENT_SECRET"):
            info["client_secret"] = env("CLIENT_SECRET")
            cmd += ["--client-credentials"]
        cmd += ["--static-oauth-client-info", json.dumps(info)]
    return cmd


def surroundings():
    """A scratch home, and nothing that opens a browser."""
    programs = os.path.join(home, "bin")
    os.mkdir(programs)
    for name in ("xdg-open", "x-www-browser", "firefox", "google-chrome", "wslview"):
        with open(os.path.join(programs, name), "w") as f:
            f.write("#!/bin/sh\nexit 0\n")
        os.chmod(os.path.join(programs, name), 0o755)
    return dict(os.environ, NODE_EXTRA_CA_CERTS=env("CA"), MCP_REMOTE_CONFIG_DIR=home, HOME=home,
                PATH=programs + ":" + os.environ["PATH"], AUTH_HEADER="Bearer " + env("TOKEN", ""))


remote = subprocess.Popen(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=surroundings())


def read_answers():
    for line in remote.stdout:
        says.put(line)
    says.put(None)


def open_browser(address):
    back = sign_in(address)
    urllib.request.urlopen(back).close()


def read_errors():
    for line in remote.stderr:
        errors.append(line)
        found = re.search(r"https?://\S+[?&]code_challenge=\S+", line)
        if found and env("TOKEN"):
            refused.set()
        elif found and found.group(0) not in opened:
            opened.add(found.group(0))
            threading.Thread(target=open_browser, args=(found.group(0),), daemon=True).start()


def fail(why):
    text = "".join(errors)
    print("ERROR", why)
    print(text[-2000:])
    if remote.poll() is None:
        remote.kill()
    status = re.search(r"HTTP 40[13]|Unauthorized|RegistrationRejected|status.{0,4}40[13]", text, re.I)
    sys.exit(3 if status or refused.is_set() else 1)


def send(message):
    try:
        remote.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        remote.stdin.flush()
    except BrokenPipeError:
        remote.wait(5)
        fail("mcp-remote ended")


def ask(number, method, params=None, seconds=60):
    """The result, and the notifications that came before it."""
    send({"id": number, "method": method, "params": params or {}})
    until, before = time.time() + seconds, []
    while True:
        try:
            line = says.get(timeout=0.5)
        except queue.Empty:
            if refused.is_set():
                fail("the token was refused, and mcp-remote waits for a sign-in")
            if time.time() > until:
                fail(f"no answer to {method} in {seconds} s")
            continue
        if line is None:
            remote.wait(5)
            time.sleep(0.2)
            fail("mcp-remote closed its output")
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            if "error" in message:
                fail(f"{method}: {message['error']}")
            return message["result"], before
        before.append(message)


def tool(number, name, arguments=None, **more):
    result, before = ask(number, "tools/call", {"name": name, "arguments": arguments or {}, **more})
    return result["content"][0]["text"], before


threading.Thread(target=read_answers, daemon=True).start()
threading.Thread(target=read_errors, daemon=True).start()
r, _ = ask(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                             "clientInfo": {"name": "driver", "version": "1"}})
print("protocol", r["protocolVersion"])
send({"method": "notifications/initialized"})
print("tools", len(ask(2, "tools/list")[0]["tools"]))
assert tool(3, "echo", {"text": "hi"})[0] == "hi"
first = tool(4, "whoami")[0]
print("whoami", first)
_, notes = tool(5, "progress", _meta={"progressToken": "steps"})
steps = [n for n in notes if n.get("method") == "notifications/progress"]
print("progress", len(steps))
assert len(steps) == 3, notes
if env("HOLD"):
    time.sleep(float(env("HOLD")))
    again = tool(6, "whoami")[0]
    print("again", again)
    assert again == first, "another process answers: the session was lost"
remote.stdin.close()
try:
    print("mcp-remote exit", remote.wait(10))
except subprocess.TimeoutExpired:
    remote.terminate()
    fail("mcp-remote did not end with its input")
print("OK")
