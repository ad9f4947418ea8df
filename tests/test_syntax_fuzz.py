"""Whatever the text, reading it gives a program that prints and reads back, or a CepError at a place in the text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError, Source
from cep.language.syntax.ast import SyntaxTree
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program
from cep.language.syntax.tokens import line_starts, tokenise
from cep.rules.keywords import KEYWORDS
from tests.long import examples

VALID = """\
PREFIX wt: <http://example.org/#> # a comment
event reading(id: string, wind: float? in -40.5..60 FROM "Wind speed", t: time in 0..2013-02-08) TIME hour.
policy recent(by Vol).
alert on on at(at: At) where At > 3 severity "Minor" title "{At}" for 3 min keyed by At at 1, At radius 5 area "x".
linked(p1, "x\\n\\u00e9", wt:Diablo, <urn:x>, -3.5e2, true).
risky(X) :- linked(X, Y), not dangerous(Y), Y != 3 * (2 - -X) ** 2 mod 5. % another
storm: e(ID, C + 1) <- (settling(ID, C) SEQ reading(id: ID, wind: W) WHERE W >= 15, W <-5) WITHIN PT6H.
e <- NOT(c(X) OR d).[a(X), (b WHERE X = 1)] UNLESS q TIMES 3 WHERE start() < 2013-02-08T18:00:00.5+01:00 WITHIN 500 ms.
e(A) <- (a PAR b).3 CNOT c AGGREGATE A = avg(W), N = count(distinct W) OVER LAST 30 min BY ID, T POLICY recent.
e <- 4 SEQ -0.5 MEETS a AGGREGATE N = count() OVER LAST 5 EVENTS.
e(X) <- a(X) WHERE { ?S wt:code ?X ; # one }
    wt:label "}" , \'a\' OPTIONAL { ?S <http://e/#h> ?H } }, not { ?X a wt:T }, X != "%".
"""
MISTAKES = [path.read_text() for path in sorted((Path(__file__).parent / "mistakes").glob("*.txt"))]
TOKENS = sorted(
    {token.text for text in [VALID, *MISTAKES] for token in tokenise(text, line_starts(text))}
    | KEYWORDS
    | {"\n", " ", "", "é", "É", "'", '"', "\\", "\0", "9" * 25, "1e999", "P1M", "\u2028", "0.0000001"}
    | {"{", "}", "{ ?X a", "#"}
)


def check(text: str) -> None:
    try:
        program = parse(text, "fuzz.cep")
    except CepError as error:
        refused_in_place(error, text)
    else:
        assert isinstance(program, SyntaxTree)
        assert parse(print_program(program)) == program


def refused_in_place(error: CepError, text: str) -> None:
    assert error.code == "syntax" and error.message and error.source == Source(text, "fuzz.cep")
    span, lines = error.span, text.splitlines() or [""]
    assert span is not None
    assert 1 <= span.line <= span.end_line <= len(lines)
    assert (
        1 <= span.column <= len(lines[span.line - 1]) + 1 and 1 <= span.end_column <= len(lines[span.end_line - 1]) + 1
    )
    assert (span.line, span.column) <= (span.end_line, span.end_column)
    assert str(error).startswith(f"fuzz.cep:{span.line}:{span.column}: ")


def test_the_seed_of_the_mutations_is_valid() -> None:
    check(VALID)
    assert len(parse(VALID).statements) == 11


@examples(1000)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    check(text)


@examples(1000)
@given(st.binary(max_size=80))
def test_any_bytes(data: bytes) -> None:
    check(data.decode("latin-1"))


@examples(1000)
@given(st.lists(st.sampled_from(TOKENS), max_size=25), st.sampled_from(["", " "]))
def test_any_tokens(tokens: list[str], between: str) -> None:
    check(between.join(tokens))


pieces = re.findall(r"\w+|\s+|[^\w\s]", VALID)
edits = st.tuples(st.integers(0, len(pieces) - 1), st.integers(0, 3), st.sampled_from(TOKENS))


@examples(1000)
@given(st.lists(edits, min_size=1, max_size=3))
def test_a_program_with_pieces_replaced(changes: list[tuple[int, int, str]]) -> None:
    mutated = list(pieces)
    for at, length, token in sorted(changes, reverse=True):
        mutated[at : at + length] = [token]
    check("".join(mutated))


@pytest.mark.parametrize("cut", range(0, len(VALID), 7))
def test_a_program_cut_short(cut: int) -> None:
    check(VALID[:cut])
    check(VALID[cut:])
