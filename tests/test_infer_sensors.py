"""`cep infer` for SenML, SensorThings and line protocol: what it prints reads the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.files import read
from cep.language.schemas import Schemas
from cep.language.syntax.parser import parse

SENML = '[\n{"bn":"urn:dev:1:","bt":1320078429,"n":"temp","u":"Cel","v":25.2},\n{"n":"label","vs":"x"}\n]\n'
PAGE = """{"value": [
 {"@iot.id": 1, "phenomenonTime": "2010-12-23T10:20:00Z/2010-12-23T11:20:00Z", "resultTime": null, "result": 5.5,
  "Datastream": {"@iot.id": 7, "name": "oven"}, "parameters": {"depth": 3}},
 {"@iot.id": 2, "phenomenonTime": "2010-12-23T10:21:00Z", "resultTime": null, "result": 6,
  "Datastream": {"@iot.id": 7, "name": "oven"}}
]}"""
LINES = """# from Telegraf
cpu,host=a usage=1.5,n=1i 1641024000
cpu,host=b usage=2,n=2i,ok=true 1641024001
disk\\ free,host=a bytes=5i 1641024001
"""


@pytest.mark.parametrize(
    ("file", "text", "lines"),
    [
        ("temp.senml", SENML, ["name: iri,", "unit: string?,", "v: float?,", "FORMAT senml."]),
        ("temp.json", SENML, ["name: iri,", "FORMAT senml."]),
        ("temp.jsonl", SENML.replace("\n", "") + "\n", ["name: iri,", "FORMAT senml."]),
        (
            "obs.json",
            PAGE,
            ["result: float,", 'depth: int? FROM "parameters.depth"', "datastream: int", "FORMAT senso"],
        ),
        ("home.lp", LINES, ["host: string,", "n: int,", "ok: bool?", 'FORMAT influx(precision: "s").', '"disk free"']),
        ("home.txt", LINES, ["event cpu(", "event disk_free("]),
    ],
)
def test_a_declaration_reads_what_it_was_made_from(
    file: str, text: str, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(file).write_text(text)
    result = CliRunner().invoke(app, ["infer", file], prog_name="cep")
    assert result.exit_code == 0, result.stderr
    for line in lines:
        assert line in result.stdout, result.stdout
    named = Schemas(parse(result.stdout), {})
    assert not list(named.errors)
    batches = list(read([file], named.found))
    assert not [letter for batch in batches for letter in batch.dead]
    assert sum(batch.rows for batch in batches) == (3 if text == LINES else 2)


def test_times_that_are_relative_to_now_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.senml").write_text('[{"n":"a","v":1},{"n":"b","v":2}]')
    result = CliRunner().invoke(app, ["infer", "a.senml"], prog_name="cep")
    assert "some times are relative to now" in result.stdout, result.stdout


def test_a_list_of_objects_that_have_an_n_is_json(tmp_path: Path) -> None:
    for n in ("null", "3", '"x"', '"é"'):
        file = tmp_path / "x.json"
        file.write_text(f'[{{"ts": "2024-05-01T00:00:00Z", "n": {n}, "unit": "bar"}}]', encoding="utf-8")
        result = CliRunner().invoke(app, ["infer", str(file)], prog_name="cep")
        assert result.exit_code == 0 and "senml" not in result.stdout, (n, result.stderr)
