"""`cep serve` as a process: started, asked, killed, started again."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import httpx
import polars as pl
import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.engine import Engine
from tests.brokers import Cluster
from tests.receiver import receiver
from tests.serving import EIGHT, FRIDGES, KITCHEN, MINUTE
from tests.test_sink import Sink
from tests.waiting import pause, until

PAIRS = """
event reading(fridge: string, temp: float) TIME time.
rising(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE B > A WITHIN 1 h.
ALERT hot ON rising(f: F, b: B) SEVERITY "Minor" TITLE "{F}" FOR 1 h KEYED BY F.
"""
IDS = "SELECT ?e { ?e <http://www.w3.org/2006/time#hasEnd> ?t } ORDER BY ?e"
LAST = "SELECT ?e { ?e time:hasEnd/time:inXSDDateTimeStamp ?t } ORDER BY DESC(?t) LIMIT 1"


class Server:
    """`cep serve` with some arguments; input by `say`."""

    running: ClassVar[list[subprocess.Popen[str]]] = []

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "cep", "serve", *arguments, "--port", "0", "--log", "json"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.running.append(self.process)
        self.logged: list[dict[str, Any]] = []
        self.lines = self._lines()
        self.url = next(line["url"] for line in self.lines if line["event"] in ("serving", "error")).rstrip("/")

    def _lines(self) -> Iterator[dict[str, Any]]:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            assert line.startswith("{"), f"the log is JSON alone, and has {line!r}, {self.process.stderr.read()}"
            self.logged.append(json.loads(line))
            yield self.logged[-1]

    def rows(self, query: str = IDS, count: int | None = None) -> list[list[str]]:
        """The answer's rows; as soon as there are so many."""
        rows: list[list[str]] = []

        def enough() -> bool:
            text = httpx.get(
                self.url + "/sparql", params={"query": query}, headers={"Accept": "text/csv"}, timeout=60
            ).text
            rows[:] = [line.split(",") for line in text.splitlines()[1:]]
            return count is None or len(rows) >= count

        until(enough, f"{count} rows", every=0.05)
        return rows

    def look(self, path: str, met: Callable[[Any], bool]) -> Any:
        """The answer as JSON; as soon as it is as wished."""

        def answered() -> httpx.Response | None:
            answer = httpx.get(self.url + path)
            return answer if answer.status_code == 200 and met(answer.json()) else None

        answer = until(answered, path, every=0.05)
        assert answer is not None
        return answer.json()

    def say(self, minute: int, fridge: str, degrees: float) -> None:
        record = {"type": "reading", "time": f"2024-05-01T08:{minute:02}:00Z", "fridge": fridge, "temp": degrees}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(record) + "\n")
        self.process.stdin.flush()

    def end(self, number: int) -> int:
        """As Ctrl-C in a terminal and as systemd: the signal goes to all of the server's group."""
        os.killpg(self.process.pid, number)
        list(self.lines)
        return self.process.wait(120)


def _watched(url: str) -> None:
    """A query that is asked when the server ends, and would take longer than it has."""
    many = "SELECT (count(*) AS ?n) { " + " ".join(f"?a{n} ?b{n} ?c{n} ." for n in range(9)) + " }"
    with suppress(httpx.HTTPError):
        assert httpx.get(url + "/sparql", params={"query": many}, timeout=60).status_code == 503


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """A test that fails leaves no server behind."""
    yield
    while Server.running:
        Server.running.pop().kill()


@pytest.mark.long
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
    assert re.search(r"^semcep_batch_seconds_sum (?!0\.0$)", metrics, re.MULTILINE)
    assert httpx.get(first.url + "/ready").json() == {"status": "ok"}
    other = subprocess.run([sys.executable, "-m", "cep", "serve", *arguments], capture_output=True, text=True)
    assert other.returncode == 2 and "cannot be opened" in other.stderr
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    second = Server(*arguments)
    assert second.rows(count=75) == found and len(found) == 75
    ((last,),) = second.rows(LAST)
    second.look(f"/why/{last.rpartition('/')[2]}", bool)  # as soon as the input is read again
    assert second.rows() == found, "the same input gives the same events, by the same names"
    logged = httpx.get(f"{second.url}/why/{found[0][0].rpartition('/')[2]}").json()
    assert logged["parts"][0]["record"]["file"] == "reading.csv" and logged["parts"][0]["record"]["line"] > 1
    assert second.end(signal.SIGTERM) == 0


