"""The process that owns the store. It receives requests from `store_process` over a socket."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf import federation, offline
from cep.connectors.rdf.fair_queue import PLACES
from cep.connectors.rdf.query_process import Gate, QueryProcess
from cep.connectors.rdf.question import Answer, QueryRefused, Question
from cep.connectors.rdf.rebuild import Rebuild, discard, recover, swap, worthwhile
from cep.connectors.rdf.store import EventStore
from cep.connectors.rdf.store_files import Corruption
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.rdf.withdrawals import StoreRevision
from cep.rules.expressions.geodesy import geod

QUESTIONS = ("ask", "page", "hours")
"""The names of the requests that only read the store. They have a time limit."""

_FILLS = ("know", "derive")  # requests that fill a store at the beginning
_BESIDE = ("settle", "verify")  # requests that run while others write
_AT_ONCE = 1 << 24  # the approximate bytes that are written together
_STEP = 500  # written lines per step of removal; there is at least one step after each write
_WHILE = 3600.0  # seconds that a dump may take
_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
_STACK = 1 << 24  # bytes of stack for deep nesting


def main(descriptor: str, path: str, base: str, memory: str) -> None:
    """Serve requests that arrive over a socket, until the socket is closed.

    - `descriptor`: the file descriptor of the socket.
    - `path`: the folder of the store.
    - `base`: the base IRI of the vocabulary.
    - `memory`: the maximum memory in bytes; 0: no limit.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # the server handles signals; this process ends when it does
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)  # only this user may read the state
    if int(memory):
        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (int(memory), int(memory)))
    offline.shut()  # if it fails, only `federation` detects such queries
    connection = Connection(int(descriptor))
    try:
        recover(path)
        store = EventStore(path, EventVocabulary(base))
    except (OSError, RuntimeError, Corruption) as error:  # Oxigraph raises RuntimeError for damaged files
        connection.send(f"Corruption: {error}" if isinstance(error, Corruption) else str(error))
        return
    connection.send("")
    worker = _Worker(path, store, connection, int(memory))
    del store  # the worker holds the only reference, so that it can close it
    worker.work()


