"""Tables in Markdown, and the page that holds them between markers.

"report.py HOW" prints the line about a table that is to come, and "report.py PAGE NAME" puts
standard input into a page.
"""
import os
import platform
import statistics
import subprocess
import sys
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


def taken(how):
    """When, how and on what a table was measured; call it before the measurement."""
    go = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout.strip().removeprefix("go")
    kernel = ".".join(platform.release().split(".")[:2])
    date = time.strftime("%-d %B %Y", time.gmtime())
    return f"Taken on {date}: {how}, load average {os.getloadavg()[0]:.1f} before, {os.cpu_count()} CPUs, Linux {kernel}, Go {go}.\n"


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


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(taken(sys.argv[1]))
    else:
        write(sys.argv[1], sys.argv[2], sys.stdin.read())
