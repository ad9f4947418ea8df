"""What is wrong with statements about fluents is said where it is written; and examples of what they mean."""

from __future__ import annotations

import pytest

from cep.core.errors import CepError
from cep.engine import Engine, holds
from cep.events import Event, Held
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program

BASE = """event go(p: string, x: string) TIME time.
event tick(p: string) TIME time.
fluent on(p: string).
fluent at(p: string) = place: string.
initiate on(P) <- tick(P).
initiate at(P) = X <- go(P, X).
"""

MISTAKES = [
    ("initiate off(P) <- tick(P).", "`off` is not declared: there is no fluent of that name"),
    ("initiate tick(P) <- tick(P).", "`tick` is an event: there is no fluent of that name"),
    ("on(P) <- tick(P).", "`on` is a fluent, not an event"),
    ("event on(p: string).", "`on` is a"),
    ("fluent cold(p: string) START s END e. initiate cold(P) <- tick(P).", "`cold` is read from records"),
    ("fluent cold(p: string) TIME t.", "a fluent holds for a time"),
    ("initiate on(P, Q) <- go(P, Q).", "here it has 2 arguments"),
    ("terminate at(P) <- tick(P).", "fluent `at` has a value"),
    ("terminate on(P) = 3 <- tick(P).", "fluent `on` has no value: it holds or does not"),
    ("terminate at(P) = 3 <- tick(P).", "`place` of `at` is declared a string, but here it is an int"),
    ("on(P) ENDS AFTER 0 s.", "the time of a deadline must be longer than 0"),
    ("on(ann) ENDS AFTER 1 s.", "a deadline applies to all arguments of its fluent"),
    ("on(P) ENDS AFTER 1 s. on(P) ENDS AFTER 2 s.", "has a deadline for this value already"),
    ("at(P) = 3 ENDS AFTER 1 s.", "`place` of `at` is a string, this is an int"),
    ("on(P) BECOMES off AFTER 1 s.", "BECOMES needs a constant"),
    ("c(P) <- tick(P) WHERE (on(P) or P = x).", "the fluent `on` cannot stand among alternatives"),
    ("c(P) <- tick(P) WHERE at(P) < home.", "the fluent `at` cannot be used as a value or a function here"),
    ("c(P) <- tick(P) = 3.", "`tick` is an event, but only a fluent has a value"),
    ("c(P) <- BEGIN OF tick(P).", "`tick` is an event, but only a fluent has a value"),
    ("c(P) <- begin(on(P)) SEQ tick(P).", "for the beginning or end of a fluent, write `BEGIN OF on(...)`"),
    ("c(P) <- tick(P) SEQ ends(on(P)).", "for the beginning or end of a fluent, write `END OF on(...)`"),
    ("c(P) <- BEGIN OF on(7) AND tick(P).", "`p` of `on` is a string, this is an int"),
    ("c(P) <- BEGIN OF on(P) AND m(P). event m(x: int).", "it is a string as `p` of `on` and an int as `x` of `m`"),
    ("terminate on(P) <- END OF on(P).", "the beginnings and ends of `on` depend on themselves"),
    ('ALERT a ON tick(P) = 3 TITLE "x" FOR 1 h.', "`tick` is an event, but only a fluent has a value"),
    ('ALERT a ON on(P) = 3 TITLE "x" FOR 1 h.', "`on`"),
    ('ALERT a ON on(P) WHERE P = Q TITLE "x" FOR 1 h KEYED BY Q.', "`Q` of the key is not known when `on` ends"),
]


@pytest.mark.parametrize(("statement", "message"), MISTAKES)
def test_mistakes(statement: str, message: str) -> None:
    with pytest.raises(CepError) as raised:
        Engine.from_text(BASE + statement)
    assert message in str(raised.value)
    assert "^" in str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("BEGIN OF on(P) SEQ END OF on(P)", "every beginning and end of `on` waits for ever"),
        ("on(P) SEQ on(P)", "every beginning and end of `on` waits for ever"),
        ("long(P) SEQ tick(P)", "every beginning and end of `long` waits for ever"),
        ("BEGIN OF seen(P) SEQ tick(P)", "every beginning and end of `seen` waits for ever"),
    ],
)
def test_warnings_have_the_names_of_the_program(pattern: str, message: str) -> None:
    more = "fluent long(p: string). fluent seen(p: string) START a END b. long(P) WHILE on(P) LASTING >= 15 min. "
    (warning,) = Engine.from_text(f"{BASE}{more}c(P) <- {pattern}.").warnings
    assert warning.message == f"this SEQ never forgets: {message}"


def test_what_is_printed_is_read_back() -> None:
    text = (
        BASE
        + """terminate at(P) = _ <- BEGIN OF at(P) = "x" SEQ END OF on(P) SEQ on(P).
initially at(ann) = home.
initially on(P) WHERE pump(P).
at(P) = pub BECOMES "home" AFTER 3 h RENEWED.
on(P) ENDS AFTER 5 min.
fluent near(a: string FROM "A", b: string?) AS <http://x.org/Near> START s END e FORMAT csv(separator: ";").
fluent zone(a: string) = room: int IN 1..9 START s END e FORMAT "%d.%m.%Y".
"""
    )
    program = parse(text)
    assert parse(print_program(program)) == program


def test_what_an_event_begins_is_not_seen_at_its_instant_and_what_it_ends_is() -> None:
    program = (
        BASE
        + """terminate on(P) <- go(P, X).
seen(P) <- tick(P) WHERE on(P).
last(P, X) <- go(P, Y) WHERE at(P) = X, on(P).
never(P) <- go(P, X) WHERE not on(P).
"""
    )
    engine = Engine.from_text(program)
    events = [
        Event("tick", ("p",), 1, 1),
        Event("tick", ("p",), 2, 2),
        Event("go", ("p", "pub"), 3, 3),
        Event("go", ("p", "work"), 3, 3),
        Event("go", ("p", "work"), 4, 4),
        Event("tick", ("p",), 5, 5),
        Event("go", ("p", "home"), 6, 6),
    ]
    engine.receive(events)
    found = engine.close()
    assert found["seen"]["start"].to_list() == [2]
    assert found["never"]["start"].to_list() == [4]
    assert found["last"].rows() == [(6, 6, "p", "work")]
    assert holds(program, events, start=4, until=6) == [
        Held("at", ("p", "work"), 4, 6, "(]"),
        Held("on", ("p",), 5, 6, "(]"),
    ]


def test_intervals_are_occurrences_of_patterns() -> None:
    program = (
        BASE
        + """terminate on(P) <- go(P, X).
initially on(q).
long(P) <- on(P) WHERE duration() >= 3 s.
met(P) <- tick(P) DURING on(P).
ended(P) <- END OF on(P).
"""
    )
    second = 1_000_000
    engine = Engine.from_text(program)
    engine.receive(
        [
            Event("tick", ("p",), second, second),
            Event("tick", ("p",), 2 * second, 2 * second),
            Event("go", ("q", "x"), 3 * second, 3 * second),
            Event("go", ("p", "x"), 4 * second, 4 * second),
        ]
    )
    found = engine.close()
    assert found["long"].rows() == [(second, 4 * second, "p")]
    assert found["met"].rows() == [(second, 4 * second, "p")]
    assert found["ended"].rows() == [(3 * second, 3 * second, "q"), (4 * second, 4 * second, "p")]
    assert found["on"].sort("end").rows() == [(None, 3 * second, "q", "(]"), (second, 4 * second, "p", "(]")]
