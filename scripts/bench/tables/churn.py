"""Churn: sessions that open, call once and end, beside what starting the worker alone allows."""
from front import Case
from report import column, median, table

SLOW = "200ms"              # what many a worker on Node.js or Python takes to start, at least
WARM = {"MCP_WARM_WORKERS": "4"}
SDK = {"program": "everything-server", "load": ("-tool", "test_simple_text")}   # an ordinary server, on the official Go SDK

def run(bench, world, only):
    yield churn(bench, world, only)
    yield ordinary(bench, world)
    yield slow_start(bench, world)


def churn(bench, world, only):
    bare = Case("fork, exec, handshake and call alone", ())
    loopback, monitor = world.loopback(), world.monitor()
    spawns = {c.name: world.spawn_alone(c) for c in (loopback, monitor)}
    fronts = only([world.floor("floor, best, no token", tokens=False), world.floor("floor, best, RS256 + TLS", tls=True),
                   loopback, world.shared_account(), monitor, world.monitor("the same, 4 warm workers", more=WARM)])
    cases = [bare, *[spawns[c.name] for c in fronts if c.name in spawns], *fronts]

    def measure(case):
        if case is bare:
            worker = ("-mode", "stdio", "-cmd", f"{bench.bin}/worker")
            return bench.load("churn", 0, *worker, "-c", 4) | bench.load("open", 0, *worker)
        with bench.front(case) as front:
            return front.load("churn", 0, "-c", 4) | front.load("open", 0)

    got = bench.interleaved(cases, measure)
    rows = []
    for case in cases:
        rs = got[case.name]
        cpu = "–" if case is bare else f"{column(rs, 'front_us'):.0f}"
        spawn = slower(got, spawns[case.name], case) if case.name in spawns else "–"
        rows.append([case.name, cpu, f"{column(rs, 'rps'):.0f}", slower(got, bare, case), spawn, f"{column(rs, 'open_p50_us') / 1000:.1f}"])
    return table(["front end", "CPU a session µs", "sessions a second, 4 clients", "alone : this", "its spawn alone : this", "opening by one client ms"], rows)


def slower(got, than, case):
    """How many times as long a session of the case takes, median of the rounds."""
    return f"{median([b['rps'] / r['rps'] for b, r in zip(got[than.name], got[case.name])]):.2f}"


def ordinary(bench, world):
    """The same with a worker that is not as small as one can be."""
    bare = Case("fork, exec, handshake and call alone", ())
    fronts = [world.loopback(**SDK), world.monitor(**SDK)]
    spawns = {c.name: world.spawn_alone(c) for c in fronts}

    def measure(case):
        if case is bare:
            return bench.load("churn", 0, "-mode", "stdio", "-cmd", f"{bench.bin}/{SDK['program']}", "-c", 4, *SDK["load"])
        with bench.front(case) as front:
            return front.load("churn", 0, "-c", 4)

    cases = [bare, *spawns.values(), *fronts]
    got = bench.interleaved(cases, measure)
    rows = [[c.name, f"{column(got[c.name], 'rps'):.0f}", slower(got, bare, c), slower(got, spawns[c.name], c) if c.name in spawns else "–"] for c in cases]
    return table(["the Go SDK's everything-server as the worker", "sessions a second, 4 clients", "alone : this", "its spawn alone : this"], rows)


def slow_start(bench, world):
    cases = [world.monitor(worker=("-start", SLOW)), world.monitor("the same, 4 warm workers", worker=("-start", SLOW), more=WARM)]

    def measure(case):
        with bench.front(case) as front:
            return front.load("open", 0)

    got = bench.interleaved(cases, measure)
    return table([f"a worker that takes {SLOW} to start", "opening by one client ms"], [[c.name, f"{column(got[c.name], 'open_p50_us') / 1000:.1f}"] for c in cases])
