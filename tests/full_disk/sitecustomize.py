"""A module that each Python process of a run loads, to simulate a full disk.

While the file that `SEMCEP_FULL` names exists, no file in its folder can be opened for writing.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any


def install(told: str) -> None:
    folder = os.path.join(os.path.dirname(told), "")

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | Path):
            return
        path, _, flags = arguments
        if flags & (os.O_WRONLY | os.O_RDWR) and os.fspath(path).startswith(folder) and os.path.exists(told):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path))

    sys.addaudithook(look)


if "SEMCEP_FULL" in os.environ:
    install(os.environ["SEMCEP_FULL"])
