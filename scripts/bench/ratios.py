"""Fair figures for MCP front ends: ratios from one run on one machine, loopback only. Called by scripts/bench.sh.

Columns (CPU figures are user+system from /proc, without the client and the workers):
  F    front-end CPU in µs a call, everything on one CPU, light raw client, 1 and 32 clients
  F/N  the same divided by that of a null net/http handler of the same round: cancels the machine's speed
  L1   p50 with one client divided by that of direct stdio, both on one CPU
  K    calls a second with the server on CPU 0 and the client on CPU 1, divided by direct stdio in that layout, 32 clients
Other tables (--table):
  churn     open a session, call once, DELETE, by 4 clients: CPU a session and sessions a second
  sessions  anonymous memory a session, connection included, at --clients sessions that are idle; workers apart
  growth    F of a call at each of --clients with 64 bytes, and at each of --payloads with one client, and the exponent of
            the growth between the first and the last of the payloads
"""
import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import time


def wait_for(port, process, seconds=40):
    end = time.time() + seconds
    while time.time() < end:
        if process.poll() is not None:
            sys.exit(f"bench: the program for port {port} ended with status {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"bench: nothing listens on port {port}")


class Bench:
    def __init__(self, bin_dir, log, seconds):
        self.bin, self.log, self.seconds = bin_dir, log, seconds

    def load(self, cpu, *args):
        cmd = ["taskset", "-c", str(cpu), f"{self.bin}/load", "-d", f"{self.seconds}s", *args]
        r = subprocess.run(cmd, capture_output=True, text=True, timeout=180)
        if not r.stdout.strip():
            sys.exit("bench: load failed: " + r.stderr[-400:])
        return json.loads(r.stdout)

    def front(self, case, clients, client_cpu, *args):
        """One measurement of one front end, started for it and ended after it."""
        env = {**os.environ, **case.get("env", {})}
        cmd = ["taskset", "-c", "0", *case["cmd"]]
        p = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env, start_new_session=True)
        try:
            wait_for(case["port"], p)
            time.sleep(case.get("settle", 0.5))
            tokens = ["-token-file", case["tokens"]] if case.get("tokens") else []
            return self.load(client_cpu, "-url", case["url"], "-pid", str(p.pid), "-c", str(clients), *tokens, *args)
        finally:
            p.terminate()
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()

    def round(self, cases, rows):
        pinned = f"{self.bin}/pinned-worker"
        direct1 = self.load(0, "-mode", "stdio", "-cmd", pinned, "-c", "1")
        direct32 = self.load(1, "-mode", "stdio", "-cmd", pinned, "-c", "32")
        null = None
        for case in cases:
            one, many, split = self.front(case, 1, 0), self.front(case, 32, 0), self.front(case, 32, 1)
            f1, f32 = one["front_cpu_us_per_call"], many["front_cpu_us_per_call"]
            null = null or (f1, f32)
            errors = sum(x["errors"] for x in (one, many, split))
            row = (f1, f32, f1 / null[0], f32 / null[1], one["p50_us"] / direct1["p50_us"], split["rps"] / direct32["rps"], errors)
            rows.setdefault(case["name"], []).append(row)
            print(f"  {case['name']}: F {f1:.0f}/{f32:.0f} µs, F/N {row[2]:.2f}/{row[3]:.2f}", file=sys.stderr)


def table(head, rows):
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def medians(bench, rounds, cases, key, clients, *args):
    """The medians of one figure for each case, the rounds interleaved; errors end the run."""
    got = {case["name"]: [] for case in cases}
    for i in range(rounds):
        for case in cases:
            r = bench.front(case, clients, 0, *args)
            if r.get("errors"):
                sys.exit(f"bench: {case['name']}: {r['errors']} errors, such as {r.get('last_error')}")
            got[case["name"]].append([r[k] for k in key])
    return {name: [statistics.median(col) for col in zip(*rs)] for name, rs in got.items()}


