"""Tables of facts as they are: other marks, other capitals, other names; what fits nothing is reported."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from cep import Engine, detect
from cep.command import app
from cep.core.errors import CepError
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program

PROGRAM = """fact gauge(name: string, lat: float, lon: float).
event rise(g: string) TIME time.
flood(G, A, O) <- rise(G) WHERE gauge(G, A, O).
"""
MARKS = ' FORMAT csv(separator: ";", decimal: ",", comment: "#", encoding: "latin1").'


def run(folder: Path, program: str, table: str, name: str = "gauge.csv", given: str = "gauge") -> Result:
    (folder / "p.cep").write_text(program)
    (folder / "r.jsonl").write_text('{"type": "rise", "time": 0, "g": "Zürich"}\n')
    (folder / name).write_bytes(table.encode("latin1"))
    words = ["run", folder / "p.cep", "--input", folder / "r.jsonl", "--facts", f"{given}={folder / name}"]
    return CliRunner().invoke(app, list(map(str, words)))


def test_a_table_has_the_dialect_of_its_declaration(tmp_path: Path) -> None:
    table = "# of the survey\nLon;Name;Lat\n8,5;Zürich;47,25\n"
    for name in ("gauge.csv", "gauge.txt"):
        result = run(tmp_path, PROGRAM.replace(").\nevent", f"){MARKS}\nevent"), table, name)
        assert (result.exit_code, '"a": 47.25, "o": 8.5' in result.stdout) == (0, True), result.stderr
        assert "warning" not in result.stderr


def test_other_marks_are_told_with_the_declaration_that_fits(tmp_path: Path) -> None:
    result = run(tmp_path, PROGRAM, "Lon;Name;Lat\n8,5;Zürich;47,25\n")
    assert result.exit_code == 2
    assert "is separated by `;`, not by `,`" in result.stderr
    assert 'fact gauge(lon: ..., name: ..., lat: ...) FORMAT csv(separator: ";", decimal: ",").' in result.stderr
    result = run(tmp_path, PROGRAM, 'name,lat,lon\nZurich,"47,25","8,5"\n')
    assert result.exit_code == 2 and "declare decimal commas" in result.stderr
    result = run(tmp_path, PROGRAM, "name,lat,name\na,1,2\n")
    assert result.exit_code == 2 and "two columns" in result.stderr


def test_names_match_whatever_is_a_capital() -> None:
    table = pl.DataFrame({"Lon": [8.5], " LAT ": [47.25], "Name": ["a"], "height": [400]})
    (found,) = detect(PROGRAM, [{"time": 0, "g": "a"}], facts={"gauge": table}).tables["flood"].rows()
    assert found[-2:] == (47.25, 8.5)


def test_columns_of_other_names_are_taken_by_order_and_told() -> None:
    table = pl.DataFrame({"station": ["a"], "y": [47.25], "x": [8.5]})
    (warning,) = Engine.from_text(PROGRAM, facts={"gauge": table}).warnings
    assert "matched by their order: `station` is `name`, `y` is `lat`, `x` is `lon`" in str(warning)
    assert Engine.from_text(PROGRAM, facts={"gauge": table.rename({"station": "name"})}).warnings
    with pytest.raises(CepError, match="has a column `lon`, but none for `name`") as caught:
        Engine.from_text(PROGRAM, facts={"gauge": pl.DataFrame({"station": ["a"], "lon": [8.5], "lat": [47.25]})})
    assert "by the order of columns, `lon` would hold `lat`" in str(caught.value)


@pytest.mark.parametrize("make", [partial(detect, PROGRAM, []), partial(Engine.from_text, PROGRAM)])
def test_a_table_from_python_that_nobody_asks_for_is_an_error(make: Callable[..., Any]) -> None:
    table = pl.DataFrame({"name": ["a"], "lat": [1.0], "lon": [2.0]})
    with pytest.raises(CepError, match="no condition of the program asks for `gauges`") as caught:
        make(facts={"gauges": table})
    assert caught.value.hint == "did you mean `gauge`?"


def test_a_file_that_nobody_asks_for_is_warned_of(tmp_path: Path) -> None:
    result = run(tmp_path, PROGRAM, "name,lat,lon\na,1,2\n", given="gauges")
    assert result.exit_code == 0 and "no rule of" in result.stderr


def test_only_the_marks_of_a_table_can_be_declared() -> None:
    text = 'fact gauge(name: string) FORMAT csv(separator: ";").\n'
    assert print_program(parse(text)) == text
    for clause in ('ZONE "UTC"', "MISSING -9", "FORMAT epoch ms", "FORMAT senml"):
        with pytest.raises(CepError, match=r"expected `\.`") as caught:
            parse(f"fact gauge(name: string) {clause}.")
        assert "FORMAT csv(" in str(caught.value.hint)


def test_what_stands_for_a_missing_value(tmp_path: Path) -> None:
    result = run(tmp_path, PROGRAM, "name,lat,lon\na,1,n/a\n")
    assert result.exit_code == 2 and "a missing value is an empty field or `NA`" in result.stderr
