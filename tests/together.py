"""Many small programs combined into one, each with its own names, so that a single run executes all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from random import Random
from typing import Any

from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event, Iri, types_of
from cep.language.syntax.ast import EventDeclaration, EventPattern, EventRule
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program
from cep.rules.expressions.functions import TESTS
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import Predicate, StaticRule
from tests import reference
from tests.cases_format import FOLDER, difference, read_case
from tests.keyed_programs import keyed
from tests.programs import program
from tests.test_equivalence import in_order, types


@dataclass(frozen=True)
class One:
    """A program, its events, the types of the undeclared ones, and its default policy."""

    text: str
    events: Sequence[Event]
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    policy: str | None = None

    def derived(self, arrived: Sequence[Event]) -> list[Event]:
        """What one process derives of its events, which the reference derives too."""
        events = in_order(arrived)
        whole = Engine.from_text(self.text, types=self.types, policy=self.policy, lateness=None)
        return _given(whole, events)


@dataclass(frozen=True)
class Together:
    """The programs as one text; their events with the names they have there, by end; the types of undeclared ones."""

    ones: Sequence[One]

    @property
    def text(self) -> str:
        return "\n".join(_written(one, number) for number, one in enumerate(self.ones))

    @property
    def types(self) -> dict[str, tuple[str, ...]]:
        return {_named(name, n): types for n, one in enumerate(self.ones) for name, types in one.types.items()}

    def arriving(self, random: Random, lateness: int) -> list[Event]:
        """All events that are read, each perhaps after others that end up to `lateness` later."""
        read = Engine.from_text(self.text, types=self.types).inputs
        events = [replace(event, type=_named(event.type, n)) for n, one in enumerate(self.ones) for event in one.events]
        events = [event for event in events if event.type in read]
        return sorted(events, key=lambda event: event.end + random.randrange(lateness + 1))

    def derived(self, arrived: Iterable[Event]) -> list[Event]:
        """What the programs derive, each by itself, of events that arrive so."""
        own: list[list[Event]] = [[] for _ in self.ones]
        for event in arrived:
            number, _, name = event.type[1:].partition("_")
            own[int(number)].append(replace(event, type=name))
        return [
            replace(event, type=_named(event.type, n))
            for n, (one, events) in enumerate(zip(self.ones, own, strict=True))
            for event in one.derived(events)
        ]


def generated(random: Random, number: int) -> Together:
    """So many random programs: those that split into stages, and any others. Each gives what the reference gives."""
    found: list[One] = []
    while len(found) < number:
        made = keyed(random) if random.randrange(3) else program(random)
        one = One(made.text, made.events, types(made.events))
        try:
            mine = one.derived(one.events)
        except CepError:  # a recursion without end
            continue
        theirs = reference.detect(made.text, in_order(made.events))
        outside = [event for event in set(made.events) if event.type in {each.type for each in mine}]
        assert not difference(dict.fromkeys([*theirs, *(e for e in outside if e not in theirs)]), dict.fromkeys(mine))
        found.append(one)
    return Together(found)


def cases() -> Together:
    """The case files without knowledge, and without IRIs among the values, which JSON lines do not tell from texts."""
    found = []
    for path in sorted(FOLDER.rglob("*.case")):
        case = read_case(path)
        if "error" in case.sections or case.knowledge is not None:
            continue
        if not any(isinstance(value, Iri) for event in case.events for value in event.args):
            found.append(One(case.program, case.events, types_of(case.events), case.policy))
    return Together(found)


def _given(engine: Engine, events: list[Event]) -> list[Event]:
    engine.push([event for event in events if event.type in engine.inputs])
    assert not engine.take_dead()
    made = engine.close()
    return [Event(type, tuple(args), s, e) for type, table in made.items() for s, e, *args in table.iter_rows()]


def _named(name: str, number: int) -> str:
    return f"p{number}_{name}"


def _written(one: One, number: int) -> str:
    tree = parse(one.text)
    made = print_program(_renamed(tree, number, frozenset(_predicates(tree))))
    return f"policy {one.policy or 'unrestricted'}.\n{made}"


def _predicates(value: Any) -> Iterable[str]:
    if isinstance(value, FactDeclaration | Predicate | StaticRule) and value.name not in TESTS:
        yield value.name
    if is_dataclass(value):
        for each in fields(value):
            yield from _predicates(getattr(value, each.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from _predicates(part)


def _renamed(value: Any, number: int, predicates: frozenset[str]) -> Any:
    if isinstance(value, tuple):
        return tuple(_renamed(each, number, predicates) for each in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    inner = {each.name: getattr(value, each.name) for each in fields(value) if each.compare}
    made: Any = replace(value, **{name: _renamed(each, number, predicates) for name, each in inner.items()})
    if isinstance(made, EventDeclaration | EventPattern | EventRule):
        made = replace(made, name=_named(made.name, number))
    if isinstance(made, EventRule) and made.label is not None:
        made = replace(made, label=_named(made.label, number))
    if isinstance(made, FactDeclaration | Predicate | StaticRule) and made.name in predicates:
        made = replace(made, name=_named(made.name, number))
    return made
