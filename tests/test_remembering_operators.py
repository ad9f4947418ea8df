"""Each operator is described, and tried by cases and random programs. Passes ask few facts about operators, and goals
agree with these facts."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from pkgutil import iter_modules
from random import Random

import pytest

import cep.operators
from cep.compile import CompiledProgram, CompileOptions, compile, compiled
from cep.engine import Engine
from cep.events import Event
from cep.language.files import joined
from cep.language.syntax import patterns
from cep.plan.copartitioning import copartition
from cep.plan.dependencies import Dependencies
from cep.plan.node import Node, NodeProperties
from cep.plan.plan import Plan
from cep.rules.keywords import BINARY_OPERATORS, FORMS, OPERATORS, POSTFIXES
from tests import program_maker, reference
from tests.cases_format import FOLDER
from tests.condition_maker import ConditionMaker
from tests.feature_programs import (
    ASKED,
    DATALOGMTL,
    FLUENTS,
    FORMULAS,
    LANGUAGE,
    LARS,
    POLICIES,
    RECURSION,
    RTEC,
    feature_case,
)
from tests.lars_maker import Maker, program_text
from tests.long import seeds
from tests.program_maker import SECOND
from tests.state_programs import PROGRAM
from tests.test_equal_records import Row, counted, rows
from tests.test_held_at import Program
from tests.test_lars_random import declarations

ROOT = Path(__file__).parent.parent
EVENTS = "event a(k: int, v: int) TIME time.\nevent b(k: int, v: int) TIME time.\n"
NAMES = {"a": "a", "b": "b", "e": "a", "f": "b", "g": "g", "h": "h"}
PLAIN = (*program_maker.FORMS, *POLICIES, *RECURSION)
"""Rules that derive events only from events, so the reference interpreter evaluates them."""
DIALECTS = {form: suffix for suffix, forms in (("lars", LARS), ("dmtl", DATALOGMTL), ("rtec", RTEC)) for form in forms}
MEMORYLESS = {"Scan", "Tick", "Union"}
"""Operators none of whose nodes has `remembers`."""
WITHOUT_ROW = {"OR", "WHERE", "WITHIN", "POLICY", "TIMES", "CNOT"}
"""Words without a row in the table of what rules remember: they remember nothing, or what `SEQ` and `NOT` remember."""


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
    assert remembering == {kind.__name__ for kind in operators()} - MEMORYLESS, "tests/program_maker.py: FORMS"


@pytest.mark.parametrize("word", [*OPERATORS, *POSTFIXES, *FORMS])
def test_each_operator_is_described_and_tried(word: str) -> None:
    """A new operator needs a row in the table of patterns, one in the table of what rules remember, a line in the
    grammar, a case, and a method for random programs."""
    page = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    table = page.partition("## Patterns\n")[2].partition("**Variables join.**")[0]
    written = re.compile(rf"\b{word}\b")
    assert written.search(table), "docs/language.md: the table of patterns"
    remembered = page.partition("## What rules remember\n")[2].partition("An event is an instant")[0]
    assert word in WITHOUT_ROW or written.search(remembered), "docs/language.md: the table of what rules remember"
    assert word in BINARY_OPERATORS or written.search(patterns.__doc__ or ""), "cep/language/syntax/patterns.py"
    assert any(written.search(path.read_text(encoding="utf-8")) for path in FOLDER.rglob("*.case")), "tests/cases"
    makers = inspect.getsource(program_maker.Maker) + inspect.getsource(ConditionMaker)
    assert written.search(makers), "tests/program_maker.py: Maker"


def test_passes_ask_few_facts_and_no_flag_of_one_operator() -> None:
    """A flag that a single operator sets is a method of that operator."""
    setting: dict[str, set[str]] = {fact.name: set() for fact in fields(NodeProperties) if fact.default is False}
    for node in nodes():
        for name in setting:
            if getattr(node.properties(), name):
                setting[name].add(type(node).__name__)
    assert len(fields(NodeProperties)) <= 28
    assert [name for name, operators_of in setting.items() if len(operators_of) < 2] == []


# --- properties and goals ---


@cache
def program(form: str) -> CompiledProgram:
    """Return a program of one rule, or of one in a dialect and one that asks for its results."""
    if form in DIALECTS:
        asking = ASKED[DIALECTS[form]].format(**NAMES)
        files = {"rules.cep": EVENTS + asking, f"more.{DIALECTS[form]}": form.format(**NAMES)}
    else:
        files = {"rules.cep": EVENTS + form.format(**NAMES)}
    text, name, named = joined(list(files.items()))
    return compiled(text, name, CompileOptions(files=named))


def results(program: CompiledProgram, events: list[Event]) -> Counter[Row]:
    engine = Engine(program)
    return rows(engine.push([event for event in events if event.type in engine.inputs])) + rows(engine.close())


def splits(plan: Plan) -> list[dict[str, int]]:
    """Return the ways to split the program's inputs that its nodes allow: the argument by which each input is split.
    Every bucket gets all other inputs."""
    read = sorted({event for node in plan.nodes if (event := node.properties().event) in {"a", "b"}})
    ways = (dict(zip(read, places)) for places in product((0, 1, None), repeat=len(read)))
    held = [{event: place for event, place in way.items() if place is not None} for way in ways]
    dependencies, rules = Dependencies(plan), range(len(plan.heads))
    return [
        way
        for way in held
        if way and not copartition(dependencies, rules, way, set(read) - way.keys(), plan.inputs).failures
    ]


@pytest.mark.parametrize("seed", seeds(36))
@pytest.mark.parametrize("form", [*PLAIN, *FLUENTS, *FORMULAS, *DIALECTS])
def test_properties_of_nodes_agree_with_their_goals(form: str, seed: int) -> None:
    """An operator's results depend on the order of simultaneous rows only if it declares `by_order`. They are as often
    there as `keeps_equal` and `uncounted` say, and the same in buckets that `meeting` and `groups` allow."""
    rng, tried = Random(seed), program(form)
    plan = tried.plan
    times = sorted(rng.randrange(5) * SECOND for _ in range(16))
    once = [Event(rng.choice("aab"), (rng.randrange(3), rng.randrange(3)), time, time) for time in times]
    events = [event for event in once for _ in range(rng.choice((1, 1, 2, 3)))]
    expected = results(tried, events)
    if form in PLAIN:
        assert counted(reference.detect(EVENTS + form.format(**NAMES), events)) == expected, "keeps_equal, uncounted"
    else:
        assert results(tried, once).keys() == expected.keys(), "equal rows change fluents"
    if not any(node.by_order(plan.types(number)) for number, node in enumerate(plan.nodes)):
        mixed = sorted(rng.sample(events, len(events)), key=lambda event: event.end)
        assert results(tried, mixed) == expected, "by_order"
    if ways := splits(plan):
        way = ways[seed % len(ways)]
        merged = Counter[Row]()
        for bucket in range(2):
            mine = (e for e in events if e.type not in way or (e.args[way[e.type]] == 1) == (bucket == 1))
            merged |= results(tried, list(mine))
        assert merged == expected, f"meeting: {way}"
