"""LARS in both notations: what is read, what is printed is read as the same, and what is wrong is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cep.core.errors import CepError, Source
from cep.core.literals import SECOND
from cep.events import Iri
from cep.language.dialects.lars.advice import advice
from cep.language.dialects.lars.ast import (
    AT,
    EVERY,
    NOW,
    SOME,
    LarsAtom,
    LarsLiteral,
    LarsProgram,
    TimeWindow,
    TupleWindow,
    Window,
)
from cep.language.dialects.lars.components import components
from cep.language.dialects.lars.laser import read_laser
from cep.language.dialects.lars.printer import print_program
from cep.language.dialects.lars.reader import read
from cep.language.dialects.lars.windows import longest
from cep.language.syntax import ast
from cep.rules.terms import DIVIDED, Call, Comparison, Constant, Expression, Graph, Variable

X, T, S = Variable("X"), Variable("T"), Variable("S")


def lars(text: str, tick: int = SECOND) -> LarsProgram:
    return read(Source(text, "rules.lars"), tick)


def laser(text: str) -> LarsProgram:
    return read_laser(Source(text, "rules.laser"), SECOND)


def only(text: str, tick: int = SECOND) -> LarsLiteral:
    """The literal that is asked first."""
    found = lars(text, tick).rules[0].body[0]
    assert isinstance(found, LarsLiteral)
    return found


# --- Ticker's files ---

CACHING = """/* how long content
   stays in a cache */
high at T :- value(V), alpha(V) at T in [10 sec], 18 <= V.
mid at T :- value(V), alpha(V) at T in [10 sec], 12 <= V, V < 18.   // two comparisons
low at T :- value(V), alpha(V) at T [10 sec], V < 12. % without `in`

lfu :- high always in [10 sec].
lru :- mid always in [10 sec].
fifo :- low always in [10 sec], rtm50 in [10 sec].
%* what is
   decided *%
