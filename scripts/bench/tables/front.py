"""Starting a front end on one CPU, putting load on it, and seeing that nothing of it is left."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """A front end to measure. "{port}" in its command, environment and URL is filled in at each start."""
    name: str
    cmd: tuple
    url: str = "http://127.0.0.1:{port}/mcp"
    tokens: str = ""                            # a file; empty: no tokens
    env: dict = field(default_factory=dict)
    load: tuple = ()                            # further options of the load generator


class Bench:
    """What all measurements share: the programs, how long and how often, and how many."""

    def __init__(self, bin_dir, log, rounds, seconds, smoke):
        self.bin, self.log, self.rounds, self.seconds, self.smoke = bin_dir, log, rounds, seconds, smoke

    def few(self, n, smoke):
        """n, or the small number of the smoke run."""
        return smoke if self.smoke else n

    def load(self, measure, cpu, *args):
        """Runs the load generator on that CPU and returns its figures. An error among them ends the run."""
        cmd = ["taskset", "-c", str(cpu), f"{self.bin}/load", measure, "-d", f"{self.seconds}s", *map(str, args)]
        r = subprocess.run(cmd, capture_output=True, text=True, timeout=600)
        if r.returncode or not r.stdout.strip():
            raise Failed(f"load {measure}: {r.stderr[-600:].strip()}")
        got = json.loads(r.stdout)
        if got["errors"]:
            raise Failed(f"load {measure}: {got['errors']} errors, such as {got.get('last_error')}")
        return got

    @contextlib.contextmanager
    def front(self, case):
        """A front end that runs on CPU 0, and afterwards does so no more."""
        port = free_port()
        fill = lambda s: s.replace("{port}", str(port))
        env = {**os.environ, **{k: fill(v) for k, v in case.env.items()}}
        cmd = ["taskset", "-c", "0", *map(fill, case.cmd)]
        p = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env, start_new_session=True)
        family = set()
        try:
            wait_for(port, p)
            yield Front(self, case, fill(case.url), p.pid)
            family = descendants(p.pid)
        except (Failed, subprocess.TimeoutExpired) as e:
            raise Failed(f"{case.name}: {e}") from e
        finally:
            stop(p)
        self.nothing_left(case, family)

    def nothing_left(self, case, family):
        """Fails when a process of the front end outlives it by more than some seconds."""
        end = time.time() + 10
        while left := [x for x in family if started(x[0]) == x[1]] + running_from(self.bin):
            if time.time() > end:
                raise Failed(f"{case.name}: still running after the stop: {left}")
            time.sleep(0.05)

    def interleaved(self, cases, measure):
        """{name: [result of each round]}; every round takes all cases, so that noise meets them alike."""
        got = {c.name: [] for c in cases}
        for i in range(self.rounds):
            for c in cases:
                note(f"round {i + 1} of {self.rounds}: {c.name}")
                got[c.name].append(measure(c))
        return got


class Front:
    """A front end that runs."""

    def __init__(self, bench, case, url, pid):
        self.bench, self.case, self.url, self.pid = bench, case, url, pid

    def load(self, measure, cpu, *args):
        tokens = ["-token-file", self.case.tokens] if self.case.tokens else []
        return self.bench.load(measure, cpu, "-url", self.url, "-pid", self.pid, *tokens, *self.case.load, *args)


class Failed(Exception):
    """A front end answered with an error or misbehaved; the figures do not count."""


def note(text):
    print("  " + text, file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        if process.poll() is not None:
            raise Failed(f"it ended with status {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise Failed(f"nothing listens on port {port}")


def stop(process):
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def stat(pid):
    """The fields of /proc/PID/stat from the state on; none for a process that ended."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()
    except OSError:
        return None


def started(pid):
    """When a process started, which with its id names it for good; None when it has ended."""
    s = stat(pid)
    return s[19] if s and s[0] != "Z" else None


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(root):
    """{(pid, started)} of a process and all below it."""
    kids = {}
    for pid in processes():
        if s := stat(pid):
            kids.setdefault(int(s[1]), []).append(pid)
    todo, found = [root], set()
    while todo:
        pid = todo.pop()
        found.add((pid, started(pid)))
        todo += kids.get(pid, [])
    return {x for x in found if x[1]}


def running_from(folder):
    """(pid, program) of what runs from a folder, the issuer apart."""
    found = []
    for pid in processes():
        try:
            exe = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue  # ended, or not ours to see
        if exe.startswith(folder + "/") and os.path.basename(exe) != "issuer":
            found.append((pid, os.path.basename(exe)))
    return found
