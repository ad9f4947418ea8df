"""The state folder of a server. Only one process at a time can use it.

Its file `program` stores a fingerprint of each event and alert, computed from its rules.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path

from cep.core import checksum
from cep.core.errors import CepError
from cep.core.private_files import make_private, private_opener

PROGRAM = "program"

_WRITTEN = ("events", "events.nq", "alerts.db", "journal", "snapshot")
"""The names of the other files and folders in the state folder. A server creates them only after the file `program`."""


class StateFolder:
    """A locked state folder.

    `changed`: the names of events and alerts whose fingerprint has changed since the last run, or that the program no
    longer has. Raises CepError if another server uses the folder, or its files were not written by a server.
    """

    def __init__(self, folder: Path, meanings: Mapping[str, str]) -> None:
        if not (folder / PROGRAM).exists() and (others := [name for name in _WRITTEN if (folder / name).exists()]):
            hint = "use an empty folder, or one that `cep serve` has created"
            text = f"--state {folder}: the folder has a `{others[0]}` that no server has written"
            raise CepError(text, hint=hint, code="store")
        self._file = open(folder / PROGRAM, "a+b", opener=private_opener)  # noqa: SIM115 - closed by `close`
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            hint = "only one server can use a store at a time; another `--state` is another store"
            raise CepError(
                f"--state {folder}: the folder cannot be opened: another server uses it", hint=hint, code="store"
            ) from None
        try:
            earlier = self._earlier(folder)
        except CepError:
            self._file.close()
            raise
        make_private(folder)
        self.changed = sorted(name for name, meaning in earlier.items() if meanings.get(name) != meaning)
        self.note(meanings)

    def note(self, meanings: Mapping[str, str]) -> None:
        """Store the current fingerprints of events and alerts. `meanings`: the fingerprint of each name."""
        self._file.seek(0)
        self._file.truncate()
        self._file.write(checksum.MARK + checksum.record(json.dumps(dict(meanings)).encode(), b""))
        self._file.flush()

    def _earlier(self, folder: Path) -> dict[str, str]:
        """Return the stored fingerprint of each name. Return an empty dictionary if the server stopped before it had
        written all fingerprints."""
        self._file.seek(0)
        data = self._file.read()
        if not (checksum.is_sealed(data) or checksum.MARK.startswith(data.rstrip(b"\0"))):
            hint = "use an empty folder, or one that `cep serve` has created"
            raise CepError(
                f"--state {folder}: the folder has a `{PROGRAM}` that no server has written", hint=hint, code="store"
            )
        try:
            if data and data.rstrip(b"\0") and not data.startswith(checksum.MARK[: len(data)]):
                raise checksum.Broken
            return next((json.loads(head) for head, *_ in checksum.read_records(data, len(checksum.MARK))), {})
        except checksum.Broken:
            hint = "restore the folder from a backup, or start afresh with another one"
            raise CepError(
                f"--state {folder}: the file `{PROGRAM}` in the folder is damaged", hint=hint, code="store"
            ) from None

    def close(self) -> None:
        self._file.close()
