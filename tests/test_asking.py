"""Many ask at once, and ask what has no end: each has its share, what nobody waits for ends, and the store stays."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from cep.connectors.rdf.fair_queue import PLACES, SHARE, FairQueue
from cep.connectors.rdf.query_process import Gate, QueryProcess
from cep.connectors.rdf.question import QueryRefused, Question
from cep.connectors.rdf.store import EventStore
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import EventVocabulary
from tests.serving import served
from tests.waiting import until

HOUR = 3600.0  # seconds, so that nothing ends because of its time
PRODUCT = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?o ?p . ?q ?r ?s }"
TRIPLES = "".join(f"<urn:s{n}> <urn:p> <urn:o{n % 7}> .\n" for n in range(300))
MANY = Question("SELECT (COUNT(*) AS ?n) { ?s <urn:p> ?o }", table="csv", seconds=HOUR)


def endless(client: str) -> Question:
    return Question(PRODUCT, seconds=HOUR, client=client)


@pytest.fixture
def store(tmp_path: Path) -> StoreProcess:
    one = StoreProcess(tmp_path / "events", EventVocabulary(), 1 << 32)
    one.add(TRIPLES)
    one.flush()
    return one


def test_clients_take_turns_and_none_has_all_the_places() -> None:
    places = FairQueue()
    for number in range(20):
        assert places.add("a", number)
    assert [places.next(), places.next(), places.next()] == [0, 1, None], "the share of one"
    assert places.add("b", 20) and places.add("c", 21) and places.add("c", 22)
    assert [places.next(), places.next(), places.next()] == [20, 21, None], "all places"
    places.leave("b", 20)
    assert places.next() == 22, "who has had its turn is behind the others, and has its share"
    places.leave("a", 0)
    places.leave("a", 5)  # it waited
    assert [places.next(), places.next()] == [2, None]
    assert (PLACES, SHARE) == (4, 2)
    for client, number in (*(("a", n) for n in (1, 2, 3, 4, *range(6, 20))), ("c", 21), ("c", 22)):
        places.leave(client, number)
    assert not places._waiting and not places._running.total(), "who has gone is not remembered"
    numbers = iter(range(100, 10_000))
    taken = [sum(places.add(client, next(numbers)) for _ in range(100)) for client in "abcdefgh"]
    assert taken == [64] * 4 + [0] * 4 and places.next() == 100


def test_one_client_does_not_keep_the_others_from_asking(store: StoreProcess) -> None:
    """Without places that are left to others this would wait for an hour; nor does the server need to hear of it."""
    flood = [store.ask(endless("greedy")) for _ in range(16)]
    assert store.ask(MANY).result().body.split() == [b"n", b"300"]
    for future in flood:
        assert future.cancel()
    others = [store.ask(endless(f"c{n}")) for n in range(PLACES)]  # all places are taken, by others than before
    mine = store.ask(MANY)
    assert others[0].cancel() and mine.result().body.split() == [b"n", b"300"]
    for future in others[1:]:
        assert future.cancel()
    assert store.restarts == 0
    store.close()


def test_the_time_of_a_question_counts_from_when_it_comes(store: StoreProcess) -> None:
    flood = [store.ask(endless("greedy")) for _ in range(SHARE)]
    behind = store.ask(Question("ASK {}", seconds=0.2, client="greedy"))
    with pytest.raises(QueryRefused, match=r"waited for others, longer than 0\.2 s") as raised:
        behind.result()
    assert raised.value.code == "slow" and not any(future.done() for future in flood)
    with pytest.raises(QueryRefused, match=r"longer than 0\.3 s"):
        store.ask(Question(PRODUCT, seconds=0.3)).result()
    store.close()


def test_nothing_that_is_asked_ends_the_process_of_the_store(store: StoreProcess) -> None:
    """Neither what overflows a stack, nor what takes all memory, nor what takes long to read. Others are answered, and
    what is written stays."""
    process = store.process
    beside = store.ask(endless("beside"))
    memory = "SELECT ?a ?j { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l } ORDER BY ?l ?i ?a"
    for text in (
        "SELECT * " + "{" * 200_000 + "}" * 200_000,
        "ASK { FILTER(" + "!" * 30_000 + "true) }",
        "SELECT (" + "1+" * 30_000 + "1 AS ?x) {}",
        "ASK { FILTER(" + "(" * 20_000 + "1" + ")" * 20_000 + ") }",
        "SELECT * { ?s ?p ?o " + " ".join(f"OPTIONAL {{ ?s <urn:p> ?o{n} }}" for n in range(3_000)) + " }",
        "SELECT * { ?s " + "/".join(["<urn:p>"] * 20_000) + " ?o }",
        memory,
    ):
        asked = store.ask(Question(text, seconds=3.0, bytes=1 << 20))
        store.add("<urn:s0> <urn:p> <urn:o0> .\n")
        try:
            asked.result()
        except QueryRefused as error:
            assert error.code in ("slow", "failed", "large", "syntax"), text[:40]
    assert not beside.done() and beside.cancel()
    assert store.ask(MANY).result().body.split() == [b"n", b"300"]
    assert (store.process, store.restarts) == (process, 0)
    store.close()


def test_a_store_whose_process_is_ended_all_the_same_goes_on_with_what_was_asked(store: StoreProcess) -> None:
    waiting = [store.ask(endless("c")), store.ask(endless("d"))]
    process = store.process
    until(lambda: _alive(process) == 3, "three are asked")
    os.kill(process, signal.SIGKILL)
    until(lambda: store.restarts == 1 and not _alive(process), "it begins again")
    assert store.ask(MANY).result().body.split() == [b"n", b"300"]
    for future in waiting:
        assert not future.done() and future.cancel()
    store.close()


def _alive(group: int) -> int:
    """How many processes of a group there are."""
    found = 0
    for one in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of = one.read_text().rpartition(")")[2].split()[:3]
            found += int(of) == group and state not in "ZX"
    return found


def test_what_a_client_that_has_gone_asked_is_ended(tmp_path: Path) -> None:
    """Sixteen products, each over a connection of its own that is closed: had they stayed, the next one from the same
    address would wait for an hour."""
    with served(tmp_path, seconds=HOUR) as one:
        one.push((0, "milk", 8.2), (50, "milk", 4.2))
        one.close()
        where = httpx.URL(one.url)
        gone = []
        for path in ("/sparql", "/sparql/subscribe") * 8:
            connection = socket.create_connection((where.host, where.port))
            address = f"{path}?{urlencode({'query': PRODUCT})}"
            connection.sendall(f"GET {address} HTTP/1.1\r\nHost: {where.host}\r\n\r\n".encode())
            gone.append(connection)
        until(lambda: len(one.store._requests) >= 9, "nine orders")  # a query is asked once for all who watch it
        for connection in gone:
            connection.close()
        found = httpx.get(one.url + "/sparql", params={"query": "ASK { ?s ?p ?o }"}, timeout=HOUR)
        assert found.json()["boolean"] is True and one.store.restarts == 0


def test_a_fork_that_waits_for_a_lock_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sleeps is no use; here the first two do."""
    store, made = EventStore(str(tmp_path / "events"), EventVocabulary()), 0
    fork = os.fork

    def counted() -> int:
        nonlocal made
        made += 1
        return fork()

    monkeypatch.setattr(os, "fork", counted)

    def work() -> int:
        if made < 3:
            threading.Event().wait()
        return len(store.store)

    gate = Gate()
    assert QueryProcess().answer(work, gate, time.monotonic() + HOUR, 0, []) == 0 and made == 3
    monkeypatch.undo()
    with pytest.raises(QueryRefused, match="time limit"):
        QueryProcess().answer(lambda: sum(iter(int, 1)), gate, time.monotonic() + 0.2, 0, [])
    with pytest.raises(QueryRefused, match="is nested too deeply"):
        QueryProcess().answer(lambda: os.kill(os.getpid(), signal.SIGKILL), gate, time.monotonic() + HOUR, 0, [])
    with pytest.raises(QueryRefused, match=r"MemoryError|broke"):
        QueryProcess().answer(lambda: len(bytearray(1 << 30)), gate, time.monotonic() + HOUR, 1 << 28, [])