done :- lfu. done :- lru. done :- fifo.
random :- not done.
value(5). value(15). value(25)."""

REACHING = """needAt(I,N) :- item(I), node(N), req(I,N) in [5], not cache(I,N) in [5].
conn(N,M) :- edge(N,M), error(N,M) not in [5].
getFrom(I,N,M) :- needAt(I,N), minReach(I,N,M), not n_getFrom(I,N,M).
n_getFrom(I,N,M2) :- getFrom(I,N,M), minReach(I,N,M2), M2 != M.
minReach(I,N,M) :- itemReach(I,N,M,K), not n_minReach(I,N,M,K).
n_minReach(I,N,M,K) :- itemReach(I,N,M,K), itemReach(I,N,M2,K2), K2 < K.
itemReach(I,N,M,K) :- needAt(I,N), cache(I,M) [5], reach(N,M,K).
reach(N,M,1) :- conn(N,M).
reach(N,M,K) :- reach(N,M0,K0), conn(M0,M), N!=M, K=K0+1, length(K0), length(K)."""


def test_files_of_ticker_are_read() -> None:
    program = lars(CACHING)
    assert len(program.rules) == 13
    head = program.rules[0]
    assert (head.head, head.tick) == (LarsAtom("high"), T)
    assert head.body[1] == LarsLiteral(LarsAtom("alpha", (Variable("V"),)), AT, T, TimeWindow(10))
    assert head.body[2] == Comparison("<=", Constant(18, "int"), Variable("V"))
    assert program.rules[3].body == (LarsLiteral(LarsAtom("high"), EVERY, None, TimeWindow(10)),)
    assert program.rules[9].body == (LarsLiteral(LarsAtom("done"), negated=True),)
    assert [rule.is_fact for rule in program.rules[10:]] == [True] * 3
    assert program.derived == {"high", "mid", "low", "lfu", "lru", "fifo", "done", "random"}
    assert len(lars(REACHING).rules) == 9


@pytest.mark.parametrize(
    ("text", "modality", "at", "window", "negated"),
    [
        ("a :- b.", NOW, None, None, False),
        ("a :- b [10].", SOME, None, TimeWindow(10), False),
        ("a :- b in [10 sec].", SOME, None, TimeWindow(10), False),
        ("a :- b in [ 2 min ].", SOME, None, TimeWindow(120), False),
        ("a :- b [1 h] step 5 min.", SOME, None, TimeWindow(3600, 300), False),
        ("a :- b [3 #].", SOME, None, TupleWindow(3), False),
        ("a :- b in [# 10].", SOME, None, TupleWindow(10), False),  # older files
        ("a :- b in [t 5].", SOME, None, TimeWindow(5), False),
        ("a :- b always in [10].", EVERY, None, TimeWindow(10), False),
        ("a :- b always [10].", EVERY, None, TimeWindow(10), False),
        ("a :- b at T in [10].", AT, T, TimeWindow(10), False),
        ("a :- b at T [3 #].", AT, T, TupleWindow(3), False),
        ("a :- b at 5.", AT, Constant(5, "int"), None, False),
        ("a :- b at 1970-01-01T00:01:00.5Z.", AT, Constant(60, "int"), None, False),
        ("a :- not b.", NOW, None, None, True),
        ("a :- not b in [10].", SOME, None, TimeWindow(10), True),
        ("a :- b not in [10].", SOME, None, TimeWindow(10), True),
        ("a :- b not [10].", SOME, None, TimeWindow(10), True),
        ("a :- b always not in [10].", EVERY, None, TimeWindow(10), True),
        ("a :- not b always in [10].", EVERY, None, TimeWindow(10), True),
        ("a :- b not at 5 in [10].", AT, Constant(5, "int"), TimeWindow(10), True),
        ("a :- b at 5 not in [10].", AT, Constant(5, "int"), TimeWindow(10), True),
        ("a :- b [inf].", SOME, None, TimeWindow(longest(SECOND)), False),
    ],
)
def test_forms(text: str, modality: str, at: Expression | None, window: Window | None, negated: bool) -> None:
    assert only(text) == LarsLiteral(LarsAtom("b"), modality, at, window, negated)


def test_windows_in_ticks_of_any_length() -> None:
    assert only("a :- b [250 msec].", 50_000).window == TimeWindow(5)
    assert only("a :- b [2 min].", 60 * SECOND).window == TimeWindow(2)
    assert only("a :- b [1.5 sec].", 100_000).window == TimeWindow(15)


def test_partitions_end_where_a_comparison_begins() -> None:
    rule = lars("a(X) :- p(X, Y) [5 #] by X, Y, X < Y.").rules[0]
    assert isinstance(rule.body[0], LarsLiteral)
    assert rule.body[0].window == TupleWindow(5, ("X", "Y"))
    assert rule.body[1] == Comparison("<", X, Variable("Y"))
    assert only("a(X) :- p(X, Y) [5 #] by X, q.").window == TupleWindow(5, ("X",))


def test_arguments() -> None:
    text = 'PREFIX wt: <http://a.b/#>\na :- p(red, "b c", -3, 2.5, wt:x, <http://a.b/y>, 2013-02-08, true, _, X).'
    values = [each.value for each in only(text).atom.arguments if isinstance(each, Constant)]
    assert values == ["red", "b c", -3, 2.5, Iri("http://a.b/#x"), Iri("http://a.b/y"), 1360281600000000, True]
    assert only(text).atom.arguments[-2:] == (Variable("_"), X)


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ("1 + 2 * X", Call("+", (Constant(1, "int"), Call("*", (Constant(2, "int"), X))))),
        ("T - 1 - X", Call("-", (Call("-", (T, Constant(1, "int"))), X))),
        ("-X ^ 2", Call("neg", (Call("**", (X, Constant(2, "int"))),))),
        ("X % 2", Call("mod", (X, Constant(2, "int")))),
        ("(X + 1) % T", Call("mod", (Call("+", (X, Constant(1, "int"))), T))),
        ("X / 2", Call(DIVIDED, (X, Constant(2, "int")))),  # whole of whole numbers, as it is to Ticker
        ("X / 2.0", Call("/", (X, Constant(2.0, "float")))),
    ],
)
def test_arithmetic(text: str, read_as: Expression) -> None:
    assert lars(f"a(Z) :- p(X) at T in [3], Z = {text}.").rules[0].body[1] == Comparison("=", Variable("Z"), read_as)


def test_percent_is_a_comment_unless_a_value_follows_a_value() -> None:
    text = """a :- p(X), X > 3 % the limit
      , q(X) % 3, or more
      , X % 2 = 1, % odd
      r(X) in [3] % 2.
      . b. % 3 c.
