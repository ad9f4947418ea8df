"""A fair queue of queries: clients take turns, and none has all the slots."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque

PLACES, SHARE = 4, 2
"""Questions that are answered side by side, and those of one client."""

_WAITING, _OF_ONE = 256, 64  # questions that may wait, and of one client


class FairQueue:
    """Questions by their numbers; not for several threads at once."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[int]] = OrderedDict()  # whose turn it is first
        self._running: Counter[str] = Counter()

    def add(self, client: str, number: int) -> bool:
        """A question that waits for its place; False: too many do."""
        mine = self._waiting.setdefault(client, deque())
        if len(mine) >= _OF_ONE or sum(map(len, self._waiting.values())) >= _WAITING:
            return False
        mine.append(number)
        return True

    def next(self) -> int | None:
        """One that has a place from now on; its client's next turn comes after those of all others."""
        if self._running.total() >= PLACES:
            return None
        for client, mine in self._waiting.items():
            if mine and self._running[client] < SHARE:
                self._waiting.move_to_end(client)
                self._running[client] += 1
                return mine.popleft()
        return None

    def leave(self, client: str, number: int) -> None:
        """Remove a query that is answered, or whose client has left."""
        mine = self._waiting.get(client, deque())
        if number in mine:
            mine.remove(number)
        else:
            self._running[client] -= 1
        if not mine and self._running[client] <= 0:
            self._waiting.pop(client, None)
            del self._running[client]
