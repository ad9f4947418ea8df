"""A program of `cep serve` that has failed is seen: by the exit status, the log, `/health` and the metrics."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from math import comb
from pathlib import Path

import httpx
import pytest

from cep.app.pipeline import Interrupt
from cep.app.program_thread import JournaledBatches, ProgramThread
from cep.connectors.dead_letters import DeadLetters
from cep.connectors.records.batch import Batch
from cep.connectors.service import Service
from cep.core.errors import CepError
from cep.engine import Engine
from cep.runtime.run_stats import RunStats
from tests.serving import TWICE, program
from tests.test_serve import PAIRS, Server
from tests.waiting import PATIENCE, pause, until

ROOT = Path(__file__).parent
NO_ROOM = os.strerror(errno.ENOSPC).lower()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def ask(server: Server, path: str) -> httpx.Response:
    return httpx.get(server.url + path, timeout=60)


@pytest.mark.long
def test_a_disk_that_is_full_ends_the_process_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--stay` it answers, and says that it has failed."""
    (tmp_path / "pairs.cep").write_text(PAIRS)
    full = tmp_path / "state" / "full"
    monkeypatch.setenv("SEMCEP_FULL", str(full))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'full_disk'}:{ROOT.parent}")
    arguments = [str(tmp_path / "pairs.cep"), "--input", "-", "--state", str(tmp_path / "state"), "--idle", "never"]
    server = Server(*arguments)
    server.say(0, "milk", 4.0)
    server.say(1, "milk", 5.0)
    server.say(2, "milk", 6.0)  # what is of the latest time waits for the next
    assert len(server.rows(count=1)) == 1 and ask(server, "/health").json() == {"status": "ok"}
    assert "semcep_program_up 1.0" in ask(server, "/metrics").text
    full.touch()
    said = 3
    with suppress(BrokenPipeError, httpx.HTTPError):  # it fails when a snapshot is saved, some records later
        while server.process.poll() is None and said < 40:
            server.say(said, "milk", 7.0)
            said += 1
            server.rows(count=comb(said - 1, 2))
            pause(0.5)
    list(server.lines)
    assert server.process.wait(PATIENCE) == 3, "a restart may help"
    (failed,) = [line for line in server.logged if line["event"] == "failed"]
    assert NO_ROOM in failed["text"] and "make room there, and start again" in failed["text"]
    with pytest.raises(KeyError):  # it has no address
        Server(*arguments)
    assert Server.running[-1].wait(PATIENCE) == 3, "nor is it an error of who started it"
    full.unlink()
    staying = Server(*arguments, "--stay")
    staying.say(said, "milk", 8.0)
    assert staying.rows(count=comb(said - 1, 2)), "nothing that was read is lost"
    full.touch()
    minutes = iter(range(said + 1, 60))

    def failed_health() -> httpx.Response | None:
        """A snapshot is saved some time after the record at which it is taken."""
        staying.say(next(minutes), "milk", 9.0)
        answer = ask(staying, "/health")
        return answer if answer.status_code == 503 else None

    answer = until(failed_health, "it has failed", every=0.5)
    assert answer and NO_ROOM in answer.json()["status"]
    assert ask(staying, "/ready").status_code == 503
    assert "semcep_program_up 0.0" in ask(staying, "/metrics").text
    assert len(staying.rows(count=6)) >= 6, "what is there can be read"
    assert staying.end(signal.SIGTERM) == 3


@pytest.mark.long
def test_a_server_that_compiles_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("NUMBA_OPT", "1")  # other kernels than the package brings
    (tmp_path / "pairs.cep").write_text(PAIRS)
    server = Server(str(tmp_path / "pairs.cep"), "--input", "-", "--state", str(tmp_path / "state"))
    for minute in range(3):
        server.say(minute, "milk", 4.0 + minute)

    def compiling() -> str | None:
        answer = ask(server, "/ready")
        return answer.json()["status"] if answer.status_code == 503 else None

    said = until(compiling, "it compiles", every=0.05)
    assert said and re.fullmatch(
        r"compiling kernels: \d+ in \d+ s, (usually about|longer than the usual) 30 s( in all)?", said
    )
    assert ask(server, "/health").json() == {"status": "ok"}
    assert server.rows(count=1) and server.look("/ready", bool) == {"status": "ok"}
    told = next(line["text"] for line in chain(server.logged, server.lines) if line["event"] == "compiling")
    assert told == "compiling kernels, once: about 30 s"


def failing(error: BaseException) -> ProgramThread:
    """A program whose input fails so."""

    def coming() -> Iterator[Batch]:
        raise error
        yield

    engine, stats = Engine.from_text(PAIRS), RunStats()
    service = Service(engine, PAIRS, "rules.cep", stats)
    batches = JournaledBatches(coming())
    run = ProgramThread(engine, batches, stats, service, DeadLetters(), Interrupt(), None, lambda *_, **__: None)
    run.on_failure = lambda: setattr(run, "notified", True)
    run.run()
    assert getattr(run, "notified", False) and run.failed
    return run


def test_whether_a_restart_may_help() -> None:
    full = CepError("full")
    full.__context__ = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))  # as `raise .. from None` keeps it
    for error, may_pass in (
        (OSError(errno.ENOSPC, "full"), True),
        (full, True),
        (CepError("the outbox is full", code="failed"), True),
        (CepError("a wrong record", code="state"), False),
        (ZeroDivisionError("a mistake of ours"), False),
    ):
        assert failing(error).may_pass is may_pass, error


def test_knowledge_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    """A server fails then: `/ready` would be 503 for good."""
    reported: list[str] = []
    with program(tmp_path, TWICE) as one:
        one.history.troubled = reported.append
        until(lambda: one.history.trouble is None, "the knowledge of before is loaded")
        one.store.know = lambda name, filled: one.store._command("know", name, str(tmp_path), str(tmp_path / "none"))  # type: ignore[method-assign]
        one.history.begin(None)
        until(lambda: reported, "it is reported")
    assert reported[0].startswith("the knowledge was not stored: ") and one.history.trouble == reported[0]


@pytest.mark.long
def test_a_table_of_the_store_that_is_damaged_ends_the_server(tmp_path: Path) -> None:
    """Also where nobody has asked for what is damaged; without the folder it goes on."""
    (tmp_path / "pairs.cep").write_text(PAIRS)
    state = tmp_path / "state"
    arguments = [str(tmp_path / "pairs.cep"), "--input", "-", "--state", str(state), "--idle", "never"]
    server = Server(*arguments)
    for minute in range(4):
        server.say(minute, "milk", 4.0 + minute)
    assert server.rows(count=2) and server.end(signal.SIGTERM) == 0
    command = [sys.executable, "-m", "cep", "serve", *arguments, "--port", "0"]
    for table in sorted((state / "events").glob("*.sst"), key=lambda path: -path.stat().st_size):
        trial = Path(shutil.copytree(state, tmp_path / "whole", dirs_exist_ok=True))
        data = bytearray(table.read_bytes())
        data[len(data) // 3] ^= 1
        table.write_bytes(data)
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
        assert ended.returncode == 2, "a restart does not help"
        assert "Corruption" in ended.stderr and "or remove `events`" in ended.stderr
        if f"{table.name} is not what was written" in ended.stderr:  # else RocksDB has read it
            break
        shutil.rmtree(state)
        trial.rename(state)
    else:
        raise AssertionError("the server reads all tables")
    shutil.rmtree(state / "events")
    server = Server(*arguments)
    server.say(4, "milk", 9.0)
    server.say(5, "milk", 9.0)
    assert server.rows(count=1)
    assert server.end(signal.SIGTERM) == 0
