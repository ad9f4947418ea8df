"""Messages of a run on standard error, as text for people or as one JSON object per line."""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

import typer

Format = Literal["text", "json"]
Level = Literal["info", "warning", "error"]

MOST = 10_000
"""The maximum number of lines that wait if standard error is read slowly."""
_ENDING = 2.0  # seconds to wait at the end until the last lines are written


class Log(Protocol):
    """A function that writes a message.

    - `event`: a short name of the message.
    - `fields`: the values that the message reports.
    - `text`: a sentence for people, or None if a progress display already shows the same.
    """

    def __call__(self, event: str, text: str | None, level: Level = "info", /, **fields: object) -> None: ...


def plain(event: str, text: str | None, level: Level = "info", /, **fields: object) -> None:
    """Write a message's text. A warning is bold on a terminal."""
    if text is None:
        return
    if _background is None:
        typer.secho(text, err=True, bold=level != "info" or None)
    else:
        _background.add(typer.style(text, bold=True) if level != "info" and sys.stderr.isatty() else text)


def objects(event: str, text: str | None, level: Level = "info", /, **fields: object) -> None:
    """Write a message as JSON: `{"time": "2026-11-21T08:00:00.000Z", "level": "info", "event": "start", "text": ...,
    ...}`."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {"time": now, "level": level, "event": event, **({} if text is None else {"text": text}), **fields}
    line = json.dumps(record, ensure_ascii=False, default=str)
    if _background is not None:
        _background.add(line)
    elif sys.stderr is not None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


class BackgroundWriter:
    """A writer of lines to a file descriptor. It has its own thread, so that no caller waits for a slow reader.

    While `MOST` lines wait, further lines are dropped. `log`: the function that reports how many lines were dropped.
    """

    def __init__(self, descriptor: int, log: Log) -> None:
        self._descriptor, self._log = os.dup(descriptor), log
        self._lines = deque[str]()
        self._left_out = 0
        self._ends = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def add(self, line: str) -> None:
        with self._changed:
            if len(self._lines) < MOST:
                self._lines.append(line)
                self._changed.notify()
            else:
                self._left_out += 1

    def close(self) -> None:
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._thread.join(_ENDING)

    def _run(self) -> None:
        with suppress(OSError):  # standard error was closed by its reader
            while (lines := self._next()) is not None:
                data = memoryview("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
                while data:
                    data = data[os.write(self._descriptor, data) :]
                self._tell_left_out()
        os.close(self._descriptor)

    def _next(self) -> list[str] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._ends)
            lines = list(self._lines)
            self._lines.clear()
        return lines or None

    def _tell_left_out(self) -> None:
        with self._changed:
            count, self._left_out = self._left_out, 0
        if count:
            text = f"{count:,} lines of this log were left out, because nothing read it"
            self._log("left_out", text, "warning", lines=count)


_background: BackgroundWriter | None = None


@contextmanager
def in_background(log: Log) -> Iterator[None]:
    """Write the messages of the block in a background thread. `log`: the log of the run."""
    global _background
    try:
        descriptor = sys.stderr.fileno()
    except (AttributeError, OSError):  # standard error is absent, or has no descriptor
        yield
        return
    _background = writer = BackgroundWriter(descriptor, log)
    try:
        yield
    finally:
        writer.close()
        _background = None


class RunWarning(RuntimeWarning):
    """A warning of a running engine. In Python it is a warning, on the command line it is a line of the log."""

    def __init__(self, event: str, text: str, **fields: object) -> None:
        super().__init__(text)
        self.event, self.fields = event, fields


@contextmanager
def logged_warnings(log: Log) -> Iterator[None]:
    """Send the engines' warnings, from all threads, to the log during the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", RunWarning)
        others = warnings.showwarning

        def shown(message: Warning | str, *arguments: Any, **named: Any) -> None:
            if isinstance(message, RunWarning):
                log(message.event, f"warning: {message}", "warning", **message.fields)
            else:
                others(message, *arguments, **named)

        warnings.showwarning = shown
        yield


LOGS: dict[Format, Log] = {"text": plain, "json": objects}
