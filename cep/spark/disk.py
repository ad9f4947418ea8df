"""File names of checkpoints and sinks, atomic writes, and the lock of a checkpoint.

A file exists completely or not at all, even after a power failure: its content is on disk before it gets its name. A
file is written before the files that refer to it, and a journaling file system keeps the order of writes. Therefore
most directory entries are not synced. An entry is synced only if something outside this file system depends on it.

Only one run at a time can lock a checkpoint, because a second run would remove the unfinished work of the first run.
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
"""The program and options of the checkpoint (see `cep.spark.state.checkpoint`)."""

FILES = "files.jsonl"
"""The numbered list of the files that were read (see `cep.spark.source.file_list`)."""

CHANGES = "changes.jsonl"
"""All changes of the knowledge that the query has read (see `cep.spark.source.knowledge_changes`)."""

KNOWLEDGE = "changes of the knowledge"
"""The name under which `CHECKPOINT` lists a DataFrame of changes of the knowledge (see
`cep.spark.source.knowledge_changes`)."""

INPUTS = "input-"
"""The prefix of the name of a live input's folder. The input's number follows. The folder contains received messages or
the position at which reading starts."""

LOCK, TURN = "lock", "turn"
"""The lock files of a checkpoint (`locked`). A run keeps `lock` locked as long as it owns the checkpoint."""

SPARK = "spark"
"""The folder of Spark's own files (see `cep.spark.spark_files`)."""

BUCKETS = "buckets"
"""The folder of the states of buckets (see `cep.spark.state.bucket_states`)."""

WARM = "warm"
"""The folder of the states from which new rules start (see `cep.spark.warming`)."""

HANDED = "handed"
"""The folder of data that one task of a micro-batch passes to another (see `cep.spark.handover`)."""

OUTGOING = "outgoing"
"""The folder of the sink, if derived events are forwarded to a broker (see `cep.spark.sink.forwarding`)."""

DEAD = "dead"
"""The folder of the dead letters of micro-batches that are passed to a user's function."""

STOP = "stop"
"""The file that makes the sources of a checkpoint return no more input (see `cep.spark.driver.query`)."""

SPARK_LOG = "spark.log"
"""The log of Spark's processes. When the file is full, it is renamed to `spark.log.1`."""

SINK_LOG = "_spark_metadata"
"""The folder inside a sink's folder that lists the committed files (see `cep.spark.sink.commit_log`)."""

PROBES = (".room-", "..room-")
"""The prefixes of files that only test if a folder is writable. The second one marks an incomplete file."""

BACK = "restore the whole folders of --output and --checkpoint from a copy, or start anew with others"
"""The hint for a file that is damaged, missing, or not of the same micro-batch as the files that refer to it."""

_PROBE = bytes(1 << 12)
_ONE_RUN = "only one run at a time can use a checkpoint"
_TURN_TIMEOUT = 60.0  # seconds that finishing a micro-batch may take


def put(path: Path, content: bytes) -> None:
    """Write a file atomically into an existing folder. It replaces a file of the same name."""
    partial_path = path.with_name(f".{path.name}.{uuid4().hex}")  # the same task may run twice at once, on two machines
    try:
        with partial_path.open("wb") as file:
            file.write(content)
            sync(file)
        partial_path.replace(path)
    except OSError:
        partial_path.unlink(missing_ok=True)
        raise


def sync(file: BinaryIO) -> None:
    """Wait until the content of a file is on disk."""
    file.flush()
    os.fsync(file.fileno())


def remove_hidden(folder: Path, prefix: str = "") -> None:
    """Remove the unfinished files that killed writers have left, while no process writes such files.

    `prefix`: remove only files whose final names begin with this text.
    """
    if folder.is_dir():
        for name in os.listdir(folder):
            if name.startswith(f".{prefix}"):
                (folder / name).unlink(missing_ok=True)


def check_writable(option: str, folder: Path) -> None:
    """Create a folder if necessary, and test that it is writable. Raises CepError if it is not."""
    with writing_to(option, folder, begins=True):
        folder.mkdir(parents=True, exist_ok=True)
        inner = folder / SINK_LOG if (folder / SINK_LOG).is_dir() else folder
        probe = inner / f"{PROBES[0]}{uuid4().hex}"
        try:
            put(probe, _PROBE)
        finally:
            for left in (probe, *inner.glob(f"{PROBES[0]}*")):  # also files of runs that were killed
                left.unlink(missing_ok=True)


@contextmanager
def writing_to(option: str, folder: Path, begins: bool = False) -> Iterator[None]:
    """Convert an OSError to a CepError in a `with` block that writes into `folder`, which the user chose with `option`.

    `begins`: True if no query runs yet. If the disk is full, the message says that the same command can continue later.
    """
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error).partition("\n")[0]
        where = "" if error.filename in (None, str(folder)) or begins else f" ({error.filename})"
        full = error.errno in FULL
        text = f"{option}: {folder} cannot be {'created or ' if begins and not full else ''}written: {reason}{where}"
        hint = "free space on its disk" if full else "use a folder in which you may create and write files"
        raise CepError(text, hint=hint, code="failed" if full or not begins else "option") from None


def damaged_file(path: Path, option: str = "--checkpoint", what: str = "is damaged") -> CepError:
    """Return the error for a file that does not contain what was written into it."""
    return CepError(f"{option}: {path} {what}", hint=BACK, code="checkpoint")


def locked(folder: Path, timeout: float = 0.0) -> BinaryIO:
    """Lock an existing folder. The lock lasts until the returned file is closed or the process ends.

    Raises CepError if another process holds the lock and does not release it within `timeout` seconds.
    """
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
    """Prevent other runs from taking over the folder, inside a `with` block.

    `name`: the name of this run. Raises CepError if another run has already taken over the folder.
    """
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
    """Return the name of the run that holds the folder's lock or held it last.

    After a run is killed, some of its processes may continue for a moment, until they read another name here.
    """
    try:
        return (folder / LOCK).read_text()
    except FileNotFoundError:
        return ""