def test_what_keeps_a_fork_from_its_answer_is_told_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No room for another process or file, an answer that breaks off, and no answer of half a change."""
    files = len(os.listdir("/proc/self/fd"))
    gate, later = Gate(), time.monotonic() + HOUR
    forked: list[int] = []
    real = os.fork

    def fork() -> int:
        child = real()
        forked.extend([child] if child else [])
        return child

    monkeypatch.setattr(os, "fork", fork)

    def full() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    for name in ("fork", "pipe"):
        with (
            monkeypatch.context() as patch,
            pytest.raises(QueryRefused, match="cannot start another process") as raised,
        ):
            patch.setattr(os, name, full)
            QueryProcess().answer(lambda: 1, gate, later, 0, [])
        assert raised.value.code == "busy"
    with monkeypatch.context() as patch, pytest.raises(QueryRefused, match="is nested too deeply"):
        patch.setattr(pickle, "dumps", lambda raised: b"\x80\x04\x95\xff")
        QueryProcess().answer(lambda: 1, gate, later, 0, [])

    changing, made = iter((True, True)), 0  # as the knowledge is half way through a change, seen twice

    def ready() -> bool:
        assert made == 0
        return not next(changing, False)

    def counted() -> int:
        nonlocal made
        made += 1
        return fork()

    def told_of() -> None:
        def noticed() -> int:
            with half.shut:
                half.shut.notify_all()
            return made

        until(noticed, "a process is made")

    monkeypatch.setattr(os, "fork", counted)
    half, teller = Gate(ready), threading.Thread(target=told_of)
    teller.start()
    assert QueryProcess().answer(lambda: 7, half, later, 0, []) == 7 and made == 1
    teller.join()
    with pytest.raises(QueryRefused, match="being loaded"):
        QueryProcess().answer(lambda: 1, Gate(lambda: False), time.monotonic(), 0, [])
    assert len(os.listdir("/proc/self/fd")) == files
    assert len(forked) == 2
    for child in forked:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_a_fork_ends_with_the_process_that_made_it() -> None:
    """Also one that waits, which no limit of CPU ends; and where memory is short it is the first to go."""
    if sys.platform != "linux":
        return
    text = (
        "import os, time; from cep.connectors.rdf.query_process import QueryProcess, Gate\n"
        "def work():\n"
        "    print(os.getpid(), open('/proc/self/oom_score_adj').read(), flush=True)\n"
        "    os.kill(os.getppid(), 9)\n"
        "    while True: sum(range(10_000))\n"
        "QueryProcess().answer(work, Gate(), time.monotonic() + 3600, 0, [])"
    )
    one = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    number, first = one.stdout.split()
    assert one.returncode == -signal.SIGKILL and first == "1000"
    until(
        lambda: not Path(f"/proc/{number}").exists() or ") Z" in Path(f"/proc/{number}/stat").read_text(), "it has gone"
    )


def test_who_leaves_while_it_is_asked_is_not_told(store: StoreProcess) -> None:
    async def asked() -> None:
        task = asyncio.ensure_future(asyncio.wait_for(asyncio.wrap_future(store.ask(endless("a"))), 0.05))
        with pytest.raises(TimeoutError):
            await task

    asyncio.run(asked())
    assert not store._requests
    store.close()
