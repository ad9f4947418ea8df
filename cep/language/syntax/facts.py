"""Parser of declarations of facts, such as `fact opening(shop: string, from: time, until: time).`"""

from __future__ import annotations

from cep.events import type_names
from cep.language.syntax import messages
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.declarations import end_statement
from cep.language.syntax.record_clauses import CLAUSES, Clauses
from cep.rules.keywords import RESERVED
from cep.rules.static.typed_facts import FactAttribute, FactDeclaration

_TABLES = (
    'for other separators, add `FORMAT csv(separator: ";", decimal: ",")` after the declaration; '
    'for other forms of times, add a format after the attribute: `from: time FORMAT "%d.%m.%Y"`; '
    "a missing value is an empty field or `NA`"
)
_NO_CLAUSE = {
    "MISSING": "a missing value of a table of facts is an empty field or `NA`",
    "FROM": "the columns have the names of the attributes, in upper or lower case",
    "IN": "facts have no ranges: a condition says which of them count",
}


def begins_facts(cursor: Cursor) -> bool:
    """Return True if a declaration of facts follows: the word `fact` and the name of a predicate."""
    after = cursor.peek()
    return cursor.token.text.upper() == "FACT" and after.kind == "name" and after.key not in RESERVED


def fact_declaration(cursor: Cursor) -> FactDeclaration:
    first = cursor.advance()
    name = cursor.name("the name of a predicate", messages.FACTS)
    opening = cursor.expect("(", "`(`", messages.FACTS)
    attributes = [_attribute(cursor)]
    while cursor.accept(","):
        attributes.append(_attribute(cursor))
        last = attributes[-1]
        if any(attribute.name == last.name for attribute in attributes[:-1]):
            cursor.stop(f"`{last.name}` is declared twice", "each attribute has its own name", last.span)
    cursor.close(opening, ")", "`,` or `)`", messages.FACTS)
    clauses = Clauses()
    while cursor.token.key in CLAUSES:
        if cursor.token.key != "FORMAT" or cursor.peek().text != "csv":
            cursor.fail("`.`", _TABLES)
        clauses.read(cursor)
    end_statement(cursor, "the declaration", messages.FACTS)
    return FactDeclaration(name.text, tuple(attributes), cursor.span(first), clauses.records)


def _attribute(cursor: Cursor) -> FactAttribute:
    if cursor.token.kind == "prefixed":  # `from:time`
        cursor.split()
    first = cursor.token
    if first.kind != "name":
        cursor.fail("the name of an attribute", messages.FACTS)
    cursor.advance()
    cursor.expect(":", "`:` and a type", messages.FACTS)
    token = cursor.token
    all_of_them = "the types are " + ", ".join(f"`{name}`" for name in type_names)
    if token.kind not in ("name", "variable"):
        cursor.fail("a type", all_of_them)
    if token.text not in type_names:
        hint = messages.unknown(token.text, type_names, all_of_them, messages.FOREIGN_TYPES)
        cursor.stop(f"unknown type `{token.text}`", hint)
    cursor.advance()
    optional = cursor.accept("?")
    clauses = Clauses(token.text, facts=True)
    while cursor.token.key in (*CLAUSES, *_NO_CLAUSE):
        if cursor.token.key in _NO_CLAUSE:
            cursor.fail("`,` or `)`", _NO_CLAUSE[cursor.token.key])
        clauses.read(cursor)
    return FactAttribute(first.text, token.text, optional, cursor.span(first), clauses.times(cursor))
