"""Steps are done wholly: an engine whose step ended in the middle is not gone on with, and never saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from cep.core.errors import CepError
from cep.core.time import Frontier
from cep.engine import Engine
from cep.events import Event
from cep.operators.goals.keys import Keys
from cep.operators.goals.pairs import join, pairing, unless
from cep.operators.goals.pairs.join import JoinGoal
from cep.operators.goals.pairs.unless import AbsenceDeadline
from cep.operators.goals.windows.sliding_aggregate import SlidingAggregate
from tests.program_maker import SECOND

PROGRAM = """
event a(k: int, v: int). event b(k: int, v: int).
both(K, X, Y) <- NOT(c(K)).[a(K, X), b(K, Y)] WITHIN 20 s.
event c(k: int).
alone(K) <- a(K, _) UNLESS b(K, _) WITHIN 5 s.
most(K, M) <- b(K, V) AGGREGATE M = max(V) OVER LAST 9 s BY K.
"""


def events(first: int, last: int) -> list[Event]:
    names = ("a", "b", "c", "a", "a", "b")
    made = []
    for i in range(first, last):
        args = (i % 7,) if names[i % 6] == "c" else (i % 7, i)
        made.append(Event(names[i % 6], args, i * SECOND, i * SECOND))
    return made


def given(output: dict[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
    return [(name, *row) for name, table in output.items() for row in table.iter_rows()]


def uses(engine: Engine) -> list[Callable[[], object]]:
    return [
        lambda: engine.push(events(90, 99)),
        lambda: engine.receive(events(90, 99)),
        lambda: engine.advance(200 * SECOND),
        engine.forget,
        engine.snapshot,
        engine.close,
    ]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError, CepError("too many", code="recursion")])
@pytest.mark.parametrize("place", ["room", "tidied", "still_absent", "assemble"])
def test_an_exception_in_a_step(
    failure: BaseException | type[BaseException], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In it goals are half of before and half of after."""
    engine = Engine.from_text(PROGRAM)
    engine.push(events(0, 40))
    blob = engine.snapshot()
    rest = given(Engine.from_text(PROGRAM).restore(blob).push(events(40, 90)))

    def fails(*given: Any) -> Any:
        raise failure

    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, MemoryError, CepError)):
        patch.setattr(join, place, fails)
        engine.push(events(40, 90))
        engine.snapshot()
    for use in uses(engine):
        with pytest.raises(CepError, match="stopped in the middle of a step") as caught:
            use()
        assert caught.value.code == "broken" and "last snapshot" in str(caught.value.hint)
    assert given(Engine.from_text(PROGRAM).restore(blob).push(events(40, 90))) == rest


def test_an_endless_recursion_leaves_a_step_in_the_middle() -> None:
    engine = Engine.from_text("event a. x(0) <- a. x(N + 1) <- x(N).", max_derivations=100)
    with pytest.raises(CepError, match="a recursion does not end"):
        engine.push([Event("a", (), 0, 0), Event("a", (), SECOND, SECOND)])
    with pytest.raises(CepError, match="middle of a step"):
        engine.close()


def test_what_is_refused_breaks_nothing() -> None:
    engine = Engine.from_text(PROGRAM)
    expected = given(Engine.from_text(PROGRAM).push(events(0, 40)))
    with pytest.raises(CepError, match="does not read"):
        engine.push([Event("z", (), 0, 0)])
    with pytest.raises(CepError, match="column"):
        engine.push({"a": pl.DataFrame({"time": [1]})})
    with pytest.raises(CepError, match="no knowledge"):
        engine.update(5)
    with pytest.raises(CepError, match="another program"):
        engine.restore(Engine.from_text("x <- a.").snapshot())
    assert given(engine.push(events(0, 40))) == expected


@pytest.mark.parametrize(
    "place, name",
    [*((place, name) for place in (pairing, unless) for name in ("kept", "renumber", "relink")), (Keys, "of")],
)
def test_copies_take_the_place_of_what_they_are_of_at_once(
    place: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a goal moves its rows to new arrays, it has the old ones until the new ones are whole."""
    expected = given(Engine.from_text(PROGRAM).push(events(0, 90)))
    engine = Engine.from_text(PROGRAM)
    found = given(engine.push(events(0, 40)))

    def fails(*given: Any) -> Any:
        raise KeyboardInterrupt

    kinds = {pairing: JoinGoal, unless: AbsenceDeadline, Keys: SlidingAggregate}
    goals = [goal for _, goal in engine._machine.goals() if isinstance(goal, kinds[place])]
    assert goals
    monkeypatch.setattr(place, name, fails)
    for goal in goals:
        with pytest.raises(KeyboardInterrupt):
            goal.evict(Frontier.at(engine.watermark), wholly=True)
    monkeypatch.undo()
    found += given(engine.push(events(40, 90)))
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