class _Worker:
    """The server of requests. One thread writes to the store, and one merges its files. For each running query, a
    thread waits for the query's fork."""

    def __init__(self, path: str, store: EventStore, connection: Connection, memory: int) -> None:
        self.path, self.connection, self.memory = path, connection, memory
        self._serve(store)
        self.texts: deque[tuple[int, bytes | StoreRevision]] = deque()
        self.expired: deque[tuple[int, str]] = deque()  # requests to remove events before a time
        self.forgetting: Iterator[int] | None = None  # the steps of the first of these requests
        self.rebuild: Rebuild | None = None
        self.rebuilding, self.enough = False, worthwhile()
        self.running: dict[int, QueryProcess] = {}
        self.sending = threading.Lock()
        self.settled, self.filling = threading.Condition(), 0  # queries never see half of the knowledge
        self.gate = Gate(lambda: self.filling == 0, self.settled)
        self.placing = threading.Lock()  # held while the store is read in this process and others write
        threading.stack_size(_STACK)
        self.writer, self.settler = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self.readers = ThreadPoolExecutor(2 * PLACES)

    def _serve(self, store: EventStore) -> None:
        self.store = store
        self.calls: Mapping[str, Callable[..., Any]] = {
            "knows": store.knows,
            "know": store.know,
            "unlearn": store.unlearn,
            "learn": store.learn,
            "derive": store.derive,
            "add": store.add,
            "revise": store.revise,
            "revised": store.revised,
            "settle": store.settle,
            "flush": store.files.note,
            "verify": store.files.verify,
            "ask": self._query,
            "page": store.page,
            "hours": lambda *values: [hour.value for hour in store.hours(*values)],
        }

    def work(self) -> None:
        while (request := self._next()) is not None:
            number, (name, *values), seconds = request
            if name == "stop":
                if (query := self.running.get(number)) is not None:
                    query.end()
            elif name in QUESTIONS:
                self.running[number] = query = QueryProcess()
                self.readers.submit(self._answer, number, query, name, values, time.monotonic() + seconds)
            elif name in ("add", "revise"):
                self.texts.append((number, values[0]))
                self.writer.submit(self._write)
            elif name == "forget":
                self.expired.append((number, *values))
                if len(self.expired) == 1:
                    self.writer.submit(self._forget)
            else:
                if name in _FILLS:
                    self._fill(1)
                (self.settler if name in _BESIDE else self.writer).submit(self._do, [number], name, values)
        for query in list(self.running.values()):
            query.end()
        self.writer.shutdown()
        self.store.store.flush()
        with contextlib.suppress(OSError):  # the disk is full; the next start records them
            self.store.files.note()
        os._exit(0)  # do not wait for running threads

    def _next(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return None

    def _reply(self, *what: Any) -> None:
        with self.sending, contextlib.suppress(OSError):
            self.connection.send(what)

    def _fill(self, more: int) -> None:
        with self.settled:
            self.filling += more
            self.settled.notify_all()

    def _do(self, numbers: Sequence[int], name: str, values: Sequence[Any]) -> None:
        if name == "learn":  # queries must not see half of a change
            self._fill(1)
        kind, value = _outcome(self.calls[name], *values)
        if name in (*_FILLS, "learn"):
            self._fill(-1)
        for number in numbers:
            self._reply(number, kind, value)

    def _write(self) -> None:
        """Write the triples of the waiting `add` requests that precede the next revision. If the revision is the first
        waiting request, write the revision instead.

        Then remove some expired occurrences. More are removed if more text was written.
        """
        if self.rebuild is not None:
            self.rebuild.keep_pace()
        taken: list[tuple[int, bytes]] = []
        while self.texts and sum(len(text) for _, text in taken) < _AT_ONCE:
            number, first = self.texts[0]
            if isinstance(first, StoreRevision):
                break
            taken.append((number, first))
            self.texts.popleft()
        if taken:
            text = b"".join(text for _, text in taken)
            self._do([number for number, _ in taken], "add", [text])
        elif self.texts:
            number, first = self.texts.popleft()
            assert isinstance(first, StoreRevision), "else it was taken"
            text = first.text
            self._do([number], "revise", [first])
        else:
            return
        if self.texts:
            self.writer.submit(self._write)
        if self.store.loose:
            self.settler.submit(self._do, [], "settle", [])
        for _ in range(text.count(b"\n") // _STEP):
            self._step()
        self._look()

    def _forget(self) -> None:
        """Remove some expired occurrences in one step. Requests that wait are written before the next step."""
        self._step()
        self._look()
        if self.expired:
            with contextlib.suppress(RuntimeError):  # the store is closing; the next start removes the rest
                self.writer.submit(self._forget)

    def _step(self) -> None:
        if self.expired:
            number, until = self.expired[0]
            self.forgetting = self.forgetting or self.store.forget(until)
            kind, value = _outcome(next, self.forgetting, None)
            if kind == "refused" or value is None:
                self.expired.popleft()
                self.forgetting = None
                self._reply(number, kind, value)

    def _look(self) -> None:
        if not self.rebuilding and self.store.files.removed >= self.enough:
            self.rebuilding = True
            self.settler.submit(self._rebuild)

    def _rebuild(self) -> None:
        """Rebuild the store if few quads are left in it. After a failure, first wait for many more removals."""
        try:
            removed, left = self.store.files.removed, self._forked(lambda: len(self.store.store))
            self.enough = max(worthwhile(left), removed + removed // 4)
            if removed >= worthwhile(left):
                rebuild = self.writer.submit(self._begin).result()
                self.writer.submit(self._replace, rebuild, self._loaded(rebuild)).result()
        except (QueryRefused, Corruption, OSError) as error:
            self._reply(0, "rebuild", f"{type(error).__name__}: {error}")
        except RuntimeError:  # the store is being closed
            pass
        discard(self.path)
        self.rebuilding = False

    def _begin(self) -> Rebuild:
        self.rebuild = Rebuild(self.path)
        self.store.writer.log = self.rebuild.log
        return self.rebuild

    def _loaded(self, rebuild: Rebuild) -> bool:
        """Load the remaining quads of the old store, which stays in use, into the new one. Return True on success."""
        try:
            self._forked(lambda: self.store.store.dump(rebuild.dump, ox.RdfFormat.N_QUADS))
            self.store.files.verify()  # otherwise the hashes of the new files would hide damage
            rebuild.load()
            return True
        except (QueryRefused, Corruption, OSError) as error:
            self._reply(0, "rebuild", f"{type(error).__name__}: {error}")
            return False
        except subprocess.CalledProcessError as error:
            lines = error.stderr.decode("utf-8", "replace").strip().splitlines()
            self._reply(0, "rebuild", lines[-1] if lines else str(error))
            return False
        finally:
            rebuild.end()

    def _replace(self, rebuild: Rebuild, loaded: bool) -> None:
        """Switch to the new store, unless loading or logging has failed. Queries wait meanwhile."""
        logged, self.store.writer.log, self.rebuild = self.store.writer.log is not None, None, None
        if not (loaded and logged):
            return
        rebuild.complete()
        with self.placing:
            self._fill(1)
            vocabulary, self.forgetting = self.store.vocabulary, None
            try:
                del self.store, self.calls  # delete the last references, which closes the store
                swap(self.path)
                self._serve(EventStore(self.path, vocabulary))
            except BaseException:
                os._exit(1)  # the next process recovers the store
            self._fill(-1)
        self.enough = worthwhile()
        if _TRIM is not None:
            _TRIM(0)  # free the caches of the old store

    def _forked(self, work: Callable[[], Any]) -> Any:
        until = time.monotonic() + _WHILE
        return QueryProcess().answer(work, self.gate, until, 0, [self.connection.fileno()])

    def _answer(self, number: int, query: QueryProcess, name: str, values: Sequence[Any], until: float) -> None:
        try:
            if name == "ask" and "distance" in values[0].text:
                geod()  # load it once, not in every fork
                with self.placing:
                    self.store.places()
            memory, shut = self.memory // PLACES, [self.connection.fileno()]
            outcome = "done", query.answer(lambda: self.calls[name](*values), self.gate, until, memory, shut)
        except QueryRefused as error:
            outcome = "refused", (error.code, str(error))
        except Exception as error:
            outcome = "refused", ("failed", f"{type(error).__name__}: {error}")
        del self.running[number]
        self._reply(number, *outcome)

    def _query(self, question: Question) -> Answer:
        federation.refuse_federation(question.text, dict(question.prefixes))
        return self.store.ask(question)


def _outcome(call: Callable[..., Any], *values: Any) -> tuple[str, Any]:
    try:
        return "done", call(*values)
    except QueryRefused as error:
        return "refused", (error.code, str(error))
    except Exception as error:
        return "refused", ("failed", f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
