"""`python -m benchmarks.first`: the overhead of commands in CPU seconds, compared with a baseline that the table names.

- The first run over a CSV file of a user who has compiled and cached nothing (`first`), and a second run. In a third
  run, numba compiles every kernel (`compiled`), as in an installation whose package has no compiled kernels for the
  processor.
- `cep check`, compared with a process that imports numba and polars.
- 30,000 unreadable records of JSON Lines, all refused for the same reason, compared with as many valid ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from benchmarks.report import parser, publish
from benchmarks.workloads import workloads

JOB, KEYS, UNREADABLE = "seq2 recent", 100, 30_000
RULES = "event reading(room: string, temp: float) TIME time.\nhot(R, T) <- reading(R, T) WHERE T > 70.\n"
RECORD = '{{"time": "2024-05-01T08:{0:02}:00Z", "room": "r{0}", "temp": {1}}}\n'
FAULTS = {"of a wrong type": '"x"', "without a value": "null", "with an unclosed quote": '"'}


def cpu(*command: str, **environment: str) -> float:
    """Return the CPU seconds of a process."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        [sys.executable, *command], env=environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    return used.ru_utime + used.ru_stime


def runs(events: int, folder: Path) -> Iterator[str]:
    """Measure the first, second and compiling run over a CSV file."""
    rules = folder / "rules.cep"
    rules.write_text(workloads[JOB].program(KEYS))
    command = ["-m", "cep", "run", str(rules), "--output", str(folder / "out.csv")]
    for event, table in workloads[JOB].stream(events, KEYS).tables.items():
        path = folder / f"{event}.csv"
        table.select(pl.col("start").cast(pl.Datetime("us")).alias("t"), pl.exclude("start", "end")).write_csv(path)
        command += ["--input", f"{event}={path}"]
    home = {"XDG_CACHE_HOME": str(folder / "cache")}
    first, second = cpu(*command, **home), cpu(*command, **home)
    compiled = cpu(*command, **home, NUMBA_CACHE_DIR=str(folder / "kernels"), NUMBA_OPT="2")
    yield row(
        f"the first run over {events:,} rows of CSV, `a SEQ b`, recent", first, "the second run", second, "1.3 times"
    )
    yield row("the same where numba compiles the kernels", compiled, "the second run", second, "")


def checks(folder: Path) -> Iterator[str]:
    """Measure `cep check`."""
    rules = folder / "rules.cep"
    rules.write_text(RULES)
    command = ("-m", "cep", "check", str(rules))
    cpu(*command)
    took = min(cpu(*command) for _ in range(5))
    baseline = min(cpu("-c", "import numba, polars") for _ in range(5))
    yield row("`cep check`", took, "importing numba and polars", baseline, "0.5 s")


def refusals(folder: Path) -> Iterator[str]:
    """Measure unreadable records."""
    rules, path = folder / "rules.cep", folder / "in.jsonl"
    rules.write_text(RULES)
    took = {}
    for name, value in {"good": "8.5", **FAULTS}.items():
        path.write_text("".join(RECORD.format(number % 60, value) for number in range(UNREADABLE)))
        command = ("-m", "cep", "run", str(rules), "--input", f"reading={path}")
        command += ("--dead-letter", str(folder / "dead.jsonl"), "--output", str(folder / "out.jsonl"))
        took[name] = min(cpu(*command) for _ in range(2))
    for name in FAULTS:
        yield row(f"{UNREADABLE:,} records of JSON, {name}", took[name], "as many good ones", took["good"], "2 times")


def row(name: str, seconds: float, other: str, compared: float, aim: str) -> str:
    """Return a row of the table."""
    return f"| {name} | {seconds:.2f} | {other} | {compared:.2f} | {seconds / compared:.2f} | {aim} |"


def lines(events: int, folder: Path) -> Iterator[str]:
    """Yield the table."""
    yield "| command | takes | compared with | takes | ratio | aim |"
    yield "| --- | --: | --- | --: | --: | --: |"
    yield from runs(events, folder)
    yield from checks(folder)
    yield from refusals(folder)


def main() -> None:
    options = parser("benchmarks.first", __doc__)
    options.add_argument("--events", type=int, default=1_000_000)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        publish("commands", "python -m benchmarks.first", lines(asked.events, Path(name)), asked.write)


if __name__ == "__main__":
    main()
