"""The process that has the store: does what it is told over a socket (connectors/rdf/process.py is the other end)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from connectors.rdf import elsewhere, offline
from connectors.rdf.store import Answer, EventStore, Question, Refused
from connectors.rdf.words import Words

_WORKERS = 4  # questions answered side by side; the others wait
_FILLS = ("know", "derive")  # what a store is filled by at the beginning
_QUESTIONS = ("ask", "page", "hours")  # what is only read, within some time
_AT_ONCE = 1 << 24  # bytes, about, that are written together


def main(descriptor: str, path: str, base: str, memory: str) -> None:
    """Does what it is told by the other end of a socket, until that is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for the one that tells; its end is this one's
        signal.signal(number, signal.SIG_IGN)
    if int(memory):
        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (int(memory), int(memory)))
    offline.shut()  # where that cannot be done there remains what `elsewhere` finds
    connection, saying = Connection(int(descriptor)), threading.Lock()
    try:
        store = EventStore(path, Words(base))
    except (OSError, RuntimeError) as error:  # of what is damaged Oxigraph says RuntimeError
        connection.send(str(error))
        return
    connection.send("")

    def ask(question: Question) -> Answer:
        elsewhere.stays(question.text, dict(question.prefixes))
        return store.ask(question)

    calls: Mapping[str, Callable[..., Any]] = {
        "knows": store.knows,
        "know": store.know,
        "unlearn": store.unlearn,
        "learn": store.learn,
        "derive": store.derive,
        "add": store.add,
        "forget": store.forget,
        "settle": store.settle,
        "flush": lambda: None,
        "ask": ask,
        "page": store.page,
        "hours": lambda *values: [hour.value for hour in store.hours(*values)],
    }

    texts: deque[tuple[int, bytes]] = deque()
    settled, filling = threading.Condition(), 0  # questions are not answered from half of the knowledge

    def fill(more: int) -> None:
        nonlocal filling
        with settled:
            filling += more
            settled.notify_all()

    def work(numbers: Sequence[int], call: tuple[Any, ...]) -> None:
        name, *values = call
        if name in _QUESTIONS:
            with settled:
                settled.wait_for(lambda: filling == 0)
            say(*numbers, "began", None)
        if name == "learn":  # nor from half of a change
            fill(1)
        try:
            kind, value = "done", calls[name](*values)
        except Refused as error:
            kind, value = "refused", (error.code, str(error))
        except Exception as error:
            kind, value = "refused", ("failed", f"{type(error).__name__}: {error}")
        if name in (*_FILLS, "learn"):
            fill(-1)
        for number in numbers:
            say(number, kind, value)

    def write() -> None:
        taken: list[tuple[int, bytes]] = []
        while texts and sum(len(text) for _, text in taken) < _AT_ONCE:  # what waits, together
            taken.append(texts.popleft())
        if taken:
            work([number for number, _ in taken], ("add", b"".join(text for _, text in taken)))

    def say(*what: Any) -> None:
        with saying, contextlib.suppress(OSError):
            connection.send(what)

    with ThreadPoolExecutor(1) as writer, ThreadPoolExecutor(_WORKERS) as readers:
        while (told := _next(connection)) is not None:
            number, call = told
            if call[0] == "add":
                texts.append((number, call[1]))
                writer.submit(write)
            else:
                if call[0] in _FILLS:
                    fill(1)
                pool = readers if call[0] in _QUESTIONS else writer
                pool.submit(work, [number], call)
        writer.shutdown()
        store.store.flush()
        os._exit(0)  # whatever is still being asked


def _next(connection: Connection) -> Any:
    try:
        return connection.recv()
    except (EOFError, OSError):
        return None


if __name__ == "__main__":
    main(*sys.argv[1:])
