"""The folder of a server: one has it at a time, and it says what the events of its program mean."""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Mapping
from pathlib import Path

from cep.core.errors import CepError

PROGRAM = "program"

_BEGUN = re.compile(r'({(["}].*)?)?|[0-9a-f]+', re.DOTALL)
"""What is in it, also when it was not written to its end, or by an earlier version."""
_WRITTEN = ("events", "events.nq", "alerts.db", "journal", "snapshot")
"""What else a server writes there, always after `program`."""


class Kept:
    """Takes a folder for a program, by what its events and alerts mean. `changed`: those that meant something else
    until now, or are no more in the program, by name. Raises CepError where another server has the folder, or what is
    in it is not a server's.
    """

    def __init__(self, folder: Path, meanings: Mapping[str, str]) -> None:
        if not (folder / PROGRAM).exists() and (others := [name for name in _WRITTEN if (folder / name).exists()]):
            hint = "name a folder that is empty, or one that it has made"
            text = f"--state {folder}: there is `{others[0]}` in it that no server has written"
            raise CepError(text, hint=hint, code="store")
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
        text = self._file.read()
        if _BEGUN.fullmatch(text) is None:
            self._file.close()
            hint = "name a folder that is empty, or one that it has made"
            raise CepError(f"--state {folder}: no server has written `{PROGRAM}` in it", hint=hint, code="store")
        try:
            earlier = dict(json.loads(text))
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
