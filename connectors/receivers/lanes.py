"""Lanes: threads that work side by side for another one, which collects their results."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue

Step = Callable[[], None]
Then = Callable[[Exception | None], None]
"""Receives the failure of a step, None: there was none."""


class Lanes:
    """Threads for up to `most` steps at once. `busy`: the steps that were begun and are not `finished`. `bell` is set
    when one ends. The threads end with the process: a receiver that hangs does not delay it."""

    def __init__(self, most: int, name: str, bell: threading.Event) -> None:
        self.most, self.busy = most, 0
        self._name, self._bell = name, bell
        self._steps: SimpleQueue[tuple[Step, Then] | None] = SimpleQueue()
        self._ended: deque[tuple[Then, Exception | None]] = deque()
        self._threads = 0

    def begin(self, step: Step, then: Then) -> None:
        """Begin a step. `then` is returned when it has ended."""
        self.busy += 1
        self._steps.put((step, then))
        if self._threads < min(self.most, self.busy):
            self._threads += 1
            threading.Thread(target=self._work, name=f"{self._name} {self._threads}", daemon=True).start()

    def finished(self) -> Iterator[tuple[Then, Exception | None]]:
        """Return the steps that have ended since the last call."""
        while self._ended:
            self.busy -= 1
            yield self._ended.popleft()

    def close(self) -> None:
        """End the threads as soon as they have nothing to do."""
        for _ in range(self._threads):
            self._steps.put(None)

    def _work(self) -> None:
        while (step := self._steps.get()) is not None:
            try:
                step[0]()
            except Exception as error:  # also an unexpected error: a thread that ended would report nothing
                self._ended.append((step[1], error))
            else:
                self._ended.append((step[1], None))
            self._bell.set()
