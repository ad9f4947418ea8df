"""Fluents that come in as records with intervals, lowered: of what is recorded a rule makes when it begins and ends.

Of a fluent `f` that comes in the tables are `records of f`, `times of f` (its beginnings and ends), `f` (its maximal
intervals), as of one that formulas define.
"""

from __future__ import annotations

from dataclasses import replace

from cep.core.errors import Span
from cep.core.fluents import EDGES, GIVEN, HOLDS, RECORD_BOUNDS, RECORD_END, RECORD_START, RECORDS, FluentTable
from cep.core.schema import Attribute, Schema
from cep.operators.event import Atom
from cep.operators.recording import RecordingPattern
from cep.plan.algebra import Rule
from cep.rules.terms import Constant, Variable


def records(name: str) -> str:
    """The table of what comes in of a fluent."""
    return f"records of {name}"


def edges(name: str) -> str:
    """The table of when a fluent begins and ends."""
    return f"times of {name}"


def tables_of_records(declared: Schema, attributes: tuple[Attribute, ...], valued: bool) -> dict[str, Schema]:
    """The tables of a fluent whose records are `declared` so; `attributes`: its own, without how they are written."""
    name = declared.name
    what = Attribute("what", "int")
    coming = (
        *declared.attributes,
        Attribute(RECORD_END, "time", True, source=declared.end or "end", format=declared.format),
        Attribute(RECORD_BOUNDS, "int", True, source="bounds"),
        Attribute(RECORD_START, "time", True),
    )
    incoming = replace(
        declared, name=records(name), attributes=coming, point=True, time=declared.start or "start", start=None,
        end=None, fluent=FluentTable(RECORDS, name, valued),
    )  # fmt: skip
    made = {records(name): incoming}
    for table, part, more in ((name, HOLDS, ()), (edges(name), EDGES, (what,))):
        fluent = FluentTable(part, name, valued, defined=True)
        made[table] = Schema(table, (*attributes, *more), True, False, iri=declared.iri, fluent=fluent)
    return made


def rules_of_records(name: str, schema: Schema, span: Span) -> list[Rule]:
    """The rules that make of records when a fluent begins and ends, and of that its intervals."""
    own = tuple(f"{each.name}'" for each in schema.attributes)
    every = tuple(map(Variable, (*own, "what'")))
    body = RecordingPattern(records(name), (*own, "what'"), None, span)
    whole = Atom(edges(name), (*every[:-1], Constant(GIVEN, "int")), None, span)
    return [
        Rule(edges(name), every, body, None, span, span),
        Rule(name, every[:-1], whole, None, span, span),
    ]
