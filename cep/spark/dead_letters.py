"""Dead letters of distributed tasks: a file a piece of work, written whole, the same whenever it is done again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import numpy as np
import polars as pl

from cep.core.schema import Schema
from cep.spark.storage.disk import sync, writing_to
from connectors.batch import DeadLetter
from connectors.writers import json_lines

OPTION = "--dead-letter"

LINE_BITS = 36
"""A row's `@order` is the number of its file, and in so many bits its line there (of Parquet its row, from 1)."""


Write = Callable[[Iterable[DeadLetter]], None]


def line_of(order: int) -> int:
    """The line of the row of that order."""
    return order & ((1 << LINE_BITS) - 1)


def file_of(order: int) -> int:
    """The number of its file."""
    return order >> LINE_BITS


@contextmanager
def writing(begin: str | None, name: str) -> Iterator[Write]:
    """A file of the letters of a piece of work of that name, as lines of JSON: what is written while the block runs is
    there when it has ended well. Without letters there is no file, nor any more if the work was done before. `begin`:
    what paths of such files begin with, as `/dead/f00ba7-`; None: letters are lost. CepError: it cannot be written."""
    if begin is None:
        yield lambda letters: None
        return
    path = Path(f"{begin}{name}.jsonl")
    place = path.parent
    made = place / f".{path.stem}.{uuid4().hex}"  # the same task may run twice at once, on two machines
    with ExitStack() as held:
        file: BinaryIO | None = None

        def write(letters: Iterable[DeadLetter]) -> None:
            nonlocal file
            for one in letters:
                with writing_to(OPTION, place):
                    if file is None:
                        place.mkdir(parents=True, exist_ok=True)
                        held.callback(made.unlink, missing_ok=True)
                        file = held.enter_context(made.open("wb"))
                    file.write(_line(one))

        yield write
        with writing_to(OPTION, place):
            if file is not None:
                sync(file)
                file.close()
                made.replace(path)
            elif place.is_dir():
                path.unlink(missing_ok=True)


def write(begin: str | None, name: str, letters: Iterable[DeadLetter]) -> None:
    """Write all the letters of a piece of work at once."""
    with writing(begin, name) as told:
        told(letters)


def _line(one: DeadLetter) -> bytes:
    known = {"reason": one.reason, "code": one.code, "file": one.file, "line": one.line, "record": _record(one.text)}
    return json.dumps(known, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _record(text: str | None) -> object:
    try:
        found = json.loads(text or "null")
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


def records(table: pl.DataFrame, schema: Schema, times: str) -> list[str]:
    """A line of JSON for each row, in their order; `times` are `iso` or `seconds`."""
    if not table.height:
        return []
    written = json_lines({schema.name: table}, {schema.name: schema}, times == "iso", False).decode().split("\n")
    order = np.lexsort((table["start"].to_numpy(), table["end"].to_numpy()))  # as it is written
    found = [""] * table.height
    for row, line in zip(order.tolist(), written):
        found[row] = line
    return found
