"""Declared facts that nothing gives."""

from __future__ import annotations

from collections.abc import Collection

from cep.core.errors import Warning
from cep.plan.algebra import Rules


def empty(rules: Rules, tables: Collection[str]) -> list[Warning]:
    """Warnings about declared predicates without facts, rules or one of the `tables`."""
    given = {statement.name for statement in rules.statics}.union(tables)
    return [
        Warning(
            f"`{name}` is declared, and nothing gives its facts: a condition on it is false, `not {name}` true",
            rules.source,
            declared.span,
            f"write some, `{name}(...).`, or give a table: `--facts {name}=FILE`",
            "empty",
        )
        for name, declared in rules.declared.items()
        if name not in given
    ]
