"""Files that are there whole or not at all, and still are when the machine has lost its power; and what to say where
one is not what was written.

What a file holds is on disk before it gets its name. That the name is on disk is waited for where another file system
may go by it: on one, names come to the disk in their order, where it keeps a journal, and what names this file comes
later.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from cep.core.errors import CepError

BACK = "put the whole folders of --output and --checkpoint back as they were, or start anew with others"
"""What to do where files are damaged, missing, or not of one time."""


def put(path: Path, content: bytes) -> None:
    """Put a file in a folder that is there, in the place of one of its name."""
    made = path.with_name(f".{path.name}.{uuid4().hex}")  # the same task may run twice at once, on two machines
    try:
        with made.open("wb") as file:
            file.write(content)
            settled(file)
        made.replace(path)
    except OSError:
        made.unlink(missing_ok=True)
        raise


def settled(file: BinaryIO) -> None:
    """Return when what was written to a file is on disk."""
    file.flush()
    os.fsync(file.fileno())


def named(folder: Path) -> None:
    """Return when the names of the files in a folder are on disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def damaged(path: Path, option: str = "--checkpoint", what: str = "is damaged") -> CepError:
    """That a file is not what was written."""
    return CepError(f"{option}: {path} {what}", hint=BACK, code="checkpoint")
