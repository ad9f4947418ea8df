"""Many variants of a program, compiled as one plan. Each variant has its own parameter values, or one changed rule.

Events that mean the same in two variants become one event, and the planner merges equal operators. So all variants run
in one pass over the input, and share every operator that is the same in several variants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from cep.compile import CompiledProgram, CompileOptions, ReadProgram, compiled_rules, lowered
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.operators.answer_sets import AnswerSetPattern
from cep.plan.algebra import Rule, Rules
from cep.rules.alert import Alert
from cep.rules.terms import Constant, Predicate, StaticRule

T = TypeVar("T")
_TEXTS = ("label", "span", "head_span")
"""The fields of rules that contain no names of events or predicates. `_parts` skips them."""


@dataclass(frozen=True, slots=True)
class Variants:
    """A compiled program that contains many variants.

    - `names`: for each variant, the names of its wanted events in the merged program.
    - `alerts`: for each variant, its alerts by their original names.
    """

    program: CompiledProgram
    names: Sequence[Mapping[str, str]]
    alerts: Sequence[Mapping[str, Alert]]

    @property
    def both(self) -> list[tuple[Mapping[str, Alert], Mapping[str, str]]]:
        """For each variant, a pair of its alerts and its names."""
        return list(zip(self.alerts, self.names))


def compiled_variants(
    text: str,
    name: str,
    options: CompileOptions,
    params: Sequence[Mapping[str, object]],
    events: Sequence[str],
    alerts: Sequence[str] = (),
) -> Variants:
    """Compile a program once for each set of parameter values, as one merged program.

    `events`, `alerts`: the names of the wanted events and alerts. Everything that they do not need is omitted.

    Raises CepError if the program has mistakes.
    """
    programs = [
        ReadProgram.of(text, name, replace(options, params={**(options.params or {}), **param})) for param in params
    ]
    every = [lowered(program.tree, options) for program in programs]
    return compiled_together(programs[0], every, options, events, alerts)


def compiled_together(
    program: ReadProgram, every: Sequence[Rules], options: CompileOptions, events: Sequence[str], alerts: Sequence[str]
) -> Variants:
    """Compile lowered variants of one program as one plan. Raises CepError if a variant has mistakes."""
    merge = _Merge()
    names, own_alerts = [], []
    for rules in every:
        variant = _Variant(rules)
        kept = [alert for alert in rules.alerts if alert.name in alerts]
        renamed = merge.add(variant, [*events, *(table for kept_alert in kept for table in kept_alert.tables)])
        names.append({event: renamed[event] for event in events})
        own_alerts.append(merge.add_alerts(kept, renamed))
    first = every[0]
    wanted = {name for renamed_names in names for name in renamed_names.values()}
    wanted |= {table for own_alert in own_alerts for alert in own_alert.values() for table in alert.tables}
    merged = replace(
        first,
        schemas=merge.schemas,
        rules=tuple(merge.rules),
        statics=tuple(merge.statics),
        asked={name: asked for variant_rules in every for name, asked in variant_rules.asked.items()},
        alerts=tuple({alert.name: alert for own_alert in own_alerts for alert in own_alert.values()}.values()),
        helpers=frozenset(rule.event for rule in merge.rules) - wanted,
        impossible={name: span for name, span in first.impossible.items() if name in merge.schemas},
    )
    compiled = compiled_rules(program, program.tree, merged, replace(options, alerts=bool(alerts)))
    return Variants(compiled, names, own_alerts)


class _Variant:
    """The rules of one variant, indexed by the names that they define."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.defined: dict[str, list[Rule | StaticRule]] = {name: [] for name in rules.schemas}
        for rule in rules.rules:
            self.defined.setdefault(rule.event, []).append(rule)
        for static in rules.statics:
            self.defined.setdefault(static.name, []).append(static)
        self.tables: dict[str, list[str]] = {}  # fluent -> its tables
        for name, schema in rules.schemas.items():
            if schema.fluent is not None:
                self.tables.setdefault(schema.fluent.name, []).append(name)
        self._needs: dict[str, frozenset[str]] = {}

    def needs(self, name: str) -> frozenset[str]:
        """Return the names that the rules of `name` use. If `name` is a table of a fluent, the result also contains all
        other tables of this fluent."""
        if name not in self._needs:
            needed = {named for rule in self.defined[name] for named in _named(rule) if named in self.defined}
            fluent = self.rules.schemas[name].fluent if name in self.rules.schemas else None
            needed |= set(self.tables[fluent.name]) if fluent is not None else set()
            self._needs[name] = frozenset(needed - {name})
        return self._needs[name]

    def below(self, name: str) -> list[str]:
        """Return `name` and all names on which it depends, directly or indirectly."""
        reached, waiting = {name}, [name]
        while waiting:
            more = self.needs(waiting.pop()) - reached
            reached |= more
            waiting += more
        return sorted(reached)


