"""`cep.lars.answers` with windows of n ticks, with facts on a circle; graph patterns in rules of a circle."""

from __future__ import annotations

from random import Random

import pytest

from cep.compile import compile
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event, Iri
from cep.knowledge.graph import Knowledge
from cep.language.dialects.lars.ast import LarsLiteral, TimeWindow
from cep.lars import answers
from tests.lars_answer_sets import nearest
from tests.lars_maker import DERIVED, Maker, program_text, stream_text
from tests.long import seeds
from tests.reference_lars import TooMany, atom_text, by_definition

CHOICE = "p :- a, not q. q :- a, not p. r :- p."


def test_windows_of_n_ticks_have_n() -> None:
    stream = [(0, ["a"])]
    told = {window: [models for _, models in answers("b :- a in [1].", stream, last=2, window=window)]
            for window in ("n+1", "n")}  # fmt: skip
    yes, no = [frozenset({"b"})], [frozenset[str]()]
    assert told == {"n+1": [yes, yes, no], "n": [yes, no, no]}
    with pytest.raises(CepError) as failed:
        list(answers("b :- a in [0].", stream, window="n"))
    assert "with `--window n`, the shortest window is `[1]`, the present tick" in str(failed.value)
    with pytest.raises(CepError) as failed:
        list(answers("b :- a.", stream, window="2n"))
    assert "window: `2n` is not a valid way to count" in str(failed.value)


def test_numbers_and_symbols_in_one_place() -> None:
    stream = [(0, ["a(1)", "a(x)", "a(2.5)"])]
    assert dict(answers("b(X) :- a(X).", stream)) == {0: [frozenset({"b(1)", "b(x)", "b(2.5)"})]}
    assert dict(answers("b(X) :- a(X), X < 2.", stream)) == {0: [frozenset({"b(1)"})]}


def test_facts_are_as_if_written_in_the_program() -> None:
    stream = [(0, ["a"]), (1, [])]
    given = list(answers(CHOICE, stream, facts=["p"], models=0))
    assert given == list(answers(f"p. {CHOICE}", stream, models=0))
    assert given == [(0, [frozenset({"r"})]), (1, [frozenset({"r"})])]
    with pytest.raises(CepError) as failed:
        list(answers("p :- a. r :- p in [2].", stream, facts=["p"]))
    assert "`p` is derived by rules and defined by facts, and windows contain no facts" in str(failed.value)


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("seed", seeds(12))
def test_facts_of_what_is_derived(seed: int, cyclic: bool) -> None:
    for number in range(seed * 6, (seed + 1) * 6):
        random = Random(12_000 + number)
        maker = Maker(random, cyclic)
        program, stream = maker.program(), maker.stream(4)
        windowed = {each.atom.predicate for rule in program.rules for each in rule.body
                    if isinstance(each, LarsLiteral) and each.window is not None}  # fmt: skip
        names = [name for name in sorted(program.derived) if name not in windowed]
        facts = [(name, tuple(random.choice(maker.values) for _ in range(DERIVED[name]))) for name in names[:2]]
        end = stream[-1][0] + 1
        try:
            expected = by_definition(program, stream, last=end, facts=facts)
        except TooMany:
            continue
        text, told = program_text(program), [atom_text(each) for each in facts]
        given = list(answers(text, stream_text(stream), last=end, facts=told))
        assert given == nearest(expected), (number, text, told, stream)


@pytest.mark.parametrize("seed", seeds(6))
def test_windows_of_n_ticks_are_shorter_by_one(seed: int) -> None:
    for number in range(seed * 4, (seed + 1) * 4):
        maker = Maker(Random(13_000 + number))
        program, stream = maker.program(), maker.stream(4)
        text, end = program_text(program), stream[-1][0] + 2
        windows = [each.window for rule in program.rules for each in rule.body if isinstance(each, LarsLiteral)]
        if any(isinstance(each, TimeWindow) and each.ticks == 0 for each in windows):
            continue
        for ticks in range(1, 9):
            text = text.replace(f"[{ticks}]", f"[{ticks - 1}n]")
        shorter = text.replace("n]", "]")
        longer = program_text(program)
        expected = list(answers(shorter, stream_text(stream), last=end))
        assert list(answers(longer, stream_text(stream), last=end, window="n")) == expected, (number, longer, stream)


KNOWN = """@prefix w: <http://x/> .
w:a w:good true ; w:size 3 .
w:b w:good false ; w:size 5 .
"""
TRUST = """PREFIX w: <http://x/>
event report(s: iri) TIME time.
trust(S, N) :- report(S) in [2], { ?S w:size ?N }, not doubt(S).
doubt(S) :- report(S) in [2], not { ?S w:good true }, { ?S w:size ?N }, not trust(S, N).
"""


@pytest.mark.parametrize("models, found", [(1, {("doubt", "b")}), (0, {("doubt", "b"), ("trust", "b")})])
def test_graph_patterns_in_a_circle(tmp_path: object, models: int, found: set[tuple[str, str]]) -> None:
    """Of station a there is one answer, of b, which is not known to be good, there are two."""
    file = f"{tmp_path}/stations.ttl"
    with open(file, "w") as opened:
        opened.write(KNOWN)
    known = Knowledge.load([file])
    engine = Engine(compile(TRUST, dialect="lars", knowledge=known, models=models), lateness=None)
    engine.push([Event("report", (Iri(f"http://x/{name}"),), 0, 0) for name in "ab"])
    tables = engine.close()
    given = {(name, row[2].removeprefix("http://x/")) for name in ("trust", "doubt") for row in tables[name].rows()}
    assert given == found | {("trust", "a")}
