"""The output of an engine: derived events and fluents, in the form that the options request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.errors import CepError, Source, Span
from cep.core.fluents import (
    BEFORE,
    BEGINS,
    BEGINS_AT,
    EDGE,
    EDGES,
    ENDS,
    ENDS_AT,
    KINDS,
    SINCE_EVER,
    beside,
)
from cep.core.identity import ID, TableIdentities, identified, identities, told_apart
from cep.core.literals import write_time
from cep.core.relation import END, FIRST, Table, concat, rows
from cep.core.schema import CHANGE, NUMBER, Schema
from cep.core.values import Pool
from cep.operators.goals.lineage import Lineage, numbers
from cep.plan.equal import equal_records
from cep.plan.event_schemas import helping_tables, outputs_of
from cep.plan.plan import Plan
from cep.runtime.buckets import stacked
from cep.runtime.decode import FEW, DerivedTables, argument_series, frames, places, table_frame
from cep.runtime.revision.row_window import RowChanges


def refuse_impossible(tables: Mapping[str, pl.DataFrame], impossible: Mapping[str, Span], source: Source) -> None:
    """Raise CepError if a rule has derived a forbidden state. The message names the rule, its values and the time."""
    for name, span in impossible.items():
        if name not in tables or not tables[name].height:
            continue
        first = tables[name].sort("start", "end", nulls_last=False).row(0, named=True)
        start, end, bounds = first.pop("start"), first.pop("end"), first.pop("bounds", "[]")
        first.pop("what", None)  # a column of tables of beginnings and ends
        opening = "-inf" if start is None else write_time(start)
        closing = "inf" if end is None else write_time(end)
        when = opening if start == end and start is not None else f"{bounds[0]}{opening}, {closing}{bounds[1]}"
        values = ", ".join(f"{variable.upper()} = {value}" for variable, value in first.items())
        shown = f" with {values}" if values else ""
        message = f"the input contradicts this rule: its body holds{shown} at {when}"
        hint = "this rule must never derive anything: correct its input, or the rules that it uses"
        raise CepError(message, source, span, hint, "inconsistent")


Ints = NDArray[np.int64]
BEGINNINGS = [BEGINS, BEGINS_AT, BEFORE]
_BEGINS, _CLOSED = (np.zeros(KINDS, np.int64) for _ in range(2))
_CHANGES = np.zeros(KINDS, np.bool_)
_BEGINS[BEGINNINGS] = _CLOSED[[BEGINS_AT, ENDS]] = 1
_CHANGES[[*BEGINNINGS, ENDS, ENDS_AT]] = True
_WORDS, _HALVES = ("ends", "begins"), (")", "]", "(", "[")
"""The words for the end and the beginning of an interval, and the brackets. A bracket tells if the interval contains
the time at which it ends or begins.

