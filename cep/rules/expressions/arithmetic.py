"""Types of arithmetic: the result type of an operator, and the conversion of operands to a common type."""

from __future__ import annotations

from cep.rules.expressions.typed import (
    NUMBERS,
    Typed,
    TypedCall,
    TypedConstant,
    coerced,
    common_type,
    to_float,
    typed_seconds,
)


def of_numbers(function: str, left: Typed, right: Typed) -> TypedCall:
    if function == "/":
        return TypedCall("/", (to_float(left), to_float(right)), "float")
    if function == "**":
        whole = isinstance(right, TypedConstant) and isinstance(right.value, int) and right.value >= 0
        if whole and left.type in ("int", "any"):
            return TypedCall("**", (left, right), left.type)
        return TypedCall("**", (to_float(left), to_float(right)), "float")
    common = common_type(left.type, right.type)
    assert common is not None, "numbers have a common type"
    sides = (coerced(left, common), coerced(right, common))
    assert sides[0] is not None and sides[1] is not None, "numbers have a common type"
    return TypedCall(function, (sides[0], sides[1]), common)


_TICK_RULES = {  # (operator, left type, right type): the type of the result
    ("+", "time", "duration"): "time", ("+", "duration", "time"): "time", ("+", "duration", "duration"): "duration",
    ("-", "time", "time"): "duration", ("-", "time", "duration"): "time", ("-", "duration", "duration"): "duration",
    ("/", "duration", "duration"): "float", ("//", "duration", "duration"): "int",
    ("mod", "duration", "duration"): "duration", ("mod", "time", "duration"): "duration",
}  # fmt: skip


def of_ticks(function: str, left: Typed, right: Typed) -> TypedCall | None:
    if function == "*" and "duration" in (left.type, right.type):
        ticks, number = (left, right) if left.type == "duration" else (right, left)
        if number.type in NUMBERS:
            return TypedCall("*", (ticks, to_float(number) if number.type == "any" else number), "duration")
        return None
    if left.type in NUMBERS and function in ("+", "-"):
        left = typed_seconds(left, "time" if function == "-" and right.type == "time" else "duration")
    elif left.type == "duration" and right.type in NUMBERS and function == "/":
        return TypedCall("/", (left, to_float(right)), "duration")
    elif right.type in NUMBERS and function in ("+", "-", "mod"):
        right = typed_seconds(right, "duration")
    result = _TICK_RULES.get((function, left.type, right.type))
    return None if result is None else TypedCall(function, (left, right), result)


def operator_hint(function: str, left: str, right: str) -> str | None:
    if left == right == "time":
        return "`-` gives the duration between two times"
    if function == "//" and left == "duration":
        return "`/` gives a part of a duration"
    if "string" in (left, right):
        return "`float(...)` gives the number that is written in a text"
    return None
