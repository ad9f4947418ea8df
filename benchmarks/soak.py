"""`make soak`: run `cep run --on spark --follow` for half an hour, and check that memory and state do not grow.

A child process runs the command like a user. Files arrive at a steady rate. The benchmark records the metrics, the
memory of the command's processes, and the size of the checkpoint. At the end, SIGTERM stops the run. Growth is judged
by least squares over the last two thirds of the time, after the run has warmed up.

Other work on the machine must not affect the result. For Java, only the memory left by full collections counts. Spark
requests a full collection regularly, and Java's log contains the memory that it left. The time of a micro-batch is
divided by the time of a fixed piece of work that runs every second, in wall time and in CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

import numpy as np
import polars as pl
from prometheus_client.parser import text_string_to_metric_families as families

WITHIN, LATENESS = 60, 5  # seconds
RULES = f"""\
event a(id: int, x: int) TIME time.
event b(id: int, x: int) TIME time.
ab(I, X, Y) <- (a(I, X) SEQ b(I, Y)) WITHIN {WITHIN} s.
quiet(I) <- a(I, _) UNLESS b(I, _) WITHIN {WITHIN} s.
busy(I, N) <- a(I, _) AGGREGATE N = count() OVER LAST {WITHIN} s BY I.
"""
GROWTH = 0.10
"""The maximum relative growth of a figure over the last two thirds of the time, by least squares.

Growth within two standard errors of zero counts as none.
"""
COLLECTIONS = 12
"""The number of full collections of Java during the run."""
WORK = 1_000_000
"""The count of numbers that are added up to measure the machine's speed. This takes some hundredths of a second."""
Works: TypeAlias = Sequence[tuple[float, float]]
"""The wall and CPU seconds of pieces of work."""


@dataclass(frozen=True, slots=True)
class Look:
    """A sample of a run, taken `second` seconds after its start.

    - `jvm`, `python`: the bytes of memory of the command's processes.
    - `threads`, `handles`: the threads and open files of these processes. `cpu`: the CPU seconds that they have used.
    - `heap`, `classes`: the bytes that Java's last full collection left.
    - `work`, `worked`: the mean wall and CPU seconds of the fixed piece of work since the last sample.
    - `files`: the files in the checkpoint.
    - `waits`: the records that are not read yet.

    The other fields are metrics of the run.
    """

    second: float
    jvm: int
    python: int
    threads: int
    handles: int
    cpu: float
    heap: int
    classes: int
    work: float
    worked: float
    files: int
    waits: int
    rows: int
    bytes: int
    records: int
    batches: int
    took: float


@dataclass(frozen=True, slots=True)
class Line:
    """A sample, and the wall and CPU seconds of a micro-batch since the sample before."""

    look: Look
    latency: float
    cpu: float

    @classmethod
    def all(cls, looks: Sequence[Look]) -> list[Line]:
        """Return a line for each sample. If no micro-batch has ended since the previous sample, the line repeats the
        values of the previous line."""
        found: list[Line] = []
        for before, one in zip([None, *looks], looks):
            batches = one.batches - (before.batches if before else 0)
            if batches:
                took, cpu = (one.took - before.took, one.cpu - before.cpu) if before else (one.took, one.cpu)
                found.append(cls(one, took / batches, cpu / batches))
            else:
                found.append(cls(one, found[-1].latency, found[-1].cpu) if found else cls(one, 0.0, 0.0))
        return found

    @property
    def works(self) -> float:
        """The ratio of a micro-batch's wall time to that of the fixed piece of work."""
        return self.latency / self.look.work

    @property
    def pieces(self) -> float:
        """The ratio of a micro-batch's CPU time to that of the fixed piece of work."""
        return self.cpu / self.look.worked

    def text(self) -> str:
        one = self.look
        return (
            f"| {one.second / 60:.1f} | {one.jvm / 1e6:,.0f} | {one.heap / 1e6:,.0f} | {one.classes / 1e6:,.1f} | "
            f"{one.python / 1e6:,.0f} | {one.threads:,} | {one.handles:,} | {one.files:,} | {one.rows:,} | "
            f"{one.bytes / 1e6:.1f} | {one.records:,} | {one.waits:,} | {one.batches:,} | {self.latency:.2f} | "
            f"{self.cpu:.2f} | {one.work * 1e3:.1f} | {one.worked * 1e3:.1f} | {self.works:.1f} | {self.pieces:.1f} |"
        )


HEAD = (
    "| minute | JVM MB | its heap | its classes | Python MB | threads | open files | checkpoint's files | state rows "
    "| state MB | records | not yet read | micro-batches | s each | s of CPU | ms of work | its CPU | works each "
    "| of CPU |\n" + "|---" * 19 + "|"
)


