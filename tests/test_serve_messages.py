"""What a server says in the terminal, and the replay that `make serve` shows."""

from __future__ import annotations

import fcntl
import io
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.files import read
from cep.connectors.records.batch import DeadLetter
from cep.connectors.service import Service
from cep.demos.blizzard import replay
from cep.engine import Engine
from cep.knowledge.graph import Knowledge
from cep.runtime.run_stats import RunStats
from cep.server.dead_letters import OFTEN, LoggedDeadLetters
from tests.serving import FRIDGES, KITCHEN

BLIZZARD = Path(replay.__file__).parent


def test_the_first_dead_letter_is_told_at_once_then_their_number_now_and_then(tmp_path: Path) -> None:
    logged: list[tuple[str, str | None, dict[str, Any]]] = []
    now = 0.0

    def log(event: str, text: str | None, level: str = "info", /, **more: Any) -> None:
        logged.append((event, text, more))

    letters = LoggedDeadLetters(None, log, lambda: now)
    letters.add([])
    assert logged == []
    letters.add([DeadLetter("-", 3, "temp: expected float, found `broken`", "ill-typed", "x")])
    (first,) = logged
    assert first[:2] == (
        "first_dead_letter",
        "one dead letter is standard input:3: temp: expected float, found `broken`; `--dead-letter FILE` keeps them",
    )
    letters.add([DeadLetter("-", n, "bad", "json", "x") for n in range(4, 1_204)])
    now = OFTEN - 1
    letters.add([])
    assert len(logged) == 1, "not for every batch"
    now = OFTEN
    letters.add([])
    assert logged[1:] == [
        (
            "dead_letters",
            "1,201 dead letters so far (1,200 bad JSON, 1 ill-typed)",
            {"dead": {"ill-typed": 1, "json": 1200}},
        )
    ]
    now = 10 * OFTEN
    letters.add([])
    assert len(logged) == 2, "nothing is reported where there is nothing new"


def test_a_port_that_another_program_has(tmp_path: Path) -> None:
    (tmp_path / "f.cep").write_text(FRIDGES)
    (tmp_path / "k.ttl").write_text(KITCHEN)
    (tmp_path / "f.csv").write_text("time,fridge,temp\n2024-05-01 08:00,milk,4.1\n")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = ["serve", f"{tmp_path}/f.cep", "-i", f"reading={tmp_path}/f.csv", "--knowledge", f"{tmp_path}/k.ttl"]
        result = CliRunner().invoke(app, [*words, "--port", str(port)])
    assert result.exit_code == 2
    assert (
        f"--port {port}: the port is in use at 127.0.0.1" in result.output and f"`--port {port + 1}`" in result.output
    )


def started(folder: Path, knowledge: str) -> subprocess.Popen[str]:
    (folder / "f.cep").write_text(FRIDGES)
    (folder / "f.csv").write_text("time,fridge,temp\n2024-05-01 08:00,milk,4.1\n")
    words = ["serve", "f.cep", "-i", "reading=f.csv", "--knowledge", knowledge, "--port", "0"]
    return subprocess.Popen(
        [sys.executable, "-m", "cep", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_with_0(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "k.ttl").write_text(KITCHEN)
    running = started(tmp_path, "k.ttl")
    assert running.stderr is not None and any(line.startswith("serving http://") for line in running.stderr)
    os.killpg(running.pid, number)
    running.communicate()
    assert running.returncode == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_server_that_still_loads(number: signal.Signals, status: int, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "k.ttl")
    running = started(tmp_path, "k.ttl")
    with open(tmp_path / "k.ttl", "w"):  # the server reads its knowledge now, and waits for it
        for _ in range(100):  # the first one may come just before it waits
            os.killpg(running.pid, number)
            with suppress(subprocess.TimeoutExpired):
                running.communicate(timeout=1)
                break
    assert running.returncode == status


def test_the_documents_say_how_a_server_ends() -> None:
    text = " ".join((Path(__file__).parent.parent / "docs" / "serve.md").read_text(encoding="utf-8").split())
    assert "SIGTERM and Ctrl-C end the server after the current batch" in text
    assert "The exit status is 0. If the server was still loading, the exit status is 130 after Ctrl-C and 143" in text


def test_the_replay_begins_with_its_reader_and_ends_after_the_last_alert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(replay, "PACE", 0.0)
    reading, writing = os.pipe()
    with open(writing, "w") as out, open(reading, "rb", buffering=0) as taken:
        monkeypatch.setattr("sys.stdout", out)
        runs = threading.Thread(target=replay.main)
        runs.start()
        head = taken.read(1)
        while not head.endswith(b"\n"):
            assert runs.is_alive() and len(select.select([taken], [], [], 120)[0]) == 1
            left = fcntl.ioctl(taken, termios.FIONREAD, bytes(4))
            assert int.from_bytes(left, sys.byteorder) < len(next(replay.hours())), "more than the header has come"
            head += taken.read(1)
        text = head + b"".join(iter(lambda: taken.read(1 << 16), b""))
        runs.join()
    assert text.decode() == "".join(replay.hours())
    assert replay.OVER in capfd.readouterr().err

    engine = Engine.from_file(
        BLIZZARD / "areas.cep", knowledge=Knowledge.load([BLIZZARD / "stations.ttl"]), lateness=0, alerts=True
    )
    with closing(Outbox(None)) as outbox:
        service = Service(engine, "", "areas.cep", RunStats())
        service.listen(AlertListener(engine, outbox))

        def open_after(lines: str) -> int:
            for batch in read(["reading=-"], engine.inputs, format="csv", stdin=io.BytesIO(lines.encode())):
                service.take(batch, engine.push(batch.tables))
            return len(outbox.live())

        hours = list(replay.hours())
        height = len(list(replay.hours(replay.HEIGHT)))
        assert open_after("".join(hours[: height + 1])) == 4 and len(hours) > height + 1
        assert open_after(hours[0] + "".join(hours[height + 1 :])) == 0
        assert [entry.change.state for entry in outbox.between(1, outbox.last)].count("resolved") == 4
