"""What datatypes hold: the dt- rules on single literals."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import polars as pl
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.knowledge.rdf.namespaces import RDF, RDFS, XSD
from cep.knowledge.rdf.terms import Terms
from cep.knowledge.reasoning.equal_literals import standing_for
from cep.knowledge.reasoning.literals import ill_formed, inside, known_different, outside, well_formed

FORMS = {
    "integer": (["5", "-05", "+5", "9" * 50], ["", "5.0", " 5", "five", "5e3"]),
    "byte": (["-128", "127", "+0"], ["-129", "128", "9" * 50]),
    "nonNegativeInteger": (["0", "9" * 50], ["-1", "-" + "9" * 50]),
    "negativeInteger": (["-1", "-" + "9" * 50], ["0", "9" * 50]),
    "decimal": (["5", "5.", ".5", "-5.50"], ["5e0", ".", "INF"]),
    "double": (["5", "5e-3", "-INF", "NaN"], ["5e", "inf", "Infinity"]),
    "boolean": (["true", "false", "0", "1"], ["True", "yes", ""]),
    "dateTime": (["2024-02-29T23:59:59.5Z", "2024-01-01T00:00:00"], ["2023-02-29T00:00:00Z", "2024-01-01"]),
    "dateTimeStamp": (["2024-01-01T00:00:00+01:00"], ["2024-01-01T00:00:00"]),
    "date": (["2024-01-01", "2024-01-01Z"], ["2024-13-01", "today"]),
    "time": (["06:00:00", "24:00:00Z", "06:00:00.25+01:00"], ["6:00:00", "25:00:00"]),
    "duration": (["P1Y2M", "-PT0.5S", "P1DT1H"], ["P", "P1DT", "1D"]),
    "dayTimeDuration": (["P1D", "PT36H"], ["P1Y", "PT"]),
    "hexBinary": (["", "0aFF"], ["0", "0g"]),
    "base64Binary": (["", "QUJD", "QQ=="], ["Q-"]),
    "string": (["", "any\tthing\n"], []),
    "normalizedString": (["two  spaces"], ["a\ttab"]),
    "token": (["", "one two"], [" x", "x ", "two  spaces"]),
    "language": (["en", "de-CH"], ["en_US", ""]),
    "Name": (["a:b", "_x", "ä1"], ["1a", ""]),
    "NCName": (["a-b.c"], ["a:b"]),
    "NMTOKEN": (["1a", "-"], ["a b", ""]),
    "anyURI": (["http://example.org/", "x y"], []),
}


@pytest.mark.parametrize("datatype", FORMS)
def test_lexical_forms(datatype: str) -> None:
    good, bad = FORMS[datatype]
    assert well_formed(XSD + datatype, pl.Series(good, dtype=pl.String)).all()
    assert not well_formed(XSD + datatype, pl.Series(bad, dtype=pl.String)).any()
    terms = Terms()
    ids = terms.ids([ox.Literal(text, datatype=ox.NamedNode(XSD + datatype)) for text in [*good, *bad]])
    assert ill_formed(terms, ids).tolist() == ids[len(good) :].tolist()


def literal(text: str) -> ox.Literal:
    """`5` `5.0` `"x"` `"x"@en` `"x"^^name`: of XML Schema where no full name is given."""
    if text[0] != '"':
        number = "double" if "e" in text else "decimal" if "." in text else "integer"
        kind = "boolean" if text in ("true", "false") else number
        return ox.Literal(text, datatype=ox.NamedNode(XSD + kind))
    value, _, rest = text[1:].rpartition('"')
    if rest.startswith("@"):
        return ox.Literal(value, language=rest[1:])
    name = rest.removeprefix("^^") or "string"
    return ox.Literal(value, datatype=ox.NamedNode(name if ":" in name else XSD + name))


HOLDING = [
    ("5", "integer", "in"),
    ("5", "byte", "in"),
    ("5", "unsignedLong", "in"),
    ("-5", "unsignedLong", "out"),
    ("5", "decimal", "in"),
    ("5.0", "positiveInteger", "in"),
    ("5.5", "integer", "out"),
    ("5e0", "decimal", "out"),
    ("5", "double", "out"),
    ('"5"', "integer", "out"),
    ('"5"', "string", "in"),
    ('"a b"', "token", "in"),
    ('"a  b"', "token", "out"),
    ('"x"@en', "string", "out"),
    ('"x"@en', RDF + "langString", "in"),
    ('"x"@en', RDF + "PlainLiteral", "in"),
    ('"x"', RDF + "PlainLiteral", "in"),
    ("5", RDF + "PlainLiteral", "out"),
    ("true", RDFS + "Literal", "in"),
    ('"2024-01-01T00:00:00"^^dateTime', "dateTimeStamp", "out"),
    ('"2024-01-01T00:00:00Z"^^dateTime', "dateTimeStamp", "in"),
    ('"POINT(1 2)"^^urn:wkt', "urn:wkt", "in"),
    ('"POINT(1 2)"^^urn:wkt', "string", "unknown"),
    ("5", "urn:wkt", "unknown"),
]


@pytest.mark.parametrize("text, datatype, holds", HOLDING)
def test_what_a_datatype_holds(text: str, datatype: str, holds: str) -> None:
    terms = Terms()
    ids = terms.ids([literal(text)])
    name = datatype if ":" in datatype else XSD + datatype
    found = bool(inside(terms, ids, name)[0]), bool(outside(terms, ids, name)[0])
    assert found == {"in": (True, False), "out": (False, True), "unknown": (False, False)}[holds]


DIFFERING = [
    ("5", "8", True),
    ("5", "5.0", False),
    ("5", "5e0", True),
    ('"5"', "5", True),
    ('"x"', '"X"', True),
    ('"x"@en', '"x"@de', True),
    ('"x"@en', '"x"', True),
    ('"1"^^boolean', "true", False),
    ('"0a"^^hexBinary', '"0A"^^hexBinary', False),
    ('"PT24H"^^dayTimeDuration', '"P1D"^^duration', False),
    ('"P1Y"^^duration', '"P2Y"^^duration', False),
    ('"2024-01-01T00:00:00Z"^^dateTime', '"2024-01-01T01:00:00+01:00"^^dateTime', False),
    ('"2024-01-01T00:00:00Z"^^dateTime', '"2024-01-01T00:00:01Z"^^dateTime', True),
    ('"06:00:00Z"^^time', '"07:00:00+01:00"^^time', False),
    ('"0.1"^^float', '"0.10"^^float', False),
    ('"a"^^urn:wkt', '"b"^^urn:wkt', False),
    ('"a"^^urn:wkt', '"a"', False),
]


@pytest.mark.parametrize("one, other, differ", DIFFERING)
def test_which_values_differ(one: str, other: str, differ: bool) -> None:
    terms = Terms()
    x, y = terms.ids([literal(one), literal(other)]).tolist()
    assert known_different(terms, x, y) == known_different(terms, y, x) == differ


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3), st.integers(-200, 300))
def test_numbers(number: Decimal, other: int) -> None:
    terms = Terms()
    ids = terms.ids([literal(f"{number:f}" if "." in f"{number:f}" else f"{number:f}.0"), literal(str(other))])
    assert known_different(terms, *ids.tolist()) == (number != other)
    for datatype, least, most in (("byte", -128, 127), ("unsignedByte", 0, 255), ("integer", -np.inf, np.inf)):
        held = [least <= value <= most and value == int(value) for value in (number, Decimal(other))]
        assert inside(terms, ids, XSD + datatype).tolist() == held
        assert outside(terms, ids, XSD + datatype).tolist() == [not one for one in held]


ONE = [
    ("5", "5.0", True),
    ("5", '"05"^^integer', True),
    ("5", '"+5."^^decimal', True),
    ("-0.50", '"-.5"^^decimal', True),
    ("0", '"-0.00"^^decimal', True),
    ("1" + "0" * 40, f'"{"1" + "0" * 40}.0"^^decimal', True),
    ("5", "5e0", False),
    ("5e0", '"5"^^float', False),
    ("5e0", '"50.0e-1"^^double', True),
    ('"NaN"^^double', '"NaN"^^double', True),
    ("0e0", '"-0"^^double', False),
    ('"0.1"^^float', '"0.100000001"^^float', True),
    ("true", '"1"^^boolean', True),
    ('"x"', '"x"^^token', True),
    ('"x"', '"x"@en', False),
    ('"x"@en', '"x"@EN', True),
    ('"x"', '"x"^^anyURI', False),
    ('"0a"^^hexBinary', '"0A"^^hexBinary', True),
    ('"QQ =="^^base64Binary', '"QQ=="^^base64Binary', True),
    ('"2024-01-01T00:00:00Z"^^dateTime', '"2024-01-01T00:00:00.0+00:00"^^dateTimeStamp', True),
    ('"2024-01-01T00:00:00Z"^^dateTime', '"2024-01-01T01:00:00+01:00"^^dateTime', False),
    ('"2024-01-01T24:00:00Z"^^dateTime', '"2024-01-02T00:00:00Z"^^dateTime', True),
    ('"P1D"^^duration', '"PT24H"^^dayTimeDuration', True),
    ('"1"^^urn:x', '"01"^^urn:x', False),
]


@pytest.mark.parametrize("first, second, one", ONE)
def test_literals_of_one_value(first: str, second: str, one: bool) -> None:
    terms = Terms()
    x, y = standing_for(terms, terms.ids([literal(first), literal(second)])).tolist()
    assert (x == y) == one
    for other in (first, second):  # one at a time as together
        (id,) = terms.ids([literal(other)]).tolist()
        assert standing_for(terms, np.array([id])).tolist() == standing_for(terms, np.array([id, id])).tolist()[:1]
    if one:
        assert not known_different(terms, *terms.ids([literal(first), literal(second)]).tolist())
