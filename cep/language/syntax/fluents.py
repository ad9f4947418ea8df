"""Parser of statements about fluents: `fluent`, `initially`, `initiate`, `terminate`, `ENDS AFTER`, `BECOMES ..
AFTER`."""

from __future__ import annotations

from cep.language.syntax import ast
from cep.language.syntax.conditions import conditions
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.declarations import attribute, end_statement, record_clauses
from cep.language.syntax.durations import duration
from cep.language.syntax.patterns import pattern
from cep.language.syntax.terms import arguments, expression
from cep.language.syntax.tokens import Token
from cep.rules.terms import Expression

DECLARATION = (
    "e.g. `fluent moving(vessel: string).`, `fluent location(person: string) = place: string.`, "
    "`fluent near(a: string, b: string) START s END e.`"
)
EXAMPLES = {
    "INITIALLY": "e.g. `initially location(ann) = home.`, `initially off(P) WHERE pump(P).`",
    "INITIATE": "e.g. `initiate moving(V) <- velocity(V, S) WHERE S > 0.5.`",
    "TERMINATE": "e.g. `terminate moving(V) <- velocity(V, S) WHERE S <= 0.5.`",
}
DEADLINE = "e.g. `quoted(M) ENDS AFTER 5 min.`, `status(M) = proposed BECOMES void AFTER 10 min.`"


def begins_fluent(cursor: Cursor) -> bool:
    """Return True if a statement about a fluent follows: a word such as `fluent` or `initiate`, and a name."""
    words = ("FLUENT", *EXAMPLES)
    return cursor.token.kind == "name" and cursor.token.key in words and cursor.peek().kind in ("name", "variable")


def fluent_statement(cursor: Cursor) -> ast.FluentDeclaration | ast.FluentRule:
    """Read the declaration of a fluent, or a rule that initiates or terminates one."""
    return _declaration(cursor) if cursor.token.key == "FLUENT" else _rule(cursor)


def _declaration(cursor: Cursor) -> ast.FluentDeclaration:
    first = cursor.advance()
    name = cursor.name("the name of a fluent", DECLARATION)
    key_attributes: list[ast.AttributeTree] = []
    sources: list[tuple[str, Token]] = []
    if cursor.token.key == "(":
        opening = cursor.advance()
        if cursor.token.key != ")":
            key_attributes.append(attribute(cursor, sources))
            while cursor.accept(","):
                key_attributes.append(attribute(cursor, sources))
        cursor.close(opening, ")", "`,` or `)`", DECLARATION)
    value = attribute(cursor, sources) if cursor.accept("=") else None
    attributes = (*key_attributes, *([] if value is None else [value]))
    records = record_clauses(cursor, name.text, attributes, sources, first)
    if records is not None and records.key is not None:
        hint = "leave out KEY: a later record with the same start, and an end, closes the earlier one"
        cursor.stop("a fluent cannot have a KEY", hint, records.span)
    if records is not None and records.format is not None and records.format.fold == "order":
        hint = "leave it out: a time that clocks show twice is then the earlier one; `FOLD later` takes the later one"
        cursor.stop("a fluent cannot have `FOLD order`", hint, records.span)
    if records is not None and records.when is not None:
        hint = "declare an event with WHEN, whose rules `initiate` and `terminate` the fluent"
        cursor.stop("a fluent cannot have WHEN", hint, records.span)
    if records is not None and records.distinct:
        cursor.stop("leave it out: equal records of a fluent always count once", "without DISTINCT", records.span)
    if records is not None and records.time is not None:
        cursor.stop("a fluent holds for a time", f"use `START {records.time} END ..`", records.span)
    end_statement(cursor, "the declaration", DECLARATION)
    return ast.FluentDeclaration(name.text, tuple(key_attributes), value, records, cursor.span(first))


def _held(cursor: Cursor, hint: str) -> tuple[str, tuple[Expression, ...], Expression | None]:
    """Read a fluent, `location(P) = X`. Return its name, its arguments and its value."""
    name = cursor.name("a fluent", hint)
    values = arguments(cursor) if cursor.token.key == "(" else ()
    return name.text, values, expression(cursor) if cursor.accept("=") else None


def _rule(cursor: Cursor) -> ast.FluentRule:
    first = cursor.advance()
    hint = EXAMPLES[first.key]
    begin = cursor.token
    name, values, value = _held(cursor, hint)
    head = cursor.span(begin)
    if first.key == "INITIALLY":
        tests = conditions(cursor) if cursor.accept("WHERE") else ()
        end_statement(cursor, "the statement", hint, "`WHERE` or `.`")
        return ast.FluentRule("initially", name, values, value, None, tests, cursor.span(first), head)
    cursor.expect("<-", "`<-`", hint)
    body = pattern(cursor)
    end_statement(cursor, "the rule", hint, "an operator or `.`")
    return ast.FluentRule(first.text.lower(), name, values, value, body, (), cursor.span(first), head)


def begins_deadline(cursor: Cursor) -> bool:
    """Return True if the rest of a deadline follows: ENDS or BECOMES, with or without `= value` before it."""
    ahead = 0
    if cursor.token.key == "=":
        while cursor.peek(ahead).key not in ("ENDS", "BECOMES", ".", "<-", ":-") and cursor.peek(ahead).kind != "end":
            ahead += 1
    return cursor.peek(ahead).key in ("ENDS", "BECOMES")


def deadline(cursor: Cursor, name: Token, values: tuple[Expression, ...]) -> ast.DeadlineStatement:
    """Read a deadline after `name(values)`: `[= value] ENDS AFTER 5 min [RENEWED].`"""
    value = expression(cursor) if cursor.accept("=") else None
    becomes = None
    if cursor.accept("BECOMES"):
        becomes = expression(cursor)
    else:
        cursor.expect("ENDS", "`ENDS` or `BECOMES`", DEADLINE)
    cursor.expect("AFTER", "`AFTER`", DEADLINE)
    ticks = duration(cursor)
    renewed = cursor.accept("RENEWED")
    end_statement(cursor, "the statement", DEADLINE, "`RENEWED` or `.`")
    return ast.DeadlineStatement(name.text, values, value, becomes, ticks, renewed, cursor.span(name))
