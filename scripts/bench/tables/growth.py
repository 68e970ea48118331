"""Growth: what a call costs with more clients and with larger payloads, as a table and a plot."""
import math

import plot
from report import column, table

CLIENTS = (1, 8, 32, 128, 512)
PAYLOADS = {"10 B": 10, "1 KiB": 1 << 10, "100 KiB": 100 << 10, "1 MiB": 1 << 20}


def exponent(xs, ys):
    """b of the y = a·x^b that fits best: least squares of the logarithms."""
    x, y = [math.log(v) for v in xs], [math.log(v) for v in ys]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


def run(bench, world, only, drawing=None):
    clients = bench.few(CLIENTS, (1, 8))
    cases = only([world.null(), world.floor("floor, best, no token", tokens=False), world.floor("floor, best, RS256 + TLS", tls=True),
                  world.loopback(), world.monitor()])

    def measure(case):
        with bench.front(case) as front:
            got = {n: front.load("calls", 0, "-c", n)["front_us"] for n in clients}
            return got | {name: front.load("calls", 0, "-c", 1, "-payload", size)["front_us"] for name, size in PAYLOADS.items()}

    got = bench.interleaved(cases, measure)
    by = lambda keys: {c.name: [column(got[c.name], k) for k in keys] for c in cases}
    by_clients, by_payload = by(clients), by(PAYLOADS)
    if drawing:
        plot.draw(drawing, [plot.Panel("clients, 64 bytes each", clients, clients, by_clients),
                            plot.Panel("payload, one client", list(PAYLOADS.values()), list(PAYLOADS), by_payload)])
    rows = lambda xs, series: [[name, *(f"{y:.0f}" for y in ys), f"{exponent(xs, ys):.2f}"] for name, ys in series.items()]
    yield table(["F µs by clients", *clients, "exponent"], rows(clients, by_clients))
    yield table(["F µs by payload", *PAYLOADS, "exponent"], rows(list(PAYLOADS.values()), by_payload))
