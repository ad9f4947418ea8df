"""What `cep run` writes of fluents: their intervals, cut with --from and --until, and with --changes their ends."""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.core.errors import CepError
from cep.engine import Engine, holds
from cep.events import Held
from tests import reference_fluents as reference
from tests.long import seeds
from tests.test_fluents import as_events, expected, random_model, random_records

PROGRAM = """event velocity(vessel: string, speed: float) TIME time.
fluent moving(vessel: string).
fluent mode(vessel: string) = kind: string.
initially mode(v9) = off.
initiate moving(V) <- velocity(V, S) WHERE S > 0.5.
terminate moving(V) <- velocity(V, S) WHERE S <= 0.5.
initiate mode(V) = fast <- velocity(V, S) WHERE S > 5.
initiate mode(V) = slow <- velocity(V, S) WHERE S <= 5.
quick(V) <- velocity(V, S) WHERE S > 5.
"""
RECORDS = "time,vessel,speed\n1,v1,3\n2,v2,9\n5,v1,0.1\n6,v2,3\n7,v9,3\n"


def run(folder: Path, *options: str) -> str:
    (folder / "p.cep").write_text(PROGRAM)
    (folder / "v.csv").write_text(RECORDS)
    result = CliRunner().invoke(app, ["run", str(folder / "p.cep"), "-i", f"velocity={folder / 'v.csv'}", *options])
    assert result.exit_code == 0, result.output
    assert "writes no fluent" not in result.stderr
    return result.stdout


@pytest.mark.parametrize("asked", [["--changes"], ["--output-mode", "changes"]])
def test_changes_are_of_fluents_alone(tmp_path: Path, asked: list[str]) -> None:
    (tmp_path / "p.cep").write_text(PROGRAM)
    (tmp_path / "v.csv").write_text(RECORDS)
    given = ["run", str(tmp_path / "p.cep"), "-i", f"velocity={tmp_path / 'v.csv'}", "--only", "quick", *asked]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0 and "--changes has no effect: the program writes no fluent" in result.stderr


def test_changes_are_written_as_they_become_known(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in run(tmp_path, "--changes", "--only", "mode").splitlines()]
    assert rows[0] == {
        "type": "mode", "@edge": "begins", "time": None, "vessel": "v9", "kind": "off", "bounds": "("
    }  # fmt: skip
    assert [(row["@edge"], row["time"], row["vessel"], row["kind"], row["bounds"]) for row in rows[1:]] == [
        ("begins", 1, "v1", "slow", "("),
        ("begins", 2, "v2", "fast", "("),
        ("ends", 6, "v2", "fast", "]"),
        ("begins", 6, "v2", "slow", "("),
        ("ends", 7, "v9", "off", "]"),
        ("begins", 7, "v9", "slow", "("),
    ]


@pytest.mark.parametrize("seed", seeds(25))
def test_changes_are_the_ends_of_the_intervals(seed: int) -> None:
    rng = random.Random(5000 + seed)
    model = random_model(rng)
    records = random_records(rng)
    intervals, _ = expected(model, records)
    engine = Engine.from_text(reference.text(model), lateness=0, changes=True)
    tables: dict[str, list[pl.DataFrame]] = {}
    rest = as_events(records)
    while rest:
        count = rng.randint(1, 9)
        for name, table in engine.push(rest[:count]).items():
            tables.setdefault(name, []).append(table)
        rest = rest[count:]
        if rng.random() < 0.3:
            engine = Engine.from_text(reference.text(model), lateness=0, changes=True).restore(engine.snapshot())
    for name, table in engine.close().items():
        tables.setdefault(name, []).append(table)
    found: list[Held] = []
    for name, several in tables.items():
        open_: dict[tuple, int | None] = {}
        for row in pl.concat(several).to_dicts() if name in model.fluents else ():
            edge, time, bounds = row.pop("@edge"), row.pop("time"), row.pop("bounds")
            key = tuple(row.values())
            if edge == "begins":
                assert key not in open_ and bounds == "("
                open_[key] = time
            else:
                found.append(Held(name, key, open_.pop(key), time, "(" + bounds))
        found += [Held(name, key, since, None, "()") for key, since in open_.items()]
    assert sorted(found, key=lambda h: (h.type, h.args, -1 if h.start is None else h.start)) == intervals


def test_intervals_are_cut_and_events_chosen_by_their_end(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in run(tmp_path, "--from", "3", "--until", "6").splitlines()]
    assert {(row["type"], row["vessel"], row["start"], row["end"], row["bounds"]) for row in rows} == {
        ("moving", "v1", 3, 5, "[]"),
        ("moving", "v2", 3, 6, "[]"),
        ("mode", "v1", 3, 6, "[]"),
        ("mode", "v2", 3, 6, "[]"),
        ("mode", "v9", 3, 6, "[]"),
    }
    late = [json.loads(line) for line in run(tmp_path, "--from", "1970-01-01T00:00:06").splitlines()]
    assert ("v2", 6, None, "()") in {(row["vessel"], row["start"], row["end"], row["bounds"]) for row in late}
    assert not any(row["type"] == "quick" for row in late)


def test_csv_and_parquet_have_the_bounds(tmp_path: Path) -> None:
    run(tmp_path, "-o", f"{tmp_path}/out.csv")
    assert (tmp_path / "out.moving.csv").read_text() == (
        "start,end,vessel,bounds\n1,5,v1,(]\n2,,v2,()\n7,,v9,()\n"
    )  # fmt: skip
    run(tmp_path, "-o", f"{tmp_path}/changed.csv", "--changes", "--only", "moving")
    assert (tmp_path / "changed.csv").read_text().splitlines()[:3] == [
        "@edge,time,vessel,bounds", "begins,1,v1,(", "begins,2,v2,("
    ]  # fmt: skip
    run(tmp_path, "-o", f"{tmp_path}/out.parquet", "--only", "mode", "--until", "2")
    assert pl.read_parquet(tmp_path / "out.parquet").select("vessel", "kind", "bounds").rows() == [
        ("v9", "off", "(]"), ("v1", "slow", "(]")
    ]  # fmt: skip
    run(tmp_path, "-o", f"{tmp_path}/changes.parquet", "--only", "mode", "--changes")
    table = pl.read_parquet(tmp_path / "changes.parquet")
    assert table.columns == ["@edge", "time", "vessel", "kind", "bounds"]
    assert table["time"].dtype == pl.Datetime("us", "UTC") and table["time"].null_count() == 1


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "p.cep").write_text(PROGRAM)
    (tmp_path / "v.csv").write_text(RECORDS)
    for options, message in (
        (["--from", "6", "--until", "3"], "`3` is before --from"),
        (["--from", "soon"], "--from:"),
        (["--changes", "--until", "3"], "--from and --until cannot clip intervals"),
    ):
        result = CliRunner().invoke(
            app, ["run", str(tmp_path / "p.cep"), "-i", f"velocity={tmp_path / 'v.csv'}", *options]
        )
        assert result.exit_code == 2 and message in result.output.replace("\n", " "), result.output


def test_an_interval_of_no_length_lies_nowhere() -> None:
    model_program = PROGRAM
    assert holds(model_program, [], start=3, until=4) == [Held("mode", ("v9", "off"), 3, 4, "[]")]
    with pytest.raises(CepError):
        Engine.from_text(model_program, changes=True).push({"speed": pl.DataFrame()})
