"""A writer of fluents and events in RTEC's syntax, such as `holdsFor(rich(chris)=true, [(14,20)]).`

An interval (S,E) contains the ticks from S up to, but not including, E.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction

import polars as pl

from cep.connectors.addresses import live
from cep.connectors.writing.writers import Writer
from cep.core.errors import CepError
from cep.core.literals import SECOND
from cep.core.schema import Schema
from cep.events import Value

_ATOM = re.compile(r"[a-z]\w*", re.ASCII)


def tick_of(inputs: Mapping[str, Schema]) -> int:
    """Return the length of a tick in microseconds that the inputs' declarations define, by default one second."""
    ticks = (schema.records.option("tick") for schema in inputs.values() if schema.records is not None)
    return int(next((tick for tick in ticks if tick), SECOND))


class RtecWriter(Writer):
    """A writer of derived events to the file `path`, or to standard output (`-`). Each row becomes a clause."""

    def __init__(
        self, path: str, schemas: Mapping[str, Schema], tick: int, opening: Callable[[str], None] | None = None
    ) -> None:
        """Open the output. Raises CepError if the path is the address of a topic, if the path is a folder, or if the
        file cannot be written."""
        if live(path) or path.endswith("/"):
            raise CepError(
                "--output-format rtec: all events go to one file", hint="use `--output found.txt`", code="output"
            )
        super().__init__(path, schemas, format="jsonl", opening=opening)
        self._tick = tick

    def _lines(self, tables: Mapping[str, pl.DataFrame], times: str | None = None) -> bytes:
        rows = [
            (row["end"] is None, row["end"] or 0, row["start"] or 0, self._clause(self._schemas[name], row))
            for name, table in tables.items()
            for row in table.iter_rows(named=True)
        ]
        return "".join(f"{clause}\n" for *_, clause in sorted(rows)).encode()

    def _clause(self, schema: Schema, row: Mapping[str, Value]) -> str:
        names = [attribute.name for attribute in schema.attributes if attribute.name != "bounds"]
        values = [_term(row[name]) for name in names]
        if schema.fluent is None:
            return f"happensAt({_applied(schema.name, values)}, {self._ticks(row['end'], 0)})."
        valued = schema.fluent.valued
        term = _applied(schema.name, values[:-1] if valued else values)
        value = values[-1] if valued else "true"
        bounds = str(row["bounds"])
        start, end = row["start"], row["end"]
        first = "-inf" if start is None else self._ticks(start, bounds[0] == "(")
        last = "inf" if end is None else self._ticks(end, bounds[1] == "]")
        return f"holdsFor({term}={value}, [({first},{last})])."

    def _ticks(self, time: Value, more: int) -> str:
        assert isinstance(time, int), "times are microseconds"
        exact = Fraction(time, self._tick) + more
        return str(exact.numerator) if exact.denominator == 1 else f"{float(exact)}"


def _applied(name: str, values: list[str]) -> str:
    return f"{_term(name)}({','.join(values)})" if values else _term(name)


def _term(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    text = "null" if value is None else str(value)
    if _ATOM.fullmatch(text) or re.fullmatch(r"-?\d+(\.\d+)?", text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
