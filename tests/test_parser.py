"""Rule text to tree: every form of the language, every span, and what an author reads after a mistake."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from cep.core.errors import CepError, Span
from cep.core.literals import LARGEST, SECOND, read_duration, read_ticks, read_time, write_duration, write_time
from cep.core.time import FARTHEST
from cep.events import Iri
from cep.language.syntax import ast
from cep.language.syntax.aggregates import Aggregate
from cep.language.syntax.ast import (
    AttributeTree,
    Binary,
    EventDeclaration,
    EventPattern,
    EventRule,
    Policy,
    PolicyStatement,
    Prefix,
    TimePoint,
    Where,
    Within,
)
from cep.language.syntax.parser import parse
from cep.language.syntax.patterns import Not, Times, UnlessTree
from cep.rules.terms import (
    AggregateResult,
    Call,
    Comparison,
    Condition,
    Constant,
    Expression,
    PolicyChoice,
    Predicate,
    StaticRule,
    Variable,
)

HOUR = 3600 * SECOND
A, B, C, D = (EventPattern(name, ()) for name in "abcd")
X, Y, Z = (Variable(name) for name in "XYZ")


def statement(text: str) -> ast.Statement:
    (only,) = parse(text).statements
    return only


def body(text: str) -> ast.PatternTree:
    rule = statement(f"e <- {text}.")
    assert isinstance(rule, EventRule)
    return rule.body


def conditions(text: str) -> tuple[Condition, ...]:
    pattern = body(f"a WHERE {text}")
    assert isinstance(pattern, Where)
    return pattern.conditions


def value(text: str) -> Expression:
    (condition,) = conditions(f"X = {text}")
    assert isinstance(condition, Comparison)
    return condition.right


def number(n: float) -> Constant:
    return Constant(n, "float" if isinstance(n, float) else "int")


STATEMENTS: list[tuple[str, ast.Statement]] = [
    ("PREFIX sosa: <http://www.w3.org/ns/sosa/>", Prefix("sosa", "http://www.w3.org/ns/sosa/")),
    ("prefix dbpedia-owl:<http://dbpedia.org/ontology/>", Prefix("dbpedia-owl", "http://dbpedia.org/ontology/")),
    ("PREFIX : <urn:x#> # that `#` is the IRI's", Prefix("", "urn:x#")),
    ("policy recent.", PolicyStatement(PolicyChoice("recent"))),
    ("POLICY Chronological(BY Vol).", PolicyStatement(PolicyChoice("chronological", "by", "Vol"))),
    ("policy recent(shortest).", PolicyStatement(PolicyChoice("recent", "shortest"))),
    ("event tick.", EventDeclaration("tick", ())),
    ("event tick().", EventDeclaration("tick", ())),
    (
        "event sensor(id: string, gust:float? in -40.5..60 FROM wind_gust, n: int in 0..) TIME Time_Hour.",
        EventDeclaration(
            "sensor",
            (
                AttributeTree("id", "string"),
                AttributeTree("gust", "float", True, -40.5, 60.0, "wind_gust"),
                AttributeTree("n", "int", False, 0, None),
            ),
            time="Time_Hour",
        ),
    ),
    (
        'event leg(t: time in 0..2013-02-08, d: duration in 90..PT3H FROM "Air time") START start END "END".',
        EventDeclaration(
            "leg",
            (
                AttributeTree("t", "time", False, 0, 1360281600 * SECOND),
                AttributeTree("d", "duration", False, 90 * SECOND, 3 * HOUR, "Air time"),
            ),
            start="start",
            end="END",
        ),
    ),
    ("linked(p1, p2).", StaticRule("linked", (Constant("p1", "string"), Constant("p2", "string")))),
    ("raining.", StaticRule("raining", ())),
    (
        "risky(X) :- linked(X, Y), not dangerous(Y), raining.",
        StaticRule(
            "risky", (X,), (Predicate("linked", (X, Y)), Predicate("dangerous", (Y,), True), Predicate("raining", ()))
        ),
    ),
    ("e <- a.", EventRule("e", (), A)),
    ("storm: e(X) <- a.", EventRule("e", (X,), A, "storm")),
    ("storm:e(X) <- a.", EventRule("e", (X,), A, "storm")),
    ("next(X, Y + 1, snow) <- a.", EventRule("next", (X, Call("+", (Y, number(1))), Constant("snow", "string")), A)),
]

PATTERNS: list[tuple[str, ast.PatternTree]] = [
    ("a()", A),
    ("a(X, _, 3)", EventPattern("a", (X, Variable("_"), number(3)))),
    ("a(id: X, policy: Y, end: 3)", EventPattern("a", (X, Y, number(3)), ("id", "policy", "end"))),
    ("a SEQ b AND c", Binary("AND", Binary("SEQ", A, B), C)),
    ("a SEQ (b AND c)", Binary("SEQ", A, Binary("AND", B, C))),
    ("(((a)))", A),
    *((f"a {word.lower()} b", Binary(word, A, B)) for word in ("SEQ", "AND", "PAR", "OR", "EQUALS", "MEETS")),
    *((f"a {word.title()} b", Binary(word, A, B)) for word in ("OVERLAPS", "DURING", "STARTS", "FINISHES", "CNOT")),
    ("(a SEQ b) CNOT c", Binary("CNOT", Binary("SEQ", A, B), C)),
    ("NOT(c).[a, b]", Not(C, A, B)),
    (
        "not (c SEQ d) . [a WITHIN 3, b WHERE X > 3]",
        Not(Binary("SEQ", C, D), Within(A, 3 * SECOND), Where(B, (Comparison(">", X, number(3)),))),
    ),
    ("a UNLESS b WITHIN 3", UnlessTree(A, B, 3 * SECOND)),
    ("a UNLESS b WITHIN 3 WITHIN 4", Within(UnlessTree(A, B, 3 * SECOND), 4 * SECOND)),
    ("a UNLESS b SEQ c WITHIN 3", Binary("SEQ", UnlessTree(A, B, 3 * SECOND), C)),
    ("a UNLESS b POLICY recent WITHIN 3", Policy(UnlessTree(A, B, 3 * SECOND), PolicyChoice("recent"))),
    ("a UNLESS b WITHIN 1 UNLESS c WITHIN 2", UnlessTree(UnlessTree(A, B, SECOND), C, 2 * SECOND)),
    ("a SEQ b TIMES 3", Binary("SEQ", A, Times(B, 3))),
    ("(a SEQ b) TIMES 3 TIMES 2", Times(Times(Binary("SEQ", A, B), 3), 2)),
    ("a SEQ b WITHIN 500 ms", Within(Binary("SEQ", A, B), SECOND // 2)),
    ("a WITHIN 3 SEQ b", Binary("SEQ", Within(A, 3 * SECOND), B)),
    ("(a SEQ b).3", Within(Binary("SEQ", A, B), 3 * SECOND)),
    ("(a).0.5 SEQ (b).PT3H", Binary("SEQ", Within(A, SECOND // 2), Within(B, 3 * HOUR))),
    ("a WHERE X > 1, raining", Where(A, (Comparison(">", X, number(1)), Predicate("raining", ())))),
    ("a POLICY recent(by X)", Policy(A, PolicyChoice("recent", "by", "X"))),
    ("(a WHERE raining) AND b", Binary("AND", Where(A, (Predicate("raining", ()),)), B)),
    ("a WHERE raining SEQ b", Binary("SEQ", Where(A, (Predicate("raining", ()),)), B)),
    ("4", TimePoint(4 * SECOND)),
    ("-0.5 SEQ 1970-01-02", Binary("SEQ", TimePoint(-SECOND // 2), TimePoint(24 * HOUR))),
    (
        "a AGGREGATE X = avg(Y * 2), Z = COUNT() OVER LAST 5 EVENTS",
        Aggregate(
            A,
            (AggregateResult("X", "avg", Call("*", (Y, number(2)))), AggregateResult("Z", "count", None)),
            5,
            None,
            (),
        ),
    ),
    (
        "a aggregate X = count(distinct Y) over last 30 min by Y, Z where X > 1",
        Where(
            Aggregate(A, (AggregateResult("X", "count", Y, True),), None, 1800 * SECOND, (Y, Z)),
            (Comparison(">", X, number(1)),),
        ),
    ),
]

VALUES: list[tuple[str, Expression]] = [
    ("3", number(3)),
    ("-3", number(-3)),
    (str(LARGEST), number(LARGEST)),
    ("3.5e-2", number(0.035)),
    ("1e3", number(1000.0)),
    ("true", Constant(True, "bool")),
    ("snow", Constant("snow", "string")),
    ('"a\\n\\"\\u00e9\\\\ # %"', Constant('a\n"é\\ # %', "string")),
    ("<http://x.org/#a>", Constant(Iri("http://x.org/#a"), "iri")),
    ("3 h", Constant(3 * HOUR, "duration")),
    ("-1.5s", Constant(-SECOND * 3 // 2, "duration")),
    ("P1DT2H0.5S", Constant(26 * HOUR + SECOND // 2, "duration")),
    ("PT0.000001S", Constant(1, "duration")),
    ("P2W", Constant(14 * 24 * HOUR, "duration")),
    ("2013-02-08", Constant(1360281600 * SECOND, "time")),
    ("2013-02-08T18:00:00Z", Constant(1360346400 * SECOND, "time")),
    ("2013-02-08T19:00+01:00", Constant(1360346400 * SECOND, "time")),
    ("2013-02-08T18:00:00.000001", Constant(1360346400 * SECOND + 1, "time")),
    ("1 + 2 * 3 - 4", Call("-", (Call("+", (number(1), Call("*", (number(2), number(3))))), number(4)))),
    ("(1 + Y) // 2 mod Z", Call("mod", (Call("//", (Call("+", (number(1), Y)), number(2))), Z))),
    ("mod(Y, 2)", Call("mod", (Y, number(2)))),
    ("2 ** -Y ** 3", Call("**", (number(2), Call("neg", (Call("**", (Y, number(3))),))))),
    ("-2 ** 2", Call("neg", (Call("**", (number(2), number(2))),))),
    ("-(3)", Call("neg", (number(3),))),
    ("2 --3", Call("-", (number(2), number(-3)))),
    ("min(Y, start()) - 3 min", Call("-", (Call("min", (Y, Call("start", ()))), Constant(180 * SECOND, "duration")))),
]


@pytest.mark.parametrize(("text", "tree"), STATEMENTS)
def test_statement(text: str, tree: ast.Statement) -> None:
    assert statement(text) == tree


@pytest.mark.parametrize(("text", "tree"), PATTERNS)
def test_pattern(text: str, tree: ast.PatternTree) -> None:
    assert body(text) == tree


@pytest.mark.parametrize(("text", "tree"), VALUES)
def test_value(text: str, tree: Expression) -> None:
    assert value(text) == tree


def test_bool_is_no_int() -> None:
    (fact,) = parse("p(true, 1, 1.0).").statements
    assert isinstance(fact, StaticRule)
    assert [repr(each.value) for each in fact.arguments if isinstance(each, Constant)] == ["True", "1", "1.0"]


@pytest.mark.parametrize(("sign", "operator"), [("is", "="), ("==", "="), ("IS", "="), ("<", "<"), ("!=", "!=")])
def test_comparison(sign: str, operator: str) -> None:
    assert conditions(f"X {sign} Y") == (Comparison(operator, X, Y),)


def test_less_than_a_negative_number_without_spaces() -> None:
    assert conditions("X<-5, Y <-X") == (Comparison("<", X, number(-5)), Comparison("<", Y, Call("neg", (X,))))


def test_positional_keywords_are_good_variables() -> None:
    expected = Comparison("<", Call("-", (Variable("End"), Variable("Start"))), Variable("Last"))
    assert conditions("End - Start < Last") == (expected,)


def test_prefixes_are_resolved_from_their_declaration_on() -> None:
    program = parse("PREFIX wt: <http://a/> p(wt:Diablo-2.x). PREFIX wt: <http://b/> p(wt:1). PREFIX : <u:> p(:x).")
    facts = [each.arguments[0] for each in program.statements if isinstance(each, StaticRule)]
    assert facts == [Constant(Iri(iri), "iri") for iri in ("http://a/Diablo-2.x", "http://b/1", "u:x")]


def test_a_dot_ends_a_statement_whatever_follows() -> None:
    assert len(parse("e<-a.f<-b WITHIN 3.g<-(c)\n.\n% end\nh<-2013-02-08.p(x).# end").statements) == 5


@pytest.mark.parametrize("text", ["", "   \n\t", "# only\r\n% comments", "\u2028"])
def test_an_empty_program_is_fine(text: str) -> None:
    assert parse(text).statements == ()


def test_spans_cover_what_was_written() -> None:
    text = "# first\nstorm: e(X) <- (a(id: X) SEQ b(X, -3))\n  AND c WITHIN 3 h WHERE X + 1 > 2, not p(X)."
    rule = statement(text)
    assert isinstance(rule, EventRule)
    where = rule.body
    assert isinstance(where, Where) and isinstance(where.pattern, Within)
    both = where.pattern.pattern
    assert isinstance(both, Binary) and isinstance(both.left, Binary) and isinstance(both.left.right, EventPattern)
    comparison, predicate = where.conditions
    assert isinstance(comparison, Comparison)
    spans = {
        rule.span: Span(2, 1, 3, 46),
        rule.head_span: Span(2, 8, 2, 12),
        where.span: Span(2, 16, 3, 45),
        where.pattern.span: Span(2, 16, 3, 19),
        both.span: Span(2, 16, 3, 8),
        both.left.span: Span(2, 17, 2, 38),
        both.left.right.span: Span(2, 30, 2, 38),
        both.left.right.arguments[1].span: Span(2, 35, 2, 37),
        comparison.span: Span(3, 26, 3, 35),
        comparison.left.span: Span(3, 26, 3, 31),
        predicate.span: Span(3, 37, 3, 45),
    }
    assert list(spans) == list(spans.values())


# What an author reads: tests/mistakes/*.txt, each the program, `--`, the error; between them `====`.
MISTAKES = [
    (path.stem, *entry.removesuffix("\n").split("\n--\n"))
    for path in sorted((Path(__file__).parent / "mistakes").glob("*.txt"))
    for entry in path.read_text().split("====\n")
]


@pytest.mark.parametrize(("area", "program", "expected"), MISTAKES)
def test_mistake(area: str, program: str, expected: str) -> None:
    with pytest.raises(CepError) as caught:
        parse(program, "rules.cep")
    assert str(caught.value) == expected
    assert caught.value.code == "syntax"
    assert caught.value.hint or "not a character" in expected


HOSTILE = [
    ("e <- " + "(" * 20_000 + "a", "more than 100 levels of nesting"),
    ("e <- a WHERE X = " + "(" * 20_000, "more than 100 levels of nesting"),
    ("e <- a WHERE X = " + "-" * 20_000 + "3", "more than 100 levels of nesting"),
    ("e <- a WHERE X = " + "2 ** " * 20_000, "more than 100 levels of nesting"),
    ("e <- a WHERE " + "f(" * 20_000, "more than 100 levels of nesting"),
    ("e <- " + "NOT(a).[" * 20_000, "more than 100 levels of nesting"),
    ("e <- " + "a SEQ " * 20_000, "more than 200 operators on one another"),
    ("e <- a " + "WITHIN 3 " * 20_000, "more than 200 operators on one another"),
    ("e <- a " + "TIMES 2 " * 20_000, "more than 200 operators on one another"),
    ("e <- a WHERE X = " + "1 + " * 20_000, "more than 200 operators on one another"),
    ("e <- a WITHIN " + "9" * 20_000, "this is more than 36 thousand years"),
    ("e <- a WITHIN 1e999999999999", "this is more than 36 thousand years"),
    ("e <- a WITHIN 0." + "0" * 20_000 + "1", "this time is finer than a microsecond"),
    ("e <- 1e-999999999999", "this time is finer than a microsecond"),
    ("p(" + "9" * 20_000, "this integer needs more than 64 bits"),
    ("p(-9223372036854775808).", "integers must be from -9223372036854775807 to 9223372036854775807"),
    ("p(9999-12-31T23:59:59-01:00).", "`9999-12-31T23:59:59-01:00` is not a time of the calendar"),
    ('p("' + "x" * 20_000, "this string is not closed"),
    ("e <- a\0.", "a NUL character is not text"),
    ("e <- a. # \ud800", "the code U+D800 is not a character"),
    ("a-" * 20_000, "expected `<-`, `:-` or `.`, found `-`"),
    ("<a:" * 20_000, "expected a statement, found `<`"),
    ("\u200b", "the character U+200B (zero width space) does not belong here"),
]


@pytest.mark.parametrize(("program", "message"), HOSTILE, ids=[message for _, message in HOSTILE])
def test_hostile_text_is_refused_at_a_position(program: str, message: str) -> None:
    with pytest.raises(CepError) as caught:
        parse(program)
    assert caught.value.message == message
    assert caught.value.span is not None and caught.value.span.line == 1
    assert len(str(caught.value)) < 1000


def test_the_highest_tree_can_be_passed_over() -> None:
    text = (
        "e <- a"
        + " SEQ a" * 199
        + ".\ne(X) <- a WHERE X = 1"
        + " + 1" * 197
        + ".\nf <- "
        + "(" * 99
        + "a"
        + ")" * 99
        + "."
    )
    program = parse(text)
    assert program == parse(text) and hash(program) == hash(parse(text)) and repr(program)
    assert pickle.loads(pickle.dumps(program)) == program


def test_lines_are_counted_as_errors_show_them() -> None:
    for end in ("\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028"):
        with pytest.raises(CepError) as caught:
            parse(f"e <- a.{end}# comment{end}e <- a SEQ .")
        assert str(caught.value).splitlines()[:2] == [
            "<program>:3:12: expected an event, found `.`",
            "    e <- a SEQ .",
        ]


@pytest.mark.parametrize("ticks", [0, 1, 999, 1000, SECOND, 60 * SECOND, 90 * SECOND, 36 * HOUR, 48 * HOUR, FARTHEST])
def test_durations_and_times_are_written_as_they_are_read(ticks: int) -> None:
    number, unit = write_duration(ticks).split()
    units = {"ms": 1000, "s": SECOND, "min": 60 * SECOND, "h": HOUR, "d": 24 * HOUR}
    assert read_ticks(number, units[unit]) == ticks
    if ticks < 253_402_300_800 * SECOND:
        assert read_time(write_time(ticks)) == ticks


def test_readable_forms() -> None:
    forms = [write_duration(ticks) for ticks in (3 * HOUR, 10 * SECOND, SECOND // 2, 1, 90 * SECOND, 0, -HOUR)]
    assert forms == ["3 h", "10 s", "500 ms", "0.001 ms", "90 s", "0 s", "-1 h"]
    assert [write_duration(ticks) for ticks in (1500, 2_000_000_001, -1_500_001)] == [
        "1.5 ms",
        "2000.000001 s",
        "-1.500001 s",
    ]
    assert read_duration("P1DT2H3M0.000004S") == 26 * HOUR + 180 * SECOND + 4
    assert [write_time(ticks) for ticks in (0, 1, -1)] == [
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:00:00.000001Z",
        "1969-12-31T23:59:59.999999Z",
    ]
