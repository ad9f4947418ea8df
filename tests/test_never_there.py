"""What a run tells of optional attributes that no record has, and dead letters of the path that was looked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app


def told(folder: Path, declared: str, records: list[object], name: str = "r.jsonl", *options: str) -> str:
    program, data = folder / "p.cep", folder / name
    program.write_text(f"event r({declared}) TIME t.\nfound(X) <- r(x: X).\n")
    data.write_text("".join(json.dumps(each) + "\n" for each in records))
    words = ["run", str(program), "--input", f"r={data}", *options]
    return CliRunner().invoke(app, words, prog_name="cep").stderr


def records(count: int = 10, **more: object) -> list[object]:
    return [{"t": t, "x": 1, "payload": {"suction": {"bar": 2.5}}, **more} for t in range(count)]


BAR = 'x: int, bar: float? FROM "payload.suction.{}"'
WARNING = (
    "warning: none of the 10 records of `r` has a value at `payload.suction.baar`: `bar` is missing in all of them"
)
NEAR = 'write FROM "payload.suction.bar"'


@pytest.mark.parametrize("options", [(), ("--lateness", "1s")])
def test_a_path_that_no_record_has_is_told_with_the_nearest(tmp_path: Path, options: tuple[str, ...]) -> None:
    text = told(tmp_path, BAR.format("baar"), records(), "r.jsonl", *options)
    assert text.count(WARNING) == 1 and NEAR in text
    assert "has a value at" not in told(tmp_path, BAR.format("bar"), records(), "r.jsonl", *options)


def test_few_records_and_values_that_are_null_are_not_told(tmp_path: Path) -> None:
    assert "has a value at" not in told(tmp_path, BAR.format("baar"), records(9))
    assert "has a value at" not in told(tmp_path, "x: int, note: string?", records(note=None))
    assert "has a value at" not in told(tmp_path, "x: int, n: float? MISSING -999", records(n=-999))
    late = [*records(30), {"t": 99, "x": 1, "note": "now"}]
    assert "has a value at" not in told(tmp_path, "x: int, note: string?", late)
    assert "has a value at `note`: `note` is missing in all" in told(tmp_path, "x: int, note: string?", records())
    assert "there is `note_`: write FROM note_" in told(tmp_path, "x: int, note: string?", records(note_="a"))


def test_a_dead_letter_says_which_path_was_looked_for(tmp_path: Path) -> None:
    text = told(tmp_path, BAR.format("baar").replace("?", ""), records(1))
    said = "`bar` is missing: there is no value at `payload.suction.baar`; "
    assert said in text and NEAR in text
    text = told(tmp_path, "x: int, bar: float", records(1))
    assert "`bar` is missing; `payload.suction` has `bar`" in text and NEAR in text
