"""The static predicates that a program uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from cep.language.syntax.ast import SyntaxTree
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import Predicate


def predicates_of(program: SyntaxTree) -> set[str]:
    """Return the static predicates that the conditions of a program use."""
    return set(_predicates_of(program.statements))


def declarations_of(program: SyntaxTree) -> dict[str, FactDeclaration]:
    return {statement.name: statement for statement in program.statements if isinstance(statement, FactDeclaration)}


def _predicates_of(value: object) -> Iterator[str]:
    if isinstance(value, Predicate):
        yield value.name
    elif isinstance(value, tuple):
        for member in value:
            yield from _predicates_of(member)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _predicates_of(getattr(value, field.name))
