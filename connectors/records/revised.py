"""Records that withdraw earlier records. They have the column `@change`, and may have version numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from cep.connectors.records.batch import Batch, DeadLetter
from cep.core.identity import ID, identified
from cep.core.schema import CHANGE, Attribute, Schema
from cep.runtime.maximal_intervals import clipped

ADD, WITHDRAW = "add", "withdraw"
UNREVISED = "withdraws a record, which needs `--revise`"
"""The reason in the dead letter for a withdrawal, if the program does not revise its results."""
VERSION = "@version"
"""The column that numbers the changes of each `@id`. The number is 1 when the row is added, 2 when it is withdrawn, 3
when it is added again."""
_MANY = 1 << 16  # the number of versions after which final ones are dropped


def with_changes(schemas: Mapping[str, Schema]) -> dict[str, Schema]:
    """Add the attribute `@change` to the schemas of declared event types.

    If an event type has a KEY, a record that withdraws an event needs only the attributes of this KEY. So all other
    attributes become optional.
    """
    return {name: _with_change(schema) if schema.declared else schema for name, schema in schemas.items()}


def _with_change(schema: Schema) -> Schema:
    own = schema.attributes
    if schema.key is not None:
        own = tuple(
            attribute if attribute.name in schema.key else replace(attribute, optional=True) for attribute in own
        )
    return replace(schema, attributes=(*own, Attribute(CHANGE, "any", optional=True)))


def without_changes(schemas: Mapping[str, Schema]) -> dict[str, Schema]:
    """Remove the attribute `@change`, because the records of some formats have no field for it."""
    return {
        name: replace(schema, attributes=tuple(own for own in schema.attributes if own.name != CHANGE))
        for name, schema in schemas.items()
    }


def says_changes(batch: Batch) -> bool:
    """Return True if the text of a record in the batch may contain `@change`."""
    return any(block.says_changes for block in batch.blocks)


def changes_of(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the batches with 1 or -1 as the values of `@change`, as `Engine.push` requires.

    A record that has another value of `@change`, or withdraws an event of an undeclared type, becomes a dead letter.
    """
    for batch in batches:
        yield _numbered(batch)


def _numbered(batch: Batch) -> Batch:
    tables, dead = {}, list(batch.dead)
    says = says_changes(batch)
    for event, table in batch.tables.items():
        if CHANGE not in table.columns:
            tables[event] = _undeclared(batch, event, table, dead) if says else table
            continue
        signs = _signs(table[CHANGE])
        for row in np.flatnonzero(signs.is_null().to_numpy()).tolist():
            file, line, text = batch.origin(event, row)
            reason = f"`{CHANGE}` is `{ADD}` or `{WITHDRAW}`, or 1 or -1, not `{table[CHANGE][row]}`"
            dead.append(DeadLetter(file, line, reason, "change", text, event))
        tables[event] = table.with_columns(signs.alias(CHANGE)).filter(signs.is_not_null())
    return replace(batch, tables=tables, dead=dead)


def _undeclared(batch: Batch, event: str, table: pl.DataFrame, dead: list[DeadLetter]) -> pl.DataFrame:
    """Turn withdrawals of an undeclared event type into dead letters. Return the table without them."""
    comes = np.ones(table.height, np.bool_)
    for row in range(table.height):
        file, line, text = batch.origin(event, row)
        try:
            record = json.loads(text or "")
        except ValueError:  # a line that other rules have read is not JSON
            continue
        if isinstance(record, dict) and record.get(CHANGE) not in (None, "", ADD, 1):
            comes[row] = False
            reason = f"`{event}` is not declared: `{CHANGE}` can be read for declared events only"
            dead.append(DeadLetter(file, line, reason, "change", text, event))
    return table if comes.all() else table.filter(comes)


def _signs(changes: pl.Series) -> pl.Series:
    if changes.dtype.is_numeric():
        numbers = changes.cast(pl.Float64).fill_nan(None).fill_null(1)
        return pl.select(pl.when(numbers.abs() == 1).then(numbers).cast(pl.Int8)).to_series()
    known = {None: 1, "": 1, ADD: 1, WITHDRAW: -1, 1: 1, -1: -1}
    values = [None if isinstance(change, bool) else known.get(change) for change in changes.to_list()]
    return pl.Series(CHANGE, values, dtype=pl.Int8)


