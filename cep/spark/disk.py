"""Files of a checkpoint and of a sink: their names, which never change; how they are put on disk whole; and the lock.

A file is there whole or not at all, also after a cut of power. What it holds is on disk before it gets its name.
Whether the name is on disk is waited for only where another file system may rely on it: on one file system with a
journal names reach the disk in order, and what refers to this file comes later.

A checkpoint is locked by one run at a time, since a second one would remove what the first has not finished.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from cep.core.errors import FULL, CepError

CHECKPOINT = "semcep.json"
"""The program and options of the checkpoint (`cep.spark.state.checkpoint`)."""

FILES = "files.jsonl"
"""The files that were read, numbered (`cep.spark.source.file_list`)."""

CHANGES = "changes.jsonl"
"""All changes of the knowledge that were found (`cep.spark.source.knowledge_changes`)."""

INPUTS = "input-"
"""With the place of a live input behind it: a folder with what it has received, or where it began."""

LOCK, TURN = "lock", "turn"
"""Held by the run that has the checkpoint (`locked`)."""

SPARK = "spark"
"""The folder of Spark's own files (`cep.spark.spark_files`)."""

BUCKETS = "buckets"
"""The folder of the states of buckets (`cep.spark.state.bucket_states`)."""

WARM = "warm"
"""The folder of the states from which new rules start (`cep.spark.warming`)."""

HANDED = "handed"
"""The folder of what one task of a micro-batch hands to another (`cep.spark.handover`)."""

OUTGOING = "outgoing"
"""The folder of the sink where derived events go to a broker (`cep.spark.sink.forwarding`)."""

DEAD = "dead"
"""The folder of the dead letters of micro-batches that are given to a function."""

STOP = "stop"
"""While a checkpoint holds this file, sources give nothing (`cep.spark.driver.query`)."""

SPARK_LOG = "spark.log"
"""The output of Spark's processes; one older file of the same size is `spark.log.1`."""

SINK_LOG = "_spark_metadata"
"""In the folder of a sink: which of its files count (`cep.spark.sink.commit_log`)."""

PROBES = (".room-", "..room-")
"""The prefixes of files that are written only to see whether a folder takes files; the second is of temporary ones."""

BACK = "put the whole folders of --output and --checkpoint back as they were, or start anew with others"
"""The hint for files that are damaged, missing, or of different times."""

_PROBE = bytes(1 << 12)
_ONE_RUN = "a checkpoint is of one run at a time"
_TURN_TIMEOUT = 60.0  # seconds that finishing a micro-batch may take


def put(path: Path, content: bytes) -> None:
    """Write a file into a folder that exists; it replaces one of the same name."""
    made = path.with_name(f".{path.name}.{uuid4().hex}")  # the same task may run twice at once, on two machines
    try:
        with made.open("wb") as file:
            file.write(content)
            sync(file)
        made.replace(path)
    except OSError:
        made.unlink(missing_ok=True)
        raise


def sync(file: BinaryIO) -> None:
    """Return when what was written to a file is on disk."""
    file.flush()
    os.fsync(file.fileno())


def remove_hidden(folder: Path, prefix: str = "") -> None:
    """Remove files that were not yet whole when their writer was killed; `prefix`: only those whose names begin so.
    Not while anyone writes such files."""
    if folder.is_dir():
        for name in os.listdir(folder):
            if name.startswith(f".{prefix}"):
                (folder / name).unlink(missing_ok=True)


def check_writable(option: str, folder: Path) -> None:
    """Make sure that a folder exists and takes files. CepError: it does not."""
    with writing_to(option, folder, begins=True):
        folder.mkdir(parents=True, exist_ok=True)
        inner = folder / SINK_LOG if (folder / SINK_LOG).is_dir() else folder
        probe = inner / f"{PROBES[0]}{uuid4().hex}"
        try:
            put(probe, _PROBE)
        finally:
            for left in (probe, *inner.glob(f"{PROBES[0]}*")):  # also by runs that were killed here
                left.unlink(missing_ok=True)


@contextmanager
def writing_to(option: str, folder: Path, begins: bool = False) -> Iterator[None]:
    """The block writes into a folder that an option names. CepError: it cannot; `begins`: no query runs yet. A full
    disk may have room later, and then the same command goes on."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error).partition("\n")[0]
        where = "" if error.filename in (None, str(folder)) or begins else f" ({error.filename})"
        full = error.errno in FULL
        text = f"{option}: {folder} cannot be {'made or ' if begins and not full else ''}written: {reason}{where}"
        hint = "make room on its disk" if full else "name a folder of which one may make and write files"
        raise CepError(text, hint=hint, code="failed" if full or not begins else "option") from None


def damaged_file(path: Path, option: str = "--checkpoint", what: str = "is damaged") -> CepError:
    """The error for a file that is not what was written."""
    return CepError(f"{option}: {path} {what}", hint=BACK, code="checkpoint")


def locked(folder: Path, timeout: float = 0.0) -> BinaryIO:
    """Lock a folder that exists, until the file is closed or the process ends. CepError: another process has it locked,
    and has not let go of it after `timeout` seconds."""
    file = _locked_file(folder, LOCK, timeout)
    try:
        with _locked_file(folder, TURN, _TURN_TIMEOUT):
            file.truncate(0)
            file.write(uuid4().hex.encode())
            file.flush()
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def exclusive(folder: Path, name: str) -> Iterator[None]:
    """While the block runs, no other run takes the folder over. CepError: the run of that name does not hold it any
    more."""
    with _locked_file(folder, TURN, _TURN_TIMEOUT):
        if holder(folder) != name:
            raise CepError(f"--checkpoint: another run has taken over {folder}", hint=_ONE_RUN, code="checkpoint")
        yield


def _locked_file(folder: Path, name: str, timeout: float) -> BinaryIO:
    file = (folder / name).open("a+b")
    until = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            if time.monotonic() > until:
                file.close()
                raise CepError(f"{folder} is in use by another run", hint=_ONE_RUN, code="checkpoint") from None
            time.sleep(0.1)


def holder(folder: Path) -> str:
    """The name of the run that holds the folder, or held it last. Processes that a killed run has left may live on for
    a moment, and see by this name that they must stop."""
    try:
        return (folder / LOCK).read_text()
    except FileNotFoundError:
        return ""
