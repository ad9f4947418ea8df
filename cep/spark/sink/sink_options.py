"""The options of a file sink: where files go, what they hold, and how long they stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.core.schema import Schema
from cep.spark.storage.layout import SPARK


@dataclass(frozen=True, slots=True)
class FileSinkOptions:
    """`folder`: where files go; `format`: jsonl or parquet. `schemas`: of the events that are written; several buckets
    may derive identical occurrences of the `merged` ones. `keep`: for how many microseconds of event time files stay,
    None: for good; `passing`: the reader removes files. `holder`: the run that holds the folder `checkpoint`, where
    there is one; `spark`: the folder of Spark's own files there. `first`: the number of the query's first micro-batch
    in the log. `times`: how they are written, `iso` or `seconds`."""

    folder: str
    format: str
    schemas: Mapping[str, Schema]
    merged: frozenset[str]
    keep: int | None = None
    checkpoint: str | None = None
    holder: str = ""
    passing: bool = False
    spark: str = SPARK
    first: int = 0
    times: str = "iso"
