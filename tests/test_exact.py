"""Numbers at the edge of 64 bits: every way of deciding decides the same, an int beside a float exactly."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import pytest

from cep.engine import Engine, detect
from cep.events import Event
from tests import reference

POLICIES = ("unrestricted", "recent", "chronological")
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
DECLARED = "event a(k: int, x: int) TIME t. event b(k: int, y: float) TIME t. event c(k: int, z: int) TIME t.\n"
EDGES = (0, 1, 2**31, 2**53, 2**62, 2**63 - 1)


def ints(chance: random.Random, count: int) -> list[int]:
    found = [2**53]
    while len(found) < count:
        value = chance.choice((-1, 1)) * chance.choice(EDGES) + chance.randint(-3, 3)
        found += [value] if -(2**63) < value < 2**63 else []
    return found


def floats(chance: random.Random, count: int) -> list[float]:
    found = [float(value) + chance.choice((0.0, 0.0, 0.5, 2048.0)) for value in ints(chance, count)]
    return [*found, 2.0**53, 2.0**63, -(2.0**63)]


def pairs(left: str, lefts: list[Any], right: str, rights: list[Any]) -> list[Event]:
    """Each left with each right, under a key of its own."""
    found = []
    for key, (x, y) in enumerate((x, y) for x in lefts for y in rights):
        found += [Event(left, (key, x), 2 * key, 2 * key), Event(right, (key, y), 2 * key + 1, 2 * key + 1)]
    return found


def keys(events: list[Event]) -> list[int]:
    return sorted(event.args[0] for event in events if event.type == "x")  # type: ignore[misc]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sign", COMPARISONS)
def test_an_int_and_a_float_compare_exactly_under_every_policy(policy: str, sign: str) -> None:
    chance = random.Random(f"{policy} {sign}")
    lefts, rights = ints(chance, 12), floats(chance, 12)
    events = pairs("a", lefts, "b", rights)
    both = [(x, y) for x in lefts for y in rights]
    forward = [key for key, (x, y) in enumerate(both) if COMPARISONS[sign](x, y)]
    backward = [key for key, (x, y) in enumerate(both) if COMPARISONS[sign](y, x)]
    assert 0 < len(forward) < len(both)
    policies = DECLARED + f"policy {policy}. "
    assert keys(detect(f"{policies} x(K) <- a(K, X) SEQ b(K, Y) WHERE X {sign} Y.", events)) == forward
    assert keys(detect(f"{policies} x(K) <- a(K, X) SEQ b(K, Y) WHERE Y {sign} X.", events)) == backward
    assert keys(detect(f"policy {policy}. x(K) <- a(K, X) SEQ b(K, Y) WHERE X {sign} Y.", events)) == forward


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("sign", COMPARISONS)
def test_and_in_linear_recursion(sign: str, fast: bool) -> None:
    chance = random.Random(sign)
    lefts, rights = ints(chance, 12), floats(chance, 12)
    expected = [
        key for key, (x, y) in enumerate((x, y) for x in lefts for y in rights) if COMPARISONS[sign](x, y)
    ]  # fmt: skip
    program = DECLARED + f"s(K, X, 0) <- a(K, X). s(K, X, N + 1) <- s(K, X, N) SEQ b(K, Y) WHERE X {sign} Y.\n"
    engine = Engine.from_text(program + "x(K) <- s(K, X, 1).", lateness=None, fast_recursion=fast)
    assert len(engine.goals()) == 1
    engine.receive(pairs("a", lefts, "b", rights))
    assert sorted(engine.close()["x"]["k"].to_list()) == expected and expected


@pytest.mark.parametrize("known, given", [("float", "int"), ("int", "float")])
def test_facts_are_asked_for_what_equals_them_exactly(known: str, given: str) -> None:
    chance = random.Random(known)
    for _ in range(20):
        some: list[Any] = ints(chance, 6) if known == "int" else floats(chance, 6)
        asked: list[Any] = floats(chance, 6) if known == "int" else ints(chance, 6)
        facts = "".join(f"p({value!r})." for value in some if "e" not in repr(value)) + f"p({some[0]!r})."
        held = {value for value in some if "e" not in repr(value)} | {some[0]}
        events = [Event("e", (key, value), key, key) for key, value in enumerate(asked)]
        program = f"event e(k: int, v: {given}) TIME t. {facts} x(K) <- e(K, V) WHERE"
        assert keys(detect(f"{program} p(V).", events)) == [k for k, v in enumerate(asked) if v in held]
        assert keys(detect(f"{program} not p(V).", events)) == [k for k, v in enumerate(asked) if v not in held]


def test_a_constant_that_the_facts_cannot_have_is_not_among_them() -> None:
    events = [Event("e", (1,), 0, 0)]
    program = "event e(k: int) TIME t. p(2). p(9007199254740992.0). q(2). x(K) <- e(K) WHERE"
    assert keys(detect(f"{program} not p(2.5).", events)) == [1]
    assert keys(detect(f"{program} not q(2.5).", events)) == [1]
    assert keys(detect(f"{program} not p(9007199254740993).", events)) == [1]
    assert keys(detect(f"{program} p(9007199254740993).", events)) == []
    assert keys(detect(f"{program} p(9007199254740992).", events)) == [1]


def test_joins_and_constants_of_patterns() -> None:
    big = 2**53
    events = [Event("a", (1, big + 1), 0, 0), Event("b", (1, float(big)), 1, 1), Event("a", (2, 2**63 - 1), 2, 2)]
    events += [Event("b", (2, 2.0**63), 3, 3), Event("a", (3, big), 4, 4), Event("b", (3, float(big)), 5, 5)]
    for policy in POLICIES:
        assert keys(detect(DECLARED + f"policy {policy}. x(K) <- a(K, V) SEQ b(K, V).", events)) == [3]
    assert keys(detect(DECLARED + f"x(K) <- b(K, {big + 1}).", events)) == []
    assert keys(detect(DECLARED + f"x(K) <- b(K, {big}).", events)) == [1, 3]
    assert keys(detect(DECLARED + f"x(K) <- a(K, {float(big)}).", events)) == [3]
    twice = "event a(k: int, v: int, w: float) TIME t. x(K) <- a(K, V, V)."
    assert keys(detect(twice, [Event("a", (1, big + 1, float(big)), 0, 0), Event("a", (2, 7, 7.0), 1, 1)])) == [2]


@pytest.mark.parametrize("function", ["+", "-", "*", "//", "mod", "min", "max", "neg", "abs"])
@pytest.mark.parametrize("kind", ["int", "float"])
def test_arithmetic_of_the_machine_is_that_of_columns_and_of_the_reference(function: str, kind: str) -> None:
    """Under `chronological` the machine computes, under `recent` columns do."""
    chance = random.Random(f"{function} {kind}")
    lefts: list[Any] = ints(chance, 14) if kind == "int" else floats(chance, 14)
    rights: list[Any] = ints(chance, 14) if kind == "int" else floats(chance, 14)
    if function in ("min", "max"):
        value = f"{function}(X, Y)"
    elif function in ("neg", "abs"):
        value = "-X - Y" if function == "neg" else "abs(X) - abs(Y)"
    else:
        value = f"X {function} Y"
    events = pairs("a", lefts, "b", rights)
    declared = f"event a(k: int, x: {kind}) TIME t. event b(k: int, y: {kind}) TIME t.\n"
    for sign, limit in (("<", 0), (">=", 0), ("=", rights[0])):
        rule = f"x(K) <- a(K, X) SEQ b(K, Y) WHERE {value} {sign} {limit!r}."
        machine = keys(detect(f"{declared} policy chronological. {rule}", events))
        assert machine == keys(detect(f"{declared} policy recent. {rule}", events))
        assert machine == keys(reference.detect(f"policy unrestricted. {rule}", events))
    rule = f"x(K, {value}) <- a(K, X) SEQ b(K, Y)."
    columns = sorted((event.args for event in detect(declared + rule, events)), key=lambda args: args[0])  # type: ignore[arg-type, return-value]
    given = sorted((event.args for event in reference.detect(rule, events)), key=lambda args: args[0])
    assert columns == given


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sign", COMPARISONS)
def test_values_of_unknown_type_compare_as_numbers_do(policy: str, sign: str) -> None:
    chance = random.Random(f"any {policy} {sign}")
    lefts = [*ints(chance, 7), *floats(chance, 4)]
    rights = [*ints(chance, 7), *floats(chance, 4)]
    events = pairs("a", lefts, "b", rights)
    both = [(x, y) for x in lefts for y in rights]
    expected = [key for key, (x, y) in enumerate(both) if COMPARISONS[sign](x, y)]
    rule = f"policy {policy}. x(K) <- a(K, X) SEQ b(K, Y) WHERE X {sign} Y."
    assert keys(detect(rule, events)) == expected
    for function, choose in (("max", max), ("min", min)):
        rule = f"policy {policy}. x(K) <- a(K, X) SEQ b(K, Y) WHERE {function}(X, Y) = X."
        expected = [key for key, (x, y) in enumerate(both) if choose(x, y) == x]
        assert keys(detect(rule, events)) == expected
    rule = f"policy {policy}. x(K) <- a(K, V) SEQ b(K, V)."
    assert keys(detect(rule, events)) == [key for key, (x, y) in enumerate(both) if x == y]
