"""Files that are there whole or not at all, also after a cut of power; and the errors of folders and files on disk.

What a file holds is on disk before the file gets its name. Whether the name is on disk is waited for only where another
file system may rely on it: on one file system with a journal names reach the disk in order, and what refers to this
file comes later.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from cep.core.errors import CepError
from cep.spark.storage.layout import PROBES, SINK_LOG

BACK = "put the whole folders of --output and --checkpoint back as they were, or start anew with others"
"""What to do where files are damaged, missing, or of different times."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PROBE = bytes(1 << 12)


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


def sync_names(folder: Path) -> None:
    """Return when the names of the files in a folder are on disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


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
            probe.unlink(missing_ok=True)


@contextmanager
def writing_to(option: str, folder: Path, begins: bool = False) -> Iterator[None]:
    """The block writes into a folder that an option names. CepError: it cannot; `begins`: no query runs yet. A full
    disk may have room later, and then the same command goes on."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error).partition("\n")[0]
        where = "" if error.filename in (None, str(folder)) or begins else f" ({error.filename})"
        full = error.errno in _FULL
        text = f"{option}: {folder} cannot be {'made or ' if begins and not full else ''}written: {reason}{where}"
        hint = "make room on its disk" if full else "name a folder of which one may make and write files"
        raise CepError(text, hint=hint, code="failed" if full or not begins else "option") from None


def damaged_file(path: Path, option: str = "--checkpoint", what: str = "is damaged") -> CepError:
    """The error for a file that is not what was written."""
    return CepError(f"{option}: {path} {what}", hint=BACK, code="checkpoint")
