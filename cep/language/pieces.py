"""Fluents of which pieces come in, written out: each piece is an event when it begins and one when it ends.

Of a fluent `f` these are `f begins` and `f ends`, with the number of the piece and whether that end belongs to it. What
lies between is `(begin, end]`, of which an end that is open is taken away, and to which a beginning that is closed is
added:

    initiate piece(X, N) <- begins(X, N, _).      f(X) WHILE begins(X, _, true).
    terminate piece(X, N) <- ends(X, N, _).       f(X) WHILE piece(X, N) AND NOT ends(X, N, false).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from cep.core.pieces import begins, ends
from cep.core.schema import RecordFormat, Schema
from cep.events import Event, Value
from cep.language.syntax import ast
from cep.operators.conjunction import And
from cep.operators.supports import FormulaAtom
from cep.rules.terms import Constant, Expression, Variable


def inside(name: str) -> str:
    """The fluent that holds between the two."""
    return f"{name} piece"


def with_pieces(tree: ast.SyntaxTree, names: Collection[str], records: RecordFormat | None = None) -> ast.SyntaxTree:
    """The tree with what makes these fluents of their pieces. `records`: how these are written."""
    made: list[ast.Statement] = []
    for each in tree.statements:
        made.append(each)
        if isinstance(each, ast.FluentDeclaration) and each.name in names:
            made += _of(each, records)
    helpers = tree.helpers | {inside(name) for name in names}
    return replace(tree, statements=tuple(made), helpers=helpers)


def _of(fluent: ast.FluentDeclaration, records: RecordFormat | None) -> list[ast.Statement]:
    name, span = fluent.name, fluent.span
    own = (*fluent.attributes, *([] if fluent.value is None else [fluent.value]))
    number, closed = ast.AttributeTree("piece", "int"), ast.AttributeTree("closed", "bool")
    begin, end, between = begins(name), ends(name), inside(name)
    values: tuple[Expression, ...] = tuple(Variable(f"X{at + 1}") for at in range(len(own)))
    piece, anonymous = Variable("N"), Variable("_")
    yes, no = Constant(True, "bool"), Constant(False, "bool")
    head = values if fluent.value is None else values[:-1]
    value = None if fluent.value is None else values[-1]
    whole = And(
        (FormulaAtom(between, (*values, piece), span=span), FormulaAtom(end, (*values, piece, no), span=span)),
        (False, True),
        span,
    )
    return [
        ast.EventDeclaration(begin, (*own, number, closed), "time", span=span, records=records),
        ast.EventDeclaration(end, (*own, number, closed), "time", span=span, records=records),
        ast.FluentDeclaration(between, (*own, number), None, span=span),
        _transition(
            "initiate", between, (*values, piece), ast.EventPattern(begin, (*values, piece, anonymous), None, span)
        ),
        _transition(
            "terminate", between, (*values, piece), ast.EventPattern(end, (*values, piece, anonymous), None, span)
        ),
        ast.WhileRule(name, head, value, (), FormulaAtom(begin, (*values, anonymous, yes), span=span), span, span),
        ast.WhileRule(name, head, value, (), whole, span, span),
    ]


def _transition(verb: str, name: str, arguments: tuple[Expression, ...], body: ast.EventPattern) -> ast.FluentRule:
    return ast.FluentRule(verb, name, arguments, None, body, (), body.span, body.span)


def as_declared(event: Event, schema: Schema) -> Event:
    """The event of a dialect whose values are texts where it has no types: numbers as they are written."""
    types = [each.type for each in schema.attributes]
    if len(types) != len(event.args):
        return event
    values = tuple(
        str(value) if type == "string" and isinstance(value, int | float) else value
        for value, type in zip(event.args, types, strict=True)
    )
    return replace(event, args=values)


def as_events(given: Iterable[Event], names: Collection[str]) -> list[Event]:
    """Events, of which those that are pieces of these fluents, closed, become the events that they begin and end."""
    made: list[Event] = []
    for number, each in enumerate(given):
        if each.type not in names:
            made.append(each)
            continue
        values: tuple[Value, ...] = (*each.args, number, True)
        made.append(Event(begins(each.type), values, each.start, each.start))
        made.append(Event(ends(each.type), values, each.end, each.end))
    return made