def churn(bench, a, cases):
    m = medians(bench, a.rounds, cases, ["front_cpu_us_per_call", "rps"], 4, "-churn")
    table(["front end", "CPU a session µs", "sessions a second"], [[n, f"{v[0]:.0f}", f"{v[1]:.0f}"] for n, v in m.items()])


def sessions(bench, a, cases):
    counts = [int(n) for n in a.clients.split(",")]
    cols = [medians(bench, a.rounds, cases, ["memory_per_session"], n, "-idle") for n in counts]
    table(["front end", *(f"KiB a session, {n}" for n in counts)],
          [[c["name"], *(f"{col[c['name']][0] / 1024:.1f}" for col in cols)] for c in cases])


def growth(bench, a, cases):
    counts, sizes = [int(n) for n in a.clients.split(",")], [int(n) for n in a.payloads.split(",")]
    key = ["front_cpu_us_per_call"]
    cols = [medians(bench, a.rounds, cases, key, n) for n in counts]
    table(["front end, F µs", *(f"{n} clients" for n in counts)],
          [[c["name"], *(f"{col[c['name']][0]:.0f}" for col in cols)] for c in cases])
    print()
    cols = [medians(bench, a.rounds, cases, key, 1, "-payload", str(n)) for n in sizes]
    rows = []
    for c in cases:
        f = [col[c["name"]][0] for col in cols]
        exponent = math.log(f[-1] / f[0]) / math.log(sizes[-1] / sizes[0]) if len(f) > 1 else 0
        rows.append([c["name"], *(f"{x:.0f}" for x in f), f"{exponent:.2f}"])
    table(["front end, F µs", *(f"{n} B" for n in sizes), "exponent"], rows)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True, help="folder of the built programs")
    ap.add_argument("--cases", required=True, help="JSON list of the front ends; the first is the null handler")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=2.5)
    ap.add_argument("--table", choices=["calls", "churn", "sessions", "growth"], default="calls")
    ap.add_argument("--only", default="", help="front ends whose name holds one of these, parted by commas")
    ap.add_argument("--clients", default="", help="for sessions and growth, parted by commas")
    ap.add_argument("--payloads", default="10,1024,102400,1048576", help="bytes, for growth")
    a = ap.parse_args()
    a.clients = a.clients or {"sessions": "100,200"}.get(a.table, "1,8,32,128")
    with open(a.cases) as f:
        cases = json.load(f)
    if a.only:
        cases = cases[:1] + [c for c in cases[1:] if any(word in c["name"] for word in a.only.split(","))]
    pinned = f"{a.bin}/pinned-worker"
    with open(pinned, "w") as f:
        f.write(f"#!/bin/sh\nexec taskset -c 0 {a.bin}/worker\n")
    os.chmod(pinned, 0o755)
    rows = {}
    with open(f"{a.bin}/fronts.log", "ab") as log:
        bench = Bench(a.bin, log, a.seconds)
        if a.table != "calls":
            # The null handler has no sessions; what it costs a connection is a figure of its own.
            return {"churn": churn, "sessions": sessions, "growth": growth}[a.table](bench, a, cases)
        for i in range(a.rounds):
            print(f"round {i + 1} of {a.rounds}", file=sys.stderr)
            bench.round(cases, rows)
    print("| front end | F c1 µs | F c32 µs | F/N c1 | F/N c32 | L1 | K | errors |\n|---|---|---|---|---|---|---|---|")
    failed = False
    for name, rs in rows.items():
        m = [statistics.median(col) for col in zip(*rs)]
        errors = sum(r[6] for r in rs)
        failed |= errors > 0
        print(f"| {name} | {m[0]:.0f} | {m[1]:.0f} | {m[2]:.2f} | {m[3]:.2f} | {m[4]:.1f} | {m[5]:.3f} | {errors} |")
    if failed:
        sys.exit("bench: there were errors, so the figures do not count")


main()
