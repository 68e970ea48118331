"""Idle sessions: memory by kind of connection, calls beside them, their opening and their end."""
from report import column, median, table

KINDS = {"none": "none", "h1": "HTTP/1.1, idle", "h1-stream": "HTTP/1.1, open stream", "h2": "HTTP/2, idle", "h2-stream": "HTTP/2, open stream"}
COUNT = 1000


def run(bench, world, only):
    n = bench.few(COUNT, 20)
    yield memory(bench, world, n)
    yield from latency_and_opening(bench, world, n)
    yield end(bench, world, n)


def memory(bench, world, n):
    ours, plain = world.monitor(), world.null(tls=True)

    def measure(case):
        got = {}
        for kind in KINDS:
            if case is plain and kind == "none":
                continue  # it keeps nothing then
            with bench.front(case) as front:
                got[kind] = front.load("idle", 1, "-c", n, "-kind", kind)
        return got

    got = bench.interleaved([ours, plain], measure)
    rows = []
    for kind, words in KINDS.items():
        kib = lambda name, key: median([r[kind][key] for r in got[name]])
        front, monitor = kib(ours.name, "front_kib"), kib(ours.name, "monitor_kib")
        bare = 0 if kind == "none" else kib(plain.name, "front_kib")
        rows.append([words, f"{front:.1f}", f"{monitor:.1f}", f"{bare:.1f}", f"{front - bare:.1f}", "≤ 32" if kind == "none" else "≤ 20"])
    return table([f"connection of each of {n} sessions", "front end KiB", "monitor KiB", "plain handler KiB", "front end above it", "wanted"], rows)


def latency_and_opening(bench, world, n):
    case = world.monitor()

    def measure(case):
        with bench.front(case) as front:
            return front.load("crowd", 1, "-c", 8, "-n", n)

    rs = bench.interleaved([case], measure)[case.name]
    rows = [[what, f"{column(rs, f'alone_{q}_us'):.0f}", f"{column(rs, f'crowd_{q}_us'):.0f}",
             f"{median([r[f'crowd_{q}_us'] / r[f'alone_{q}_us'] for r in rs]):.2f}", wanted]
            for what, q, wanted in (("median", "p50", ""), ("99th percentile", "p99", "≤ 1.3"))]
    yield table(["latency of calls by 8 clients", "without idle sessions µs", f"beside {n} µs", "ratio", "wanted"], rows)
    counts = [int(p[0]) for p in rs[0]["curve"]]
    times = [median([r["curve"][i][1] for r in rs]) for i in range(len(counts))]
    yield table(["sessions open", *counts, "exponent"], [["after s", *(f"{t:.2f}" for t in times), f"{column(rs, 'exponent'):.2f}"]])


def end(bench, world, n):
    idle = bench.few(60, 5)
    case = world.monitor(more={"MCP_IDLE_TIMEOUT": f"{idle}s", "MCP_STREAMLESS_TIMEOUT": f"{idle}s", "MCP_REAPER_INTERVAL": "1s", "MCP_PROBE_INTERVAL": "none"})
    with bench.front(case) as front:
        got = front.load("left", 1, "-c", n, "-d", "120s")
    return table(["end of idle sessions", "processes at most", f"left after {idle} s and the time to end them", "gone s after the last was opened"],
                 [[f"{n}, half with an open stream", got["most"], got["left"], f"{got['gone_s']:.1f}"]])
