#!/usr/bin/python3
"""A stdio MCP server that tells what it was born with, for test-identity.sh.

It is no Go program, because Go's runtime opens files of its own. What it
inherited is read before anything is opened.
"""
import json
import os
import signal
import sys

FDS = []
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    try:
        FDS.append((int(name), os.readlink(f"/proc/self/fd/{name}")))
    except OSError:
        pass  # the descriptor of the listing itself
UMASK = os.umask(0)
os.umask(UMASK)


def whoami(_):
    with open("/proc/self/status") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    keep = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")
    return {
        "pid": os.getpid(),
        "fds": FDS,
        "umask": f"{UMASK:03o}",
        "cwd": os.getcwd(),
        "argv": sys.argv,
        "env": dict(os.environ),
        "status": {k: status.get(k, "").split() for k in keep},
    }


def try_read(a):
    try:
        with open(a["path"]) as f:
            return {"read": f.read(100)}
    except OSError as e:
        return {"error": e.strerror}


def try_write(a):
    fd = os.open(a["path"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.write(fd, a["text"].encode())
    os.close(fd)
    return {"mode": f"{os.stat(a['path']).st_mode & 0o777:03o}"}


def try_kill(a):
    try:
        os.kill(a["pid"], signal.SIGTERM)
        return {"killed": a["pid"]}
    except OSError as e:
        return {"error": e.strerror}


TOOLS = {"whoami": whoami, "try_read": try_read, "try_write": try_write, "try_kill": try_kill}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "identity-worker", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in TOOLS]}
    if method == "tools/call":
        text = json.dumps(TOOLS[params["name"]](params.get("arguments") or {}))
        return {"content": [{"type": "text", "text": text}]}
    return {}


for line in sys.stdin:
    m = json.loads(line)
    if "id" in m and "method" in m:
        reply = {"jsonrpc": "2.0", "id": m["id"], "result": answer(m["method"], m.get("params"))}
        print(json.dumps(reply), flush=True)
