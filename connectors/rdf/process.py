"""The store in a process of its own, in which questions take turns; each is answered by a fork of it (`forked`).

Oxigraph has no way to stop a query, but a process can be ended: that of a question when its time is over or nobody
waits for it any more. Where that of the store ends, which it should not, another one opens the store again, is given
what was not yet written, and asked again what was being asked.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
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

from cep.core.errors import CepError
from connectors.rdf.places import Places
from connectors.rdf.question import Answer, Page, Question, Refused
from connectors.rdf.words import Words

_WRITING = 1 << 26  # bytes that may wait to be written
_LOOKING = 10.0  # seconds in which a page of events is read
_GRACE = 0.5  # seconds in which the process of the store may still say that a question has no answer
_TRIES = 2  # a question during which so many processes ended by themselves is refused
_WRITTEN = 5.0  # seconds in which what waits is mostly written
_ENDING = 60.0  # seconds in which what was added is written when it closes


@dataclass(slots=True)
class _Order:
    """What the process is told to do. Of a question: `seconds`, how long it may take; `until`, when that is over;
    `client`, who asks; `sent`: it has a place."""

    call: tuple[Any, ...]
    future: Future[Any]
    seconds: float | None = None
    until: float = math.inf
    client: str = ""
    sent: bool = True
    tries: int = 0


class StoreProcess:
    """A store at `path` for several threads; `memory`: the bytes that its process may have, None: as many as it can.

    Raises CepError where it cannot be opened.
    """

    def __init__(self, path: str | Path, words: Words, memory: int | None = None) -> None:
        self._arguments = [str(path), words.base, str(memory or 0)]
        self._sending = threading.Lock()
        self._room, self._waiting = threading.Condition(), 0
        self._places = Places()
        self._forgotten: Future[None] | None = None
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
        lines = text.encode()
        with self._room:
            self._room.wait_for(lambda: not self._waiting or self._waiting + len(lines) <= _WRITING)
            self._waiting += len(lines)

        def written(done: Future[None]) -> None:
            with self._room:
                self._waiting -= len(lines)
                self._room.notify_all()

        future = self._tell("add", lines)
        future.add_done_callback(written)
        return future

    def learn(self, gone: bytes, come: bytes) -> Future[None]:
        """As EventStore.learn, after what was added before."""
        return self._tell("learn", gone, come)

    def forget(self, until: str) -> Future[None]:
        """As EventStore.forget, a little at a time, beside what is added; the future is done when all of it is."""
        self._forgotten = self._tell("forget", until)
        return self._forgotten

    def settle(self) -> None:
        """As EventStore.settle, after what was added before."""
        self._tell("settle")

    def hours(self, since: str = "", until: str = "~", client: str = "") -> Future[list[str]]:
        """As EventStore.hours, their IRIs; otherwise as `ask`."""
        return self._ask("hours", since, until, seconds=_LOOKING, client=client)

    def page(self, span: str, number: int, most: int, client: str = "") -> Future[Page | None]:
        """As EventStore.page; otherwise as `ask`."""
        return self._ask("page", span, number, most, _LOOKING, seconds=_LOOKING, client=client)

    def ask(self, question: Question) -> Future[Answer]:
        """The future may raise Refused. Where many ask, clients take turns; its seconds count from now. Who cancels
        the future ends the question."""
        return self._ask("ask", question, seconds=question.seconds, client=question.client)

    def hush(self) -> None:
        """What is being asked has no answer: the server ends."""
        for number, order in list(self._orders.items()):
            if order.seconds is not None:
                self._refuse(number, Refused("busy", "the server is stopping"))

    def flush(self) -> None:
        """Returns when all that was added can be asked for, and what was to be forgotten is gone."""
        if self._forgotten is not None:
            self._forgotten.result()
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
        self._end()
        self._reader.join()

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return not self._closed and self._process.poll() is None

    @property
    def process(self) -> int:
        """Its number for the operating system, until there is another."""
        return self._process.pid

    def _ask(self, *call: Any, seconds: float, client: str) -> Future[Any]:
        order = _Order(call, Future(), seconds, time.monotonic() + seconds, client, sent=False)
        with self._sending:
            number = self._numbered(order)
            if not self._places.add(client, number):
                del self._orders[number]
                raise Refused("busy", "too many queries are waiting")
            self._next()
        order.future.add_done_callback(lambda future: self._leave(number) if future.cancelled() else None)
        return order.future

    def _tell(self, *call: Any) -> Future[Any]:
        order = _Order(call, Future())
        order.future.set_running_or_notify_cancel()  # who no longer waits for it cannot take it back
        with self._sending:
            self._send(self._numbered(order), order)
        return order.future

    def _numbered(self, order: _Order) -> int:
        if self._closed:
            raise Refused("failed", "the store is closed")
        self._count += 1
        self._orders[self._count] = order
        return self._count

    def _next(self) -> None:
        """Questions for which there is a place are asked."""
        while (number := self._places.next()) is not None:
            order = self._orders[number]
            order.sent = True
            self._send(number, order)

    def _send(self, number: int, order: _Order) -> None:
        with contextlib.suppress(OSError):  # the process has ended: all is sent again to the next
            self._connection.send((number, order.call, order.until - time.monotonic()))

    def _leave(self, number: int) -> _Order | None:
        """What was told is done, or nobody waits for it any more: then its process ends. None: it was so before."""
        with self._sending:
            order = self._orders.pop(number, None)
            if order is None or order.seconds is None:
                return order
            self._places.leave(order.client, number)
            if order.sent:
                self._send(number, _Order(("stop",), order.future))
            self._next()
        return order

    def _refuse(self, number: int, why: Refused) -> None:
        order = self._leave(number)
        if order is not None and (order.future.running() or order.future.set_running_or_notify_cancel()):
            order.future.set_exception(why)

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
            for number in list(self._orders):
                self._refuse(number, Refused("failed", "the store is closed"))

    def _heard(self, number: int, kind: str, value: Any) -> None:
        if kind == "done":
            order = self._leave(number)
            if order is not None and (order.future.running() or order.future.set_running_or_notify_cancel()):
                order.future.set_result(value)
        else:
            slow = value[0] == "slow" and (order := self._orders.get(number)) is not None
            self._refuse(number, self._late(order) if slow and order is not None else Refused(*value))

    def _late(self, order: _Order) -> Refused:
        told = "the query took longer than" if order.sent else "the query waited for others, longer than"
        return Refused("slow", f"{told} {order.seconds:g} s")

    def _overdue(self) -> None:
        now = time.monotonic()
        for number, order in list(self._orders.items()):
            if order.until + _GRACE * order.sent < now:
                self._refuse(number, self._late(order))

    def _end(self) -> None:
        """The process, and those of its questions."""
        self._process.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _again(self) -> bool:
        """A new process, given what is not yet done; whether that is worth trying."""
        with self._sending:
            self._end()
            self._connection.close()
            self.restarts += 1
            try:
                self._process, self._connection = self._begun()
            except CepError:
                time.sleep(0 if self._closing else 1.0)  # the next round tries again
                return not self._closing
            for number, order in list(self._orders.items()):
                if not order.sent:
                    continue
                order.tries += order.seconds is not None
                if order.tries < _TRIES:
                    self._send(number, order)
        for number, order in list(self._orders.items()):
            if order.tries >= _TRIES:
                self._refuse(number, Refused("failed", "the process of the store ended while it was asked"))
        return True
