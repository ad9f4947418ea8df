"""Dead letters: records that could not be used. The records are counted by the code of the reason, and written with
their reason and position."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

from cep.connectors.records.batch import Batch, DeadLetter
from cep.connectors.records.paths import elsewhere
from cep.connectors.writing.sinks import Sink
from cep.core.schema import Attribute
from cep.runtime.encode import RefusedRow

_BREAKS = str.maketrans("\r\n", "  ")
"""A translation of line breaks to spaces. In a JSON object it changes no value, because breaks are between tokens."""


class DeadLetters:
    """A collector of dead letters. It counts them by code, and stores the first one in `first`.

    If `path` is not None, each dead letter is written to this file as a line of JSON: `{"reason": ..., "code": ...,
    "file": ..., "line": ..., "record": ...}`. The value of `record` is the record itself if it is a JSON object, and
    otherwise its text as a string. It is null if the text is not available, as for Parquet files and for compressed
    files that were sorted.
    """

    def __init__(self, path: str | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.first: DeadLetter | None = None
        self._sink = None if path is None else Sink(path)

    def add(self, records: Iterable[DeadLetter]) -> None:
        out = []
        for record in records:
            self.counts[record.code] += 1
            self.first = self.first or record
            if self._sink is not None:
                out.append(letter_line(record))
        if self._sink is not None and out:
            self._sink.write(b"".join(out))

    def reject(self, batch: Batch, refused: Sequence[RefusedRow]) -> None:
        """Add the dead letters of records that the engine refused. `batch`: the batch that contains them."""
        letters = refused if self._sink is not None or self.first is None else ()
        self.counts.update(row.code for row in refused[len(letters) :])
        self.add([_letter(batch, row) for row in letters])

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def first_told(self) -> str | None:
        """The position and reason of the first dead letter, such as `history.csv:7: ...`, or None if there is none."""
        if self.first is None:
            return None
        file = "standard input" if self.first.file == "-" else self.first.file
        return f"{file}:{self.first.line}: {self.first.reason}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the file. After an error, nothing is uploaded if the path is the address of a stored object."""
        if self._sink is not None and kind is not None:
            self._sink.discard()
        else:
            self.close()

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()


def _letter(batch: Batch, refused: RefusedRow) -> DeadLetter:
    file, line, text = batch.origin(refused.type, refused.row)
    reason = refused.reason
    if refused.code == "missing" and text is not None:
        reason += _elsewhere(text, *reason.split("`")[1:4:2])
    return DeadLetter(file, line, reason, refused.code, text)


def letter_line(record: DeadLetter) -> bytes:
    """Write a dead letter as a line of JSON."""
    fields = {"reason": record.reason, "code": record.code, "file": record.file, "line": record.line}
    head = json.dumps(fields, ensure_ascii=False)
    return f'{head[:-1]}, "record": {_record(record.text)}}}\n'.encode("utf-8", "replace")


def _elsewhere(text: str, name: str, source: str | None = None) -> str:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    where = elsewhere(record, Attribute(name, "any", source=source)) if isinstance(record, dict) else None
    return "" if where is None else f"; {where}"


def _record(text: str | None) -> str:
    """Convert the text of a record to JSON: a JSON object stays as it is, and any other text becomes a string."""
    if text is None:
        return "null"
    try:
        if isinstance(json.loads(text, parse_constant=_refuse), dict):
            return text.strip().translate(_BREAKS)
    except (ValueError, RecursionError):
        pass
    return json.dumps(text, ensure_ascii=False)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
