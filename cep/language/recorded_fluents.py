"""Fluents that come in as records with intervals, lowered: of what is recorded a rule makes when it begins and ends.

Of a fluent `f` that comes in the tables are `records of f`, `times of f` (its beginnings and ends), `f` (its maximal
intervals), as of one that formulas define. Where formulas define it too, its records are those of another fluent,
which they ask: `f(X) WHILE f recorded(X).`
"""

from __future__ import annotations

from dataclasses import replace

from cep.core.errors import NOWHERE, Span
from cep.core.fluents import (
    EDGES,
    GIVEN,
    HOLDS,
    RECORD_BOUNDS,
    RECORD_COLUMNS,
    RECORD_END,
    RECORD_START,
    RECORDED,
    RECORDS,
    RECORDS_OF,
    TIMES_OF,
    FluentTable,
    beside,
)
from cep.core.schema import Attribute, RecordFormat, Schema
from cep.language.syntax import ast
from cep.operators.event import Atom
from cep.operators.recording import RecordingPattern
from cep.operators.supports import FormulaAtom
from cep.plan.algebra import Rule
from cep.rules.terms import Constant, Expression, Variable


def records(name: str) -> str:
    """The table of what comes in of a fluent."""
    return f"{RECORDS_OF}{name}"


def edges(name: str) -> str:
    """The table of when a fluent begins and ends."""
    return f"{TIMES_OF}{name}"


def incoming(
    name: str,
    attributes: tuple[ast.AttributeTree, ...],
    value: ast.AttributeTree | None,
    format: RecordFormat,
    span: Span,
) -> ast.FluentDeclaration:
    """A fluent of a dialect, of which records come in that say for good when it holds."""
    own = (*attributes, *([] if value is None else [value]))
    start, end, _ = RECORD_COLUMNS
    records = ast.EventDeclaration(name, own, None, start, end, span=span, records=format)
    return ast.FluentDeclaration(name, attributes, value, records, span, final=True)


def recorded(name: str) -> str:
    """The fluent of the records of one that formulas define."""
    return f"{name}{RECORDED}"


def is_recorded(statement: ast.Statement) -> bool:
    """Return True if a statement declares a fluent that comes in as records."""
    if not isinstance(statement, ast.FluentDeclaration):
        return False
    return statement.records is not None and statement.records.start is not None


def records_apart(program: ast.SyntaxTree) -> ast.SyntaxTree:
    """The program in which no fluent both comes in and is defined by formulas: these ask its records."""
    defined = {each.name for each in program.statements if isinstance(each, ast.WhileRule)}
    made: list[ast.Statement] = []
    helpers = set(program.helpers)
    for each in program.statements:
        if not isinstance(each, ast.FluentDeclaration) or not is_recorded(each) or each.name not in defined:
            made.append(each)
            continue
        assert each.records is not None, "it comes in"
        own, span = recorded(each.name), each.span
        made.append(replace(each, records=replace(each.records, start=None, end=None, records=None)))
        made.append(replace(each, name=own))
        values: tuple[Expression, ...] = tuple(Variable(f"X{at + 1}") for at in range(len(each.attributes)))
        value = None if each.value is None else Variable("X")
        asked = FormulaAtom(own, values, None, value, None, span)
        made.append(ast.WhileRule(each.name, values, value, (), asked, NOWHERE, span))
        helpers.add(own)
    return replace(program, statements=tuple(made), helpers=frozenset(helpers))


def tables_of_records(
    name: str, declared: Schema, attributes: tuple[Attribute, ...], valued: bool, final: bool
) -> dict[str, Schema]:
    """The tables of a fluent whose records are `declared` so, under the name that they have; `attributes`: its own,
    without how they are written; `final`: no record closes another."""
    what = Attribute(beside("what", [each.name for each in attributes]), "int")
    start, end, bounds = RECORD_COLUMNS
    coming = (
        *declared.attributes,
        Attribute(RECORD_END, "time", True, source=declared.end or end, format=declared.format),
        Attribute(RECORD_BOUNDS, "int", True, source=bounds),
        Attribute(RECORD_START, "time", True),
    )
    incoming = replace(
        declared, name=records(name), attributes=coming, point=True, time=declared.start or start, start=None,
        end=None, fluent=FluentTable(RECORDS, declared.name, valued, final=final or None),
    )  # fmt: skip
    made = {records(name): incoming}
    for table, part, more in ((name, HOLDS, ()), (edges(name), EDGES, (what,))):
        fluent = FluentTable(part, name, valued, defined=True)
        made[table] = Schema(table, (*attributes, *more), True, False, iri=declared.iri, fluent=fluent)
    return made


def rules_of_records(name: str, schema: Schema, final: bool, span: Span) -> list[Rule]:
    """The rules that make of records when a fluent begins and ends, and of that its intervals. `final`: no record
    closes another."""
    own = tuple(f"{each.name}'" for each in schema.attributes)
    what = beside("what'", own)
    every = tuple(map(Variable, (*own, what)))
    body = RecordingPattern(records(name), (*own, what), None, span, final or None)
    whole = Atom(edges(name), (*every[:-1], Constant(GIVEN, "int")), None, span)
    return [
        Rule(edges(name), every, body, None, span, span),
        Rule(name, every[:-1], whole, None, span, span),
    ]
