"""Each operator is described, and tried by cases and random programs. Passes ask few facts about operators."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from random import Random

import pytest

import cep.operators
from cep.compile import compile
from cep.language.syntax import patterns
from cep.plan.node import Node, NodeProperties
from cep.rules.keywords import BINARY_OPERATORS, FORMS, OPERATORS, POSTFIXES
from tests import condition_maker, program_maker
from tests.cases_format import FOLDER
from tests.feature_programs import LANGUAGE, feature_case
from tests.lars_maker import Maker, program_text
from tests.state_programs import PROGRAM
from tests.test_held_at import Program
from tests.test_lars_random import declarations

ROOT = Path(__file__).parent.parent
MEMORYLESS = {"Scan", "Tick", "Union"}
"""Operators none of whose nodes has `remembers`."""


def operators() -> set[type[Node]]:
    """Return all classes of nodes."""
    for module in iter_modules(cep.operators.__path__):
        import_module(f"cep.operators.{module.name}")
    return {kind for kind in _below(Node) if not inspect.isabstract(kind) and _is_named(kind)}


def _below(kind: type[Node]) -> Iterator[type[Node]]:
    for below in kind.__subclasses__():
        yield below
        yield from _below(below)


def _is_named(kind: type[Node]) -> bool:
    """Return False for what `dataclass(slots=True)` has replaced by another class."""
    return getattr(sys.modules[kind.__module__], kind.__name__, None) is kind


def nodes() -> Iterator[Node]:
    """Yield the nodes of the programs in `tests/state_programs.py` and `tests/feature_programs.py`, of random ones in
    LARS, and of random ones that ask what held."""
    yield from compile(PROGRAM, types={"d": ("any", "any")}).plan.nodes
    for number in range(8):
        for feature in LANGUAGE:
            case = feature_case(Random(number), [feature])
            yield from compile(case.files, **case.options).plan.nodes
        yield from compile(Program(Random(number)).text).plan.nodes
        for cyclic in (False, True):
            maker = Maker(Random(2_000 + number), cyclic)
            yield from compile(declarations(maker) + program_text(maker.program()), dialect="lars").plan.nodes


def test_each_operator_that_remembers_is_tried() -> None:
    """A new operator needs a rule in `FORMS` of `tests/program_maker.py`."""
    remembering = {type(node).__name__ for node in nodes() if node.properties().remembers}
    assert remembering == {kind.__name__ for kind in operators()} - MEMORYLESS


@pytest.mark.parametrize("word", [*OPERATORS, *POSTFIXES, *FORMS])
def test_each_operator_is_described_and_tried(word: str) -> None:
    """A new operator needs a row in the table of patterns, a line in the grammar, a case, and a place in the random
    programs."""
    page = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    table = page.partition("## Patterns\n")[2].partition("**Variables join.**")[0]
    written = re.compile(rf"\b{word}\b")
    assert written.search(table), "docs/language.md"
    assert word in BINARY_OPERATORS or written.search(patterns.__doc__ or ""), "cep/language/syntax/patterns.py"
    assert any(written.search(path.read_text(encoding="utf-8")) for path in FOLDER.rglob("*.case")), "tests/cases"
    makers = inspect.getsource(program_maker) + inspect.getsource(condition_maker)
    assert written.search(makers), "tests/program_maker.py"


def test_passes_ask_few_facts_and_no_flag_of_one_operator() -> None:
    """A flag that a single operator sets is a method of that operator."""
    setting: dict[str, set[str]] = {fact.name: set() for fact in fields(NodeProperties) if fact.default is False}
    for node in nodes():
        for name in setting:
            if getattr(node.properties(), name):
                setting[name].add(type(node).__name__)
    assert len(fields(NodeProperties)) <= 28
    assert [name for name, operators_of in setting.items() if len(operators_of) < 2] == []
