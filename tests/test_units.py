"""Units: the table is the ontology's, conversion is exact arithmetic rounded once or twice, mistakes are reported."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.values import Pool
from cep.engine import Engine, detect
from cep.events import Event, Iri
from cep.rules.expressions.units import QUDT, UNITS, conversion, factors, nearest_unit
from tests.reference_places import units

PREFIX = f"PREFIX unit: <{QUDT}>\n"
names = st.sampled_from(sorted(UNITS))
values = st.one_of(st.integers(-(10**6), 10**6).map(float), st.floats(-1e9, 1e9))


def converted(x: float, source: str, target: str) -> float:
    pool = Pool()
    codes = [np.int64(pool.code(Iri(QUDT + name))) for name in (source, target)]
    return float(conversion(pool)(np.array([x]), *codes)[0])


def test_the_ontology_says_the_same() -> None:
    assert set(units()) == {QUDT + name for name in UNITS}
    for name, unit in UNITS.items():
        kind, multiplier, offset = units()[QUDT + name]
        assert kind == f"http://qudt.org/vocab/quantitykind/{unit.kind}"
        assert float(multiplier) == pytest.approx(float(unit.multiplier) * (math.pi if unit.of_pi else 1), rel=4e-16)
        assert offset == unit.offset


@pytest.mark.parametrize(
    ("x", "source", "target", "expected"),
    [
        (1, "MI", "M", 1609.344),
        (26, "MI", "KiloM", 41.842944),
        (32, "DEG_F", "DEG_C", 0.0),
        (212, "DEG_F", "DEG_C", 100.0),
        (-40, "DEG_C", "DEG_F", -40.0),
        (0, "K", "DEG_C", -273.15),
        (0, "DEG_R", "DEG_F", -459.67),
        (35, "MI-PER-HR", "M-PER-SEC", 15.6464),
        (34, "KN", "KiloM-PER-HR", 62.968),
        (1, "KN", "MI_N-PER-HR", 1.0),
        (1013.25, "HectoPA", "ATM", 1.0),
        (760, "TORR", "ATM", 1.0),
        (30, "IN_HG", "MilliM_HG", 762.0),
        (1, "MilliBAR", "HectoPA", 1.0),
        (180, "DEG", "RAD", math.pi),
        (1, "REV", "ARCSEC", 1_296_000.0),
        (1, "WK", "HR", 168.0),
        (1, "TON_SHORT", "LB", 2000.0),
        (1, "GAL_US", "IN3", 231.0),
        (1, "AC", "FT2", 43_560.0),
        (36, "MilliM-PER-HR", "MilliM-PER-SEC", 0.01),
        (50, "PERCENT", "FRACTION", 0.5),
        (60, "REV-PER-MIN", "RAD-PER-SEC", 2 * math.pi),
    ],
)
def test_what_is_known_by_heart(x: float, source: str, target: str, expected: float) -> None:
    assert converted(x, source, target) == expected


@given(values, names, names)
def test_conversion_is_that_of_qudt(x: float, source: str, target: str) -> None:
    """(value + offset) * multiplier in the SI's unit, and back."""
    a, b = UNITS[source], UNITS[target]
    found = converted(x, source, target)
    if a.kind != b.kind:
        assert math.isnan(found)
        return
    pi = Fraction(math.pi)
    scale = a.multiplier * (pi if a.of_pi else 1) / (b.multiplier * (pi if b.of_pi else 1))
    exact = (Fraction(x) + a.offset) * scale - b.offset
    near = 4 * np.spacing(float(max(abs(exact), abs(b.offset), abs(a.offset) * scale, Fraction(1, 10**300))))
    assert abs(Fraction(found) - exact) <= near
    assert converted(found, target, source) == pytest.approx(x, rel=1e-14, abs=1e-9)


@given(st.lists(st.tuples(st.one_of(st.none(), values), names, names), max_size=20))
def test_units_in_columns(rows: list[tuple[float | None, str, str]]) -> None:
    pool = Pool()
    x = np.array([np.nan if x is None else x for x, _, _ in rows], dtype=np.float64)
    codes = [pool.encode_values([Iri(QUDT + row[i]) for row in rows]) for i in (1, 2)]
    found = conversion(pool)(x, *codes)
    expected = [math.nan if x is None else converted(x, source, target) for x, source, target in rows]
    assert np.array_equal(found, np.array(expected, dtype=np.float64), equal_nan=True)


def test_what_is_no_unit_gives_a_missing_value() -> None:
    assert factors(QUDT + "MI", QUDT + "Furlong") is None
    assert factors(QUDT + "MI", "http://example.org/M") is None
    program = PREFIX + "e(value_in(X, U, unit:M)) <- a(X, U)."
    given_ = [1, "MI", Iri(QUDT + "MI"), Iri(QUDT + "SEC"), Iri(QUDT + "Mile"), None]
    derived = detect(program, [Event("a", (2, unit), i, i) for i, unit in enumerate(given_)])
    assert [event.args[0] for event in derived] == [None, None, 3218.688, None, None, None]
    assert detect(PREFIX + "e(value_in(X, unit:MI, unit:M)) <- a(X).", [Event("a", (1e308,), 1, 1)])[0].args == (None,)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Mile", "unit:MI"),
        ("KM-PER-HR", "unit:KiloM-PER-HR"),
        ("mph", "unit:MI-PER-HR"),
        ("KT", "unit:KN"),
        ("DEGC", "unit:DEG_C"),
        ("Celsius", "unit:DEG_C"),
        ("inHg", "unit:IN_HG"),
        ("hPa", "unit:HectoPA"),
        ("M-PER-S", "unit:M-PER-SEC"),
        ("Furlong", None),
    ],
)
def test_did_you_mean(written: str, meant: str | None) -> None:
    assert nearest_unit(QUDT + written) == meant


def test_mistakes_have_the_place_of_the_unit() -> None:
    for text, column in (("unit:Mile, unit:M", 15), ("unit:M, unit:Mile", 23), ("unit:M, unit:SEC", 23)):
        with pytest.raises(CepError) as caught:
            Engine.from_text(f"{PREFIX}e(value_in(X, {text})) <- a(X).")
        assert caught.value.code == "unit"
        assert caught.value.span is not None and (caught.value.span.line, caught.value.span.column) == (2, column)
