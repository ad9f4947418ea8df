"""`make soak`: `cep run --on spark --follow`, fed for half an hour to see that its memory and state stay as they are.

A child process runs the command, as its users do; files come at a steady rate, and what it tells over `--metrics` and
what its processes hold are noted. At the end it is stopped by SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
"""How much more memory the last third of the time may take than the second one."""


@dataclass(frozen=True, slots=True)
class Look:
    """At a second of the run: `jvm` and `python` are bytes of memory of its processes; the rest is of its metrics."""

    second: float
    jvm: int
    python: int
    rows: int
    bytes: int
    records: int
    batches: int
    took: float

    def line(self) -> str:
        took = self.took / max(self.batches, 1)
        return (
            f"| {self.second / 60:.1f} | {self.jvm / 1e6:,.0f} | {self.python / 1e6:,.0f} | {self.rows:,} | "
            f"{self.bytes / 1e6:.1f} | {self.records:,} | {self.batches:,} | {took:.2f} |"
        )


HEAD = "| minute | JVM MB | Python MB | state rows | state MB | records | micro-batches | s each |\n" + "|---" * 8 + "|"


def write(folder: Path, number: int, rows: int, keys: int, seconds: float) -> None:
    """The files of both events for the next seconds of event time; each is there at once, whole."""
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


def memory(root: int) -> tuple[int, int]:
    """Bytes that a process and those below it hold: of Java, of all others."""
    output = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,rss=,comm="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 3) for line in output.stdout.splitlines()]
    below, java, others = {root}, 0, 0
    for _ in range(5):
        below |= {int(pid) for pid, parent, *_ in rows if int(parent) in below}
    for pid, _, size, name in rows:
        if int(pid) in below:
            java, others = (java + int(size), others) if "java" in name else (java, others + int(size))
    return java * 1024, others * 1024


def look(url: str, process: int, began: float) -> Look:
    """What there is to see now."""
    text = urllib.request.urlopen(url, timeout=30).read().decode()
    totals: dict[str, float] = {}
    for family in families(text):
        for sample in family.samples:
            totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return Look(
        time.monotonic() - began,
        *memory(process),
        int(totals["semcep_state_rows"]),
        int(totals["semcep_state_bytes"]),
        int(totals["semcep_records_total"]),
        int(totals["semcep_batch_seconds_count"]),
        totals["semcep_batch_seconds_sum"],
    )


def soak(folder: Path, minutes: float, rate: int, keys: int, every: float) -> Iterator[Look]:
    """Looks at a run of so many minutes, `rate` events a second, files each `every` seconds."""
    for event in "ab":
        (folder / "in" / event).mkdir(parents=True)
    (folder / "soak.cep").write_text(RULES)
    write(folder / "in", 0, int(rate * every), keys, every)
    inputs = [f"--input={event}={folder / 'in' / event}" for event in "ab"]
    places = [f"--output={folder / 'out'}", f"--checkpoint={folder / 'state'}", f"--lateness={LATENESS} s"]
    options = ["--on", "spark", "--follow", "--master", "local[2]", "--log", "json", "--metrics", "0"]
    command = [sys.executable, "-m", "cep", "run", str(folder / "soak.cep"), *inputs, *places, *options]
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(command, stderr=log)
    try:
        url = next(_urls(folder / "log", child))
        began = time.monotonic()
        number = 1
        noted = 0.0
        while (now := time.monotonic() - began) < minutes * 60:
            if child.poll() is not None:
                raise SystemExit(f"the run has ended with {child.returncode}: {(folder / 'log').read_text()[-2000:]}")
            if now >= number * every:
                write(folder / "in", number, int(rate * every), keys, every)
                number += 1
            elif now - noted >= 15:
                noted = now
                yield look(url, child.pid, began)
            else:
                time.sleep(min(1.0, number * every - now))
        yield look(url, child.pid, began)
        child.send_signal(signal.SIGTERM)
        status = child.wait(600)  # the micro-batch at hand is run to its end
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


def verdict(looks: list[Look], rate: int, every: float) -> Iterator[str]:
    """What is wrong."""
    thirds = [looks[len(looks) * n // 3 : len(looks) * (n + 1) // 3] for n in range(3)]
    for kind in ("jvm", "python"):
        second, last = (statistics.median(getattr(one, kind) for one in part) for part in thirds[1:])
        print(f"{kind}: {last / second - 1:+.1%} from the second third of the time to the last")
        if last > second * (1 + GROWTH):
            yield f"the memory of {kind} grows"
    if not any(one.batches for one in looks):
        yield "no micro-batch has ended: it takes more minutes"
        return
    slowest = max(one.took / one.batches for one in looks if one.batches)
    # Half of the events wait in the SEQ, in the UNLESS and in the window each, and all that are not due before them.
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
    for one in soak(folder, asked.minutes, asked.rate, asked.keys, asked.every):
        looks.append(one)
        print(one.line(), flush=True)
    wrong = list(verdict(looks, asked.rate, asked.every))
    shutil.rmtree(folder)
    if wrong:
        raise SystemExit("; ".join(wrong))


if __name__ == "__main__":
    main()
