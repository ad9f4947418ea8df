"""The tree of LARS as text in the syntax of `.lars` files, such that it is read as the same tree.

Windows are printed in ticks, graph patterns as they were written, IRIs whole.
"""

from __future__ import annotations

import re

from cep.language.dialects.lars.ast import (
    EVERY,
    BodyLiteral,
    LarsAtom,
    LarsLiteral,
    LarsProgram,
    LarsRule,
    TimeWindow,
    Window,
)
from cep.language.dialects.lars.windows import longest
from cep.language.syntax.printer import print_statement
from cep.rules.printing import print_expression as print_own
from cep.rules.terms import Call, Comparison, Constant, Expression, Graph, Variable

_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_SUM, _PRODUCT, _SIGNED, _POWER, _OPERAND = range(5)
_INFIX = {
    "+": ("+", _SUM),
    "-": ("-", _SUM),
    "*": ("*", _PRODUCT),
    "/": ("/", _PRODUCT),
    "//": ("/", _PRODUCT),
    "mod": ("%", _PRODUCT),
}
_BEFORE_REMAINDER = re.compile(r".*[\w)]", re.ASCII | re.DOTALL)
_AFTER_REMAINDER = re.compile(r"\(|(?:[0-9]+(?:\.[0-9]+)?|[A-Z_]\w*)(?: [-+*/%^]|\Z)", re.ASCII)
"""Between which `%` is read as the remainder, not as a comment."""


def print_program(program: LarsProgram) -> str:
    """A statement a line, declarations first."""
    lines = [print_statement(each) for each in program.declarations]
    lines += [print_rule(each, program.tick) for each in program.rules]
    return "".join(f"{line}\n" for line in lines)


def print_rule(rule: LarsRule, tick: int) -> str:
    head = "" if rule.head is None else print_atom(rule.head)
    if rule.at is not None:
        head += f" at {print_expression(rule.at)}"
    if not rule.body:
        return f"{head}."
    body = ", ".join(print_element(each, tick) for each in rule.body)
    return f"{head} :- {body}." if head else f":- {body}."


def print_element(element: BodyLiteral, tick: int) -> str:
    match element:
        case Comparison(operator, left, right):
            return f"{print_argument(left)} {operator} {print_argument(right)}"
        case Graph(text, negated=negated):
            return f"not {text}" if negated else text
        case LarsLiteral():
            return print_literal(element, tick)


def print_literal(literal: LarsLiteral, tick: int) -> str:
    text = f"not {print_atom(literal.atom)}" if literal.negated else print_atom(literal.atom)
    if literal.at is not None:
        text += f" at {print_expression(literal.at)}"
    if literal.modality == EVERY:
        text += " always"
    return text if literal.window is None else f"{text} in {print_window(literal.window, tick)}"


def print_window(window: Window, tick: int) -> str:
    if isinstance(window, TimeWindow):
        size = "inf" if window.ticks == longest(tick) else str(window.ticks)
        return f"[{size}]" if window.step == 1 else f"[{size}] step {window.step}"
    return f"[{window.atoms} #]" + (f" by {', '.join(window.by)}" if window.by else "")


def print_atom(atom: LarsAtom) -> str:
    inside = ", ".join(map(print_argument, atom.arguments))
    return f"{atom.predicate}({inside})" if inside else atom.predicate


def print_argument(expression: Expression) -> str:
    """A string that is a symbol stands here without quotes."""
    if isinstance(expression, Constant) and expression.type == "string":
        text = str(expression.value)
        if _NAME.fullmatch(text) and text not in ("true", "false", "not"):
            return text
    return print_expression(expression)


def print_expression(expression: Expression) -> str:
    return _written(expression)[0]


def _written(expression: Expression) -> tuple[str, int]:
    """The text and how tightly it holds together."""
    match expression:
        case Variable(name):
            return name, _OPERAND
        case Constant():
            text = print_own(expression)
            return text, _SIGNED if text.startswith("-") else _OPERAND
        case Call("neg", (inner,)):
            text, holds = _written(inner)
            bare = holds >= _SIGNED and not isinstance(inner, Constant) and not text.startswith("-")
            return f"-{text}" if bare else f"-({text})", _SIGNED
        case Call("**", (base, exponent)):
            return f"{_operand(base, _OPERAND)} ^ {_operand(exponent, _SIGNED)}", _POWER
        case Call(function, (left, right)):
            mark, level = _INFIX[function]
            first, second = _operand(left, level), _operand(right, level + 1)
            if mark == "%":
                first = first if _BEFORE_REMAINDER.fullmatch(first) else f"({first})"
                second = second if _AFTER_REMAINDER.match(second) else f"({second})"
            return f"{first} {mark} {second}", level
    raise AssertionError("the reader makes no other calls")


def _operand(expression: Expression, place: int) -> str:
    text, holds = _written(expression)
    return text if holds >= place else f"({text})"
