"""A client for the store, which runs in a separate process. The store's process evaluates each query in a fork of
itself (`query_process`).

Oxigraph cannot stop a query. However, a process can be killed when the query's time is over, or when nobody waits for
the answer. If the store's process ends unexpectedly, a new one opens the store and receives the pending changes and
queries. Clients take turns: a client that sends many queries does not delay the queries of other clients for long.
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

from cep.connectors.rdf.fair_queue import FairQueue
from cep.connectors.rdf.question import Answer, Page, QueryRefused, Question
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.rdf.withdrawals import StoreRevision
from cep.core.errors import CepError
from cep.core.private_files import private_file

_WRITING = 1 << 26  # the maximum bytes waiting to be written
_LOOKING = 10.0  # the time limit in seconds for a page of events
_GRACE = 0.5  # extra seconds in which the store's process may report a failure itself
_TRIES = 2  # refuse a query after this many crashes of the process
_ALLOCATING = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "524288", "MALLOC_TRIM_THRESHOLD_": "4194304"}
"""Settings of the C library, with which memory that RocksDB frees after writing a file returns to the system at once.
By default, each thread would keep some of it."""
_STOPPING = "the server is stopping"
_ENDING = 60.0  # seconds to write pending data when the store closes


def is_damage(text: str) -> bool:
    """Return True if the text of an error means that files of the store are damaged."""
    return "Corruption" in text  # RocksDB's word


def damaged(what: str) -> CepError:
    """Build the error for damaged files. `what`: the message, to which a hint is added."""
    hint = "restore the whole folder from a backup; or remove `events`, to continue without the events so far"
    return CepError(what, hint=hint, code="store")


@dataclass(slots=True)
class _Request:
    """A request to the store's process. `call`: the name of a method and its arguments. `future`: the result.

    The other fields are only for queries. `seconds` is the time limit, `until` the deadline, and `client` the sender.
    `sent` is True once the query has a slot. `tries` counts the crashes of the process during the query.
    """

    call: tuple[Any, ...]
    future: Future[Any]
    seconds: float | None = None
    until: float = math.inf
    client: str = ""
    sent: bool = True
    tries: int = 0


class StoreProcess:
    """A client for the store at `path`, which several threads may use.

    - `memory`: the maximum memory of the store's process in bytes. None means no limit.
    - `warn`: a function that is called with the reason if the store could not be rebuilt.

    Raise CepError if the store cannot be opened.
    """

    def __init__(
        self,
        path: str | Path,
        vocabulary: EventVocabulary,
        memory: int | None = None,
        warn: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._warn = warn
        self._arguments = [str(path), vocabulary.base, str(memory or 0)]
        self._sending = threading.Lock()
        self._room, self._waiting = threading.Condition(), 0
        self._places = FairQueue()
        self._forgotten: Future[None] | None = None
        self._requests: dict[int, _Request] = {}
        self._count = 0
        self._closing = self._closed = False
        self._asking = True
        self.restarts = 0
        self._process, self._connection = self._started()
        self._reader = threading.Thread(target=self._read, name="store", daemon=True)
        self._reader.start()

    def know(self, name: str, knowledge: Callable[[], ox.Store]) -> Future[None] | None:
        """Replace the knowledge in the store. Queries wait until the new knowledge is loaded. Changes by `learn` are
        undone.

        `name`: the fingerprint of the knowledge. `knowledge`: a function that returns the knowledge. Return a future
        that is done after loading, or None if the knowledge is loaded already. A copy of the knowledge is kept beside
        the store, so that the next call writes only differences. Raise CepError if the log of changes is damaged.
        """
        try:
            self._command("unlearn").result()
            known = self._command("knows", name).result()
        except QueryRefused as error:
            what = f"--state: {str(error).removeprefix('Damaged: ')}"
            raise damaged(what) if is_damage(what) else CepError(what, code="store") from None
        if known:
            return None
        path, before = Path(f"{self._arguments[0]}.new.nq"), f"{self._arguments[0]}.nq"
        private_file(path)
        knowledge().dump(str(path), ox.RdfFormat.N_QUADS)
        future = self._command("know", name, str(path), before)
        future.add_done_callback(lambda done: path.unlink(missing_ok=True))
        return future

    def derive(self, rules: str, meanings: Mapping[str, str], again: bool) -> None:
        """Call EventStore.derive after everything that was sent earlier is written."""
        self._command("derive", rules.encode(), dict(meanings), again)

    def add(self, text: str) -> Future[None]:
        """Call EventStore.add. Return a future that is done after writing. Wait if too many bytes are queued."""
        lines = text.encode()
        return self._written("add", lines, len(lines))

    def _written(self, name: str, what: object, size: int) -> Future[None]:
        """Call a method of EventStore that writes about `size` bytes. Wait if too many bytes are queued."""
        with self._room:
            self._room.wait_for(lambda: not self._waiting or self._waiting + size <= _WRITING)
            self._waiting += size

        def written(done: Future[None]) -> None:
            with self._room:
                self._waiting -= size
                self._room.notify_all()

        future = self._command(name, what)
        future.add_done_callback(written)
        return future

    def revise(self, revision: StoreRevision) -> Future[None]:
        """Call EventStore.revise after everything that was sent earlier is written."""
        return self._written("revise", revision, len(revision.text))

    def revised(self) -> tuple[str, int] | None:
        """Call EventStore.revised. The result may be a revision that an earlier run has written."""
        place: tuple[str, int] | None = self._command("revised").result()
        return place

    def learn(self, gone: bytes, come: bytes) -> Future[None]:
        """Call EventStore.learn after everything that was sent earlier is written."""
        return self._command("learn", gone, come)

    def forget(self, until: str) -> Future[None]:
        """Call EventStore.forget, which removes occurrences in steps. Additions are written between these steps. The
        future is done after the last step."""
        self._forgotten = self._command("forget", until)
        return self._forgotten

    def settle(self) -> None:
        """Call EventStore.settle after everything that was sent earlier is written."""
        self._command("settle")

    def hours(self, since: str = "", until: str = "~", client: str = "") -> Future[list[str]]:
        """Call EventStore.hours. The future's result is a list of IRIs. See `ask` for errors and cancelling."""
        return self._ask("hours", since, until, seconds=_LOOKING, client=client)

    def page(self, span: str, number: int, most: int, client: str = "") -> Future[Page | None]:
        """Call EventStore.page. See `ask` for errors and cancelling."""
        return self._ask("page", span, number, most, _LOOKING, seconds=_LOOKING, client=client)

    def ask(self, question: Question) -> Future[Answer]:
        """Send a query. Its time limit starts now, and clients take turns.

        The future raises QueryRefused if the query cannot be answered. Cancelling the future ends the query. Raise
        QueryRefused at once if too many queries wait.
        """
        return self._ask("ask", question, seconds=question.seconds, client=question.client)

    def refuse_questions(self) -> None:
        """Refuse all pending and future queries, because the server is stopping."""
        with self._sending:
            self._asking = False
        for number, request in list(self._requests.items()):
            if request.seconds is not None:
                self._refuse(number, QueryRefused("busy", _STOPPING))

    def flush(self) -> None:
        """Wait until all earlier additions can be queried, and all expired occurrences are removed."""
        if self._forgotten is not None:
            self._forgotten.result()
        self._command("flush").result()

    def written(self) -> Future[None]:
        """Return a future that is done when all earlier additions and the hashes of their files are on disk."""
        return self._command("flush")

    def verify(self) -> Future[None]:
        """Compare the files that existed before this start with their hashes.

        If one is damaged, the future raises QueryRefused, and `is_damage` returns True for the text of this error.
        """
        return self._command("verify")

    def close(self) -> None:
        """Write all earlier additions, and end the process. The call returns after a limited time.

        The additions cannot be written if the store's process has ended and no other process can replace it.
        """
        self._closing = True
        with contextlib.suppress(QueryRefused, TimeoutError):
            self._command("flush").result(_ENDING)
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
        return not self._closed and self._process.poll() is None

    @property
    def process(self) -> int:
        """The id of the store's present process. It changes when another process replaces this one."""
        return self._process.pid

    def _ask(self, *call: Any, seconds: float, client: str) -> Future[Any]:
        request = _Request(call, Future(), seconds, time.monotonic() + seconds, client, sent=False)
        with self._sending:
            if not self._asking:
                raise QueryRefused("busy", _STOPPING)
            number = self._register(request)
            if not self._places.add(client, number):
                del self._requests[number]
                raise QueryRefused("busy", "too many queries are waiting")
            self._next()
        request.future.add_done_callback(lambda future: self._leave(number) if future.cancelled() else None)
        return request.future

    def _command(self, *call: Any) -> Future[Any]:
        request = _Request(call, Future())
        request.future.set_running_or_notify_cancel()  # a caller that stops waiting cannot cancel it
        with self._sending:
            self._send(self._register(request), request)
        return request.future

    def _register(self, request: _Request) -> int:
        if self._closed:
            raise QueryRefused("failed", "the store is closed")
        self._count += 1
        self._requests[self._count] = request
        return self._count

    def _next(self) -> None:
        while (number := self._places.next()) is not None:
            request = self._requests[number]
            request.sent = True
            self._send(number, request)

    def _send(self, number: int, request: _Request) -> None:
        with contextlib.suppress(OSError):  # the process has ended; the next one receives all requests again
            self._connection.send((number, request.call, request.until - time.monotonic()))

    def _leave(self, number: int) -> _Request | None:
        """Remove a request that is done or abandoned, and return it. If it is a query, end the query's fork.

        Return None if the request was removed before.
        """
        with self._sending:
            request = self._requests.pop(number, None)
            if request is None or request.seconds is None:
                return request
            self._places.leave(request.client, number)
            if request.sent:
                self._send(number, _Request(("stop",), request.future))
            self._next()
        return request

    def _refuse(self, number: int, why: QueryRefused) -> None:
        request = self._leave(number)
        if request is not None and (request.future.running() or request.future.set_running_or_notify_cancel()):
            request.future.set_exception(why)

    def _started(self) -> tuple[subprocess.Popen[bytes], Connection]:
        here, child_end = socket.socketpair()
        root = str(Path(__file__).parents[3])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cep.connectors.rdf.store_worker", str(child_end.fileno()), *self._arguments],
            pass_fds=[child_end.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # Rust prints a stack trace when memory is used up
            process_group=0,  # the process must not receive signals to the server's group
            env={**_ALLOCATING, **os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        child_end.close()
        connection = Connection(here.detach())
        try:
            trouble = connection.recv()
        except (EOFError, OSError):
            trouble = "its process ended at once"
        if trouble:
            process.kill()
            process.wait()
            connection.close()
            what = f"{self._arguments[0]}: the store cannot be opened: {trouble}"
            hint = "only one server can use a store at a time; another `--state` is another store"
            raise damaged(what) if is_damage(trouble) else CepError(what, hint=hint, code="store")
        return process, connection

    def _read(self) -> None:
        """Receive messages from the store's process until the store is closed. Replace the process if it ends early."""
        try:
            while True:
                try:
                    while self._connection.poll(0.05):
                        self._handle(*self._connection.recv())
                except (EOFError, OSError):
                    if self._closed or not self._restart():
                        break
                self._overdue()
        finally:  # fail all requests, because no answer will arrive
            with self._sending:
                self._closed = True
            for number in list(self._requests):
                self._refuse(number, QueryRefused("failed", "the store is closed"))

    def _handle(self, number: int, kind: str, value: Any) -> None:
        if kind == "rebuild":
            self._warn(value)
        elif kind == "done":
            request = self._leave(number)
            if request is not None and (request.future.running() or request.future.set_running_or_notify_cancel()):
                request.future.set_result(value)
        else:
            slow = value[0] == "slow" and (request := self._requests.get(number)) is not None
            self._refuse(number, self._late(request) if slow and request is not None else QueryRefused(*value))

    def _late(self, request: _Request) -> QueryRefused:
        reason = "the query took longer than" if request.sent else "the query waited for others, longer than"
        return QueryRefused("slow", f"{reason} {request.seconds:g} s")

    def _overdue(self) -> None:
        now = time.monotonic()
        for number, request in list(self._requests.items()):
            if request.until + _GRACE * request.sent < now:
                self._refuse(number, self._late(request))

    def _end(self) -> None:
        self._process.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _restart(self) -> bool:
        """Start a new process, and send it all pending requests.

        Return False if no process could be started and the store is closing, so that the caller does not try again.
        """
        with self._sending:
            self._end()
            self._connection.close()
            self.restarts += 1
            try:
                self._process, self._connection = self._started()
            except CepError:
                time.sleep(0 if self._closing else 1.0)  # the next iteration tries again
                return not self._closing
            for number, request in list(self._requests.items()):
                if not request.sent:
                    continue
                request.tries += request.seconds is not None
                if request.tries < _TRIES:
                    self._send(number, request)
        for number, request in list(self._requests.items()):
            if request.tries >= _TRIES:
                self._refuse(number, QueryRefused("failed", "the process of the store ended while it was asked"))
        return True
