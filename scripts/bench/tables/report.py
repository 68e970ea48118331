"""Tables in Markdown, and the page that holds them between markers."""
import os
import platform
import statistics
import subprocess
import time

from front import Failed


def median(values):
    return statistics.median(values)


def column(results, key):
    """The median of one figure over the rounds."""
    return median([r[key] for r in results])


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(x) for x in line) + " |" for line in lines) + "\n"


def taken(bench):
    """When, how and on what a table was measured; call it before the measurement."""
    go = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout.strip().removeprefix("go")
    kernel = ".".join(platform.release().split(".")[:2])
    date = time.strftime("%-d %B %Y", time.gmtime())
    rounds = f"{bench.rounds} rounds, medians" if bench.rounds > 1 else "one round"
    return (f"Taken on {date}: {rounds}, {bench.seconds:g} s each, load average {os.getloadavg()[0]:.1f} before, "
            f"{os.cpu_count()} CPUs, Linux {kernel}, Go {go}.\n")


def write(page, name, text):
    """Puts the text between the markers of that name into the page."""
    with open(page) as f:
        old = f.read()
    start, end = f"<!-- bench:{name} -->\n", f"<!-- /bench:{name} -->\n"
    before, found, rest = old.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise Failed(f"{page} has no markers {start.strip()} and {end.strip()}")
    with open(page, "w") as f:
        f.write(f"{before}{start}{text}{end}{after}")
