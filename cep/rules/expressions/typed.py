"""Typed expressions. Every variable is a column of one type, and every coercion is a call."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from cep.events import Iri

NUMBERS = ("int", "float", "any")
TICKS = ("time", "duration")
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""For each comparison operator, the operator that means the same after its sides are exchanged."""

Literal = int | float | str | bool | Iri


@dataclass(frozen=True, slots=True)
class TypedVariable:
    """A variable. Its values are a column. `start()`, `end()` and `duration()` are also variables, with these names."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class TypedConstant:
    """A constant. `value`: a float if the type is float, and whole microseconds if the type is time or duration."""

    value: Literal
    type: str


@dataclass(frozen=True, slots=True)
class TypedCall:
    """A call of a function. Its arguments have exactly the types that the function takes.

    Comparisons and `or and not` are functions that return bool. The following functions convert values. Programs cannot
    call them:

    - `to_float` from int or any, and `to_any`
    - `seconds` from a number to a time or duration
    - `as_string as_iri as_bool as_int` from any, where values of another type become missing
    - `exact_int` from float, where values that are not whole become missing
    - `exact_float` from int or any, where values that no float equals become missing
    """

    function: str
    arguments: tuple[Typed, ...]
    type: str


Typed = TypedVariable | TypedConstant | TypedCall


def a(type: str) -> str:
    """Return the name of a type with its article, such as `an int`, for messages."""
    if type == "any":
        return "a value of unknown type"
    return f"an {type}" if type[0] in "aeiou" else f"a {type}"


def common_type(left: str, right: str) -> str | None:
    """Return the type to which values of two types are converted before they are compared. Return None if they cannot
    be compared."""
    if left == right:
        return left
    types = {left, right}
    if types == {"int", "float"}:
        return "float"
    ticks = types & set(TICKS)
    if ticks:
        return ticks.pop() if len(ticks) == 1 and types & set(NUMBERS) else None
    return "any" if "any" in types else None


def grown(old: str | None, new: str) -> str:
    """Return the type of a column that contains values of both types. Int and float give float, other mixtures any."""
    if old is None or old == new:
        return new
    return "float" if {old, new} == {"int", "float"} else "any"


def coerced(typed: Typed, type: str) -> Typed | None:
    """Convert an expression to a type. Return None if that is impossible."""
    if typed.type == type:
        return typed
    if type == "any":
        return to_any(typed)
    if type == "float" and typed.type in ("int", "any"):
        return to_float(typed)
    if type in TICKS and typed.type in NUMBERS:
        return typed_seconds(typed, type)
    if type == "int" and isinstance(typed, TypedConstant) and typed.type == "float" and float(typed.value).is_integer():
        return TypedConstant(int(typed.value), "int") if abs(int(typed.value)) < 2**63 else None
    return None


def to_float(typed: Typed) -> Typed:
    """Convert a number to float. A constant int that no float equals is converted only when the program runs."""
    if typed.type == "float":
        return typed
    if isinstance(typed, TypedConstant) and not isinstance(typed.value, str | bool):
        number = float(typed.value)
        if number == typed.value:
            return TypedConstant(number, "float")
    return TypedCall("to_float", (typed,), "float")


def to_any(typed: Typed) -> Typed:
    """Convert a value to type any. Times and durations become numbers of seconds."""
    if typed.type == "any":
        return typed
    if isinstance(typed, TypedConstant):
        if typed.type in TICKS:
            whole, rest = divmod(int(typed.value), 1_000_000)
            return TypedConstant(int(typed.value) / 1e6 if rest else whole, "any")
        return TypedConstant(typed.value, "any")
    return TypedCall("to_any", (typed,), "any")


def typed_seconds(typed: Typed, type: str) -> Typed:
    """Convert seconds to a time or duration. For a constant, the seconds are multiplied without rounding error, and the
    product is rounded half to even to whole microseconds."""
    if isinstance(typed, TypedConstant) and not isinstance(typed.value, str | bool):
        ticks = round(Fraction(repr(typed.value)) * 1_000_000)
        if abs(ticks) < 2**63:
            return TypedConstant(ticks, type)
    return TypedCall("seconds", (typed,), type)


def fitted(typed: Typed, type: str) -> Typed | None:
    """Convert an expression to the type of a column with which it is joined. Return None if that is impossible.

    Where no value of the column's type equals the expression's value, the result is missing.
    """
    if typed.type == "any" and type in ("string", "iri", "bool", "int"):
        return TypedCall(f"as_{type}", (typed,), type)
    if typed.type == "float" and type == "int":
        return coerced(typed, type) or TypedCall("exact_int", (typed,), "int")
    fit = coerced(typed, type)
    if type == "float" and isinstance(fit, TypedCall) and fit.function == "to_float" and fit != typed:
        return TypedCall("exact_float", fit.arguments, "float")
    return fit
