"""The newest withdrawn events, for the live page."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from cep.core.time import BEGINNING

MOST = 20_000
"""The maximum number of withdrawals that are kept. If there are more, the oldest are dropped."""


class WithdrawnEvents:
    """The events that were withdrawn, for the live page. The object also stores, for each subject, the ends of the
    events that are still valid.

    - `counts`: for each event type, how many of its events were withdrawn.
    - `gone`: the number of the latest withdrawal that this object has dropped to save memory. Withdrawals are numbered
      with all other changes of the page (see `cep.connectors.serving.scene`).
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.gone = 0
        self._newest: deque[tuple[int, bytes]] = deque(maxlen=MOST)
        self._documents: dict[str, tuple[int, bytes]] = {}
        self._about: dict[str, dict[str, tuple[int, str]]] = {}

    def came(self, document: Mapping[str, Any]) -> None:
        """Add an event that is not withdrawn. Its document has `id`, `type`, `end` and the `key` of its subject."""
        self._documents.pop(document["id"], None)
        # for an open interval, its beginning counts
        end = document["start"] if document["end"] is None else document["end"]
        if document["key"] is not None and end is not None:
            self._about.setdefault(document["key"], {})[document["id"]] = end, document["type"]

    def dropped(self, id: str, key: str | None) -> None:
        """Remove an event that is no longer kept. `key`: the event's subject."""
        mine = self._about.get(key or "", {})
        mine.pop(id, None)
        if not mine:
            self._about.pop(key or "", None)

    def withdraw(self, number: int, document: Mapping[str, Any], time: int | None) -> None:
        """Add a withdrawal. `number`: the number of the change. `time`: the watermark at which it happened."""
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
        """Return the end and the type of the latest event about the subject `key` that was not withdrawn."""
        return max(self._about.get(key, {}).values(), default=(BEGINNING, ""))

    def behind(self, number: int, reached: int) -> list[bytes]:
        """Return the events that were withdrawn by the changes after `number`, up to and including `reached`.

        The oldest withdrawal comes first.
        """
        texts = []
        for event_number, text in reversed(self._newest):
            if event_number <= number:
                break
            if event_number <= reached:
                texts.append(text)
        return texts[::-1]

    def newest(self, most: int) -> list[bytes]:
        """Return the events of the `most` newest withdrawals, oldest withdrawal first."""
        return [text for _, text in islice(reversed(self._newest), most)][::-1]

    def documents(self) -> list[bytes]:
        """Return all withdrawn events, earliest withdrawal first."""
        return [text for _, text in self._documents.values()]

    def document(self, id: str) -> dict[str, Any] | None:
        """Return the withdrawn event that has this id, or None."""
        entry = self._documents.get(id)
        return None if entry is None else json.loads(entry[1])


def subjects(tables: Mapping[str, Any], column: Callable[[str], str | None]) -> Iterator[str]:
    """Yield the subjects of the events in all tables, sorted and without duplicates.

    `column`: a function that returns the name of the column that contains an event type's subject, or None.
    """
    values = {
        str(value)
        for name, table in tables.items()
        if (subject := column(name)) is not None
        for value in table[subject].unique().to_list()
        if value is not None
    }
    yield from sorted(values)
