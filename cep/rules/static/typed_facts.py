"""Declared facts, `fact opening(shop: string, from: time, until: time).`, and the check of facts and tables.

An attribute of type `time` contains either points in time, or times of day as durations since midnight. The values in
the facts and the table decide which of the two it contains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import polars as pl

from cep.core.errors import NOWHERE, CepError, Source, Span
from cep.core.literals import is_clock, read_clock, read_duration, read_time
from cep.core.schema import RecordFormat, TimeFormat
from cep.rules.expressions.checking import check
from cep.rules.expressions.typed import TICKS, Typed, a, coerced
from cep.rules.printing import time_format
from cep.rules.static.formatted_facts import of_format
from cep.rules.terms import Constant, Expression, StaticRule


@dataclass(frozen=True, slots=True)
class FactAttribute:
    """An attribute, `from: time? FORMAT "%d.%m.%Y"`.

    `format`: the format of the attribute's times in a table. It is ignored when two attributes are compared.
    """

    name: str
    type: str
    optional: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    format: TimeFormat | None = field(default=None, compare=False)

    def __str__(self) -> str:
        text = f"{self.name}: {self.type}{'?' if self.optional else ''}"
        return text + time_format(self.format, "epoch " if self.type == "time" else "")


@dataclass(frozen=True, slots=True)
class FactDeclaration:
    """A declaration, `fact name(attributes) FORMAT csv(...).`

    `records`: the format of the table. It is ignored when two declarations are compared.
    """

    name: str
    attributes: tuple[FactAttribute, ...]
    span: Span = field(default=NOWHERE, compare=False)
    records: RecordFormat | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.attributes))})"


class DeclaredFacts:
    """The facts and the table of one declared predicate. Both are checked against the declaration.

    - `types`: the types of the columns.
    - `table`: the table after its columns are converted, or None.
    - `errors`: the errors for values that do not match the declaration.
    """

    def __init__(
        self,
        declaration: FactDeclaration,
        facts: Sequence[StaticRule],
        table: pl.DataFrame | None,
        source: Source | None,
    ) -> None:
        self.declaration = declaration
        self.source = source
        self.errors: list[CepError] = []
        self.types = [attribute.type for attribute in declaration.attributes]
        self.table = None if table is None else self._named(table)
        columns = [] if self.table is None else [self._converted(position) for position in range(self.table.width)]
        for place, attribute in enumerate(declaration.attributes):
            if attribute.type == "time":
                self._resolve(place, [fact.arguments[place] for fact in facts], columns)
        for fact in facts:
            for place, argument in enumerate(fact.arguments):
                self._fits(place, argument)
        if self.table is not None and not self.errors:
            self.table = pl.DataFrame(columns)

    def error(self, message: str, span: Span, hint: str | None) -> None:
        self.errors.append(CepError(message, self.source, span, hint, "type"))

    def mismatch(self, place: int, type: str, argument: Expression) -> CepError:
        """Return the error for an argument that does not have the declared type. `place`: the argument's position.
        `type`: the type that it has."""
        attribute = self.declaration.attributes[place]
        name = f"`{attribute.name}` of `{self.declaration.name}`"
        message = f"{name} is declared {a(attribute.type)}, but here it is {a(type)}"
        hint = f"it is `{self.declaration}`"
        if attribute.type in TICKS and isinstance(argument, Constant) and type == "string":
            hint = f'a time of day is written `time("{argument.value}")`' if is_clock(str(argument.value)) else hint
        elif (attribute.type, type) == ("iri", "string"):
            hint = "an IRI is written `<...>` or `prefix:name`"
        return CepError(message, self.source, argument.span, hint, "type")

    def made(self, rule: StaticRule, typed: Sequence[Typed]) -> None:
        """Check the types of the values that a rule derives for the predicate. Raises CepError for a type that the
        declaration does not permit."""
        for place, (argument, typed_argument) in enumerate(zip(rule.arguments, typed)):
            if coerced(typed_argument, self.types[place]) is None:
                raise self.mismatch(place, typed_argument.type, argument)

    def _resolve(self, i: int, arguments: Sequence[Expression], columns: Sequence[pl.Series]) -> None:
        """Decide whether column `i` contains points in time or times of day. Report an error if it contains both."""
        kinds = {columns[i].dtype == pl.Duration} if columns and columns[i].len() else set[bool]()
        for argument in arguments:
            type = self._type(argument)
            if type is None or type not in TICKS:
                continue
            kinds.add(type == "duration")
            if len(kinds) > 1:
                name = self.declaration.attributes[i].name
                here, other = ("time of day", "point in time")[:: 1 if type == "duration" else -1]
                message = f"`{name}` of `{self.declaration.name}` is a {other} elsewhere, but a {here} here"
                hint = 'a time of day is `time("22:00")`, a point in time `2013-02-08T22:00:00Z`'
                self.error(message, argument.span, hint)
                return
        self.types[i] = "duration" if True in kinds else "time" if kinds else "any"  # without facts, both are possible

    def _type(self, argument: Expression) -> str | None:
        try:
            return check(argument, {}, self.source).type
        except CepError:
            return None

    def _fits(self, place: int, argument: Expression) -> None:
        try:
            typed = check(argument, {}, self.source)
        except CepError as error:
            self.errors.append(error)
            return
        declared = self.declaration.attributes[place].type
        mixed = declared == "time" and typed.type in TICKS  # mixtures are reported for the whole column
        if coerced(typed, declared) is None and not mixed:
            self.errors.append(self.mismatch(place, typed.type, argument))

    # --- tables ---

    def _named(self, table: pl.DataFrame) -> pl.DataFrame | None:
        """Select the columns that have the names of the attributes. If the table has other names, take its columns in
        order. Return None after a mistake."""
        names = [attribute.name for attribute in self.declaration.attributes]
        if (columns := by_name(names, table.columns)) is not None:
            return table.select(columns)
        if table.width == len(names):
            elsewhere = [
                (name, column)
                for place, column in enumerate(table.columns)
                if (name := next((name for name in names if _same(name, column)), None)) and names.index(name) != place
            ]
            if not elsewhere:
                return table
            name, column = elsewhere[0]
            lacking = next(name for name in names if by_name([name], table.columns) is None)
            self.error(
                f"the table of `{self.declaration.name}` has a column `{column}`, but none for `{lacking}`; "
                f"by the order of columns, `{column}` would hold `{names[table.columns.index(column)]}`: they are "
                + ", ".join(f"`{column}`" for column in table.columns),
                self.declaration.span,
                "use the same names for the columns and the attributes",
            )
            return None
        self.error(
            f"`{self.declaration.name}` has {len(names)} attributes, but its table has {table.width} columns: "
            + ", ".join(f"`{name}`" for name in table.columns),
            self.declaration.span, "use the names of the attributes for columns; other columns are then ignored",
        )  # fmt: skip
        return None

    def _converted(self, place: int) -> pl.Series:
        """Convert a column of the table to its declared type. Report values that do not fit."""
        assert self.table is not None, "there is a table"
        series, attribute = self.table.to_series(place), self.declaration.attributes[place]
        what = f"the table of `{self.declaration.name}`"
        missing = series.is_null()
        if missing.any() and not attribute.optional:
            row = missing.arg_max()
            message = f"row {(row or 0) + 1} of {what} has no `{attribute.name}`"
            self.error(message, attribute.span, f"`{attribute.name}: {attribute.type}?` allows it to be missing")
            return series
        if series.dtype.is_nested():
            message = f"`{attribute.name}` of {what} holds lists or structs, not values"
            flat = f'`data.unnest("{series.name}")` of polars or `pandas.json_normalize` make columns of structs'
            self.error(message, attribute.span, flat)
            return series
        converted_series = converted(series, attribute.type, attribute.format)
        wrong = ~missing if converted_series is None else converted_series.is_null() & ~missing
        if wrong.any():
            row = wrong.arg_max() or 0
            message = f"`{attribute.name}` in row {row + 1} of {what} is not a {attribute.type}: `{series[row]}`"
            hint = _WRITTEN.get(attribute.type)
            if attribute.type in ("int", "float") and "," in str(series[row]):
                hint = 'declare decimal commas: `FORMAT csv(separator: ";", decimal: ",")` behind the declaration'
            if attribute.type in TICKS and attribute.format is not None:
                hint = f"its declared FORMAT is `{attribute}`"
            self.error(message, attribute.span, hint)
        return series if converted_series is None else converted_series


def by_name(names: Sequence[str], columns: Sequence[str]) -> list[str] | None:
    """Return the columns whose names are equal to `names`, ignoring case. Return None if a name has no column, or
    several."""
    if set(names) <= set(columns):
        return list(names)
    matches = [[column for column in columns if _same(name, column)] for name in names]
    return [candidates[0] for candidates in matches] if all(len(candidates) == 1 for candidates in matches) else None


def _same(name: str, column: str) -> bool:
    return column.strip().casefold() == name.casefold()


_WRITTEN = {
    "time": "times are ISO 8601, `2013-02-08T18:00:00Z`, or all times of day, `06:30`; others are declared: "
    '`from: time FORMAT "%d.%m.%Y %H:%M"`',
    "duration": "durations are seconds, `PT3H` or `06:30`",
    "bool": "`true` or `false`, `yes` or `no`, `1` or `0`",
    **dict.fromkeys(
        ("int", "float"), "a missing value is an empty field or `NA`, its attribute has `?`: `max: float?`"
    ),
}


def converted(series: pl.Series, type: str, format: TimeFormat | None = None) -> pl.Series | None:
    """Convert a column of a table to a type. A value that does not fit becomes null. Return None if no value can fit.

    `format`: the format of times and durations, or None.
    """
    if format is not None and (formatted := of_format(series, type, format)) is not None:
        return formatted
    dtype = series.dtype
    if dtype == pl.Null:
        return series.cast(_dtypes()[type])
    text = dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum)
    if type in ("string", "iri"):
        return series.cast(pl.String) if text or (type == "string" and dtype.is_integer()) else None
    if type in ("int", "float"):
        if not (text or dtype.is_numeric()):
            return None
        numbers = series.cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False) if text else series
        if type == "float":
            return numbers.cast(pl.Float64)
        whole = series.cast(pl.String).str.strip_chars().cast(pl.Int64, strict=False) if text else numbers
        if whole.dtype.is_integer():
            return whole.cast(pl.Int64, strict=False)
        return whole.set((whole != whole.round()).fill_null(False), None).cast(pl.Int64, strict=False)
    if type == "bool":
        if text:
            words = series.cast(pl.String).str.strip_chars().str.to_lowercase()
            return words.replace_strict(_BOOLEANS, default=None, return_dtype=pl.Boolean)
        if dtype.is_integer():
            return series.replace_strict({0: False, 1: True}, default=None, return_dtype=pl.Boolean)
        return series if dtype == pl.Boolean else None
    if dtype == pl.Time:
        return (series.cast(pl.Int64) // 1_000).cast(pl.Duration("us"))  # from nanoseconds since midnight
    if dtype.is_numeric():
        return (series.cast(pl.Float64) * 1_000_000).round().cast(pl.Int64, strict=False).cast(_dtypes()[type])
    if type == "time" and dtype == pl.Duration:
        return series.cast(_dtypes()["duration"])
    if not text:
        fits = dtype == pl.Duration if type == "duration" else dtype in (pl.Date, pl.Datetime)
        return series.cast(_dtypes()[type]) if fits else None
    texts = series.cast(pl.String)
    if type == "time" and not any(map(is_clock, texts.drop_nulls().unique())):
        return _read(texts, read_time).cast(pl.Datetime("us"))
    return _read(texts, _duration).cast(pl.Duration("us"))


_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@cache
def _dtypes() -> Mapping[str, pl.DataType]:
    return {
        "int": pl.Int64(), "float": pl.Float64(), "bool": pl.Boolean(), "string": pl.String(), "iri": pl.String(),
        "time": pl.Datetime("us"), "duration": pl.Duration("us"),
    }  # fmt: skip


def _read(texts: pl.Series, reader: Callable[[str], int]) -> pl.Series:
    known = dict(_each(texts.drop_nulls().unique(), reader))
    return texts.replace_strict(known, default=None, return_dtype=pl.Int64)


def _each(texts: pl.Series, reader: Callable[[str], int]) -> Iterator[tuple[str, int | None]]:
    for text in texts:
        try:
            yield text, reader(text.strip())
        except CepError:
            yield text, None


def _duration(text: str) -> int:
    return read_duration(text) if text.startswith("P") else read_clock(text)
