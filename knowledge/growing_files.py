"""Changes of the knowledge in files that arrive one by one, and in N-Quads files that grow. The engine looks for new
files and new lines from time to time.

A named graph takes effect as soon as its time has been read. If its triples are read earlier, they wait for this time.
If triples are read later, they become a further change at the same time. The end of a graph may also be read later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cep.core.errors import CepError
from cep.knowledge.change import Change
from cep.knowledge.load import files
from cep.knowledge.updates import Graphs, RefusedUpdate, Update, quads_of, read_updates


@dataclass(slots=True)
class ReadUpdates:
    """Updates read from files. `changes`: the valid updates in order of time. `refused`: the refused updates."""

    changes: list[Update] = field(default_factory=list)
    refused: list[RefusedUpdate] = field(default_factory=list)

    def join(self, other: ReadUpdates) -> None:
        """Add the updates of another file."""
        times = {change.time: change for change in self.changes}
        for change in other.changes:
            before = times.get(change.time)
            times[change.time] = change if before is None else before.joined(change)
        self.changes = [times[time] for time in sorted(times)]
        self.refused += other.refused


class GrowingFile:
    """A growing file of N-Quads, read line by line."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._graphs = Graphs("")
        self._line = 0

    def read(self, lines: bytes, last: bool = False) -> ReadUpdates:
        """Read the next lines of the file. Return the updates that are complete after these lines.

        `last`: True if the file will not grow any more. Then graphs that have no time yet are refused.
        """
        news = ReadUpdates()
        touched: dict[str, None] = {}
        for line in lines.splitlines(keepends=True):
            self._line += 1
            try:
                for quad in quads_of(line):
                    touched[self._graphs.take(quad, self._line)] = None
            except CepError as error:
                news.refused.append(self._refused(self._line, error.message, error.code, line))
        for name in [*touched, *(self._graphs.known if last else ())]:
            graph = self._graphs.known.get(name)
            if graph is None or (graph.begins is None and graph.ends is None and not last):
                continue
            try:
                news.join(ReadUpdates(self._graphs.settle(name)))
            except CepError as error:
                about = graph.fresh[:1] or ([] if graph.about is None else [graph.about])
                text = "".join(f"{quad} .\n" for quad in about).encode()
                news.refused.append(self._refused(graph.line, error.message, error.code, text))
                del self._graphs.known[name]
        for update in news.changes:
            update.file = self._file
        return news

    def _refused(self, line: int, reason: str, code: str, text: bytes) -> RefusedUpdate:
        return RefusedUpdate(self._file, line, reason, code, text.decode("utf-8", "replace").strip())


def whole(file: str) -> ReadUpdates:
    """Read the updates in a file that does not grow. Raises CepError if it cannot be read."""
    return ReadUpdates(read_updates([file]))


def there(names: Iterable[str]) -> list[str]:
    """Return the existing files that have one of the names or match one of the patterns in `names`."""
    paths: list[str] = []
    for name in names:
        try:
            paths += map(str, files([name]))
        except CepError:
            continue
    return paths


def grows(file: str) -> bool:
    """Return True if the file is in N-Quads, a format to which lines may be appended."""
    return Path(file).name.lower().endswith(".nq")


def change(update: Update) -> bytes:
    """Convert an update to the bytes of a change, which an engine accepts."""
    return Change.of(update.add, update.remove).written()
