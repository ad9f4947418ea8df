"""The folder of a sink: which files are of finished micro-batches, and away with those that a killed run left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from cep.errors import CepError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cep.spark.job import Job

LOG = "_spark_metadata"


def committed(folder: Path) -> set[Path]:
    """The files of the sink's log."""
    found = set()
    for file in (folder / LOG).glob("[0-9]*"):
        for line in file.read_text(encoding="utf-8").splitlines()[1:]:
            found.add(Path(unquote(urlparse(json.loads(line)["path"]).path)))
    return found


def sweep(folder: Path, begun: bool = False) -> list[Path]:
    """Remove the files that no finished micro-batch has written, so that whoever reads the folder finds each event
    once. Not while a query runs. CepError: micro-batches have finished (`begun`), and which files are theirs is
    lost."""
    if not folder.is_dir():
        return []
    if begun and not (folder / LOG).is_dir() and any(_written(folder)):
        hint = f"put {LOG} back, or move the files elsewhere if they are to stay as they are"
        raise CepError(f"--output: {folder} has no {LOG}, which says which files count", hint=hint, code="checkpoint")
    kept = {path.resolve() for path in committed(folder)}
    gone = [path for path in sorted(_written(folder)) if path.resolve() not in kept]
    for path in gone:
        path.unlink()
    return gone


def rows(spark: SparkSession, job: Job) -> Counter[str]:
    """How many events of each type the folder holds."""
    if not (Path(job.output) / LOG).is_dir():
        return Counter()
    if job.format == "jsonl":
        types = spark.read.text(job.output).selectExpr("get_json_object(value, '$.type') AS type")
    elif len(job.wanted) == 1:
        return +Counter({job.wanted[0]: spark.read.parquet(job.output).count()})
    else:
        types = spark.read.parquet(job.output).select("type")
    return Counter({row["type"]: row["count"] for row in types.groupBy("type").count().collect()})


def _written(folder: Path) -> Iterator[Path]:
    """All files of data, with their checksums."""
    for path in folder.rglob("*"):
        if path.is_file() and LOG not in path.relative_to(folder).parts and path.name.lstrip(".").startswith("part-"):
            yield path
