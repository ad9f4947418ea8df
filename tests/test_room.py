"""The rooms that kernels write into: programs that once wrote past them, and a run does not depend on their sizes.

`make checked` is the wide net: it runs random programs with every index checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from cep.connectors.writing.json_lines import TextPieces, merged
from cep.core import hashtable
from cep.core.array_capacity import CHECKED
from cep.core.chains import Chains
from cep.engine import Engine, detect
from cep.events import Event
from cep.knowledge.rdf.relation import packed, unpacked
from cep.knowledge.reasoning.transitivity import reachable_pairs
from cep.operators.goals import store
from cep.operators.goals.pairs import join, pairing, unless
from cep.operators.goals.windows import sliding_aggregate
from tests import reference
from tests.cases_format import difference
from tests.program_maker import SECOND
from tests.programs import Program, contests, iterations, loops, programs, recursions, windows
from tests.test_equivalence import examples, in_order, push, rows, types

GUARD = 0x5EED_5EED_5EED_5EED


def points(type: str, *values: tuple[Any, int]) -> list[Event]:
    return [Event(type, (value,), at * SECOND, at * SECOND) for value, at in values]


MANY_ROWS = (  # of one key, more than the store was made for
    "event q(station: string). s(S, 1) <- q(S). s(S, C + 1) <- (s(S, C) SEQ q(S)) WITHIN 6 h.",
    points("q", *(("A", 3600 * i) for i in range(7)), *((f"B{j}", 28800 + j) for j in range(30))),
)
FED_AT_ONCE = (
    "event a(v: int). policy unrestricted. x(C) <- a(C). x(X - C) <- (x(C) SEQ a(X)) WITHIN 3 WHERE X > 1.",
    points("a", (2, 0), (3, 0), (0, 1), (2, 2), (3, 3), (0, 4), (1, 8)),
)
WITHOUT_NAMES = ("e(X, Y) <- a(X) SEQ b(Y) WHERE X < Y.", [*points("a", (5, 1), (1, 2)), *points("b", (3, 3))])


@pytest.mark.parametrize("text, events", [MANY_ROWS, FED_AT_ONCE])
def test_pairs_and_rows_stay_in_their_rooms(text: str, events: list[Event], monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pairing.pair

    def guarded(*given: Any) -> bool:
        rooms: list[tuple[Any, Any]] = []

        def in_wide_room(each: Any) -> Any:
            if isinstance(each, tuple):
                return tuple(map(in_wide_room, each))
            if not isinstance(each, np.ndarray) or each.ndim != 2:
                return each
            wide = np.full((len(each) + 64, each.shape[1]), GUARD)
            wide[: len(each)] = each
            rooms.append((wide, each))
            return wide[: len(each)]

        done: bool = pair(*map(in_wide_room, given))
        assert len(rooms) > 8, "the tables, the stores and the pairs"
        for wide, each in rooms:
            assert (wide[len(each) :] == GUARD).all(), "a kernel wrote past the end"
            each[:] = wide[: len(each)]
        return done

    monkeypatch.setattr(pairing, "pair", guarded)
    assert not difference(reference.detect(text, events), detect(text, events))


def test_no_names_are_taken_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(table: Any, index: Any) -> Any:
        assert int(index.max(initial=-1)) < table.shape[1], "it reads past the end"
        return np.ascontiguousarray(table[:, index])

    monkeypatch.setattr(join, "take", take)
    text, events = WITHOUT_NAMES
    assert not difference(reference.detect(text, events), detect(text, events))


@examples(250)
@given(st.one_of(programs(), contests(), windows(), iterations(), loops(), recursions()))
def test_nothing_depends_on_the_rooms(program: Program) -> None:
    """A kernel that is stopped for want of room at every pair and row gives, to the bit, what it gives in one go."""
    wide = outcome(program)
    with exact_rooms():
        assert outcome(program) == wide


def outcome(program: Program) -> tuple[list[Event], bytes, list[Event]]:
    """What the engine gives, with the records it goes back to, and its state in between."""
    events = in_order(program.events)
    half = len(events) // 2
    engine = Engine.from_text(program.text, types=types(program.events), explain=True)
    first = push(engine, events[:half])
    state = engine.snapshot()
    return first, state, push(engine, events[half:]) + rows(engine.close())


@contextmanager
def exact_rooms() -> Iterator[None]:
    """Every array that grows has just the room asked for, as in the checked run."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (sliding_aggregate, hashtable, join, store, unless):
            patch.setattr(module, "roomy", lambda needed, likely: needed)
        yield


def test_an_index_beyond_an_array() -> None:
    """The checked run is what it says: it refuses one on either side, which else would be read, or written to."""
    array = np.arange(3)
    assert at(array, 2) == 2
    if not CHECKED:
        assert at(array, -1) == 2, "as Python has it"
        return
    for index in (3, -1, -(2**40)):
        with pytest.raises(IndexError):
            at(array, index)


@njit  # type: ignore[untyped-decorator]
def at(array: Any, index: int) -> Any:
    return array[index]


# --- kernels that went by what nobody checked ---


def test_a_walk_has_room_for_all_that_closed_leads_to() -> None:
    """Even where it says so twice, which it should not."""
    a, b = np.zeros(500, np.int64), np.repeat(np.arange(1, 6), 100)
    found = reachable_pairs(packed(a, b), packed(np.array([5]), np.array([6])))
    assert [end.tolist() for end in unpacked(found)] == [[0, 5], [6, 6]]


def test_texts_taken_twice_or_left_out() -> None:
    pieces = TextPieces(np.frombuffer(b"abbccc", np.uint8), np.array([0, 1, 3, 6]))
    assert merged([pieces], np.array([2, 1, 0])) == b"cccbba"
    assert merged([pieces], np.array([2, 2, 2])) == b"ccccccccc"
    assert merged([pieces], np.array([2, 0])) == b"ccca"
    assert merged([pieces], np.array([0, 2])) == b"accc"


def test_a_row_of_no_group_is_refused() -> None:
    chains = Chains()
    assert [part.tolist() for part in chains.expand(np.array([-1, -1]))] == [[], []]
    chains.append(np.array([0, 1, 0]), 2)
    assert [part.tolist() for part in chains.expand(np.array([1, -1, 0]))] == [[0, 2, 2], [1, 0, 2]]
    for wrong in ([0, -1], [2]):
        with pytest.raises(AssertionError, match="one of the groups"):
            chains.append(np.array(wrong), 2)
    assert chains.rows == 3
