"""What a run says on standard error besides its results: lines for people, or an object of JSON a line."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Literal, Protocol

import typer

Format = Literal["text", "json"]
Level = Literal["info", "warning", "error"]


class Log(Protocol):
    """`event` is a short name of what is said, `fields` its numbers, `text` the sentence for people, None: they have
    the display instead."""

    def __call__(self, event: str, text: str | None, level: Level = "info", /, **fields: object) -> None: ...


def plain(event: str, text: str | None, level: Level = "info", /, **fields: object) -> None:
    """The sentence; warnings in bold on a terminal."""
    if text is not None:
        typer.secho(text, err=True, bold=level != "info" or None)


def objects(event: str, text: str | None, level: Level = "info", /, **fields: object) -> None:
    """`{"time": "2026-11-21T08:00:00.000Z", "level": "info", "event": "start", "text": ..., ...}`."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {"time": now, "level": level, "event": event, **({} if text is None else {"text": text}), **fields}
    if sys.stderr is not None:
        sys.stderr.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")
        sys.stderr.flush()


LOGS: dict[Format, Log] = {"text": plain, "json": objects}
