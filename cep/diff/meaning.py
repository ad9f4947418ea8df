"""Compare the meaning of two programs: their rules, declarations and alerts, and everything that depends on those
changed.

Rules have the same meaning if their plans are equal: patterns, constants, conditions, policies and WITHIN, with events
and predicates by name. So layout, names of variables and the order of rules do not matter. Types follow from
declarations and constants.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal, cast

from cep.compile import CompiledProgram
from cep.core.errors import NOWHERE, Source, Span
from cep.core.fluents import author_name
from cep.core.schema import Schema
from cep.plan.node import PART_FIELDS
from cep.plan.order import reads
from cep.plan.plan import Plan
from cep.rules.terms import Disjunction, Graph, Predicate, Variable

Change = Literal["added", "removed", "changed"]
_VARIABLE = re.compile(
    r'(?P<quoted>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|<[^<>\s]*>)|(?P<space>(?:\s|(?<![\w:])\#[^\n]*)+)'
    r"|[?$](?P<name>\w+)|(?P<prefix>[A-Za-z][\w.-]*)?:(?=\w)"
)
"""The tokens of a graph pattern: quoted text and IRIs, white space, variables, prefixes."""


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a statement: its file, line and text."""

    file: str
    line: int
    text: str

    @classmethod
    def of(cls, source: Source, span: Span) -> Place:
        """Return the text of a span on one line, without comment lines."""
        lines = [source.line(number) for number in range(span.line, span.end_line + 1)]
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        file, line = source.place(span.line)
        return cls(file, line, " ".join(each.strip() for each in lines if not each.lstrip().startswith(("#", "%"))))


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule that was added, removed or changed. `of`: the event, fluent, predicate or alert that it defines."""

    change: Change
    of: str
    old: Place | None
    new: Place | None


@dataclass(frozen=True, slots=True)
class DeclarationChange:
    """A declaration that was added, removed or changed. `told`: the change in words."""

    change: Change
    of: str
    told: str


@dataclass(frozen=True, slots=True)
class Reached:
    """An unchanged rule of the new program that depends on a changed one."""

    of: str
    place: Place


@dataclass(frozen=True, slots=True)
class ProgramDiff:
    """The difference between two programs.

    `parameters`: those with different values, as (name, old, new); None: the parameter does not exist. `affected`: the
    tables of events and fluents whose results may change.
    """

    parameters: tuple[tuple[str, str | None, str | None], ...] = ()
    rules: tuple[RuleChange, ...] = ()
    declarations: tuple[DeclarationChange, ...] = ()
    reached: tuple[Reached, ...] = ()
    affected: frozenset[str] = field(default=frozenset())

    def __bool__(self) -> bool:
        return bool(self.rules or self.declarations)


def program_diff(old: CompiledProgram, new: CompiledProgram) -> ProgramDiff:
    """Return what changed in meaning between two programs. Both must be compiled with their alerts."""
    one, other = _Meaning(old), _Meaning(new)
    rules = list(_rule_changes(one, other))
    declarations = list(_declaration_changes(one, other))
    changed = {name for name, _ in (*rules, *declarations)}
    affected = _closure(changed, one, other)
    touched = {id(place) for _, each in rules for place in (each.old, each.new)}
    reached = dict.fromkeys(
        Reached(other.shown(name), rule.place)
        for name, own in other.rules.items()
        for rule in own
        if rule.written and rule.reads & affected and id(rule.place) not in touched
    )
    return ProgramDiff(
        tuple(_parameters(old, new)),
        tuple(dict.fromkeys(each for _, each in rules)),
        tuple(each for _, each in declarations),
        tuple(sorted(reached, key=lambda each: (each.place.file, each.place.line))),
        frozenset(affected),
    )


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule with its meaning (`identity`), and the names that it reads. `written`: the author wrote it as a rule."""

    identity: str
    label: str | None
    place: Place
    reads: frozenset[str]
    written: bool


