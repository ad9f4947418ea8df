"""`cep demo blizzard --revise` against the run in order over what is true in the end."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from typer.testing import CliRunner

from cep import Engine
from cep.command import app
from cep.core.identity import ID
from cep.core.schema import CHANGE
from cep.demos.blizzard import REVISED, revising
from cep.demos.blizzard.arrivals import arrivals
from cep.demos.blizzard.register import STATIONS
from cep.knowledge.graph import Knowledge

pytestmark = pytest.mark.xdist_group("blizzard")

EVERY = [each for _, came in arrivals() for each in came]


def test_one_in_ten_readings_is_hours_late_and_some_are_put_right() -> None:
    readings = {(each.station, each.time) for each in EVERY}
    late = {(each.station, each.time) for each in EVERY if "late" in each.why}
    assert 0.07 < len(late) / len(readings) < 0.14
    assert all(1 <= (each.at - each.time) // 3_600_000_000 <= 5 for each in EVERY if "late" in each.why)
    assert sum(each.why == "was corrected" for each in EVERY) > 5
    assert [each.record["wind_speed"] for each in EVERY if each.why == "was withdrawn"] == [1048.36058]


def test_what_is_not_withdrawn_is_what_a_run_in_order_gives() -> None:
    engine = Engine.from_file(REVISED, revise=revising.WINDOW, knowledge=Knowledge.load(STATIONS))
    there: dict[str, Counter[tuple[object, ...]]] = {name: Counter() for name in engine.outputs}
    for _, came in arrivals():
        found = engine.push([each.record for each in came])
        for name, table in found.tables.items():
            for row in table.drop(ID).iter_rows(named=True):
                there[name][tuple(value for key, value in row.items() if key != CHANGE)] += row[CHANGE]
    true = {(each.station, each.time): each.record for each in EVERY}
    last = [record for _, record in sorted(true.items(), key=lambda one: one[0][1]) if "@change" not in record]
    order = Engine.from_file(REVISED, knowledge=Knowledge.load(STATIONS))
    first = order.push(last)
    rest = order.advance("2013-02-12T20:00:00Z")
    for name in engine.outputs:
        rows = pl.concat([first.tables[name], rest.tables[name]]).rows()
        assert +there[name] == Counter(rows) and min(there[name].values(), default=0) >= 0
    assert there["warning"] and there["cleared"]


def test_the_demo_says_what_is_told_no_more_and_which_reading_changed_it() -> None:
    lines = CliRunner().invoke(app, ["demo", "blizzard", "--revise"]).output.splitlines()
    assert max(map(len, lines)) <= 80
    rows = [" ".join(line.split()) for line in lines]
    assert "9 Feb 06:00 LGA all clear 21:00–06:00" in rows
    assert "9 Feb 08:00 LGA all clear withdrawn 21:00–06:00 04:00 came 4 h late" in rows
    assert "9 Feb 12:00 JFK blizzard withdrawn 03:00–09:00 09:00 was corrected" in rows
    assert "12 Feb 13:00 EWR gale withdrawn 08:00 08:00 was withdrawn" in rows


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--noaa"], "--noaa and --revise are two programs"),
        (["--fluents"], "--fluents and --revise are two programs"),
        (["--picture", "x.png"], "--picture does not go with --revise"),
        (["--output", "x.csv"], "--output does not go with --revise"),
    ],
)
def test_it_does_not_go_with_other_options(options: list[str], message: str) -> None:
    answer = CliRunner().invoke(app, ["demo", "blizzard", "--revise", *options])
    assert answer.exit_code == 2 and message in answer.output
