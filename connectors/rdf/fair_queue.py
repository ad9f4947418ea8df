"""A fair queue of queries: clients take turns, and no client occupies all slots."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque

PLACES, SHARE = 4, 2
"""The maximum number of queries that are evaluated in parallel: in total, and per client."""

_WAITING, _OF_ONE = 256, 64  # the maximum queries that wait, in total and per client


class FairQueue:
    """A queue of queries, which are identified by numbers. It is not thread-safe."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[int]] = OrderedDict()  # by client, in the order of turns
        self._running: Counter[str] = Counter()

    def add(self, client: str, number: int) -> bool:
        """Add a query that waits for a slot. Return False if too many queries wait already."""
        mine = self._waiting.setdefault(client, deque())
        if len(mine) >= _OF_ONE or sum(map(len, self._waiting.values())) >= _WAITING:
            return False
        mine.append(number)
        return True

    def next(self) -> int | None:
        """Assign a slot to the next query, and return the number of this query.

        Return None if no slot is free, if no query waits, or if each client whose queries wait already has SHARE
        running queries. The client of this query gets its next turn after all other clients.
        """
        if self._running.total() >= PLACES:
            return None
        for client, mine in self._waiting.items():
            if mine and self._running[client] < SHARE:
                self._waiting.move_to_end(client)
                self._running[client] += 1
                return mine.popleft()
        return None

    def leave(self, client: str, number: int) -> None:
        """Remove a query that was answered, or whose client no longer waits for the answer."""
        mine = self._waiting.get(client, deque())
        if number in mine:
            mine.remove(number)
        else:
            self._running[client] -= 1
        if not mine and self._running[client] <= 0:
            self._waiting.pop(client, None)
            del self._running[client]
