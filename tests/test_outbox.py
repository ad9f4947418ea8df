"""Nothing is lost, whoever is killed: every receiver gets each alert's life, complete and in order."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from fastapi import FastAPI
from prometheus_client import generate_latest
from starlette.testclient import TestClient

from cep.connectors.alerts import outbox_tables
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.receivers import http_post
from cep.connectors.receivers.document import Publisher, document
from cep.connectors.receivers.metrics import AlertMetrics
from cep.connectors.receivers.senders import sending, targets
from cep.connectors.receivers.sse import Stream
from cep.connectors.serving.feeds import router
from cep.core import checksum
from cep.core.errors import CepError
from tests.alert_server import expected
from tests.damage import cut, flipped
from tests.ports import free_port
from tests.receiver import receiver
from tests.waiting import Received, pause, until

ROOT = Path(__file__).parent.parent


def process(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def said_by(running: subprocess.Popen[str], line: str) -> None:
    assert running.stdout is not None
    for said in running.stdout:
        if said.strip() == line:
            return
    raise AssertionError(f"it ended before it said `{line}`")


@pytest.mark.long
def test_receiver_and_server_are_killed_at_random_moments(tmp_path: Path) -> None:
    chance = random.Random(20130209)
    port, taken, state = free_port(), tmp_path / "taken", tmp_path / "alerts.sqlite"
    feed = f"cloudevents+http://127.0.0.1:{port}/hook?a=1#private=yes"
    listening = process("tests.receiver", str(port), str(taken), "0")
    for attempt in range(2):
        server = process("tests.alert_server", str(state), feed)
        said_by(server, "runs")
        for _ in range(2):  # while the server runs the receiver goes and comes
            pause(chance.uniform(0.05, 0.4))
            listening.kill()
            listening.wait()
            pause(chance.uniform(0, 0.2))
            listening = process("tests.receiver", str(port), str(taken), str(attempt))
        pause(chance.uniform(0, 0.5))
        server.kill()
        server.wait()
    server = process("tests.alert_server", str(state), feed)
    said_by(server, "done")
    listening.kill()
    assert server.wait() == 0 and listening.wait() < 0

    whole = expected()
    lines = [line.split("\t") for line in taken.read_text().splitlines()]
    assert {(path, kind) for path, _, kind, _ in lines} == {
        ("/hook?a=1", "application/cloudevents+json; charset=utf-8")
    }
    first = list({key: json.loads(body) for _, key, _, body in lines}.values())
    assert len(lines) > len(first), "some came twice, under one key"
    for alert in {change.alert for change in whole}:
        life = [event["data"] for event in first if event["subject"] == alert]
        assert life == [document(change) for change in whole if change.alert == alert], "each in its order"
    assert len(first) == len(whole)
    assert {event["type"] for event in first} == {
        f"semcep.alert.{state}" for state in ("firing", "updated", "resolved")
    }
    outbox = Outbox(state)
    assert [entry.change for entry in outbox.after(0, 10_000)] == whole
    assert [(one.waiting, one.dead) for one in outbox.statuses()] == [(0, 0)]
    outbox.close()


def test_flipped_bits_of_an_outbox(tmp_path: Path) -> None:
    """It is refused, or all that it holds is what was written; so is one of which a part is missing, or of another."""
    path = tmp_path / "alerts.db"
    with closing(Outbox(path)) as outbox:
        outbox.begin({"wind": "one"})
        for change in expected():
            outbox.add([change], {"one": change.time})
        outbox.receiver("x", start=True)
        outbox.reject("x", 3, "no")
        outbox.acknowledge("x", 5)

    def held() -> list[object]:
        with closing(Outbox(path)) as outbox:
            live, reached = outbox.begin({"wind": "one"})
            return [outbox.after(0), outbox.dead("x"), outbox.statuses(), outbox.live(), live, reached, outbox.id]

    whole, wanted, reported = path.read_bytes(), held(), 0
    for place, damaged in [*flipped(whole, 150, random.Random(1)), *enumerate(cut(whole, random.Random(2)))]:
        path.write_bytes(damaged)
        path.with_name("alerts.db-wal").unlink(missing_ok=True)
        if not damaged:
            continue  # as if there had been none
        try:
            assert held() == wanted, place
        except CepError as error:
            assert str(path) in error.message and error.code == "outbox" and "locked" not in error.message, place
            reported += 1
    assert reported > 50, "the rest is room that holds nothing"


def test_old_changes_are_verified_after_the_outbox_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest, and those of open alerts, before; what is damaged among the rest is reported, and to who reads it."""
    path, whole = tmp_path / "alerts.db", expected()
    monkeypatch.setattr(outbox_tables, "NEWEST", 10)
    monkeypatch.setattr("cep.connectors.alerts.outbox._VERIFIED", 7)
    with closing(Outbox(path)) as outbox:
        outbox.add(whole, {"p": 0})
        (opened,) = outbox._sqlite.execute("select min(number) from live").fetchone() or (None,)
    reported: list[str] = []
    for number in range(1, len(whole) + 1):
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            base.execute("update changes set came = came + 1 where number = ?", (number,))
        if number > len(whole) - 10 or number == opened:
            with pytest.raises(CepError, match=f"the outbox is damaged: in changes, at {number}"):
                Outbox(path)
        else:
            with closing(Outbox(path)) as outbox:
                outbox.verify(lambda error: reported.append(error.message))
                assert reported and reported.pop().endswith(f"the outbox is damaged: in changes, at {number}")
                with pytest.raises(CepError, match=f"at {number}"):
                    outbox.between(number, number)
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            base.execute("update changes set came = came - 1 where number = ?", (number,))
    with closing(Outbox(path)) as outbox:
        outbox.verify(lambda error: reported.append(error.message))
        assert reported == [] and [entry.change for entry in outbox.after(0)] == whole
    values = (1, 'a"ä\\\n\x00\x1f\x7f\ud800\U0001f300', None, -(2**60), "")
    told_as = json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert outbox_tables.row_hash(*values) == checksum.digest(told_as), "as the version before has written it"


