"""The process that owns the store: it serves requests over a socket, whose other end is `store_process`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from cep.rules.expressions.geodesy import geod
from connectors.rdf import federation, offline
from connectors.rdf.fair_queue import PLACES
from connectors.rdf.query_process import Gate, QueryProcess
from connectors.rdf.question import Answer, QueryRefused, Question
from connectors.rdf.store import EventStore
from connectors.rdf.store_files import Corruption
from connectors.rdf.vocabulary import EventVocabulary
from connectors.rdf.withdrawals import StoreRevision

QUESTIONS = ("ask", "page", "hours")
"""What is only read, within some time."""

_FILLS = ("know", "derive")  # what a store is filled by at the beginning
_BESIDE = ("settle", "verify")  # what is done while others write
_AT_ONCE = 1 << 24  # bytes, about, that are written together
_STEP = 500  # lines written for which there is one step of forgetting, at least one after each writing
_STACK = 1 << 24  # bytes, for what is nested deep


def main(descriptor: str, path: str, base: str, memory: str) -> None:
    """Serves the requests that come over a socket until that is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the server handles them; this process ends when it does
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)  # all that it writes is state
    if int(memory):
        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (int(memory), int(memory)))
    offline.shut()  # where that cannot be done there remains what `federation` finds
    connection = Connection(int(descriptor))
    try:
        store = EventStore(path, EventVocabulary(base))
    except (OSError, RuntimeError, Corruption) as error:  # of what is damaged Oxigraph says RuntimeError
        connection.send(f"Corruption: {error}" if isinstance(error, Corruption) else str(error))
        return
    connection.send("")
    _Worker(store, connection, int(memory)).work()


class _Worker:
    """One thread writes, one merges files, the others each wait for the fork of a query."""

    def __init__(self, store: EventStore, connection: Connection, memory: int) -> None:
        self.store, self.connection, self.memory = store, connection, memory
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
        self.texts: deque[tuple[int, bytes | StoreRevision]] = deque()
        self.expired: deque[tuple[int, Iterator[int]]] = deque()  # what is being forgotten
        self.running: dict[int, QueryProcess] = {}
        self.sending = threading.Lock()
        self.settled, self.filling = threading.Condition(), 0  # nothing is answered from half of the knowledge
        self.gate = Gate(lambda: self.filling == 0, self.settled)
        threading.stack_size(_STACK)
        self.writer, self.settler = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self.readers = ThreadPoolExecutor(2 * PLACES)

    def work(self) -> None:
        while (request := self._next()) is not None:
            number, (name, *values), seconds = request
            if name == "stop":
                if (one := self.running.get(number)) is not None:
                    one.end()
            elif name in QUESTIONS:
                self.running[number] = one = QueryProcess()
                self.readers.submit(self._answer, number, one, name, values, time.monotonic() + seconds)
            elif name in ("add", "revise"):
                self.texts.append((number, values[0]))
                self.writer.submit(self._write)
            elif name == "forget":
                self.expired.append((number, self.store.forget(*values)))
                if len(self.expired) == 1:
                    self.writer.submit(self._forget)
            else:
                if name in _FILLS:
                    self._fill(1)
                (self.settler if name in _BESIDE else self.writer).submit(self._do, [number], name, values)
        for one in list(self.running.values()):
            one.end()
        self.writer.shutdown()
        self.store.store.flush()
        with contextlib.suppress(OSError):  # there is no room: they are noted at the next start
            self.store.files.note()
        os._exit(0)  # whatever is still being done

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
        if name == "learn":  # nor from half of a change
            self._fill(1)
        kind, value = _outcome(self.calls[name], *values)
        if name in (*_FILLS, "learn"):
            self._fill(-1)
        for number in numbers:
            self._reply(number, kind, value)

    def _write(self) -> None:
        """Write the texts that wait, together, up to a revision, or that; then remove some expired events, more of them
        the more was written."""
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
            self.settler.submit(self.store.settle)
        for _ in range(text.count(b"\n") // _STEP):
            self._step()

    def _forget(self) -> None:
        """One step of removing expired events; what waits to be written comes before the next one."""
        self._step()
        if self.expired:
            with contextlib.suppress(RuntimeError):  # it is being closed: what is left goes after the next start
                self.writer.submit(self._forget)

    def _step(self) -> None:
        if self.expired:
            number, steps = self.expired[0]
            kind, value = _outcome(next, steps, None)
            if kind == "refused" or value is None:
                self.expired.popleft()
                self._reply(number, kind, value)

    def _answer(self, number: int, one: QueryProcess, name: str, values: Sequence[Any], until: float) -> None:
        try:
            if name == "ask" and "distance" in values[0].text:
                geod()  # so that not every fork has to begin with it
                self.store.places()
            memory, shut = self.memory // PLACES, [self.connection.fileno()]
            outcome = "done", one.answer(lambda: self.calls[name](*values), self.gate, until, memory, shut)
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
