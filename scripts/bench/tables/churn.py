"""Churn: sessions that open, call once and end, beside what starting the worker alone allows."""
from front import Case
from report import column, median, table


def run(bench, world, only):
    bare = Case("fork, exec, handshake and call alone", ())
    cases = [bare, *only([world.floor("floor, best, no token", tokens=False), world.floor("floor, best, RS256 + TLS", tls=True),
                          world.loopback(), world.shared_account(), world.monitor()])]
    if world.has_setting("MCP_WARM_WORKERS"):
        cases.append(world.monitor("the same, 4 warm workers", more={"MCP_WARM_WORKERS": "4"}))

    def measure(case):
        if case is bare:
            return bench.load("churn", 0, "-mode", "stdio", "-cmd", f"{bench.bin}/worker", "-c", 4)
        with bench.front(case) as front:
            return front.load("churn", 0, "-c", 4)

    got = bench.interleaved(cases, measure)
    rows = []
    for case in cases:
        rs = got[case.name]
        slower = median([b["rps"] / r["rps"] for b, r in zip(got[bare.name], rs)])
        cpu = "–" if case is bare else f"{column(rs, 'front_us'):.0f}"
        rows.append([case.name, cpu, f"{column(rs, 'rps'):.0f}", f"{column(rs, 'p50_us') / 1000:.1f}", f"{slower:.2f}"])
    yield table(["front end", "CPU a session µs", "sessions a second", "median life ms", "bare : this"], rows)
