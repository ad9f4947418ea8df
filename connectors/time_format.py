"""The form in which times are written: that of the input, ISO 8601 or counts of a unit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice

from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.core.storage.urls import is_url
from connectors.files import read_one
from connectors.inputs import RDF, Input
from connectors.times import ISO

_BYTES, _ROWS, _TIMES = 1 << 16, 1 << 10, 16  # of text or Parquet, and how often that much is read


def form(found: Sequence[Input], schemas: Mapping[str, Schema]) -> str | None:
    """The form of the times of the first record of the first file (`connectors.times`); None: no file says it.

    Only records count that can be read, and that stand at the beginning of a file (a mebibyte of text, 16 thousand
    rows); a file without one is passed over. A pipe is not looked at: it could not be read again.
    """
    for one in found:
        if one.address is None and (is_url(one.path) or os.path.isfile(one.path)):
            with suppress(CepError):  # reported where the file is read whole
                if (times := _of(one, schemas)) is not None:
                    return times
    return None


def _of(one: Input, schemas: Mapping[str, Schema]) -> str | None:
    if one.format in RDF:
        return ISO
    with closing(read_one(one, schemas, chunk=_BYTES, rows=_ROWS)) as batches:
        return next((batch.times for batch in islice(batches, _TIMES) if batch.times), None)
