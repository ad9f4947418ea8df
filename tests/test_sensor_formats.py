"""Formats of sensors: where one is declared, how it is known, and how it is printed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from cep.connectors.addresses import address
from cep.connectors.files import read
from cep.connectors.inputs import inputs
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program
from tests.sensor_packs import everything, schemas


def test_the_format_is_that_of_the_suffix_the_declaration_or_the_option(tmp_path: Path) -> None:
    for name in ("a.json", "a.lp", "a.csv", "a.txt", "a.senml", "a.line.gz"):
        (tmp_path / name).write_text("")
    kinds = {format: schemas(f"event e(n: string) FORMAT {format}.") for format in ("senml", "sensorthings", "influx")}
    plain = schemas("event e(n: string).")

    def formats(known: dict[str, Schema], *names: str) -> list[str]:
        return [one.format for one in inputs([str(tmp_path / name) for name in names], known)]

    assert formats(plain, "a.json", "a.lp", "a.csv", "a.senml", "a.line.gz") == [
        "jsonl",
        "influx",
        "csv",
        "senml",
        "influx",
    ]
    assert formats(kinds["senml"], "a.json", "a.csv", "a.txt") == ["senml", "csv", "senml"]
    assert formats(kinds["influx"], "a.json", "a.txt", "a.lp") == ["jsonl", "influx", "influx"]
    assert [inputs(["-"], known)[0].format for known in kinds.values()] == list(kinds)
    assert [inputs(["kafka://h/t"], known)[0].format for known in kinds.values()] == list(kinds)
    assert inputs(["tcp://h:1?format=influx"], plain)[0].format == "influx"
    assert inputs(["-"], plain, "sensorthings")[0].format == "sensorthings"
    with pytest.raises(CepError, match="`senmal` is not a format of the input") as refused:
        inputs(["-"], plain, "senmal")
    assert "sensorthings" in (refused.value.hint or "")
    assert address("tcp://h:1?format=influx").kind == "tcp"


def test_standard_input_line_by_line() -> None:
    known = schemas("event e(n: string, v: float) FORMAT senml.")
    text = b'[{"n":"a","t":1320078429,"v":1}]\n[{"n":"b","t":1320078429,"v":2}]\n'
    tables, dead = everything(list(read(["-"], known, stdin=io.BytesIO(text))))
    assert tables["e"]["n"].to_list() == ["a", "b"] and not dead


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("event e(n: string) FORMAT sensml.", "unknown format `sensml`"),
        ('event e(n: string) FORMAT influx(precision: "m").', "`m` is not a precision"),
        ('event e(n: string) FORMAT influx(unit: "m").', "expected an option, found `unit`"),
        ('event e(n: string) FORMAT sensorthings(x: "m").', "sensorthings has no options"),
        ('event e(n: string) FORMAT senml(now: "today").', "`today` is not a time"),
        ('event e(n: string) FORMAT influx(measurement: "").', "the name of the measurement is empty"),
        ("event e(n: string) FORMAT influx FORMAT senml.", "the records have a second FORMAT"),
    ],
)
def test_a_format_is_declared_as_it_is(declaration: str, message: str) -> None:
    with pytest.raises(CepError) as refused:
        parse(declaration)
    assert refused.value.message.startswith(message)


def test_formats_are_printed_as_they_are_read() -> None:
    text = (
        "event a(n: string) FORMAT senml.\n"
        'event b(n: string) TIME t FORMAT senml(now: "2026-11-22T10:00:00Z").\n'
        "event c(result: float) FORMAT sensorthings.\n"
        'event d(x: int) FORMAT influx(measurement: "cpu", precision: "ms").'
    )
    printed = print_program(parse(text))
    assert print_program(parse(printed)) == printed
    assert printed.count("FORMAT senml") == 2 and "FORMAT sensorthings." in printed and '"cpu"' in printed
