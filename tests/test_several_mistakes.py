"""Several mistakes of one program are told together, and none that only follows from another."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep.compile import compile
from cep.core.errors import CepError, CepErrors
from tests.cli_runs import cep

ONE = {
    "syntax": "event a1(x: int).\nb1(X) <- a1(X) SEQ SEQ a1(X).\n",
    "no value": "event a2(x: int).\nb2(X) <- a2(X) WHERE X > .\n",
    "duration": "event a3(x: int).\nb3(X) <- a3(X) SEQ a3(X) WITHIN 3 hours.\n",
    "declaration": "event a4(x: itn).\n",
    "parameter": "PARAM Five = 7 IN 8..9.\n",
    "parameter twice": "PARAM Six = 7.\nPARAM Six = 8.\nb6(X) <- a6(x: X) WHERE X > Six.\n",
    "prefix": "event a7(x: iri).\nb7(X) <- a7(X) WHERE X = nope:thing.\n",
    "declared twice": "event a8(x: int).\nevent a8(y: int).\n",
    "arity": "event a9(x: int).\nb9(X) <- a9(X, X).\n",
    "unbound": "event a10(x: int).\nb10(Y) <- a10(X).\n",
    "type": 'event a11(x: int).\nb11(X) <- a11(X) WHERE X > "s".\n',
    "unknown predicate": "event a12(x: int).\nb12(X) <- a12(X) WHERE nowhere(X).\n",
    "unknown function": "event a13(x: int).\nb13(X) <- a13(X) WHERE X > rounded(X).\n",
    "static arity": "r14(3).\nr14(3, 4).\n",
    "not stratified": "s15(X) :- r15(X), not s15(X).\nr15(3).\n",
    "static type": 's16(X) :- r16(X), X > "s".\nr16(3).\n',
    "no knowledge": "event a17(x: string).\nb17(X) <- a17(X) WHERE { ?s <urn:p> ?X }.\n",
    "fluent": "fluent f18(x: int).\nevent a18(x: int).\ninitiate f18(Y) <- a18(X).\n",
    "fluent of formula": "fluent f19(x: int).\nevent a19(x: int).\ninitiate f19(X) <- a19(X).\ng19(Y) WHILE f19(X).\n",
    "alert": "event a20(x: int).\nALERT al20 ON a20(X) SEVERITY Y.\n",
    "alert without title": "event a21(x: int).\nALERT al21 ON a21(X) AT 91, 200.\n",
    "cycle": "event a22(x: int).\nb22(N) <- b22(X) AGGREGATE N = count() OVER LAST 3 s.\n",
    "head type": "event a23(x: int).\nevent b23(x: string).\nb23(X) <- a23(X).\n",
    "join type": "event a24(x: int).\nevent c24(x: string).\nb24(X) <- a24(X) SEQ c24(X).\n",
    "aggregate type": "event a25(x: string).\nb25(N) <- a25(X) AGGREGATE N = avg(X) OVER LAST 3 s.\n",
    "no bound": "event a26(x: int).\nb26(X) <- a26(X) UNLESS a26(Y).\n",
    "attribute": "event a27(x: int).\nb27(X) <- a27(xx: X).\n",
    "facts": 'fact f28(x: int).\nf28("s").\n',
    "deadline": "fluent f29(x: int).\nevent a29(x: int).\ninitiate f29(X) <- a29(X).\nf29(X) ENDS AFTER b.\n",
    "unknown fluent": "event a31(x: int).\nb31(X) <- a31(X) WHERE NOT nofl31(X).\n",
    "open string": 'event a32(x: string).\nb32(X) <- a32(X) WHERE X = "abc.\n',
    "no dot": "event a33(x: int).\nb33(X) <- a33(X)\nc33(X) <- a33(X).\n",
    "label": "event a34(x: int).\nmy rule: b34(X) <- a34(X).\n",
    "policy": "POLICY sometimes.\n",
}
"""Programs with one mistake each, which share no names."""

FOLLOWED = {
    "a declaration, which rules need": """
event a(x: itn).
b(X, Y) <- a(X).
c(X) <- b(X) WHERE X > "s".
ALERT al ON c(X) TITLE "t".
""",
    "a parameter, which rules need": """
PARAM Five = 7 IN 8..9.
event a(x: int).
b(X) <- a(X) SEQ a(X) WITHIN Five.
c(X) <- a(X) WHERE X > Five.
d(X) <- c(X, X).
""",
    "a prefix, which rules need": """
PREFIX ex <http://x/>
event a(x: iri).
b(X) <- a(X) WHERE X = ex:thing.
c(X) <- b(X, X).
""",
    "a dot, so that the next statement is not read": """
event a(x: int)
event c(x: int).
b(X) <- a(X) SEQ c(X).
d(X) <- b(X).
""",
    "a bracket over several lines": """
event a(x: int).
b(X) <- (a(X)
    SEQ a(X)
    WHERE X > 3.
c(X) <- a(X).
""",
    "a fluent, which others need": """
fluent f(x: itn).
event a(x: int).
initiate f(X) <- a(X).
terminate f(X) <- a(X) WHERE X > 3.
g(X) <- a(X) WHERE f(X).
""",
    "facts, which rules need": """
fact limit(x: int).
limit("s").
low(X) :- limit(X), X < 3.
event a(x: int).
b(X) <- a(X) WHERE low(X).
c(X) <- b(X).
""",
    "words behind the dot": """
event a(x: int).
b(X) <- a(X). WITHIN 5 s.
c(X) <- a(X).
""",
}
"""Programs with one mistake, from which others would follow."""


def mistakes(text: str) -> list[tuple[str, int]]:
    """Return the messages and lines of what is wrong."""
    try:
        compile(text)
    except CepError as error:
        errors = error.errors if isinstance(error, CepErrors) else (error,)
        return [(each.message, each.span.line if each.span is not None else 0) for each in errors]
    return []


@pytest.mark.parametrize("first", ONE)
def test_two_mistakes_are_both_told(first: str) -> None:
    own = mistakes(ONE[first])
    assert len(own) == 1
    lines = ONE[first].count("\n")
    for other, text in ONE.items():
        if other != first:
            moved = [(message, line + lines) for message, line in mistakes(text)]
            assert mistakes(ONE[first] + text) == own + moved, other


@pytest.mark.parametrize("what", FOLLOWED)
def test_what_follows_from_a_mistake_is_not_told(what: str) -> None:
    (told,) = mistakes(FOLLOWED[what])
    after = FOLLOWED[what].count("\n")
    second = ("`Y` of the head is not bound by the pattern", after + 2)
    assert mistakes(FOLLOWED[what] + ONE["unbound"]) == [told, second]


def test_mistakes_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.cep").write_text("event a(x: int).\nb(X) <- a(X) WHERE X > .\n")
    (tmp_path / "b.cep").write_text("PARAM Five = 7 IN 8..9.\nc(Y) <- a(X).\nd(X) <- b(X, X), X > Five.\n")
    (tmp_path / "limits.csv").write_text("x\n3\n")
    result = cep("check", str(tmp_path / "a.cep"), str(tmp_path / "b.cep"), "--facts", f"low={tmp_path}/limits.csv")
    told = [line.partition("/b.cep")[2] or line.partition("/a.cep")[2] for line in result.stderr.splitlines()]
    assert result.exit_code != 0
    assert [line for line in told if line.startswith(":")] == [
        ":2:24: expected a value, found `.`",
        ":1:14: the default is out of range",
        ":2:3: `Y` of the head is not bound by the pattern",
    ]
