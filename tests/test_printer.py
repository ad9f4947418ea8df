"""Tree to rule text and back: `parse(print_program(p)) == p`, with no more parentheses than the tree needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.literals import LARGEST, SECOND
from cep.core.schema import RecordFormat, TimeFormat
from cep.core.time import FARTHEST
from cep.events import Iri, type_names
from cep.language.syntax import ast
from cep.language.syntax.aggregates import Aggregate
from cep.language.syntax.alerts import CHOICES
from cep.language.syntax.parser import parse
from cep.language.syntax.patterns import Not, Times, UnlessTree
from cep.language.syntax.printer import print_pattern, print_program, print_statement
from cep.rules.keywords import BINARY_OPERATORS, KEYWORDS
from cep.rules.printing import print_condition, print_expression
from cep.rules.static.typed_facts import FactAttribute, FactDeclaration
from cep.rules.terms import (
    AggregateResult,
    Call,
    Comparison,
    Condition,
    Constant,
    Disjunction,
    Expression,
    PolicyChoice,
    Predicate,
    StaticRule,
    Variable,
)
from tests.long import examples

# Each line is printed as it stands: spaces, parentheses, units and all.
CANONICAL = """\
PREFIX sosa: <http://www.w3.org/ns/sosa/>
PREFIX : <urn:x#>
event tick().
event sensor(id: string, wind: float in 0..250 FROM wind_speed, gust: float? in -40.5..60) TIME time_hour.
event leg(t: time in 2013-02-08T00:00:00Z.., d: duration in ..3 h FROM "Air time") START departed END landed.
event storm(at: iri AS <urn:x#at>, wind: float in 0.. FROM wind_speed AS <urn:x#wind>) AS <urn:x#Storm> TIME time.
event one(a: int? FROM "pump.id" MISSING -999, "n/a", b: time FORMAT "%d.%m.%Y" ZONE "Europe/Zurich" FOLD later).
event two(a: time FORMAT epoch ms, b: duration FORMAT ms) TIME "day of", clock FORMAT "%d.%m.%y %H:%M" MISSING -1.5.
event three(a: int FROM "readings[].value") TIME ts ZONE "Europe/Zurich" FORMAT csv(separator: ";", comment: "#").
event four() START a END b FORMAT epoch us.
event score(n: int in -5..5, x: float in 1e-07..1e+30, t: time in -1..0.5).
policy chronological(by Vol).
ALERT fire ON smoke(R) TITLE "Smoke in {R}" FOR 10 min.
ALERT a ON b(x: X) WHERE X > 3, at(X, Y, Z) SEVERITY "Minor" CATEGORY "Met" TITLE "" TEXT "\\n" FOR 3 h AT Y, Z.
ALERT a ON b(X) URGENCY "Future" CERTAINTY "Possible" TITLE "x" TEXT "y" INSTRUCTION "Leave {X}" FOR 1 d.
ALERT a ON b(X) = Y WHERE Y > 3 TITLE "x" FOR 1 d KEYED BY X, Y.
ALERT a ON b(X) TITLE "x" AFTER 5 min KEEP 90 s ESCALATE "Minor" AFTER 1 h, "Extreme" AFTER 1 d.
ALERT a ON b(X) TITLE "x" FOR 1 d RUNBOOK "https://x/{X}" LABELS team: "a b", x: X, n: -3.
ALERT a ON b(X) TITLE "x" FOR 1 d INHIBITED BY c(x: X, y: 3).
ALERT a ON b(X) TITLE "x" FOR 1 d INHIBITED BY c(X, _) = 3.
ALERT a ON b(X) TITLE "x" FOR 1 d ESCALATE "Minor" AFTER 1 h REPEAT 4 h.
ALERT a ON b(x: X) = 3 TITLE "x" FOR 1 d.
ALERT a ON b(X, _) WHERE X = Y TITLE "x" FOR 1 d KEYED BY X, Y AT 40.5, -Y RADIUS X * 1000 AREA "POLYGON".
linked(p1, "P 2").
raining.
risky(X) :- linked(X, Y), not dangerous(Y), Y != "start", raining.
storm: e(X, X + 1, snow, "mod", -2, true) <- a(X, _) SEQ b(id: X, wind: W).
e <- a SEQ b AND c.
e <- a SEQ (b AND c).
e <- NOT(c SEQ d).[a WITHIN 3 s, b WHERE X > 1].
e <- NOT(c).[(a WHERE X > 1, X < 3), b].
e <- NOT(c).[(a AGGREGATE N = count() OVER LAST 5 EVENTS BY X), b].
e <- NOT(c).[a AGGREGATE N = count() OVER LAST 5 EVENTS, b].
e <- (a SEQ b) TIMES 3 TIMES 2 SEQ c TIMES 2.
e <- a UNLESS b WITHIN 3 s WITHIN 5 s.
e <- a UNLESS b WITHIN 3 s SEQ c.
e <- a SEQ (b UNLESS (c SEQ d) WITHIN 90 s).
e <- (a WITHIN 3 h) SEQ (b WHERE X > 1) TIMES 2 WITHIN 500 ms POLICY recent.
e <- a WHERE X > 1 WITHIN 3 d WHERE Y > 1.
e <- 4 SEQ -0.5 SEQ 2013-02-08T18:00:00.25Z.
e <- a AGGREGATE A = avg(W * 2), N = count(), D = count(distinct (-1) ** W) OVER LAST 30 min BY ID, T WHERE N >= 3.
e <- a WHERE X = 1 - (2 - 3) - 4, X = (1 + 2) * 3 // 4 mod 5, X = 2 ** 3 ** 4, X = (2 ** 3) ** 4.
e <- a WHERE X = -Y ** 2, X = (-Y) ** 2, X = (-2) ** 2, X = -2 ** 2, X = 2 ** -Y, X = -(3), X = -(-Y), X = -(Y + 1).
e <- a WHERE duration() > 3 h, start() - -5 min < 2013-02-08T00:00:00Z, X = <http://x.org/#a>, X < -1.5.
e <- a WHERE contains(lower(X), snow), not matches(X, "^K\\n\\"\\\\"), X = "snow", X = "é\\u2028\\u0007".
"""


@pytest.mark.parametrize("line", CANONICAL.splitlines())
def test_printed_as_it_stands(line: str) -> None:
    (statement,) = parse(line).statements
    assert print_statement(statement) == line


def test_a_program_is_a_statement_a_line() -> None:
    assert print_program(parse(CANONICAL)) == CANONICAL
    assert print_program(parse("")) == ""


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("e <- ((a) SEQ (b)) SEQ (c).", "e <- a SEQ b SEQ c."),
        ("e <- (a SEQ b).3 seq c().", "e <- (a SEQ b WITHIN 3 s) SEQ c."),
        ("e <- a unless b where X is 3 within 2.", "e <- a UNLESS b WITHIN 2 s WHERE X = 3."),
        ("e <- a WHERE X = (Y) * (2 + (3)), X = mod(Y, 2).", "e <- a WHERE X = Y * (2 + 3), X = Y mod 2."),
        ("e <- a WITHIN 7200.", "e <- a WITHIN 2 h."),
        ("e <- 1360346400.", "e <- 2013-02-08T18:00:00Z."),
    ],
)
def test_printed_plainly(written: str, printed: str) -> None:
    assert print_program(parse(written)) == printed + "\n"
    assert parse(printed) == parse(written)


# Random trees. Words are few, so that keywords and units come up.
names = st.sampled_from(["a", "sensor", "s", "h", "start", "last", "is", "mod", "éa", "x1"])
labels = st.sampled_from(["a", "time", "end", "policy", "where"])
variable_names = st.sampled_from(["X", "Last", "End", "_", "_x", "By", "É"])
variables = st.builds(Variable, variable_names)
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
    st.sampled_from([*sorted(KEYWORDS), "true", "mod", "is", "seq", "snow", "p1", ""]),
)
ticks = st.one_of(st.integers(0, 10), st.integers(0, FARTHEST), st.integers(1, 48).map(lambda n: n * 1800 * SECOND))
moments = st.one_of(st.integers(-62_135_596_800 * SECOND, 253_402_300_799 * SECOND), st.integers(-5, 5))
constants = st.one_of(
    st.builds(Constant, st.integers(-LARGEST, LARGEST), st.just("int")),
    st.builds(Constant, st.floats(allow_nan=False, allow_infinity=False), st.just("float")),
    st.builds(Constant, texts, st.just("string")),
    st.builds(Constant, st.booleans(), st.just("bool")),
    st.builds(Constant, st.sampled_from([Iri("http://x.org/#a"), Iri("urn:é")]), st.just("iri")),
    st.builds(Constant, moments, st.just("time")),
    st.builds(Constant, st.builds(lambda n, sign: n * sign, ticks, st.sampled_from([1, -1])), st.just("duration")),
)
signs = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


def conditions_of_if(values: st.SearchStrategy[Expression]) -> st.SearchStrategy[Call]:
    """Conditions of an `if`."""
    asked = st.builds(Call, names.filter("mod".__ne__), st.lists(values, max_size=2).map(tuple))
    single = st.one_of(
        st.builds(lambda sign, a, b: Call(sign, (a, b)), signs, values, values),
        asked,
        asked.map(lambda call: Call("not", (call,))),
    )

    def joined(word: str, inner: st.SearchStrategy[Call]) -> st.SearchStrategy[Call]:
        return st.lists(inner, min_size=2, max_size=3).map(lambda sides: Call(word, tuple(sides)))

    return st.one_of(single, joined("or", single | joined("and", single)), joined("and", single | joined("or", single)))


operators = st.sampled_from(["+", "-", "*", "/", "//", "mod", "**"])
expressions: st.SearchStrategy[Expression] = st.recursive(
    st.one_of(variables, constants),
    lambda inner: st.one_of(
        st.builds(lambda f, a, b: Call(f, (a, b)), operators, inner, inner),
        st.builds(lambda a: Call("neg", (a,)), inner),
        st.builds(Call, st.one_of(names, st.just("min")), st.lists(inner, max_size=3).map(tuple)),
        st.builds(lambda c, a, b: Call("if", (c, a, b)), conditions_of_if(inner), inner, inner),
    ),
    max_leaves=6,
)
arguments = st.lists(expressions, max_size=3).map(tuple)
single = st.one_of(
    st.builds(Comparison, signs, expressions, expressions),
    st.builds(Predicate, names, arguments, st.booleans()),
)


def together(inner: st.SearchStrategy[Condition], least: int) -> st.SearchStrategy[tuple[Condition, ...]]:
    return st.lists(inner, min_size=least, max_size=2).map(tuple)


def one_of(alternatives: st.SearchStrategy[tuple[Condition, ...]]) -> st.SearchStrategy[Disjunction]:
    return st.lists(alternatives, min_size=2, max_size=3).map(lambda found: Disjunction(tuple(found)))


listed = st.builds(
    lambda left, values: Disjunction(tuple((Comparison("=", left, value),) for value in values)),
    expressions, st.lists(expressions, min_size=2, max_size=3),
)  # fmt: skip
conditions = st.one_of(
    single, listed, one_of(together(single, 1)), one_of(together(single, 1) | together(single | listed, 2)),
)  # fmt: skip
choices = st.one_of(
    st.builds(PolicyChoice, st.sampled_from(["unrestricted", "recent", "chronological"])),
    st.builds(PolicyChoice, st.just("recent"), st.sampled_from(["longest", "shortest"])),
    st.builds(PolicyChoice, st.just("chronological"), st.just("by"), variable_names),
)
results = st.one_of(
    st.builds(AggregateResult, variable_names, st.just("count"), st.one_of(st.none(), expressions)),
    st.builds(AggregateResult, variable_names, st.just("count"), expressions, st.just(True)),
    st.builds(AggregateResult, variable_names, st.sampled_from(["sum", "last", "min"]), expressions),
)


def named_event(name: str, named: dict[str, Expression]) -> ast.EventPattern:
    return ast.EventPattern(name, tuple(named.values()), tuple(named) if named else None)


def larger(inner: st.SearchStrategy[ast.PatternTree]) -> st.SearchStrategy[ast.PatternTree]:
    listed = st.lists(results, min_size=1, max_size=2).map(tuple)
    by = st.lists(variables, max_size=2).map(tuple)
    return st.one_of(
        st.builds(ast.Binary, st.sampled_from(BINARY_OPERATORS), inner, inner),
        st.builds(Not, inner, inner, inner),
        st.builds(UnlessTree, inner, inner, ticks),
        st.builds(Times, inner, st.integers(1, 100)),
        st.builds(ast.Within, inner, ticks),
        st.builds(ast.Where, inner, st.lists(conditions, min_size=1, max_size=2).map(tuple)),
        st.builds(ast.Policy, inner, choices),
        st.builds(lambda p, r, n, b: Aggregate(p, r, n, None, b), inner, listed, st.integers(1, 9), by),
        st.builds(lambda p, r, d, b: Aggregate(p, r, None, d + 1, b), inner, listed, st.integers(0, FARTHEST - 1), by),
    )


patterns: st.SearchStrategy[ast.PatternTree] = st.recursive(
    st.one_of(
        st.builds(ast.EventPattern, names, arguments),
        st.builds(named_event, names, st.dictionaries(labels, expressions, max_size=2)),
        st.builds(ast.TimePoint, st.integers(-FARTHEST, FARTHEST)),
    ),
    larger,
    max_leaves=6,
)


folds = st.sampled_from([None, "earlier", "later"])
formats = st.one_of(
    st.builds(TimeFormat, st.none(), st.sampled_from(["s", "ms", "us", "ns"])),
    st.builds(TimeFormat, st.sampled_from(["%d.%m.%Y %H:%M", '"%Y"\\']), st.none(), st.just("Asia/Tokyo"), folds),
)
missing = st.lists(
    st.one_of(st.integers(-LARGEST, LARGEST), st.floats(allow_nan=False, allow_infinity=False), texts),
    min_size=1,
    max_size=3,
    unique=True,
).map(tuple)
options = st.sampled_from([(("separator", ";"),), (("comment", '"'), ("encoding", "latin1"))])


@st.composite
def attributes(draw: st.DrawFn) -> ast.AttributeTree:
    kind = draw(st.sampled_from(type_names))
    bounds: list[int | float] = []
    if kind == "float":
        bounds = sorted(draw(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2)))
    elif kind in ("int", "time", "duration"):
        most = LARGEST if kind == "int" else FARTHEST
        bounds = sorted(draw(st.lists(st.integers(-most, most), min_size=2, max_size=2)))
    low, high = (bound if draw(st.booleans()) else None for bound in bounds) if bounds else (None, None)
    source = draw(st.one_of(st.none(), texts))
    iri = draw(st.sampled_from([None, "urn:x#wind"]))
    optional = draw(st.booleans())
    format = draw(st.one_of(st.none(), formats)) if kind == "time" else None
    absent = draw(st.one_of(st.none(), missing)) if optional else None
    return ast.AttributeTree(draw(labels), kind, optional, low, high, source, iri, format=format, missing=absent)


def alerts() -> st.SearchStrategy[ast.AlertStatement]:
    strings = st.builds(Constant, texts, st.just("string"))
    keys = st.lists(variables.filter(lambda each: each.name != "_"), max_size=2, unique_by=lambda each: each.name)
    return st.builds(
        ast.AlertStatement,
        name=names,
        event=st.builds(ast.EventPattern, names, arguments),
        conditions=st.lists(conditions, max_size=2).map(tuple),
        **{word.lower(): st.sampled_from([None, *words]) for word, words in CHOICES.items()},
        title=strings,
        text=st.one_of(st.none(), strings),
        instruction=st.one_of(st.none(), strings),
        duration=ticks.map(lambda n: n + 1).filter(lambda n: n <= FARTHEST),
        keys=keys.map(tuple),
        position=st.tuples(expressions, expressions),
        radius=st.one_of(st.none(), expressions),
        area=st.one_of(st.none(), expressions),
    )


declared = st.lists(attributes(), max_size=3, unique_by=lambda each: each.name).map(tuple)
named_heads = st.builds(named_event, names, st.dictionaries(names, expressions, min_size=1, max_size=3))


def typed(attributes: tuple[ast.AttributeTree, ...]) -> tuple[FactAttribute, ...]:
    return tuple(FactAttribute(each.name, each.type, each.optional) for each in attributes)


statements: st.SearchStrategy[ast.Statement] = st.one_of(
    st.builds(ast.Prefix, st.sampled_from(["", "wt", "Wt", "a-b"]), st.just("http://x.org/#")),
    st.builds(ast.PolicyStatement, choices),
    st.builds(ast.EventDeclaration, names, declared, st.one_of(st.none(), texts)),
    st.builds(ast.EventDeclaration, names, declared, st.none(), texts, texts),
    st.builds(
        ast.EventDeclaration,
        names,
        declared,
        st.just("a"),
        further=st.one_of(st.just(()), st.tuples(texts)),
        format=st.sampled_from(
            [None, TimeFormat("%d.%m.%Y"), TimeFormat(None, None, "UTC"), TimeFormat(None, None, "UTC", "order")]
        ),
        missing=st.one_of(st.none(), missing),
        records=st.one_of(st.none(), st.builds(RecordFormat, st.just("csv"), options)),
    ),
    st.builds(ast.EventRule, names, arguments, patterns, st.one_of(st.none(), names)),
    st.builds(StaticRule, names, arguments, st.lists(conditions, max_size=3).map(tuple)),
    st.builds(
        lambda head, body: ast.EventRule(head.name, head.arguments, body, names=head.names), named_heads, patterns
    ),
    st.builds(FactDeclaration, names, declared.filter(len).map(typed)),
    alerts(),
)


@examples(600)
@given(st.lists(statements, max_size=3))
def test_what_is_printed_is_read_back(written: list[ast.Statement]) -> None:
    program = ast.SyntaxTree(tuple(written))
    assert parse(print_program(program)) == program


@examples(200)
@given(patterns, expressions, conditions)
def test_parts_are_printed_as_in_the_whole(
    pattern: ast.PatternTree, expression: Expression, condition: Condition
) -> None:
    where = ast.Where(pattern, (Comparison("=", expression, Variable("X")), condition))
    whole = print_pattern(where)
    assert whole == f"{print_pattern(pattern)} WHERE {print_expression(expression)} = X, {print_condition(condition)}"


def without_one_pair(text: str) -> list[str]:
    """The text without one pair of grouping parentheses, for each such pair."""
    found, opened = [], []
    for at, character in enumerate(text):
        if character == "(":
            opened.append(at)
        elif character == ")":
            start = opened.pop()
            if start == 0 or text[start - 1] in " ([":
                found.append(text[:start] + text[start + 1 : at] + text[at + 1 :])
    return found


def reads_as(text: str, statement: ast.Statement) -> bool:
    try:
        return parse(text).statements == (statement,)
    except CepError:
        return False


plain_events = st.builds(ast.EventPattern, names, st.just(()))
plain_patterns: st.SearchStrategy[ast.PatternTree] = st.recursive(
    plain_events,
    lambda inner: st.one_of(
        st.builds(ast.Binary, st.sampled_from(["SEQ", "OR"]), inner, inner),
        st.builds(UnlessTree, inner, inner, st.just(SECOND)),
        st.builds(Times, inner, st.integers(1, 3)),
        st.builds(Not, inner, inner, inner),
    ),
    max_leaves=8,
)
plain_expressions: st.SearchStrategy[Expression] = st.recursive(
    variables, lambda inner: st.builds(lambda f, a, b: Call(f, (a, b)), operators, inner, inner), max_leaves=8
)


@examples(300)
@given(plain_patterns, plain_expressions)
def test_no_pair_of_parentheses_can_be_left_out(pattern: ast.PatternTree, expression: Expression) -> None:
    rule = ast.EventRule("e", (), ast.Where(pattern, (Comparison("=", Variable("X"), expression),)))
    text = print_statement(rule)
    assert reads_as(text, rule)
    assert not [shorter for shorter in without_one_pair(text) if reads_as(shorter, rule)]