def test_live_input_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "pairs.cep").write_text(PAIRS)
    token = tmp_path / "token"
    token.write_text("ann editor short\n")
    token.chmod(0o600)
    arguments = [str(tmp_path / "pairs.cep"), "--input", "-", "--state", str(tmp_path / "state")]
    refused = CliRunner().invoke(app, ["serve", *arguments, "--token-file", str(token)])
    assert refused.exit_code == 2 and "16 letters" in refused.stderr
    refused = CliRunner().invoke(app, ["serve", *arguments, "--host", "0.0.0.0"])
    assert refused.exit_code == 2 and "there are no tokens" in refused.stderr and "`--open`" in refused.stderr
    first = Server(*arguments, "--log-queries")
    first.say(0, "milk", 4.0)
    first.say(1, "milk", 3.0)
    first.say(2, "milk", 3.5)
    first.say(3, "fish", 1.0)
    assert len(first.rows(count=1)) == 1
    assert httpx.get(first.url + "/sparql", params={"query": "SELECT {"}).status_code == 400
    watching = threading.Thread(target=lambda: _watched(first.url))
    watching.start()
    assert first.end(signal.SIGTERM) == 0
    watching.join()
    queries = [line for line in first.logged if line["event"] == "query"]
    assert [line["status"] for line in queries if line["query"] == "SELECT {"] == [400]
    assert all(line["seconds"] >= 0 and line["bytes"] for line in queries)
    assert [line for line in first.logged if line["level"] == "error"] == []
    second = Server(*arguments)
    second.say(4, "milk", 5.0)
    second.say(5, "fish", 1.0)
    assert len(second.rows(count=4)) == 4, "one of before, and three whose first reading was before"
    second.look("/feeds/alerts", lambda alerts: "milk" in {one["title"] for one in alerts})
    assert "milk" in httpx.get(second.url + "/feeds/atom").text
    assert second.end(signal.SIGINT) == 0


@pytest.mark.long
def test_killed_between_messages(tmp_path: Path) -> None:
    """SIGKILL at random moments, while messages come: none is lost, though most wait for one that comes later, and a
    receiver gets each alert's life."""
    chance, cluster = random.Random(7), Cluster("readings")
    (tmp_path / "pairs.cep").write_text(PAIRS)
    taken = tmp_path / "taken"
    taken.touch()
    with receiver(0, taken, chance, 1.0) as hook:
        threading.Thread(target=hook.serve_forever, daemon=True).start()
        arguments = [str(tmp_path / "pairs.cep"), "--state", str(tmp_path / "state"), "--idle", "never"]
        arguments += ["--input", f"reading=kafka://{cluster.servers}/readings?group=served"]
        arguments += ["--feed", f"cloudevents+http://127.0.0.1:{hook.server_port}/#private=yes&from=start"]
        fridges = [f"f{number}" for number in range(40)]
        for attempt in range(4):
            server = Server(*arguments)
            for number in range(10 * attempt, 10 * attempt + 10):  # each fridge again, one round later
                for later, name in ((0, fridges[number]), (1, fridges[number - 10])):
                    if later <= attempt:
                        record = {"time": EIGHT / 1e6 + 60 * (attempt + number / 100), "fridge": name, "temp": later}
                        cluster.send([(0, number, json.dumps(record).encode())])
                pause(chance.uniform(0, 0.2))
            if attempt < 3:
                pause(chance.uniform(0, 0.5))
                assert server.end(signal.SIGKILL) == -signal.SIGKILL
        assert len(server.rows(count=29)) == 29, "the last one waits for a later record"
        until(lambda: len({line.split("\t")[1] for line in taken.read_text().splitlines()}) >= 29, "29 are reported")
        assert server.end(signal.SIGTERM) == 0
        hook.shutdown()
    logged = [json.loads(line.split("\t")[3])["data"] for line in taken.read_text().splitlines()]
    assert {one["state"] for one in logged} == {"firing"} and len({one["alert"] for one in logged}) == 29


