"""The results of a program, as events and as tables of polars, pandas and Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import polars as pl
import pyarrow as pa

from cep.core.errors import CepError
from cep.core.extras import install_command
from cep.core.schema import Schema
from cep.core.suggest import nearest
from cep.derived_page import page
from cep.events import Event
from cep.runtime.decode import events_of
from cep.runtime.encode import RefusedRow

if TYPE_CHECKING:
    import pandas as pd

_TIME = pl.Datetime("us", "UTC")
_DTYPES: Mapping[str, pl.DataType] = {
    "int": pl.Int64(),
    "float": pl.Float64(),
    "bool": pl.Boolean(),
    "string": pl.String(),
    "iri": pl.String(),
    "time": _TIME,
    "duration": pl.Duration("us"),
}


class Derived:
    """The events that a program derived: a sequence sorted by (end, start, type, arguments), and one table per event
    type.

    If `found` is the result, `found["warning"]` is a polars table. `found.to_pandas()` and `found.to_arrow()` convert a
    table, which must be named if there are several. If there is only one, `found` itself is an Arrow stream, so
    `pl.DataFrame(found)` works.

    A table has one column per attribute, and the columns `start` and `end`: UTC timestamps in microseconds. An
    occurrence covers the time from its start to its end, including both. Missing values are null. The table exists even
    if nothing was derived. An attribute whose values have different types becomes a column of text.

    The table of a fluent contains the intervals in which the fluent holds, and has a column `bounds`. The `start` or
    `end` of such an interval is null if the interval is unbounded on that side. The sequence does not contain fluents.
    """

    def __init__(
        self,
        tables: Mapping[str, pl.DataFrame],
        schemas: Mapping[str, Schema],
        dead: Iterable[RefusedRow] = (),
    ) -> None:
        """Wrap an engine's tables, whose times are in microseconds.

        `schemas`: the schemas of all events and fluents that may be derived.
        """
        self._given, self._schemas = tables, schemas
        self._dead = tuple(dead)

    # --- as tables ---

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all event types and fluents that the program may derive, even if nothing was derived for
        them."""
        return tuple(self._schemas)

    @property
    def counts(self) -> dict[str, int]:
        """The number of occurrences of each event type."""
        return {name: self._given[name].height if name in self._given else 0 for name in self._schemas}

    @cached_property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables, by event type."""
        return {name: _table(self._given.get(name), schema) for name, schema in self._schemas.items()}

    def to_polars(self, name: str | None = None) -> pl.DataFrame:
        """Return the table of an event type. Without a name, return the only table.

        Raises CepError if no name is passed and the number of tables is not one.
        """
        return self.tables[self._one(name)]

    def to_arrow(self, name: str | None = None) -> pa.Table:
        """Return the table of an event type as a pyarrow table, which shares the memory of the polars table. Without a
        name, return the only table."""
        return self.to_polars(name).to_arrow()

    def to_pandas(self, name: str | None = None) -> pd.DataFrame:
        """Return a table as a pandas data frame. Times have the type `datetime64[us, UTC]`.

        Columns of integers or booleans that have missing values have the type `Int64` or `boolean`.

        Raises:
            CepError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise CepError("pandas is not installed", hint=install_command("pandas"), code="input") from None
        table = self.to_polars(name)
        nullable = {pl.Int64(): pd.Int64Dtype(), pl.Boolean(): pd.BooleanDtype()}
        frame: pd.DataFrame = table.to_arrow().to_pandas()
        for column in table:
            if column.dtype in nullable and column.null_count():
                frame[column.name] = pd.array(column.to_list(), dtype=nullable[column.dtype])
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the only table as an Arrow stream. Raises CepError unless there is exactly one table."""
        return self.to_polars().__arrow_c_stream__(requested_schema)

    @property
    def dead(self) -> pl.DataFrame:
        """The rejected input rows, as a table with these columns:

        - `event`: the event type, or null if it is unknown.
        - `row`: the index of the row, counted from 0 in the event's data.
        - `code`: a short name of the reason.
        - `reason`: the reason in words.
        """
        rows = [(row.type or None, row.row, row.code, row.reason) for row in self._dead]
        schema = {"event": pl.String, "row": pl.Int64, "code": pl.String, "reason": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _one(self, name: str | None) -> str:
        names = ", ".join(self.names) or "none"
        if name is None:
            if len(self.names) == 1:
                return self.names[0]
            example = f'`found["{self.names[-1]}"]`; ' if self.names else ""
            raise CepError(
                f"the program derives {len(self.names)} events: say which one you mean",
                hint=f"name it: {example}derived events are {names}",
                code="name",
            )
        if name not in self._schemas:
            near = nearest(name, self.names)
            hint = f"derived events are {names}" + (f" (did you mean `{near}`?)" if near else "")
            raise CepError(f"the program derives no event `{name}`", hint=hint, code="name")
        return name

    # --- as events ---

    @cached_property
    def _events(self) -> list[Event]:
        return events_of(self._given, self._schemas)

    def __len__(self) -> int:
        return sum(table.height for name, table in self._given.items() if self._schemas[name].fluent is None)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    @overload
    def __getitem__(self, key: str) -> pl.DataFrame: ...
    @overload
    def __getitem__(self, key: int) -> Event: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Event]: ...
    def __getitem__(self, key: str | int | slice) -> pl.DataFrame | Event | Sequence[Event]:
        """Return the table of an event type, if the key is its name, or the event at an index."""
        return self.to_polars(key) if isinstance(key, str) else self._events[key]

    def __eq__(self, other: object) -> bool:
        """Return True if `other` contains the same events in the same order. `other` may also be a list or tuple of
        events."""
        if not isinstance(other, Derived | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(Event.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in self.counts.items())
        text = f"{len(self)} derived event{'' if len(self) == 1 else 's'}: {counts or 'none'}"
        if self._dead:
            first = self._dead[0]
            text += f"\n{len(self._dead)} row{'' if len(self._dead) == 1 else 's'} could not be read, the first is row "
            text += f"{first.row}: {first.reason}"
        return f"<{text}>"

    def _repr_html_(self) -> str:
        counts = ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
        dead = [f"row {row.row}: {row.reason}" for row in self._dead]
        return page(f"derived: {counts or 'nothing'}", self.tables, dead)


def _table(table: pl.DataFrame | None, schema: Schema) -> pl.DataFrame:
    """Convert an engine's table to common types. If the engine derived nothing (None), return an empty table."""
    if table is None:
        columns = {attribute.name: _DTYPES.get(attribute.type, pl.Null()) for attribute in schema.attributes}
        more = {} if schema.fluent is None else {"bounds": pl.String()}
        return pl.DataFrame(schema={"start": _TIME, "end": _TIME, **columns, **more})
    shown_columns = [table["start"].cast(_TIME), table["end"].cast(_TIME)]
    for attribute in schema.attributes:
        column = table[attribute.name]
        if column.dtype == pl.Object:
            texts = [None if value is None else _text(value) for value in column.to_list()]
            column = pl.Series(attribute.name, texts, dtype=pl.String)
        elif attribute.type in ("time", "duration"):
            column = column.cast(_DTYPES[attribute.type])
        shown_columns.append(column)
    return pl.DataFrame([*shown_columns, *([] if schema.fluent is None else [table["bounds"]])])


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
