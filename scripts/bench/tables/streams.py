"""Streams: messages on many, results of the greatest size, readers that do not read."""
from report import column, median, table

COUNT = 1000
LIMIT = 16 << 20            # the longest message, by default


def run(bench, world, only):
    yield messages(bench, world)
    yield slow(bench, world)
    if world.root:
        yield large(bench, world)
    else:
        yield "SKIPPED: the peak memory of another account's process can be reset by root only\n"


def messages(bench, world):
    n = bench.few(COUNT, 20)
    ours = [world.loopback("gatehouse, loopback", worker=("-notify", "1s")), world.monitor(worker=("-notify", "1s"))]
    plain = [world.null(every="1s"), world.null(tls=True, every="1s")]
    together = world.null(every="1s", together=True)
    if bench.smoke:
        ours, plain = ours[1:], plain[1:]

    def measure(case):
        with bench.front(case) as front:
            return front.load("streams", 1, "-c", n, "-d", bench.few("10s", "3s"))

    got = bench.interleaved([*plain, together, *ours], measure)
    rows = []
    for p, o in zip(plain, ours):
        each = column(got[p.name], "front_us")
        rows.append([p.name, f"{each:.1f}", "–", "1.00", ""])
        ratio = median([(b["front_us"] + b["monitor_us"]) / a["front_us"] for a, b in zip(got[p.name], got[o.name])])
        rows.append([o.name, f"{column(got[o.name], 'front_us'):.1f}", f"{column(got[o.name], 'monitor_us'):.1f}", f"{ratio:.2f}", "≤ 1.5"])
    rows.append([together.name, f"{column(got[together.name], 'front_us'):.1f}", "–", "", "for comparison"])
    return table([f"{n} streams with a message a second each", "front end's CPU a message µs", "monitor's µs", "ratio", "wanted"], rows)


def slow(bench, world):
    n, size = bench.few(16, 4), bench.few(8 << 20, 4 << 20)
    case = world.monitor()

    def measure(case):
        with bench.front(case) as front:
            return front.load("slow", 1, "-c", 8, "-n", n, "-result", size)

    rs = bench.interleaved([case], measure)[case.name]
    rows = [[what, f"{column(rs, f'alone_{q}_us'):.0f}", f"{column(rs, f'slow_{q}_us'):.0f}", f"{median([r[f'slow_{q}_us'] / r[f'alone_{q}_us'] for r in rs]):.2f}"]
            for what, q in (("median", "p50"), ("99th percentile", "p99"))]
    return table(["latency of calls by 8 clients", "alone µs", f"beside {n} that do not read {size >> 20} MiB each µs", "ratio"], rows)


def large(bench, world):
    size = LIMIT - 4096         # and the rest of the message
    rows = []
    for case in (world.loopback(), world.monitor()):
        def measure(case):
            with bench.front(case) as front:
                return front.load("large", 1, "-result", size)
        rs = bench.interleaved([case], measure)[case.name]
        rows.append([case.name, f"{column(rs, 'before_mib'):.0f}", f"{column(rs, 'first'):.2f}", f"{column(rs, 'peak'):.2f}", "≤ 2"])
    return table(["results of 16 MiB", "before MiB", "peak above that during the first, in results", "during three", "wanted"], rows)
