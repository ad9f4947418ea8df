"""The provenance of occurrences in PROV: their constituents, and an activity for each rule that derived them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from cep.connectors.rdf import triples
from cep.connectors.rdf.vocabulary import PROV, RDF, RDFS, EventVocabulary
from cep.core.errors import Source, Span
from cep.core.fluents import TRANSITIONS
from cep.core.identity import ID, identity
from cep.core.schema import Schema
from cep.plan.plan import Plan
from cep.runtime.history import CONSTITUENTS


@dataclass(frozen=True, slots=True)
class Derivations:
    """The provenance of everything that one program derives, in PROV.

    - `plan`: the program's plan. Rules are numbered by their position in it.
    - `meanings`: for each event type, a fingerprint of all rules that it depends on (see `Engine.meanings`). The IRIs
      of activities and rules contain this fingerprint, so they stay the same if other rules change.
    - `written`: the event types that the output describes. If an occurrence is made of occurrences of other derived
      event types, the output names only the class of these occurrences.
    """

    plan: Plan
    meanings: Mapping[str, str]
    vocabulary: EventVocabulary
    written: Collection[str] = ()
    _activities: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def events(self, tables: Mapping[str, pl.DataFrame], schemas: Mapping[str, Schema]) -> str:
        """Describe derived occurrences. `tables`: the occurrences of each event type, with the column `@id`.

        If a table has a column of constituents (see `cep.runtime.history`), also describe their derivation.
        """
        led = [name for name, table in tables.items() if CONSTITUENTS in table.columns]
        derived = [
            triples.Derived(table, schemas[name], None if name in led else self._activity_of(name))
            for name, table in tables.items()
        ]
        return triples.event_triples(derived, self.vocabulary) + "".join(self._led(tables[name], name) for name in led)

    def rules(self) -> str:
        """Describe all rules, each with the activity that applies it.

        If an event type has several rules, there is also an activity for "one of these rules".
        """
        lines: dict[str, None] = {}
        for event in (name for name in self.plan.derived if name in self.meanings):
            rules = self.rules_of(event)
            for own_rules in [*([] if len(rules) == 1 else [[]]), *([rule] for rule in rules)]:
                lines |= dict.fromkeys(self.described(event, own_rules))
        return "".join(lines)

    def rules_of(self, event: str) -> list[int]:
        """Return the numbers of the rules that derive an event type.

        For a fluent, these are the numbers of the rules that begin and end it. If it has no such rules, these are the
        numbers of its formulas.
        """
        table = self._statements.get(event)
        own = [number for number, rule in enumerate(self.plan.rules.rules) if rule.event == table]
        return own or [number for number, rule in enumerate(self.plan.rules.rules) if rule.event == event]

    def _activity_of(self, event: str) -> str:
        """Return the IRI of the activity that derives occurrences of an event type. Use it if the occurrences' rules
        were not recorded.

        If the event type has one rule, this is the activity of that rule. Otherwise, it is "one of these rules".
        """
        if event not in self._activities:
            rules = self.rules_of(event)
            self._activities[event] = self.activity(event, rules if len(rules) == 1 else [])
        return self._activities[event]

    @property
    def _statements(self) -> dict[str, str]:
        schemas = self.plan.schemas.values()
        return {
            schema.fluent.name: schema.name
            for schema in schemas
            if schema.fluent is not None and schema.fluent.part == TRANSITIONS
        }

    def activity(self, event: str, rules: Sequence[int]) -> str:
        """Return the IRI of the activity that derived an occurrence.

        `rules`: the numbers of the rules that derived the occurrence; empty if they are unknown.
        """
        return self.vocabulary.derivation(self.meanings[event], event, [self._name(rule) for rule in rules])

    def described(self, event: str, rules: Sequence[int]) -> Iterator[str]:
        """Yield the triples that describe an activity and its rules. In PROV, the rules are plans.

        `rules`: the numbers of the rules; empty stands for all rules of the event type.
        """
        activity = self.activity(event, rules)
        yield triples.triple_line(activity, RDF + "type", PROV + "Activity")
        for rule in rules or self.rules_of(event):
            name = self._name(rule)
            association, followed = (
                f"{activity}/{name}/association",
                self.vocabulary.rule(self.meanings[event], event, name),
            )
            yield triples.triple_line(activity, PROV + "qualifiedAssociation", association)
            yield triples.triple_line(association, RDF + "type", PROV + "Association")
            yield triples.triple_line(association, PROV + "hadPlan", followed)
            yield triples.triple_line(followed, RDF + "type", PROV + "Plan")
            text = _written(self.plan.source, self.plan.rules.rules[rule].span)
            yield f"<{followed}> <{RDFS}label> {triples.quoted(text)} .\n"

    def _name(self, rule: int) -> str:
        head = self.plan.rules.rules[rule]
        fluent = self.plan.schemas[head.event].fluent
        return head.label or str(1 + self.rules_of(head.event if fluent is None else fluent.name).index(rule))

    def _led(self, table: pl.DataFrame, event: str) -> str:
        vocabulary, schemas = self.vocabulary, self.plan.schemas
        lines: dict[str, None] = {}
        activities: dict[tuple[int, ...], str] = {}
        every = self.rules_of(event)
        for id, text in zip(table[ID].to_list(), table[CONSTITUENTS].to_list()):
            rules, parts = json.loads(text)
            if schemas[event].fluent is not None:  # `cep explain` shows which statements begin and end it
                rules = every if len(every) == 1 else []
            subject = f"<{vocabulary.event(id)}> <{PROV}"
            if rules or event in self._statements:
                key = tuple(rules)
                if key not in activities:
                    activities[key] = self.activity(event, rules)
                    lines |= dict.fromkeys(self.described(event, rules)) if len(rules) > 1 else {}
                lines[f"{subject}wasGeneratedBy> <{activities[key]}> .\n"] = None
            for record, name, values, number in parts:
                if not record and schemas[name].fluent is not None:
                    del values[1]  # drop the fluent's end
                text = f"{json.dumps(name)} {json.dumps(values)}"
                part = identity(text, "", 0) if record else identity(text, self.meanings[name], number)
                iri = vocabulary.reading(part) if record else vocabulary.event(part)
                lines[f"{subject}wasDerivedFrom> <{iri}> .\n"] = None
                if record or name not in self.written:
                    lines[triples.triple_line(iri, RDF + "type", vocabulary.type(schemas[name]))] = None
        return "".join(lines)


def _written(source: Source, span: Span) -> str:
    lines = [source.line(number) for number in range(span.line, span.end_line + 1)]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)
