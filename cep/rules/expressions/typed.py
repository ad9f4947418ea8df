"""Typed expressions: every variable a column of one type, every coercion a call."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from cep.events import Iri

NUMBERS = ("int", "float", "any")
TICKS = ("time", "duration")
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Each as it is with its sides the other way round."""

Literal = int | float | str | bool | Iri


@dataclass(frozen=True, slots=True)
class TypedVariable:
    """A column. `start()`, `end()` and `duration()` are variables of these names."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class TypedConstant:
    """A value in the representation of its type: a float for float, microseconds for time and duration."""

    value: Literal
    type: str


@dataclass(frozen=True, slots=True)
class TypedCall:
    """A function whose arguments have exactly the types it takes.

    Besides those an author may write: `to_float` (int or any), `to_any`, `seconds` (a number as a time or duration),
    `as_string as_iri as_bool as_int` (any; missing where it is something else), `exact_int` (float; missing where it
    is not whole), `exact_float` (int or any; missing where no float equals it), the comparisons, which give bool, and
    `or and not` of what is bool.
    """

    function: str
    arguments: tuple[Typed, ...]
    type: str


Typed = TypedVariable | TypedConstant | TypedCall


def a(type: str) -> str:
    """A type in a sentence."""
    if type == "any":
        return "a value of unknown type"
    return f"an {type}" if type[0] in "aeiou" else f"a {type}"


def common_type(left: str, right: str) -> str | None:
    """The type in which two are compared; None where they do not mix."""
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
    """The type of a column that holds both: int and float are float, any other mixture is any."""
    if old is None or old == new:
        return new
    return "float" if {old, new} == {"int", "float"} else "any"


def coerced(typed: Typed, type: str) -> Typed | None:
    """`typed` as a value of `type`; None where the types do not mix."""
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
    """A number as a float; not folded where an integer has none."""
    if typed.type == "float":
        return typed
    if isinstance(typed, TypedConstant) and not isinstance(typed.value, str | bool):
        number = float(typed.value)
        if number == typed.value:
            return TypedConstant(number, "float")
    return TypedCall("to_float", (typed,), "float")


def to_any(typed: Typed) -> Typed:
    """A value as one of unknown kind: times and durations are numbers of seconds."""
    if typed.type == "any":
        return typed
    if isinstance(typed, TypedConstant):
        if typed.type in TICKS:
            whole, rest = divmod(int(typed.value), 1_000_000)
            return TypedConstant(int(typed.value) / 1e6 if rest else whole, "any")
        return TypedConstant(typed.value, "any")
    return TypedCall("to_any", (typed,), "any")


def typed_seconds(typed: Typed, type: str) -> Typed:
    """A number of seconds as a time or duration; a constant exactly, half to even."""
    if isinstance(typed, TypedConstant) and not isinstance(typed.value, str | bool):
        ticks = round(Fraction(repr(typed.value)) * 1_000_000)
        if abs(ticks) < 2**63:
            return TypedConstant(ticks, type)
    return TypedCall("seconds", (typed,), type)


def fitted(typed: Typed, type: str) -> Typed | None:
    """`typed` as the value of type `type` that equals it, missing where there is none; None where the types do not mix.

    For joining with a column of that type.
    """
    if typed.type == "any" and type in ("string", "iri", "bool", "int"):
        return TypedCall(f"as_{type}", (typed,), type)
    if typed.type == "float" and type == "int":
        return coerced(typed, type) or TypedCall("exact_int", (typed,), "int")
    fit = coerced(typed, type)
    if type == "float" and isinstance(fit, TypedCall) and fit.function == "to_float" and fit != typed:
        return TypedCall("exact_float", fit.arguments, "float")
    return fit
