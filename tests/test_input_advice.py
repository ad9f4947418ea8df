"""Input that is read and can hardly be meant, or cannot be read: what is reported, and what is written instead."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from cep import detect
from cep.command import app
from cep.core.errors import CepError

PROGRAM = "event r(x: float) TIME time.\na(X) <- r(X).\n"
NOW = 1_714_550_400


def run(folder: Path, unit: str, time: int) -> Result:
    (folder / "p.cep").write_text(f"event r(x: int) TIME t FORMAT epoch {unit}.\na(X) <- r(X).\n")
    (folder / "r.jsonl").write_text(f'{{"t": {time}, "x": 1}}\n{{"t": {time + 1}, "x": 2}}\n')
    return CliRunner().invoke(app, ["run", str(folder / "p.cep"), "--input", str(folder / "r.jsonl")])


@pytest.mark.parametrize(
    ("unit", "time", "meant"),
    [("us", NOW * 1000, "ms"), ("ns", NOW * 1000, "ms"), ("ms", NOW, "s"), ("ns", NOW * 10**6, "us")],
)
def test_a_unit_that_is_too_small_is_warned_of(tmp_path: Path, unit: str, time: int, meant: str) -> None:
    result = run(tmp_path, unit, time)
    assert result.exit_code == 0
    assert f"`FORMAT epoch {unit}`; `FORMAT epoch {meant}` gives a recent time" in result.stderr
    assert "of 1970" not in run(tmp_path, meant, time).stderr


@pytest.mark.parametrize(("unit", "time", "meant"), [("s", NOW * 1000, "ms"), ("ms", NOW * 10**9, "ns")])
def test_a_unit_that_is_too_large_is_named_by_the_dead_letter(tmp_path: Path, unit: str, time: int, meant: str) -> None:
    words = {"ms": "milliseconds", "ns": "nanoseconds"}[meant]
    said = f"is not a time of the years 1 to 9999; it looks like {words}"
    result = run(tmp_path, unit, time)
    assert said in result.stderr and f"`FORMAT epoch {meant}`" in result.stderr
    frame = pl.DataFrame({"t": [time], "x": [1]})
    found = detect(f"event r(x: int) TIME t FORMAT epoch {unit}.\na(X) <- r(X).\n", frame)
    reason = found.dead["reason"][0]
    assert f"`FORMAT epoch {meant}`" in reason or "64 bits" in reason


def test_numbers_near_1970_are_meant_so(tmp_path: Path) -> None:
    for time in (0, 5, 86_400_000):
        assert "of 1970" not in run(tmp_path, "ms", time).stderr


STRUCT = {"time": [0.0], "x": [{"v": 1.5, "w": 2.5}]}


@pytest.mark.parametrize("data", [pl.DataFrame(STRUCT), pd.DataFrame(STRUCT), pl.DataFrame(STRUCT).to_arrow()])
def test_values_inside_of_structs_of_frames(data: object) -> None:
    (row,) = detect(PROGRAM.replace("float", "float FROM x.w"), data).tables["a"].rows()  # type: ignore[arg-type]
    assert row[-1] == 2.5
    with pytest.raises(CepError, match="holds a struct") as caught:
        detect(PROGRAM, data)  # type: ignore[arg-type]
    assert caught.value.hint == 'read a value inside it, with `FROM "x.v"`'
    with pytest.raises(CepError, match=r"r needs `x\.y`") as caught:
        detect(PROGRAM.replace("float", "float FROM x.y"), data)  # type: ignore[arg-type]
    assert caught.value.hint == "the column `x` holds `x.v`, `x.w`"


def test_where_a_column_is_that_is_missing() -> None:
    with pytest.raises(CepError, match="r needs a column `x`") as caught:
        detect(PROGRAM, pl.DataFrame({"time": [0.0], "pump": [{"x": 1.5}]}))
    assert str(caught.value.hint).startswith('`pump` holds structs with `x`: write FROM "pump.x"')
    with pytest.raises(CepError, match="r needs a column `x`") as caught:
        detect(PROGRAM, pl.DataFrame({"time": [0.0], "pump": [{"z": 1.5}]}))
    assert '`data.unnest("pump")` of polars or `pandas.json_normalize`' in str(caught.value.hint)
    with pytest.raises(CepError, match=r"r needs `x\.y`") as caught:
        detect(PROGRAM.replace("float", "float FROM x.y"), pl.DataFrame({"time": [0.0], "x": [1.5]}))
    assert caught.value.hint == "the column `x` holds double, not structs"


def test_facts_are_no_structs() -> None:
    program = PROGRAM + "fact g(a: string).\nb(X) <- r(X) WHERE g(_).\n"
    with pytest.raises(CepError, match="holds lists or structs, not values") as caught:
        detect(program, [], facts={"g": pl.DataFrame({"a": [{"v": 1}]})})
    assert "json_normalize" in str(caught.value)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ('{"time": "01/05/2024", "x": 1}', "is not an ISO 8601 time; other forms are declared"),
        ('{"time": 1, "x": "31.5"}', "found a string `31.5`; write a number without quotes"),
    ],
)
def test_what_a_dead_letter_says_to_write_instead(tmp_path: Path, record: str, reason: str) -> None:
    (tmp_path / "p.cep").write_text(PROGRAM)
    (tmp_path / "r.jsonl").write_text(record + "\n")
    words = ["run", str(tmp_path / "p.cep"), "--input", str(tmp_path / "r.jsonl")]
    assert reason in CliRunner().invoke(app, words).stderr


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ('"1,234.5"', 'thousands are declared: `FORMAT csv(thousands: ",")`'),
        ('"3,5"', "decimal commas are declared"),
        ("about", ""),
    ],
)
def test_numbers_as_people_write_them(tmp_path: Path, field: str, hint: str) -> None:
    (tmp_path / "p.cep").write_text(PROGRAM)
    (tmp_path / "r.csv").write_text(f"time,x\n1,{field}\n")
    words = ["run", str(tmp_path / "p.cep"), "--input", str(tmp_path / "r.csv")]
    said = CliRunner().invoke(app, words).stderr
    assert "expected float, found" in said and hint in said and ("; `--dead" in said or hint)
