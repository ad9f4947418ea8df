"""A relation whose left side ends last keeps no more than its converse: rights wait, lefts do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cep.core.interval_relations import RELATIONS, A, B, C, D, IntervalRelation, before
from cep.core.relation import FIRST, Table
from cep.core.time import Frontier
from cep.core.values import Pool
from cep.language.dialects.etalis import lower
from cep.language.syntax.parser import parse
from cep.operators.goals.pairs.join import JoinGoal
from cep.operators.goals.pairs.join_spec import JoinSpec
from cep.operators.pair import Pair
from cep.plan.explain import explain
from cep.plan.plan import Plan, plan

COVERS = IntervalRelation("COVERS", (before(A, C), before(D, B)), "fire(R) COVERS alarm(R)")


@pytest.fixture(autouse=True)
def covers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RELATIONS, "COVERS", COVERS)


def goal(relation: str) -> JoinGoal:
    spec = JoinSpec(
        relation=relation, policy="unrestricted", tie="longest", within=None, point=False, left_width=1, right_width=1,
        left_key=(0,), right_key=(0,), take_left=(0,), take_right=(), left_codes=(), right_codes=(),
    )  # fmt: skip
    return JoinGoal(spec)


def table(rows: list[tuple[int, int, int]], first: int = 0) -> Table:
    """Occurrences (start, end, key), by their ends."""
    made = np.zeros((FIRST + 1, len(rows)), np.int64)
    for place, (start, end, key) in enumerate(sorted(rows, key=lambda row: row[1])):
        made[:2, place], made[2:FIRST, place], made[FIRST, place] = (start, end), first + place, key
    return made


def test_which_side_ends_last() -> None:
    assert COVERS.completing == (0,) and COVERS.left_waits_an_instant and not COVERS.right_waits_an_instant
    assert RELATIONS["DURING"].completing == (1,) and RELATIONS["AND"].completing == (0, 1)
    assert RELATIONS["FINISHES"].left_waits_an_instant and RELATIONS["FINISHES"].right_waits_an_instant


def test_lefts_are_forgotten_at_once_and_pairs_are_those_of_the_converse() -> None:
    draw = np.random.default_rng(7)
    spans = [[sorted(draw.integers(0, 40, 2).tolist()) for _ in range(200)] for _ in range(2)]
    fires, alarms = ([(a, b, int(draw.integers(4))) for a, b in each] for each in spans)
    over, during = goal("COVERS"), goal("DURING")
    found: list[list[tuple[int, ...]]] = [[], []]
    for now in range(0, 41, 5):
        frontier = Frontier.at(now)
        left, right = (table([one for one in each if now - 5 < one[1] <= now], 1000 * now) for each in (fires, alarms))
        for made, mine, inputs in ((found[0], over, (left, right)), (found[1], during, (right, left))):
            gives = mine.step(inputs, frontier)
            made += [tuple(column) for column in np.delete(gives, [2, 3], axis=0).T.tolist()]
            mine.evict(frontier, wholly=True)
        waiting = sum(end <= now for _, end, _ in alarms)
        assert over.size[0] == during.size[0] == waiting  # alarms alone
    assert found[0] and sorted(found[0]) == sorted(found[1])


def planned(relation: str, policy: str) -> Plan:
    rules = lower(parse(f"e(K) <- (f(K) SEQ g(K)) POLICY {policy}.", "p"), None, {})
    body = rules.rules[0].body
    assert isinstance(body, Pair)
    rules = replace(rules, rules=(replace(rules.rules[0], body=replace(body, relation=relation)),))
    return plan(rules, {}, Pool(), frozenset())


@pytest.mark.parametrize("policy", ["unrestricted", "recent", "chronological"])
def test_the_plan_says_so(policy: str) -> None:
    join = planned("COVERS", policy).nodes[2]
    facts = join.properties()
    assert (facts.waits, facts.completes, facts.earlier[:1]) == ((1,), (0,), (1,))
    chosen = {"recent": (0,), "chronological": (0, 1)}.get(policy, ())
    assert tuple(part for part in (0, 1) if join.undivided(part, "it") is not None) == chosen
    text = explain(planned("COVERS", policy))
    assert "remembers  g(K)" in text and "remembers  f(K)" not in text