class _Meaning:
    """The rules of a compiled program, by the names that they define."""

    def __init__(self, program: CompiledProgram) -> None:
        self.program, self.plan = program, program.plan
        self.schemas: Mapping[str, Schema] = program.plan.schemas
        self.rules: dict[str, list[_Rule]] = {}
        for rule, head in zip(program.rules.rules, self.plan.heads, strict=True):
            spelled, names = _described(self.plan, head.child)
            place = self._place(rule.head_span.to(rule.span) if rule.head_span < rule.span else rule.span)
            own = f"{_spelt(head.arguments, {})}\n{spelled}"
            written = rule.span != NOWHERE and self._declared(rule.event) != rule.span
            names |= set(_names(head.arguments))
            self._add(rule.event, _Rule(own, rule.label, place, frozenset(names), written))
        for static in program.rules.statics:
            names = {name for condition in static.conditions for name in _names(condition)}
            place = self._place(static.span)
            self._add(static.name, _Rule(_spelt(static, {}), None, place, frozenset(names), static.span != NOWHERE))
        self.readers: dict[str, set[str]] = {}
        for name, own_rules in self.rules.items():
            for each in own_rules:
                for read in each.reads:
                    self.readers.setdefault(read, set()).add(name)
        self.alerts = {alert.name: alert for alert in program.alerts}

    def _add(self, name: str, rule: _Rule) -> None:
        self.rules.setdefault(name, []).append(rule)

    def _place(self, span: Span) -> Place:
        return Place.of(self.plan.source, span)

    def _declared(self, event: str) -> Span | None:
        """Return the span of a fluent's declaration, from which rules without a text are created, or None."""
        fluent = self.schemas[event].fluent
        if fluent is None or fluent.of_formulas:
            return None
        own = [rule for rule in self.program.rules.rules if rule.event == fluent.name]
        return own[0].span if own else None

    def shown(self, name: str) -> str:
        """Return the author's name of an event, fluent, predicate or alert."""
        schema = self.schemas.get(name)
        if schema is None or schema.fluent is None:
            return name.removesuffix(" ends") if name.startswith("alert ") else name
        return author_name(schema.fluent.name)


def _rule_changes(old: _Meaning, new: _Meaning) -> Iterator[tuple[str, RuleChange]]:
    """Yield changed rules with the names that they define.

    Rules with the same name and different meanings are paired by their labels, then by their order.
    """
    for name in dict.fromkeys((*new.rules, *old.rules)):
        one, other = old.rules.get(name, []), new.rules.get(name, [])
        same = Counter(each.identity for each in one) & Counter(each.identity for each in other)
        gone, added = _without(one, same), _without(other, same)
        labels = {each.label: each for each in added if each.label is not None}
        pairs = [(each, labels[each.label]) for each in gone if each.label in labels]
        gone = [each for each in gone if each.label not in labels]
        taken = {id(each) for _, each in pairs}
        added = [each for each in added if id(each) not in taken]
        pairs += zip(gone, added)
        shown = new.shown(name) if name in new.rules else old.shown(name)
        for before, after in pairs:
            yield name, RuleChange("changed", shown, before.place, after.place)
        for each in gone[len(added) :]:
            yield name, RuleChange("removed", shown, each.place, None)
        for each in added[len(gone) :]:
            yield name, RuleChange("added", shown, None, each.place)


def _without(rules: Iterable[_Rule], same: Counter[str]) -> list[_Rule]:
    left, taken = [], Counter(same)
    for rule in rules:
        if taken[rule.identity]:
            taken[rule.identity] -= 1
        else:
            left.append(rule)
    return left


def _declaration_changes(old: _Meaning, new: _Meaning) -> Iterator[tuple[str, DeclarationChange]]:
    """Yield changed declarations of events and alerts with their names, except for consequences of changed rules."""
    for name in dict.fromkeys((*new.schemas, *old.schemas)):
        one, other = old.schemas.get(name), new.schemas.get(name)
        schema = one if other is None else other
        assert schema is not None, "one of the programs has it"
        if name.startswith("alert ") or (schema.fluent is not None and schema.fluent.name != name):
            continue  # a table of a fluent or an alert
        shown = (old if other is None else new).shown(name)
        if one is None or other is None:
            program = new if one is None else old
            if name in program.plan.inputs and name not in program.rules:
                change: Change = "added" if one is None else "removed"
                yield name, DeclarationChange(change, shown, "it is read" if one is None else "it is not read any more")
            continue
        if asdict(one) != asdict(other):
            yield name, DeclarationChange("changed", shown, _told(one, other))
    for name in dict.fromkeys((*new.alerts, *old.alerts)):
        before, after = old.alerts.get(name), new.alerts.get(name)
        if before is not None and after is not None and before != after:
            own = [each.name for each in fields(before) if getattr(before, each.name) != getattr(after, each.name)]
            yield after.table, DeclarationChange("changed", f"alert {name}", f"its {_listed(own)} changed")


