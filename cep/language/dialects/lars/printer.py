"""Printer of LARS programs in the syntax of `.lars` files. Reading the printed text returns the same tree.

It prints windows in ticks, graph patterns as the program writes them, and IRIs in full.
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
from cep.rules.printing import Notation
from cep.rules.printing import print_argument as own_argument
from cep.rules.printing import print_expression as own_expression
from cep.rules.terms import DIVIDED, Comparison, Expression, Graph

_BEFORE_REMAINDER = re.compile(r".*[\w)]", re.ASCII | re.DOTALL)
_AFTER_REMAINDER = re.compile(r"\(|(?:[0-9]+(?:\.[0-9]+)?|[A-Z_]\w*)(?: [-+*/%^]|\Z)", re.ASCII)
"""A pattern that matches the text after a `%` that is the remainder operator. Any other `%` begins a comment."""
NOTATION = Notation(
    {DIVIDED: "/", "//": "/", "mod": "%", "**": "^"},
    frozenset(("TRUE", "FALSE", "NOT")),
    {"%": (_BEFORE_REMAINDER, _AFTER_REMAINDER)},
)


def print_program(program: LarsProgram) -> str:
    """Return the text of a program, one statement per line, declarations first."""
    lines = [print_statement(declaration) for declaration in program.declarations]
    lines += [print_rule(rule, program.tick) for rule in program.rules]
    return "".join(f"{line}\n" for line in lines)


def print_rule(rule: LarsRule, tick: int) -> str:
    head = "" if rule.head is None else print_atom(rule.head)
    if rule.tick is not None:
        head += f" at {print_expression(rule.tick)}"
    if not rule.body:
        return f"{head}."
    body = ", ".join(print_element(element, tick) for element in rule.body)
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
    if literal.tick is not None:
        text += f" at {print_expression(literal.tick)}"
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
    """Return the text of an argument of an atom. A string that is a symbol is printed without quotes."""
    return own_argument(expression, NOTATION)


def print_expression(expression: Expression) -> str:
    return own_expression(expression, NOTATION)
