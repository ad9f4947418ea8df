"""`cep demo blizzard --fluents` against the same times worked out by hand, hour by hour."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from cep.command import app
from cep.demos.blizzard import lasting
from cep.demos.blizzard.register import Register
from cep.demos.blizzard.storms import HOUR
from tests.test_demo_blizzard import AIRPORTS, by_hand, hour, metres, places

pytestmark = pytest.mark.xdist_group("blizzard")

GOES_ON = 3  # hours after the last settling reading


@pytest.fixture(scope="module")
def seen() -> lasting.Lasting:
    return lasting.find(Register.of_packages())


def on_by_hand() -> dict[str, list[tuple[int, int]]]:
    """When a storm is on at each station, in hours, from just after the first until and with the second."""
    settling, _ = by_hand(15, 2, 34)
    warned = {(one.station, one.end) for one in settling if one.readings >= 4 and one.end - one.start >= 3}
    on: dict[str, list[tuple[int, int]]] = {}
    for station, end in sorted({(one.station, one.end) for one in settling}):
        own = on.setdefault(station, [])
        if own and end <= own[-1][1]:
            own[-1] = (own[-1][0], end + GOES_ON)
        elif (station, end) in warned:
            own.append((end, end + GOES_ON))
    return on


def hours(on: list[tuple[int, int]]) -> set[int]:
    """The hours in which it is on, each by its end."""
    return {at for start, end in on for at in range(start + 1, end + 1)}


def test_storms_are_on_as_by_hand(seen: lasting.Lasting) -> None:
    rows = seen.found.derived["storm"].select("station", "start", "end", "bounds").rows()
    expected = [(name, start * HOUR, end * HOUR, "(]") for name, each in on_by_hand().items() for start, end in each]
    assert sorted(rows) == sorted(expected)
    assert ("EWR", hour("2013-02-09 04:00") * HOUR, hour("2013-02-09 10:00") * HOUR, "(]") in rows and len(rows) == 8


def test_so_many_stations_at_once_are_as_by_hand(seen: lasting.Lasting) -> None:
    each = [hours(on) for on in on_by_hand().values()]
    counted = {at: sum(at in on for on in each) for at in set().union(*each)}
    found: dict[int, int] = {}
    for start, end, stations, bounds in seen.found.derived["area"].select("start", "end", "stations", "bounds").rows():
        assert bounds == "(]" and not found.keys() & hours([(start // HOUR, end // HOUR)])
        found |= dict.fromkeys(hours([(start // HOUR, end // HOUR)]), stations)
    assert found == counted


def test_places_are_struck_as_by_hand(seen: lasting.Lasting) -> None:
    on = {station: hours(each) for station, each in on_by_hand().items()}
    expected = {}
    for iri, _, _, point in places():
        if abs(point[0] - 40.7) < 1:
            near = [own for station, own in on.items() if metres(AIRPORTS[station], point) <= 40_000]
            if near:
                expected[iri] = set().union(*near)
    found: dict[str, set[int]] = {}
    rows = seen.found.derived["struck"].select("place", "start", "end").sort("start").rows()
    last: dict[str, int] = {}
    for place, start, end in rows:
        assert start > last.get(place, 0), "times that touch are one"
        last[place] = end
        found.setdefault(place, set()).update(hours([(start // HOUR, end // HOUR)]))
    assert found == expected


def test_it_prints_draws_and_writes(tmp_path: Path) -> None:
    picture, output = tmp_path / "pictures" / "on.png", tmp_path / "on.jsonl"
    command = ["demo", "blizzard", "--fluents", "--picture", str(picture), "--output", str(output)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "JFK      14 Dec 20:00  15 Dec 04:00      8  22 mph  1.25 mi" in result.output
    assert re.search(r"14–15 December +20:00 +21:00 +1 +\n +21:00 +00:00 +2 +\n +00:00 +04:00 +3 +\n", result.output)
    assert "Edison              34  04:00–10:00            –     00:00–05:00" in result.output
    assert max(map(len, result.output[: result.output.index("Airport data")].splitlines())) <= 80
    types = [json.loads(line)["type"] for line in output.read_text().splitlines()]
    assert (types.count("storm"), types.count("area"), types.count("struck")) == (8, 12, 743)
    with Image.open(picture) as image:
        assert image.size == (1600, 1026)


@pytest.mark.parametrize(
    ("option", "message"), [("--noaa", "--fluents and --noaa are two programs"), ("--map", "--map draws the areas")]
)
def test_what_fluents_have_not_is_refused(option: str, message: str, tmp_path: Path) -> None:
    more = [str(tmp_path / "areas.png")] if option == "--map" else []
    result = CliRunner().invoke(app, ["demo", "blizzard", "--fluents", option, *more])
    assert result.exit_code == 2
    assert message in result.output


def test_its_storms_are_those_of_the_small_program() -> None:
    def rules(name: str) -> str:
        text = lasting.LASTING.with_name(name).read_text(encoding="utf-8")
        return text[text.index("settling(S, 1)") : text.index("duration() >= 3 h.")]

    assert rules("on.cep") == rules("blizzard.cep")
