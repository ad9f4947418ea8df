"""Conditions and expressions parsed by tests, and their values computed by columns and one by one."""

from __future__ import annotations

from cep.core.errors import Source
from cep.language.syntax.parser import parse
from cep.rules.expressions.checking import (
    Typed,
    TypedCall,
    check,
    check_comparison,
)
from cep.rules.terms import Comparison, Condition, StaticRule

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


def table(text: str) -> list[tuple[str, str, str]]:
    rows = [tuple(cell.strip() for cell in line.split(" | ")) for line in text.strip().splitlines()]
    return [(first, second, third) for first, second, third in rows]
