"""Spark's log, and the reasons why Spark or a query failed.

The log is a file of limited size. The messages of a run do not go to this file. A reason is one sentence: it names the
first cause and omits the stack traces of Java and Python.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from threading import Thread
from typing import Any

from cep.core.errors import NO_ROOM, CepError
from cep.spark.disk import SPARK_LOG

LONGEST = 10_000_000
"""The size in bytes at which a new log file begins."""

_RAISED = re.compile(r"^(?:\w+\.)*(\w+): ", re.MULTILINE)
_JAVA = re.compile(r"^: (?:[\w$]+\.)+[\w$]+: (.+)$", re.MULTILINE)  # in the traceback of a call to Java
_OWN = "cep.core.errors.CepError"
_STATE = re.compile(r"\s+SQLSTATE: \w{5}$")
_HINT = "\nhint: "
_MOMENT = 2.0  # seconds
_STARTED = "PYSPARK_GATEWAY_PORT"  # in the environment of processes that spark-submit starts
_CHATTER = re.compile(rb"\s*$")
_CLASS = re.compile(r"^(?:Exception in thread \"[^\"]*\" |Caused by: )?(?:[\w$]+\.)+[\w$]+: ")
_LOGGED = re.compile(r"^[\d/\-]+ [\d:.]+ (?:WARN|ERROR) \S+: ")
_ROUTINE = re.compile(
    r"^(?:\S+ \S+ )?(?:INFO|DEBUG) |^Using Spark's default|^Setting default log|^To adjust logging|^WARNING:"
    r"|^Error: (?:Could not create the Java|A fatal exception)"
)


FAILED = "the query has failed: "
"""The first words of an error message from `failed`."""


def failed(error: Any, log: str) -> CepError:
    """Return the error for a query that failed. `error`: the exception of Java or PySpark. `log`: the name of the file
    that contains the details."""
    texts = causes(error) or [str(error)]
    why, _, advice = reason(texts).partition(_HINT)
    if any(NO_ROOM in text for text in texts) and not any(_OWN in text for text in texts):
        where = f"--checkpoint: {Path(log).parent}, or Spark's folder of temporary files (spark.local.dir),"
        why, advice = f"{where} cannot be written: no space left on device", "free space on the disk"
    then = f"once the cause is gone, the same command continues from the checkpoint; {log} is Spark's log"
    return CepError(f"{FAILED}{why}", hint=f"{advice}; {then}" if advice else then, code="failed")


def causes(error: Any) -> list[str]:
    """Return the messages of a Java exception and of its causes. Returns an empty list for other exceptions."""
    texts = []
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while cause is not None:
        texts.append(str(cause.getMessage() or cause.toString()))
        cause = cause.getCause()
    return texts


def worker_error(error: Exception) -> tuple[str, str | None] | None:
    """Return the message and the hint of the CepError that a worker has raised. Returns None if another error is the
    cause. `error`: the exception of Java or PySpark."""
    if (text := _own_error(causes(error))) is None:
        return None
    message, _, hint = text.partition(_HINT)
    return message, hint or None


def _own_error(texts: list[str]) -> str | None:
    for text in reversed(texts):
        for mark in (f"{_OWN}: ", f"{_OWN}s: "):
            if mark in text:
                rest = text.rpartition(mark)[2]
                return _STATE.sub("", re.split(r"\n\s*(?:at |$)", rest, maxsplit=1)[0].strip())
    return None


def lost(log: str) -> CepError:
    """Return the error for a query whose Java process has ended."""
    return CepError(
        f"{FAILED}Spark's Java process has ended",
        hint="if memory ran out, add `--conf spark.driver.memory=4g`, or use a larger machine; the same command "
        f"continues from the checkpoint; {log} is Spark's log",
        code="failed",
    )


def reason(texts: list[str]) -> str:
    """Return one message for an exception and its causes. `texts`: the message of the exception, and of each cause.

    If a worker has raised a CepError, the result is the message of this error. Otherwise it is the last line of a
    traceback, or, if there is no traceback, the first line of the last cause.
    """
    if (own := _own_error(texts)) is not None:
        return own
    last = texts[-1]
    if "Traceback (most recent call last)" in last:
        if java := _JAVA.search(last):
            return java[1].strip()
        lines = [line for line in last.splitlines() if _RAISED.match(line)]
        return lines[-1].strip() if lines else last.strip()
    return last.strip().splitlines()[0] if last.strip() else "no reason was given"


@contextmanager
def redirected(folder: Path) -> Iterator[None]:
    """Redirect standard error to Spark's log for all processes that start inside a `with` block.

    `folder`: the folder of the log. Under spark-submit the function does nothing. Java then runs already, and its own
    settings say where logs go.
    """
    if _STARTED in os.environ:
        yield
        return
    reading, writing = os.pipe()
    copying = Thread(target=_copy, args=(reading, folder / SPARK_LOG), daemon=True)
    copying.start()
    before = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    failed = True
    try:
        yield
        failed = False
    finally:
        os.dup2(before, 2)
        os.close(before)
        if failed:
            copying.join(_MOMENT)  # so that the log has the reason, which was written last


def silence_gateway(server: Any) -> None:
    """Prevent PySpark from printing errors after Java has ended, because the run reports this end in one sentence.

    `server`: PySpark's server for accumulators.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: record.msg != "Exception while sending command.")
    server.handle_error = lambda request, address: None


def _copy(reading: int, file: Path) -> None:
    out: FileIO | None = None
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if _CHATTER.match(line):
                continue
            with suppress(OSError):  # the disk is full: lines are lost, but their writers do not block
                if out is not None and out.tell() > LONGEST:
                    out.close()
                    out = None
                    file.replace(file.with_name(f"{SPARK_LOG}.1"))
                if out is None:
                    out = file.open("ab", buffering=0)
                out.write(line)
    if out is not None:
        out.close()


def said(log: Path, first: int) -> str | None:
    """Return the reason for a failure from Spark's log: its last error, or its last line if there is no error.

    `first`: the byte of the log at which to begin. Returns None if the log contains neither.
    """
    try:
        with log.open("rb") as file:
            file.seek(min(first, log.stat().st_size))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    lines = [line for line in lines if line.strip() and not line[0].isspace() and not _ROUTINE.match(line)]
    raised = [line for line in lines if _CLASS.match(line) or " ERROR " in line]
    candidates = [*lines[-1:], *raised]
    return _LOGGED.sub("", _CLASS.sub("", candidates[-1])).strip() if candidates else None
