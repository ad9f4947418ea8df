"""Alternatives in conditions: printed, explained, in kernels, on any batches; random boolean conditions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.compile import compile
from cep.connectors.why.text import Explainer
from cep.core.errors import CepError
from cep.engine import Engine, detect
from cep.events import Event
from cep.explain.occurrences import Memory
from cep.explain.question import read_question
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program
from cep.operators.build import GoalBuilder
from cep.operators.goals.pairs.join_spec import spec_of
from cep.operators.pair import Join
from tests import reference
from tests.cases_format import difference
from tests.long import examples

SECOND = 1_000_000
FACTS = "p(0, 1). p(1, 1). p(1, 2). p(2, 0). q(1). r(X) :- (q(X) or X > 2, not p(X, 0)).\n"

tests = st.sampled_from([
    "X > 1", "X = Y", "Y < 2", "X != 0", "Y >= X", "q(X)", "not q(Y)", "p(X, Y)", "not p(X, 1)", "r(X)",
    'contains(S, "u")', 'not starts_with(S, "v")', "X in [0, 2]", "Y not in [1, X]", "X between 1 and Y",
    "Y not between 0 and 1", "if(X > Y, X, 3) > 1", "coalesce(X, Y) = 2", "duration() = 0", "p(X, _)",
])  # fmt: skip


def grouped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from([", ", " or ", " and "]).map(lambda word: f"({word.join(parts)})")
    )
    return joined | joined.map(lambda text: f"not {text}")


conditions = st.recursive(tests, grouped, max_leaves=8)
values = st.sampled_from([None, 0, 1, 2, 3])
rows = st.lists(st.tuples(values, values, st.sampled_from([None, "u", "v", "uv"])), min_size=1, max_size=6)


@examples(400)
@given(conditions, conditions, rows)
def test_random_conditions(one: str, other: str, rows: list[tuple[int | None, int | None, str | None]]) -> None:
    program = (
        f"event a(x: int?, y: int?, s: string?).\n{FACTS}"
        f"e(X, Y) <- a(X, Y, S) WHERE {one}.\n"
        f"f(X, Y) <- (a(X, _, S) SEQ a(_, Y, _)) WITHIN 3 WHERE {other}.\n"
    )
    events = [Event("a", row, at * SECOND, at * SECOND) for at, row in enumerate(rows)]
    expected = reference.detect(program, events, None, {-math.inf: []})
    assert not difference(expected, detect(program, events))
    printed = print_program(parse(program))
    assert print_program(parse(printed)) == printed
    assert not difference(expected, detect(printed, events))


def test_alternatives_of_comparisons_are_the_kernel_s() -> None:
    program = "event a(x: int, y: float).\n e(X) <- (a(X, Y) SEQ a(Z, W)) WITHIN 5 WHERE (X < Z or Y > W, X != 3)."
    engine = Engine(compile(program))
    nodes = [node for node in engine.plan.nodes if isinstance(node, Join)]
    (spec,) = [spec_of(node, GoalBuilder(engine.plan, engine.relations, engine.pool, None))[0] for node in nodes]
    assert spec.stack is not None


def test_a_rule_for_too_many_alternatives() -> None:
    body = ", ".join("(X = 1 or X = 2)" for _ in range(9))
    with pytest.raises(CepError, match="more than 256 rules"):
        compile(f"big(X) :- {body}.")


def test_why_tells_the_alternative_that_held() -> None:
    program = "near(1, 9). e(X) <- a(X) WHERE (X > 5 or near(X, Y), Y > 8), X < 7."
    engine = Engine.from_text(program, remember=1_000 * SECOND)
    engine.push([Event("a", (1,), SECOND, SECOND)])
    engine.close()
    found = read_question("e(1)", engine).found(Memory(engine))[-1]
    one, other = Explainer(engine, times="seconds").why(found)["conditions"]
    assert one["text"] == "(X > 5 or near(X, Y), Y > 8)"
    assert [(each["text"], each["holds"]) for each in one["because"]] == [("near(X, Y)", True), ("Y > 8", True)]
    assert other["told"] == "1 < 7"


def test_why_not_tells_what_failed_in_each_alternative() -> None:
    engine = Engine.from_text("e(X) <- a(X) WHERE (X > 5 or X < 2).", remember=1_000 * SECOND)
    engine.push([Event("a", (3,), SECOND, SECOND)])
    engine.close()
    (rule,) = Explainer(engine, times="seconds").why_not(read_question("e(3)", engine))["rules"]
    (failed,) = rule["failure"]["conditions"]
    assert not failed["holds"]
    assert [each["told"] for each in failed["because"]] == ["3 > 5", "3 < 2"]


def test_alerts_take_alternatives_and_what_all_of_them_bind() -> None:
    program = """
        event reading(pump: string, temp: float).
        critical(p1).
        ALERT hot ON reading(pump: P, temp: T)
            WHERE (T > 90, Why = "hot" or critical(P), T between 60 and 90, Why = format("{:.0f} is much", T))
            TITLE "{P}: {Why}" FOR 10 min KEYED BY P.
    """
    made = compile(program, alerts=True)
    (alert,) = made.alerts
    engine = Engine(made)
    rows = (("p1", 70.0), ("p2", 70.0), ("p2", 95.0))
    engine.receive([Event("reading", row, at * SECOND, at * SECOND) for at, row in enumerate(rows)])
    (found,) = [frame for name, frame in engine.close().items() if name == alert.table]
    assert sorted(found["Why"].to_list()) == ["70 is much", "hot"]