def unrevised(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the batches without the column `@change`, for a program that does not revise its results.

    The input may come from a program that revises its results. Records that withdraw earlier records become dead
    letters.
    """
    for batch in batches:
        if not any(CHANGE in table.columns for table in batch.tables.values()):
            yield batch
            continue
        tables, dead = {}, list(batch.dead)
        for event, table in batch.tables.items():
            if CHANGE in table.columns:
                gone = (table[CHANGE] < 0).to_numpy()
                for row in np.flatnonzero(gone).tolist():
                    file, line, text = batch.origin(event, row)
                    dead.append(DeadLetter(file, line, UNREVISED, "change", text, event))
                table = table.filter(~gone).drop(CHANGE)
            tables[event] = table
        yield replace(batch, tables=tables, dead=dead)


def as_written(schemas: Mapping[str, Schema], type: str = "string", versions: bool = False) -> dict[str, Schema]:
    """Add the columns `@change` and `@id` to the schemas of derived events. `type`: the type of `@change`. `versions`:
    True to add the column `@version` too."""
    more = (Attribute(CHANGE, type), Attribute(ID, "string"), *([Attribute(VERSION, "int")] if versions else []))
    return {name: replace(schema, attributes=(*schema.attributes, *more)) for name, schema in schemas.items()}


def worded(tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Replace 1 and -1 in the column `@change` by the words `add` and `withdraw`, which outputs use."""
    word = pl.when(pl.col(CHANGE) < 0).then(pl.lit(WITHDRAW)).otherwise(pl.lit(ADD)).alias(CHANGE)
    return {name: table.with_columns(word) for name, table in tables.items()}


def cut(
    tables: Mapping[str, pl.DataFrame],
    schemas: Mapping[str, Schema],
    since: int | None,
    until: int | None,
    meanings: Mapping[str, str],
) -> dict[str, pl.DataFrame]:
    """Restrict rows of changes to the time between `since` and `until` (see `clipped`). Then drop changes that cancel
    each other.

    If the interval of a fluent is shortened, the row gets a new `@id`. `meanings`: for each fluent, the fingerprint
    that is part of its ids.
    """
    if since is None and until is None:
        return dict(tables)
    frames = {}
    for name, table in clipped(tables, schemas, since, until).items():
        if schemas[name].fluent is not None:  # changes that differed may be equal now
            table = identified(table.drop(ID), schemas[name], meanings[name]).select(table.columns)
        sides = [table.filter(pl.col(CHANGE) == sign) for sign in (-1, 1)]
        own = [column for column in table.columns if column != CHANGE]
        kept = [
            side.join(other, on=own, how="anti", nulls_equal=True, maintain_order="left")
            for side, other in (sides, sides[::-1])
        ]
        frames[name] = pl.concat(kept)
    return {name: table for name, table in frames.items() if table.height}


class RowVersions:
    """For each `@id`, the number of times that the row was withdrawn. Final rows may be forgotten."""

    def __init__(self) -> None:
        self._withdrawn: dict[str, tuple[int, int | None]] = {}  # the number of withdrawals, and the latest end
        self._look_at = _MANY

    def numbered(self, tables: Mapping[str, pl.DataFrame], stable: int) -> dict[str, pl.DataFrame]:
        """Add the column `@version` to tables of changes. The values of `@change` must be 1 or -1.

        `stable`: the time in microseconds up to which rows are final.
        """
        frames = {name: table.with_columns(self._versions(table)) for name, table in tables.items()}
        if len(self._withdrawn) > self._look_at:
            kept = {
                id: withdrawn
                for id, withdrawn in self._withdrawn.items()
                if withdrawn[1] is None or withdrawn[1] > stable
            }
            self._withdrawn, self._look_at = kept, max(_MANY, 2 * len(kept))
        return frames

    def times(self, id: str) -> int:
        """Return how many times the row with this `@id` was withdrawn."""
        return self._withdrawn.get(id, (0, None))[0]

    def _versions(self, table: pl.DataFrame) -> pl.Series:
        ends = table["end" if "end" in table.columns else "time"].to_list()
        versions = []
        for id, sign, end in zip(table[ID].to_list(), table[CHANGE].to_list(), ends):
            times, latest = self._withdrawn.get(id, (0, end))
            versions.append(2 * times + (1 if sign > 0 else 2))
            if sign < 0 or times:
                latest = None if end is None or latest is None else max(end, latest)
                self._withdrawn[id] = times + (sign < 0), latest
        return pl.Series(VERSION, versions, dtype=pl.Int64)
