"""Fair figures for MCP front ends: ratios from one run on one machine, loopback only. Called by scripts/bench.sh.

Columns (CPU figures are user+system from /proc, without the client and the workers):
  F    front-end CPU in µs a call, everything on one CPU, light raw client, 1 and 32 clients
  F/N  the same divided by that of a null net/http handler of the same round: cancels the machine's speed
  L1   p50 with one client divided by that of direct stdio, both on one CPU
  K    calls a second with the server on CPU 0 and the client on CPU 1, divided by direct stdio in that layout, 32 clients
"""
import argparse
import json
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

    def front(self, case, clients, client_cpu):
        """One measurement of one front end, started for it and ended after it."""
        env = {**os.environ, **case.get("env", {})}
        cmd = ["taskset", "-c", "0", *case["cmd"]]
        p = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env, start_new_session=True)
        try:
            wait_for(case["port"], p)
            time.sleep(case.get("settle", 0.5))
            tokens = ["-token-file", case["tokens"]] if case.get("tokens") else []
            return self.load(client_cpu, "-url", case["url"], "-pid", str(p.pid), "-c", str(clients), *tokens)
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


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True, help="folder of the built programs")
    ap.add_argument("--cases", required=True, help="JSON list of the front ends; the first is the null handler")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=2.5)
    a = ap.parse_args()
    with open(a.cases) as f:
        cases = json.load(f)
    pinned = f"{a.bin}/pinned-worker"
    with open(pinned, "w") as f:
        f.write(f"#!/bin/sh\nexec taskset -c 0 {a.bin}/worker\n")
    os.chmod(pinned, 0o755)
    rows = {}
    with open(f"{a.bin}/fronts.log", "ab") as log:
        bench = Bench(a.bin, log, a.seconds)
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
