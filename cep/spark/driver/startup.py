"""Starting Spark: whether the master is valid and answers, and why Spark cannot be started, in one sentence."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from cep.core.errors import CepError
from cep.spark.driver.failure import causes, reason
from cep.spark.driver.packages import unresolved
from cep.spark.driver.session import session
from cep.spark.driver.spark_log import redirected, silence_gateway
from cep.spark.storage.layout import SPARK_LOG
from connectors.records import closest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "spark.master"

_HOST = r"(?:\[[0-9a-fA-F:]+\]|[^\s:/,\[\]]+):\d+"
_STANDALONE = rf"spark://{_HOST}(?:,{_HOST})*"
_MASTER = re.compile(
    r"local(?:\[\s*(?:\d+|\*)\s*(?:,\s*\d+\s*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    rf"|{_STANDALONE}|yarn|k8s://\S+"
)
_WORDS = ("local", "local-cluster", "spark://", "yarn", "k8s://")
_TIMEOUT = 3.0  # seconds that a master may take to answer
_RAISED = re.compile(r"^(?:Exception in thread \"[^\"]*\" |Caused by: )?(?:[\w$]+\.)+[\w$]+: ")
_STOPPED = "stopped SparkContext"  # by what the log says
_LOGGED = re.compile(r"^[\d/\-]+ [\d:.]+ (?:WARN|ERROR) \S+: ")
_ROUTINE = re.compile(
    r"^(?:\S+ \S+ )?(?:INFO|DEBUG) |^Using Spark's default|^Setting default log|^To adjust logging|^WARNING:"
    r"|^Error: (?:Could not create the Java|A fatal exception)"
)


def checked(master: str) -> str:
    """The same master. CepError: it is none."""
    if _MASTER.fullmatch(master):
        return master
    word = (re.match(r"[^\[]*//|[^\[:]*", master) or [""])[0]
    raise CepError(
        f"--master: `{master}` is none{'' if word in _WORDS else closest(word, _WORDS)}",
        hint="`local[2]`, `local[*]`, `spark://host:7077`, `yarn`, `k8s://https://host:443`",
        code="spark",
    )


def silent(master: str) -> str | None:
    """Why no master of a standalone cluster answers; None: one does, or it is no such cluster."""
    if not re.fullmatch(_STANDALONE, master):
        return None
    why = ""
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT).close()
            return None
        except (OSError, OverflowError) as error:
            why = why or (getattr(error, "strerror", None) or str(error)).lower()
    return why


def start_session(
    master: str | None, settings: Mapping[str, str], folder: Path, warn: Callable[[str], None]
) -> SparkSession:
    """Start the session; the log of its processes goes to a file of the folder. `warn` takes what is waited for.
    CepError: it cannot be started; says why."""
    named = master or settings.get(MASTER, "")
    if (why := silent(named)) is not None:
        warn(f"waiting for {named}, which does not answer: {why}")
    log = folder / SPARK_LOG
    before = log.stat().st_size if log.exists() else 0
    try:
        with redirected(folder):
            made = session(master, settings)
    except (PySparkException, Py4JError, OSError) as error:
        texts = causes(error)
        if why is not None:
            why = f"{named} does not answer: {why}"
        elif texts and _STOPPED not in texts[-1]:
            why = reason(texts)
        else:
            why = said(log, before) or str(error).partition("\n")[0]
        if (absent := unresolved(why)) is not None:
            raise absent from None
        hint = f"look at --master and --conf; {log} has what Spark said"
        raise CepError(f"Spark cannot be started: {why}", hint=hint, code="spark") from None
    silence_gateway(made.sparkContext._accumulatorServer)
    return made


def said(log: Path, first: int) -> str | None:
    """What went wrong, by the log from this byte on: its last error, else its last line."""
    try:
        with log.open("rb") as file:
            file.seek(min(first, log.stat().st_size))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    lines = [line for line in lines if line.strip() and not line[0].isspace() and not _ROUTINE.match(line)]
    raised = [line for line in lines if _RAISED.match(line) or " ERROR " in line]
    candidates = [*lines[-1:], *raised]
    return _LOGGED.sub("", _RAISED.sub("", candidates[-1])).strip() if candidates else None
