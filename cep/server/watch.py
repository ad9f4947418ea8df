"""Watch files and read them again when they change: the program's files (`--watch`), and the file of tokens."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from cep.connectors.serving.people import People, read_people
from cep.connectors.serving.programs import ChangeRefused
from cep.connectors.serving.versions import FILES
from cep.core.errors import CepError
from cep.core.logs import Log
from cep.server.live_change import LiveProgram
from cep.server.options import ServeOptions

_OFTEN = 0.5
"""The interval between two checks of the files, in seconds."""


class FileWatch(threading.Thread):
    """A thread that watches the files of a program until it is closed."""

    def __init__(self, options: ServeOptions, live: LiveProgram) -> None:
        super().__init__(name="watch", daemon=True)
        self._options, self._live = options, live
        self._known = options.files_texts()
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(_OFTEN):
            try:
                texts = self._options.files_texts()
            except CepError:  # an editor may be about to replace the file
                continue
            if texts != self._known:
                self._take(texts)

    def close(self) -> None:
        self._over.set()

    def _take(self, texts: dict[str, str]) -> None:
        if texts == self._live.running()["files"]:
            self._known = texts
            return
        try:
            self._live.change(texts, FILES)
        except ChangeRefused as error:
            if error.busy:
                return  # the next check tries again
            self._options.log("watch", f"--watch: {error}", "warning")
        self._known = texts


class TokenFileWatch(threading.Thread):
    """A thread that watches the file of tokens until it is closed, and updates `people`.

    While the file is missing or not valid, the people from the last valid file remain, and the log says so. Pipes and
    other special files are read only once.
    """

    def __init__(self, file: Path, people: People, log: Log) -> None:
        super().__init__(name="tokens", daemon=True)
        self._file, self._people, self._log = file, people, log
        self._known: tuple[int, ...] | None = None  # it may have changed since the people were read
        self._seen: tuple[int, ...] | None = None
        self._failed = False
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(_OFTEN):
            seen, self._seen = self._seen, self._signature()
            changed = self._seen != self._known and self._seen != ()
            if changed and self._seen == seen:  # the file is complete
                self._known = seen
                self._take()

    def close(self) -> None:
        self._over.set()

    def _signature(self) -> tuple[int, ...] | None:
        """Return numbers that differ after each change of the file. They are empty for a pipe or another special file.
        Returns None if the file is missing."""
        try:
            status = os.stat(self._file)
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return ()
        return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size

    def _take(self) -> None:
        try:
            tokens = read_people(self._file).tokens
        except CepError as error:
            self._log("tokens", f"{error.message}; the earlier tokens stay valid", "error")
            self._failed = True
            return
        if tokens == self._people.tokens and not self._failed:
            return
        self._failed = False
        gone = len(self._people.tokens.items() - tokens.items())
        self._people.replace(tokens)
        text = f"--token-file {self._file} was read again: {len(tokens)} people, {gone} of the earlier tokens are void"
        self._log("tokens", text, people=len(tokens), void=gone)
