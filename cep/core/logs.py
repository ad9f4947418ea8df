"""Messages of a run on standard error: lines for people, or one JSON object per line."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

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


class RunWarning(RuntimeWarning):
    """A warning of a running engine: a warning in Python, a line of the log on the command line."""

    def __init__(self, event: str, text: str, **fields: object) -> None:
        super().__init__(text)
        self.event, self.fields = event, fields


@contextmanager
def logged_warnings(log: Log) -> Iterator[None]:
    """Send the warnings of engines to the log within the block, also those of other threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", RunWarning)
        others = warnings.showwarning

        def shown(message: Warning | str, *given: Any, **named: Any) -> None:
            if isinstance(message, RunWarning):
                log(message.event, f"warning: {message}", "warning", **message.fields)
            else:
                others(message, *given, **named)

        warnings.showwarning = shown
        yield


LOGS: dict[Format, Log] = {"text": plain, "json": objects}
