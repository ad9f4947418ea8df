"""What an interpreter of `fluents.md` on its own, by brute force over small times, has found: reduced programs."""

from __future__ import annotations

import pytest

from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event

S = 1_000_000
EVENTS = "event e(x: int) TIME time.\nevent g(x: int).\n"


def given(program: str, *batches: list[Event]) -> dict[str, list[tuple[object, ...]]]:
    """All rows of a program, its input cut so, by type."""
    engine = Engine.from_text(program, lateness=0)
    made: dict[str, list[tuple[object, ...]]] = {}
    for frames in (*map(engine.push, batches), engine.close()):
        for name, table in frames.items():
            made.setdefault(name, []).extend(table.rows())
    return made


def test_a_late_fluent_that_asks_a_cycle_of_others_is_refused_at_once() -> None:
    program = EVENTS + (
        "fluent p(x: int). fluent q(x: int). fluent r(x: int).\n"
        "p(X) WHILE ONCE[0, 1 s] q(X).\n"
        "q(X) WHILE p(X) OR (g(X) WITHIN 2 s).\n"
        "r(X) WHILE p(X).\n"
        "o(X) <- BEGIN OF r(X).\n"
    )
    with pytest.raises(CepError, match="`r` is known only 2 s later"):
        Engine.from_text(program)


def test_held_may_stand_in_one_alternative_alone() -> None:
    program = EVENTS + (
        "fluent s(x: int).\ninitiate s(X) <- e(X).\n"
        "o(X) <- (g(X) WHERE not held(s(X), end() - 2 s)) OR (e(X) WHERE held(s(X), start())).\n"
        "o(X) <- (g(X) WHERE held(s(X), start())) OR (g(X) WHERE held(s(X), end() - 1 s), X = 2).\n"
    )
    events = [Event("e", (1,), S, S), Event("g", (1,), 2 * S, 2 * S), Event("g", (2,), S, 4 * S)]
    events += [Event("e", (1,), 5 * S, 5 * S)]
    assert sorted(given(program, events)["o"]) == [(S, 4 * S, 2), (2 * S, 2 * S, 1), (5 * S, 5 * S, 1)]


@pytest.mark.parametrize(
    ("rule", "bounds"),
    [
        ("ALWAYS(0, 2 s] p(X) WHILE p(X) OR r(X).", "()"),
        ("p(X) WHILE ONCE[0, 2 s] p(X) OR r(X).", "[)"),
        ("p(X) WHILE ONCE[1 s, 1 s] p(X) OR r(X).", "[)"),
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_what_a_recursion_holds_for_ever_still_holds_at_the_end(rule: str, bounds: str, cut: bool) -> None:
    program = EVENTS + f"fluent r(x: int) START s END t. fluent p(x: int).\n{rule}\no(X) <- e(X).\n"
    events = [Event("r", (2,), 2 * S, 4 * S), Event("e", (1,), 10 * S, 10 * S), Event("e", (1,), 11 * S, 11 * S)]
    batches = [[event] for event in events] if cut else [events]
    assert given(program, *batches)["p"] == [(2 * S, None, 2, bounds)]


@pytest.mark.parametrize("restored", [False, True])
def test_the_latest_end_is_that_of_a_record_too(restored: bool) -> None:
    program = EVENTS + (
        "fluent r(x: int) START s END t. fluent p(x: int).\n"
        "p(X) WHILE r(1) SINCE[1 s, 2 s] e(X).\nALWAYS[0, 3 s) p(X) WHILE p(X).\n"
    )
    engine = Engine.from_text(program, lateness=0)
    engine.push([Event("e", (1,), 9 * S, 9 * S), Event("r", (1,), 9 * S, 12 * S)])
    if restored:
        engine = Engine.from_text(program, lateness=0).restore(engine.snapshot())
    assert engine.close()["p"].rows() == [(10 * S, None, 1, "[)")]
