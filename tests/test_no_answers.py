"""Patterns without answers: what is said of the reason, and where."""

from __future__ import annotations

import pytest

from cep.core.prefixes import PREFIXES as BUILT_IN
from cep.engine import Engine
from tests.cases_format import known

PREFIX = """PREFIX wt: <http://example.org/weather#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
PREFIX old: <https://example.org/weather#>
"""
KNOWLEDGE = (
    PREFIX
    + """wt:jfk a wt:Station ; wt:code "JFK" ; wt:height 4 ; wt:near wt:lga .
wt:lga a wt:Station ; wt:code "LGA" . wt:Kennedy wt:height 7 ."""
)
NOTHING = "this pattern has no answers: nothing in the knowledge fits"
TOGETHER = "this pattern has no answers: its parts have some, but none together"


def warnings_of(pattern: str) -> list[tuple[str, str, str | None]]:
    """Of each warning the message, the text it points at, and the hint."""
    text = f"{PREFIX}e <- a(S) WHERE {pattern}."
    warnings = Engine.from_text(text, knowledge=known(KNOWLEDGE)).warnings
    found = []
    for each in (one for one in warnings if one.code != "apart"):  # no pattern here has to do with S
        assert each.span is not None and each.code == "no-answers"
        line = text.splitlines()[each.span.line - 1]
        found.append((each.message, line[each.span.column - 1 : each.span.end_column - 1], each.hint))
    return found


@pytest.mark.parametrize(
    ("pattern", "at", "hint"),
    [
        ("{ ?x wt:hieght ?h }", "wt:hieght", "did you mean `wt:height`?"),
        ("{ ?x a wt:station }", "wt:station", "did you mean `wt:Station`?"),
        ("{ wt:Kenedy wt:height ?h }", "wt:Kenedy", "did you mean `wt:Kennedy`?"),
        ("{ ?x old:height ?h }", "old:height", "did you mean `wt:height`?"),
        ("{ ?x <http://example.org/weather#Code> ?h }", "<http://example.org/weather#Code>", "did you mean `wt:code`?"),
        ("{ ?x wt:entirely_else ?h }", "wt:entirely_else", None),
        ("{ ?x wt:near+/wt:cod ?h }", "wt:cod", "did you mean `wt:code`?"),
        ("{ ?x wt:code ?c OPTIONAL { ?x wt:odd ?o } VALUES ?x { wt:jkf } }", "wt:jkf", "did you mean `wt:jfk`?"),
        ("{ { ?x wt:cood ?c } UNION { ?x wt:height 9 } }", "wt:cood", "did you mean `wt:code`?"),
    ],
)  # fmt: skip
def test_a_name_that_is_nowhere(pattern: str, at: str, hint: str | None) -> None:
    assert warnings_of(pattern) == [(f"`{at}` is nowhere in the knowledge, so there are no answers", at, hint)]


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ('{ ?x wt:code ?c . ?x wt:height "4" }', '?x wt:height "4"'),
        ('{ ?x wt:code ?c ; wt:code "EWR" }', 'wt:code "EWR"'),
        ("{ ?x wt:code ?c . wt:lga wt:near ?y FILTER(?c != 4) }", "wt:lga wt:near ?y"),
        ('{ ?x wt:code ?c . ?x wt:height "4"^^xsd:string }', '?x wt:height "4"^^xsd:string'),
    ],
)
def test_a_part_that_nothing_fits(pattern: str, part: str) -> None:
    assert warnings_of(pattern) == [(f"{NOTHING} `{part}`", part, None)]


@pytest.mark.parametrize(
    "pattern",
    [
        "{ ?x wt:near ?y . ?y wt:height ?h }",
        "{ ?x wt:height ?h FILTER(?h > 9) }",
        "{ ?x wt:height ?h MINUS { ?x wt:height ?h } }",
        "{ ?x wt:code ?c FILTER NOT EXISTS { ?x a wt:Station FILTER NOT EXISTS { ?x wt:nowhere ?c } } }",
    ],
)
def test_parts_that_have_no_answer_together(pattern: str) -> None:
    assert [(message, at) for message, at, _ in warnings_of(pattern)] == [(TOGETHER, pattern)]


def test_what_has_answers_or_is_denied_is_no_matter() -> None:
    assert warnings_of("not { ?x wt:nowhere ?y }, { ?x wt:code ?S OPTIONAL { ?x wt:nowhere ?y } }") == []


def test_the_same_pattern_is_told_once() -> None:
    assert len(warnings_of("{ ?x wt:nowhere ?y }, not { ?x wt:odd ?y }, { ?x wt:nowhere ?y }")) == 1
    assert warnings_of("triple(_, wt:nowhere, S), not triple(_, wt:odd, S)")[0][1] == "triple(_, wt:nowhere, S)"


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        (
            "{ ?e a wt:Hot }",
            "this is the class of `hot`, and braces see knowledge only: name it in the pattern",
        ),
        ("{ ?e wt:of ?S }", "this is the attribute `s` of `hot`, and braces see knowledge only"),
        ("triple(_, wt:of, S)", "this is the attribute `s` of `hot`, and braces see knowledge only"),
        ("{ ?e a <urn:semcep:type/a> }", "this is the class of `a`, and braces"),
        ("{ ?e <urn:semcep:attribute/a/x> ?S }", "this is the attribute `x` of `a`, and braces"),
        ("{ ?e time:hasEnd ?t }", "events are not knowledge, which is all that braces see; `cep serve` answers"),
    ],
)
def test_rules_see_no_events_in_braces(pattern: str, hint: str) -> None:
    declared = "event a(x: int). event hot(s: int AS wt:of) AS wt:Hot. hot(S) <- a(S). "
    text = f"{PREFIX}{declared}e(S) <- a(S) WHERE {pattern}."
    (warning,) = [w for w in Engine.from_text(text, knowledge=known(KNOWLEDGE)).warnings if w.code == "no-answers"]
    assert "is nowhere in the knowledge" in warning.message
    assert warning.hint is not None and warning.hint.startswith(hint)


@pytest.mark.parametrize("prefix", sorted(BUILT_IN))
def test_usual_prefixes_need_not_be_declared(prefix: str) -> None:
    iri = f"{BUILT_IN[prefix]}x"
    knowledge = known(f"<{iri}> <http://e.org/is> 1 . <urn:other> <http://e.org/is> 2 .")
    for condition in (f"{{ {prefix}:x <http://e.org/is> ?N }}", f"triple({prefix}:x, _, N)"):
        assert not Engine.from_text(f"e(N) <- a(N) WHERE {condition}.", knowledge=knowledge).warnings
    lars = f"event a(n: int) TIME time.\ne(N) :- a(N) in [2 sec], {{ {prefix}:x <http://e.org/is> ?N }}."
    assert Engine.from_text(lars, dialect="lars", knowledge=knowledge).warnings == ()


def test_a_declared_prefix_replaces_what_is_built_in() -> None:
    declared = "PREFIX rdfs: <http://example.org/weather#>\n"
    text = f"{declared}e(N) <- a(N) WHERE {{ rdfs:jfk rdfs:height ?N }}, triple(rdfs:jfk, rdfs:code, _)."
    assert not Engine.from_text(text, knowledge=known(KNOWLEDGE)).warnings
