"""The part of a program that can be judged without statements that are wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace

from cep.core.errors import NOWHERE, CepError, Span
from cep.language.syntax import ast


def independent(tree: ast.SyntaxTree, names: Collection[str]) -> ast.SyntaxTree:
    """Return a tree without the statements that have one of some names in them, or need one that has."""
    words = [frozenset(_words(each)) for each in tree.statements]
    known, left = set(names), list(range(len(words)))
    while dependent := [at for at in left if not words[at].isdisjoint(known)]:
        known |= {name for at in dependent if (name := _name(tree.statements[at])) is not None}
        left = [at for at in left if at not in dependent]
    return replace(tree, statements=tuple(tree.statements[at] for at in left))


def names_at(tree: ast.SyntaxTree, errors: Iterable[CepError]) -> set[str]:
    """Return what the statements declare or derive in which errors are."""
    spans = [each.span for each in errors if each.span is not None]
    found = set[str]()
    for statement in tree.statements:
        own, name = getattr(statement, "span", NOWHERE), _name(statement)
        if name is not None and any(_inside(each, own) for each in spans):
            found.add(name)
    return found


def _name(statement: ast.Statement) -> str | None:
    """Return the name that a statement declares or derives."""
    return None if isinstance(statement, ast.PolicyStatement) else statement.name


def _inside(one: Span, other: Span) -> bool:
    return (other.line, other.column) <= (one.line, one.column) < (other.end_line, other.end_column)


def _words(value: object) -> Iterator[str]:
    """Yield all texts in a statement: names of events, predicates, variables and more."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _words(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _words(getattr(value, field.name))
