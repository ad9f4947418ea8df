"""The log of Spark's processes: a file of limited size, apart from the messages of a run."""

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

from cep.spark.storage.layout import SPARK_LOG

LONGEST = 10_000_000  # bytes

_MOMENT = 2.0  # seconds
_STARTED = "PYSPARK_GATEWAY_PORT"  # in the environment of what spark-submit starts
_CHATTER = re.compile(rb"Streaming TransformWithState\w* Python worker|Starting Streaming TransformWithState|\s*$")


@contextmanager
def redirected(folder: Path) -> Iterator[None]:
    """The standard error of processes that are started while the block runs goes to the file. Under spark-submit no
    process is started, and its own settings say where logs go."""
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
            copying.join(_MOMENT)  # so that the reason, which was written last, can be found


def silence_gateway(server: Any) -> None:
    """PySpark prints nothing when Java has ended, since the run says so in a sentence. `server`: that of its
    accumulators."""
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
