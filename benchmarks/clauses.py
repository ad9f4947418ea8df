"""Reading of files in dialects: facts of DatalogMTL and lines of RTEC, in CPU seconds on one core.

`python -m benchmarks.clauses` reads 400 thousand plain lines as columns. It also reads a tenth as many lines with
quotes or blanks, which are parsed one by one.
"""

from __future__ import annotations

import os
import random
from time import process_time

os.environ.setdefault("POLARS_MAX_THREADS", "1")

from cep.connectors.formats.clauses import ClauseReader
from cep.engine import Engine

LINES = 400_000
FACTS = "Often(Z) :- Diamondminus[0,2]Signal(Z)\nFlag(X,Z) :- Monit(X,Z), Often(Z)\n"
RTEC = """initiatedAt(rich(X)=true, T) :- happensAt(wins(X, N), T), N > 2.
terminatedAt(rich(X)=true, T) :- happensAt(loses(X), T), holdsAt(near(X, _)=true, T).
collectIntervals(near(X, Y)=true).
"""


def facts(rng: random.Random, plain: bool) -> bytes:
    """Return facts. Two of three hold over an interval."""
    mark = "" if plain else '"'
    lines = [
        f"Monit(n{rng.randrange(99)},{mark}s{rng.randrange(999)}{mark})@[{i / 10},{i / 10 + 2})"
        if i % 3
        else f"Signal({mark}s{rng.randrange(999)}{mark})@{i / 10}"
        for i in range(LINES if plain else LINES // 10)
    ]
    return "\n".join(lines).encode()


def rows(rng: random.Random, plain: bool) -> bytes:
    """Return lines of RTEC. Two of three are events."""
    bar = "|" if plain else " | "
    lines = [
        bar.join(("wins", str(i), str(i), f"p{rng.randrange(999)}", str(rng.randrange(9))))
        if i % 3
        else bar.join(("near", str(i), str(i), str(i + 5), "true", f"p{rng.randrange(99)}", f"q{rng.randrange(99)}"))
        for i in range(LINES if plain else LINES // 10)
    ]
    return "\n".join(lines).encode()


def main() -> None:
    for format, text, dialect, make in (("facts", FACTS, "datalogmtl", facts), ("rtec", RTEC, "rtec", rows)):
        reader = ClauseReader(Engine.from_text(text, dialect=dialect).inputs, format)
        for plain in (True, False):
            data = make(random.Random(1), plain)
            best = 0.0
            for _ in range(3):
                since = process_time()
                tables, dead, _ = reader.read("f", data, 0, 1, 0)
                best = max(best, sum(table.height for table in tables.values()) / (process_time() - since))
                assert not dead, "all is read"
            print(f"{format:6} {'as columns' if plain else 'one by one'}  {best / 1e3:8,.0f} thousand lines a second")


if __name__ == "__main__":
    main()
