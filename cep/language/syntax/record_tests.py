"""Parser of WHEN in declarations. Its tests select the records of an event."""

from __future__ import annotations

from collections.abc import Sequence

from cep.core.literals import read_number, read_string
from cep.core.schema import RecordTest, When
from cep.language.syntax import ast
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.record_clauses import column
from cep.language.syntax.terms import COMPARISONS
from cep.language.syntax.tokens import Token

WHEN = '`WHEN kind = "deploy"`, `WHEN deploy EXISTS`, `WHEN level in ["error", "fatal"]`'
LARGEST_NUMBER = 2**53
"""The largest number in a comparison. Comparisons use floats, which represent every integer up to this number."""
_NULLS = ("null", "none", "nil", "NULL", "None")
_BOOLEANS = {"true": True, "false": False}
_TEXTS, _NUMBERS = ("string", "iri"), ("int", "float")


def record_tests(cursor: Cursor, attributes: Sequence[ast.AttributeTree], sources: list[tuple[str, Token]]) -> When:
    """Read the tests after WHEN: `kind = "deploy", level > 3 or deploy EXISTS`. Append the columns and paths that the
    tests name to `sources`."""
    alternatives = [_together(cursor, attributes, sources)]
    while cursor.accept("OR"):
        alternatives.append(_together(cursor, attributes, sources))
    return tuple(alternatives)


def _together(
    cursor: Cursor, attributes: Sequence[ast.AttributeTree], sources: list[tuple[str, Token]]
) -> tuple[RecordTest, ...]:
    tests = [_test(cursor, attributes, sources)]
    while cursor.accept(",") or cursor.accept("AND"):
        tests.append(_test(cursor, attributes, sources))
    return tuple(tests)


def _test(cursor: Cursor, attributes: Sequence[ast.AttributeTree], sources: list[tuple[str, Token]]) -> RecordTest:
    first = cursor.token
    if first.kind not in ("name", "variable", "string"):
        cursor.fail("a column or a path", f"WHEN tests values of the record: {WHEN}")
    source = column(cursor)
    sources.append((source, first))
    if cursor.token.key == "NOT" and cursor.peek().key == "EXISTS":
        cursor.advance()
        cursor.advance()
        return RecordTest(source, "not exists")
    if cursor.accept("EXISTS"):
        return RecordTest(source, "exists")
    denied = cursor.token.key == "NOT" and cursor.peek().key == "IN"
    if denied:
        cursor.advance()
    values: list[int | float | str | bool] = []
    if cursor.token.key == "IN":
        operator = "not in" if denied else "in"
        cursor.advance()
        opening = cursor.expect("[", "`[`", f"values in brackets: {WHEN}")
        values.append(_value(cursor, source))
        while cursor.accept(","):
            values.append(_value(cursor, source))
        cursor.close(opening, "]", "`,` or `]`", WHEN)
    elif cursor.token.key in COMPARISONS:
        operator = COMPARISONS[cursor.advance().key]
        token = cursor.token
        values.append(_value(cursor, source))
        if operator[0] in "<>" and (isinstance(values[0], str | bool)):
            cursor.stop(f"`{operator}` compares only numbers", "for texts, use `=`, `!=` or `in`", token.span)
    else:
        cursor.fail("`EXISTS`, `in` or a comparison", WHEN)
    _check_type(cursor, source, values, attributes, first)
    return RecordTest(source, operator, tuple(values))


def _value(cursor: Cursor, source: str) -> int | float | str | bool:
    token = cursor.token
    negative = cursor.accept("-")
    if cursor.token.kind == "number":
        number = cursor.read(read_number, cursor.token, cursor.token.text)
        cursor.advance()
        if abs(number) > LARGEST_NUMBER:
            hint = f"use a smaller number: above {LARGEST_NUMBER}, floats cannot tell numbers apart"
            cursor.stop("a number of more than 53 bits", hint, cursor.span(token))
        return -number if negative else number
    if token.text in _NULLS:
        cursor.stop("a missing value never equals anything", f"use `{source} NOT EXISTS`", token.span)
    if token.kind == "string" and not negative:
        cursor.advance()
        return cursor.read(read_string, token, token.text)
    if token.kind == "name" and not negative:
        cursor.advance()
        return _BOOLEANS.get(token.text, token.text)
    cursor.fail("a number, a string, `true` or `false`", WHEN)


def _check_type(
    cursor: Cursor,
    source: str,
    values: Sequence[int | float | str | bool],
    attributes: Sequence[ast.AttributeTree],
    first: Token,
) -> None:
    """Refuse a comparison that no value of the column's declared type can pass."""
    for attribute in attributes:
        if (attribute.source or attribute.name) != source:
            continue
        wrong = [
            value
            for value in values
            if (isinstance(value, str) and attribute.type in (*_NUMBERS, "bool"))
            or (not isinstance(value, str) and attribute.type in _TEXTS)
            or (isinstance(value, bool) and attribute.type in _NUMBERS)
        ]
        if wrong:
            kind = "a boolean" if isinstance(wrong[0], bool) else "a text" if isinstance(wrong[0], str) else "a number"
            hint = (
                f"change the declared type, or compare with a value of that type: `{attribute.name}: {attribute.type}`"
            )
            cursor.stop(f"`{source}` is {attribute.type}, but is compared with {kind}", hint, cursor.span(first))