"""
    rules = lars(text).rules
    assert [len(rule.body) for rule in rules] == [5, 0]


def test_calculated_arguments_of_a_body_get_a_variable() -> None:
    rule = lars("a(X + 1) :- p(X, V1), not q(X + 1, 2 * V1).").rules[0]
    one = Call("+", (X, Constant(1, "int")))
    assert rule.head == LarsAtom("a", (one,))
    assert rule.body[1:] == (
        Comparison("=", Variable("V2"), one),
        Comparison("=", Variable("V3"), Call("*", (Constant(2, "int"), Variable("V1")))),
        LarsLiteral(LarsAtom("q", (Variable("V2"), Variable("V3"))), negated=True),
    )


def test_declarations_and_graph_patterns() -> None:
    text = """event alpha(v: int in 0..25) TIME ts FORMAT csv(separator: ";").   # as in our own language
PREFIX wt: <http://a.b/#>
fact car(c: string).
event at T :- alpha(V) at T in [3], { ?S wt:value ?V }, not { ?S wt:off ?x }, not car("a.b").
"""
    program = lars(text)
    assert [type(each) for each in program.declarations] == [
        ast.EventDeclaration, ast.Prefix, type(program.declarations[2])
    ]  # fmt: skip
    graph, denied = program.rules[0].body[1:3]
    assert graph == Graph("{ ?S wt:value ?V }", ("S", "V"), (("wt", "http://a.b/#"),))
    assert isinstance(denied, Graph) and denied.negated and denied.variables == ("S",)
    assert program.rules[0].head == LarsAtom("event")  # no declaration


def test_constraints_and_heads_at_other_ticks() -> None:
    rules = lars(":- a, b. c at 5 :- d. e at T + 1 :- f at T in [3]. g at 7.").rules
    assert rules[0].head is None and len(rules[0].body) == 2
    assert [rule.tick for rule in rules[1:]] == [
        Constant(5, "int"), Call("+", (T, Constant(1, "int"))), Constant(7, "int")
    ]  # fmt: skip
    assert not rules[3].is_fact


# --- Laser's rule strings ---


@pytest.mark.parametrize(
    ("rule", "same"),
    [
        ("q(X, Y) :- p(X, Y)", "q(X, Y) :- p(X, Y)."),
        ("p(B) :- not(s(C)) and r(B, C)", "p(B) :- not s(C), r(B, C)."),
        ("s(A) :- time_win(1,0,1,diamond(t(A)))", "s(A) :- t(A) in [1]."),
        ("s(A) :- time_win(3, 0, 5, box(t(A)))", "s(A) :- t(A) always in [3] step 5."),
        ("s(A) :- tuple_win(4, box(t(A)))", "s(A) :- t(A) always in [4 #]."),
        ("h(T,X) :- tuple_win(4,0,1, @(T, p(X,Y)))", "h(T, X) :- p(X, Y) at T in [4 #]."),
        ("h(T,X) :- @(T, p(X,Y))", "h(T, X) :- p(X, Y) at T."),
        ("h(X) :- @(3, p(X))", "h(X) :- p(X) at 3."),
        ("h(X) :- box(p(X))", "h(X) :- p(X) always in [inf]."),
        ("h(X) :- diamond(p(X))", "h(X) :- p(X) in [inf]."),
        ("h(X) :- time_win(2,0,1, p(X))", "h(X) :- p(X)."),
        ("p(C) :- time_win(1,0,1,diamond(not(s(C)))) and r(C)", "p(C) :- not s(C) always in [1], r(C)."),
        ("p(C) :- time_win(1,0,1,box(not(s(C)))) and r(C)", "p(C) :- not s(C) in [1], r(C)."),
        ("p(C) :- time_win(1,0,1,not(diamond(s(C)))) and r(C)", "p(C) :- not s(C) in [1], r(C)."),
        ("p(C) :- not(time_win(1,0,1,diamond(not(s(C))))) and r(C)", "p(C) :- s(C) always in [1], r(C)."),
        ("@(S, h(X)) :- time_win(3,0,1, @(T, p(X))) and MATH(+, S,T,2)", "h(X) at S :- p(X) at T in [3], S = T + 2."),
        ("h(X) :- time_win(3,0,1,box(p(X)))and COMP(<=, X, 45)", "h(X) :- p(X) always in [3], X <= 45."),
        ("car(a)", "car(a)."),
        ("h(X) :- p(X)\n  and q(X). % and a comment", "h(X) :- p(X), q(X)."),
    ],
)
def test_rule_strings_of_laser(rule: str, same: str) -> None:
    program = laser(rule) if "not(s(C)) and" not in rule else None
    if program is None:  # its order is free, and `C` has a value behind it
        program = laser(rule)
    assert program.rules == lars(same).rules
    assert print_program(program) == f"{same}\n"


def test_a_file_of_rule_strings() -> None:
    text = (
        "event p(x: int).\nPREFIX wt: <http://a.b/>\nh(X) :- p(X)\ncar(1)\n\nq(X) :- p(X) and\n  h(X)\nr(X) :- h(X).\n"
    )
    program = laser(text)
    assert len(program.rules) == 4 and len(program.declarations) == 2


# --- mistakes: tests/mistakes/lars/*.txt, each the program, `--`, the error; between them `====` ---

MISTAKES = [
    (path.stem, *entry.removesuffix("\n").split("\n--\n"))
    for path in sorted((Path(__file__).parent / "mistakes" / "lars").glob("*.txt"))
    for entry in path.read_text().split("====\n")
]


@pytest.mark.parametrize("area", sorted({area for area, _, _ in MISTAKES}))
def test_mistakes(area: str) -> None:
    for own, program, expected in MISTAKES:
        if own == area:
            with pytest.raises(CepError) as caught:
                (laser if area == "laser" else lars)(f"{program}\n")
            assert str(caught.value) == expected
            assert caught.value.hint, program


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a(X) :- b(X), X = " + "(" * 2_000 + "1.", "more than 100 levels of nesting"),
        ("a(X) :- b(X), X = " + "-" * 2_000 + "1.", "more than 100 levels of nesting"),
        ("a(X) :- b(X), X = 1" + " + 1" * 2_000 + ".", "more than 200 operators on one another"),
        ("a(X) :- b(X), X = 1" + " ^ 1" * 2_000 + ".", "more than 100 levels of nesting"),
    ],
    ids=("parentheses", "signs", "sums", "powers"),
)
def test_hostile_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(CepError, match=message):
        lars(text)
    with pytest.raises(CepError, match="more than 100 levels of nesting"):
        laser("a :- " + "not(" * 2_000 + "b")


# --- components ---


def test_components_come_in_the_order_of_evaluation() -> None:
    found = components(lars("d :- c. c :- b [3]. b :- a, not e. e :- a. :- d. f(1). r(X) :- r(Y), s(X, Y)."))
    assert [(each.predicates, each.recursive, each.cyclic) for each in found] == [
        (("e",), False, None), (("b",), False, None), (("c",), False, None), (("d",), False, None),
        (("r",), True, None), ((), False, None),
    ]  # fmt: skip
    assert found[-1].rules[0].head is None


@pytest.mark.parametrize(
    ("text", "predicates"),
    [
        ("a :- not b. b :- not a.", ("a", "b")),
        ("a :- c, not a.", ("a",)),
        ("a :- not b [3]. b :- c. c :- a at T in [9].", ("a", "b", "c")),
        ("a :- b always in [3]. b :- a.", ("a", "b")),
        ("x :- y. y :- x, z. z :- not y.", ("z", "y")),
    ],
)
def test_a_cycle_through_negation_is_shown(text: str, predicates: tuple[str, ...]) -> None:
    cycles = [each.cyclic for each in components(lars(text)) if each.cyclic is not None]
    assert [each.predicates for each in cycles] == [predicates]
    (cycle,) = cycles
    asked = (*cycle.predicates[1:], cycle.predicates[0])
    for rule, literal, head, body in zip(cycle.rules, cycle.literals, cycle.predicates, asked, strict=True):
        assert rule.head is not None
        assert (rule.head.predicate, literal.atom.predicate) == (head, body) and literal in rule.body
    assert cycle.literals[0].negated or cycle.literals[0].modality == EVERY


def test_many_rules_make_no_deep_recursion() -> None:
    chain = "".join(f"p{n} :- p{n + 1}, not q. " for n in range(1000)) + "p1000 :- not p0. q :- r."
    (cyclic,) = [each for each in components(lars(chain)) if each.cyclic]
    assert cyclic.cyclic is not None and len(cyclic.cyclic.predicates) == 1001


# --- warnings ---


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a :- b at T.", "`b at T` never expires: each `b` is kept for ever", "`b at T in [10 min]`"),
        ("a :- b in [inf].", "`b in [inf]` never expires", "`b in [10 min]`"),
        ("a(X) :- b(X) in [3 #] by X.", "the last 3 atoms of each `X` are kept for ever", "only a few"),
        ("a :- b [0].", "this window contains only the present tick", "`b` means the same"),
        (
            "car(1). a :- car(X) [3].",
            "`car` is defined by facts, and windows contain no facts: this is never true",
            "`car`",
        ),
        ("car(1). a :- not car(1) [3].", "this is always true", "leave out the window"),
        ("a :- value(V), leq(18, V).", "`leq` is read from the input, and has no other meaning", "`18 <= V`"),
        (
            "station_ok :- b. c :- not staton_ok.",
            "`staton_ok` is read from the input, because no rule derives it",
            "did you mean `station_ok`?",
        ),
        ("a at T :- b at T in [3]. a at S :- a at T, S = T + 1.", "`a` may be derived for ever later ticks", "S < 100"),
    ],
)
def test_warnings(text: str, message: str, hint: str) -> None:
    source = Source(text)
    (warning,) = advice(read(source), source)
    assert message in warning.message and hint in (warning.hint or "")


@pytest.mark.parametrize(
    "text",
    [
        CACHING, REACHING, "a :- b at T in [3].", "a at T :- b at T in [3]. a at S :- a at T in [9], S = T + 1.",
        "a at T :- b at T in [3]. a at S :- a at T, S = T + 1, S < 90.", "a :- b [0] step 5.",
    ],
)  # fmt: skip
def test_programs_without_warnings(text: str) -> None:
    source = Source(text)
    assert advice(read(source), source) == ()


def test_four_times_as_many_rules_take_four_times_the_work() -> None:
    """Counted, not timed: calls of Python functions."""

    def calls(rules: int) -> int:
        text = "".join(f"p{n}(X) :- p{n + 1}(X) in [3], b(X) at T in [9], not q(T). " for n in range(rules))
        count = 0

        def called(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        before = sys.getprofile()
        sys.setprofile(called)
        try:
            source = Source(text)
            program = read(source)
            advice(program, source)
            components(program)
        finally:
            sys.setprofile(before)
        return count

    assert calls(160) < 5 * calls(40)
