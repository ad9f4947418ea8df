"""Readings of February 2013 as they may have come in: a tenth of them hours late, some put right, one withdrawn.

The readings are real; which of them come late or wrong is made up: a hash of station and time decides, always alike.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from cep.connectors.records.times import of_text
from cep.demos.blizzard.storms import HOUR
from cep.demos.run import weather

FROM, UNTIL = "2013-02-08T12:00:00Z", "2013-02-12T20:00:00Z"
"""From before the first storm until after the reading that no wind can have."""
STRONGEST = 250.0
"""Miles an hour; quality control finds what is more."""
SEED = 16
"""Of the hash: the first with which late readings both give and take warnings."""
LATE, SLIPPED = 10, 25
"""One in so many comes late; one in so many has its visibility written a tenth of what it is, at first."""
LONGEST, CORRECTED, CHECKED = 5, 3, 5
"""Hours that a reading is late at most, until a visibility is put right, and until quality control withdraws one."""
Record = dict[str, object]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record of a reading at `time` that comes at `at` (microseconds UTC); `why`: what there is to say of that."""

    at: int
    time: int
    station: str
    record: Record
    why: str = ""


def arrivals() -> Iterator[tuple[int, list[Arrival]]]:
    """Hour by hour (microseconds UTC) what comes in it, in the order of the file."""
    found = list(_all())
    for at in sorted({each.at for each in found}):
        yield at, [each for each in found if each.at == at]


def _all() -> Iterator[Arrival]:
    with open(weather(), encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if FROM <= row["time_hour"] <= UNTIL]
    for row in rows:
        station, time = row["origin"], of_text(row["time_hour"], None)
        record: Record = {"time_hour": row["time_hour"], "origin": station}
        record |= {name: float(row[name]) for name in ("wind_speed", "visib", "temp") if row[name]}
        chance = crc32(f"{station} {row['time_hour']}".encode(), SEED)
        hours = 1 + chance // LATE % LONGEST if chance % LATE == 0 else 0
        at, why = time + hours * HOUR, f"came {hours} h late" if hours else ""
        if chance % SLIPPED == 1 and "visib" in record:
            yield Arrival(at, time, station, record | {"visib": float(row["visib"]) / 10}, why)
            at, why = at + CORRECTED * HOUR, "was corrected"
        yield Arrival(at, time, station, record, why)
        if float(row["wind_speed"] or 0) > STRONGEST:
            yield Arrival(at + CHECKED * HOUR, time, station, record | {"@change": "withdraw"}, "was withdrawn")
