"""Random programs and streams: every way of running the engine gives what the reference interpreter gives.

`SEMCEP_FUZZ=n` runs n times as many examples, new ones each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.engine import Engine, detect
from cep.events import Event
from tests import reference
from tests.cases_format import difference, sort_key
from tests.conftest import FUZZ
from tests.programs import SECOND, Program, iterations, programs, recursions

ANY = {"programs": programs(), "iterations": iterations(), "recursions": recursions()}


def examples(number: int) -> Callable[[Any], Any]:
    return settings(max_examples=number * max(1, FUZZ))


def rows(output: Mapping[str, pl.DataFrame]) -> list[Event]:
    """What a push gives, as events."""
    found = []
    for type, table in output.items():
        for start, end, *args in table.iter_rows():
            found.append(Event(type, tuple(args), start, end))
    return found


def run(program: str, batches: Iterable[Iterable[Event]], **options: Any) -> list[Event]:
    engine = Engine.from_text(program, **options)
    found = [event for batch in batches for event in rows(engine.push(batch))]
    return found + rows(engine.close())


def check(expected: list[Event], actual: list[Event], what: str) -> None:
    """The same events, each once."""
    found = difference(expected, actual)
    assert not found, f"{what}:\n{found}"


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sorted by (end, start), the order of arrival kept among equals."""
    return sorted(events, key=lambda event: (event.end, event.start))


@pytest.mark.parametrize("group", range(4))
@examples(400)
@given(data=st.data())
def test_engine_is_reference(group: int, data: st.DataObject) -> None:
    program = data.draw(ANY["programs"])
    expected = reference.detect(program.text, program.events)
    actual = detect(program.text, program.events)
    check(expected, actual, "the engine (+) is not the reference (-)")
    assert [(e.end, e.start, e.type) for e in actual] == sorted((e.end, e.start, e.type) for e in actual)