@dataclass(frozen=True, slots=True)
class Collection:
    """A full collection of Java: its time in seconds since the start of Java, and the bytes of objects and classes that
    it left."""

    second: float
    heap: int
    classes: int

    @classmethod
    def all(cls, log: str) -> list[Collection]:
        """Parse a log of `gc,gc+metaspace`, in which the classes of a collection precede its objects."""
        number = r"^\[([\d.]+)s\] GC\((\d+)\) "
        classes = {
            found[2]: int(found[3]) * 1024 for found in re.finditer(number + r"Metaspace: .*?->(\d+)K", log, re.M)
        }
        full = re.finditer(number + r"Pause Full .* \d+M->(\d+)M", log, re.M)
        return [cls(float(found[1]), int(found[3]) << 20, classes.get(found[2], 0)) for found in full]


def work() -> tuple[float, float]:
    """Return the current wall and CPU seconds of the fixed piece of work."""
    began, before = time.perf_counter(), time.thread_time()
    sum(range(WORK))
    return time.perf_counter() - began, time.thread_time() - before


def growth(values: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the growth of a figure over some seconds, relative to its mean, by least squares.

    Return 0 if it is within two standard errors of zero.
    """
    x, y = np.asarray(seconds, float), np.asarray(values, float)
    x, mean = x - x.mean(), y.mean()
    if len(x) < 3 or not mean:
        return 0.0
    slope = float((x * (y - mean)).sum() / (x * x).sum())
    error = float(np.sqrt(((y - mean - slope * x) ** 2).sum() / (len(x) - 2) / (x * x).sum()))
    return 0.0 if abs(slope) <= 2 * error else slope * float(x[-1] - x[0]) / float(mean)


def write(folder: Path, number: int, rows: int, keys: int, seconds: float) -> None:
    """Write the files of both events for the next seconds of event time. Each appears atomically."""
    random = np.random.default_rng(number)
    for event in "ab":
        times = np.sort(random.integers(0, int(seconds * 1e6), rows // 2)) + int(number * seconds * 1e6) + 10**15
        made = folder.parent / f"{event}.parquet"
        pl.DataFrame(
            {
                "id": random.integers(0, keys, rows // 2),
                "x": random.integers(0, 100, rows // 2),
                "time": pl.Series(times).cast(pl.Datetime("us", "UTC")),
            }
        ).write_parquet(made)
        made.replace(folder / event / f"{number:06}.parquet")


def held(root: int) -> tuple[int, int, int, int, float]:
    """Return the resources of a process and its descendants.

    The values are the bytes of memory of Java and of all others, the number of threads, of open files, and CPU seconds.
    """
    output = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid=,rss=,nlwp=,comm="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 4) for line in output.stdout.splitlines()]
    below, java, others, threads, handles, ticks = {root}, 0, 0, 0, 0, 0
    for _ in range(5):
        below |= {int(pid) for pid, parent, *_ in rows if int(parent) in below}
    for pid, _, size, each, name in rows:
        if int(pid) in below:
            threads += int(each)
            java, others = (java + int(size), others) if "java" in name else (java, others + int(size))
            with suppress(OSError):  # the process has ended
                handles += len(os.listdir(f"/proc/{pid}/fd"))
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))  # including ended child processes
    return java * 1024, others * 1024, threads, handles, ticks / os.sysconf("SC_CLK_TCK")


def look(url: str, process: int, began: float, folder: Path, written: int, works: Works) -> Look:
    """Take a sample. `written`: the number of records written so far. `works`: pieces of work since the last sample."""
    text = urllib.request.urlopen(url, timeout=30).read().decode()
    totals: dict[str, float] = {}
    for family in families(text):
        for sample in family.samples:
            totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    collected = Collection.all((folder / "gc").read_text())
    return Look(
        time.monotonic() - began,
        *held(process),
        *((collected[-1].heap, collected[-1].classes) if collected else (0, 0)),
        fmean(clock for clock, _ in works),
        fmean(cpu for _, cpu in works),
        sum(len(names) for _, _, names in os.walk(folder / "state")),
        written - int(totals["semcep_records_total"]),
        int(totals["semcep_state_rows"]),
        int(totals["semcep_state_bytes"]),
        int(totals["semcep_records_total"]),
        int(totals["semcep_batch_seconds_count"]),
        totals["semcep_batch_seconds_sum"],
    )


def soak(folder: Path, minutes: float, rate: int, keys: int, every: float, looks: float) -> Iterator[Look]:
    """Yield samples every `looks` seconds. `rate`: events per second; files arrive every `every` seconds."""
    for event in "ab":
        (folder / "in" / event).mkdir(parents=True)
    (folder / "soak.cep").write_text(RULES)
    each = int(rate * every) // 2 * 2
    write(folder / "in", 0, each, keys, every)
    inputs = [f"--input={event}={folder / 'in' / event}" for event in "ab"]
    places = [f"--output={folder / 'out'}", f"--checkpoint={folder / 'state'}", f"--lateness={LATENESS} s"]
    options = ["--on", "spark", "--follow", "--master", "local[2]", "--log", "json", "--metrics", "0"]
    options += [f"--conf=spark.cleaner.periodicGC.interval={round(minutes * 60 / COLLECTIONS)}s"]
    options += [f"--conf=spark.driver.extraJavaOptions=-Xlog:gc,gc+metaspace:file={folder / 'gc'}:uptime:filecount=0"]
    command = [sys.executable, "-m", "cep", "run", str(folder / "soak.cep"), *inputs, *places, *options]
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(command, stderr=log)
    try:
        url = next(_urls(folder / "log", child))
        began = time.monotonic()
        number = 1
        noted = 0.0
        works = [work()]
        while (now := time.monotonic() - began) < minutes * 60:
            if child.poll() is not None:
                raise SystemExit(f"the run has ended with {child.returncode}: {(folder / 'log').read_text()[-2000:]}")
            if now >= number * every:
                write(folder / "in", number, each, keys, every)
                number += 1
            elif now - noted >= looks:
                noted = now
                yield look(url, child.pid, began, folder, number * each, works)
                works = [work()]
            else:
                works.append(work())
                time.sleep(min(1.0, number * every - now))
        yield look(url, child.pid, began, folder, number * each, works)
        child.send_signal(signal.SIGTERM)
        status = child.wait(600)  # the current micro-batch runs to its end
        last = json.loads((folder / "log").read_text().splitlines()[-1])
        print(f"\nstopped by SIGTERM in {time.monotonic() - began - now:.1f} s, status {status}: {last['text']}")
    finally:
        if child.poll() is None:
            child.kill()


def _urls(log: Path, child: subprocess.Popen[bytes]) -> Iterator[str]:
    while child.poll() is None:
        for line in log.read_text().splitlines():
            output = json.loads(line)
            if output["event"] == "metrics":
                yield output["url"]
        time.sleep(0.5)
    raise SystemExit(f"the run has not begun: {log.read_text()}")


def verdict(looks: list[Look], collected: list[Collection], rate: int, every: float) -> Iterator[str]:
    """Yield a message for each figure that grows or is otherwise wrong."""
    lines = Line.all(looks)
    late = lines[len(lines) // 3 :]
    seconds = [one.look.second for one in late]
    figures: dict[str, Sequence[float]] = {
        "the memory of Python": [one.look.python for one in late],
        "the number of threads": [one.look.threads for one in late],
        "the number of open files": [one.look.handles for one in late],
        "the number of files of the checkpoint": [one.look.files for one in late],
        "what was not yet read": [one.look.waits + rate * every for one in late],
        "the state": [one.look.rows for one in late],
        "the time of a micro-batch in pieces of work, of processors": [one.pieces for one in late],
        "the time of a micro-batch in pieces of work, by the clock": [one.works for one in late],
    }
    measured = {what: growth(values, seconds) for what, values in figures.items()}
    left = collected[len(collected) // 3 :]
    if len(left) < 3:
        yield f"Java had {len(collected)} full collections, too few to judge by"
    measured["the objects of Java"] = growth([one.heap for one in left], [one.second for one in left])
    measured["the classes of Java"] = growth([one.classes for one in left], [one.second for one in left])
    clock = growth([one.latency for one in late], seconds)
    print(f"the time of a micro-batch by the clock: {clock:+.1%}, which goes with what else the machine does")
    cpu = growth([one.cpu for one in late], seconds)
    print(f"its time of processors: {cpu:+.1%}, which goes with how fast they are")
    print(f"what {len(collected)} full collections of Java left, MB: {[one.heap >> 20 for one in collected]}")
    for what, grown in measured.items():
        print(f"{what}: {grown:+.1%} over the last two thirds of the time, by least squares")
        if grown > GROWTH:
            yield f"{what} grows"
    if not any(one.batches for one in looks):
        yield "no micro-batch has ended: it takes more minutes"
        return
    slowest = max(one.latency for one in lines)
    # Half of the events wait in each of SEQ, UNLESS and window; all that are not due wait before these.
    bound = int(rate * (1.5 * WITHIN + LATENESS + 2 * every + 2 * slowest) * 1.1)
    most = max(one.rows for one in looks)
    print(f"state: at most {most:,} rows, bound by the WITHIN {bound:,}")
    if most > bound:
        yield "the state is larger than the WITHIN allows"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=int, default=2_000, help="events a second")
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--every", type=float, default=5, help="seconds between two files of an event")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    looks = []
    print(HEAD, flush=True)
    each = max(15.0, asked.minutes)
    for one in soak(folder, asked.minutes, asked.rate, asked.keys, asked.every, each):
        looks.append(one)
        print(Line.all(looks)[-1].text(), flush=True)
    collected = Collection.all((folder / "gc").read_text())
    wrong = list(verdict(looks, collected, asked.rate, asked.every))
    shutil.rmtree(folder)
    if wrong:
        raise SystemExit("; ".join(wrong))


if __name__ == "__main__":
    main()
