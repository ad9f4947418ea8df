"""The progress of compiling kernels in this process, for display while a user waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

LIKELY = 30
"""The approximate number of seconds that compiling the kernels of a program takes on an idle machine."""


class Compilation:
    """The progress of compilation.

    - `kernels`: the number of kernels compiled so far.
    - `listener`: a function that is called before the first kernel is compiled, and after each kernel.
    """

    def __init__(self) -> None:
        self.kernels = 0
        self.listener: Callable[[], None] | None = None
        self._before = 0.0
        self._began: float | None = None

    @property
    def seconds(self) -> float:
        """The number of seconds spent on compilation so far."""
        return self._before + (0.0 if self._began is None else monotonic() - self._began)

    @property
    def state(self) -> str | None:
        """Return a description of the current compilation, or None if nothing is being compiled."""
        if self._began is None:
            return None
        usual = f"usually about {LIKELY} s in all" if self.seconds < LIKELY else f"longer than the usual {LIKELY} s"
        return f"compiling kernels: {self.kernels} in {self.seconds:.0f} s, {usual}"

    @contextmanager
    def one(self) -> Iterator[None]:
        """Measure the compilation of a kernel, and of the kernels that it calls, during the block."""
        if outermost := self._began is None:
            self._began = monotonic()
        self._tell(self.kernels == 0)
        try:
            yield
        finally:
            self.kernels += 1
            if outermost:
                self._before, self._began = self.seconds, None
        self._tell(True)

    def _tell(self, there_is_news: bool) -> None:
        if there_is_news and self.listener is not None:
            self.listener()


compilation = Compilation()
