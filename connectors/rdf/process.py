"""The store in a process of its own: Oxigraph has no way to stop a query, but a process can be ended.

A query that takes longer than it may ends with its process; the next one opens the store again, is given what was not
yet written, and asked again what else was being asked.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from cep.errors import CepError
from connectors.rdf.store import Answer, Page, Question, Refused
from connectors.rdf.words import Words

_ASKING = 256  # questions that may wait
_WRITING = 16  # texts that may wait to be written
_LOOKING = 10.0  # seconds in which a page of events is read
_GRACE = 0.5  # seconds in which a query may still end by itself
_TRIES = 2  # a question during which so many processes ended by themselves is refused
_WRITTEN = 5.0  # seconds in which what waits is mostly written
_ENDING = 60.0  # seconds in which what was added is written when it closes


@dataclass(slots=True)
class _Order:
    """What the process was told to do. `seconds`: how long it may take, None: as long as it does; `until`: when that
    is over, None before it is begun."""

    call: tuple[Any, ...]
    future: Future[Any]
    seconds: float | None = None
    until: float | None = None
    tries: int = 0


class StoreProcess:
    """A store at `path` for several threads; `memory`: the bytes that its process may have, None: as many as it can.

    Raises CepError where it cannot be opened.
    """

    def __init__(self, path: str | Path, words: Words, memory: int | None = None) -> None:
        self._arguments = [str(path), words.base, str(memory or 0)]
        self._sending = threading.Lock()
        self._room = threading.Semaphore(_WRITING)
        self._orders: dict[int, _Order] = {}
        self._count = 0
        self._closing = self._closed = False
        self.restarts = 0
        self._process, self._connection = self._begun()
        self._reader = threading.Thread(target=self._read, name="store", daemon=True)
        self._reader.start()

    def know(self, name: str, knowledge: Callable[[], ox.Store]) -> Future[None] | None:
        """Knowledge by a name that says what it is (its fingerprint), loaded in place of that of before unless it is
        there already (None). Questions wait until it is there. It is kept beside the store, so that of another only
        what is different is loaded. What it has learned since is gone. CepError: its notes of that are damaged."""
        try:
            self._tell("unlearn").result()
        except Refused as error:
            raise CepError(f"--state: {str(error).removeprefix('Damaged: ')}", code="store") from None
        if self._tell("knows", name).result():
            return None
        path, before = Path(f"{self._arguments[0]}.new.nq"), f"{self._arguments[0]}.nq"
        knowledge().dump(str(path), ox.RdfFormat.N_QUADS)
        future = self._tell("know", name, str(path), before)
        future.add_done_callback(lambda done: path.unlink(missing_ok=True))
        return future

    def derive(self, rules: str, meant: Mapping[str, str], again: bool) -> None:
        """As EventStore.derive, before what is added later."""
        self._tell("derive", rules.encode(), dict(meant), again)

    def add(self, text: str) -> Future[None]:
        """As EventStore.add of a text; waits only while very much is not yet written. The future is done when it is."""
        self._room.acquire()
        future = self._tell("add", text.encode())
        future.add_done_callback(lambda done: self._room.release())
        return future

    def learn(self, gone: bytes, come: bytes) -> Future[None]:
        """As EventStore.learn, after what was added before."""
        return self._tell("learn", gone, come)

    def forget(self, until: str) -> None:
        """As EventStore.forget, after what was added before."""
        self._tell("forget", until)

    def settle(self) -> None:
        """As EventStore.settle, after what was added before."""
        self._tell("settle")

    def hours(self, since: str = "", until: str = "~") -> Future[list[str]]:
        """As EventStore.hours, their IRIs; otherwise as `ask`."""
        return self._ask("hours", since, until, seconds=_LOOKING)

    def page(self, span: str, number: int, most: int) -> Future[Page | None]:
        """As EventStore.page; otherwise as `ask`."""
        return self._ask("page", span, number, most, _LOOKING, seconds=_LOOKING)

    def ask(self, question: Question) -> Future[Answer]:
        """The future may raise Refused. Where many ask, a question is begun later; its seconds count from then."""
        return self._ask("ask", question, seconds=question.seconds)

    def hush(self) -> None:
        """What is being asked has no answer: the server ends."""
        for number, order in list(self._orders.items()):
            if order.seconds is not None and self._orders.pop(number, None) is not None:
                order.future.set_exception(Refused("busy", "the server is stopping"))

    def flush(self) -> None:
        """Returns when all that was added can be asked for."""
        self._tell("flush").result()

    def written(self) -> bool:
        """Whether all that was added is written, within some seconds."""
        try:
            self._tell("flush").result(_WRITTEN)
        except (Refused, TimeoutError):
            return False
        return True

    def close(self) -> None:
        """What was added is written, then the process ends; in bounded time, also where it cannot be opened again."""
        self._closing = True
        with contextlib.suppress(Refused, TimeoutError):
            self._tell("flush").result(_ENDING)
        with self._sending:
            self._closed = True
            with contextlib.suppress(OSError):
                self._connection.send(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()
        self._reader.join()

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return not self._closed and self._process.poll() is None

    @property
    def process(self) -> int:
        """Its number for the operating system, until there is another."""
        return self._process.pid

    def _ask(self, *call: Any, seconds: float) -> Future[Any]:
        if sum(order.seconds is not None for order in list(self._orders.values())) >= _ASKING:
            raise Refused("busy", "too many queries are waiting")
        return self._tell(*call, seconds=seconds + _GRACE)

    def _tell(self, *call: Any, seconds: float | None = None) -> Future[Any]:
        order = _Order(call, Future(), seconds)
        order.future.set_running_or_notify_cancel()  # who no longer waits for it cannot take it back
        with self._sending:
            if self._closed:
                raise Refused("failed", "the store is closed")
            self._count += 1
            self._orders[self._count] = order
            with contextlib.suppress(OSError):  # the process has ended: all is sent again to the next
                self._connection.send((self._count, order.call))
        return order.future

    def _begun(self) -> tuple[subprocess.Popen[bytes], Connection]:
        here, there = socket.socketpair()
        root = str(Path(__file__).parents[2])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            [sys.executable, "-m", "connectors.rdf.worker", str(there.fileno()), *self._arguments],
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # where memory ends Rust tells its stack
            process_group=0,  # what is signalled to all of this group is for the server
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        there.close()
        connection = Connection(here.detach())
        try:
            trouble = connection.recv()
        except (EOFError, OSError):
            trouble = "its process ended at once"
        if trouble:
            process.kill()
            process.wait()
            connection.close()
            hint = "one server has it at a time; another `--state` is another store"
            raise CepError(f"{self._arguments[0]}: the store cannot be opened: {trouble}", hint=hint, code="store")
        return process, connection

    def _read(self) -> None:
        """What the process says, until it is closed; a new one where it ends before."""
        try:
            while True:
                try:
                    while self._connection.poll(0.05):
                        self._heard(*self._connection.recv())
                except (EOFError, OSError):
                    if self._closed or not self._again():
                        break
                self._overdue()
        finally:  # nobody waits for an answer that will not come
            with self._sending:
                self._closed = True
            for order in self._orders.values():
                order.future.set_exception(Refused("failed", "the store is closed"))

    def _heard(self, number: int, kind: str, value: Any) -> None:
        order = self._orders.get(number)
        if order is None:
            return
        if kind == "began":
            assert order.seconds is not None, "what has no end is not told when it begins"
            order.until = time.monotonic() + order.seconds
            return
        if self._orders.pop(number, None) is None:
            return
        if kind == "done":
            order.future.set_result(value)
        else:
            order.future.set_exception(Refused(*value))

    def _overdue(self) -> None:
        now = time.monotonic()
        late = [n for n, order in list(self._orders.items()) if order.until is not None and order.until < now]
        for number in late:
            order = self._orders.pop(number, None)
            if order is None:
                continue
            told = f"the query took longer than {(order.seconds or 0) - _GRACE:g} s"
            order.future.set_exception(Refused("slow", told))
        if late:
            for order in list(self._orders.values()):
                order.tries -= order.until is not None  # it is not to blame
            self._process.kill()

    def _again(self) -> bool:
        """A new process, given what is not yet done; whether that is worth trying."""
        with self._sending:
            self._process.kill()
            self._process.wait()
            self._connection.close()
            self.restarts += 1
            try:
                self._process, self._connection = self._begun()
            except CepError:
                time.sleep(0 if self._closing else 1.0)  # the next round tries again
                return not self._closing
            for number, order in list(self._orders.items()):
                order.tries += order.until is not None
                order.until = None
                if order.tries >= _TRIES and self._orders.pop(number, None) is not None:
                    told = "the query needs more memory than it may have, or broke the store's process"
                    order.future.set_exception(Refused("failed", told))
                    continue
                with contextlib.suppress(OSError):
                    self._connection.send((number, order.call))
        return True
