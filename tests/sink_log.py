"""The log of a sink as a run on Spark writes it, for tests without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cep.core import checksum
from cep.spark.disk import SINK_LOG
from cep.spark.sink.commit_log import RUN


def enter(output: Path, name: str, lines: Sequence[str]) -> None:
    """Write an entry of the log of the folder `output`."""
    log = output / SINK_LOG
    if not log.exists():
        log.mkdir(parents=True)
        (log / RUN).write_bytes(checksum.seal(b"run"))
    text = "\n".join(["v01", *lines]).encode()
    (log / name).write_bytes(checksum.Chain(b"run" + name.encode()).add(text) if lines else b"v001")
