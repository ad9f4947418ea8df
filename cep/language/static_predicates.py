"""The static predicates that a program names: those that its conditions ask for, and those that it declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from cep.language.syntax.ast import SyntaxTree
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import Predicate


def predicates_of(program: SyntaxTree) -> set[str]:
    """Return the predicates of all conditions in a syntax tree."""
    return set(_predicates_of(program.statements))


def declarations_of(program: SyntaxTree) -> dict[str, FactDeclaration]:
    """The declarations of facts by name."""
    return {each.name: each for each in program.statements if isinstance(each, FactDeclaration)}


def _predicates_of(value: object) -> Iterator[str]:
    """The static predicates of all conditions in a tree of syntax."""
    if isinstance(value, Predicate):
        yield value.name
    elif isinstance(value, tuple):
        for each in value:
            yield from _predicates_of(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _predicates_of(getattr(value, field.name))