def _told(old: Schema, new: Schema) -> str:
    """Describe how two declarations of an event differ."""
    if (old.fluent is None) is not (new.fluent is None):
        return "it is a fluent" if old.fluent is None else "it is an event, no fluent"
    one, other = ([f"{each.name}: {each.type}" for each in schema.attributes] for schema in (old, new))
    if one != other:
        return f"({', '.join(one)}) is now ({', '.join(other)})"
    return "its records are read otherwise"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _closure(changed: Iterable[str], old: _Meaning, new: _Meaning) -> set[str]:
    """Return names and all names that depend on them, in either program."""
    found, waiting = set(changed), list(changed)
    while waiting:
        name = waiting.pop()
        more = {each for own in (old, new) for each in own.readers.get(name, ())} - found
        found |= more
        waiting += sorted(more)
    return found


def _parameters(old: CompiledProgram, new: CompiledProgram) -> Iterator[tuple[str, str | None, str | None]]:
    one, other = old.written.parameters.by_name, new.written.parameters.by_name
    for name in dict.fromkeys((*other, *one)):
        before, after = (
            None if own is None else own.written(own.value.value) for own in (one.get(name), other.get(name))
        )
        if before != after:
            yield name, before, after


# --- what a part of a plan means, with events by their names ---


def _described(plan: Plan, child: int) -> tuple[str, set[str]]:
    """Return the nodes below a rule as text, and the names that they read. Equal nodes appear once."""
    numbers: dict[int, int] = {child: 0}
    waiting, lines, names = [child], [], set[str]()
    for number in waiting:
        node = plan.nodes[number]
        taken: list[int | str] = []
        for unit in reads(node):
            if isinstance(unit, str):
                names.add(unit)
                taken.append(unit)
                continue
            if unit not in numbers:
                numbers[unit] = len(numbers)
                waiting.append(unit)
            taken.append(numbers[unit])
        own = [
            (each.name, _spelt(getattr(node, each.name), {}))
            for each in fields(cast(Any, node))
            if each.name not in PART_FIELDS and each.compare
        ]
        names |= set(_names(node))
        lines.append(repr((type(node).__name__, own, taken)))
    return "\n".join(lines), names


def _spelt(value: Any, variables: dict[str, str]) -> str:
    """Return a value of the plan as text. Variables of static rules and graph patterns are numbered, and the layout of
    graph patterns is removed."""
    if isinstance(value, Variable):
        return _numbered(value.name, variables)
    if isinstance(value, Graph):
        return f"Graph({_graph(value, variables)}, {value.negated})"
    if isinstance(value, Predicate) and value.graph is not None:
        return f"Graph({_graph(value.graph, variables)}, {value.negated}, {_spelt(value.arguments, variables)})"
    if isinstance(value, Disjunction):  # its local variables follow from its alternatives
        return f"Disjunction({_spelt(value.alternatives, variables)})"
    if is_dataclass(value) and not isinstance(value, type):
        own = [_spelt(getattr(value, each.name), variables) for each in fields(value) if each.compare]
        return f"{type(value).__name__}({', '.join(own)})"
    if isinstance(value, tuple | list):
        return f"({', '.join(_spelt(each, variables) for each in value)})"
    return repr(value)


def _numbered(name: str, variables: dict[str, str]) -> str:
    return "_" if name == "_" else variables.setdefault(name, f"V{len(variables)}")


def _graph(graph: Graph, variables: dict[str, str]) -> str:
    """Return a graph pattern without its layout, with numbered variables and the prefixes that it uses."""
    used: set[str] = set()

    def told(found: re.Match[str]) -> str:
        if found["space"] is not None:
            return " "
        if found["name"] is not None:
            return f"?{_numbered(found['name'], variables)}"
        if found["quoted"] is None:
            used.add(found["prefix"] or "")
        return found[0]

    text = _VARIABLE.sub(told, graph.text)
    return f"{text} {[(name, iri) for name, iri in graph.prefixes if name.removesuffix(':') in used]}"


def _names(value: Any) -> Iterator[str]:
    """Yield the names of all predicates in a value."""
    if isinstance(value, Predicate):
        yield value.name
    if is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from _names(getattr(value, each.name))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _names(each)
