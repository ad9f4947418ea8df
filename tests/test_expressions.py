"""Expressions: types are checked when they are read, and constants are folded."""

from __future__ import annotations

import math

import pytest

from cep.core.errors import CepError
from cep.rules.expressions.checking import (
    TypedCall,
    TypedConstant,
    TypedVariable,
)
from tests.conditions_read import read, read_comparison, table

CONSTANTS = r"""
1 + 2 * 3                                   | int      | 7
7 / 2                                       | float    | 3.5
-7 // 2                                     | int      | -4
-7 mod 2                                    | int      | 1
7.5 // 2                                    | float    | 3.0
-7.5 mod 2                                  | float    | 0.5
2 ** 10                                     | int      | 1024
2 ** -1                                     | float    | 0.5
2.0 ** 2                                    | float    | 4.0
abs(-3)                                     | int      | 3
abs(-3.5)                                   | float    | 3.5
min(3, 1, 2)                                | int      | 1
max(1, 2.5)                                 | float    | 2.5
round(2.5)                                  | int      | 2
round(3.5)                                  | int      | 4
round(2.675, 2)                             | float    | 2.67
round(1.115, 2)                             | float    | round(1.115, 2)
round(1250, -2)                             | int      | 1200
round(1350, -2)                             | int      | 1400
floor(-2.5)                                 | int      | -3
ceil(-2.5)                                  | int      | -2
sqrt(16)                                    | float    | 4.0
log(8, 2)                                   | float    | 3.0
log10(1000)                                 | float    | 3.0
log2(8)                                     | float    | 3.0
exp(0)                                      | float    | 1.0
pi()                                        | float    | math.pi
atan2(1, 1)                                 | float    | math.pi / 4
sign(-2.5)                                  | int      | -1
degrees(pi())                               | float    | 180.0
lower("ÀB")                                 | string   | "àb"
upper("straße")                             | string   | "STRASSE"
concat("a", "b", "c")                       | string   | "abc"
length("naïve")                             | int      | 5
contains("snowy", "now")                    | bool     | True
starts_with("KJFK", "K")                    | bool     | True
ends_with("KJFK", "J")                      | bool     | False
matches("KJFK", "^K[A-Z]+$")                | bool     | True
trim("  a ")                                | string   | "a"
substring("metre", 2, 3)                    | string   | "etr"
substring("metre", 4)                       | string   | "re"
replace("a-b-c", "-", "+")                  | string   | "a+b+c"
int("12")                                   | int      | 12
int(-2.9)                                   | int      | -2
float("1e3")                                | float    | 1000.0
string(1.5)                                 | string   | "1.5"
string(true)                                | string   | "true"
string(90 s)                                | string   | "90 s"
string(1500 ms)                             | string   | "1.5 s"
float(1500 ms)                              | float    | 1.5
string(1970-01-01T00:00:01Z)                | string   | "1970-01-01T00:00:01Z"
int(true)                                   | int      | 1
3 h + 30 min                                | duration | 12_600_000_000
1 h / 30 min                                | float    | 2.0
1 h // 25 min                               | int      | 2
1 h mod 25 min                              | duration | 600_000_000
1 h * 1.5                                   | duration | 5_400_000_000
2 * 1 s                                     | duration | 2_000_000
1 h / 7                                     | duration | 514_285_714
1 h + 0.5                                   | duration | 3_600_500_000
-(1 s)                                      | duration | -1_000_000
1970-01-01T00:00:10Z - 1970-01-01T00:00:04Z | duration | 6_000_000
max(1 s, 2)                                 | duration | 2_000_000
1970-01-01T00:00:10Z - 4                    | time     | 6_000_000
1970-01-02T00:00:10Z mod 1 d                | duration | 10_000_000
"""


@pytest.mark.parametrize(("text", "type", "expected"), table(CONSTANTS))
def test_constants_are_folded(text: str, type: str, expected: str) -> None:
    typed, wanted = read(text), eval(expected, {"math": math})
    assert isinstance(typed, TypedConstant)
    assert (typed.type, typed.value) == (type, pytest.approx(wanted, rel=1e-15) if type == "float" else wanted)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("lower(F)", "`lower` takes a string, not the float `F`", "`string(F)`"),
        ("S + 1", "`+` does not work on the string `S` and the int `1`", "`float(...)`"),
        ("S + S", "`+` does not work on the string `S` and the string `S`", "`concat(a, b)`"),
        ("T + T", "`+` does not work on the time `T` and the time `T`", "`-` gives the duration"),
        ("sqrt(S)", "`sqrt` takes a number, not the string `S`", "`float(S)`"),
        ("sqrt(D)", "`sqrt` takes a number, not the duration `D`", "`float(D)`"),
        ("B + 1", "`+` does not work on the bool `B` and the int `1`", None),
        ("squirt(F)", "unknown function `squirt`", "did you mean `sqrt`?"),
        ("xyzzy(F)", "unknown function `xyzzy`", "there are abs "),
        ("sqrt(F, G)", "`sqrt` takes 1 argument, not 2", "square root"),
        ("min(F)", "`min` takes 2 or more arguments, not 1", None),
        ("min(F, S)", "`min` does not work on the string `S` beside a float", None),
        ("log(F, G, F)", "`log` takes 1 or 2 arguments, not 3", None),
        ("substring(S, F)", "`substring` takes an int, not the float `F`", "`int(F)` or `round(F)`"),
        ('matches(S, "(a")', "this is not a regular expression: unclosed group", "look-around"),
        ("-S", "`-` takes a number, not the string `S`", None),
        ("Y + 1", "`Y` is not bound", "`Y = ...`"),
    ],
)
def test_wrong_types_are_refused(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(CepError) as caught:
        read(text)
    assert caught.value.message == message
    assert caught.value.code == ("unsafe" if "bound" in message else "type")
    assert caught.value.span is not None and caught.value.source is not None
    assert (hint or "") in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S = 1", "`=` cannot compare the string `S` and the int `1`"),
        ("R = S", "`=` cannot compare the iri `R` and the string `S`"),
        ("R < <http://a>", "IRIs have no order"),
        ("B < true", "true and false have no order"),
        ("T < D", "`<` cannot compare the time `T` and the duration `D`"),
        ("B = 1", "`=` cannot compare the bool `B` and the int `1`"),
    ],
)
def test_kinds_do_not_mix(text: str, message: str) -> None:
    with pytest.raises(CepError) as caught:
        read_comparison(text)
    assert caught.value.message == message


def test_the_interval_of_a_pattern_stands_in_its_where() -> None:
    with pytest.raises(CepError) as caught:
        read("start() + 1", {"F": "float"})
    assert caught.value.code == "unsafe"
    assert (
        caught.value.message == "`start()` can be used only in a WHERE, where it is about the interval of the pattern"
    )


def test_coercions_are_calls() -> None:
    assert read("I + F") == TypedCall(
        "+", (TypedCall("to_float", (TypedVariable("I", "int"),), "float"), TypedVariable("F", "float")), "float"
    )
    assert read_comparison("F >= 15").arguments[1] == TypedConstant(15.0, "float")
    assert read_comparison("I >= 15.0").arguments[1] == TypedConstant(15, "int")
    assert read_comparison("duration() < 0.0000015").arguments[1] == TypedConstant(2, "duration")
    assert read_comparison("A = I").arguments[1] == TypedCall("to_any", (TypedVariable("I", "int"),), "any")
