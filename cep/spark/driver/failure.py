"""Why a query failed, in one sentence: the first cause, without the stack traces of two languages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cep.core.errors import CepError

_RAISED = re.compile(r"^(?:\w+\.)*(\w+): ", re.MULTILINE)
_OWN = "cep.core.errors.CepError"
_STATE = re.compile(r"\s+SQLSTATE: \w{5}$")
_HINT = "\nhint: "
_FULL = "No space left on device"


def failed(error: Any, log: str) -> CepError:
    """The error for a query that failed, from what Java or PySpark raised. `log`: where the rest is."""
    texts = causes(error) or [str(error)]
    why, _, advice = reason(texts).partition(_HINT)
    if any(_FULL in text for text in texts) and not any(_OWN in text for text in texts):
        where = f"--checkpoint: {Path(log).parent}, or where Spark keeps files for a while (spark.local.dir),"
        why, advice = f"{where} cannot be written: {_FULL.lower()}", "make room on the disk"
    then = f"the same command goes on from the checkpoint once the cause is gone; {log} has all that Spark said"
    return CepError(f"the query has failed: {why}", hint=f"{advice}; {then}" if advice else then, code="failed")


def causes(error: Any) -> list[str]:
    """The messages of an exception of Java, and of its causes; empty: Java raised none."""
    texts = []
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while cause is not None:
        texts.append(str(cause.getMessage() or cause.toString()))
        cause = cause.getCause()
    return texts


def lost(log: str) -> CepError:
    """The error for a query whose Java process has ended."""
    return CepError(
        "the query has failed: Java has ended, or was ended",
        hint="it or the machine may have had too little memory (`--conf spark.driver.memory=4g`); the same command "
        f"goes on from the checkpoint; {log} has what Spark said",
        code="failed",
    )


def reason(texts: list[str]) -> str:
    """One message for an exception and its causes: a CepError of a worker as it is, else the last line of a traceback,
    or the first line of the last cause."""
    for text in reversed(texts):
        for mark in (f"{_OWN}: ", f"{_OWN}s: "):
            if mark in text:
                rest = text.rpartition(mark)[2]
                return _STATE.sub("", re.split(r"\n\s*(?:at |$)", rest, maxsplit=1)[0].strip())
    last = texts[-1]
    if "Traceback (most recent call last)" in last:
        lines = [line for line in last.splitlines() if _RAISED.match(line)]
        return lines[-1].strip() if lines else last.strip()
    return last.strip().splitlines()[0] if last.strip() else "no reason was given"
