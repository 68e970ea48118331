"""Calls: what one costs, beside the floors, in either era and between the eras."""
from report import column, median, table

CLIENTS = 32
FIGURES = ["F c1", "F c32", "F/N c1", "F/N c32", "L1", "K"]


class Direct:
    """Direct stdio, the measure of latency and throughput, taken anew for each round."""

    def __init__(self, bench):
        self.bench, self.rounds, self.clients = bench, [], bench.few(CLIENTS, 4)

    def of(self, i):
        while len(self.rounds) <= i:
            load = lambda cpu, n: self.bench.load("calls", cpu, "-mode", "stdio", "-cmd", f"taskset -c 0 {self.bench.bin}/worker", "-c", n)
            self.rounds.append((load(0, 1)["p50_us"], load(1, self.clients)["rps"]))
        return self.rounds[i]


def measure_all(bench, cases):
    """{name: [figures of each round]}; the first case is the null handler."""
    direct, nulls, done = Direct(bench), [], {}

    def measure(case):
        i = done.get(case.name, 0)
        done[case.name] = i + 1
        p50, rps = direct.of(i)
        with bench.front(case) as front:
            one, many = front.load("calls", 0, "-c", 1), front.load("calls", 0, "-c", direct.clients)
            split = front.load("calls", 1, "-c", direct.clients)
        f1, f32 = one["front_us"], many["front_us"]
        if case is cases[0]:
            nulls.append((f1, f32))
        n1, n32 = nulls[i]
        return dict(zip(FIGURES, (f1, f32, f1 / n1, f32 / n32, one["p50_us"] / p50, split["rps"] / rps)))

    return bench.interleaved(cases, measure)


def figures_table(got):
    rows = []
    for name, rs in got.items():
        f1, f32, *ratios, k = (column(rs, key) for key in FIGURES)
        rows.append([name, f"{f1:.0f}", f"{f32:.0f}", *(f"{x:.2f}" for x in ratios), f"{k:.3f}"])
    return table(["front end", "F c1 µs", "F c32 µs", "F/N c1", "F/N c32", "L1", "K"], rows)


def ratio_row(got, label, a, b, limit):
    """The median of the rounds' ratios, so that what slows a round down cancels out."""
    ratio = lambda key: median([x[key] / y[key] for x, y in zip(got[a], got[b])])
    return [label, *(f"{ratio(key):.2f}" for key in ("F/N c1", "F/N c32", "L1", "K")), limit]


def run(bench, world, only, beside):
    floor, plain_floor = "floor, best, RS256 + TLS", "floor, best, no token"
    apart = floor + ", worker in a session of its own"
    monitor, modern = world.monitor(), world.monitor("the same, modern era", worker=("-era", "modern"), load=("-modern",))
    down = world.monitor("the same, modern client, legacy worker", load=("-modern",))
    up = world.monitor("the same, legacy client, modern worker", worker=("-era", "modern"))
    cases = only([world.null(), world.floor("floor, simple, RS256", simple=True), world.floor(plain_floor, tokens=False),
                  world.floor("floor, best, RS256"), world.floor(floor, tls=True), world.floor(apart, tls=True, setsid=True),
                  world.loopback(), world.shared_account(), monitor, modern, down, up, *beside])
    got = measure_all(bench, cases)
    yield figures_table(got)
    most = "F/N ≤ 1.25, L1 ≤ 1.15, K ≥ 0.85"
    ratios = [("monitor : best floor, RS256 + TLS", monitor.name, floor, most), ("monitor : the same, worker in a session of its own", monitor.name, apart, "for comparison"),
              ("loopback : best floor, no token", "gatehouse, loopback", plain_floor, most),
              ("modern era : legacy era", modern.name, monitor.name, "F/N ≤ 1.15"),
              ("modern client, legacy worker : modern era", down.name, modern.name, "F/N ≤ 1.25"),
              ("legacy client, modern worker : legacy era", up.name, monitor.name, "F/N ≤ 1.25"),
              *(("monitor : " + c.name, monitor.name, c.name, most) if c.url.startswith("https") else
                ("loopback : " + c.name, "gatehouse, loopback", c.name, most) for c in beside)]
    if rows := [ratio_row(got, *r) for r in ratios if r[1] in got and r[2] in got]:
        yield table(["ratio", "F/N c1", "F/N c32", "L1", "K", "wanted"], rows)
