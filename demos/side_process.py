"""Run functions in a second process, so that a demo draws its picture on the second processor.

`python -m cep.demos.side_process` is that process. It executes the calls that it receives, in order, and reports for
each call whether it succeeded. The first process repeats calls that failed. The second process ends with the first one.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

DONE, FAILED = b"+", b"-"


class Beside:
    """A second process that runs functions. It is not started if there is only one processor."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._begun: list[Callable[[], object] | None] = []
        self._waited = 0

    def __enter__(self) -> Self:
        if (os.cpu_count() or 1) > 1:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "cep.demos.side_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._child is not None:
            if kind is not None:
                self._child.kill()
            self._child.communicate()

    def prepare(self, work: Callable[..., object], *given: Any) -> None:
        """Run a function in the second process, after earlier functions. The function must belong to a module. If there
        is no second process, or the function fails, this call has no effect."""
        self._send(work, given, needed=False)

    def begin(self, work: Callable[..., object], *given: Any) -> Callable[[], None]:
        """Run a function in the second process. Return a function that waits for it to end. If the second process has
        not run the function successfully, the returned function runs it in this process."""
        number = self._send(work, given, needed=True)
        return lambda: self._wait(number)

    def wait(self) -> None:
        """Wait until the second process has run all functions."""
        self._wait(len(self._begun) - 1)

    def _send(self, work: Callable[..., object], given: tuple[Any, ...], needed: bool) -> int:
        self._begun.append(partial(work, *given) if needed else None)
        if self._child is not None and self._child.stdin is not None:
            with suppress(OSError):  # the process has ended
                pickle.dump((work, given), self._child.stdin)
                self._child.stdin.flush()
        return len(self._begun) - 1

    def _wait(self, number: int) -> None:
        while self._waited <= number:
            work = self._begun[self._waited]
            self._waited += 1
            done = self._child is not None and self._child.stdout is not None and self._child.stdout.read(1) == DONE
            if not done and work is not None:
                work()


def main() -> None:
    from cep.core.signals import stops

    stops.begin()
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # output of the work must not be mistaken for answers
    while True:
        try:
            work, given = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            work(*given)
            done = DONE
        except Exception:
            done = FAILED
        answers.write(done)
        answers.flush()


if __name__ == "__main__":
    main()
