"""Renaming in syntax trees of dialects, so that our own parser can read the printed program."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from cep.core.schema import Attribute
from cep.language.syntax import ast
from cep.operators.supports import FormulaAtom
from cep.rules.keywords import KEYWORDS
from cep.rules.static.typed_facts import FactAttribute, FactDeclaration
from cep.rules.terms import Call, Predicate, StaticRule, Variable

_DECLARING = (
    ast.EventDeclaration, ast.FluentDeclaration, FactDeclaration, ast.EventRule, ast.FluentRule, ast.WhileRule,
    ast.DeadlineStatement, StaticRule,
)  # fmt: skip
_NAMING = (*_DECLARING, ast.EventPattern, FormulaAtom, Predicate)
_WORD = re.compile(r"[^\W\d_]\w*")


def spelled(tree: ast.SyntaxTree) -> ast.SyntaxTree:
    """Rename events, fluents, predicates, attributes and variables whose names are not valid in our own language.

    A name begins with a lower-case letter, a variable begins with a capital, and neither is a keyword.
    """
    names: dict[str, str] = {}
    for statement in tree.statements:
        _collect(statement, names)
    known = set(names.values())
    for old in names:
        names[old] = _free(_small(old), known - {old} if names[old] == old else known)
        known.add(names[old])
    return replace(tree, statements=tuple(_renamed(statement, names) for statement in tree.statements))


def _collect(value: object, names: dict[str, str]) -> None:
    if isinstance(value, tuple):
        for member in value:
            _collect(member, names)
    elif is_dataclass(value):
        if isinstance(value, _NAMING):
            own = value.name
            names.setdefault(own, own if _small(own) == own else "")
        for field in fields(value):
            _collect(getattr(value, field.name), names)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, tuple):
        return tuple(_renamed(member, names) for member in value)
    if isinstance(value, Variable):
        return replace(value, name=_capital(value.name))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed: dict[str, Any] = {}
    for field in fields(value):
        old = getattr(value, field.name)
        if isinstance(old, tuple) or is_dataclass(old):
            new = _renamed(old, names)
            if new is not old and new != old:
                changed[field.name] = new
    if isinstance(value, ast.EventDeclaration) and value.records is not None:
        changed["records"] = None  # only dialects declare records of fluents
    if isinstance(value, _NAMING):
        changed["name"] = names[value.name]
    elif isinstance(value, Call) and value.function in names:
        changed["function"] = names[value.function]
    elif isinstance(value, ast.AttributeTree | Attribute | FactAttribute):
        changed["name"] = _small(value.name)
    return replace(value, **changed) if changed else value


def _small(name: str) -> str:
    text = re.sub(r"\W", "_", name)
    text = text if _WORD.match(text) else f"x{text}"
    text = text[0].lower() + text[1:]
    return f"{text}_" if text.upper() in KEYWORDS else text


def _capital(name: str) -> str:
    if name == "_" or (name[0] != "_" and not name[0].isupper()):
        return name
    return f"{name}_" if name.upper() in KEYWORDS else name


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name
