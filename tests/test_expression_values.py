"""Expressions: columns give what single values give, and what Python gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.values import MISSING, Pool
from cep.events import Iri
from cep.rules.expressions.checking import (
    compile_expression,
    compile_test,
)
from tests.conditions_read import TYPES, read, read_comparison, table
from tests.long import examples


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
