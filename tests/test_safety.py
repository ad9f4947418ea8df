"""Static mistakes and warnings: how they are reported, and that what is said never to hold never does."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from cep.core.errors import CepError, CepErrors, Source, Span
from cep.engine import Engine, detect
from cep.events import Event
from cep.plan.names import excerpt, numbered
from tests.cases_format import FOLDER, read_case

SECOND = 1_000_000


def warnings_of(program: str) -> list[tuple[str, str]]:
    """The codes and messages of a program's warnings."""
    return [(warning.code, warning.message) for warning in Engine.from_text(program).warnings]


# --- how mistakes are reported ---


LONG = "infinite_static"  # a hundred thousand rounds; tests/test_cases.py has them too


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (path.stem == LONG))
        for path in sorted((FOLDER / "errors").glob("*.case"))
    ],
)
def test_a_mistake_has_a_place_and_is_told_plainly(path: Path) -> None:
    program = read_case(path).program
    with pytest.raises(CepError) as caught:
        Engine.from_text(program, name="case")
    errors = caught.value.errors if isinstance(caught.value, CepErrors) else (caught.value,)
    places = [error.span for error in errors if error.span is not None]
    assert len(places) == len(errors) and places == sorted(places)
    for error in errors:
        text = f"{error.message} {error.hint or ''}".replace("did you mean", "")
        assert error.source is not None and error.source.name == "case"
        assert not re.search(r"\byou\b|`[vw]\d+`", text), text
        assert not re.match(r"[A-Z][a-z]", error.message), text


def test_variables_of_a_times_are_told_as_written() -> None:
    with pytest.raises(CepError, match="the right one lacks `V`") as caught:
        Engine.from_text("e(X) <- (a(X, V) TIMES 3) OR b(X).")
    assert "'" not in caught.value.message


def test_the_text_at_a_span() -> None:
    source = Source("a <- b\n   SEQ c  # not d\n   SEQ e.")
    assert excerpt(source, Span(3, 8, 3, 9)) == "e"
    assert excerpt(source, Span(1, 6, 2, 9)) == "b SEQ c"
    assert excerpt(source, Span(1, 6, 3, 9)) is None  # a comment in between
    assert excerpt(source, Span(1, 1, 1, 7), longest=3) is None
    assert excerpt(source, Span(9, 1, 9, 2)) is None


def test_names_that_are_taken_get_a_number() -> None:
    assert numbered(["X", "Y", "X", "X2", "X"]) == ("X", "Y", "X2", "X22", "X3")


# --- names that look mistaken ---


@pytest.mark.parametrize(
    ("name", "other"),
    [("Staton", "Station"), ("Statiion", "Station"), ("Sattion", "Station"), ("Stetion", "Station"), ("WInd", "Wind")],
)
def test_slips(name: str, other: str) -> None:
    found = warnings_of(f"e({other}) <- (a({other}) AND b({name})) WITHIN 1 h.")
    assert found == [("slip", f"`{name}` is used only here, and looks like `{other}`")]


@pytest.mark.parametrize(
    ("name", "other"),
    [("Temp2", "Temp1"), ("WindB", "WindA"), ("MinT", "MaxT"), ("Id", "Ia"), ("Wind", "Winds"), ("ATemp", "BTemp")],
)
def test_no_slips(name: str, other: str) -> None:
    assert warnings_of(f"e({other}) <- (a({other}) AND b({name})) WITHIN 1 h.") == []


def test_a_variable_used_twice_is_meant() -> None:
    assert warnings_of("e(Station) <- (a(Station) AND b(Staton)) WITHIN 1 h WHERE Staton > 3.") == []
    start = "event a(x: int). event b(x: int). e(Station) <- (a(Station) AND b(Staton)) WITHIN 1 h"
    assert [code for code, _ in warnings_of(f"{start} POLICY recent(by Station).")] == ["slip"]
    assert warnings_of(f"{start} POLICY recent(by Staton).") == []


def test_an_event_that_comes_from_outside_can_start() -> None:
    rule = "x(C + 1) <- (x(C) SEQ a(C)) WITHIN 1 h."
    assert warnings_of(rule) == [("unstarted", "`x` can never occur: each one needs an earlier one")]
    assert warnings_of(f"{rule} x(0) <- start.") == []
    assert warnings_of(f"event x(c: int). {rule}") == []
    assert warnings_of(f"{rule} x(C) <- y(C). y(C) <- x(C) OR z(C).") == []


# --- what never holds ---


def test_conditions_that_never_hold_are_those_that_never_do() -> None:
    events = [Event("a", (n / 2,), 0, n * SECOND) for n in range(8)]
    conditions = [f"X {operator} {n}" for operator in ("<", "<=", "=", ">=", ">") for n in (1, 2)]
    for one, two in itertools.product(conditions, repeat=2):
        program = f"e(X) <- a(X) WHERE {one}, {two}."
        never = [code for code, _ in warnings_of(program)] == ["never"]
        assert never == (not detect(program, events)), program


def test_durations_that_never_are() -> None:
    events = [Event("a", (), 0, n * SECOND) for n in range(6)]
    for operator, n, within in itertools.product(("<", "<=", "=", ">=", ">"), (0, 2, 3), (2, 3)):
        program = f"e <- a WITHIN {within} s WHERE duration() {operator} {n}."
        never = [code for code, _ in warnings_of(program)] == ["never"]
        assert never == (not detect(program, events)), program


@pytest.mark.parametrize(
    "relation", ["SEQ", "AND", "PAR", "EQUALS", "MEETS", "OVERLAPS", "DURING", "STARTS", "FINISHES"]
)
@pytest.mark.parametrize("points", ["", "a", "b", "ab"])
def test_relations_of_instants(relation: str, points: str) -> None:
    program = "".join(f"event {name}(x: int){' TIME at' if name in points else ''}.\n" for name in "ab")
    program += f"e(X, Y) <- (a(X) {relation} b(Y)) WITHIN 9 s."
    spans = [(start, end) for start in range(4) for end in range(start, 4)]
    events = [
        Event(name, (i,), start * SECOND, end * SECOND)
        for name in "ab"
        for i, (start, end) in enumerate(spans)
        if start == end or name not in points
    ]
    never = [code for code, _ in warnings_of(program)] == ["never"]
    assert never == (not detect(program, events))
