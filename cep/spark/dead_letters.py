"""Dead letters of distributed tasks. There is one file for each work item. It appears only when it is complete.

If a work item is repeated, it writes the same file again.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np
import polars as pl

from cep.connectors.dead_letters import letter_line
from cep.connectors.records.batch import DeadLetter
from cep.connectors.records.paths import EACH, path, source_of
from cep.connectors.records.revised import WITHDRAW
from cep.connectors.writing.writers import json_lines
from cep.core.fluents import RECORD_BOUNDS, RECORD_END
from cep.core.schema import CHANGE, Schema
from cep.spark.disk import sync, writing_to

OPTION = "--dead-letter"

LINE_BITS = 36
"""The number of low bits of an `@order` that contain the line number. For Parquet, they contain the row number, counted
from 1. The other bits contain the file number."""

_OF_INTERVAL = {RECORD_END: "end", RECORD_BOUNDS: "bounds"}
"""Names of columns in the records of a fluent. Each is mapped to the name of the same column in intervals."""

_STAGE = re.compile(r"stage-(\d+-\d{4})-(\d{8})(?:-(\d+))?\.jsonl")

Write = Callable[[Iterable[DeadLetter]], None]


def line_of(order: int) -> int:
    """Return the line number that an `@order` contains."""
    return order & ((1 << LINE_BITS) - 1)


def file_of(order: int) -> int:
    """Return the file number that an `@order` contains."""
    return order >> LINE_BITS


@contextmanager
def dead_letter_file(begin: str | None, name: str) -> Iterator[Write]:
    """Open the file for the dead letters of a work item, in a `with` block. The file gets its final name when the block
    ends without an error.

    If the block writes no dead letters, no file is created, and the file of an earlier attempt is removed. `begin`: the
    prefix of the paths of dead-letter files, such as `/dead/f00ba7-`. If it is None, dead letters are dropped. Raises
    CepError if the file cannot be written.
    """
    if begin is None:
        yield lambda dead_letters: None
        return
    path = Path(f"{begin}{name}.jsonl")
    place = path.parent
    partial_path = place / f".{path.stem}.{uuid4().hex}"  # the same task may run twice at once, on two machines
    with ExitStack() as held:
        file: BinaryIO | None = None

        def write(dead_letters: Iterable[DeadLetter]) -> None:
            nonlocal file
            for dead_letter in dead_letters:
                with writing_to(OPTION, place):
                    if file is None:
                        place.mkdir(parents=True, exist_ok=True)
                        held.callback(partial_path.unlink, missing_ok=True)
                        file = held.enter_context(partial_path.open("wb"))
                    file.write(letter_line(dead_letter))

        yield write
        with writing_to(OPTION, place):
            if file is not None:
                sync(file)
                file.close()
                partial_path.replace(path)
            elif place.is_dir():
                path.unlink(missing_ok=True)


def write_dead_letters(begin: str | None, name: str, dead_letters: Iterable[DeadLetter]) -> None:
    """Write all dead letters of a work item at once."""
    with dead_letter_file(begin, name) as write_all:
        write_all(dead_letters)


def stage_letters(stage: int, bucket: int, version: int, generation: int) -> str:
    """Return the file name for the dead letters of one step of a bucket.

    `version`: the version of the bucket's state before the step. `generation`: the checkpoint's generation.
    """
    name = f"stage-{stage}-{bucket:04}-{version:08}"
    return name if generation == 1 else f"{name}-{generation}"


def remove_uncounted(begin: str, generation: int, versions: Mapping[str, int]) -> None:
    """Remove the dead letters of steps that a generation had not committed when it ended.

    `versions`: the last committed version of each bucket's state, by names such as `1-0003`. The next generation reads
    the same input again, and writes files with other names. Do not call this while a query runs.
    """
    place, mark = Path(begin).parent, Path(f"{begin}.").name[:-1]
    for file in place.glob(f"{glob.escape(mark)}stage-*.jsonl") if place.is_dir() else ():
        match = _STAGE.fullmatch(file.name.removeprefix(mark))
        if match is not None and int(match[3] or 1) == generation and int(match[2]) >= versions.get(match[1], 0):
            file.unlink()


def record_lines(table: pl.DataFrame, schema: Schema, declared: Schema, times: str) -> list[str]:
    """Convert rows to records, one line of JSON per row. A stage needs this for dead letters, because it does not have
    the original text of the records.

    `schema`: the schema of the rows. `declared`: the schema of the input records. `times`: the format of times.
    """
    if not table.height:
        return []
    plain = table.drop(CHANGE, strict=False)
    written = json_lines({schema.name: plain}, {schema.name: schema}, times, False).decode().split("\n")
    order = np.lexsort((table["start"].to_numpy(), table["end"].to_numpy()))  # the order in which rows are written
    withdraws = (table[CHANGE] < 0).to_list() if CHANGE in table.columns else [False] * table.height
    lines = [""] * table.height
    for row, line in zip(order.tolist(), written):
        record = _as_declared(json.loads(line), declared) | ({CHANGE: WITHDRAW} if withdraws[row] else {})
        lines[row] = json.dumps(record, ensure_ascii=False)
    return lines


def _as_declared(record: dict[str, Any], declared: Schema) -> dict[str, Any]:
    """Convert an occurrence's JSON object to an input record with the names and paths of the event's declaration."""
    declared_record = {"type": record["type"]}
    if declared.time is not None:
        declared_record[declared.time] = record["start"]
    else:
        declared_record |= {declared.start or "start": record["start"], declared.end or "end": record["end"]}
    for attribute in declared.attributes:
        value = record[_OF_INTERVAL.get(attribute.name, attribute.name)]
        if attribute.name == RECORD_BOUNDS and value == "[]":
            continue  # the default is omitted
        *above, last = path(source_of(attribute))
        place = declared_record
        for step in above if EACH not in above else ():
            place = place.setdefault(step, {})
        place[attribute.name if last == EACH or EACH in above else last] = value
    return declared_record
