"""Parser of PARAM statements.

Parameters are collected before any other statement is read. A cursor then replaces their names by their values. A
parameter may therefore replace any constant of its type.
"""

from __future__ import annotations

from cep.core.errors import CepError, Source
from cep.language.syntax.conditions import test
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.declarations import end_statement, prefix
from cep.language.syntax.recovery import Recovery
from cep.language.syntax.terms import constant
from cep.rules.keywords import RESERVED
from cep.rules.parameters import NUMERIC, RANGED, Parameter, Parameters
from cep.rules.terms import Constant

EXAMPLE = "e.g. `PARAM Hot = 7.0 IN 5..12.`"
_VALUES = ("number", "duration", "string", "iri", "prefixed", "time")


def begins_parameter(cursor: Cursor) -> bool:
    """Return True if a PARAM statement follows. `param` may also be the name of an event."""
    after = cursor.peek()
    return cursor.token.key == "PARAM" and (after.kind in ("variable", "name", "string") or after.key == "=")


def collect(source: Source, parameters: Parameters, recovery: Recovery | None = None) -> None:
    """Add the parameters that a text declares to `parameters`.

    Raises CepError with the first mistake, unless `recovery` collects the mistakes.
    """
    if "param" not in source.text.lower():
        return
    cursor = Cursor(source, test)
    while cursor.token.kind != "end":
        if cursor.token.key == "PREFIX" and cursor.peek().key not in ("(", "<-", ":-", "."):
            try:
                prefix(cursor)
            except CepError:  # reported when the statement is read
                continue
        elif begins_parameter(cursor) and (cursor.peek(2).key == "=" or _begins_statement(cursor)):
            first, name = cursor.token, cursor.peek()
            try:
                parameters.declare(_parameter(cursor))
            except CepError as error:
                if recovery is None:
                    raise
                recovery.refuse_constant(error, first, name, name.text in parameters.by_name)
        else:
            cursor.advance()
    parameters.prefixes |= cursor.prefixes


def _begins_statement(cursor: Cursor) -> bool:
    return cursor.previous is cursor.token or cursor.previous.key == "." or cursor.previous.kind == "iri"


def _parameter(cursor: Cursor) -> Parameter:
    first = cursor.advance()
    name = cursor.token
    if name.kind != "variable" or name.key in RESERVED or name.text[0] == "_":
        if name.kind == "name":
            upper = f"{name.text[0].upper()}{name.text[1:]}"
            cursor.fail("the name of a parameter", f"a parameter begins with a capital letter: `PARAM {upper} = 7.`")
        cursor.fail("the name of a parameter", EXAMPLE)
    cursor.advance()
    cursor.expect("=", "`=` and a value", EXAMPLE)
    default = _value(cursor)
    low, high, choices, step = None, None, None, None
    if cursor.accept("IN"):
        if cursor.accept("["):
            choices = _choices(cursor, default)
        else:
            low, high = _range(cursor, default)
    if cursor.token.key == "STEP":
        step = _step(cursor, default, low is not None or high is not None)
    span = cursor.span(first)
    end_statement(cursor, "the parameter", EXAMPLE)
    parameter = Parameter(name.text, default, default, low, high, choices, step, cursor.source, span)
    if not parameter.allows(default.value):
        hint = f"it is {parameter.written(default.value)}, and may be {parameter.domain}"
        cursor.stop("the default is out of range", hint, default.span)
    return parameter


def _value(cursor: Cursor, like: Constant | None = None) -> Constant:
    """Read a constant. `like`: a constant that has the required type. For a float, an int is permitted, too."""
    first = cursor.token
    negative = cursor.accept("-")
    token = cursor.token
    if token.kind == "name" and token.text in ("true", "false") and not negative:
        cursor.advance()
        value = Constant(token.text == "true", "bool", token.span)
    elif token.kind in (("number",) if negative else _VALUES):
        value = constant(cursor)
    elif token.kind == "name" and not token.key and not negative:
        cursor.fail("a constant", f'as a string it is written `"{token.text}"`')
    else:
        cursor.fail("a constant", EXAMPLE)
    if negative:
        if value.type == "duration":
            cursor.stop("a duration cannot be negative", EXAMPLE, cursor.span(first))
        assert isinstance(value.value, int | float), "a number was written"
        value = Constant(-value.value, value.type, cursor.span(first))
    if like is None or value.type == like.type:
        return value
    if like.type == "float" and value.type == "int":
        return Constant(float(value.value), "float", value.span)
    article = "an" if like.type in ("int", "iri") else "a"
    hint = f"the values must have the type of the default: {like.type}"
    if like.type == "duration":
        hint = "a duration has a unit: `5 min`"
    if like.type == "int" and value.type == "float":
        hint += "; for a float, write the default with decimals: `7.0`"
    cursor.stop(f"the default is {article} {like.type}, but this value is not", hint, cursor.span(first))


def _choices(cursor: Cursor, default: Constant) -> tuple[int | float | str | bool, ...]:
    opening = cursor.previous
    choices = [_value(cursor, default).value]
    while cursor.accept(","):
        choices.append(_value(cursor, default).value)
    cursor.close(opening, "]", "`,` or `]`", "a list of values is written `[5, 7, 9]`")
    return tuple(choices)


def _range(cursor: Cursor, default: Constant) -> tuple[int | float | None, int | float | None]:
    first = cursor.token
    if default.type not in RANGED:
        hint = '`IN ["a", "b"]` lists its values' if default.type == "string" else "`IN [..]` lists its values"
        cursor.stop(f"a parameter of type {default.type} cannot have a range", hint)
    ends: list[int | float | None] = []
    for mark in ("..", None):
        if cursor.token.key in ("..", ".", "STEP"):
            ends.append(None)
        else:
            value = _value(cursor, default).value
            assert isinstance(value, int | float), "types with a range are numbers"
            ends.append(value)
        if mark is not None:
            cursor.expect(mark, "`..`", "a range is written `5..12`, a list `[5, 7, 9]`")
    low, high = ends
    if low is None and high is None:
        cursor.stop("the range has no end", "e.g. `IN 5..12`, `IN 5..`", cursor.span(first))
    if low is not None and high is not None and low > high:
        cursor.stop("no value is in this range", "put the smaller value first: `IN 5..12`", cursor.span(first))
    return low, high


def _step(cursor: Cursor, default: Constant, ranged: bool) -> int | float:
    first = cursor.advance()
    if default.type not in NUMERIC:
        cursor.stop(
            f"a parameter of type {default.type} cannot have a step", "only numbers and durations have one", first.span
        )
    if not ranged:
        cursor.stop("a step needs a range", "e.g. `IN 5..12 STEP 0.5`", first.span)
    value = _value(cursor, default).value
    assert isinstance(value, int | float), "types with a step are numbers"
    if value <= 0:
        cursor.stop("a step must be larger than 0", "e.g. `IN 5..12 STEP 0.5`", cursor.span(first))
    return value


def skip(cursor: Cursor) -> None:
    """Skip a PARAM statement, because `collect` has already read it."""
    while cursor.token.kind != "end" and not cursor.accept("."):
        cursor.advance()
