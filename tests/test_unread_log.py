"""A server whose log nobody reads for a while: it goes on, and what it has logged can be read later."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cep.core import logs
from cep.core.logs import BackgroundWriter
from tests.test_live_change import SMALL, Editable, started
from tests.test_serve import Server
from tests.waiting import until

PAGE = 4096


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def test_a_server_goes_on_while_nobody_reads_its_log(tmp_path: Path) -> None:
    server = Editable("--input", "reading=-", *started(tmp_path, SMALL))
    assert server.process.stderr is not None
    fcntl.fcntl(server.process.stderr, fcntl.F_SETPIPE_SZ, PAGE)
    for number in range(30):  # each writes some hundred bytes
        assert server.put(SMALL.text.replace("LAST 8 s", f"LAST {number + 9} s")).status_code == 200
    assert server.ask("GET", "/health").status_code == 200
    assert server.end(signal.SIGTERM) == 0
    versions = [each["version"] for each in server.logged if each["event"] == "program"]
    assert versions == list(range(2, 32)) and server.logged[-1]["event"] == "stop"


def test_a_server_ends_although_nobody_reads_its_log(tmp_path: Path) -> None:
    server = Editable("--input", "reading=-", *started(tmp_path, SMALL))
    assert server.process.stderr is not None
    fcntl.fcntl(server.process.stderr, fcntl.F_SETPIPE_SZ, PAGE)
    for number in range(30):
        assert server.put(SMALL.text.replace("LAST 8 s", f"LAST {number + 9} s")).status_code == 200
    os.killpg(server.process.pid, signal.SIGTERM)
    assert server.process.wait(60) == 0


def test_lines_that_nobody_reads_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST", 100)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PAGE)

    def log(event: str, text: str | None, level: str = "info", /, **fields: Any) -> None:
        writer.add(json.dumps({"event": event, "text": text, **fields}))

    writer = BackgroundWriter(writing, log)
    os.close(writing)
    for number in range(1000):
        writer.add(json.dumps({"event": "line", "number": number, "filling": 200 * "x"}))
    with os.fdopen(reading, encoding="utf-8") as file:
        found = [json.loads(next(file))]
        while found[-1]["event"] != "left_out":
            found.append(json.loads(next(file)))
        writer.close()
        assert file.read() == ""
    *lines, told = found
    written = [each["number"] for each in lines]
    assert written == sorted(written) and written[0] == 0 and 100 <= len(written) < 500
    assert told["lines"] == 1000 - len(written) and told["text"].endswith("were left out, because nothing read it")


def test_a_reader_that_is_gone_holds_nobody_up() -> None:
    reading, writing = os.pipe()
    writer = BackgroundWriter(writing, logs.plain)
    os.close(writing)
    os.close(reading)
    for _ in range(3):
        writer.add("a line")
    until(lambda: not writer._thread.is_alive(), "it writes no more")
    writer.add("another one")
    writer.close()
