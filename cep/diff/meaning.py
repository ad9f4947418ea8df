"""Compare the meaning of two programs: their rules, declarations and alerts, and everything that depends on a change.

Two rules have the same meaning if their plans are equal. A plan contains the patterns, constants, conditions, policies
and WITHIN, and the names of events and predicates. So the layout, the names of variables and the order of rules do not
matter. Types are not compared separately, because they follow from declarations and constants.
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
"""A regular expression for the tokens of a graph pattern: quoted text and IRIs, white space, variables, prefixes."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a statement: its file, line and text."""

    file: str
    line: int
    text: str

    @classmethod
    def of(cls, source: Source, span: Span) -> Place:
        """Return the place of a span. The statement's text is joined to one line, without comment lines."""
        lines = [source.line(number) for number in range(span.line, span.end_line + 1)]
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        file, line = source.place(span.line)
        return cls(file, line, " ".join(line.strip() for line in lines if not line.lstrip().startswith(("#", "%"))))


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule that was added, removed or changed. `of`: the name of the event, fluent, predicate or alert that it
    defines."""

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
    """An unchanged rule of the new program that depends on a changed rule."""

    of: str
    place: Place


@dataclass(frozen=True, slots=True)
class ProgramDiff:
    """The differences between the meanings of two programs.

    - `parameters`: the parameters whose values differ, as (name, old value, new value). A value is None if that program
      does not have the parameter.
    - `affected`: the tables of events and fluents whose results may differ.
    """

    parameters: tuple[tuple[str, str | None, str | None], ...] = ()
    rules: tuple[RuleChange, ...] = ()
    declarations: tuple[DeclarationChange, ...] = ()
    reached: tuple[Reached, ...] = ()
    affected: frozenset[str] = field(default=frozenset())

    def __bool__(self) -> bool:
        return bool(self.rules or self.declarations)


def program_diff(old: CompiledProgram, new: CompiledProgram) -> ProgramDiff:
    """Return the differences between the meanings of two programs. Both must be compiled with their alerts."""
    before, other = _Meaning(old), _Meaning(new)
    rules = list(_rule_changes(before, other))
    declarations = list(_declaration_changes(before, other))
    changed = {name for name, _ in (*rules, *declarations)}
    affected = _closure(changed, before, other)
    touched = {id(place) for _, rule_change in rules for place in (rule_change.old, rule_change.new)}
    reached = dict.fromkeys(
        Reached(other.shown(name), rule.place)
        for name, own in other.rules.items()
        for rule in own
        if rule.written and rule.reads & affected and id(rule.place) not in touched
    )
    return ProgramDiff(
        tuple(_parameters(old, new)),
        tuple(dict.fromkeys(rule_change for _, rule_change in rules)),
        tuple(declaration_change for _, declaration_change in declarations),
        tuple(sorted(reached, key=lambda reached_rule: (reached_rule.place.file, reached_rule.place.line))),
        frozenset(affected),
    )


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule, its meaning (`identity`), and the names of the events and predicates that it reads.

    `written`: True if the author wrote it as a rule. False if the compiler created it from another kind of statement.
    """

    identity: str
    label: str | None
    place: Place
    reads: frozenset[str]
    written: bool


class _Meaning:
    """The rules of a compiled program, by the name that they define."""

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
            for own_rule in own_rules:
                for read in own_rule.reads:
                    self.readers.setdefault(read, set()).add(name)
        self.alerts = {alert.name: alert for alert in program.alerts}

    def _add(self, name: str, rule: _Rule) -> None:
        self.rules.setdefault(name, []).append(rule)

    def _place(self, span: Span) -> Place:
        return Place.of(self.plan.source, span)

    def _declared(self, event: str) -> Span | None:
        fluent = self.schemas[event].fluent
        if fluent is None or fluent.of_formulas:
            return None
        own = [rule for rule in self.program.rules.rules if rule.event == fluent.name]
        return own[0].span if own else None

    def shown(self, name: str) -> str:
        """Return the name that the author wrote for an event, fluent, predicate or alert."""
        schema = self.schemas.get(name)
        if schema is None or schema.fluent is None:
            return name.removesuffix(" ends") if name.startswith("alert ") else name
        return author_name(schema.fluent.name)


def _rule_changes(old: _Meaning, new: _Meaning) -> Iterator[tuple[str, RuleChange]]:
    """Yield the changed rules, each with the name that it defines.

    If several rules for the same name have changed, old and new rules are paired by their labels, then by their order.
    """
    for name in dict.fromkeys((*new.rules, *old.rules)):
        old_rules, other = old.rules.get(name, []), new.rules.get(name, [])
        same = Counter(rule.identity for rule in old_rules) & Counter(rule.identity for rule in other)
        gone, added = _without(old_rules, same), _without(other, same)
        labels = {rule.label: rule for rule in added if rule.label is not None}
        pairs = [(rule, labels[rule.label]) for rule in gone if rule.label in labels]
        gone = [rule for rule in gone if rule.label not in labels]
        taken = {id(rule) for _, rule in pairs}
        added = [rule for rule in added if id(rule) not in taken]
        pairs += zip(gone, added)
        shown = new.shown(name) if name in new.rules else old.shown(name)
        for before, after in pairs:
            yield name, RuleChange("changed", shown, before.place, after.place)
        for rule in gone[len(added) :]:
            yield name, RuleChange("removed", shown, rule.place, None)
        for rule in added[len(gone) :]:
            yield name, RuleChange("added", shown, None, rule.place)


