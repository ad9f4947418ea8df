"""`--watch`: when a file of the program changes, the program takes over."""

from __future__ import annotations

import threading

from cep.connectors.serving.programs import ChangeRefused
from cep.connectors.serving.versions import FILES
from cep.core.errors import CepError
from cep.server.live_change import LiveProgram
from cep.server.options import ServeOptions

_OFTEN = 0.5
"""Seconds between two looks at the files."""


class FileWatch(threading.Thread):
    """Looks at the files of a program until it is closed."""

    def __init__(self, options: ServeOptions, live: LiveProgram) -> None:
        super().__init__(name="watch", daemon=True)
        self._options, self._live = options, live
        self._known = options.files_texts()
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(_OFTEN):
            try:
                texts = self._options.files_texts()
            except CepError:  # an editor is about to replace it
                continue
            if texts != self._known:
                self._take(texts)

    def close(self) -> None:
        """Look no more."""
        self._over.set()

    def _take(self, texts: dict[str, str]) -> None:
        """Have the files take over, unless they are what runs."""
        if texts == self._live.running()["files"]:
            self._known = texts
            return
        try:
            self._live.change(texts, FILES)
        except ChangeRefused as error:
            if error.busy:
                return  # the next look tries again
            self._options.log("watch", f"--watch: {error}", "warning")
        self._known = texts
