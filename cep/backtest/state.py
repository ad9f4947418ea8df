"""The state file of a backtest. It stores the figures of finished points, so that an interrupted run can resume. Each
pass writes one line."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cep.app.durations import refuse
from cep.backtest.nab import NabScores
from cep.backtest.passes import HistorySummary, Parts, PassResult
from cep.backtest.scoring import Figures
from cep.core.errors import reason_of

FORMAT = 1


class SearchState:
    """An open state file. Raises CepError if the file belongs to another backtest, or cannot be read or written.

    `of`: everything on which the figures depend, except the parameter values of the grid.
    """

    def __init__(self, path: Path, of: Mapping[str, Any]) -> None:
        self.path = path
        self.found: dict[str, Parts] = {}
        self.history: HistorySummary | None = None
        self._identity = hashlib.sha256(json.dumps(of, sort_keys=True, default=str).encode()).hexdigest()
        try:
            whole = self._read(path.read_bytes()) if path.exists() else 0
            self._file = path.open("r+b" if path.exists() else "x+b")
            self._file.truncate(whole)
            self._file.seek(whole)
            if not whole:
                self._write({"format": FORMAT, "of": self._identity})
        except OSError as error:
            raise refuse(f"--state {path}: {reason_of(error)}") from None

    def add(self, names: Sequence[str], result: PassResult) -> None:
        """Store the results of a pass. `names`: the parameter values of each point in the pass, as text."""
        parts = [asdict(part) for part in result.parts]
        self._write({"points": dict(zip(names, parts)), "history": asdict(result.history)})
        self.found |= dict(zip(names, result.parts))
        self.history = result.history

    def close(self) -> None:
        self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise refuse(f"--state {self.path}: {reason_of(error)}") from None

    def _read(self, data: bytes) -> int:
        """Read the stored results without an incomplete last line. Return the number of bytes in the complete lines."""
        whole = data.rfind(b"\n") + 1
        try:
            lines = [json.loads(line) for line in data[:whole].splitlines()]
            same = not lines or (lines[0]["format"], lines[0]["of"]) == (FORMAT, self._identity)
            for line in lines[1:] if same else ():
                self.found |= {name: _parts(part_document) for name, part_document in line["points"].items()}
                self.history = HistorySummary(**line["history"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise refuse(f"--state {self.path}: this is not the state of a backtest", "name another file") from None
        if not same:
            hint = "its program, history, labels or options differ: name another file, or remove this one"
            raise refuse(f"--state {self.path}: this is the state of another backtest", hint)
        return whole


def _parts(parts: Mapping[str, Any]) -> Parts:
    return Parts(*(None if parts[name] is None else _figures(parts[name]) for name in ("whole", "before", "after")))  # type: ignore[arg-type]


def _figures(document: Mapping[str, Any]) -> Figures:
    nab = None if document["nab"] is None else NabScores(**document["nab"])
    return Figures(**{**document, "nab": nab})
