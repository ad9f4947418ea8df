"""Type checking of expressions in conditions and heads, before a program runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cep.core.errors import CepError, Source, Span
from cep.core.literals import too_long
from cep.core.suggest import did_you_mean
from cep.core.time import FARTHEST
from cep.rules.expressions.aggregates import AGGREGATES, FOREIGN_AGGREGATES, HINT, example
from cep.rules.expressions.arithmetic import of_numbers, of_ticks, operator_hint
from cep.rules.expressions.comparison_hint import comparison_hint, shown
from cep.rules.expressions.constants import constant_mistakes
from cep.rules.expressions.evaluate import compile_expression, compile_test, constant_value
from cep.rules.expressions.functions import FUNCTIONS
from cep.rules.expressions.typed import (
    COMPARISONS,
    NUMBERS,
    TICKS,
    Literal,
    Typed,
    TypedCall,
    TypedConstant,
    TypedVariable,
    a,
    coerced,
    common_type,
    to_float,
    typed_seconds,
)
from cep.rules.expressions.units import UNIT_IRIS
from cep.rules.terms import DIVIDED, Call, Comparison, Constant, Expression, Variable

__all__ = [
    "Literal",
    "Typed",
    "TypedCall",
    "TypedConstant",
    "TypedVariable",
    "check",
    "check_comparison",
    "compile_expression",
    "compile_test",
    "literal_value",
]

OPERATORS = ("+", "-", "*", "/", "//", "mod", "**")
CONDITION = "X > 3"
OF_THE_PATTERN = {"start": "time", "end": "time", "duration": "duration"}


def literal_value(constant: Constant) -> Literal:
    """Return the value of a constant. If its type is float, the value is a Python float."""
    if constant.type == "float":
        return float(constant.value) + 0.0
    return constant.value


def check(expression: Expression, types: Mapping[str, str], source: Source | None = None) -> Typed:
    """Return the typed form of an expression, in which every coercion is a call. Raises CepError if the types do not
    fit together.

    `types`: the types of the variables, and of `start()`, `end()` and `duration()` if the pattern's interval is known.
    """
    return _Checker(types, source).expression(expression)


def check_comparison(comparison: Comparison, types: Mapping[str, str], source: Source | None = None) -> TypedCall:
    """Return a comparison whose sides have the same type. Raises CepError if the sides cannot be compared."""
    return _Checker(types, source).comparison(comparison)


def variables(expression: Expression) -> list[Variable]:
    """Return the variables of an expression except `_`, with their spans."""
    if isinstance(expression, Variable):
        return [] if expression.name == "_" else [expression]
    if isinstance(expression, Call):
        return [variable for argument in expression.arguments for variable in variables(argument)]
    return []


def called(expression: Expression) -> Iterator[Call]:
    """Yield the calls in an expression, the outermost first. An operator counts as a call."""
    if isinstance(expression, Call):
        yield expression
        for argument in expression.arguments:
            yield from called(argument)


def unknown_function(call: Call, source: Source | None) -> CepError | None:
    """Return the error for a call of an unknown function, or None if the function exists."""
    name = call.function
    if name in FUNCTIONS or name in ("start", "end") or not name[0].isalpha():
        return None
    if name in FOREIGN_AGGREGATES or name in AGGREGATES:
        hint = f"`{name}` {HINT.format(example(FOREIGN_AGGREGATES.get(name, name), 'T'))}"
    else:
        known = "there are " + " ".join(sorted([*FUNCTIONS, "start", "end"]))
        hint = did_you_mean(name, sorted(FUNCTIONS)) or known
    return CepError(f"unknown function `{name}`", source, call.span, hint, "type")


def called_functions(expression: Expression) -> frozenset[str]:
    """Return the names of the functions that an expression calls."""
    if not isinstance(expression, Call):
        return frozenset()
    return frozenset([expression.function]).union(*map(called_functions, expression.arguments))


@dataclass(frozen=True, slots=True)
class _Checker:
    types: Mapping[str, str]
    source: Source | None

    def error(self, message: str, span: Span, hint: str | None = None, code: str = "type") -> CepError:
        return CepError(message, self.source, span, hint, code)

    def expression(self, expression: Expression) -> Typed:
        match expression:
            case Constant():
                return self.constant(expression)
            case Variable(name, span):
                if name not in self.types:
                    what = "`_` has no value" if name == "_" else f"`{name}` is not bound"
                    hint = "give it a name" if name == "_" else f"bind `{name}` in the pattern, or with `{name} = ...`"
                    raise self.error(what, span, hint, "unsafe")
                return TypedVariable(name, self.types[name])
            case Call(function, arguments):
                if function in OF_THE_PATTERN:
                    return self.of_the_pattern(expression)
                if function in COMPARISONS:
                    left, right = arguments
                    return self.comparison(Comparison(function, left, right, expression.span))
                if function in ("or", "and", "not"):
                    return TypedCall(function, tuple(map(self.test, arguments)), "bool")
                if function == "if":
                    return self.choice(expression)
                typed = tuple(self.expression(argument) for argument in arguments)
                if function == DIVIDED:
                    function = "//" if all(operand.type == "int" for operand in typed) else "/"
                    expression = replace(expression, function=function)
                if function in OPERATORS or function == "neg":
                    return fold(self.operator(expression, typed))
                return fold(self.function(expression, typed))

    def test(self, expression: Expression) -> Typed:
        """Check an expression that is used as a condition, and return it with types."""
        if isinstance(expression, Call) and expression.function not in (*COMPARISONS, "or", "and", "not", *FUNCTIONS):
            raise self.error(
                f"`{expression.function}` is not a test that can be used here", expression.span,
                "put a static predicate directly in the WHERE: `(linked(X, Y), Z = 1 or not linked(X, Y), Z = 2)`",
            )  # fmt: skip
        typed = self.expression(expression)
        if typed.type != "bool":
            raise self.error(
                f"{self.kind(expression, typed)} is not a condition", expression.span, f"e.g. `{CONDITION}`"
            )
        return typed

    def choice(self, call: Call) -> TypedCall:
        """Check a call `if(condition, a, b)`, and return it with types."""
        condition, *values = call.arguments
        common, arguments = self.alike(call, tuple(values))
        return TypedCall("if", (self.test(condition), *arguments), common)

    def alike(self, call: Call, values: tuple[Expression, ...]) -> tuple[str, tuple[Typed, ...]]:
        """Check expressions that must have a common type, such as the results of `if`. Return this type and the
        converted expressions."""
        typed = [self.expression(value) for value in values]
        common = typed[0].type
        for value, operand in zip(values, typed):
            joined = common_type(common, operand.type)
            if joined is None:
                hint = "`string(...)` makes a text of a value" if "string" in (common, operand.type) else None
                message = (
                    f"`{call.function}` can only have results of one type, "
                    f"not {a(common)} and {self.kind(value, operand)}"
                )
                raise self.error(message, value.span, hint)
            common = joined
        operands: list[Typed] = []
        for value, operand in zip(values, typed):
            self.within_reach(value, operand, common)
            side = coerced(operand, common)
            assert side is not None, "what has a common type can be coerced to it"
            operands.append(side)
        return common, tuple(operands)

    def constant(self, constant: Constant) -> TypedConstant:
        value = literal_value(constant)
        if not isinstance(value, str | bool):
            if isinstance(value, int) and abs(value) >= 2**63:
                raise self.error(
                    f"{value} is beyond 64 bits", constant.span, f"write it as a float: `{float(value)!r}`"
                    if abs(value) < 10**300 else None,
                )  # fmt: skip
            if not math.isfinite(value):
                raise self.error("a number must be finite", constant.span)
        return TypedConstant(value, constant.type)

    def of_the_pattern(self, call: Call) -> Typed:
        name = f"{call.function}()"
        if call.arguments:
            raise self.error(
                f"`{name}` takes no arguments", call.span, f"leave them out: `{name}` is about the whole pattern"
            )
        if name not in self.types:
            raise self.error(
                f"`{name}` can be used only in a WHERE, where it is about the interval of the pattern", call.span,
                "bind it there: `WHERE T = end()`, and use `T` here", "unsafe",
            )  # fmt: skip
        return TypedVariable(name, self.types[name])

    def operator(self, call: Call, typed: tuple[Typed, ...]) -> TypedCall:
        function = call.function
        if function == "neg":
            if typed[0].type in ("int", "float", "duration", "any"):
                return TypedCall("neg", typed, typed[0].type)
            raise self.error(f"`-` takes a number, not {self.kind(call.arguments[0], typed[0])}", call.span)
        assert len(typed) == 2, "the grammar gives an operator two operands"
        left, right = typed
        if left.type in TICKS or right.type in TICKS:
            result = of_ticks(function, left, right)
        elif left.type in NUMBERS and right.type in NUMBERS:
            result = of_numbers(function, left, right)
        else:
            result = None
        if result is None:
            kinds = [self.kind(argument, node) for argument, node in zip(call.arguments, typed)]
            strings = function == "+" and {left.type, right.type} <= {"string", "any"}
            hint = "`concat(a, b)` joins texts" if strings else operator_hint(function, left.type, right.type)
            raise self.error(f"`{function}` does not work on {kinds[0]} and {kinds[1]}", call.span, hint)
        return result

    def function(self, call: Call, typed: tuple[Typed, ...]) -> Typed:
        name = call.function
        if (unknown := unknown_function(call, self.source)) is not None:
            raise unknown
        function = FUNCTIONS[name]
        takes = [kind.rstrip("?*") for kind in function.takes]
        least = sum(not kind.endswith(("?", "*")) for kind in function.takes)
        endless = bool(function.takes) and function.takes[-1].endswith("*")
        if len(typed) < least or (len(typed) > len(takes) and not endless):
            number = (
                f"{least} or more" if endless else f"{least}" if least == len(takes) else f"{least} or {len(takes)}"
            )
            noun = "argument" if number == "1" else "arguments"
            own = "; the time of an event is `start()` or `end()`" if name == "time" and not typed else ""
            says = f"{name}: {function.says}{own}"
            raise self.error(f"`{name}` takes {number} {noun}, not {len(typed)}", call.span, says)
        takes += takes[-1:] * (len(typed) - len(takes))
        if "ordered" in takes:
            return self.ordered(call, typed)
        if name == "coalesce":
            common, values = self.alike(call, call.arguments)
            return TypedCall(name, values, common)
        if name == "iri" and typed[0].type not in ("string", "iri", "any"):
            kind = self.kind(call.arguments[0], typed[0])
            hint = 'use `iri("http://example.org/", X)`, which appends it to a text'
            raise self.error(f"an IRI must begin with a text, not with {kind}", call.arguments[0].span, hint)
        arguments = tuple(
            self.argument(name, kind, expression, argument)
            for kind, expression, argument in zip(takes, call.arguments, typed)
        )
        gives = arguments[0].type if function.gives == "same" else function.gives
        if name == "round" and len(arguments) == 2:
            gives = arguments[0].type
        for place, message, remedy, code in constant_mistakes(name, arguments):
            raise self.error(message, call.arguments[place].span, remedy, code)
        return TypedCall(name, arguments, gives)

    def argument(self, function: str, kind: str, expression: Expression, typed: Typed) -> Typed:
        type = typed.type
        if kind == "value":
            if type != "iri" or function in ("string", "iri"):
                return typed
        elif kind == "float" and type in NUMBERS:
            return to_float(typed)
        elif (kind == "number" and type in NUMBERS) or (kind == "size" and (type in NUMBERS or type == "duration")):
            return typed
        elif kind == "time" and type in ("time", *NUMBERS):
            self.within_reach(expression, typed, "time")
            return typed_seconds(typed, "time") if type != "time" else typed
        elif kind == "area" and type in ("string", "iri", "any"):
            return typed
        elif kind == "unit" and type in ("iri", "any"):
            return typed if type == "iri" else fold(TypedCall("as_iri", (typed,), "iri"))
        elif kind in ("int", "string"):
            if type == kind:
                return typed
            if type == "any":
                return fold(TypedCall(f"as_{kind}", (typed,), kind))
        texts = {
            "value": "a text",
            "string": "a string",
            "time": "a time",
            "area": "an area",
            "unit": "the IRI of a unit",
        }
        wanted = a(kind) if kind == "int" else texts.get(kind, "a number")
        hint: str | None = None
        if kind == "time":
            hint = "a time is `end()`, `start()`, ISO 8601, or an attribute that is declared so: `at: time`"
        elif kind == "area":
            hint = 'an area is WKT, `"POLYGON((...))"`, or the IRI of a place with a geometry in the knowledge'
        elif kind == "unit":
            hint = UNIT_IRIS
        elif kind == "string":
            hint = f"`string({shown(expression)})` gives its text"
        elif type == "string":
            hint = f"`float({shown(expression)})` gives the number that is written in a text"
        elif type == "duration":
            hint = f"`float({shown(expression)})` gives the seconds of a duration"
        elif kind == "int" and type == "float":
            hint = f"`int({shown(expression)})` or `round({shown(expression)})` gives an integer"
        raise self.error(f"`{function}` takes {wanted}, not {self.kind(expression, typed)}", expression.span, hint)

    def ordered(self, call: Call, typed: tuple[Typed, ...]) -> Typed:
        common = typed[0].type
        for expression, argument in zip(call.arguments, typed):
            joined = common_type(common, argument.type)
            if joined is None or joined not in ("int", "float", "any", *TICKS):
                kind = self.kind(expression, argument)
                others = "" if common not in (*NUMBERS, *TICKS) else f" beside {a(common)}"
                raise self.error(f"`{call.function}` does not work on {kind}{others}", expression.span)
            common = joined
        arguments: list[Typed] = []
        for expression, argument in zip(call.arguments, typed):
            self.within_reach(expression, argument, common)
            side = coerced(argument, common)
            assert side is not None, "what has a common type can be coerced to it"
            arguments.append(side)
        while len(arguments) > 1:  # in pairs, so that many arguments do not make a high tree
            pairs = [arguments[i : i + 2] for i in range(0, len(arguments), 2)]
            arguments = [
                fold(TypedCall(call.function, tuple(pair), common)) if len(pair) == 2 else pair[0] for pair in pairs
            ]
        return arguments[0]

    def comparison(self, comparison: Comparison) -> TypedCall:
        left, right = self.expression(comparison.left), self.expression(comparison.right)
        operator = comparison.operator
        common = common_type(left.type, right.type)
        if common is None:
            kinds = f"{self.kind(comparison.left, left)} and {self.kind(comparison.right, right)}"
            hint = comparison_hint(comparison, left.type, right.type)
            raise self.error(f"`{operator}` cannot compare {kinds}", comparison.span, hint)
        if common == "bool" and operator not in ("=", "!="):
            raise self.error("true and false have no order", comparison.span, "compare with `=` or `!=`")
        if common == "iri" and operator not in ("=", "!="):
            hint = "`=` and `!=` compare IRIs; `string(...)` gives their texts"
            raise self.error("IRIs have no order", comparison.span, hint)
        if {left.type, right.type} == {"int", "float"}:
            for constant, other in ((left, right), (right, left)):
                if isinstance(constant, TypedConstant) and other.type == "int" and float(constant.value).is_integer():
                    common = "int" if abs(float(constant.value)) < 2.0**63 else common
        self.within_reach(comparison.left, left, common)
        self.within_reach(comparison.right, right, common)
        sides = (coerced(left, common), coerced(right, common))
        assert sides[0] is not None and sides[1] is not None, "what has a common type can be coerced to it"
        return TypedCall(operator, (sides[0], sides[1]), "bool")

    def within_reach(self, expression: Expression, typed: Typed, type: str) -> None:
        """Refuse a constant number that is too large to be converted to a time or duration. The result would be a
        missing value."""
        if type not in TICKS or not isinstance(typed, TypedConstant) or typed.type not in ("int", "float"):
            return
        if abs(float(typed.value)) * 1_000_000 > FARTHEST:
            refused = too_long()
            raise self.error(refused.message, expression.span, refused.hint)

    def kind(self, expression: Expression, typed: Typed) -> str:
        """Describe an expression by its type for messages: `the float `Wind``."""
        if isinstance(expression, Call):
            return a(typed.type)
        return f"the {typed.type} `{shown(expression)}`" if typed.type != "any" else f"`{shown(expression)}`"


def fold(typed: Typed) -> Typed:
    """Evaluate a call whose arguments are all constants, and return the result as a constant. If the result is missing,
    return the call unchanged."""
    if not isinstance(typed, TypedCall) or not all(isinstance(argument, TypedConstant) for argument in typed.arguments):
        return typed
    value = constant_value(typed)
    return typed if value is None else TypedConstant(value, typed.type)
