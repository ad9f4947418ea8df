"""Lowering of fluents whose input is records that have intervals.

Such a fluent `f` has three tables. `records of f` contains the input, `times of f` contains the beginnings and ends of
f, and `f` contains its maximal intervals. If formulas also define `f`, its records belong to a second fluent, `f
recorded`, and the program gets the rule `f(X) WHILE f recorded(X).`
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
    return f"{RECORDS_OF}{name}"


def edges(name: str) -> str:
    return f"{TIMES_OF}{name}"


def incoming(
    name: str,
    attributes: tuple[ast.AttributeTree, ...],
    value: ast.AttributeTree | None,
    format: RecordFormat,
    span: Span,
) -> ast.FluentDeclaration:
    """Create the declaration of a fluent whose input is records, for a program in a dialect.

    The records are final: no record closes an interval that an earlier record left open.
    """
    own = (*attributes, *([] if value is None else [value]))
    start, end, _ = RECORD_COLUMNS
    records = ast.EventDeclaration(name, own, None, start, end, span=span, records=format)
    return ast.FluentDeclaration(name, attributes, value, records, span, final=True)


def recorded(name: str) -> str:
    """Return the name of the second fluent, which holds the records of a fluent that formulas define."""
    return f"{name}{RECORDED}"


def is_recorded(statement: ast.Statement) -> bool:
    """Return True if a statement declares a fluent whose input is records."""
    if not isinstance(statement, ast.FluentDeclaration):
        return False
    return statement.records is not None and statement.records.start is not None


def records_apart(program: ast.SyntaxTree) -> ast.SyntaxTree:
    """Split each fluent that has both records and formulas. A second fluent gets the records, and a new formula derives
    the original fluent from the second one."""
    defined = {statement.name for statement in program.statements if isinstance(statement, ast.WhileRule)}
    statements: list[ast.Statement] = []
    helpers = set(program.helpers)
    for statement in program.statements:
        if (
            not isinstance(statement, ast.FluentDeclaration)
            or not is_recorded(statement)
            or statement.name not in defined
        ):
            statements.append(statement)
            continue
        assert statement.records is not None, "it comes in"
        own, span = recorded(statement.name), statement.span
        statements.append(replace(statement, records=replace(statement.records, start=None, end=None, records=None)))
        statements.append(replace(statement, name=own))
        values: tuple[Expression, ...] = tuple(Variable(f"X{index + 1}") for index in range(len(statement.attributes)))
        value = None if statement.value is None else Variable("X")
        asked = FormulaAtom(own, values, None, value, None, span)
        statements.append(ast.WhileRule(statement.name, values, value, (), asked, NOWHERE, span))
        helpers.add(own)
    return replace(program, statements=tuple(statements), helpers=frozenset(helpers))


def tables_of_records(
    name: str, declared: Schema, attributes: tuple[Attribute, ...], valued: bool, final: bool
) -> dict[str, Schema]:
    """Return the schemas of the tables of a fluent whose input is records, by table name.

    - `declared`: the schema of the records.
    - `attributes`: the fluent's attributes, without the formats of the input.
    - `valued`: True if the fluent has a value.
    - `final`: True if no record closes an interval that an earlier record left open.
    """
    what = Attribute(beside("what", [attribute.name for attribute in attributes]), "int")
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
    tables = {records(name): incoming}
    for table, part, more in ((name, HOLDS, ()), (edges(name), EDGES, (what,))):
        fluent = FluentTable(part, name, valued, defined=True)
        tables[table] = Schema(table, (*attributes, *more), True, False, iri=declared.iri, fluent=fluent)
    return tables


def rules_of_records(name: str, schema: Schema, final: bool, span: Span) -> list[Rule]:
    """Return the rules of a fluent whose input is records. One rule computes the fluent's beginnings and ends from its
    records, the other its maximal intervals from these.

    `final`: True if no record closes an interval that an earlier record left open.
    """
    own = tuple(f"{attribute.name}'" for attribute in schema.attributes)
    what = beside("what'", own)
    every = tuple(map(Variable, (*own, what)))
    body = RecordingPattern(records(name), (*own, what), None, span, final or None)
    whole = Atom(edges(name), (*every[:-1], Constant(GIVEN, "int")), None, span)
    return [
        Rule(edges(name), every, body, None, span, span),
        Rule(name, every[:-1], whole, None, span, span),
    ]
