"""Facts that are declared: what facts and tables are held against, with the place of what does not fit."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import polars as pl
import pytest

from cep.app.facts import read_facts
from cep.core.errors import CepError
from cep.engine import Engine, detect
from cep.events import Event, Iri
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program

OPENING = "fact opening(shop: string, from: time, until: time).\n"
VISITS = """event visit(shop: string).
early(S) <- visit(S) WHERE opening(S, F, _), local_time(end(), "Europe/Zurich") < F.
"""
MORNING = int(datetime(2024, 6, 3, 5, 30, tzinfo=UTC).timestamp()) * 1_000_000  # half past seven in Zurich
VISIT = [Event("visit", (shop,), MORNING, MORNING) for shop in ("bakery", "bank")]
HOURS = {"bakery": ("06:30", "18:00"), "bank": ("09:00", "16:30")}


def early(program: str, **options: pl.DataFrame) -> list[object]:
    return [each.args[0] for each in detect(program, VISIT, facts=options)]


def test_times_of_day() -> None:
    facts = "".join(f'opening({shop}, time("{a}"), time("{b}")).\n' for shop, (a, b) in HOURS.items())
    assert early(OPENING + facts + VISITS) == ["bank"]


@pytest.mark.parametrize("kind", ["text", "time", "duration", "seconds", "named"])
def test_tables(kind: str) -> None:
    clocks = [[time.fromisoformat(text) for text in pair] for pair in HOURS.values()]
    since = [[timedelta(hours=at.hour, minutes=at.minute) for at in pair] for pair in clocks]
    columns: dict[str, list[list[object]]] = {
        "text": [list(pair) for pair in HOURS.values()],
        "time": [list(pair) for pair in clocks],
        "duration": [list(pair) for pair in since],
        "named": [list(pair) for pair in clocks],
    }
    if kind == "seconds":
        table = {"a": list(HOURS), "b": [each[0].seconds for each in since], "c": [each[1].seconds for each in since]}
        declared = OPENING.replace("time", "duration")
    else:
        declared = OPENING
        table = {"shop": list(HOURS), "from": [p[0] for p in columns[kind]], "until": [p[1] for p in columns[kind]]}
    if kind == "named":
        table = {"note": ["x", "y"], "until": table["until"], "from": table["from"], "shop": table["shop"]}
    assert early(declared + VISITS, opening=pl.DataFrame(table)) == ["bank"]


def test_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "opening.csv"
    path.write_text("shop,from,until\n" + "".join(f"{shop},{a},{b}\n" for shop, (a, b) in HOURS.items()))
    assert early(OPENING + VISITS, opening=read_facts("opening", path)) == ["bank"]


def test_each_type() -> None:
    program = """
        fact known(i: int, f: float, s: string, b: bool, r: iri, t: time, d: duration, m: int?).
        known(1, 2, "x", true, <http://e.org/x>, 2024-01-01, 30, 5).
        e(I, F, S, B, R, T, D) <- a WHERE known(I, F, S, B, R, T, D, _).
    """
    table = pl.DataFrame({
        "i": ["7"], "f": [2], "s": [12], "b": ["false"], "r": ["http://e.org/y"], "t": [date(2024, 1, 2)],
        "d": ["PT1M"], "m": [None],
    })  # fmt: skip
    engine = Engine.from_text(program, facts={"known": table})
    assert [each.type for each in engine.plan.schemas["e"].attributes] == [
        "int", "float", "string", "bool", "iri", "time", "duration"
    ]  # fmt: skip
    first, second = (int(datetime(2024, 1, day, tzinfo=UTC).timestamp()) * 1_000_000 for day in (1, 2))
    assert {each.args for each in detect(program, [Event("a", (), 1, 1)], facts={"known": table})} == {
        (1, 2.0, "x", True, Iri("http://e.org/x"), first, 30_000_000),
        (7, 2.0, "12", False, Iri("http://e.org/y"), second, 60_000_000),
    }


def test_declared_and_empty() -> None:
    assert early(OPENING + VISITS) == []
    assert print_program(parse(OPENING)) == OPENING
    assert print_program(parse("fact a(x: int?, from: time).")) == "fact a(x: int?, from: time).\n"


@pytest.mark.parametrize(
    ("facts", "place", "message", "hint"),
    [
        ('opening(bakery, "06:30", time("18:00")).', (2, 17), "a time, but here it is a string", 'time("06:30")'),
        ('opening(7, time("6:30"), time("18:00")).', (2, 9), "`shop` of `opening` is declared a string", "shop: "),
        ('opening(a, time("6:30"), 2024-01-01).', None, "", ""),
        (
            'opening(a, time("6:30"), time("18:00")).\nopening(b, 2024-01-01, time("18:00")).',
            (3, 12), "is a time of day elsewhere, but a point in time here", "22:00",
        ),
        ('opening(a, time("6:30")).', (2, 1), "`opening` has 3 arguments elsewhere, but 2 here", "same number"),
        ("opening(S, 1, 2) :- shop(S). shop(7).", (2, 9), "declared a string, but here it is an int", "opening(shop"),
        ('opening(a, time("6:70"), time("18:00")).', (2, 17), "`6:70` is not a time of day", "`22:00`"),
        ("fact opening(x: int).", (2, 1), "`fact opening` is declared twice", ""),
    ],
)  # fmt: skip
def test_mistakes(facts: str, place: tuple[int, int] | None, message: str, hint: str) -> None:
    program = OPENING + facts
    if place is None:
        Engine.from_text(program)
        return
    with pytest.raises(CepError) as caught:
        Engine.from_text(program)
    error = caught.value.errors[0] if hasattr(caught.value, "errors") else caught.value
    assert message in error.message
    assert error.span is not None and (error.span.line, error.span.column) == place
    assert hint in (error.hint or "")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"shop": ["a", "b"], "from": ["06:30", "dawn"], "until": ["18:00", "19:00"]}, "`from` in row 2 of the table"),
        ({"shop": ["a", None], "from": ["06:30", "07:00"], "until": ["18:00", "19:00"]}, "row 2 of the table"),
        ({"shop": ["a"], "from": ["06:30"]}, "`opening` has 3 attributes, but its table has 2 columns: `shop`, `from`"),
        ({"shop": [1.5], "from": ["06:30"], "until": ["06:30"]}, "`shop` in row 1"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit(table: dict[str, list[object]], message: str) -> None:
    with pytest.raises(CepError) as caught:
        Engine.from_text(OPENING + VISITS, facts={"opening": pl.DataFrame(table)})
    assert message in str(caught.value)
    assert ":1:" in str(caught.value)
