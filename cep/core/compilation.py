"""The compiling of kernels that this process does, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

LIKELY = 30
"""Seconds that the kernels of a program and of its input take to compile, about, on an idle machine."""


class Compilation:
    """`kernels`: how many were compiled. `listener` is called before the first and after each."""

    def __init__(self) -> None:
        self.kernels = 0
        self.listener: Callable[[], None] | None = None
        self._before = 0.0
        self._began: float | None = None

    @property
    def seconds(self) -> float:
        """Return the time it has taken so far."""
        return self._before + (0.0 if self._began is None else monotonic() - self._began)

    @property
    def state(self) -> str | None:
        """A description of the compiling under way; None while nothing is compiled."""
        if self._began is None:
            return None
        usual = f"usually about {LIKELY} s in all" if self.seconds < LIKELY else f"longer than the usual {LIKELY} s"
        return f"compiling kernels: {self.kernels} in {self.seconds:.0f} s, {usual}"

    @contextmanager
    def one(self) -> Iterator[None]:
        """The block compiles a kernel, and those that this calls."""
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
