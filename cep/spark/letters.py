"""Dead letters of distributed tasks: a file a piece of work, written whole, the same whenever it is done again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

LINE_BITS = 36
"""A row's `@order` is the number of its file, and in so many bits its line there (of Parquet its row, from 1)."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that became no event: why, a short name for why, its file and line, its text and its event where they
    are known."""

    reason: str
    code: str
    file: str | None
    line: int
    text: str | None = None
    event: str | None = None


def line_of(order: int) -> int:
    """The line of the row of that order."""
    return order & ((1 << LINE_BITS) - 1)


def file_of(order: int) -> int:
    """The number of its file."""
    return order >> LINE_BITS


def write(folder: str | None, name: str, letters: Sequence[Letter]) -> None:
    """Write the letters of a piece of work of that name, as lines of JSON. Without a folder they are lost."""
    if folder is None or not letters:
        return
    lines = "".join(
        json.dumps(
            {"reason": one.reason, "code": one.code, "file": one.file, "line": one.line, "record": _record(one.text)},
            ensure_ascii=False,
        )
        + "\n"
        for one in letters
    )
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    made = place / f".{name}.{uuid4().hex}"  # the same task may run twice at once, on two machines
    made.write_text(lines, encoding="utf-8")
    made.replace(place / f"{name}.jsonl")


def counted(folder: Path) -> Counter[str]:
    """How many letters a folder holds, by code."""
    found: Counter[str] = Counter()
    for file in sorted(folder.glob("*.jsonl")):
        found.update(json.loads(line)["code"] for line in file.read_text(encoding="utf-8").splitlines())
    return found


def _record(text: str | None) -> object:
    try:
        found = json.loads(text or "null")
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text