The index of a bracket is 2 for a beginning, plus 1 if the interval contains this time.
"""
FEW_WORDS = 32
"""The maximum number of changes whose words are looked up one by one, because that is faster for so few."""


def as_changes(derived_frames: Frames, schemas: Mapping[str, Schema], outputs: Mapping[str, Schema]) -> Frames:
    """Replace tables of fluents' beginnings and ends by the tables of changes that are output (`changed`). Other tables
    stay as they are.

    - `derived_frames`: frames (see `cep.runtime.decode.frames`).
    - `schemas`: the schemas of these frames.
    - `outputs`: the schemas of the output.
    """
    out = {}
    for name, table in derived_frames.items():
        fluent = schemas[name].fluent
        if fluent is None:
            out[name] = table
        elif (change_frame := changed(table, outputs[fluent.name])).height:
            out[fluent.name] = change_frame
    return out


def with_begun(derived_frames: Frames, schemas: Mapping[str, Schema], outputs: Mapping[str, Schema]) -> Frames:
    """Add the intervals that have begun to the tables of fluents in `derived_frames` (see `cep.runtime.decode.frames`).
    An interval that also ends in the same step is not added.

    The added intervals have no end, and come before the complete ones. `schemas`: the schemas of the frames. `outputs`:
    the schemas of the output.
    """
    out = {name: table for name, table in derived_frames.items() if not _of_edges(schemas[name])}
    for name, table in derived_frames.items():
        fluent = schemas[name].fluent
        if fluent is None or not _of_edges(schemas[name]):
            continue
        what = beside("what", [attribute.name for attribute in outputs[fluent.name].attributes])
        begun = table.filter(pl.col(what).is_in(BEGINNINGS))
        start = pl.when(pl.col("start") == SINCE_EVER).then(None).otherwise(pl.col("start"))
        closed = pl.col(what) == BEGINS_AT
        bounds = pl.when(closed).then(pl.lit("[)")).otherwise(pl.lit("()"))
        begun = begun.with_columns(start.alias("start"), pl.lit(None, pl.Int64).alias("end"), bounds.alias("bounds"))
        key = ["start", *(attribute.name for attribute in outputs[fluent.name].attributes)]
        whole = out.get(fluent.name)
        if whole is not None:
            begun = begun.join(whole, on=key, how="anti", nulls_equal=True, maintain_order="left")
            begun = pl.concat([begun.select(whole.columns), whole])
        if begun.height:
            out[fluent.name] = begun.drop(what, strict=False)
    return out


def _of_edges(schema: Schema) -> bool:
    return schema.fluent is not None and schema.fluent.part == EDGES


def changes_of(runs: DerivedTables, schemas: Mapping[str, Schema], outputs: Mapping[str, Schema], pool: Pool) -> Frames:
    """Convert the tables of a step directly to the frames that `as_changes` would return for them."""

    def as_frame(table: Table, schema: Schema, pool: Pool) -> pl.DataFrame:
        if schema.fluent is None:
            return table_frame(table, schema, pool)
        return _change_frame(table, schema, outputs[schema.fluent.name], pool)

    change_frames = {}
    for name, frame in frames(runs, schemas, pool, as_frame).items():
        fluent = schemas[name].fluent
        if fluent is None:
            change_frames[name] = frame
        elif frame.height:
            change_frames[fluent.name] = frame
    return change_frames


def _change_frame(table: Table, schema: Schema, fluent_schema: Schema, pool: Pool) -> pl.DataFrame:
    types = {attribute.name: (place, attribute.type) for place, attribute in enumerate(schema.attributes)}
    what, _ = types[beside("what", [attribute.name for attribute in fluent_schema.attributes])]
    some = _CHANGES[table[FIRST + what]]
    if not some.all():
        table = table[:, some]
    attributes = []
    for attribute in fluent_schema.attributes:
        place, type = types[attribute.name]
        attributes.append(argument_series(table, place, type, pool).alias(attribute.name))
    return _written(table[FIRST + what], table[END], fluent_schema, attributes)


def changed(table: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Convert a frame of a fluent's beginnings and ends (see `cep.runtime.decode.frames`) to the changes that are
    output.

    The columns are `@edge`, `time`, the attributes and `bounds`. The time is null if the interval has no beginning.
    `bounds` contains one bracket of the interval, the one on the side that begins or ends.
    """
    what = beside("what", [attribute.name for attribute in schema.attributes])
    kinds = table[what].to_numpy()
    if not _CHANGES[kinds].all():
        table = table.filter(pl.Series(_CHANGES[kinds]))
        kinds = table[what].to_numpy()
    attributes = [table[attribute.name] for attribute in schema.attributes]
    known = {EDGE, "time", "bounds", what, "start", "end", *(attribute.name for attribute in attributes)}
    more = [table[name] for name in table.columns if name not in known]
    return _written(kinds, table["end"].to_numpy(), schema, attributes, more)


