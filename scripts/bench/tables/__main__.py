"""The figures of scripts/bench.sh, which prepares the world and calls this. All are ratios from one run, loopback only.

CPU is user and system time of the front end's processes, its monitor included, without client and workers. Everything
is on one CPU, except where the client has the other one so that it does not disturb: K, sessions and streams.

  F    front end's CPU in µs a call, with a light raw client, 1 and 32 clients
  F/N  the same divided by that of the null net/http handler of the same round, which cancels the machine's speed
  L1   median latency of one client divided by that of direct stdio
  K    calls a second of 32 clients divided by those of direct stdio, server and client on a CPU each
"""
import argparse
import sys
import time

import calls
import churn
import growth
import report
import rivals
import sessions
import streams
import tokens
from front import Bench, Failed, note
from world import World

TABLES = {"calls": calls.run, "tokens": tokens.run, "churn": churn.run, "sessions": sessions.run, "streams": streams.run, "growth": growth.run, "rivals": rivals.run}

GROUPING = {"one": "all in one scheduling group", "session": "scheduling groups by session", "system": "scheduled as the system does"}
SMOKE = ["RS256 + TLS", "monitor", "the same", "bridge"]     # the names that the smoke run keeps


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bin", "work", "state", "plain", "secure", "audience", "cache"):
        ap.add_argument("--" + name, required=True)
    ap.add_argument("--grouping", choices=GROUPING, required=True)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=2.5)
    ap.add_argument("--table", choices=[*TABLES, "all"], default="calls")
    ap.add_argument("--only", default="")
    ap.add_argument("--write", default="")
    ap.add_argument("--beside", default="")
    ap.add_argument("--smoke", action="store_true")
    return ap.parse_args()


def main():
    a = arguments()
    world = World(a.bin, a.work, a.state, a.plain, a.secure, a.audience)
    words = a.only.split(",") if a.only else SMOKE if a.smoke else []

    def only(cases):
        """Those whose names hold one of the words of --only; the null handler always, because others are measured by it."""
        return [c for c in cases if not words or c.name.startswith("null") or any(w in c.name for w in words)]

    with open(f"{a.work}/fronts.log", "ab") as log:
        bench = Bench(a.bin, log, a.rounds, a.seconds, a.smoke)
        for name in TABLES if a.table == "all" else [a.table]:
            note(f"== {name}")
            began = time.monotonic()
            rounds = f"{a.rounds} rounds of {a.seconds:g} s, medians" if a.rounds > 1 else f"one round of {a.seconds:g} s"
            parts = [report.taken(f"{rounds}, {GROUPING[a.grouping]}")]
            print(f"\n{name}\n\n{parts[0]}", flush=True)
            more = {"calls": {"beside": world.foreign(a.beside) if a.beside else []}, "growth": {"drawing": a.write and a.write.removesuffix(".md") + "-growth.svg"}, "rivals": {"cache": a.cache}}.get(name, {})
            for part in TABLES[name](bench, world, only, **more):
                print(part, flush=True)
                parts.append(part)
            note(f"== {name} took {time.monotonic() - began:.0f} s")
            if a.write:
                report.write(a.write, name + "-by-session" * (a.grouping == "session"), "\n".join(parts))


try:
    main()
except Failed as e:
    sys.exit(f"bench: {e}")
