"""The table of temporal operators: all that is known of one follows from its row."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from cep.core.metric_operators import TEMPORAL, Place, TemporalOperator
from cep.engine import Engine
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program
from cep.rules.keywords import KEYWORDS

ROOT = Path(__file__).parent.parent
DECLARED = """event alarm(v: string) TIME t.
fluent slow(v: string). fluent signal(v: string). fluent found(v: string).
initiate slow(V) <- alarm(V).
initiate signal(V) <- alarm(V).
"""
NAMING = {
    "cep/core/metric_operators.py",
    "cep/language/dialects/datalogmtl/reader.py",  # its own words, each with ours
    "cep/language/dialects/lars/foreign_syntax.py",  # words of others, each with that of LARS
    "cep/language/dialects/lars/relations.py",  # what `always` of LARS is of ours
    "cep/operators/temporal.py",  # LASTING of dialects that have no word for it
}
"""The files that name an operator: no other decides anything by its word."""
every = pytest.mark.parametrize("operator", TEMPORAL.values(), ids=TEMPORAL)


@every
def test_its_example_is_read_printed_and_run(operator: TemporalOperator) -> None:
    rule = f"found(V) WHILE {operator.example}."
    (statement,) = parse(rule).statements
    assert parse(print_program(parse(rule))) == parse(rule)
    assert [operator.word] == [getattr(statement.formula, "operator", None)]  # type: ignore[union-attr]
    engine = Engine.from_text(DECLARED + rule)
    assert any(node.properties().word == operator.word for node in engine.plan.nodes)
    assert operator.word in KEYWORDS


@every
def test_what_looks_the_other_way_looks_back_at_it(operator: TemporalOperator) -> None:
    if operator.mirror is None:
        return
    other = TEMPORAL[operator.mirror]
    assert other.mirror == operator.word and other.ahead != operator.ahead and other.place == operator.place


@every
def test_a_head_carries_what_stands_before_a_formula(operator: TemporalOperator) -> None:
    if operator.of_head is not None:
        assert operator.place is Place.BEFORE and TEMPORAL[operator.of_head].place is Place.BEFORE
        assert TEMPORAL[operator.of_head].ahead != operator.ahead


def test_nothing_decides_by_the_word_of_an_operator() -> None:
    naming = set()
    for path in (ROOT / "cep").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in TEMPORAL:
                naming.add(path.relative_to(ROOT).as_posix())
    assert naming == NAMING
