"""Folders that cannot be written: seen before a query begins where they can be, and said in a sentence later."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from cep.core.errors import CepError
from cep.spark.sink.commit_log import LOG
from cep.spark.storage.disk import put

TRIED = (".room-", "..room-")
"""What names of files begin with by which it is tried whether a folder takes any; the second while one is written."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_LITTLE = bytes(1 << 12)


def room(option: str, folder: Path) -> None:
    """See that a folder is there, or make it, and that it takes files. CepError: it does not."""
    with onto(option, folder, begins=True):
        folder.mkdir(parents=True, exist_ok=True)
        inner = folder / LOG if (folder / LOG).is_dir() else folder
        tried = inner / f"{TRIED[0]}{uuid4().hex}"
        try:
            put(tried, _LITTLE)
        finally:
            tried.unlink(missing_ok=True)


@contextmanager
def onto(option: str, folder: Path, begins: bool = False) -> Iterator[None]:
    """The block writes in a folder that an option names. CepError: it cannot; `begins`: no query runs yet. A disk that
    is full is one that may have room again, so that the same command goes on."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error).partition("\n")[0]
        where = "" if error.filename in (None, str(folder)) or begins else f" ({error.filename})"
        full = error.errno in _FULL
        told = f"{option}: {folder} cannot be {'made or ' if begins and not full else ''}written: {reason}{where}"
        hint = "make room on its disk" if full else "name a folder of which one may make and write files"
        raise CepError(told, hint=hint, code="failed" if full or not begins else "option") from None
