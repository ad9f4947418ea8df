"""Expressions: types are checked when they are read; columns give what single values give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError, Source
from cep.core.values import MISSING, Pool
from cep.events import Iri
from cep.language.syntax.parser import parse
from cep.rules.expressions.checking import (
    Typed,
    TypedCall,
    TypedConstant,
    TypedVariable,
    check,
    check_comparison,
    compile_expression,
    compile_test,
)
from cep.rules.terms import Comparison, Condition, StaticRule
from tests.long import examples

TYPES = {
    "I": "int", "J": "int", "F": "float", "G": "float", "S": "string", "T": "time", "D": "duration", "B": "bool",
    "R": "iri", "A": "any", "C": "any", "start()": "time", "end()": "time", "duration()": "duration",
}  # fmt: skip


def condition(text: str) -> tuple[Condition, Source]:
    program = parse(f"p(0) :- {text}.")
    (rule,) = program.statements
    assert isinstance(rule, StaticRule)
    (one,) = rule.conditions
    return one, program.source


def read(text: str, types: dict[str, str] = TYPES) -> Typed:
    comparison, source = condition(f"X = {text}")
    assert isinstance(comparison, Comparison)
    return check(comparison.right, types, source)


def read_comparison(text: str, types: dict[str, str] = TYPES) -> TypedCall:
    comparison, source = condition(text)
    assert isinstance(comparison, Comparison)
    return check_comparison(comparison, types, source)


def column(values: list[Any], type: str, pool: Pool) -> np.ndarray[Any, Any]:
    if type == "float":
        return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    if type in ("string", "iri", "any"):
        return pool.encode_values(values)
    return np.array([MISSING if value is None else int(value) for value in values], dtype=np.int64)


def plain(result: np.ndarray[Any, Any], type: str, pool: Pool) -> list[Any]:
    if type == "float":
        assert not np.isinf(result).any()
        return [None if math.isnan(value) else value for value in result.tolist()]
    if type in ("string", "iri", "any"):
        return pool.decode_values(result)
    values = [None if value == MISSING else value for value in result.tolist()]
    return [None if value is None else bool(value) for value in values] if type == "bool" else values


def table(text: str) -> list[tuple[str, str, str]]:
    rows = [tuple(cell.strip() for cell in line.split(" | ")) for line in text.strip().splitlines()]
    return [(first, second, third) for first, second, third in rows]


def given_by(variables: str) -> dict[str, Any]:
    """`I=1, start()=3` as a dictionary."""
    pairs = [pair.split("=", 1) for pair in variables.split(", ") if pair]
    return {name: eval(written, {"Iri": Iri}) for name, written in pairs}


def value(text: str, types: dict[str, str] = TYPES, **variables: Any) -> Any:
    """What an expression gives, for one row and for many."""
    typed, pool = read(text, types), Pool()
    results = []
    for rows in (1, 3):
        columns = {name: column([given] * rows, types[name], pool) for name, given in variables.items()}
        got = plain(compile_expression(typed, pool)(columns, rows), typed.type, pool)
        assert len(got) == rows and len({repr(one) for one in got}) == 1
        results.append(got[0])
    assert repr(results[0]) == repr(results[1])
    return results[0]


def holds(text: str, types: dict[str, str] = TYPES, **variables: Any) -> bool:
    typed, pool = read_comparison(text, types), Pool()
    columns = {name: column([given] * 2, types[name], pool) for name, given in variables.items()}
    first, second = compile_test(typed, pool)(columns, 2).tolist()
    assert first is second
    return first  # type: ignore[no-any-return]


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


VALUES = r"""
I + 1             | I=None               | None
I + 1             | I=2**63 - 1          | None
I - 1             | I=-(2**63) + 1       | None
I * J             | I=2**32, J=2**31     | None
I * J             | I=2**32, J=2**31 - 1 | 2**32 * (2**31 - 1)
I * J             | I=-(2**31), J=2**31  | -(2**62)
I / J             | I=1, J=0             | None
I // J            | I=1, J=0             | None
I mod J           | I=1, J=0             | None
I mod J           | I=-7, J=3            | 2
F / G             | F=1.0, G=0.0         | None
F * G             | F=1e200, G=1e200     | None
sqrt(F)           | F=-1.0               | None
log(F)            | F=0.0                | None
I ** 3            | I=-3                 | -27
I ** 2            | I=2**32              | None
I ** J            | I=2, J=3             | 8.0
I ** 0            | I=None               | None
F ** 0            | F=None               | None
floor(F)          | F=1e300              | None
int(F)            | F=-2.5               | -2
I + F             | I=1, F=0.5           | 1.5
min(I, J)         | I=1, J=None          | None
max(I, J)         | I=1, J=None          | None
max(F, G)         | F=1.0, G=None        | None
lower(S)          | S="AbC"              | "abc"
lower(S)          | S=None               | None
length(S)         | S=None               | None
concat(S, "-", S) | S="x"                | "x-x"
contains(S, S)    | S="x"                | True
contains(S, "y")  | S=None               | None
matches(S, S)     | S="a+"               | True
matches(S, S)     | S="("                | None
int(S)            | S="1_0"              | None
int(S)            | S=" -5 "             | -5
float(S)          | S="nan"              | None
string(R)         | R=Iri("http://a")    | "http://a"
iri(S)            | S="http://a"         | Iri("http://a")
string(I)         | I=-5                 | "-5"
string(F)         | F=0.1                | "0.1"
T + 1             | T=5                  | 1_000_005
T - start()       | T=5, start()=3       | 2
D * F             | D=10, F=0.25         | 2
D * F             | D=5, F=0.1           | 1
D * F             | D=2**62, F=0.5       | 2**61
D * F             | D=2**62, F=4.0       | None
D / F             | D=2**62, F=2.0       | 2**61
T + F             | T=0, F=1.0000015     | 1000002
int(D)            | D=-1500000           | -1
D / F             | D=10, F=0.0          | None
D / I             | D=10, I=4            | 2
T + D             | T=2**62, D=2**62     | None
T + F             | T=0, F=0.0000015     | 2
T + A             | T=1, A=2             | 2_000_001
T + A             | T=1, A="x"           | None
A + 1             | A=1                  | 2
A + 1             | A=1.5                | 2.5
A + 1             | A="x"                | None
A + 1             | A=True               | None
A + 1             | A=2**63 - 1          | None
A + C             | A=0.5, C=0.5         | 1
A / C             | A=1, C=2             | 0.5
A // C            | A=7, C=2             | 3
A mod C           | A=7, C=0             | None
A ** 2            | A=1.5                | 2.25
A ** 2            | A=3                  | 9
A ** C            | A=2, C=0.5           | 2**0.5
-A                | A=3                  | -3
abs(A)            | A=-2.5               | 2.5
min(A, 3)         | A=3.5                | 3
max(A, C)         | A="x", C=1           | None
round(A)          | A=2.5                | 2
floor(A)          | A=7                  | 7
round(A, 1)       | A=2.25               | 2.2
lower(A)          | A="X"                | "x"
lower(A)          | A=1                  | None
sqrt(A)           | A=4                  | 2.0
substring(S, A)   | S="abc", A=2         | "bc"
substring(S, A)   | S="abc", A=2.5       | None
string(A)         | A=1.0                | "1"
int(A)            | A="7"                | 7
int(A)            | A=7.5                | 7
float(A)          | A=Iri("7")           | None
D * A             | D=3, A=0.5           | 2
1 / 0             |                      | None
I + 1 // 0        | I=1                  | None
A + 1 / 0         | A=1                  | None
pi() * F          | F=2.0                | 2 * math.pi
"""


@pytest.mark.parametrize(("text", "variables", "expected"), table(VALUES))
def test_values(text: str, variables: str, expected: str) -> None:
    got, wanted = value(text, **given_by(variables)), eval(expected, {"Iri": Iri, "math": math})
    assert got == wanted
    assert (got is None) == (wanted is None)


HOLD = r"""
F >= 15                   | F=15.0                 | True
F >= 15                   | F=None                 | False
F != 15                   | F=None                 | False
F != 15                   | F=1.0                  | True
I < 3                     | I=None                 | False
I > 3                     | I=None                 | False
3 > I                     | I=None                 | False
I <= J                    | I=None, J=None         | False
I = J                     | I=None, J=None         | False
I != J                    | I=1, J=None            | False
I = 1.0                   | I=1                    | True
I > 2.5                   | I=3                    | True
I = F                     | I=2**53 + 1, F=2.0**53 | False
I > F                     | I=2**53 + 1, F=2.0**53 | True
F < I                     | I=2**53 + 1, F=2.0**53 | True
F < I                     | I=2**63 - 1, F=2.0**63 | False
I != F                    | I=1, F=None            | False
F = 9007199254740993      | F=2.0**53              | False
S = abc                   | S="abc"                | True
S != abc                  | S=None                 | False
S < b                     | S="abc"                | True
S >= "Z"                  | S="a"                  | True
S < "é"                   | S=None                 | False
"😀" > S                   | S="\uffee"             | True
B = true                  | B=True                 | True
B != true                 | B=None                 | False
R = <http://a>            | R=Iri("http://a")      | True
duration() <= 3           | duration()=3_000_000   | True
start() = 4               | start()=4_000_000      | True
T >= 1970-01-01T00:00:01Z | T=999_999              | False
D < A                     | D=1_500_000, A=1.6     | True
D < A                     | D=1, A="x"             | False
A = 1                     | A=1.0                  | True
A = 1                     | A=True                 | False
A != 1                    | A="1"                  | True
A != 1                    | A=None                 | False
A < 2                     | A=1                    | True
A < 2                     | A="1"                  | False
A >= 2                    | A="1"                  | False
A < C                     | A="a", C="b"           | True
A < C                     | A=Iri("a"), C="b"      | False
A = S                     | A="x", S="x"           | True
A = R                     | A="x", R=Iri("x")      | False
A <= C                    | A=False, C=True        | False
A + 1 = C                 | A=1, C=2.0             | True
A + 1 != C                | A=1, C="x"             | True
A = B                     | A=True, B=True         | True
A < S                     | A="a", S="b"           | True
A > I                     | A=2.5, I=2             | True
1 / 0 = 1                 |                        | False
1 / 0 != 1                |                        | False
1 < 2                     |                        | True
lower(S) = abc            | S="ABC"                | True
-0.0 = F                  | F=0.0                  | True
A = F                     | A=2, F=2.0             | True
A = I                     | A=None, I=2            | False
"""


@pytest.mark.parametrize(("text", "variables", "expected"), table(HOLD))
def test_comparisons(text: str, variables: str, expected: str) -> None:
    assert holds(text, **given_by(variables)) is eval(expected)


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
        ('matches(S, "(a")', "this is no regular expression: unclosed group", "look-around"),
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
        ("R < <http://a>", "IRIs are not less or greater"),
        ("B < true", "true and false are not less or greater"),
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
    assert caught.value.message == "`start()` stands only in a WHERE of a pattern, whose interval it is"


def test_coercions_are_calls() -> None:
    assert read("I + F") == TypedCall(
        "+", (TypedCall("to_float", (TypedVariable("I", "int"),), "float"), TypedVariable("F", "float")), "float"
    )
    assert read_comparison("F >= 15").arguments[1] == TypedConstant(15.0, "float")
    assert read_comparison("I >= 15.0").arguments[1] == TypedConstant(15, "int")
    assert read_comparison("duration() < 0.0000015").arguments[1] == TypedConstant(2, "duration")
    assert read_comparison("A = I").arguments[1] == TypedCall("to_any", (TypedVariable("I", "int"),), "any")


# --- columns against single values ------------------------------------------------------------------------------------

numbers = st.one_of(
    st.none(), st.integers(-20, 20), st.sampled_from([2**62, -(2**62), 2**53 + 1, 2**31]),
    st.sampled_from([0.5, -2.5, 1e300, 2.0**53, 3.0, -0.0]),
)  # fmt: skip


def of_python(function: str, a: Any, b: Any) -> Any:
    """One operation on values of unknown kind: whole floats are integers, None is missing."""
    if a is None or b is None:
        return None
    try:
        match function:
            case "+":
                result = a + b
            case "-":
                result = a - b
            case "*":
                result = a * b
            case "//":
                result = a // b
            case "mod":
                result = a % b
            case "min":
                result = min(a, b)
            case _:
                result = max(a, b)
    except (ZeroDivisionError, OverflowError):
        return None
    if isinstance(result, int):
        return result if abs(result) < 2**63 else None
    return canonical(result) if math.isfinite(result) else None


def canonical(value: Any) -> Any:
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**63
    return int(value) if whole else value


@examples(60)
@given(
    rows=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8),
    function=st.sampled_from(["+", "-", "*", "//", "mod", "min", "max"]),
)
def test_arithmetic_of_unknown_kinds_is_that_of_python(rows: list[tuple[Any, Any]], function: str) -> None:
    pool = Pool()
    text = f"{function}(A, C)" if function in ("min", "max") else f"A {function} C"
    columns = {"A": pool.encode_values([a for a, _ in rows]), "C": pool.encode_values([c for _, c in rows])}
    got = pool.decode_values(compile_expression(read(text), pool)(columns, len(rows)))
    assert got == [of_python(function, canonical(a), canonical(c)) for a, c in rows]


@examples(60)
@given(
    rows=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8),
    operator=st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    types=st.tuples(st.sampled_from(["int", "float", "any"]), st.sampled_from(["int", "float", "any"])),
)
def test_comparisons_are_exact_whatever_the_types(
    rows: list[tuple[Any, Any]], operator: str, types: tuple[str, str]
) -> None:
    def fitted(value: Any, type: str) -> Any:
        if value is None or (type == "int" and isinstance(value, float) and not value.is_integer()):
            return None
        if type == "int":
            return int(value) if abs(value) < 2**63 else None
        return float(value) if type == "float" else value

    pool = Pool()
    rows = [(fitted(x, types[0]), fitted(y, types[1])) for x, y in rows]
    columns = {"X": column([x for x, _ in rows], types[0], pool), "Y": column([y for _, y in rows], types[1], pool)}
    test = compile_test(read_comparison(f"X {operator} Y", {"X": types[0], "Y": types[1]}), pool)
    compare: Any = {
        "=": lambda x, y: x == y, "!=": lambda x, y: x != y, "<": lambda x, y: x < y,
        "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
    }[operator]  # fmt: skip
    expected = [x is not None and y is not None and compare(x, y) for x, y in rows]
    assert test(columns, len(rows)).tolist() == expected


@examples(40)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=10), st.integers(-3, 8))
def test_rounding_to_digits_is_that_of_python(values: list[float], digits: int) -> None:
    values += [round(value, 3) + 0.0005 for value in values]
    result = compile_expression(read(f"round(F, {digits})"), Pool())({"F": np.array(values)}, len(values))
    assert result.tolist() == [round(value, digits) + 0.0 for value in values]


def test_variables_known_to_be_there_need_no_mask() -> None:
    test = compile_test(read_comparison("I < 3"), Pool(), optional=frozenset())
    assert test({"I": np.array([1, 5], dtype=np.int64)}, 2).tolist() == [True, False]


def test_no_rows() -> None:
    pool = Pool()
    empty = {name: column([], type, pool) for name, type in TYPES.items()}
    for text in (
        "I + 1",
        "lower(S)",
        'matches(S, "a")',
        "A + 1",
        "A ** C",
        "string(F)",
        "round(F, 2)",
        "concat(S, S)",
        "1 / 0",
    ):
        assert len(compile_expression(read(text), pool)(empty, 0)) == 0
    for text in ("I < F", "S < b", "A < C", "A = I", "1 < 2"):
        assert len(compile_test(read_comparison(text), pool)(empty, 0)) == 0
