"""The blizzard demo with late and wrong readings: the messages sent at once, and their corrections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from cep.api import Engine
from cep.core.schema import CHANGE
from cep.demos.blizzard import REVISED
from cep.demos.blizzard.arrivals import Arrival, arrivals
from cep.demos.blizzard.register import STATIONS
from cep.demos.moments import clock, moment, ticks
from cep.demos.printed import rendered
from cep.demos.printed import table as empty
from cep.knowledge.graph import Knowledge

WINDOW = "12 h"
"""The time in which results may be revised. It is longer than the greatest delay of a reading."""
SHOWN = {"gale": "gale", "warning": "blizzard", "cleared": "all clear"}
"""The derived events of which people are notified, with their words. `settling` is only an intermediate step."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message about a station's weather in [start, end], or the withdrawal of one. `at`: the time at which it is
    sent. Times are in microseconds UTC. It also has the reading that caused it."""

    at: int
    name: str
    station: str
    start: int
    end: int
    withdrawn: bool
    because: str


def find() -> list[Message]:
    """Return the messages in the order in which the readings cause them."""
    engine = Engine.from_file(REVISED, revise=WINDOW, knowledge=Knowledge.load(STATIONS))
    messages: list[Message] = []
    for at, came in arrivals():
        found = engine.push([each.record for each in came])
        for name, word in SHOWN.items():
            for row in found[name].select("station", "start", "end", CHANGE).iter_rows():
                station, start, end = str(row[0]), ticks(row[1]), ticks(row[2])
                messages.append(Message(at, word, station, start, end, row[3] < 0, _because(came, station, start)))
    return messages


def _because(came: Sequence[Arrival], station: str, start: int) -> str:
    """Return the remarks about a station's readings since `start` that have just arrived."""
    told = [each for each in came if each.station == station and each.time >= start and each.why]
    return ", ".join(f"{clock(each.time)} {each.why}" for each in told)


def show() -> str:
    """Return what `cep demo blizzard --revise` prints."""
    messages = find()
    return rendered(lambda console: _print(console, messages))


def _print(console: Console, messages: Sequence[Message]) -> None:
    console.print(table(messages))
    came = [each for _, every in arrivals() for each in every]
    count = len({(each.station, each.time) for each in came})
    late, wrong = (sum(word in each.why for each in came) for word in (" late", "corrected"))
    console.print(f"The {count} readings are real, including the wind of 1048 mph. The delays ({late})", style="dim")
    console.print(f"and the first, wrong values of the visibility ({wrong}) are made up.", style="dim")


def table(messages: Sequence[Message]) -> Table:
    """Return a table with one row per message or withdrawal."""
    made = empty("Messages as the readings arrive, February 2013, UTC", "sent station message about reading")
    for each in messages:
        of = clock(each.start) if each.start == each.end else f"{clock(each.start)}–{clock(each.end)}"
        what = f"{each.name} withdrawn" if each.withdrawn else each.name
        made.add_row(moment(each.at), each.station, what, of, each.because, style="bold" if each.withdrawn else "")
    return made
