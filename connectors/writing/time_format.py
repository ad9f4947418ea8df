"""Choice of the format in which an output writes times: that of the input, ISO 8601, or numbers in a unit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from fractions import Fraction
from itertools import islice

from cep.connectors.files import read_one
from cep.connectors.formats.influx_points import timed
from cep.connectors.formats.known import FORMATS
from cep.connectors.inputs import Input
from cep.connectors.records.times import ISO, SECOND, count_size, form_of_ticks
from cep.connectors.records.times import form as written_form
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.core.storage.urls import is_url

# the bytes of text and the rows of Parquet read at a time, and the number of times
_BYTES, _ROWS, _TIMES = 1 << 16, 1 << 10, 4


def form(sources: Sequence[Input], schemas: Mapping[str, Schema]) -> str | None:
    """Return the time format of the first readable record (see `cep.connectors.records.times`). Return None if there is
    no readable record.

    Only the beginning of each file is read: at most 256 KiB of text, or four thousand rows. Pipes are skipped, because
    they cannot be read again.
    """
    for source in sources:
        if source.address is None and (is_url(source.path) or os.path.isfile(source.path)):
            with suppress(CepError):  # reported when the whole file is read
                if (times := _of(source, schemas)) is not None:
                    return times
    return None


def number_size(sources: Sequence[Input], schemas: Mapping[str, Schema]) -> Fraction | None:
    """Return the number of microseconds in the unit of the inputs' numeric times. The formats and declarations of the
    inputs define this unit.

    The unit is one second if no input has times that are numbers. Return None if the inputs use different units. If
    there are no inputs, use the declarations of all events.
    """
    read = [(source.format, name) for source in sources for name in ((source.type,) if source.type else schemas)]
    if not read:
        read = [(schema.records.name if schema.records else "jsonl", name) for name, schema in schemas.items()]
    sizes = {count_size(times) for format, name in read if (times := _numbers(format, schemas[name])) is not None}
    if len(sizes) > 1:
        return None
    return next(iter(sizes), Fraction(SECOND))


def _numbers(format: str, schema: Schema) -> str | None:
    if FORMATS[format].shape == "clauses":
        tick = schema.records.option("tick") if schema.records is not None else None
        return form_of_ticks(int(tick or SECOND))
    if not FORMATS[format].numeric_times:
        return None
    times = written_form((timed(schema) if format == "influx" else schema).format, number=True)
    return None if times == ISO else times


def _of(source: Input, schemas: Mapping[str, Schema]) -> str | None:
    if source.known.shape == "graph":
        return ISO
    with closing(read_one(source, schemas, chunk=_BYTES, rows=_ROWS)) as batches:
        return next((batch.times for batch in islice(batches, _TIMES) if batch.times), None)
