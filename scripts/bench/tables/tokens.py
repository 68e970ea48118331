"""Tokens: what the first use of one costs more than the next."""
from report import column, table


def run(bench, world, only):
    rows = []
    case = world.monitor()
    for name, file in (("as long as the session's", "fresh"), ("newer, so that the worker's lease is renewed", "newer")):
        def measure(case):
            with bench.front(case) as front:
                return front.load("tokens", 0, "-fresh-file", f"{world.work}/issuer/{file}")
        rs = bench.interleaved([case], measure)[case.name]
        rows.append([name, *(f"{column(rs, k):.0f}" for k in ("remembered_cpu_us", "first_cpu_us", "more_cpu_us", "more_p50_us"))])
    yield table(["token seen for the first time", "CPU of a call with a remembered one µs", "CPU of its first call µs", "more CPU µs", "more latency µs"], rows)
