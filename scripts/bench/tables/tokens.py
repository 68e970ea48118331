"""Tokens: what the first use of one costs more than the next."""
from report import column, table


SESSIONS = 250


def run(bench, world, only):
    rows = []
    case, issuer = world.monitor(), f"{world.work}/issuer"
    one = f"{world.work}/first-token"  # all sessions are of one subject, whose further tokens the issuer has made
    with open(world.tokens("https")) as f, open(one, "w") as g:
        g.write(f.readline())
    many = bench.few(SESSIONS, 4)
    for name, file, sessions in (("as long as the session's", "fresh", 1), ("newer, in a row in one session, whose lease is renewed once a second", "newer", 1),
                                 (f"newer, one in each of {many} sessions, whose leases are all renewed", "newer", many)):
        def measure(case):
            with bench.front(case) as front:
                return front.load("tokens", 0, "-fresh-file", f"{issuer}/{file}", "-c", sessions, "-token-file", one)
        rs = bench.interleaved([case], measure)[case.name]
        rows.append([name, *(f"{column(rs, k):.0f}" for k in ("remembered_cpu_us", "first_cpu_us", "more_cpu_us", "more_p50_us"))])
    yield table(["token seen for the first time", "CPU of a call with a remembered one µs", "CPU of its first call µs", "more CPU µs", "more latency µs"], rows)
