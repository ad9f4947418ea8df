"""Threads that run steps in parallel. A controlling thread begins the steps and receives their results."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue

Step = Callable[[], None]
Then = Callable[[Exception | None], None]
"""A function that is called after a step has ended. Its argument is the exception that the step raised, or None."""


class Lanes:
    """Threads that run up to `most` steps at the same time.

    - `busy`: the number of steps that have begun and that `finished` has not yet returned.
    - `bell`: an event that is set whenever a step ends.

    The threads are daemons, so a receiver that does not answer does not delay the end of the process.
    """

    def __init__(self, most: int, name: str, bell: threading.Event) -> None:
        self.most, self.busy = most, 0
        self._name, self._bell = name, bell
        self._steps: SimpleQueue[tuple[Step, Then] | None] = SimpleQueue()
        self._ended: deque[tuple[Then, Exception | None]] = deque()
        self._threads = 0

    def begin(self, step: Step, then: Then) -> None:
        """Run a step in a thread. When the step has ended, `finished` yields `then`."""
        self.busy += 1
        self._steps.put((step, then))
        if self._threads < min(self.most, self.busy):
            self._threads += 1
            threading.Thread(target=self._work, name=f"{self._name} {self._threads}", daemon=True).start()

    def finished(self) -> Iterator[tuple[Then, Exception | None]]:
        """Yield a pair for each step that has ended since the last call: its `then`, and its exception or None."""
        while self._ended:
            self.busy -= 1
            yield self._ended.popleft()

    def close(self) -> None:
        """End each thread as soon as it has finished its step."""
        for _ in range(self._threads):
            self._steps.put(None)

    def _work(self) -> None:
        while (step := self._steps.get()) is not None:
            try:
                step[0]()
            except Exception as error:  # even an unexpected error: if the thread ended, nothing would be reported
                self._ended.append((step[1], error))
            else:
                self._ended.append((step[1], None))
            self._bell.set()