class _Merge:
    """The merged rules of all variants. Rules that mean the same are kept once."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self.rules: list[Rule] = []
        self.statics: list[StaticRule] = []
        self._definitions: dict[object, int] = {}
        self._names: dict[object, str] = {}
        self._taken: dict[str, int] = {}
        self._done: set[str] = set()

    def add(self, variant: _Variant, wanted: Iterable[str]) -> dict[str, str]:
        """Add the rules that a variant needs for the wanted names. Return the new name of each needed name."""
        needed = sorted({needed_name for name in wanted for needed_name in variant.below(name)})
        renamed = {name: self._name(variant, name) for name in needed}
        for name in needed:
            if (new := renamed[name]) in self._done:
                continue
            self._done.add(new)
            schema = variant.rules.schemas.get(name)
            if schema is not None:
                self.schemas[new] = _schema(schema, new, renamed)
            for rule in variant.defined[name]:
                renamed_rule = _renamed(rule, renamed)
                self.rules.append(renamed_rule) if isinstance(renamed_rule, Rule) else self.statics.append(renamed_rule)
        return renamed

    def add_alerts(self, alerts: Iterable[Alert], renamed: Mapping[str, str]) -> dict[str, Alert]:
        """Adapt the alerts of a variant to the new names of its events and tables. Return the adapted alerts, by
        original alert name.

        `renamed`: the new name of each event and table of the variant.
        """
        added = {}
        for alert in alerts:
            table = renamed[alert.table]
            name = alert.name + table.removeprefix(alert.table)
            ends = None if alert.ends is None else renamed[alert.ends]
            event = renamed.get(alert.event, alert.event)
            added[alert.name] = replace(alert, name=name, event=event, table=table, ends=ends)
        return added

    def _name(self, variant: _Variant, name: str) -> str:
        """Return the new name of an event or predicate.

        If a name has several meanings in the variants, the first meaning keeps the name. Each further meaning gets a
        number.
        """
        meaning = tuple(self._definition(needed, variant) for needed in variant.below(name))
        schema = variant.rules.schemas.get(name)
        whose = name if schema is None or schema.fluent is None else schema.fluent.name
        if (whose, meaning) not in self._names:
            number = self._taken.get(whose, 0)
            self._taken[whose] = number + 1
            self._names[whose, meaning] = f"#{number}" if number else ""
        suffix = self._names[whose, meaning]
        return name.replace(whose, whose + suffix, 1) if suffix else name

    def _definition(self, name: str, variant: _Variant) -> int:
        key = name, tuple(variant.defined[name])
        return self._definitions.setdefault(key, len(self._definitions))


def _schema(schema: Schema, name: str, renamed: Mapping[str, str]) -> Schema:
    fluent = schema.fluent
    if fluent is not None:
        suffix = len(name) - len(schema.name)
        suffix_start = schema.name.index(fluent.name) + len(fluent.name)
        fluent = replace(fluent, name=fluent.name + name[suffix_start : suffix_start + suffix])
    return replace(schema, name=name, fluent=fluent)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _parts(part)
    elif is_dataclass(value) and not isinstance(value, Constant):
        yield value
        for part in fields(value):
            if part.name not in _TEXTS:
                yield from _parts(getattr(value, part.name))


def _named(rule: Rule | StaticRule) -> Iterator[str]:
    """Yield the events and predicates that a rule uses. Raises CepError if the rule uses answer sets."""
    for part in _parts(rule):
        if isinstance(part, AnswerSetPattern):
            raise CepError(
                "rules with several answer sets cannot run with several values of a parameter",
                hint="run one value at a time",
                code="option",
            )
        if isinstance(part, Predicate):
            yield part.name
        elif isinstance(event := getattr(part, "event", None), str) and not isinstance(part, Rule):
            yield event


def _renamed(value: T, names: Mapping[str, str]) -> T:
    """Return a value in which events and predicates are renamed."""
    new_value: Any = value
    if isinstance(new_value, tuple):
        parts = tuple(_renamed(part, names) for part in new_value)
        same = all(part is other for part, other in zip(parts, new_value))
        return value if same else parts  # type: ignore[return-value]
    if not is_dataclass(new_value) or isinstance(new_value, Constant):
        return value
    changes: dict[str, Any] = {}
    for field in fields(new_value):
        if field.name in _TEXTS:
            continue
        own = getattr(new_value, field.name)
        event = field.name == "event" or (field.name == "name" and isinstance(new_value, Predicate | StaticRule))
        new = names.get(own, own) if event and isinstance(own, str) else _renamed(own, names)
        if new is not own:
            changes[field.name] = new
    renamed: T = _replaced(new_value, changes) if changes else value
    return renamed


def _replaced(value: Any, changes: Mapping[str, Any]) -> Any:
    return replace(value, **changes)
