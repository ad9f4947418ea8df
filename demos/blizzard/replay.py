"""Replay the first storm of 2013, one hour of readings per second: `python -m cep.demos.blizzard.replay | cep serve
...`.

The replay starts when the server reads, and ends after the storm's last alert is over. With `--late`, the records are
those of `cep.demos.blizzard.arrivals`, as JSON Lines: some late, some corrected, one withdrawn.
"""

from __future__ import annotations

import csv
import json
import select
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import suppress

from cep.demos.blizzard.arrivals import arrivals
from cep.demos.run import weather

FROM, HEIGHT, UNTIL = "2013-02-08T12:00:00Z", "2013-02-09T08:00:00Z", "2013-02-09T18:00:00Z"
"""FROM: a time before the storm. HEIGHT: the time of the storm's last warning, when all its alerts are open. UNTIL: a
time when all its alerts are over.

They have the format of the file, so that they can be compared as text.
"""
PACE = 1.0
"""The time in seconds between two hours of readings."""
OVER = "the storm and its alerts are over; Ctrl-C stops the server, `make serve` replays the storm"


def hours(until: str = UNTIL) -> Iterator[str]:
    """Yield the header line, then the lines of each hour's readings."""
    with open(weather(), encoding="utf-8", newline="") as file:
        head, *rows = file.read().splitlines()
    place = next(csv.reader([head])).index("time_hour")
    yield head + "\n"
    found: dict[str, list[str]] = {}
    for row in rows:
        when = next(csv.reader([row]))[place]
        if FROM <= when <= until:
            found.setdefault(when, []).append(row + "\n")
    for when in sorted(found):
        yield "".join(found[when])


def late() -> Iterator[str]:
    """Yield an empty line, then the lines of the records that arrive in each hour."""
    yield "\n"
    for _, came in arrivals():
        yield "".join(json.dumps(each.record) + "\n" for each in came)


def main() -> None:
    """Write the readings, and finally a message. After the header, wait until the server reads from the pipe, so that
    it receives all hours."""
    try:
        is_late = "--late" in sys.argv[1:]
        for number, lines in enumerate(late() if is_late else hours()):
            sys.stdout.write(lines)
            sys.stdout.flush()
            if number == 0:
                _await_reader()
            time.sleep(PACE)
        sys.stdout.close()
        print(OVER.replace("serve", "serve-late") if is_late else OVER, file=sys.stderr)
    except (BrokenPipeError, KeyboardInterrupt):
        sys.stderr.close()


def _await_reader() -> None:
    """Wait until the pipe is empty or its reader has gone. Return at once if the system cannot tell."""
    with suppress(ImportError, OSError):
        import fcntl
        import termios

        left, gone = array("i", [0]), select.poll()
        gone.register(sys.stdout, 0)
        while not gone.poll(50):
            fcntl.ioctl(sys.stdout, termios.FIONREAD, left)
            if not left[0]:
                break


if __name__ == "__main__":
    main()
