"""Handling of Ctrl-C and SIGTERM. A handler that raised an exception inside compiled code would crash the process.

So no handler raises. Normally either signal ends a command at once, without an exception. Work that must end cleanly
runs within `listening`. The first signal is then only a request, which the work grants by calling `look` between two
steps. A second signal ends the command at once. `wait` waits for input, and a signal ends the wait. A long step may be
abandoned where it calls `between`.
"""

from __future__ import annotations

import atexit
import math
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, perf_counter
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)

_SHOW_CURSOR = b"\x1b[?25h"
_LONGEST = 2**31 - 1  # the maximum timeout of `poll`, in milliseconds
_STEP = 2.0  # seconds for which a step may continue after a stop request


class Stops:
    """The handling of signals in this process.

    - `requested`: the number of the signal that requested an end, or 0 if there was no such signal.
    - `awaiting`: True while the process waits for input, so that it grants a request at the next `look` or `between`.
    - `status`: the exit status, once the command has ended.
    - `began`: the time at which the command started.
    """

    def __init__(self) -> None:
        self.requested = 0
        self.awaiting = False
        self.status: int | None = None
        self.began: float | None = None
        self._stepping = False
        self._came = 0.0
        self._on_request: Callable[[int], None] | None = None
        self._woken: int | None = None
        self._breaking = False

    def begin(self) -> None:
        """Start handling signals in a command's process, and measure the command's time from now.

        Either signal ends the process with the status 128 plus the signal's number, even during shutdown.
        """
        self.began = perf_counter()
        atexit.register(self._end)  # atexit calls the first registered function last
        for number in STOPS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def interrupt_reads(self) -> None:
        """Let a signal interrupt a blocked read. Call this after imports.

        When polars is imported, it installs its own handler before ours, and asks the system to resume calls
        (SA_RESTART). Our handler would then never run.
        """
        for number in STOPS:
            signal.siginterrupt(number, True)

    @contextmanager
    def listening(self, on_request: Callable[[int], None]) -> Iterator[None]:
        """Treat the first signal during the block as a request to end. `on_request`: a function that is called with the
        signal's number."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        self.requested, self._on_request, self._woken = 0, on_request, reading
        before = [(number, signal.signal(number, self._handle)) for number in STOPS]
        waking = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(waking)
            for number, handler in before:
                signal.signal(number, handler)
            self._on_request = self._woken = None
            os.close(reading)
            os.close(writing)

    @property
    def code(self) -> int:
        """The exit status after a request to end was granted."""
        return 128 + (self.requested or signal.SIGINT)

    def look(self) -> None:
        """Raise KeyboardInterrupt if an end was requested and the process waits for input. Call it between steps."""
        if self.requested and self.awaiting:
            raise KeyboardInterrupt

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Mark the block as a step that may be abandoned, because its state is not used afterwards."""
        self._stepping = True
        try:
            yield
        finally:
            self._stepping = False

    def between(self) -> None:
        """Raise KeyboardInterrupt if the process runs a step and an end was requested some seconds ago.

        Also raise it if the process waits for input and an end was requested. Call this method between two parts of a
        step, outside compiled code.
        """
        if self.requested and (self.awaiting or (self._stepping and monotonic() > self._came + _STEP)):
            raise KeyboardInterrupt

    def wait(self, descriptor: int | None, seconds: float | None) -> bool:
        """Wait until the descriptor has data or is at the end of its file. Return False if `seconds` pass before that.

        `seconds`: the maximum time. None means unlimited. Raises KeyboardInterrupt if an end is requested during the
        wait.
        """
        until = None if seconds is None else monotonic() + seconds
        poll = select.poll()
        for watched in (descriptor, self._woken):
            if watched is not None:
                poll.register(watched, select.POLLIN)
        while True:
            self.look()
            left = None if until is None else min(_LONGEST, math.ceil(max(0.0, until - monotonic()) * 1000))
            ready = [readable for readable, _ in poll.poll(left)]
            if self._woken in ready and self._woken is not None:
                with suppress(BlockingIOError):
                    os.read(self._woken, 512)
            self.look()
            if descriptor is not None and descriptor in ready:
                return True
            if until is not None and monotonic() >= until:
                return False

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """Abandon the block at once when an end is requested. Use it around code that blocks outside kernels."""
        self._breaking = True
        try:
            self.look()
            yield
        finally:
            self._breaking = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        on_request = self._on_request
        if on_request is None or self.requested:
            _leave(number)
            return
        self.requested, self._came = number, monotonic()
        on_request(number)
        if self._breaking:
            self.look()

    def _end(self) -> None:
        """End the process at once, without the interpreter's own shutdown. The shutdown takes time, and a signal that
        arrives during it has unpredictable effects."""
        if self.status is None:
            return
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        for number in STOPS:
            if number in signal.sigpending():
                _leave(number)
        os._exit(self.status)


def _leave(number: int) -> None:
    """End the process now. Output is complete, because `cep.connectors.writing.sinks` blocks signals while it
    writes."""
    with suppress(OSError, ValueError, AttributeError):
        if sys.stderr.isatty():  # a progress display may have hidden it
            os.write(sys.stderr.fileno(), _SHOW_CURSOR)
    os._exit(128 + number)


stops = Stops()
