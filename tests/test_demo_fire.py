"""The fire demo: which observations are of wind depends on how far the ontology is used."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.demos.fire import demo

WT = "http://knoesis.wright.edu/ssw/ont/weather.owl#"

NAMED = [
    ("valley", "2", "Sundowner", 40, "2017-10-08 19:10", "2017-10-08 21:43"),
    ("valley", "1", "Diablo", 60, "2017-10-08 21:43", "2017-10-08 23:00"),
    ("ridge", "1", "Diablo", 60, "2017-10-08 23:00", "2017-10-08 23:40"),
]
INFERRED = ("ridge", "5", "WindSpeedObservation", 25, "2017-10-08 23:40", "2017-10-09 02:30")


@pytest.mark.parametrize(("reasoning", "expected"), [("none", []), ("rdfs", NAMED), ("owlrl", [*NAMED, INFERRED])])
def test_fires_with_wind(reasoning: str, expected: list[tuple[object, ...]]) -> None:
    """Without reasoning a Diablo is a Diablo; RDFS knows the classes above it; OWL what observes the wind speed."""
    derived = demo.find(reasoning).derived
    rows = derived["enhanced_fire"].rows(named=True) if "enhanced_fire" in derived else []
    actual = [
        (
            row["fire"],
            row["observation"].removeprefix("urn:semcep:observation:"),
            row["kind"].removeprefix(WT),
            row["speed"],
            moment(row["start"]),
            moment(row["end"]),
        )
        for row in rows
    ]
    assert actual == expected


def moment(ticks: int) -> str:

    return f"{datetime.fromtimestamp(ticks / 1e6, UTC):%Y-%m-%d %H:%M}"


def test_what_it_prints() -> None:
    result = CliRunner().invoke(app, ["demo", "fire"])
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[4:8] == [
        "valley Sundowner 2 40 8 Oct 19:10 8 Oct 21:43",
        "valley Diablo 1 60 8 Oct 21:43 8 Oct 23:00",
        "ridge Diablo 1 60 8 Oct 23:00 8 Oct 23:40",
        "ridge WindSpeedObservation 5 25 8 Oct 23:40 9 Oct 02:30",
    ]
    assert "8 records, 4 derived events: enhanced_fire 4" in result.output
