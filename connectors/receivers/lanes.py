"""Lanes: some threads that work side by side for one that waits for what they have done."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue

Step = Callable[[], None]
Then = Callable[[Exception | None], None]
"""Takes the failure of a step, None: there was none."""


class Lanes:
    """`most` steps are worked off at once; `busy`: so many were begun that are not `finished`. `bell` is set when one
    ends. The threads end with the process: a receiver that hangs does not hold it up."""

    def __init__(self, most: int, name: str, bell: threading.Event) -> None:
        self.most, self.busy = most, 0
        self._name, self._bell = name, bell
        self._steps: SimpleQueue[tuple[Step, Then] | None] = SimpleQueue()
        self._ended: deque[tuple[Then, Exception | None]] = deque()
        self._threads = 0

    def begin(self, step: Step, then: Then) -> None:
        """Have a step done; `then` is handed over when it has ended."""
        self.busy += 1
        self._steps.put((step, then))
        if self._threads < min(self.most, self.busy):
            self._threads += 1
            threading.Thread(target=self._work, name=f"{self._name} {self._threads}", daemon=True).start()

    def finished(self) -> Iterator[tuple[Then, Exception | None]]:
        """The steps that have ended since."""
        while self._ended:
            self.busy -= 1
            yield self._ended.popleft()

    def close(self) -> None:
        """The threads end when they have nothing to do."""
        for _ in range(self._threads):
            self._steps.put(None)

    def _work(self) -> None:
        while (step := self._steps.get()) is not None:
            try:
                step[0]()
            except Exception as error:  # also an unexpected one: a thread that ended would report nothing
                self._ended.append((step[1], error))
            else:
                self._ended.append((step[1], None))
            self._bell.set()
