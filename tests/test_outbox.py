"""Nothing is lost, whoever is killed: every receiver gets each alert's life, complete and in order."""

from __future__ import annotations

import json
import random
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from prometheus_client import generate_latest
from starlette.testclient import TestClient

from cep.core import checksum
from cep.core.errors import CepError
from connectors.alerts import outbox_tables
from connectors.alerts.lifecycle import AlertChange
from connectors.alerts.outbox import Outbox, OutboxEntry
from connectors.feeds import http_post, senders
from connectors.feeds.document import Publisher, document
from connectors.feeds.http_post import post
from connectors.feeds.metrics import AlertMetrics
from connectors.feeds.sender import DeliveryRefused, Sender, ServerError, Unreachable
from connectors.feeds.senders import sending, targets
from connectors.feeds.sse import Stream
from connectors.serving.feeds import router
from tests.alert_server import expected
from tests.damage import cut, flipped
from tests.ports import free_port
from tests.receiver import receiver

ROOT = Path(__file__).parent.parent


def process(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def until(running: subprocess.Popen[str], line: str) -> None:
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
        until(server, "runs")
        for _ in range(2):  # while the server runs the receiver goes and comes
            threading.Event().wait(chance.uniform(0.05, 0.4))
            listening.kill()
            listening.wait()
            threading.Event().wait(chance.uniform(0, 0.2))
            listening = process("tests.receiver", str(port), str(taken), str(attempt))
        threading.Event().wait(chance.uniform(0, 0.5))
        server.kill()
        server.wait()
    server = process("tests.alert_server", str(state), feed)
    until(server, "done")
    listening.kill()
    assert server.wait() == 0 and listening.wait() < 0

    whole = expected()
    lines = [line.split("\t") for line in taken.read_text().splitlines()]
    assert {(path, kind) for path, _, kind, _ in lines} == {
        ("/hook?a=1", "application/cloudevents+json; charset=utf-8")
    }
    first = list({key: json.loads(body) for _, key, _, body in lines}.values())
    assert len(lines) > len(first), "some came twice, under one key"
    assert [event["id"] for event in first] == [change.id for change in whole]
    assert [event["data"] for event in first] == [document(change) for change in whole]
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
            assert str(path) in error.message and error.code == "outbox"
            reported += 1
    assert reported > 50, "the rest is room that holds nothing"


def test_old_changes_are_verified_after_the_outbox_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest, and those of open alerts, before; what is damaged among the rest is reported, and to who reads it."""
    path, whole = tmp_path / "alerts.db", expected()
    monkeypatch.setattr(outbox_tables, "NEWEST", 10)
    monkeypatch.setattr("connectors.alerts.outbox._VERIFIED", 7)
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
    whole, reported = expected()[:6], []
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
        if key in answers:
            self.send_error(answers[key])  # type: ignore[attr-defined]
        else:
            plain(self)

    handler.do_POST = fussy  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    feeds = [f"cloudevents+http://me:secret@127.0.0.1:{port}/in#private=yes&attempts=2"]
    all_there = threading.Event()

    def tell(name: str, text: str, /, **fields: str) -> None:
        reported.append((text, fields))

    with sending(outbox, targets(feeds), Publisher("p.cep"), tell) as (sender,):
        outbox.add(whole[1:4], {"p": 0})
        while not reported:
            all_there.wait(0.02)
        thread.start()  # the connection waits in the queue of the socket until then
        while outbox.statuses()[0].waiting != 1:
            all_there.wait(0.02)
        all_there.wait(0.5)
        assert outbox.statuses()[0].waiting == 1, "nothing comes after it, so it may be the receiver's trouble"
        outbox.add(whole[4:], {"p": 0})
        while outbox.statuses()[0].waiting:
            all_there.wait(0.02)
        letters = outbox.dead(sender.name)
        assert [letter.entry.change for letter in letters] == [whole[1], whole[3]]
        assert "422" in letters[0].reason and "500" in letters[1].reason and "the next one" in letters[1].reason
        gone = [fields for text, fields in reported if "gave up on" in text]
        assert [(one["change"], one["alert"]) for one in gone] == [(w.id, w.alert) for w in (whole[1], whole[3])]
        assert "secret" not in sender.name + str(reported) and "/in" not in sender.name
        assert not any(sender.name in text for text, _ in reported), "it is a field"

        app = FastAPI()
        app.include_router(router(outbox, Publisher("p.cep"), stream := Stream(outbox)))
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
        while any(letter.again for letter in outbox.dead(sender.name)):
            all_there.wait(0.02)
        (left,) = outbox.dead(sender.name)
        assert left.entry.change == whole[3] and "500" in left.reason
    server.shutdown()
    server.server_close()
    keys = [line.split("\t")[1] for line in taken.read_text().splitlines()]
    assert list(dict.fromkeys(keys)) == [whole[n].id for n in (2, 4, 5, 1)]


def standings_retry(standing: dict[str, str]) -> str:
    return f"{standing['letters']}/retry"


def test_whose_trouble_an_answer_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Deployments, gateways and logins pass: without an end. Only what is about the message is ever given up."""
    port = free_port()
    server = receiver(port, tmp_path / "taken", random.Random(0), 1.0)
    status = 200

    def answer(self: Any) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(status)
        self.send_header("Retry-After", "7")
        self.end_headers()

    server.RequestHandlerClass.do_POST = answer  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (aim,) = targets([f"cloudevents+http://127.0.0.1:{port}/in#private=yes"])
    for kind, numbers in (
        (Unreachable, (408, 425, 429, 502, 503, 504)),
        (ServerError, (302, 401, 403, 404, 405, 410, 500, 501, 507, 599)),
        (DeliveryRefused, (400, 406, 409, 411, 413, 414, 415, 418, 422, 431, 451)),
    ):
        for status in numbers:
            with pytest.raises((Unreachable, DeliveryRefused)) as caught:
                post(aim, "/in", b"{}", {})
            assert type(caught.value) is kind and str(status) in str(caught.value)
            assert kind is DeliveryRefused or caught.value.wait == 7  # type: ignore[union-attr]
    server.shutdown()
    server.server_close()
    waits, pause = 0.0, 0.1
    for _ in range(aim.attempts - 1):
        waits, pause = waits + pause, min(2 * pause, 60)
    assert waits >= 600, "what is refused is tried for ten minutes"


def test_senders_stop_together() -> None:
    """One deadline for all: five receivers that take their time take no longer than one."""
    begun, goes_on = [threading.Event() for _ in range(5)], threading.Event()

    class Slow:
        most = 1

        def __init__(self, began: threading.Event) -> None:
            self.began = began

        def give(self, entries: Sequence[OutboxEntry]) -> None:
            self.began.set()
            goes_on.wait()

        def rest(self, outbox: Outbox) -> None:
            outbox.live()

        def close(self) -> None:
            assert goes_on.is_set()

    with closing(Outbox(None)) as outbox, pytest.MonkeyPatch.context() as patched:
        slow = iter(begun)
        patched.setattr(senders, "delivery", lambda *given: Slow(next(slow)))
        patched.setattr(senders, "CLOSING_TIMEOUT", 0.05)
        with sending(outbox, targets([f"mqtt://h/{n}" for n in range(5)]), Publisher("p.cep"), print) as found:
            outbox.add(expected()[:1], {"p": 0})
            for one in begun:
                one.wait()
            threads = [one._thread for one in found]
        assert all(thread.is_alive() for thread in threads), "nobody waited for the end"
        goes_on.set()
        for thread in threads:
            thread.join()


def test_a_receiver_that_is_still_at_it_when_all_is_closed(tmp_path: Path) -> None:
    """What it was given and what it takes from then on is not noted: it is sent again after the next start."""
    begun, goes_on = threading.Event(), threading.Event()
    given: list[int] = []

    class Slow:
        most = 1

        def give(self, entries: Sequence[OutboxEntry]) -> None:
            begun.set()
            goes_on.wait()
            given.extend(entry.number for entry in entries)

        def rest(self, outbox: Outbox) -> None:
            outbox.live()

        def close(self) -> None:
            given.append(0)

    outbox = Outbox(tmp_path / "alerts.db")
    sender = Sender(outbox, "slow", Slow(), lambda name, text, **more: given.append(-1), start=True)
    outbox.add(expected()[:2], {"p": 0})
    sender.start()
    begun.wait()
    sender.stop(0)
    outbox.close()
    goes_on.set()
    sender.stop()
    assert given == [1, 0], "it ends, and complains of nothing"
    with closing(Outbox(tmp_path / "alerts.db")) as again:
        assert again.receiver("slow") == 0


def test_a_webhook_is_asked_first_whether_it_wants_to_be_told(tmp_path: Path) -> None:
    port, taken = free_port(), tmp_path / "taken"
    server = receiver(port, taken, random.Random(0), 1.0)
    asked: list[str] = []
    answers = iter([{}, {"WebHook-Allowed-Origin": "other.example"}, {"WebHook-Allowed-Origin": "ALERTS.example"}])

    def options(self: Any) -> None:
        asked.append(self.headers["WebHook-Request-Origin"])
        assert not taken.exists(), "nothing is sent before it may be"
        self.send_response(200)
        for name, value in next(answers).items():
            self.send_header(name, value)
        self.end_headers()

    server.RequestHandlerClass.do_OPTIONS = options  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    feed = f"cloudevents+http://127.0.0.1:{port}/in#private=yes&origin=alerts.example&attempts=1"
    reported: list[str] = []
    with closing(Outbox(None)) as outbox:
        with sending(outbox, targets([feed]), Publisher("p.cep"), lambda name, text, **more: reported.append(text)):
            outbox.add(expected()[:3], {"p": 0})
            while outbox.statuses()[0].waiting:
                outbox.wait(outbox.last, 0.02)
        assert outbox.statuses()[0].dead == 0
    server.shutdown()
    server.server_close()
    assert asked == ["alerts.example"] * 3 and len(taken.read_text().splitlines()) == 3
    assert "may not send" in reported[0] and reported[-1] == "answers again"


def test_a_disk_that_is_full_while_alerts_are_sent(tmp_path: Path) -> None:
    """It is reported, and when there is room the receiver has had each change once; what it refuses is noted, too."""
    whole, pause = expected()[:9], threading.Event()
    path = tmp_path / "alerts.db"
    given: list[str] = []
    reported: list[tuple[str, dict[str, str]]] = []

    class Fussy:
        most = 2

        def give(self, entries: Sequence[OutboxEntry]) -> None:
            if any(entry.change == whole[4] for entry in entries):
                raise DeliveryRefused("not this one")
            given.extend(entry.change.id for entry in entries)

        def again(self, entry: OutboxEntry, now: AlertChange) -> None:
            raise AssertionError("nobody has asked for it")

        def rest(self, outbox: Outbox) -> None:
            outbox.live()

        def close(self) -> None:
            reported.append(("closed", {}))

    def heard(number: int) -> None:
        for _ in range(1000):
            if len(reported) >= number:
                return
            pause.wait(0.02)
        raise AssertionError(reported)

    def full() -> None:
        """The log of the database, in which all is written first, may grow no more."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name("alerts.db-wal").stat().st_size, hard))

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(Outbox(path)) as outbox:
        one = Sender(outbox, "x", Fussy(), lambda name, text, /, **more: reported.append((text, more)), attempts=1)  # type: ignore[arg-type]
        outbox.add(whole, {"p": 0})
        try:
            full()
            one.start()
            heard(1)
            pause.wait(0.3)
            assert given == [change.id for change in whole[:2]], "nothing more is sent"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        while outbox.statuses()[0].waiting:
            pause.wait(0.02)
        heard(3)
        one.stop()
    texts = [text for text, _ in reported]
    assert "cannot be noted" in texts[0] and "alerts cannot be written" in texts[0], texts
    assert texts[1] == "the outbox works again" and "not this one" in texts[2] and texts[-1] == "closed"
    assert given == [change.id for change in whole if change != whole[4]], "each once"
    with closing(Outbox(path)) as outbox:
        assert [letter.entry.change for letter in outbox.dead("x")] == [whole[4]]
        assert outbox.receiver("x") == len(whole), "nothing is sent again after the next start"
