"""The stack machine of conditions and heads: it has as many cells as the program needs, however deep that is."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

import numpy as np
import pytest

from cep.engine import Engine, detect
from cep.events import Event
from cep.language.syntax.cursor import DEEPEST
from cep.operators.goals.pairs.bytecode import LEFT, compile_stack, stack_cells
from cep.operators.goals.pairs.join import JoinGoal
from cep.operators.goals.pairs.linear_recursion import LinearRecursion
from cep.rules.expressions.typed import TypedCall, TypedConstant, TypedVariable

DEPTH = DEEPEST - 4  # the pattern and the condition are levels of nesting too
POLICIES = ("unrestricted", "recent", "chronological")
EVENTS = [Event("a", (1, 5), 0, 0), Event("b", (1, 3), 1, 1), Event("b", (1, 9), 2, 2)]


def nested(function: str, inner: str, depth: int = DEPTH) -> str:
    """The function of the variable and, on its right, of itself: each level keeps a value on the stack."""
    text = inner
    for _ in range(depth):
        text = f"{function}({inner}, {text})"
    return text


def goals(engine: Engine) -> list[JoinGoal]:
    return [goal for _, goal in engine._machine.goals() if isinstance(goal, JoinGoal)]


@pytest.mark.parametrize("depth", [1, 2, 62, 63, 64, 65, DEPTH])
def test_a_program_needs_a_cell_for_each_level_on_the_right(depth: int) -> None:
    typed = x = TypedVariable("x", "int")
    for _ in range(depth):
        typed = TypedCall("max", (x, typed), "int")  # type: ignore[assignment]
    compiled = compile_stack([typed], {"x": (LEFT, 0)}, lambda value: 0, False)
    assert compiled is not None
    assert stack_cells(compiled[0]) == depth + 1


def test_what_is_nested_on_the_left_needs_two_cells_and_one_operand_one() -> None:
    x = TypedVariable("x", "int")
    typed = x
    for _ in range(50):
        typed = TypedCall("+", (TypedCall("neg", (typed,), "int"), TypedConstant(1, "int")), "int")  # type: ignore[assignment]
    compiled = compile_stack([typed], {"x": (LEFT, 0)}, lambda value: 0, False)
    assert compiled is not None and stack_cells(compiled[0]) == 2
    assert stack_cells(np.empty((0, 2), np.int64)) == 0
    several = compile_stack([TypedCall("=", (x, x), "bool")] * 9, {"x": (LEFT, 0)}, lambda value: 0, True)
    assert several is not None and stack_cells(several[0]) == 2


@pytest.mark.parametrize("policy", POLICIES)
def test_a_condition_as_deep_as_the_language_allows(policy: str) -> None:
    program = f"policy {policy}. x(K, X) <- a(K, X) SEQ b(K, Y) WHERE {nested('max', 'X')} > Y."
    assert detect(program, EVENTS) == [Event("x", (1, 5), 0, 1)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("place", ["condition", "head"])
def test_linear_recursion_as_deep_as_the_language_allows(policy: str, place: str) -> None:
    deep = nested("max", "Y")
    head, condition = ("Y", f"{deep} > X") if place == "condition" else (deep, "Y > X")
    program = f"policy {policy}. x(K, X) <- a(K, X). x(K, {head}) <- x(K, X) SEQ b(K, Y) WHERE {condition}."
    found = detect(program, EVENTS)
    assert Event("x", (1, 9), 0, 2) in found and len(found) == 2


EDGES = (
    0,
    1,
    -1,
    2,
    -2,
    3,
    3037000499,
    3037000500,
    -3037000500,
    2**32,
    2**53 + 1,
    2**61,
    2**62,
    -(2**62),
    2**62 + 1,
    2**63 - 1,
    1 - 2**63,
)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("sign", "exact"), [("+", operator.add), ("-", operator.sub), ("*", operator.mul)])
def test_an_integer_beyond_64_bits_is_missing(policy: str, sign: str, exact: Callable[[int, int], int]) -> None:
    declared = f"event a(k: int, v: int). event b(k: int, v: int). policy {policy}."
    pairs = dict(enumerate(itertools.product(EDGES, EDGES)))
    events = [Event("a", (k, x), 0, 0) for k, (x, _) in pairs.items()]
    events += [Event("b", (k, y), 1, 1) for k, (_, y) in pairs.items()]
    results = {k: exact(x, y) for k, (x, y) in pairs.items()}
    fits = {k: value if abs(value) < 2**63 else None for k, value in results.items()}
    program = f"{declared} c(K) <- a(K, X) SEQ b(K, Y) WHERE X {sign} Y = X {sign} Y."
    assert {e.args[0] for e in detect(program, events)} == {k for k, value in fits.items() if value is not None}
    program = f"{declared} x(K, X) <- a(K, X). x(K, X {sign} Y) <- x(K, X) SEQ b(K, Y)."
    assert {e.args[0]: e.args[1] for e in detect(program, events) if e.end == 1} == fits


def test_the_stack_of_a_goal_is_what_its_programs_need() -> None:
    engine = Engine.from_text(
        "event a(k: int, v: int). event b(k: int, v: int). policy chronological."
        f"x(K, X) <- a(K, X) SEQ b(K, Y) WHERE {nested('max', 'X')} != Y."
    )
    (goal,) = goals(engine)
    assert len(goal.scratch[2]) == stack_cells(goal.code) == DEPTH + 1
    engine = Engine.from_text(
        "event a(k: int, v: int). event b(k: int, v: int). policy recent. x(K, X) <- a(K, X)."
        f"x(K, {nested('max', 'Y')}) <- x(K, X) SEQ b(K, Y) WHERE Y > X."
    )
    (goal,) = goals(engine)
    assert isinstance(goal, LinearRecursion) and len(goal.scratch[2]) == DEPTH + 1