@pytest.mark.long
def test_an_edited_program_goes_on(tmp_path: Path) -> None:
    """A comment and a new rule change neither events nor open alerts nor what is begun; a changed rule only its own.
    Nothing waits for a record that does not come."""
    rules = tmp_path / "pairs.cep"
    arguments = [str(rules), "--input", "-", "--state", str(tmp_path / "state")]
    more = 'cold(F) <- reading(F, T) WHERE T < 0.\nALERT cold ON cold(F) TITLE "{F}" FOR 100 h KEYED BY F.\n'
    text = PAIRS.replace("FOR 1 h", "FOR 100 h")
    edited = "% as it was\n" + text.replace("\nrising", "\nnew(F) <- reading(F, 99.0).\nrising")
    last = edited.replace("B > A", "B >= A")
    states, found = [], []
    for turn, program in enumerate((text + more, edited + more, last + more)):
        rules.write_text(program)
        server = Server(*arguments)
        assert any(line["event"] == "idle" for line in server.logged)
        if turn == 0:
            server.say(0, "milk", 4.0)
            server.say(1, "milk", 5.0)
            server.say(2, "ice", -1.0)
            server.say(3, "fish", 1.0)
        elif turn == 1:
            server.say(4, "fish", 2.0)
        found.append(server.rows(count=2 if turn == 0 else 3))
        wanted = 1 if turn == 2 else 2 + turn
        alerts = server.look("/feeds/alerts", lambda alerts, wanted=wanted: len(alerts) == wanted)
        states.append({(one["name"], one["title"], one["alert"]) for one in alerts})
        assert server.end(signal.SIGTERM) == 0
        logged = {line["event"]: line for line in server.logged}
        assert ("changed" in logged) is (turn == 2) and ("carried" in logged) is (turn > 0)
        if turn:
            assert (logged["carried"]["empty"] == []) is (turn == 1), logged["carried"]
    assert set(map(tuple, found[0])) < set(map(tuple, found[1])) and found[1] == found[2], "history stays"
    assert states[0] < states[1] and {name for name, _, _ in states[1]} == {"hot", "cold"}
    assert states[2] < states[1] and {name for name, _, _ in states[2]} == {"cold"}


@pytest.mark.long
def test_what_a_job_derived_elsewhere(tmp_path: Path) -> None:
    """A folder as Spark lays it out, which grows while it is served; after a restart alerts are not reported again."""
    (tmp_path / "pairs.cep").write_text(PAIRS)
    engine = Engine.from_text(PAIRS)
    sink = Sink(tmp_path / "out", engine.outputs, "jsonl")

    def work(*degrees: tuple[int, float]) -> None:
        times = [EIGHT + minute * MINUTE for minute, _ in degrees]
        table = {"start": times, "end": times, "fridge": ["milk"] * len(times), "temp": [t for _, t in degrees]}
        sink.batch(engine.push({"reading": pl.DataFrame(table)}))

    work((0, 1.0), (1, 2.0), (2, 3.0))
    arguments = [str(tmp_path / "pairs.cep"), "--on", "spark", "--input", str(tmp_path / "out")]
    arguments += ["--state", str(tmp_path / "state")]
    first = Server(*arguments)
    before = first.rows(count=1)
    work((3, 2.5), (4, 4.0))
    work((9, 0.0))
    assert len(found := first.rows(count=9)) == 9 and set(map(tuple, before)) <= set(map(tuple, found))
    logged = first.look("/feeds/alerts", lambda alerts: [one["occurrences"] for one in alerts] == [9])
    assert [one["title"] for one in logged] == ["milk"]
    assert first.end(signal.SIGINT) == 0
    second = Server(*arguments)
    work((10, 1.0))
    work((11, -1.0))
    assert len(second.rows(count=10)) == 10
    alert = second.look(f"/feeds/alerts/{logged[0]['alert']}", lambda alert: alert[-1]["occurrences"] == 10)
    assert [one["revision"] for one in alert] == list(range(len(alert)))
    assert second.end(signal.SIGTERM) == 0
    readings = [*arguments, "--readings"]
    refused = subprocess.run([sys.executable, "-m", "cep", "serve", *readings], capture_output=True, text=True)
    assert refused.returncode == 2 and "--readings cannot be used with `--on spark`" in refused.stderr
