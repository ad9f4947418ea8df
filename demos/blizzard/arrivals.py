"""Readings of February 2013 in a simulated order of arrival: a tenth of them are hours late, some are corrected, and
one is withdrawn.

The readings are real. A hash of station and time decides which ones are late or wrong, always in the same way.
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
"""The first and last reading: from before the first storm until after the reading with an impossible wind."""
STRONGEST = 250.0
"""The strongest plausible wind in miles per hour. Quality control withdraws readings above it."""
SEED = 16
"""The seed of the hash: the first one for which late readings both add and withdraw warnings."""
LATE, SLIPPED = 10, 25
"""The share of readings that are late is 1 / LATE. The share of readings that first arrive with a tenth of their
visibility, and are corrected later, is 1 / SLIPPED."""
LONGEST, CORRECTED, CHECKED = 5, 3, 5
"""The greatest delay of a reading, the delay until a visibility is corrected, and the delay until quality control
withdraws a reading, in hours."""
Record = dict[str, object]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record of a reading at `time` that arrives at `at` (microseconds UTC). `why`: a remark about a late or
    corrected reading."""

    at: int
    time: int
    station: str
    record: Record
    why: str = ""


def arrivals() -> Iterator[tuple[int, list[Arrival]]]:
    """Yield the arrivals hour by hour (microseconds UTC), in the order of the file."""
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