def test_what_is_refused_is_a_dead_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many answers; one that is not there is waited for. What was before it was known, it is not reported.

    A receiver in trouble is waited for as well, unless it takes what comes next and still not this one. Whoever looks
    finds what was refused, and can have it sent again.
    """
    whole = expected()[:6]
    reported: Received[tuple[str, dict[str, str]]] = Received()
    asked: Received[str] = Received()
    port, taken = free_port(), tmp_path / "taken"
    monkeypatch.setattr(http_post, "TIMEOUT", 0.3)
    outbox = Outbox(None)
    outbox.add(whole[:1], {"p": 0})
    server = receiver(port, taken, random.Random(0), 1.0)
    answers = {whole[1].id: 422, whole[3].id: 500}
    handler = server.RequestHandlerClass
    plain = handler.do_POST  # type: ignore[attr-defined]

    def fussy(self: object) -> None:
        key = self.headers["Idempotency-Key"]  # type: ignore[attr-defined]
        asked.append(key)
        if key in answers:
            self.send_error(answers[key])  # type: ignore[attr-defined]
        else:
            plain(self)

    handler.do_POST = fussy  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    feeds = [f"cloudevents+http://me:secret@127.0.0.1:{port}/in#private=yes&attempts=2"]

    def tell(name: str, text: str, /, **fields: str) -> None:
        reported.append((text, fields))

    with sending(outbox, targets(feeds), Publisher("p.cep"), tell) as (sender,):
        outbox.add(whole[1:4], {"p": 0})
        reported.at_least(1)
        thread.start()  # the connection waits in the queue of the socket until then
        asked.wait(lambda: asked.count(whole[3].id) > 2, "it is sent more often than a receiver in order may refuse it")
        assert outbox.statuses()[0].waiting == 1, "nothing comes after it, so it may be the receiver's trouble"
        outbox.add(whole[4:], {"p": 0})
        until(lambda: not outbox.statuses()[0].waiting, "all is sent")
        letters = outbox.dead(sender.name)
        assert [letter.entry.change for letter in letters] == [whole[1], whole[3]]
        assert "422" in letters[0].reason and "500" in letters[1].reason and "it accepts" in letters[1].reason
        gone = [fields for text, fields in reported if "gave up on" in text]
        assert [(one["change"], one["alert"]) for one in gone] == [(w.id, w.alert) for w in (whole[1], whole[3])]
        assert "secret" not in sender.name + str(reported) and "/in" not in sender.name
        assert not any(sender.name in text for text, _ in reported), "it is a field"

        app = FastAPI()
        app.include_router(router(outbox, Publisher("p.cep"), stream := Stream(outbox, Publisher("p.cep"))))
        client = TestClient(app)
        (standing,) = client.get("/feeds/receivers").json()
        shown = client.get(f"/{standing['letters']}").json()
        assert [(one["id"], one["reason"], one["again"]) for one in shown] == [
            (letter.entry.change.id, letter.reason, False) for letter in letters
        ]
        assert all(one["when"].startswith("20") for one in shown)
        numbers = generate_latest(AlertMetrics(outbox, stream, {"storm": 3})).decode()  # type: ignore[arg-type]
        assert f'semcep_feed_dead_letters{{receiver="{sender.name}"}} 2.0' in numbers
        assert 'semcep_alerts_unplaced_total{alert="storm"} 3.0' in numbers and "semcep_alerts_open" in numbers
        foreign = {"Origin": "http://evil.example"}
        assert client.post(f"/{standings_retry(standing)}", headers=foreign).status_code == 403
        assert client.post("/feeds/receivers/mqtt%3A%2F%2Fnobody/dead/retry").status_code == 404
        assert client.get("/feeds/receivers/mqtt%3A%2F%2Fnobody/dead").status_code == 404
        shut = FastAPI()
        shut.include_router(router(outbox, Publisher("p.cep"), stream, may_send=False))
        assert TestClient(shut).post(f"/{standings_retry(standing)}").status_code == 403
        del answers[whole[1].id]
        answer = client.post(f"/{standings_retry(standing)}")
        assert answer.status_code == 202 and answer.json() == {"sent": 2}
        (again,) = outbox.actions(action=["send_again"])
        assert (again.person, again.details) == ("local", {"receiver": sender.name, "letters": 2})
        until(lambda: not any(letter.again for letter in outbox.dead(sender.name)), "the dead letters are sent again")
        (left,) = outbox.dead(sender.name)
        assert left.entry.change == whole[3] and "500" in left.reason
    server.shutdown()
    server.server_close()
    keys = [line.split("\t")[1] for line in taken.read_text().splitlines()]
    first, *beside, last = dict.fromkeys(keys)
    assert (first, {*beside}, last) == (whole[2].id, {whole[4].id, whole[5].id}, whole[1].id)
    assert whole[4].slot != whole[5].slot or beside[0] == whole[4].id


def standings_retry(standing: dict[str, str]) -> str:
    return f"{standing['letters']}/retry"
