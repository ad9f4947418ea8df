"""`python -m benchmarks.spark_start`: the time from the command `cep run --on spark` to the first derived event.

The table has, for each run, the seconds to the first committed file and to the end, and the seconds of a core of all
its processes, including Java. The first run of an installation compiles kernels, and is ignored.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from benchmarks.spark import busy

RULES = """event reading(station: string, temperature: float) TIME time.
rise(S) <- (reading(S, T) SEQ reading(S, U)) WITHIN 1 min WHERE U > T + 5.
"""
READINGS = 3_000
LOOKS = 0.02  # seconds between two looks at the output
EACH = 25  # one in this many looks also examines all processes


def begun(folder: Path) -> tuple[float, float, float]:
    """Run once in an empty folder. Return the seconds to the first file and to the end, and the seconds of a core."""
    (folder / "rules.cep").write_text(RULES)
    (folder / "in").mkdir()
    lines = [
        json.dumps({"type": "reading", "station": f"S{n % 10}", "temperature": n * 7 % 20, "time": 1_700_000_000 + n})
        for n in range(READINGS)
    ]
    (folder / "in" / "readings.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-m", "cep", "run", "rules.cep", "--on", "spark", "--once", "--lateness", "10s"]
    command += ["--master", "local[2]", "--input", "in", "--output", "out", "--checkpoint", "state"]
    before, start = busy(), time.perf_counter()
    run = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    first, cpu = None, 0.0
    for look in count():
        if run.poll() is not None:
            break
        if first is None and any((folder / "out").glob("part-*")):
            first = time.perf_counter() - start
        if look % EACH == 0:
            cpu = max(cpu, busy() - before)  # ended processes that nobody waited for are no longer visible
        time.sleep(LOOKS)
    _, said = run.communicate()
    if run.returncode or first is None:
        sys.exit(said.decode())
    return first, time.perf_counter() - start, cpu


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_start", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    print("| run | first result, s | end, s | cpu, s |")
    print("|--:|--:|--:|--:|")
    for number in range(asked.runs + 1):
        with tempfile.TemporaryDirectory() as folder:
            first, end, cpu = begun(Path(folder))
        if number:
            print(f"| {number} | {first:.1f} | {end:.1f} | {cpu:.1f} |", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    main()
