"""Conjunctions: any written order gives the same answers, those of trying every value; what cannot run is refused."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError, CepErrors, Source
from cep.core.values import MISSING, Pool
from cep.events import Iri
from cep.language.syntax.parser import parse
from cep.rules.conditions.binding_order import arrange
from cep.rules.conditions.conditions import Conditions, compile_conditions
from cep.rules.static.datalog import close
from cep.rules.terms import Call, Comparison, Condition, Constant, Expression, StaticRule, Variable
from tests.long import examples

KNOWLEDGE = """
linked(a, b). linked(b, c). linked(a, c). linked(c, c).
size(a, 1). size(b, 2.5). size(c, 3).
level(1). level(2). level(3).
at(<http://a>, 10 s).
hot(T) :- T > 30.
grade(N, low) :- N < 2.
grade(N, high) :- N >= 2.
"""


def read(text: str) -> tuple[tuple[Condition, ...], Source]:
    program = parse(f"x(0) :- {text}.")
    (rule,) = program.statements
    assert isinstance(rule, StaticRule)
    return rule.conditions, program.source


def prepared(text: str, types: Mapping[str, str], knowledge: str = KNOWLEDGE) -> tuple[Conditions, Pool]:
    pool, program = Pool(), parse(knowledge)
    closed = close([rule for rule in program.statements if isinstance(rule, StaticRule)], {}, pool, program.source)
    conditions, source = read(text)
    return compile_conditions(conditions, types, closed.relations, pool, source), pool


def column(values: list[Any], type: str, pool: Pool) -> np.ndarray[Any, Any]:
    if type == "float":
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if type in ("string", "iri", "any"):
        return pool.encode_values(values)
    return np.array([MISSING if value is None else value for value in values], dtype=np.int64)


def plain(values: np.ndarray[Any, Any], type: str, pool: Pool) -> list[Any]:
    if type in ("string", "iri", "any"):
        return pool.decode_values(values)
    return [None if value in (MISSING, None) or value != value else value for value in values.tolist()]


def answers(text: str, types: Mapping[str, str], rows: list[tuple[Any, ...]], **more: Any) -> list[tuple[Any, ...]]:
    """(row, values of the bound variables ...) for each answer; checks `holds` and the order on the way."""
    conditions, pool = prepared(text, types, **more)
    columns = {name: column([row[i] for row in rows], type, pool) for i, (name, type) in enumerate(types.items())}
    index, found = conditions.answers(columns, len(rows))
    assert index.dtype == np.int64 and (np.diff(index) >= 0).all() and list(found) == list(conditions.binds)
    held = conditions.holds(columns, len(rows))
    assert held.dtype == np.bool_ and np.flatnonzero(held).tolist() == sorted(set(index.tolist()))
    if conditions.single:
        assert len(set(index.tolist())) == len(index)
    lists = [plain(found[name], type, pool) for name, type in conditions.binds.items()]
    result = list(zip(index.tolist(), *lists))
    assert len(set(result)) == len(result)
    return result


def mistakes(text: str, types: Mapping[str, str]) -> list[CepError]:
    with pytest.raises(CepError) as caught:
        prepared(text, types)
    return list(caught.value.errors) if isinstance(caught.value, CepErrors) else [caught.value]


def test_filters() -> None:
    types = {"Wind": "float", "Visib": "float"}
    rows = [(20.0, 1.0), (10.0, 1.0), (20.0, None), (15.0, 1.9)]
    assert answers("Wind >= 15, Visib < 2", types, rows) == [(0,), (3,)]


@pytest.mark.parametrize("text", ["Y = X + 1, Y > 2", "Y > 2, Y = X + 1", "Y > 2, X + 1 = Y", "Y > 2, Y is X + 1"])
def test_equality_binds_whatever_the_order(text: str) -> None:
    assert answers(text, {"X": "int"}, [(1,), (2,), (None,)]) == [(1, 3)]


def test_binding_a_missing_value_is_false() -> None:
    assert answers("Y = 1 / X", {"X": "int"}, [(0,), (2,)]) == [(1, 0.5)]


def test_a_predicate_gives_an_answer_for_each_row_in_its_order() -> None:
    assert answers("linked(X, Y)", {"X": "string"}, [("a",), ("z",), (None,), ("b",)]) == [
        (0, "b"), (0, "c"), (3, "c"),
    ]  # fmt: skip
    assert answers("linked(X, Y), size(Y, S)", {"X": "string"}, [("a",)]) == [(0, "b", 2.5), (0, "c", 3.0)]
    assert answers("linked(X, X)", {}, [()]) == [(0, "c")]
    assert answers("linked(X, _)", {}, [()]) == [(0, "a"), (0, "b"), (0, "c")]
    assert answers("linked(_, _)", {"N": "int"}, [(1,), (2,)]) == [(0,), (1,)]
    assert answers("linked(a, X), linked(X, a)", {}, [()]) == []


def test_missing_values_of_a_table() -> None:
    pool = Pool()
    closed = close([], {"at": pl.DataFrame({"x": [1, 2, None], "y": [None, "b", "c"]})}, pool)

    def ask(text: str) -> tuple[list[int], list[list[Any]]]:
        found = compile_conditions(read(text)[0], {"X": "int"}, closed.relations, pool)
        index, binds = found.answers({"X": np.array([1, 2, MISSING])}, 3)
        return index.tolist(), [plain(column, found.binds[name], pool) for name, column in binds.items()]

    assert ask("at(X, Y)") == ([0, 1], [[None, "b"]])
    assert ask("at(X, Y), Y != a") == ([1], [["b"]])
    assert ask("at(X, _)") == ([0, 1], [])
    assert ask("not at(X, b)") == ([0], [])


def test_not() -> None:
    rows: list[tuple[Any, ...]] = [("a",), ("b",), ("z",), (None,)]
    assert answers("not linked(X, b)", {"X": "string"}, rows) == [(1,), (2,)]
    assert answers("not linked(_, X)", {"X": "string"}, rows) == [(0,), (2,)]
    assert answers("not hot(T)", {"T": "float"}, [(31.0,), (30.0,), (None,)]) == [(1,)]
    assert answers('not contains(X, "a")', {"X": "string"}, rows) == [(1,), (2,)]
    assert answers("level(N), not size(_, N)", {}, [()]) == [(0, 2)]


def test_called_rules() -> None:
    assert answers("grade(N, G), hot(T)", {"N": "int", "T": "float"}, [(1, 31.0), (5, 40.0), (5, 3.0)]) == [
        (0, "low"), (1, "high"),
    ]  # fmt: skip
    assert answers('grade(N, G), G != "low"', {"N": "any"}, [(1,), ("x",), (2.5,)]) == [(2, "high")]


def test_values_are_joined_across_types() -> None:
    assert answers("size(_, F)", {"F": "int"}, [(1,), (2,), (3,)]) == [(0,), (2,)]
    assert answers("level(F)", {"F": "float"}, [(1.0,), (1.5,), (None,), (2.0,)]) == [(0,), (3,)]
    assert answers("not level(F)", {"F": "float"}, [(1.0,), (1.5,), (None,)]) == [(1,)]
    assert answers("linked(A, Y)", {"A": "any"}, [("b",), (1,), (Iri("b"),), (True,)]) == [(0, "c")]
    assert answers("not linked(A, _)", {"A": "any"}, [("b",), (1,), (None,)]) == [(1,)]
    assert answers("at(A, D)", {"A": "any"}, [("http://a",), (Iri("http://a"),)]) == [(1, 10_000_000)]
    assert answers("at(X, N)", {"N": "float"}, [(10.0,), (9.0,)]) == [(0, Iri("http://a"))]
    assert answers("level(A)", {"A": "any"}, [(1.0,), (1.5,), ("1",)]) == [(0,)]
    assert answers("mixed(X)", {"X": "int"}, [(1,), (2,)], knowledge="mixed(1). mixed(a).") == [(0,)]


def test_arguments_may_be_computed() -> None:
    assert answers("size(lower(X), N + 1)", {"X": "string", "N": "int"}, [("A", 0), ("A", 1), ("C", 2)]) == [(0,), (2,)]


def test_the_interval_of_the_pattern() -> None:
    types = {"start()": "time", "duration()": "duration"}
    assert answers("T = start(), duration() < 3", types, [(5, 1), (6, 3_000_000)]) == [(0, 5)]


def test_no_rows_and_no_conditions() -> None:
    assert answers("linked(X, Y), size(Y, S), S > 1, grade(S, G), lower(Y) != G", {"X": "string"}, []) == []
    conditions = compile_conditions((), {}, {}, Pool())
    assert conditions.answers({}, 3)[0].tolist() == [0, 1, 2] and conditions.holds({}, 2).tolist() == [True, True]


def test_what_binds_comes_before_what_asks() -> None:
    pool, program = Pool(), parse(KNOWLEDGE)
    rules = [rule for rule in program.statements if isinstance(rule, StaticRule)]
    conditions, _ = read("level(N), linked(Y, Z), S > 2, Z = c, size(Y, S), hot(T)")
    order = arrange(conditions, {"T"}, close(rules, {}, pool).relations)
    # `=` and what only tests come first, then predicates that share a variable, then the others
    assert [conditions.index(condition) for condition in order] == [3, 5, 1, 4, 2, 0]


def test_single() -> None:
    for text, single in [("Y = X + 1, X > 2, hot(X), not level(X)", True), ("level(Y)", False), ("level(X)", True)]:
        assert prepared(text, {"X": "int"})[0].single is single


@pytest.mark.parametrize(
    ("text", "code", "messages"),
    [
        ("Y > 3", "unsafe", ["`Y` is not bound"]),
        ("Y = Z + 1", "unsafe", ["`Z` is not bound"]),
        ("Y = Z, Z = Y", "unsafe", ["`Y` is not bound", "`Z` is not bound"]),
        ("Y > 1, Z < 2", "unsafe", ["`Y` is not bound", "`Z` is not bound"]),
        ("not linked(X, Y)", "unsafe", ["`Y` is not bound"]),
        ("hot(Y)", "unsafe", ["`hot` needs a value for `Y`"]),
        ("hot(_)", "unsafe", ["`_` has no value"]),
        ("X > _", "unsafe", ["`_` has no value"]),
        ("linked(lower(Y), X)", "unsafe", ["`linked` needs a value for `Y`"]),
        ('contains(Y, "a")', "unsafe", ["`Y` is not bound"]),
        ("linkd(X, Y)", "unknown", ["unknown predicate `linkd`"]),
        ("lower(X)", "type", ["`lower` returns a value, so it is not a condition"]),
        ("linked(X)", "arity", ["`linked` has 2 arguments, not 1"]),
        ("size(X, a)", "type", ["the second argument of `size` is a float, and this is a string"]),
        ("at(X, _)", "type", ["the first argument of `at` is an iri, and `X` is a string"]),
        ("Y = X + 1, Y > 2, lower(N) = a", "type",
         ["`+` does not work on the string `X` and the int `1`", "`lower` takes a string, not the int `N`"]),
        ('matches(X, "(")', "type", ["this is not a regular expression: unclosed group"]),
    ],
)  # fmt: skip
def test_mistakes(text: str, code: str, messages: list[str]) -> None:
    found = mistakes(text, {"X": "string", "N": "int"})
    assert [error.message for error in found] == messages
    assert {error.code for error in found} == {code}
    assert all(error.span is not None and error.source is not None for error in found)


def test_hints() -> None:
    assert mistakes("linkd(X, Y)", {"X": "string"})[0].hint == "did you mean `linked`?"
    assert "`not` does not bind variables" in (mistakes("not linked(X, Y)", {"X": "string"})[0].hint or "")
    assert mistakes("contain(X, a)", {"X": "string"})[0].hint == "did you mean `contains`?"


# --- against trying every value ---------------------------------------------------------------------------------------

TABLES = {
    "p": [(0, 1), (1, 2), (2, 2)],
    "q": [(2, 0), (0, 0), (1, 1), (2, 1)],
    "c": [(n, n + 1) for n in range(12)],
}
FACTS = "p(0, 1). p(1, 2). p(2, 2). q(2, 0). q(0, 0). q(1, 1). q(2, 1.0). c(X, Y) :- Y = X + 1."
DOMAIN = [*range(13), None]

terms = st.sampled_from(["X", "Y", "X", "Y", "A", "B", "0", "1", "2"])
anything = st.one_of(terms, terms, terms, st.just("_"))
condition = st.one_of(
    st.builds(lambda n, name, a, b: f"{n}{name}({a}, {b})", st.sampled_from(["", "", "not "]), st.sampled_from("ppqqc"),
              anything, anything),
    st.builds(lambda a, op, b: f"{a} {op} {b}", terms, st.sampled_from(["=", "!=", "<", ">="]), terms),
    st.builds(lambda a, b: f"{a} = {b} + 1", terms, terms),
)  # fmt: skip


def truth(one: Condition, given: Mapping[str, Any]) -> bool:
    def value(expression: Expression) -> Any:
        match expression:
            case Variable(name):
                return given[name]
            case Constant(constant):
                return constant
            case Call(_, (left, right)):
                a, b = value(left), value(right)
                return None if a is None or b is None else a + b

    if isinstance(one, Comparison):
        a, b = value(one.left), value(one.right)
        if a is None or b is None:
            return False
        return bool({"=": a == b, "!=": a != b, "<": a < b, ">=": a >= b}[one.operator])
    wanted: list[Any] = []
    for argument in one.arguments:
        if isinstance(argument, Variable) and argument.name == "_":
            wanted.append(...)
            continue
        wanted.append(value(argument))
        if wanted[-1] is None:
            return False
    found = any(all(w is ... or v == w for v, w in zip(row, wanted)) for row in TABLES[one.name])
    return found is not one.negated


@examples(150)
@given(
    texts=st.lists(condition, min_size=1, max_size=4),
    rows=st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, None]), st.sampled_from([0, 1, 2, None])), max_size=4),
    types=st.tuples(st.sampled_from(["int", "float", "any"]), st.sampled_from(["int", "float", "any"])),
)
def test_answers_are_those_of_trying_every_value(
    texts: list[str], rows: list[tuple[Any, ...]], types: tuple[str, str]
) -> None:
    conditions, _ = read(", ".join(texts))
    named = dict(zip("XY", types))
    try:
        got = answers(", ".join(texts), named, rows, knowledge=FACTS)
    except CepError as error:
        assert all(one.code == "unsafe" for one in (error.errors if isinstance(error, CepErrors) else [error]))
        return
    binds = list(prepared(", ".join(texts), named, FACTS)[0].binds)
    expected = {
        (i, *values)
        for i, row in enumerate(rows)
        for values in itertools.product(DOMAIN, repeat=len(binds))
        if all(truth(one, {**dict(zip("XY", row)), **dict(zip(binds, values))}) for one in conditions)
    }
    assert set(got) == expected
