"""`cep serve` as a process: started, asked, killed, started again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from tests.serving import FRIDGES, KITCHEN

PAIRS = """
event reading(fridge: string, temp: float) TIME time.
rising(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE B > A WITHIN 1 h.
ALERT hot ON rising(f: F, b: B) SEVERITY "Minor" TITLE "{F}" FOR 1 h KEYED BY F.
"""
IDS = "SELECT ?e { ?e <http://www.w3.org/2006/time#hasEnd> ?t } ORDER BY ?e"


class Server:
    """`cep serve` with some arguments; input by `say`."""

    running: ClassVar[list[subprocess.Popen[str]]] = []

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "cep", "serve", *arguments, "--port", "0", "--log", "json"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(self.process)
        assert self.process.stderr is not None
        self.lines = (json.loads(line) for line in self.process.stderr)
        self.url = next(line["url"] for line in self.lines if line["event"] in ("serving", "error")).rstrip("/")

    def rows(self, query: str = IDS, count: int | None = None) -> list[list[str]]:
        """The answer's rows; as soon as there are so many."""
        for _ in range(400):
            text = httpx.get(
                self.url + "/sparql", params={"query": query}, headers={"Accept": "text/csv"}, timeout=60
            ).text
            rows = [line.split(",") for line in text.splitlines()[1:]]
            if count is None or len(rows) >= count:
                return rows
            time.sleep(0.05)
        raise AssertionError(f"{len(rows)} rows, not {count}")

    def say(self, minute: int, fridge: str, degrees: float) -> None:
        record = {"type": "reading", "time": f"2024-05-01T08:{minute:02}:00Z", "fridge": fridge, "temp": degrees}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(record) + "\n")
        self.process.stdin.flush()

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        list(self.lines)
        return self.process.wait(60)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """A test that fails leaves no server behind."""
    yield
    while Server.running:
        Server.running.pop().kill()


def test_files_killed_and_served_again(tmp_path: Path) -> None:
    (tmp_path / "fridge.cep").write_text(FRIDGES)
    (tmp_path / "kitchen.ttl").write_text(KITCHEN)
    rows = [f"2024-05-01 08:{minute:02},{fridge},{minute / 5}" for minute in range(60) for fridge in ("milk", "fish")]
    (tmp_path / "reading.csv").write_text("\n".join(["time,fridge,temp", *rows]) + "\n")
    arguments = [str(tmp_path / "fridge.cep"), "--input", f"reading={tmp_path}/reading.csv", "--batch", "7"]
    arguments += ["--knowledge", str(tmp_path / "kitchen.ttl"), "--state", str(tmp_path / "state"), "--explain"]
    first = Server(*arguments)
    found = first.rows(count=75)
    metrics = httpx.get(first.url + "/metrics").text
    assert 'semcep_events_derived_total{event="warm"}' in metrics and "semcep_records_total" in metrics
    assert httpx.get(first.url + "/ready").json() == {"status": "ok"}
    other = subprocess.run([sys.executable, "-m", "cep", "serve", *arguments], capture_output=True, text=True)
    assert other.returncode == 2 and "cannot be opened" in other.stderr
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    second = Server(*arguments)
    assert second.rows(count=75) == found and len(found) == 75
    time.sleep(0.5)
    assert second.rows() == found, "the same input gives the same events, by the same names"
    assert second.end(signal.SIGTERM) == 0


def test_live_input_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "pairs.cep").write_text(PAIRS)
    token = tmp_path / "token"
    token.write_text("short")
    arguments = [str(tmp_path / "pairs.cep"), "--input", "-", "--state", str(tmp_path / "state")]
    refused = subprocess.run(
        [sys.executable, "-m", "cep", "serve", *arguments, "--token-file", str(token)], capture_output=True, text=True
    )
    assert refused.returncode == 2 and "16 letters" in refused.stderr
    first = Server(*arguments)
    first.say(0, "milk", 4.0)
    first.say(1, "milk", 3.0)
    first.say(2, "milk", 3.5)
    first.say(3, "fish", 1.0)
    assert len(first.rows(count=1)) == 1
    assert first.end(signal.SIGTERM) == 0
    second = Server(*arguments)
    second.say(4, "milk", 5.0)
    second.say(5, "fish", 1.0)
    assert len(second.rows(count=4)) == 4, "one of before, and three whose first reading was before"
    for _ in range(100):
        alerts = httpx.get(second.url + "/feeds/atom").text
        if "milk" in alerts:
            break
        time.sleep(0.05)
    assert "milk" in alerts
    assert second.end(signal.SIGINT) == 0
