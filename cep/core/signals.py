"""Ctrl-C and SIGTERM. A handler that raises does so in the midst of anything: of compiled code it makes a crash.

So none does. While a command works, either signal ends it at once, without an exception, by its status. Where work in
progress must end cleanly, somebody is `listening`: then the first is a request, granted where the work `looks` for it
between two steps; the second ends the command at once. What waits for input waits here, and is woken. A step that takes
long is left half done where it is `between` two of its parts.
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
_LONGEST = 2**31 - 1  # milliseconds, of poll
_STEP = 2.0  # seconds that a step may go on after a request


class Stops:
    """The signals of this process.

    `requested`: the number of the signal that was handled, 0 for none. `awaiting`: the process awaits input, so a
    request is granted wherever it is checked. `status`: the exit status, once the command has ended; `began`: when it
    started.
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
        """The process is a command's: its time counts, and both signals end it by 128 and their number, also while it
        ends."""
        self.began = perf_counter()
        atexit.register(self._end)  # the first registered is the last done
        for number in STOPS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def interrupt_reads(self) -> None:
        """Before a read that may wait, after imports: a signal ends it. Polars puts a handler of its own before ours
        when it is imported, and asks for system calls to be taken up again (SA_RESTART): ours would never run."""
        for number in STOPS:
            signal.siginterrupt(number, True)

    @contextmanager
    def listening(self, on_request: Callable[[int], None]) -> Iterator[None]:
        """The first signal that comes while the block runs is a request."""
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
        """The exit status of who has granted the request."""
        return 128 + (self.requested or signal.SIGINT)

    def look(self) -> None:
        """Between two steps of reading: KeyboardInterrupt where the request is granted here."""
        if self.requested and self.awaiting:
            raise KeyboardInterrupt

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """The block is a step that may be left half done: nobody goes on from there."""
        self._stepping = True
        try:
            yield
        finally:
            self._stepping = False

    def between(self) -> None:
        """Between two parts of a step, where nothing compiled is at work: KeyboardInterrupt where a request has waited
        for some seconds, or the step is one of reading."""
        if self.requested and (self.awaiting or (self._stepping and monotonic() > self._came + _STEP)):
            raise KeyboardInterrupt

    def wait(self, descriptor: int | None, seconds: float | None) -> bool:
        """Until there is something to read, or the end; no longer than so many seconds, None: any. Whether there is.
        KeyboardInterrupt: the request came first."""
        until = None if seconds is None else monotonic() + seconds
        poll = select.poll()
        for each in (descriptor, self._woken):
            if each is not None:
                poll.register(each, select.POLLIN)
        while True:
            self.look()
            left = None if until is None else min(_LONGEST, math.ceil(max(0.0, until - monotonic()) * 1000))
            found = [each for each, _ in poll.poll(left)]
            if self._woken in found and self._woken is not None:
                with suppress(BlockingIOError):
                    os.read(self._woken, 512)
            self.look()
            if descriptor is not None and descriptor in found:
                return True
            if until is not None and monotonic() >= until:
                return False

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """While the block runs, which calls what waits by itself and is not compiled, a granted request ends it."""
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
        """The interpreter would take some time to end, in which it hears signals as it likes."""
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
    """End the process now. What is written is whole: `cep.connectors.writing.sinks` holds signals back while it
    writes."""
    with suppress(OSError, ValueError, AttributeError):
        if sys.stderr.isatty():  # a display has hidden it
            os.write(sys.stderr.fileno(), _SHOW_CURSOR)
    os._exit(128 + number)


stops = Stops()
