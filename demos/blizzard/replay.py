"""The first storm of 2013 again, an hour of readings a second: `python -m demos.blizzard.replay | cep serve ...`."""

from __future__ import annotations

import csv
import select
import sys
import time
from collections.abc import Iterator

from demos.run import weather

FROM, UNTIL = "2013-02-08T12:00:00Z", "2013-02-09T08:00:00Z"
"""As the file writes times: texts of one length, which sort as they are."""
PACE = 1.0
"""Seconds between two hours."""


def hours() -> Iterator[str]:
    """Lines of the header, then of each hour's readings."""
    with open(weather(), encoding="utf-8", newline="") as file:
        head, *rows = file.read().splitlines()
    place = next(csv.reader([head])).index("time_hour")
    yield head + "\n"
    found: dict[str, list[str]] = {}
    for row in rows:
        when = next(csv.reader([row]))[place]
        if FROM <= when <= UNTIL:
            found.setdefault(when, []).append(row + "\n")
    for when in sorted(found):
        yield "".join(found[when])


def main() -> None:
    """Write them, and then nothing more: the input stays open, and so do the alerts, until Ctrl-C."""
    try:
        for lines in hours():
            sys.stdout.write(lines)
            sys.stdout.flush()
            time.sleep(PACE)
        reader = select.poll()
        reader.register(sys.stdout, 0)
        while not reader.poll(PACE * 1000):  # it tells when who reads has gone
            pass
    except (BrokenPipeError, KeyboardInterrupt):
        sys.stderr.close()


if __name__ == "__main__":
    main()
