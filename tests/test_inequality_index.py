"""Joins with an inequality over many waiting rows: the index finds the pairs that trying every row finds."""

from __future__ import annotations

from collections.abc import Callable
from operator import ge, gt, le, lt
from random import Random
from typing import Any

import pytest

from cep.engine import Engine, detect
from cep.events import Event
from cep.operators.goals.pairs.join import JoinGoal
from cep.runtime.machine import Machine
from tests.program_maker import SECOND
from tests.test_attempts import given, tried
from tests.test_equivalence import push, rows

DECLARED = "event a(k: int, x: int). event b(k: int, y: int).\n"
COMPARED: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
WITHIN = 1000


def stream(count: int, keys: int, values: int, seed: int) -> list[Event]:
    random = Random(seed)
    times = (number // 2 * SECOND for number in range(count))
    return [Event(random.choice("ab"), (random.randrange(keys), random.randrange(values)), t, t) for t in times]


def expected(events: list[Event], fits: Callable[[Any, Any], bool], uses_up: bool) -> list[tuple[Any, ...]]:
    """The pairs by trying every row: all, or with each `a` used up by the first `b` that it fits."""
    waiting: dict[Any, list[Event]] = {}
    pairs = []
    for event in events:
        rows = waiting.setdefault(event.args[0], [])
        if event.type == "a":
            rows.append(event)
            continue
        for row in list(rows):
            near = row.end < event.start <= row.start + WITHIN * SECOND
            if near and fits(event.args[1], row.args[1]):
                pairs.append((row.start, event.end, row.args[1], event.args[1]))
                if uses_up:
                    rows.remove(row)
                    break
    return sorted(set(pairs))  # equal occurrences are one


def pairs(events: list[Event]) -> list[tuple[Any, ...]]:
    return sorted((each.start, each.end, *each.args) for each in events)


@pytest.mark.parametrize("policy", ["unrestricted", "chronological"])
@pytest.mark.parametrize("operator", COMPARED)
@pytest.mark.parametrize(("keys", "values"), [(1, 5000), (3, 40)])
def test_the_index_finds_what_trying_every_row_finds(policy: str, operator: str, keys: int, values: int) -> None:
    rule = f"o(X, Y) <- (a(K, X) SEQ b(K, Y) WHERE Y {operator} X + {values // 8}) WITHIN 1000 POLICY {policy}."
    events = stream(2500, keys, values, len(operator) + keys)

    def fits(y: int, x: int) -> bool:
        return COMPARED[operator](y, x + values // 8)

    wanted = expected(events, fits, policy == "chronological")
    assert len(wanted) > 100
    assert pairs(detect(DECLARED + rule, events)) == wanted


def test_the_index_is_built_anew_after_a_stop() -> None:
    text = f"{DECLARED}o(X, Y) <- (a(K, X) SEQ b(K, Y) WHERE Y > X + 90) WITHIN 1000 POLICY chronological."
    events = stream(3000, 2, 100, 5)
    engine = Engine.from_text(text)
    found: list[Event] = []
    for start in range(0, len(events), 500):
        found += push(engine, events[start : start + 500])
        engine = Engine.from_text(text).restore(engine.snapshot())
    found += rows(engine.close())
    assert pairs(found) == expected(events, lambda y, x: y > x + 90, True)


@pytest.mark.parametrize("policy", ["unrestricted", "chronological"])
def test_the_index_is_right_after_steps_that_are_taken_back(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{DECLARED}o(X, Y) <- (a(K, X) SEQ b(K, Y) WHERE Y > X + 80) WITHIN 1000 POLICY {policy}."
    events = stream(800, 2, 100, 7)
    expected = given(Engine.from_text(text), events, Random(1))
    monkeypatch.setattr(Machine, "step", tried)
    assert given(Engine.from_text(text), events, Random(1)) == expected != {}


def test_a_tree_is_built_where_few_rows_fit() -> None:
    """`Y - X > 990` asks the same of each pair, one by one."""
    events = stream(6000, 1, 1000, 1)
    trees = []
    for condition in ("Y > X + 990", "Y - X > 990"):
        engine = Engine.from_text(f"{DECLARED}o(X, Y) <- (a(K, X) SEQ b(K, Y) WHERE {condition}) WITHIN 10000.")
        assert engine.push(events)
        goals = [getattr(goal, "goal", goal) for _, goal in engine._machine.goals()]
        trees += [len(goal.index.nodes) for goal in goals if isinstance(goal, JoinGoal)]
    assert len(trees) == 2 and trees[0] > 0 and trees[1] == 0
