"""How fast the machine is at the moment: what others do on it makes a virtual one half as fast for a while."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

WORK = 1_000_000
"""How many numbers are added up to see it: some hundredths of a second."""
PAUSE = 0.25
"""Seconds between two pieces of work that are done beside what is measured."""
USUAL = 0.05
"""Seconds of a core in which a usual one does that."""


def work() -> tuple[float, float]:
    """The seconds that a fixed piece of work takes now: by the clock, and of a core."""
    began, before = time.perf_counter(), time.thread_time()
    sum(range(WORK))
    return time.perf_counter() - began, time.thread_time() - before


@dataclass(slots=True)
class Pace:
    """How many pieces of work were done between others that are measured, and the seconds of a core that they took."""

    pieces: int = 0
    seconds: float = 0.0

    @classmethod
    def read(cls, file: Path) -> Pace:
        """How far it has come beside."""
        return cls(*json.loads(file.read_text()))

    def look(self) -> None:
        """Do one more."""
        self.seconds += work()[1]
        self.pieces += 1

    def usual(self, seconds: float, before: Pace | None = None) -> float:
        """What would have taken so many seconds of a usual core, measured since `before`."""
        pieces, took = self.pieces - (before.pieces if before else 0), self.seconds - (before.seconds if before else 0)
        return seconds * USUAL * pieces / took if took else seconds


@contextmanager
def beside() -> Iterator[Path]:
    """Pieces of work in a process of its own while the block runs: what they come to is in the file (`Pace.read`)."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pace"
        file.write_text("[0, 0]")
        process = subprocess.Popen([sys.executable, __file__, str(file)])
        try:
            yield file
        finally:
            process.kill()
            process.wait()


def _keep_looking(file: Path) -> None:
    pace = Pace()
    while True:
        pace.look()
        written = file.with_suffix(".new")
        written.write_text(json.dumps([pace.pieces, pace.seconds]))
        written.replace(file)
        time.sleep(PAUSE)


if __name__ == "__main__":
    _keep_looking(Path(sys.argv[1]))