def _written(
    kinds: Ints, end: Ints, schema: Schema, attributes: Sequence[pl.Series], more: Sequence[pl.Series] = ()
) -> pl.DataFrame:
    late = 0 if schema.fluent is None else schema.fluent.late
    time, ever = pl.Series("time", end - late if late else end), (end == SINCE_EVER) | (kinds == BEFORE)
    if ever.any():
        time = time.set(pl.Series(ever), None)
    begins = _BEGINS[kinds]
    edge, bounds = _said(EDGE, _WORDS, begins), _said("bounds", _HALVES, 2 * begins + _CLOSED[kinds])
    return pl.DataFrame([edge, time, *attributes, bounds, *more])


def _said(name: str, words: Sequence[str], which: Ints) -> pl.Series:
    if len(which) <= FEW_WORDS:  # for so few rows, this is faster than `gather`
        return pl.Series(name, [words[number] for number in which.tolist()], dtype=pl.String)
    return pl.Series(name, words, dtype=pl.String).gather(which)


Frames: TypeAlias = "dict[str, pl.DataFrame]"
Origins: TypeAlias = "Callable[[str, Table], Sequence[pl.Series]]"
"""A function that returns those of the columns `because` and `constituents` that the output has, for occurrences of an
event."""


class EngineOutput:
    """A converter from derived tables to the output of an engine.

    - `schemas`: the schemas of the output's events and fluents.
    - `alerts`: the names of the tables of alerts, which the output keeps separate.
    - `lineage`: the lineage of occurrences, which also numbers equal occurrences.
    """

    def __init__(self, plan: Plan, pool: Pool, alerts: Collection[str], lineage: Lineage | None) -> None:
        self.plan, self.pool, self._lineage = plan, pool, lineage
        self._several = equal_records(plan).several
        rules = plan.rules
        fluents = {name: schema.fluent for name, schema in plan.schemas.items() if schema.fluent is not None}
        self._hidden = helping_tables(plan)
        self._impossible: dict[str, Span] = {
            name: rules.impossible[fluent.name] for name, fluent in fluents.items() if fluent.name in rules.impossible
        }
        self.schemas: dict[str, Schema] = outputs_of(plan, alerts)
        self._identities: dict[str, TableIdentities] = {}

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the derived tables that are output. Tables that only help to derive others are excluded."""
        return tuple(name for name in self.plan.derived if name not in self._hidden)

    def shown(self, derived_tables: Mapping[str, list[Table]]) -> dict[str, list[Table]]:
        """Remove the tables that only serve to derive other tables."""
        return {name: tables for name, tables in derived_tables.items() if name not in self._hidden}

    def frames(self, derived_tables: Mapping[str, list[Table]]) -> Frames:
        """Convert tables to frames. Raises CepError if a forbidden state was derived."""
        out = frames(derived_tables, self.plan.schemas, self.pool)
        if self._impossible:
            rules = {name: self._impossible[name] for name in out if name in self._impossible}
            refuse_impossible(out, rules, self.plan.source)
        return out

    def changed(
        self,
        changes: Mapping[str, RowChanges],
        meanings: Mapping[str, str] | None,
        lineage: Origins | None = None,
        holding: Callable[[], Mapping[str, list[Table]]] = dict,
    ) -> Frames:
        """Return withdrawn rows and then added rows, with the columns `@change` and `@id`.

        - `changes`: the changes of derived tables, by event.
        - `meanings`: the fingerprints of events, for the `@id`. It is None if no rows are ever withdrawn. Added rows
          are then returned unchanged.
        - `lineage`: a function that returns the columns of lineage. A row that is withdrawn and added with the same
          lineage is left out.
        - `holding`: a function that returns the open intervals of fluents.
        """
        if lineage is None and meanings is not None and not (self.plan.changes or self.plan.begins):
            return self._row_by_row(changes, meanings)
        both: list[Frames] = []
        for sign, part in ((-1, "going"), (1, "coming")):
            tables = {name: getattr(row_changes, part) for name, row_changes in changes.items()}
            tables = {name: table for name, table in tables.items() if rows(table) and name not in self._hidden}
            if not tables:
                both.append({})
                continue
            out = self.frames({name: [table] for name, table in tables.items()})
            if lineage is not None:
                out = {name: table.with_columns(lineage(name, tables[name])) for name, table in out.items()}
            out = self.as_asked(out)
            if meanings is not None:
                for name, frame in out.items():
                    out[name] = frame.hstack(self._named(name, frame, tables, meanings) + _signs(sign, frame.height))
            both.append(out)
        if meanings is not None and self.plan.begins:
            self._add_unended(both, holding, meanings, lineage)
        if lineage is not None:
            both = list(_apart(*both))
        if not both[0]:
            return {name: both[1][name] for name in sorted(both[1])}
        names = sorted({name for out in both for name in out})
        return {name: _one_after_another([out[name] for out in both if name in out]) for name in names}

    def _row_by_row(self, changes: Mapping[str, RowChanges], meanings: Mapping[str, str]) -> Frames:
        """Return the same result as `changed`, but convert the withdrawn and the added rows together, which is faster.

        This is possible only for output without lineage, in which each table row becomes one output row.
        """
        shown = {name: changes[name] for name in sorted(changes) if name not in self._hidden}
        tables = {name: concat([row_changes.going, row_changes.coming]) for name, row_changes in shown.items()}
        out = self.frames({name: [table] for name, table in tables.items()})
        for name, frame in out.items():
            going, coming = rows(shown[name].going), rows(shown[name].coming)
            if going and coming:
                signs = [pl.Series(CHANGE, np.repeat(np.array([-1, 1], np.int8), [going, coming]))]
            else:
                signs = _signs(-1 if going else 1, going + coming)
            out[name] = frame.hstack(self._named(name, frame, tables, meanings) + signs)
        return out

    def _add_unended(
        self,
        both: list[Frames],
        holding: Callable[[], Mapping[str, list[Table]]],
        meanings: Mapping[str, str],
        lineage: Origins | None,
    ) -> None:
        """Add an open interval for each interval that has only lost its end. The complete interval was withdrawn.

        `both`: the withdrawn rows and the added rows.
        """
        withdrawn, added = both
        gone: dict[str, pl.Series] = {}
        for name, table in withdrawn.items():
            if name in self.schemas and self.schemas[name].fluent is not None:
                again = added[name][ID] if name in added else pl.Series([], dtype=pl.String)
                ids = table.filter(pl.col("end").is_not_null())[ID]
                gone[name] = ids.filter(~ids.is_in(again.implode()))
        held = holding() if any(map(len, gone.values())) else {}
        for name in sorted(held.keys() & gone.keys()):
            (rows_,) = held[name]
            out = frames({name: [rows_]}, self.plan.schemas, self.pool)[name]
            out = out if lineage is None else out.with_columns(lineage(name, rows_))
            named = identified(out, self.schemas[name], meanings[name])
            out = named.filter(pl.col(ID).is_in(gone[name].implode()))
            out = out.hstack(_signs(1, out.height))
            if out.height:
                added[name] = _one_after_another([*([added[name]] if name in added else []), out])

    def _named(
        self, name: str, frame: pl.DataFrame, tables: Mapping[str, Table], meanings: Mapping[str, str]
    ) -> list[pl.Series]:
        if name not in self.schemas:
            return []
        if name not in self._identities:
            self._identities[name] = TableIdentities(self.schemas[name], meanings[name])
        fluent = self.schemas[name].fluent is not None
        if fluent and (self.plan.changes or self.plan.begins):  # then the rows of frames differ from those of tables
            return [identities(frame, self.schemas[name], meanings[name])]
        ids = self._identities[name].of(tables[name], frame)
        return [told_apart(ids, numbers(tables[name], self._lineage)) if name in self._several else ids]

    def handed(self, changes: Mapping[str, RowChanges], withdraws: bool, lineage: Origins | None = None) -> Frames:
        """Convert the output of a stage for other stages. The frames also have the columns by which rows are sorted.

        `withdraws`: True to add the column `@change`, because rows may be withdrawn. `lineage`: a function that returns
        the columns of lineage, which are added. If the lineage of a row changes, the row is output twice: as a
        withdrawn row and as an added row.
        """
        halves: dict[str, Frames] = {}
        for sign, part in ((-1, "going"), (1, "coming")):
            tables = {name: getattr(row_changes, part) for name, row_changes in changes.items()}
            handed_frames = self.frames(self.shown({name: [table] for name, table in tables.items() if rows(table)}))
            for name, table in handed_frames.items():
                where = [] if lineage is None else lineage(name, tables[name])
                signs = _signs(sign, table.height) if withdraws else []
                halves.setdefault(name, {})[part] = self.placed(name, table, tables[name]).with_columns(*where, *signs)
        return {name: stacked(list(both.values())) for name, both in sorted(halves.items())}

    def changes_asked(self, changes: Frames, meanings: Mapping[str, str]) -> Frames:
        """Convert frames with `@change` to the form that the options request. Withdrawn rows are first. Each row gets
        its `@id`."""
        both: list[Frames] = []
        for sign in (-1, 1):
            parts = {name: table.filter(pl.col(CHANGE) == sign).drop(CHANGE) for name, table in changes.items()}
            out = self.as_asked({name: table for name, table in parts.items() if table.height})
            for name, frame in out.items():
                named = identified(frame, self.schemas[name], meanings[name]) if name in self.schemas else frame
                out[name] = named.hstack(_signs(sign, frame.height))
            both.append(out)
        names = sorted({name for out in both for name in out})
        return {name: _one_after_another([out[name] for out in both if name in out]) for name in names}

    def placed(self, name: str, frame: pl.DataFrame, table: Table) -> pl.DataFrame:
        """Add the columns by which the rows of a stage are sorted. If equal rows count separately, also add a column
        with the number of equal rows before each row."""
        number = [pl.Series(NUMBER, numbers(table, self._lineage))] if name in self._several else []
        return frame.with_columns(*places(table), *number)

    def as_asked(self, out: Frames) -> Frames:
        """Convert the frames of fluents to the form that the options request: intervals only, intervals with their
        beginnings, or changes."""
        if self.plan.changes:
            return as_changes(out, self.plan.schemas, self.schemas)
        return with_begun(out, self.plan.schemas, self.schemas) if self.plan.begins else out

    def of_step(self, derived_tables: Mapping[str, list[Table]]) -> Frames:
        """Return the output of a step in the form that the options request. Raises CepError if a forbidden state was
        derived."""
        if self.plan.changes and not self._impossible:
            return changes_of(derived_tables, self.plan.schemas, self.schemas, self.pool)
        return self.as_asked(self.frames(derived_tables))


def _one_after_another(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    columns = tables[0].columns
    if len(tables) == 1:
        return tables[0]
    return pl.concat([table if table.columns == columns else table.select(columns) for table in tables])


def _signs(sign: int, count: int) -> list[pl.Series]:
    if count > FEW:
        return [_same_sign(sign).new_from_index(0, count)]
    return [_same_sign(sign)[:count]]


def _apart(withdrawn: Frames, added: Frames) -> tuple[Frames, Frames]:
    """Remove, for each event, the rows that are in both tables. Return the remaining rows."""

    def without(table: pl.DataFrame, other: pl.DataFrame | None) -> pl.DataFrame:
        own = [column for column in table.columns if column != CHANGE]
        return table if other is None else table.join(other, own, "anti", nulls_equal=True, maintain_order="left")

    both = (withdrawn, added), (added, withdrawn)
    first, second = ({name: without(t, others.get(name)) for name, t in tables.items()} for tables, others in both)
    return {n: t for n, t in first.items() if t.height}, {n: t for n, t in second.items() if t.height}


@cache
def _same_sign(sign: int) -> pl.Series:
    return pl.Series(CHANGE, [sign], dtype=pl.Int8).new_from_index(0, FEW)
