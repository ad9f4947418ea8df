"""Bytecode for conditions and for the arithmetic of heads. Kernels interpret it, so that no rule needs its own
compilation.

A program is an array of int64 rows (operation, argument) for a stack machine. A stack cell holds the bits of an int64
or a float64. A missing value is MISSING or NaN. If an operand is missing, the result is missing too. A TEST of a
missing value fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cep.core.kernels import njit
from cep.core.schema import CODED
from cep.events import Value
from cep.operators.goals.intrinsics import as_bits, as_float, bare
from cep.operators.goals.keys import MISSING
from cep.rules.expressions.checking import Typed, TypedCall, TypedConstant, TypedVariable

LEFT, RIGHT, BEGIN, FINISH, LITERAL, TEST = 0, 1, 2, 3, 4, 5
INT_OPERATIONS = {"+": 10, "-": 11, "*": 12, "//": 13, "mod": 14, "min": 15, "max": 16, "neg": 17, "abs": 18}
FLOAT_OPERATIONS = {
    "+": 30, "-": 31, "*": 32, "/": 33, "//": 34, "mod": 35, "min": 36, "max": 37, "neg": 38, "abs": 39, "sqrt": 40,
}  # fmt: skip
INT_COMPARISONS = {"=": 50, "!=": 51, "<": 52, "<=": 53, ">": 54, ">=": 55}
FLOAT_COMPARISONS = {"=": 60, "!=": 61, "<": 62, "<=": 63, ">": 64, ">=": 65}
INT_WITH_FLOAT = {"=": 80, "!=": 81, "<": 82, "<=": 83, ">": 84, ">=": 85}
FLOAT_WITH_INT = {"=": 90, "!=": 91, "<": 92, "<=": 93, ">": 94, ">=": 95}
TO_FLOAT = 70
LOGIC = {"or": 100, "and": 101}
UNARY = (TO_FLOAT, 17, 18, 38, 39, 40)
"""Operations that replace the top stack cell. TEST pops the cell that it tests. All others push one cell, or pop two
cells and push one."""
INTEGERS = ("int", "time", "duration")
CODES = ("bool", "string", "iri")

Code = NDArray[np.int64]


def compile_stack(
    typed: Sequence[Typed], places: Mapping[str, tuple[int, int]], pool_code: Callable[[Value], int], tests: bool
) -> tuple[Code, Code] | None:
    """Compile conditions or a value. Return the program and its literals, or None if the machine lacks an operation.

    - `typed`: conditions that must all hold, if `tests`; otherwise a single expression.
    - `places`: the side (LEFT or RIGHT) and the argument of each variable. `start()` and `end()` are those of the pair.
    - `pool_code`: a function that returns the pool code of a value.

    The machine has no operations on strings, no powers, and no values of unknown type.
    """
    operations: list[tuple[int, int]] = []
    literals: list[int] = []

    def emit(node: Typed) -> bool:
        if isinstance(node, TypedVariable):
            if node.name == "start()":
                operations.append((BEGIN, 0))
            elif node.name == "end()":
                operations.append((FINISH, 0))
            elif node.name == "duration()":
                operations.extend([(FINISH, 0), (BEGIN, 0), (INT_OPERATIONS["-"], 0)])
            elif node.name in places:
                operations.append(places[node.name])
            else:
                return False
            return True
        if isinstance(node, TypedConstant):
            operations.append((LITERAL, len(literals)))
            literals.append(_literal(node, pool_code))
            return True
        if node.function in LOGIC:
            for place, argument in enumerate(node.arguments):
                if not emit(argument):
                    return False
                if place:
                    operations.append((LOGIC[node.function], 0))
            return True
        arguments = _apart(node)
        kinds = [argument.type for argument in arguments]
        operation = _operation(node.function, kinds, node.type)
        if operation is None or (len(kinds) > 2):
            return False
        if not all(emit(argument) for argument in arguments):
            return False
        operations.append((operation, 0))
        return True

    for node in typed:
        if not emit(node):
            return None
        if tests:
            operations.append((TEST, 0))
    code = np.array(operations, np.int64).reshape(len(operations), 2)
    return code, np.array(literals, np.int64)


def _apart(node: TypedCall) -> tuple[Typed, ...]:
    """Return the arguments of a call.

    In a comparison of an int with a float, the int is not converted, so that it is not rounded.
    """
    if node.function not in INT_COMPARISONS:
        return node.arguments
    ints = [isinstance(argument, TypedCall) and argument.function == "to_float" for argument in node.arguments]
    if sum(ints) != 1:
        return node.arguments
    opened = [
        argument.arguments[0] if isinstance(argument, TypedCall) and is_int else argument
        for argument, is_int in zip(node.arguments, ints)
    ]
    return tuple(opened) if all(argument.type in ("int", "float") for argument in opened) else node.arguments


def _operation(function: str, kinds: Sequence[str], result: str) -> int | None:
    if function in INT_COMPARISONS:
        if all(kind in INTEGERS for kind in kinds):
            return INT_COMPARISONS[function]
        if all(kind == "float" for kind in kinds):
            return FLOAT_COMPARISONS[function]
        if set(kinds) == {"int", "float"}:
            return (INT_WITH_FLOAT if kinds[0] == "int" else FLOAT_WITH_INT)[function]
        if all(kind in CODES for kind in kinds) and kinds[0] == kinds[1] and function in ("=", "!="):
            return INT_COMPARISONS[function]
        return None
    if function == "to_float" and kinds[0] in INTEGERS:
        return TO_FLOAT
    if result in INTEGERS and all(kind in INTEGERS for kind in kinds):
        return INT_OPERATIONS.get(function)
    if result == "float" and all(kind == "float" for kind in kinds):
        return FLOAT_OPERATIONS.get(function)
    return None


def _literal(node: TypedConstant, pool_code: Callable[[Value], int]) -> int:
    value = node.value
    if value is None:
        return int(np.array(np.nan).view(np.int64)) if node.type == "float" else MISSING
    if node.type == "float":
        return int(np.array(float(value) + 0.0).view(np.int64))
    if node.type in CODED:
        return int(pool_code(value))
    return int(value)


def stack_cells(code: Code) -> int:
    """Return the maximum number of stack cells that a program uses."""
    operations = code[:, 0]
    pushes = np.isin(operations, (LEFT, RIGHT, BEGIN, FINISH, LITERAL))
    changes = np.where(pushes, 1, np.where(np.isin(operations, UNARY), 0, -1))
    return int(np.cumsum(changes).max(initial=0))


@bare
def run(code, first, last, literals, stack, partner, p, offset, current, partner_is_left, start, end):  # type: ignore[no-untyped-def]
    """Run the operations `first` to `last` of a program on a pair of rows.

    - `partner`, `p`: the store and the row number of the partner. `offset`: the column of the partner's first argument.
    - `current`: the arguments of the arriving row.
    - `start`, `end`: the interval of the pair.

    If the program has tests, return 1 if all of them hold, and 0 otherwise. If it has none, return 1, and leave the
    bits of the value in `stack[0]`.
    """
    top = 0
    for k in range(first, last):
        operation = code[k, 0]
        argument = code[k, 1]
        if operation == LEFT or operation == RIGHT:
            if (operation == LEFT) == partner_is_left:
                stack[top] = partner[p, offset + argument]
            else:
                stack[top] = current[argument]
            top += 1
        elif operation == LITERAL:
            stack[top] = literals[argument]
            top += 1
        elif operation == BEGIN:
            stack[top] = start
            top += 1
        elif operation == FINISH:
            stack[top] = end
            top += 1
        elif operation == TEST:
            top -= 1
            if stack[top] != 1:
                return 0
        elif operation == TO_FLOAT:
            stack[top - 1] = as_bits(math.nan if stack[top - 1] == MISSING else np.float64(stack[top - 1]))
        elif operation == 17 or operation == 18:
            if stack[top - 1] != MISSING and (operation == 17 or stack[top - 1] < 0):
                stack[top - 1] = -stack[top - 1]
        elif operation == 38:
            stack[top - 1] = as_bits(0.0 - as_float(stack[top - 1]))
        elif operation == 39:
            stack[top - 1] = as_bits(abs(as_float(stack[top - 1])))
        elif operation == 40:
            stack[top - 1] = as_bits(math.sqrt(as_float(stack[top - 1])) if as_float(stack[top - 1]) >= 0 else math.nan)
        elif operation < 30:
            top -= 1
            stack[top - 1] = _integer(operation, stack[top - 1], stack[top])
        elif operation < 50:
            top -= 1
            value = _real(operation, as_float(stack[top - 1]), as_float(stack[top]))
            stack[top - 1] = as_bits(value + 0.0 if math.isfinite(value) else math.nan)
        elif operation < 60:
            top -= 1
            a = stack[top - 1]
            b = stack[top]
            if a == MISSING or b == MISSING:
                stack[top - 1] = 0
            else:
                stack[top - 1] = _compare(operation - 50, a, b)
        elif operation < 70:
            top -= 1
            x = as_float(stack[top - 1])
            y = as_float(stack[top])
            if math.isnan(x) or math.isnan(y):
                stack[top - 1] = 0
            else:
                stack[top - 1] = _compare(operation - 60, x, y)
        elif operation >= 100:  # operands are test results, 1 or 0
            top -= 1
            stack[top - 1] = stack[top - 1] | stack[top] if operation == 100 else stack[top - 1] & stack[top]
        else:
            top -= 1
            whole = stack[top - 1] if operation < 90 else stack[top]
            y = as_float(stack[top] if operation < 90 else stack[top - 1])
            if whole == MISSING or math.isnan(y):
                stack[top - 1] = 0
            else:
                side = _side(whole, y)
                stack[top - 1] = _compare(operation % 10, side if operation < 90 else -side, 0)
    return 1


@njit(inline="always")
def _side(a, y):  # type: ignore[no-untyped-def]
    x = np.float64(a)
    if x != y:
        return -1 if x < y else 1
    if y >= 2.0**63:  # rounded beyond the greatest int
        return -1
    b = np.int64(y)
    return -1 if a < b else 1 if a > b else 0


@njit(inline="always")
def _compare(which, a, b):  # type: ignore[no-untyped-def]
    if which == 0:
        return 1 if a == b else 0
    if which == 1:
        return 1 if a != b else 0
    if which == 2:
        return 1 if a < b else 0
    if which == 3:
        return 1 if a <= b else 0
    if which == 4:
        return 1 if a > b else 0
    return 1 if a >= b else 0


@bare
def _integer(operation, a, b):  # type: ignore[no-untyped-def]
    # Computed unsigned, because the compiler assumes that signed numbers do not overflow, and would drop the checks.
    if a == MISSING or b == MISSING:
        return MISSING
    if operation == 10:
        value = np.int64(np.uint64(a) + np.uint64(b))
        return MISSING if ((a ^ value) & (b ^ value)) < 0 else value
    if operation == 11:
        value = np.int64(np.uint64(a) - np.uint64(b))
        return MISSING if ((a ^ b) & (a ^ value)) < 0 else value
    if operation == 12:
        value = np.int64(np.uint64(a) * np.uint64(b))
        # A wrapped product is off by at least 2**64, far more than the rounding of the float product.
        return MISSING if abs(np.float64(a) * np.float64(b) - np.float64(value)) > 2.0**60 else value
    if operation == 13:
        return MISSING if b == 0 else a // b
    if operation == 14:
        return MISSING if b == 0 else a % b
    if operation == 15:
        return min(a, b)
    return max(a, b)


@bare
def _real(operation, a, b):  # type: ignore[no-untyped-def]
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if operation == 30:
        return a + b
    if operation == 31:
        return a - b
    if operation == 32:
        return a * b
    if operation == 33:
        return math.nan if b == 0.0 else a / b
    if operation == 34:
        return math.nan if b == 0.0 else (a // b) + 0.0
    if operation == 35:
        return math.nan if b == 0.0 else a % b
    if operation == 36:
        return min(a, b)
    return max(a, b)
