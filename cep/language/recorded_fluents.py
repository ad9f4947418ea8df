"""Fluents that come in as records with intervals, lowered: of what is recorded a rule makes when it begins and ends.

Of a fluent `f` that comes in the tables are `records of f`, `times of f` (its beginnings and ends), `f` (its maximal
intervals); the last two say of every row which ends belong to it.
"""

from __future__ import annotations

from dataclasses import replace

from cep.core.errors import Span
from cep.core.fluents import EDGES, HOLDS, RECORD_BOUNDS, RECORD_END, RECORD_START, RECORDS, WHOLE, Fluent
from cep.core.schema import Attribute, Schema
from cep.operators.event import Atom
from cep.operators.recorded import Recorded
from cep.plan.algebra import Rule
from cep.rules.terms import Constant, Variable


def records(name: str) -> str:
    """The table of what comes in of a fluent."""
    return f"records of {name}"


def edges(name: str) -> str:
    """The table of when a fluent begins and ends."""
    return f"times of {name}"


def is_bounded(schema: Schema) -> bool:
    """Whether the tables of a fluent say which ends belong to its intervals."""
    return schema.fluent is not None and bool(schema.fluent.bounded)


def as_written(schema: Schema) -> Schema:
    """The table of what holds as programs speak of it: without its bounds."""
    return replace(schema, attributes=schema.attributes[:-1]) if is_bounded(schema) else schema


def tables_of_records(declared: Schema, attributes: tuple[Attribute, ...], valued: bool) -> dict[str, Schema]:
    """The tables of a fluent whose records are `declared` so; `attributes`: its own, without how they are written."""
    name = declared.name
    bounds, what = Attribute("bounds", "int"), Attribute("what", "int")
    coming = (
        *declared.attributes,
        Attribute(RECORD_END, "time", True, source=declared.end or "end", format=declared.format),
        Attribute(RECORD_BOUNDS, "int", True, source="bounds"),
        Attribute(RECORD_START, "time", True),
    )
    incoming = replace(
        declared, name=records(name), attributes=coming, point=True, time=declared.start or "start", start=None,
        end=None, fluent=Fluent(RECORDS, name, valued),
    )  # fmt: skip
    made = {records(name): incoming}
    for table, part, more in ((name, HOLDS, (bounds,)), (edges(name), EDGES, (bounds, what))):
        fluent = Fluent(part, name, valued, True)
        made[table] = Schema(table, (*attributes, *more), True, False, iri=declared.iri, fluent=fluent)
    return made


def rules_of_records(name: str, schema: Schema, span: Span) -> list[Rule]:
    """The rules that make of records when a fluent begins and ends, and of that its intervals."""
    own = tuple(f"{each.name}'" for each in schema.attributes)
    every = tuple(map(Variable, (*own, "what'")))
    body = Recorded(records(name), (*own, "what'"), None, span)
    whole = Atom(edges(name), (*every[:-1], Constant(WHOLE, "int")), None, span)
    return [
        Rule(edges(name), every, body, None, span, span),
        Rule(name, every[:-1], whole, None, span, span),
    ]
