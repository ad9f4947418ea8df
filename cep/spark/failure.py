"""Why a query failed, in a sentence: the first cause, without the ways it took through two languages."""

from __future__ import annotations

import re
from typing import Any

from cep.errors import CepError

_RAISED = re.compile(r"^(?:\w+\.)*(\w+): ", re.MULTILINE)
_OWN = "cep.errors.CepError"


def failed(error: Any, log: str) -> CepError:
    """What to say of a query's failure, as Java or PySpark raises it. `log`: where the rest is."""
    return CepError(
        f"the query has failed: {reason(causes(error) or [str(error)])}",
        hint=f"the same command goes on from the checkpoint once the cause is gone; {log} has all that Spark said",
        code="failed",
    )


def causes(error: Any) -> list[str]:
    """The messages of what Java has raised, and of its causes; none: Java has raised nothing."""
    texts = []
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while cause is not None:
        texts.append(str(cause.getMessage() or cause.toString()))
        cause = cause.getCause()
    return texts


def lost(log: str) -> CepError:
    """What to say where Java has ended before the query."""
    return CepError(
        "the query has failed: Java has ended, or was ended",
        hint="it or the machine may have had too little memory (`--conf spark.driver.memory=4g`); the same command "
        f"goes on from the checkpoint; {log} has what Spark said",
        code="failed",
    )


def reason(texts: list[str]) -> str:
    """The messages of an exception and its causes as one: that of a program's mistake in a worker as it is, else the
    last line of a traceback, or the first line of the last cause."""
    for text in reversed(texts):
        for mark in (f"{_OWN}: ", f"{_OWN}s: "):
            if mark in text:
                told = text.rpartition(mark)[2]
                return re.split(r"\n\s*(?:at |$)", told, maxsplit=1)[0].strip()
    last = texts[-1]
    if "Traceback (most recent call last)" in last:
        lines = [line for line in last.splitlines() if _RAISED.match(line)]
        return lines[-1].strip() if lines else last.strip()
    return last.strip().splitlines()[0] if last.strip() else "no reason was given"