def _without(rules: Iterable[_Rule], same: Counter[str]) -> list[_Rule]:
    left, taken = [], Counter(same)
    for rule in rules:
        if taken[rule.identity]:
            taken[rule.identity] -= 1
        else:
            left.append(rule)
    return left


def _declaration_changes(old: _Meaning, new: _Meaning) -> Iterator[tuple[str, DeclarationChange]]:
    """Yield the changed declarations of events and alerts, each with the name of the event or alert. Changes that
    follow from changed rules are omitted."""
    for name in dict.fromkeys((*new.schemas, *old.schemas)):
        old_schema, other = old.schemas.get(name), new.schemas.get(name)
        schema = old_schema if other is None else other
        assert schema is not None, "one of the programs has it"
        if name.startswith("alert ") or (schema.fluent is not None and schema.fluent.name != name):
            continue  # a table of a fluent or an alert
        shown = (old if other is None else new).shown(name)
        if old_schema is None or other is None:
            program = new if old_schema is None else old
            if name in program.plan.inputs and name not in program.rules:
                change: Change = "added" if old_schema is None else "removed"
                yield (
                    name,
                    DeclarationChange(change, shown, "it is read" if old_schema is None else "it is not read any more"),
                )
            continue
        if asdict(old_schema) != asdict(other):
            yield name, DeclarationChange("changed", shown, _told(old_schema, other))
    for name in dict.fromkeys((*new.alerts, *old.alerts)):
        before, after = old.alerts.get(name), new.alerts.get(name)
        if before is not None and after is not None and before != after:
            own = [field.name for field in fields(before) if getattr(before, field.name) != getattr(after, field.name)]
            yield after.table, DeclarationChange("changed", f"alert {name}", f"its {_listed(own)} changed")


def _told(old: Schema, new: Schema) -> str:
    if (old.fluent is None) is not (new.fluent is None):
        return "it is a fluent" if old.fluent is None else "it is an event, no fluent"
    old_columns, other = (
        [f"{attribute.name}: {attribute.type}" for attribute in schema.attributes] for schema in (old, new)
    )
    if old_columns != other:
        return f"({', '.join(old_columns)}) is now ({', '.join(other)})"
    return "its records are read differently"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _closure(changed: Iterable[str], old: _Meaning, new: _Meaning) -> set[str]:
    reached, waiting = set(changed), list(changed)
    while waiting:
        name = waiting.pop()
        more = {reader for own in (old, new) for reader in own.readers.get(name, ())} - reached
        reached |= more
        waiting += sorted(more)
    return reached


def _parameters(old: CompiledProgram, new: CompiledProgram) -> Iterator[tuple[str, str | None, str | None]]:
    old_values, other = old.written.parameters.by_name, new.written.parameters.by_name
    for name in dict.fromkeys((*other, *old_values)):
        before, after = (
            None if own is None else own.written(own.value.value) for own in (old_values.get(name), other.get(name))
        )
        if before != after:
            yield name, before, after


# --- what a part of a plan means, with events by their names ---


def _described(plan: Plan, child: int) -> tuple[str, set[str]]:
    """Return the nodes of a rule's plan as text, and the names of the events and predicates that they read. If several
    nodes are equal, the text contains one of them."""
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
            (field.name, _spelt(getattr(node, field.name), {}))
            for field in fields(cast(Any, node))
            if field.name not in PART_FIELDS and field.compare
        ]
        names |= set(_names(node))
        lines.append(repr((type(node).__name__, own, taken)))
    return "\n".join(lines), names


def _spelt(value: Any, variables: dict[str, str]) -> str:
    """Return a value of the plan as text. The text does not depend on layout or on the names of variables.

    Variables of static rules and graph patterns are replaced by numbers.
    """
    if isinstance(value, Variable):
        return _numbered(value.name, variables)
    if isinstance(value, Graph):
        return f"Graph({_graph(value, variables)}, {value.negated})"
    if isinstance(value, Predicate) and value.graph is not None:
        return f"Graph({_graph(value.graph, variables)}, {value.negated}, {_spelt(value.arguments, variables)})"
    if isinstance(value, Disjunction):  # its local variables follow from its alternatives
        return f"Disjunction({_spelt(value.alternatives, variables)})"
    if is_dataclass(value) and not isinstance(value, type):
        own = [_spelt(getattr(value, field.name), variables) for field in fields(value) if field.compare]
        return f"{type(value).__name__}({', '.join(own)})"
    if isinstance(value, tuple | list):
        return f"({', '.join(_spelt(member, variables) for member in value)})"
    return repr(value)


def _numbered(name: str, variables: dict[str, str]) -> str:
    return "_" if name == "_" else variables.setdefault(name, f"V{len(variables)}")


def _graph(graph: Graph, variables: dict[str, str]) -> str:
    """Return a graph pattern as text, followed by the prefixes that it uses. Variables are replaced by numbers, and the
    layout is removed."""
    used: set[str] = set()

    def told(matched: re.Match[str]) -> str:
        if matched["space"] is not None:
            return " "
        if matched["name"] is not None:
            return f"?{_numbered(matched['name'], variables)}"
        if matched["quoted"] is None:
            used.add(matched["prefix"] or "")
        return matched[0]

    text = _VARIABLE.sub(told, graph.text)
    return f"{text} {[(name, iri) for name, iri in graph.prefixes if name.removesuffix(':') in used]}"


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, Predicate):
        yield value.name
    if is_dataclass(value) and not isinstance(value, type):
        for part in fields(value):
            yield from _names(getattr(value, part.name))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _names(part)
