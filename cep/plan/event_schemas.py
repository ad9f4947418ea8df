"""The events of a program as users see them: its inputs, its outputs, and the records of fluents."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from cep.core.fluents import CHANGES, HOLDS, RECORDS
from cep.core.schema import Schema
from cep.plan.plan import Plan


def tables_of(plan: Plan) -> dict[str, str]:
    """Return, for each fluent whose input is records, the table that contains these records."""
    fluents = {name: plan.schemas[name].fluent for name in plan.inputs}
    return {fluent.name: name for name, fluent in fluents.items() if fluent is not None and fluent.part == RECORDS}


def may_close(plan: Plan, name: str) -> bool:
    """Return True if a table contains records of a fluent, and a later record may end an earlier record's interval."""
    fluent = plan.schemas[name].fluent
    return fluent is not None and fluent.part == RECORDS and not fluent.final


def outside(incoming: Schema) -> Schema:
    """Return the schema of an input table as users see it.

    Internally, a record of a fluent is an instant at the record's start. The record's end and bounds are attributes.
    """
    if incoming.fluent is None or incoming.fluent.part != RECORDS:
        return incoming
    *own, end, bounds, _ = incoming.attributes
    attributes = (*own, end, replace(bounds, type="string"))
    return replace(incoming, name=incoming.fluent.name, attributes=attributes, fluent=None)


def inputs_of(plan: Plan) -> dict[str, Schema]:
    """Return the input events of a program. A record of a fluent appears as an event at the record's start."""
    read = (outside(schema) for name, schema in plan.schemas.items() if name in plan.inputs)
    return {schema.name: schema for schema in read}


def helping_tables(plan: Plan) -> frozenset[str]:
    """Return the derived tables that are not part of the output, because they only help to define other tables."""
    rules = plan.rules
    helping = () if plan.origin is not None else rules.helpers  # other stages read helpers
    fluents = {name: fluent.name for name in plan.derived if (fluent := plan.schemas[name].fluent) is not None}
    return frozenset(
        name
        for name in plan.derived
        if fluents.get(name, name) in helping or (name in fluents and fluents[name] not in plan.schemas)
    )


def outputs_of(plan: Plan, alerts: Collection[str]) -> dict[str, Schema]:
    """Return the events and fluents in a program's output, in output order.

    `alerts`: the tables of alerts, which are excluded.
    """
    hidden = {*alerts, *(plan.edges if plan.begins else ()), *helping_tables(plan)}
    return dict(_given(plan, name) for name in plan.derived if name not in hidden)


def _given(plan: Plan, name: str) -> tuple[str, Schema]:
    schema = plan.schemas[name]
    if schema.fluent is None or not (plan.changes or schema.fluent.part == HOLDS):
        return name, schema
    fluent = replace(schema.fluent, part=CHANGES) if plan.changes else schema.fluent
    return fluent.name, replace(plan.schemas[fluent.name], fluent=fluent)
