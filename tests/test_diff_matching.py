"""What appeared, is gone or moved, against the definitions: bags, keys, overlaps, and the order of matching."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random
from typing import Any

import pytest

from cep.core.fluents import HOLDS, FluentTable
from cep.core.schema import Attribute, Schema
from cep.diff.matching import ComparedEvent, Difference, compared_event
from cep.diff.rows import Row
from cep.engine import Engine
from tests.long import seeds

Named = tuple[Any, ...]


def schema(*attributes: tuple[str, str], fluent: bool = False) -> Schema:
    table = FluentTable(HOLDS, "e", False) if fluent else None
    return Schema("e", tuple(Attribute(*each) for each in attributes), True, False, fluent=table)


def rows_of(random: Random, fluent: bool, names: list[str]) -> Counter[Row]:
    found: list[Row] = []
    for _ in range(random.randrange(9)):
        start = random.randrange(8)
        end = start + random.randrange(4)
        values = ["ab"[random.randrange(2)] if name == "key" else random.randrange(2) for name in names]
        if not fluent:
            found.append((start, end, *values))
            continue
        bounds = random.choice(["[]", "(]", "[)", "()"]) if start < end else "[]"
        since, until = (None if random.random() < 0.1 else start), (None if random.random() < 0.1 else end)
        found.append((since, until, *values, bounds))
    return Counter(found)


def instants(row: Row, fluent: bool) -> set[float]:
    """The instants of a row among those at halves of a second: what overlaps shares some."""
    start, end = -9.0 if row[0] is None else row[0], 99.0 if row[1] is None else row[1]
    bounds = row[-1] if fluent else "[]"
    every = {step / 4 for step in range(-36, 397)}
    return {
        at
        for at in every
        if (start < at or (start == at and bounds[0] == "[")) and (at < end or (at == end and bounds[1] == "]"))
    }


def named(row: Row, names: list[str], fluent: bool) -> Named:
    values = tuple(sorted(zip(names, row[2:])))
    return (row[0], row[1], values, row[-1] if fluent else "")


def length(one: Row, other: Row, fluent: bool) -> float:
    """How much two rows overlap: below 0 they do not. An end that does not belong to a row is a little inside."""
    ends = []
    for row in (one, other):
        bounds = row[-1] if fluent else "[]"
        first = -1e9 if row[0] is None else row[0] + (0.5 if bounds[0] == "(" else 0)
        last = 1e9 if row[1] is None else row[1] - (0.5 if bounds[1] == ")" else 0)
        ends.append((first, last))
    return min(ends[0][1], ends[1][1]) - max(ends[0][0], ends[1][0])


@pytest.mark.parametrize("seed", seeds(1000))
def test_differences_are_those_of_the_definition(seed: int) -> None:
    random = Random(seed)
    fluent = random.random() < 0.5
    one = [("key", "string"), ("n", "int")]
    other = random.choice([one, one, one[::-1], [*one, ("m", "int")]])
    event = compared_event("e", schema(*one, fluent=fluent), schema(*other, fluent=fluent))
    assert event.key == ("key",)
    names = [[name for name, _ in each] for each in (one, other)]
    old, new = rows_of(random, fluent, names[0]), rows_of(random, fluent, names[1])
    found = event.compare(old, new)

    bags = [Counter(named(row, names[side], fluent) for row in rows.elements()) for side, rows in enumerate((old, new))]
    told = Counter(named(each.old, names[0], fluent) for each in found if each.old is not None)
    assert told == bags[0] - bags[1], "what is gone, and what moved from there"
    told = Counter(named(each.new, names[1], fluent) for each in found if each.new is not None)
    assert told == bags[1] - bags[0], "what appeared, and what moved to there"

    keys = [side.index("key") + 2 for side in names]
    moved = [each for each in found if each.kind == "moved"]
    ranks: dict[int, tuple[float, float, float]] = {}
    for each in moved:
        ranks[id(each)] = rank(each.old, each.new, keys, fluent)
    with_old = {id(each.old): ranks[id(each)] for each in moved}
    with_new = {id(each.new): ranks[id(each)] for each in moved}
    olds = [each.old for each in found if each.old is not None]
    news = [each.new for each in found if each.new is not None]
    for a, b in product(olds, news):
        if a[keys[0]] == b[keys[1]] and instants(a, fluent) & instants(b, fluent):
            own = rank(a, b, keys, fluent)
            taken = [ranks[id(a)] for ranks, a in ((with_old, a), (with_new, b)) if id(a) in ranks]
            assert taken and min(taken) <= own, "one of the two has a better partner, or as good a one"


def rank(old: Row | None, new: Row | None, keys: list[int], fluent: bool) -> tuple[float, float, float]:
    """What the matching goes by, the best first; the two have one key and overlap."""
    assert old is not None and new is not None
    assert old[keys[0]] == new[keys[1]] and instants(old, fluent) & instants(new, fluent)
    first, begin = (
        -1e9 if row[0] is None else row[0] + (0.5 if fluent and row[-1][0] == "(" else 0) for row in (old, new)
    )
    return -length(old, new, fluent), first, begin


def test_the_key_is_the_one_asked_for_or_of_an_alert_or_the_texts() -> None:
    program = """
    event hot(box: string, room: string, temp: float).
    hot(B, R, T) <- reading(B, R, T) WHERE T > 7.0.
    ALERT heat ON hot(box: B, room: R) TITLE "{B} {R}" FOR 1 h KEYED BY R.
    """
    engine = Engine.from_text(program, types={"reading": ("string", "string", "float")}, alerts=True)
    own, alerts = engine.outputs["hot"], engine.alerts
    assert compared_event("hot", own, own, alerts, (), ["temp"]).key == ("temp",)
    assert compared_event("hot", own, own, alerts).key == ("room",)
    assert compared_event("hot", own, own).key == ("box", "room")
    fewer = schema(("box", "string"), ("temp", "float"))
    assert compared_event("hot", own, fewer, alerts).key == ("box",), "the other one has no room"


def test_an_event_and_a_fluent_of_one_name_are_never_the_same() -> None:
    event = ComparedEvent("e", schema(("key", "string")), schema(("key", "string"), fluent=True), ("key",))
    found = event.compare(Counter([(0, 2, "a")]), Counter([(0, 2, "a", "[]")]))
    assert found == [
        Difference("gone", "e", (0, 2, "a"), None),
        Difference("appeared", "e", None, (0, 2, "a", "[]")),
    ]
