"""The part of a program that can still be checked if some statements have mistakes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace

from cep.core.errors import NOWHERE, CepError, Span
from cep.language.syntax import ast


def independent(tree: ast.SyntaxTree, names: Collection[str]) -> ast.SyntaxTree:
    """Remove the statements that contain one of `names`, and the statements that depend on a removed statement. Return
    the remaining program."""
    users: dict[str, list[int]] = {}
    for index, statement in enumerate(tree.statements):
        for word in set(_words(statement)):
            users.setdefault(word, []).append(index)
    waiting, dependent = list(names), set[int]()
    while waiting:
        for index in users.pop(waiting.pop(), ()):
            dependent.add(index)
            if (name := _name(tree.statements[index])) is not None:
                waiting.append(name)
    return replace(tree, statements=tuple(kept for index, kept in enumerate(tree.statements) if index not in dependent))


def names_at(tree: ast.SyntaxTree, errors: Iterable[CepError]) -> set[str]:
    """Return the names that the statements with an error declare or derive."""
    spans = [error.span for error in errors if error.span is not None]
    names = set[str]()
    for statement in tree.statements:
        own, name = getattr(statement, "span", NOWHERE), _name(statement)
        if name is not None and any(_inside(span, own) for span in spans):
            names.add(name)
    return names


def _name(statement: ast.Statement) -> str | None:
    return None if isinstance(statement, ast.PolicyStatement) else statement.name


def _inside(span: Span, other: Span) -> bool:
    return (other.line, other.column) <= (span.line, span.column) < (other.end_line, other.end_column)


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for member in value:
            yield from _words(member)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _words(getattr(value, field.name))
