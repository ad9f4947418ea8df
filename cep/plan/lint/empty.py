"""Warn about declared predicates that have no facts, and about tables whose column names differ from the
declaration."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from cep.core.errors import Warning
from cep.plan.algebra import Rules
from cep.rules.static.typed_facts import by_name


def empty(rules: Rules, tables: Mapping[str, pl.DataFrame]) -> list[Warning]:
    """Return warnings about declared predicates that have no facts, no rules and no table in `tables`."""
    known = {statement.name for statement in rules.statics}.union(tables)
    return [
        Warning(
            f"`{name}` is declared, but has no facts: a condition on it is false, `not {name}` is true",
            rules.source,
            declared.span,
            f"add some, `{name}(...).`, or name a table: `--facts {name}=FILE`",
            "empty",
        )
        for name, declared in rules.declared.items()
        if name not in known
    ]


def by_order(rules: Rules, tables: Mapping[str, pl.DataFrame]) -> list[Warning]:
    """Return warnings about tables whose column names differ from the declared attributes. Such columns are matched by
    position."""
    remarks = []
    for name, declared in rules.declared.items():
        names = [attribute.name for attribute in declared.attributes]
        if name not in tables or by_name(names, tables[name].columns) is not None:
            continue
        pairs = zip(names, tables[name].columns)
        taken = ", ".join(
            f"`{column}` is `{attribute}`" for attribute, column in pairs if column.strip().lower() != attribute
        )
        message = f"the columns of the table of `{name}` are matched by their order: {taken}"
        hint = "columns that have the names of the attributes are matched by name, in any order"
        remarks.append(Warning(message, rules.source, declared.span, hint, "columns"))
    return remarks
