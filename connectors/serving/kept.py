"""The folder of a server: one has it at a time, and it says what the events of its program mean."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path

from cep.errors import CepError

PROGRAM = "program"


class Kept:
    """Takes a folder for a program, by what its events and alerts mean. `changed`: those that meant something else
    until now, or are no more in the program, by name. Raises CepError where another server has the folder.
    """

    def __init__(self, folder: Path, meanings: Mapping[str, str]) -> None:
        self._file = (folder / PROGRAM).open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            hint = "one server has it at a time; another `--state` is another store"
            raise CepError(
                f"--state {folder}: it cannot be opened: another server has it", hint=hint, code="store"
            ) from None
        self._file.seek(0)
        try:
            earlier = dict(json.loads(self._file.read()))
        except (ValueError, TypeError):  # there was none, or one that did not say so
            earlier = {}
        self.changed = sorted(name for name, meaning in earlier.items() if meanings.get(name) != meaning)
        self._file.seek(0)
        self._file.truncate()
        json.dump(dict(meanings), self._file)
        self._file.flush()

    def close(self) -> None:
        """Another may have it."""
        self._file.close()
