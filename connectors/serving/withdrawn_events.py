"""The newest withdrawn events, for the live page."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from cep.core.time import BEGINNING

MOST = 20_000
"""The number of newest withdrawals that are kept."""


class WithdrawnEvents:
    """The withdrawn events, and the existing events about each subject. Withdrawals are numbered like all changes of
    the page.

    `counts`: the number of withdrawn events, by event. `gone`: the number of the latest withdrawal that is no longer
    kept.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.gone = 0
        self._newest: deque[tuple[int, bytes]] = deque(maxlen=MOST)
        self._documents: dict[str, tuple[int, bytes]] = {}
        self._about: dict[str, dict[str, tuple[int, str]]] = {}

    def came(self, document: Mapping[str, Any]) -> None:
        """Note that an event exists. Its document has `id`, `type`, `end` and its subject's `key`."""
        self._documents.pop(document["id"], None)
        # for an open interval, its beginning counts
        end = document["start"] if document["end"] is None else document["end"]
        if document["key"] is not None and end is not None:
            self._about.setdefault(document["key"], {})[document["id"]] = end, document["type"]

    def dropped(self, id: str, key: str | None) -> None:
        """Note that an event is no longer kept."""
        mine = self._about.get(key or "", {})
        mine.pop(id, None)
        if not mine:
            self._about.pop(key or "", None)

    def withdraw(self, number: int, document: Mapping[str, Any], time: int | None) -> None:
        """Note that an event was withdrawn when the watermark was `time`."""
        text = json.dumps({**document, "withdrawn": time}, separators=(",", ":")).encode()
        if len(self._newest) == MOST:
            self.gone, oldest = self._newest[0]
            id = json.loads(oldest)["id"]
            if self._documents.get(id, (0, b""))[0] == self.gone:
                del self._documents[id]
        self._newest.append((number, text))
        self._documents[document["id"]] = number, text
        self.counts[document["type"]] += 1
        self.dropped(document["id"], document["key"])

    def latest(self, key: str) -> tuple[int, str]:
        """Return the end and type of the latest event about a subject."""
        return max(self._about.get(key, {}).values(), default=(BEGINNING, ""))

    def behind(self, number: int, reached: int) -> list[bytes]:
        """Return the documents of the withdrawals with numbers above `number`, up to and including `reached`, oldest
        first."""
        texts = []
        for event_number, text in reversed(self._newest):
            if event_number <= number:
                break
            if event_number <= reached:
                texts.append(text)
        return texts[::-1]

    def newest(self, most: int) -> list[bytes]:
        """Return the documents of the newest withdrawals, oldest first."""
        return [text for _, text in islice(reversed(self._newest), most)][::-1]

    def documents(self) -> list[bytes]:
        """Return the documents of all withdrawn events, earliest withdrawal first."""
        return [text for _, text in self._documents.values()]

    def document(self, id: str) -> dict[str, Any] | None:
        """Return the document of a withdrawn event."""
        entry = self._documents.get(id)
        return None if entry is None else json.loads(entry[1])


def subjects(tables: Mapping[str, Any], column: Callable[[str], str | None]) -> Iterator[str]:
    """Yield the subjects in tables, without duplicates. `column` returns the name of the column
    with the subject of an event, or None if the event has none."""
    values = {
        str(value)
        for name, table in tables.items()
        if (subject := column(name)) is not None
        for value in table[subject].unique().to_list()
        if value is not None
    }
    yield from sorted(values)
