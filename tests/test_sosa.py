"""Observations in RDF as events: N-Quads, JSON-LD whole and in lines, paths, classes, and what is no observation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cep.connectors.files import read, replay
from cep.core.errors import CepError
from cep.engine import Engine

PREFIXES = """PREFIX sosa: <http://www.w3.org/ns/sosa/>
PREFIX qudt: <http://qudt.org/schema/qudt/>
PREFIX time: <http://www.w3.org/2006/time#>
PREFIX ex: <http://example.org/>
"""
READING = """event reading(sensor: iri AS sosa:madeBySensor,
    temp: float FROM sosa:hasResult/qudt:numericValue in -50..50, note: string? AS ex:note).
"""
SOSA = "http://www.w3.org/ns/sosa/"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
CONTEXT = {
    "@vocab": SOSA,
    "madeBySensor": {"@type": "@id"},
    "value": "http://qudt.org/schema/qudt/numericValue",
    "note": "http://example.org/note",
}


def rows(declaration: str, file: Path, **options: Any) -> tuple[list[tuple[Any, ...]], list[tuple[int, str, str]]]:
    """(start, end, attributes) of each event in seconds, (line, code, reason) of each dead letter."""
    some = "temp" if "temp" in declaration else "sensor"
    schemas = Engine.from_text(f"{PREFIXES}{declaration} a <- reading({some}: _).").inputs
    found: list[tuple[Any, ...]] = []
    dead: list[tuple[int, str, str]] = []
    for batch in read([str(file)], schemas, **options):
        dead += [(one.line, one.code, one.reason) for one in batch.dead]
        for table in batch.tables.values():
            values = table.drop("@order").rows()
            found += [(start // 1_000_000, end // 1_000_000, *rest) for start, end, *rest in values]
    return found, dead


def test_n_quads_in_any_order_and_graph(tmp_path: Path) -> None:
    file = tmp_path / "day.nq"
    lines = [
        f'<urn:1> <{SOSA}resultTime> "1970-01-01T00:00:07Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .',
        f"<urn:1> <{SOSA}hasResult> _:r <urn:graph> .",
        f"<urn:2> {TYPE} <{SOSA}Observation> .",
        f"<urn:1> <{SOSA}madeBySensor> <urn:s> .",
        f"<urn:1> <{SOSA}madeBySensor> <urn:s> <urn:graph> .",
        f"<urn:s> {TYPE} <{SOSA}Sensor> .",
        '_:r <http://qudt.org/schema/qudt/numericValue> "2.15E1"^^<http://www.w3.org/2001/XMLSchema#double> .',
        f"<urn:3> <{SOSA}resultTime 9 .",
        f'<urn:3> <{SOSA}resultTime> "9" .',
        f'<urn:3> <{SOSA}madeBySensor> "s" .',
        f'<urn:4> <{SOSA}resultTime> "never" .',
        f'<urn:5> <{SOSA}resultTime> "5" .',
        f"<urn:5> <{SOSA}madeBySensor> <urn:s>, <urn:t> .",
        f"<urn:5> <{SOSA}madeBySensor> <urn:s> .",
        f"<urn:5> <{SOSA}madeBySensor> <urn:t> .",
        f'<urn:6> <{SOSA}resultTime> "6" .',
        "<urn:6> <http://example.org/note> _:r .",
    ]
    file.write_text("\n".join(lines) + "\n")
    found, dead = rows(READING, file)
    assert found == [(7, 7, "urn:s", 21.5, None)]
    assert [(line, code) for line, code, _ in dead] == [
        (3, "time"),
        (8, "rdf"),
        (8, "ill-typed"),
        (11, "time"),
        (12, "ill-typed"),
        (13, "rdf"),
        (16, "ill-typed"),
    ]
    assert [reason for _, code, reason in dead if code != "rdf"] == [
        "no time: the property of TIME is missing",
        "sensor: expected iri, found `s`",
        "TIME: `never` is not an ISO 8601 time",
        "sensor: the observation has 2 values, and only one can be read",
        "note: expected string, found a blank node, whose values are read with a path",
    ]
    [batch] = replay([str(file)], Engine.from_text(f"{PREFIXES}{READING} a <- reading(_, _, _).").inputs)
    assert batch.origin("reading", 0) == (str(file), 1, None)


def test_json_ld_in_lines_and_whole(tmp_path: Path) -> None:
    def observation(n: int, **more: Any) -> dict[str, Any]:
        place = {"@id": f"urn:{n}", "resultTime": f"1970-01-01T00:00:{n:02}Z", "madeBySensor": "urn:s"}
        return place | {"hasResult": {"value": n}} | more

    lines = [
        {"@context": CONTEXT, **observation(1, note="first")},
        {"@context": CONTEXT, "@graph": [observation(2), observation(3)]},
        {"@context": "http://example.org/context", **observation(4)},
        {"@context": CONTEXT, "@id": "urn:s", "@type": "Sensor"},
    ]
    file = tmp_path / "day.jsonld"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{\n")
    expected = [(1, 1, "urn:s", 1.0, "first"), (2, 2, "urn:s", 2.0, None), (3, 3, "urn:s", 3.0, None)]
    found, dead = rows(READING, file)
    assert found == expected
    assert [(line, code) for line, code, _ in dead] == [(3, "rdf"), (5, "rdf")]
    assert "its context is not in the record" in dead[0][2]
    assert rows(READING, file, chunk=1) == (found, dead)
    whole = {"@context": CONTEXT, "@graph": [observation(1, note="first"), observation(2), observation(3)]}
    file.write_text(json.dumps(whole, indent=2))
    assert rows(READING, file) == (expected, [])


def test_classes_and_intervals(tmp_path: Path) -> None:
    file = tmp_path / "days.json"
    file.write_text(
        json.dumps(
            {
                "@context": CONTEXT | {"time": "http://www.w3.org/2006/time#", "ex": "http://example.org/"},
                "@type": "ex:Gale",
                "phenomenonTime": {
                    "time:hasBeginning": {"time:inXSDDateTimeStamp": "1970-01-01T00:00:10Z"},
                    "time:hasEnd": {"time:inXSDDateTimeStamp": "1970-01-01T00:00:20Z"},
                },
                "madeBySensor": "urn:s",
            }
        )
        + "\n"
    )
    moment = "time:inXSDDateTimeStamp"
    declaration = f"""event reading(sensor: string FROM <{SOSA}madeBySensor>) AS ex:Gale
        START sosa:phenomenonTime/time:hasBeginning/{moment} END sosa:phenomenonTime/time:hasEnd/{moment}.
    """
    assert rows(declaration, file, format="jsonld") == ([(10, 20, "urn:s")], [])


@pytest.mark.parametrize(
    "declaration, message",
    [
        ("event reading(temp: float).", "reading: the RDF property of `temp` is not declared"),
        ("event reading(temp: float AS ex:t) TIME at.", "reading: `at` is not a property in RDF"),
        ("event reading(temp: float FROM ex:t/temp).", "expected an IRI"),
        ("event reading(temp: float FROM nix:t).", "unknown prefix `nix:`"),
    ],
)
def test_what_a_declaration_lacks(declaration: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "day.nq").write_text("")
    with pytest.raises(CepError) as caught:
        rows(declaration, tmp_path / "day.nq")
    assert message in str(caught.value)
