"""Graph patterns in rule text: where the braces end, which variables are the rule's, how they are shown again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import Span
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program
from cep.rules.graph_text import on_one_line, pieces
from cep.rules.terms import Predicate, StaticRule, Variable

PREFIXES = "PREFIX wt: <http://example.org/w#>\nPREFIX : <urn:x>\n"
CLOSED = [
    "{}",
    "{ ?S a wt:Station }",
    "{ { ?S a wt:A } UNION { ?S a wt:B { } } }",
    '{ ?S wt:is "}" , \'{\' , "\\"}" }',
    '{ ?S wt:is """ } " "" {\n""" , \'\'\' }\' \'\'\', "" , \'\' }',
    "{ ?S wt:is <http://example.org/#}> }\n}",  # no IRI holds a brace: here a comment begins
    "{ ?S wt:is <http://example.org/#a> # } {\n}",
    "{ ?S wt:is wt:a\\#b , wt:c\\'d }",
    "{ FILTER(?A <3 && ?B> 4) FILTER(?A<?B && ?C>?D) }",
    "{ ?S % not a comment } ",
]


@pytest.mark.parametrize("text", CLOSED)
def test_the_pattern_goes_to_its_own_closing_brace(text: str) -> None:
    text = text.strip()
    (rule,) = [s for s in parse(f"{PREFIXES}p :- q, {text}, r.").statements if isinstance(s, StaticRule)]
    assert rule.conditions[0] == Predicate("q", ())
    assert isinstance(rule.conditions[1], Predicate)
    graph = rule.conditions[1].graph
    assert graph is not None and graph.text == text
    assert graph.prefixes == (("wt", "http://example.org/w#"), ("", "urn:x"))
    assert rule.conditions[2] == Predicate("r", ())


def graph_of(text: str) -> Predicate:
    (rule,) = parse(f"p :- {text}.").statements
    assert isinstance(rule, StaticRule)
    (condition,) = rule.conditions
    assert isinstance(condition, Predicate)
    return condition


def test_variables_in_upper_case_are_the_rules() -> None:
    found = graph_of("{ ?s <p:?No> $B ; ?a \"?No\" , '$No' . # ?No\n ?A ?É ?_x . ?B ?Lat3 ?4 }")
    assert found.graph is not None
    assert found.graph.variables == ("B", "A", "É", "Lat3")
    assert found.arguments == tuple(map(Variable, found.graph.variables))
    assert [each.span for each in found.arguments][:2] == [Span(1, 20, 1, 21), Span(2, 3, 2, 4)]


def test_places_of_a_pattern_of_several_lines() -> None:
    found = graph_of("not { ?s\n  ?p ?X }")
    assert found.negated and found.graph is not None and found.graph.negated
    assert (found.span, found.graph.span) == (Span(1, 6, 2, 10), Span(1, 10, 2, 10))


def test_shown_on_one_line() -> None:
    text = '{ ?Lat a  wt:X ;   # so\n\n  wt:y """a\nb""" . ?Lat wt:z "?Lat" }'
    assert on_one_line(text) == '{ ?Lat a wt:X ; wt:y """a...""" . ?Lat wt:z "?Lat" }'
    assert on_one_line(text, {"Lat": "X2"}) == '{ ?X2 a wt:X ; wt:y """a...""" . ?X2 wt:z "?Lat" }'
    assert on_one_line(text, longest=25) == "{ ?Lat a wt:X ... }"


@given(st.text(st.sampled_from("{}<>\"'#?$\\ \n:aX%.;"), max_size=40))
def test_pieces_are_the_text(text: str) -> None:
    assert "".join(piece.text for piece in pieces(text)) == text


@pytest.mark.parametrize("text", [*CLOSED, "not { ?X a :T }, { ?X\n a :T }"])
def test_printed_as_it_was_written(text: str) -> None:
    program = parse(f"{PREFIXES}e(X) <- a(X) WHERE {text.strip()}, X > 3.\np :- {text.strip()}.")
    assert parse(print_program(program)) == program
    assert text.strip() in print_program(program)
