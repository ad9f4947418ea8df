"""What an engine gives of all that a step makes: derived events and fluents, as they are asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import polars as pl

from cep.core.errors import Span
from cep.core.fluents import CHANGES, HOLDS
from cep.core.identity import identified
from cep.core.relation import Table, rows
from cep.core.schema import CHANGE, Schema
from cep.core.values import Pool
from cep.plan.plan import Plan
from cep.runtime.decode import frames
from cep.runtime.fluent_changes import as_changes, with_begun
from cep.runtime.impossible import refuse_impossible
from cep.runtime.revision.revision import NetChange

Frames = dict[str, pl.DataFrame]


class EngineOutput:
    """`schemas`: the events and fluents that are given, as they are given; `alerts`: the tables of alerts, which are
    given as tables of their own."""

    def __init__(self, plan: Plan, pool: Pool, alerts: Collection[str]) -> None:
        self.plan, self.pool = plan, pool
        rules = plan.rules
        fluents = {name: schema.fluent for name, schema in plan.schemas.items() if schema.fluent is not None}
        named = {name: fluents[name].name if name in fluents else name for name in plan.derived}
        helping = () if plan.origin is not None else rules.helpers  # other stages need what helps
        self._hidden = frozenset(
            name for name, own in named.items() if own in helping or (name in fluents and own not in plan.schemas)
        )
        self._impossible: dict[str, Span] = {
            name: rules.impossible[fluent.name] for name, fluent in fluents.items() if fluent.name in rules.impossible
        }
        edges = plan.edges if plan.begins else ()
        given = (name for name in plan.derived if not (name in alerts or name in edges or name in self._hidden))
        self.schemas: dict[str, Schema] = dict(map(self._given, given))

    def _given(self, name: str) -> tuple[str, Schema]:
        """Name and schema of what is given under a name of the plan."""
        schema = self.plan.schemas[name]
        if schema.fluent is None or not (self.plan.changes or schema.fluent.part == HOLDS):
            return name, schema
        fluent = replace(schema.fluent, part=CHANGES) if self.plan.changes else schema.fluent
        return fluent.name, replace(self.plan.schemas[fluent.name], fluent=fluent)

    def shown(self, made: Mapping[str, list[Table]]) -> dict[str, list[Table]]:
        """What was made, without what only helps to say what the program means."""
        return {name: tables for name, tables in made.items() if name not in self._hidden}

    def frames(self, made: Mapping[str, list[Table]]) -> Frames:
        """Tables of what was made. CepError: some of it must not hold."""
        out = frames(made, self.plan.schemas, self.pool)
        if self._impossible:
            rules = {name: self._impossible[name] for name in out if name in self._impossible}
            refuse_impossible(out, rules, self.plan.source)
        return out

    def changed(self, changes: Mapping[str, NetChange], meanings: Mapping[str, str] | None) -> Frames:
        """What is withdrawn and then what is added, with `@change` and the `@id` of what each event means; without
        meanings nothing is ever withdrawn, and what is added is given as it is."""
        both: list[Frames] = []
        for sign, part in ((-1, "withdrawn"), (1, "added")):
            tables = {name: getattr(each, part) for name, each in changes.items()}
            out = self.as_asked(self.frames(self.shown({n: [table] for n, table in tables.items() if rows(table)})))
            if meanings is not None:
                named = {name: identified(table, self.schemas[name], meanings[name]) for name, table in out.items()}
                out = {name: table.with_columns(pl.lit(sign, pl.Int8).alias(CHANGE)) for name, table in named.items()}
            both.append(out)
        names = sorted({name for out in both for name in out})
        return {name: pl.concat([out[name] for out in both if name in out]) for name in names}

    def as_asked(self, out: Frames) -> Frames:
        """These tables, in which fluents are their intervals, these and what begins, or what changes."""
        if self.plan.changes:
            return as_changes(out, self.plan.schemas, self.schemas)
        return with_begun(out, self.plan.schemas, self.schemas) if self.plan.begins else out
