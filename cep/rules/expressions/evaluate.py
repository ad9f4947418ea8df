"""Compilation of typed expressions to functions of columns. Each operation is compiled to few numpy calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cep.core.relation import Column
from cep.core.schema import CODED
from cep.core.values import BOOL, IRI, MISSING, STRING, Pool
from cep.rules.expressions import geodesy, variant
from cep.rules.expressions.constants import ZONED
from cep.rules.expressions.functions import (
    FLOAT_COLUMNS,
    INT_COLUMNS,
    TICK_COLUMNS,
    Operand,
    absent,
    exact_float,
    to_float,
)
from cep.rules.expressions.texts import by_value, text_implementation
from cep.rules.expressions.typed import (
    COMPARISONS,
    MIRRORED,
    TICKS,
    Literal,
    Typed,
    TypedCall,
    TypedConstant,
    TypedVariable,
)
from cep.rules.expressions.units import conversion
from cep.rules.expressions.variant import Mixed

Columns = Mapping[str, Column]
"""The column of each variable."""
Evaluation = Callable[[Columns, int], Column]


def compile_expression(typed: Typed, pool: Pool, optional: Set[str] | None = None) -> Evaluation:
    """Compile an expression to a function. The function takes the columns of the variables and the number of rows.

    `optional`: the variables that may be missing. None means all. All other variables must have a value in each row.
    The function returns a column in the representation of the expression's type. It may be one of the input columns.
    """
    return _sized(_Compiler(pool, optional).column(typed), typed)


def compile_test(
    typed: Typed, pool: Pool, optional: Set[str] | None = None, negated: bool = False
) -> Callable[[Columns, int], NDArray[np.bool_]]:
    """Compile an expression of type bool to a function that returns a mask.

    `negated`: if True, the mask is True where the expression is false. Where a value is missing, the mask is always
    False.
    """
    assert typed.type == "bool", "a test is true or false"
    return _sized(_Compiler(pool, optional).test(typed, negated), typed)


def constant_value(typed: Typed) -> Literal | None:
    """Return the value of an expression that has no variables, or None if the value is missing."""
    pool = Pool()
    result = compile_expression(typed, pool)({}, 1)[0]
    if typed.type == "float":
        return None if np.isnan(result) else float(result)
    if result == MISSING:
        return None
    if typed.type in CODED:
        return pool.value(int(result))
    return bool(result) if typed.type == "bool" else int(result)


def may_miss(typed: Typed, optional: Set[str] | None) -> bool:
    """Return True if the value of an expression may be missing. `optional`: the variables that may be missing. None
    means all."""
    match typed:
        case TypedConstant():
            return False
        case TypedVariable(name):
            return optional is None or name in optional
        case TypedCall("to_float" | "to_any", (argument,)) if argument.type != "any":
            return may_miss(argument, optional)
        case TypedCall("if", (_, *values)):
            return any(may_miss(value, optional) for value in values)
        case TypedCall("coalesce", values):
            return all(may_miss(value, optional) for value in values)
    return True


def missing(column: Operand, type: str) -> Operand:
    """Return a mask of the missing values in a column. `type`: the type of the column."""
    return np.isnan(column) if type == "float" else np.equal(column, MISSING)


def _sized(evaluate: Callable[[Columns], Operand], typed: Typed) -> Evaluation:
    plain = isinstance(typed, TypedVariable | TypedConstant) or (
        typed.function in COMPARISONS
        and all(isinstance(side, TypedVariable | TypedConstant) for side in typed.arguments)
    )

    def evaluation(columns: Columns, rows: int) -> NDArray[Any]:
        if plain:
            result = evaluate(columns)
        else:
            with np.errstate(all="ignore"):  # results that are not finite become missing
                result = evaluate(columns)
        return result if np.ndim(result) else np.full(rows, result)

    return evaluation


class _Compiler:
    """Compiler of expressions to functions of columns. Constants become numpy scalars."""

    def __init__(self, pool: Pool, optional: Set[str] | None) -> None:
        self.pool = pool
        self.optional = optional

    def column(self, typed: Typed) -> Callable[[Columns], Operand]:
        match typed:
            case TypedVariable(name):
                return lambda columns: columns[name]
            case TypedConstant(value, type):
                literal = self.literal(value, type)
                return lambda columns: literal
            case TypedCall():
                evaluate = self.call(typed)
                if _varies(typed):
                    return evaluate
                # The arguments are constants, and the result is missing: otherwise the call would have been folded.
                with np.errstate(all="ignore"):
                    once = np.reshape(evaluate({}), -1)[0]
                return lambda columns: once

    def literal(self, value: Literal, type: str) -> Operand:
        if type == "float":
            return np.float64(value)
        return np.int64(self.pool.code(value) if type in CODED else int(value))

    def call(self, typed: TypedCall) -> Callable[[Columns], Operand]:
        function, arguments, pool = typed.function, typed.arguments, self.pool
        if function in COMPARISONS:
            return self.comparison_value(typed)
        if function in ("if", "coalesce"):
            return self.chosen(typed)
        if typed.type == "any":
            opened = self.opened(typed)
            return lambda columns: variant.boxed(opened(columns), pool)
        types = tuple(argument.type for argument in arguments)
        if types[:1] == ("any",) and function in OF_MIXED:
            opened, of_mixed = self.opened(arguments[0]), OF_MIXED[function]
            return lambda columns: of_mixed(opened(columns))
        nodes = [self.column(argument) for argument in arguments]
        if function in _KIND_OF:
            first, kind = nodes[0], _KIND_OF[function]
            return lambda columns: _of_kind(first(columns), kind, pool)
        if not types:
            always = FLOAT_COLUMNS[function]()
            return lambda columns: always
        implementation: Callable[..., Operand]
        if function == "inside":
            from cep.rules.expressions.areas import containment  # needs shapely: imported only if there are areas

            implementation = containment(types[2], pool)
            nodes.append(lambda columns: columns.get("end()"))
        elif function in ZONED:
            from cep.rules.expressions.calendar import (
                implementation as of_calendar,  # imported only if needed
            )

            implementation = of_calendar(function, pool)
        elif function == "value_in":
            implementation = conversion(pool)
        elif function == "string" or types[0] in CODED:
            implementation = text_implementation(function, types, typed.type, pool)
        elif types[0] == "bool":
            implementation = {"int": lambda column: column, "float": to_float}[function]
        else:
            by_type = TICK_COLUMNS if types[0] in TICKS else FLOAT_COLUMNS if types[0] == "float" else INT_COLUMNS
            implementation = by_type[function]
        if not _varies(typed):
            first, nodes = nodes[0], nodes[1:]
            nodes.insert(0, lambda columns: np.reshape(first(columns), 1))
        return _applied(implementation, nodes)

    def chosen(self, typed: TypedCall) -> Callable[[Columns], Operand]:
        """Compile a call of `if` or `coalesce`. For each row, these functions choose one of several columns of the same
        type."""
        values, type = typed.arguments, typed.type
        if typed.function == "if":
            holds = self.test(values[0], False)
            yes, no = self.column(values[1]), self.column(values[2])
            return lambda columns: np.where(holds(columns), yes(columns), no(columns))
        nodes = [self.column(value) for value in values]

        def first(columns: Columns) -> Operand:
            values = nodes[-1](columns)
            for node in nodes[-2::-1]:
                column = node(columns)
                values = np.where(missing(column, type), values, column)
            return values

        return first

    def opened(self, typed: Typed) -> Callable[[Columns], Mixed]:
        """Compile an expression of type any to a function that returns `Mixed` values."""
        pool = self.pool
        if not isinstance(typed, TypedCall):
            codes = self.column(typed)
            if isinstance(typed, TypedConstant):
                once = variant.opened(codes({}), pool)
                return lambda columns: once
            return lambda columns: variant.opened(codes(columns), pool)
        function = typed.function
        if function in ("if", "coalesce"):
            chosen = self.chosen(typed)
            return lambda columns: variant.opened(np.atleast_1d(chosen(columns)), pool)
        if function == "to_any":
            column, type = self.column(typed.arguments[0]), typed.arguments[0].type
            return lambda columns: variant.from_typed(column(columns), type, pool)
        if function in ("**", "round"):
            base, other = self.opened(typed.arguments[0]), self.column(typed.arguments[1])
            binary = variant.power if function == "**" else variant.rounded
            return lambda columns: binary(base(columns), other(columns))
        return _applied(variant.arithmetic(function), [self.opened(argument) for argument in typed.arguments])

    def comparison_value(self, typed: TypedCall) -> Callable[[Columns], Operand]:
        holds = self.test(typed, False)
        opposite = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}[typed.function]
        fails = self.test(TypedCall(opposite, typed.arguments, "bool"), False)
        return lambda columns: np.where(holds(columns), 1, np.where(fails(columns), 0, MISSING))

    def test(self, typed: Typed, negated: bool) -> Callable[[Columns], Operand]:
        if isinstance(typed, TypedCall) and typed.function in ("or", "and"):
            assert not negated, "what is negated is written without"
            sides = [self.test(argument, False) for argument in typed.arguments]
            together = np.logical_or if typed.function == "or" else np.logical_and
            return lambda columns: reduce(together, [side(columns) for side in sides])
        if isinstance(typed, TypedCall) and typed.function == "not":
            return self.test(typed.arguments[0], True)
        if not isinstance(typed, TypedCall) or typed.function not in COMPARISONS:
            column, wanted = self.column(typed), 0 if negated else 1
            return lambda columns: np.equal(column(columns), wanted)
        assert not negated, "a comparison is negated by its opposite"
        operator, (left, right), pool = typed.function, typed.arguments, self.pool
        if left.type == "any":
            a, b = self.opened(left), self.opened(right)
            return lambda columns: variant.compare(operator, a(columns), b(columns), pool)
        if left.type == "float":
            if _doubtful(left, right):
                assert isinstance(left, TypedCall), "only a coerced integer is doubtful"
                return _exactly(operator, self.column(left.arguments[0]), self.column(right))
            if _doubtful(right, left):
                assert isinstance(right, TypedCall), "only a coerced integer is doubtful"
                return _exactly(MIRRORED[operator], self.column(right.arguments[0]), self.column(left))
        for far, limit, sense in ((left, right, operator), (right, left, MIRRORED[operator])):
            if isinstance(far, TypedCall) and far.function == "distance" and sense in variant.ORDERS:
                return _nearer(sense, [self.column(argument) for argument in far.arguments], self.column(limit))
        x, y = self.column(left), self.column(right)
        if left.type in ("string", "iri") and operator not in ("=", "!="):
            if isinstance(left, TypedVariable) and isinstance(right, TypedVariable):
                return lambda columns: variant.compare_texts(operator, x(columns), y(columns), pool)
            order = by_value(variant.ORDERS_OF_TEXTS[operator], (left.type, right.type), "bool", pool)
            return lambda columns: np.equal(order(x(columns), y(columns)), 1)
        compare = _COMPARE[operator]
        # NaN is never equal, less or greater; MISSING is less than every int. A mask corrects wrong results.
        if left.type == "float":
            present, first, second = _not_nan, operator == "!=", operator == "!="
        else:
            present, first, second = (
                _not_missing,
                operator in ("=", "!=", "<", "<="),
                operator in ("=", "!=", ">", ">="),
            )
            if operator == "=" and not (may_miss(left, self.optional) and may_miss(right, self.optional)):
                first = second = False  # two missing values are the only mistake
        first, second = first and may_miss(left, self.optional), second and may_miss(right, self.optional)
        if first or second:
            return lambda columns: _masked(compare, present, x(columns), y(columns), first, second)
        return lambda columns: compare(x(columns), y(columns))


_COMPARE: dict[str, Callable[[Operand, Operand], Operand]] = {
    "=": np.equal,
    "!=": np.not_equal,
    **variant.ORDERS,
}

OF_MIXED: dict[str, Callable[[Mixed], Operand]] = {
    "to_float": lambda column: column.number,
    "exact_float": lambda column: np.where(absent(column.integer), column.number, exact_float(column.integer)),
    "as_int": lambda column: column.integer,
    "seconds": variant.to_ticks,
    **{name: variant.by_kind(name) for name in ("floor", "ceil", "round", "sign")},
}
"""Functions that take values of unknown type, but return values of a known type."""


def _varies(typed: Typed) -> bool:
    match typed:
        case TypedVariable():
            return True
        case TypedCall(function, arguments):
            return function == "inside" or any(map(_varies, arguments))  # the area of an IRI may change
    return False


def _applied(function: Callable[..., Any], nodes: list[Callable[[Columns], Any]]) -> Callable[[Columns], Any]:
    if len(nodes) == 1:
        (only,) = nodes
        return lambda columns: function(only(columns))
    if len(nodes) == 2:
        first, second = nodes
        return lambda columns: function(first(columns), second(columns))
    return lambda columns: function(*[node(columns) for node in nodes])


_KIND_OF = {"as_string": STRING, "as_iri": IRI, "as_bool": BOOL}


def _of_kind(codes: Operand, kind: int, pool: Pool) -> Operand:
    value = np.equal(codes, pool.code(True)) if kind == BOOL else codes
    return np.where(pool.kinds(codes) == kind, value, MISSING)


def _doubtful(coerced: Typed, other: Typed) -> bool:
    # Comparing an int with a float as floats may round the int, unless it is known to be small.
    if not isinstance(coerced, TypedCall) or coerced.function != "to_float" or coerced.arguments[0].type != "int":
        return False
    return not (isinstance(other, TypedConstant) and abs(float(other.value)) < 2.0**53)


def _exactly(
    operator: str, ints: Callable[[Columns], Operand], floats: Callable[[Columns], Operand]
) -> Callable[[Columns], Operand]:
    return lambda columns: variant.compare_int_float(operator, ints(columns), floats(columns))


def _nearer(
    operator: str, points: list[Callable[[Columns], Operand]], limit: Callable[[Columns], Operand]
) -> Callable[[Columns], Operand]:
    return lambda columns: geodesy.compare(operator, [point(columns) for point in points], limit(columns))


def _masked(
    compare: Callable[..., Operand], present: Callable[..., Operand], a: Operand, b: Operand, first: bool, second: bool
) -> Operand:
    result = compare(a, b)
    if first:
        result = result & present(a)
    return result & present(b) if second else result


def _not_missing(column: Operand) -> Operand:
    return np.not_equal(column, MISSING)


def _not_nan(column: Operand) -> Operand:
    return np.equal(column, column)
