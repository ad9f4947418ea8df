"""Those who send alerts: what is tried again, how they stop together, and a disk that is full."""

from __future__ import annotations

import random
import resource
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.receivers import senders
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.http_post import HttpConnections
from cep.connectors.receivers.sender import DeliveryRefused, Sender, ServerError, Unreachable
from cep.connectors.receivers.senders import sending, targets
from tests.alert_server import expected
from tests.ports import free_port
from tests.receiver import receiver
from tests.waiting import PATIENCE, Received, pause, until


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
                HttpConnections(aim).post("/in", b"{}", {})
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
        most, lanes, states = 1, 1, False

        def key(self, entry: OutboxEntry) -> str:
            return entry.change.slot

        def again(self, entry: OutboxEntry, now: AlertChange) -> None:
            raise AssertionError("nobody has asked for it")

        def __init__(self, began: threading.Event) -> None:
            self.began = began

        def give(self, entries: Sequence[OutboxEntry]) -> None:
            self.began.set()
            goes_on.wait(PATIENCE)

        def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
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
                assert one.wait(PATIENCE), "it is given something"
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
        most, lanes, states = 1, 1, False

        def key(self, entry: OutboxEntry) -> str:
            return entry.change.slot

        def again(self, entry: OutboxEntry, now: AlertChange) -> None:
            raise AssertionError("nobody has asked for it")

        def give(self, entries: Sequence[OutboxEntry]) -> None:
            begun.set()
            goes_on.wait(PATIENCE)
            given.extend(entry.number for entry in entries)

        def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
            outbox.live()

        def close(self) -> None:
            given.append(0)

    outbox = Outbox(tmp_path / "alerts.db")
    sender = Sender(outbox, "slow", Slow(), lambda name, text, **more: given.append(-1), start=True)
    outbox.add(expected()[:2], {"p": 0})
    sender.start()
    assert begun.wait(PATIENCE), "it is given something"
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
            until(lambda: not outbox.statuses()[0].waiting, "all is sent")
        assert outbox.statuses()[0].dead == 0
    server.shutdown()
    server.server_close()
    assert asked == ["alerts.example"] * 3 and len(taken.read_text().splitlines()) == 3
    assert "may not send" in reported[0] and reported[-1] == "answers again"


def test_a_disk_that_is_full_while_alerts_are_sent(tmp_path: Path) -> None:
    """It is reported, and when there is room the receiver has had each change once; what it refuses is noted, too."""
    whole = expected()[:9]
    path = tmp_path / "alerts.db"
    given: list[str] = []
    reported: Received[tuple[str, dict[str, str]]] = Received()

    class Fussy:
        most, lanes, states = 2, 1, False

        def key(self, entry: OutboxEntry) -> str:
            return ""

        def give(self, entries: Sequence[OutboxEntry]) -> None:
            if any(entry.change == whole[4] for entry in entries):
                raise DeliveryRefused("not this one")
            given.extend(entry.change.id for entry in entries)

        def again(self, entry: OutboxEntry, now: AlertChange) -> None:
            raise AssertionError("nobody has asked for it")

        def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
            outbox.live()

        def close(self) -> None:
            reported.append(("closed", {}))

    def full() -> None:
        """The log of the database, in which all is written first, may grow no more."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name("alerts.db-wal").stat().st_size, hard))

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(Outbox(path)) as outbox:
        one = Sender(outbox, "x", Fussy(), lambda name, text, /, **more: reported.append((text, more)), attempts=1)
        outbox.add(whole, {"p": 0})
        try:
            full()
            one.start()
            reported.at_least(1)
            pause(0.3)  # in which it could send more
            assert given == [change.id for change in whole[:4]], "what was begun meanwhile, and nothing more"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        until(lambda: not outbox.statuses()[0].waiting, "all is sent")
        reported.at_least(3)
        one.stop()
    texts = [text for text, _ in reported]
    assert "cannot be stored" in texts[0] and "alerts cannot be written" in texts[0], texts
    assert texts[1] == "the outbox works again" and "not this one" in texts[2] and texts[-1] == "closed"
    assert given == [change.id for change in whole if change != whole[4]], "each once"
    with closing(Outbox(path)) as outbox:
        assert [letter.entry.change for letter in outbox.dead("x")] == [whole[4]]
        assert outbox.receiver("x") == len(whole), "nothing is sent again after the next start"
