"""The tuning demo against labels and hits worked out by hand, and its choice against a run of its own."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.demos.run import weather
from cep.demos.tuning import demo, incidents

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def tuning(tmp_path_factory: pytest.TempPathFactory) -> demo.Tuning:
    return demo.tune(tmp_path_factory.mktemp("labels") / "labels.csv")


def spells() -> list[tuple[str, datetime, datetime, int]]:
    """Runs of hours in which three of ten departures were cancelled, from the file alone."""
    hours: dict[tuple[str, datetime], list[bool]] = defaultdict(list)
    with zipfile.ZipFile(weather().with_name("flights.csv.zip")) as packed, packed.open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, "utf-8")):
            time = datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00"))
            hours[row["origin"], time].append(row["dep_time"] in ("", "NA"))
    found = []
    for station in sorted({each for each, _ in hours}):
        bad = sorted(
            time
            for (place, time), cancelled in hours.items()
            if place == station and len(cancelled) >= 8 and 10 * sum(cancelled) >= 3 * len(cancelled)
            if time.month in (12, 1, 2, 3)
        )
        runs: list[list[datetime]] = []
        for time in bad:
            if runs and time - runs[-1][-1] <= 12 * HOUR:
                runs[-1].append(time)
            else:
                runs.append([time])
        for run in runs:
            if len(run) >= 3:
                lost = sum(sum(hours[station, time]) for time in run)
                found.append((station, run[0], run[-1] + HOUR, lost))
    return sorted(found, key=lambda each: (each[1], each[0]))


def test_the_labels_are_those_of_the_flights(tuning: demo.Tuning) -> None:
    made = tuning.labels.select("station", "start", "end", "cancelled").rows()
    assert [(s, a.replace(tzinfo=UTC), b.replace(tzinfo=UTC), c) for s, a, b, c in made] == spells()
    assert len(made) == 13


def test_the_points_are_all_and_the_chosen_one_is_the_best(tuning: demo.Tuning) -> None:
    result = tuning.result
    assert len(result.points) == len(set(result.points)) == 7 * 7 * 7
    judged = [parts.before for parts in result.parts]
    allowed = [each for each in judged if each is not None and (each.precision or 0) >= 0.8]
    best = judged[tuning.chosen]
    assert best in allowed and best is not None
    assert best.hit == max(each.hit for each in allowed) == 5
    assert best.load == min(each.load or 0 for each in allowed if each.hit == 5)
    own = judged[tuning.default]
    assert own is not None and (own.hit, own.episodes) == (4, 5) and (best.hit, best.episodes) == (5, 5)


def test_what_is_found_agrees_with_the_figures(tuning: demo.Tuning) -> None:
    for point in (tuning.default, tuning.chosen, 0, len(tuning.result.points) - 1):
        assert sum(tuning.found(point)) == tuning.result.parts[point].whole.hit


def test_the_chosen_point_alone_has_the_same_figures(tuning: demo.Tuning, tmp_path: Path) -> None:
    """By the command, over the labels that the demo writes."""
    labels = tmp_path / "labels.csv"
    incidents.write(labels)
    values = zip(tuning.result.axes, tuning.result.points[tuning.chosen])
    params = [f"--param={axis.parameter.name}={axis.parameter.written(value)}" for axis, value in values]
    command = ["backtest", str(demo.PROGRAM), "--input", f"reading={weather()}", "--labels", str(labels)]
    command += ["--detect", "warning", "--key", "station", "--merge", "6h", "--before", demo.BEFORE, "--json"]
    printed = CliRunner().invoke(app, [*command, *params])
    assert printed.exit_code == 0, printed.output
    (point,) = json.loads(printed.stdout)["points"]
    whole = tuning.result.parts[tuning.chosen].whole
    figures = point.get("all", point)
    assert (figures["hit"], figures["episodes"]) == (whole.hit, whole.episodes)


def test_the_command_prints_tables_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    picture, labels = tmp_path / "a" / "limits.svg", tmp_path / "labels.csv"
    result = CliRunner().invoke(app, ["demo", "tuning", "--picture", str(picture), "--labels", str(labels)])
    assert result.exit_code == 0, result.output
    assert "8 Feb 16:00   JFK         28        243  warned      warned" in result.stdout
    assert "Chosen: Wind 10, Sight 1.0, Patience 2 h." in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "chosen: Wind 10, Sight 1.0, Patience 2 h" in picture.read_text() and labels.read_text().startswith(
        "start,end,station"
    )
    assert len(labels.read_text().splitlines()) == 14
