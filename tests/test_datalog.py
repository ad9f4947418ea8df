"""Static rules: closed tables are what a naive evaluation over a small domain gives; mistakes are reported."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError, CepErrors
from cep.core.values import Pool
from cep.events import Iri
from cep.language.syntax.parser import parse
from cep.rules.conditions.conditions import compile_conditions
from cep.rules.static.datalog import Statics, close
from cep.rules.terms import Call, Comparison, Condition, Constant, Expression, StaticRule, Variable
from tests.long import examples


def statics(text: str, tables: Mapping[str, pl.DataFrame] | None = None, **more: Any) -> tuple[Statics, Pool]:
    program, pool = parse(text), Pool()
    rules = [statement for statement in program.statements if isinstance(statement, StaticRule)]
    return close(rules, tables or {}, pool, program.source, **more), pool


def rows(text: str, name: str, tables: Mapping[str, pl.DataFrame] | None = None, **more: Any) -> list[tuple[Any, ...]]:
    closed, pool = statics(text, tables, **more)
    return closed.frame(name, pool).rows()


def mistake(text: str, **more: Any) -> CepError:
    with pytest.raises(CepError) as caught:
        statics(text, **more)
    return caught.value


PATH = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z)."


def test_facts_keep_their_order_and_are_a_set() -> None:
    assert rows("p(2, b). p(1, a). p(2, b). p(1 + 2, c).", "p") == [(2, "b"), (1, "a"), (3, "c")]


def test_closure_of_a_cycle() -> None:
    found = rows("edge(1, 2). edge(2, 3). edge(3, 1). " + PATH, "path")
    assert sorted(found) == list(itertools.product((1, 2, 3), repeat=2))


@pytest.mark.parametrize("second", ["path(X, Y), edge(Y, Z)", "edge(X, Y), path(Y, Z)", "path(X, Y), path(Y, Z)"])
def test_closure_of_a_long_chain_however_written(second: str) -> None:
    n = 300
    edge = pl.DataFrame({"from": range(n), "to": range(1, n + 1)})
    closed, _ = statics(f"path(X, Y) :- edge(X, Y). path(X, Z) :- {second}.", {"edge": edge})
    relation = closed.relations["path"]
    assert relation.count == n * (n + 1) // 2  # type: ignore[attr-defined]


def test_a_long_chain_from_one_end() -> None:
    n = 20_000
    edge = pl.DataFrame({"from": range(n), "to": range(1, n + 1)})
    assert len(rows("reach(0). reach(Y) :- reach(X), edge(X, Y).", "reach", {"edge": edge})) == n + 1


def test_negation_is_taken_stratum_by_stratum() -> None:
    text = PATH + "node(X) :- edge(X, _). node(Y) :- edge(_, Y). apart(X, Y) :- node(X), node(Y), not path(X, Y)."
    assert rows("edge(a, b). edge(c, d). " + text, "apart", None)[:3] == [("a", "a"), ("a", "c"), ("a", "d")]


def test_not_with_anything() -> None:
    assert rows("p(1). p(2). q(1, x). r(X) :- p(X), not q(X, _).", "r") == [(2,)]


def test_mutual_recursion() -> None:
    text = "even(0). even(X + 1) :- odd(X), X < 9. odd(X + 1) :- even(X), X < 9."
    assert rows(text, "even") == [(0,), (2,), (4,), (6,), (8,)]


def test_types_grow_to_hold_all_values() -> None:
    assert statics("p(1). p(2.5). q(X) :- p(X). r(1). r(a). s(<http://a>). s(X) :- r(X).")[0].types == {
        "p": ("float",), "q": ("float",), "r": ("any",), "s": ("any",),
    }  # fmt: skip
    assert rows("r(1). r(a). r(1.0). r(<http://a>).", "r") == [(1,), ("a",), (Iri("http://a"),)]
    assert rows("p(1). q(1.0). q(2.5). both(X) :- p(X), q(X). both(X) :- both(X), q(X).", "both") == [(1.0,)]


def test_tables_stand_beside_facts() -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    table = pl.DataFrame(
        {
            "s": ["x", None], "i": pl.Series([1, 2], dtype=pl.UInt8), "f": [1.5, float("nan")], "b": [True, None],
            "t": [moment, None], "d": [timedelta(seconds=2), None], "n": [None, None],
        }
    )  # fmt: skip
    closed, pool = statics("p(y, 3, 2, false, 2020-01-02T00:00:00Z, 1 s, 7).", {"p": table})
    assert closed.types["p"] == ("string", "int", "float", "bool", "time", "duration", "int")
    assert closed.frame("p", pool).rows() == [
        ("y", 3, 2.0, False, moment + timedelta(days=1), timedelta(seconds=1), 7),
        ("x", 1, 1.5, True, moment, timedelta(seconds=2), None),
        (None, 2, None, None, None, None, None),
    ]


def test_iris_in_tables() -> None:
    table = pl.DataFrame({"s": ["http://a", "http://b"]})
    assert rows("q(X) :- p(X), X != <http://b>.", "q", {"p": table}, types={"p": ["iri"]}) == [("http://a",)]


def test_a_missing_value_joins_with_nothing() -> None:
    table = pl.DataFrame({"x": [1, 2], "y": [None, 3]})
    assert rows("q(Y) :- p(_, Y).", "q", {"p": table}) == [(3,)]
    assert rows("q(X) :- p(X, Y), p(_, Y).", "q", {"p": table}) == [(2,)]
    assert rows("q(X) :- p(X, Y), not r(Y). r(5).", "q", {"p": table}) == [(2,)]
    assert rows("q(X) :- p(X, X).", "q", {"p": table}) == []


def test_a_rule_that_does_not_bind_its_head_is_called() -> None:
    text = """
    hot(T) :- T > 30.
    class(H, caution) :- H >= 80, H < 90.
    class(H, danger) :- H >= 85.
    class(0, freezing).
    named(X, C) :- t(X), class(X, C).
    warm(X) :- t(X), hot(X).
    cool(X) :- t(X), not hot(X).
    t(0). t(82). t(87). t(31).
    """
    assert rows(text, "named") == [(0, "freezing"), (82, "caution"), (87, "caution"), (87, "danger")]
    assert rows(text, "warm") == [(82,), (87,), (31,)]
    assert rows(text, "cool") == [(0,)]
    assert statics(text)[0].types["hot"] == (None,)


def test_called_rules_call_each_other_and_answer_once() -> None:
    text = """
    next(X, Y) :- Y = X + 1.
    twice(X, Z) :- next(X, Y), next(Y, Z).
    near(X, Y) :- next(X, Y).
    near(X, Y) :- d(D), Y = X + D.
    d(1). d(2).
    p(X, Y) :- q(X), twice(X, Y).
    n(X, Y) :- q(X), near(X, Y).
    q(5).
    """
    assert rows(text, "p") == [(5, 7)]
    assert rows(text, "n") == [(5, 6), (5, 7)]


def test_a_called_predicate_runs_either_way_round() -> None:
    text = "same(X, Y) :- X = Y. p(1). q(X, Y) :- p(X), same(X, Y). r(X) :- p(Y), same(X, Y)."
    assert rows(text, "q") == [(1, 1)]
    assert rows(text, "r") == [(1,)]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("p(X).", "unsafe", "a fact cannot have variables, and `X` is one"),
        ("p(_).", "unsafe", "a fact cannot have variables, and `_` is one"),
        ("p(1). p(1, 2).", "arity", "`p` has 1 argument elsewhere, but 2 here"),
        ("p(X) :- q(X, Y). q(1).", "arity", "`q` has 1 argument, not 2"),
        ("linked(a, b). p(X) :- link(X, _).", "unknown", "unknown predicate `link`"),
        ("q(1). p(X) :- q(X), Y > 3.", "unsafe", "`Y` is not bound"),
        ("q(1). p(X) :- q(X), not q(Y).", "unsafe", "`Y` is not bound"),
        ("q(1). p(X) :- q(X), not p(X).", "stratified",
         "`p` depends on its own absence (not stratified): `p` needs `not p`"),
        ("a(1). p(X) :- a(X), not q(X). q(X) :- r(X). r(X) :- p(X).", "stratified",
         "`p` depends on its own absence (not stratified): `p` needs `not q` needs `r` needs `p`"),
        ("p(X, Y) :- p(X, Z), Y > Z. p(1, 2).", "unsafe", "`Y` is not bound"),
        ("p(X, Y) :- p(X, _). p(1, 2).", "unsafe", "`p` is recursive, so its body must bind `Y` of its head"),
        ("hot(T) :- T > 30. p(X) :- hot(X). q(X) :- not hot(X), r(X). r(1). s(1) :- hot(Y).", "unsafe",
         "`hot` needs a value for `Y`"),
        ("p(a). q(X) :- p(X), X > 3.", "type", "`>` cannot compare the string `X` and the int `3`"),
        ("p(a). q(X) :- p(X), r(X). r(3).", "type", "the first argument of `r` is an int, and `X` is a string"),
        ("c(X) :- lower(X) = a, sqrtt(X) > 1.", "type", "unknown function `sqrtt`"),
    ],
)  # fmt: skip
def test_mistakes(text: str, code: str, message: str) -> None:
    error = mistake(text)
    assert (error.code, error.message) == (code, message)
    assert error.span is not None and error.source is not None


def test_all_mistakes_at_once() -> None:
    error = mistake("p(1).\nq(X) :- p(X), X = a.\nr(X) :- p(X), pp(X).\ns(X) :- p(X), Y > 1, Z < 2.")
    assert isinstance(error, CepErrors)
    assert [(one.span.line, one.code) for one in error.errors if one.span] == [
        (2, "type"), (3, "unknown"), (4, "unsafe"), (4, "unsafe"),
    ]  # fmt: skip


def test_values_without_end() -> None:
    error = mistake("n(0).\nn(X + 1) :- n(X).", max_rounds=500)
    assert error.message == "the rules of `n` do not end: they were stopped after 500 rounds"
    assert error.span is not None and error.span.line == 2
    error = mistake("n(0). n(Y) :- n(X), n(Z), Y = X + Z + 1.", max_rows=1000)
    assert "rows" in error.message


def test_of_a_missing_value_nothing_is_true() -> None:
    text = """
    p(1 / 0, a). p(1, b). q(X) :- p(Y, _), X = Y - 1. r(1 / X) :- q(X).
    c(X, 1 / X) :- X < 5. d(Y) :- q(X), c(X, Y).
    """
    assert rows(text, "p") == [(1.0, "b")]
    assert rows(text, "q") == [(0.0,)]
    assert rows(text, "r") == rows(text, "d") == []


def test_conditions_of_events_ask_the_closed_predicates() -> None:
    closed, pool = statics("edge(a, b). edge(b, c). far(X) :- X > 2.5. " + PATH)
    program = parse("x(0) :- path(S, T), far(N), not edge(S, T).")
    (rule,) = program.statements
    assert isinstance(rule, StaticRule)
    conditions = compile_conditions(rule.conditions, {"S": "string", "N": "int"}, closed.relations, pool)
    columns = {"S": pool.encode_values(["a", "b", "a", "z"]), "N": np.array([3, 3, 2, 3], dtype=np.int64)}
    index, found = conditions.answers(columns, 4)
    assert (index.tolist(), pool.decode_values(found["T"])) == ([0], ["c"])
    assert conditions.holds(columns, 4).tolist() == [True, False, False, False]


# --- against a naive evaluation over a small domain -------------------------------------------------------------------

DOMAIN = range(13)
VARIABLES = ("X", "Y", "Z")
Model = dict[str, set[tuple[int, ...]]]

terms = st.sampled_from(["X", "Y", "X", "Y", "Z", "1", "2"])
heads = st.sampled_from(["X", "Y", "X", "Y", "X", "Y", "Z", "1"])


def atoms(names: Sequence[str], arity: int = 2) -> st.SearchStrategy[str]:
    term = st.one_of(terms, st.just("_"))
    return st.builds(
        lambda name, arguments: f"{name}({', '.join(arguments)})",
        st.sampled_from(names),
        st.lists(term, min_size=arity, max_size=arity),
    )


tests = st.one_of(
    st.builds(lambda a, op, b: f"{a} {op} {b}", terms, st.sampled_from(["<", "!=", "=", ">="]), terms),
    st.builds(lambda a, b, c: f"{a} = {b} + {c}", terms, terms, terms),
)


def bodies(positive: Sequence[str], negative: Sequence[str]) -> st.SearchStrategy[list[str]]:
    absent = atoms(negative).map(lambda atom: f"not {atom}") if negative else atoms(positive)
    return st.lists(st.one_of(atoms(positive), atoms(positive), tests, absent), min_size=0, max_size=3)


def layer(names: Sequence[str], positive: Sequence[str], negative: Sequence[str]) -> st.SearchStrategy[list[str]]:
    rule = st.builds(
        lambda name, a, b, first, body: f"{name}({a}, {b}) :- {', '.join([*body, f'{first}(X, Y)'])}.",
        st.sampled_from(names), heads, heads, st.sampled_from(positive), bodies(positive, negative),
    )  # fmt: skip
    return st.lists(rule, min_size=1, max_size=3)


facts = st.lists(
    st.builds(lambda name, a, b: f"{name}({a}, {b}).", st.sampled_from("ef"), st.integers(0, 2), st.integers(0, 2)),
    min_size=1, max_size=6,
)  # fmt: skip
ALL = ["e(0, 1).", "f(1, 2).", "p(1, 1).", "q(2, 2).", "r(0, 0).", "c(X, Y) :- Y = X + 1.", "c(X, 0) :- X > 2."]
programs = st.builds(
    lambda *parts: ALL + [statement for part in parts for statement in part],
    facts,
    layer("pq", ["e", "f", "p", "q", "p", "q"], ["e", "f"]),
    layer("r", ["e", "p", "q", "c", "r"], ["f", "p", "q"]),
)


def true(expression: Expression, given: Mapping[str, int]) -> int:
    match expression:
        case Variable(name):
            return given[name]
        case Constant(value):
            assert isinstance(value, int)
            return value
        case Call(_, (left, right)):
            return true(left, given) + true(right, given)
    raise AssertionError("only sums are generated")


def holds(condition: Condition, given: Mapping[str, int], model: Model) -> bool:
    if isinstance(condition, Comparison):
        a, b = true(condition.left, given), true(condition.right, given)
        return {"<": a < b, "!=": a != b, "=": a == b, ">=": a >= b, ">": a > b}[condition.operator]
    wanted = [
        None if isinstance(argument, Variable) and argument.name == "_" else true(argument, given)
        for argument in condition.arguments
    ]
    found = any(all(w in (None, v) for w, v in zip(wanted, row)) for row in model[condition.name])
    return found is not condition.negated


def naive(rules: Sequence[StaticRule]) -> Model:
    """Every assignment of the domain to the variables of every rule, until nothing new comes; layer by layer."""
    model: Model = {name: set() for name in "efpqrc"}
    for names in ("ef", "c", "pq", "r"):
        before = -1
        while before != sum(map(len, model.values())):
            before = sum(map(len, model.values()))
            for rule in rules:
                if rule.name in names:
                    used = [name for name in VARIABLES if name in repr(rule)]
                    for values in itertools.product(DOMAIN, repeat=len(used)):
                        given = dict(zip(used, values))
                        if all(holds(condition, given, model) for condition in rule.conditions):
                            model[rule.name].add(tuple(true(argument, given) for argument in rule.arguments))
    return model


def inside(row: tuple[Any, ...]) -> bool:
    return all(value <= 3 for value in row)


@examples(80)
@given(programs)
def test_closing_is_the_least_model(statements: list[str]) -> None:
    program = parse("\n".join(statements))
    rules = [rule for rule in program.statements if isinstance(rule, StaticRule)]
    pool = Pool()
    try:
        closed = close(rules, {}, pool, program.source)
    except CepError as error:
        assert all(
            one.code in ("unsafe", "endless") for one in (error.errors if isinstance(error, CepErrors) else [error])
        )
        return
    model = naive(rules)
    for name in "efpqr":
        if None not in closed.types[name]:
            found = closed.frame(name, pool).rows()
            assert len(set(found)) == len(found)
            # Sums of sums of what is small stay in the domain of the naive evaluation.
            if all(inside(row) for other in "pqr" if None not in closed.types[other]
                   for row in closed.frame(other, pool).rows()):  # fmt: skip
                assert set(found) == model[name]
