"""Webhooks: alerts side by side, each in its order, by connections that are kept; signatures; and an Alertmanager that
is told, after trouble, how it is and not how it was."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.receivers import sender
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.position import Position
from cep.connectors.receivers.senders import sending, targets
from cep.connectors.receivers.targets import target
from cep.connectors.receivers.webhooks import signed
from cep.core.errors import CepError
from tests.alert_server import expected
from tests.long import seeds
from tests.waiting import PATIENCE, until

ORIGIN = Publisher("p.cep")


@contextmanager
def listening(answer: Callable[[BaseHTTPRequestHandler, bytes], int]) -> Iterator[tuple[str, Counter[int]]]:
    """A receiver that keeps connections: `answer` gives the status of a request, 0: the connection is closed without
    one. Its address, and how many requests came by each connection."""
    used: Counter[int] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            used[self.client_address[1]] += 1
            status = answer(self, self.rfile.read(int(self.headers["Content-Length"])))
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """In silence."""

    class Server(ThreadingHTTPServer):
        daemon_threads, request_queue_size = True, 100

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", used
    finally:
        server.shutdown()
        server.server_close()


def lives(count: int, length: int) -> list[AlertChange]:
    """So many alerts, which change by turns."""
    first = expected()[0]
    return [
        replace(first, alert=f"{alert:032x}", slot=f"slot {alert}", revision=revision, state=state)
        for revision, state in enumerate(["firing", *["updated"] * (length - 2), "resolved"])
        for alert in range(count)
    ]


def quiet(name: str, text: str, /, **more: str) -> None:
    """Nobody is told."""


def test_alerts_go_side_by_side_by_connections_that_are_kept() -> None:
    """A change that is not answered holds up those of its own alert alone."""
    held, taken, lock = threading.Event(), defaultdict(list), threading.Lock()

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> int:
        data = json.loads(body)["data"]
        if int(data["alert"], 16) == 3 and data["revision"] == 1:
            held.wait(PATIENCE)
        with lock:
            taken[data["alert"]].append(data["revision"])
        return 204

    whole = lives(40, 5)
    with listening(answer) as (address, used), closing(Outbox(None)) as outbox:
        feeds = targets([f"cloudevents+{address}/in#private=yes&parallel=8"])
        with sending(outbox, feeds, ORIGIN, quiet):
            outbox.add(whole, {"p": 0})
            until(lambda: sum(map(len, taken.values())) == len(whole) - 4, "the others are there")
            assert taken[f"{3:032x}"] == [0], "what follows waits"
            until(lambda: outbox.statuses()[0].waiting == 4, "what has come is noted")
            held.set()
            until(lambda: not outbox.statuses()[0].waiting, "all is there")
        assert outbox.ahead(feeds[0].name) == []
    assert all(revisions == [0, 1, 2, 3, 4] for revisions in taken.values())
    assert 1 < len(used) <= 8 and used.total() == len(whole)


def test_a_receiver_that_hangs_or_is_down_holds_up_itself_alone() -> None:
    """One that is down is asked with one change at a time, until it answers; then all comes, in order."""
    hanging, down, asked = threading.Event(), True, 0
    whole = lives(30, 4)
    got: dict[str, list[str]] = {"/fast": [], "/hangs": [], "/down": []}

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> int:
        nonlocal asked
        if request.path == "/hangs":
            hanging.wait(PATIENCE)
        if request.path == "/down":
            asked += 1
            if down:
                return 503
        got[request.path].append(json.loads(body)["id"])
        return 204

    with listening(answer) as (address, _), closing(Outbox(None)) as outbox:
        feeds = targets([f"cloudevents+{address}{path}#private=yes&parallel=16" for path in got])
        with sending(outbox, feeds, ORIGIN, quiet):
            outbox.add(whole, {"p": 0})
            until(lambda: len(got["/fast"]) == len(whole), "the one that answers has all")
            before = asked
            until(lambda: asked >= before + 3, "the one that is down is asked again")
            assert asked <= 16 + 12, "those that were under way, then one at a time, after longer and longer"
            down = False
            hanging.set()
            until(lambda: not any(one.waiting for one in outbox.statuses()), "all is there")
    for ids in got.values():
        assert sorted(ids) == sorted(change.id for change in whole)
        for alert in {change.alert for change in whole}:
            mine = [id for id in ids if id.startswith(alert)]
            assert mine == [f"{alert}-{revision}" for revision in range(4)]


def test_what_a_receiver_has_beyond_the_first_that_waits_is_not_sent_again(tmp_path: Path) -> None:
    whole, path = lives(5, 3), tmp_path / "alerts.db"
    taken: list[tuple[str, int]] = []
    refused: list[str] = [f"{1:032x}"]

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> int:
        data = json.loads(body)["data"]
        if data["alert"] in refused:
            return 400
        taken.append((data["alert"], data["revision"]))
        return 200

    with listening(answer) as (address, _):
        feeds = targets([f"cloudevents+{address}#private=yes&from=start"])
        for _ in range(2):
            with closing(Outbox(path)) as outbox:
                with sending(outbox, feeds, ORIGIN, quiet):
                    if not outbox.last:
                        outbox.add(whole, {"p": 0})
                    until(lambda: outbox.statuses()[0].waiting == (3 if refused else 0), "all but what is refused")
                assert outbox.statuses()[0].cursor == (1 if refused else len(whole))
            refused.clear()
    assert sorted(taken) == sorted((change.alert, change.revision) for change in whole), "each once"
    assert [revision for alert, revision in taken if alert == f"{1:032x}"] == [0, 1, 2]


@pytest.mark.parametrize("seed", seeds(40))
def test_a_position_is_what_was_done(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However entries are done, and whenever it is noted and begun anew from that; what is not noted comes again."""
    chance, few = random.Random(seed), seed % 2
    monkeypatch.setattr("cep.connectors.receivers.position.MOST", 3 if few else 1000)
    numbers = sorted(chance.sample(range(1, 200), 80))
    done: set[int] = set()
    position, start = Position(0), 0
    while len(done) < len(numbers):
        some = numbers[start : start + chance.randint(1, len(numbers))]
        waiting = [number for number in some if position.take(number)]
        taken = some[-1] if some else position.cursor
        assert waiting == [number for number in some if number not in done]
        for number in chance.sample(waiting, chance.randint(0, len(waiting))):
            position.done(number)
            done.add(number)
            missing = min((each for each in numbers if each not in done), default=numbers[-1] + 1)
            assert position.cursor == missing - 1 if missing <= taken else position.cursor == taken
        ahead = position.ahead()
        assert all(low <= high for low, high in ahead) and ahead == sorted(ahead)
        inside = {number for number in numbers for low, high in ahead if low <= number <= high}
        beyond = {number for number in done if number > position.cursor}
        assert inside == beyond or (few and len(ahead) <= 3 and inside < beyond)
        done -= beyond - inside
        position = Position(position.cursor, ahead)
        start = next((at for at, number in enumerate(numbers) if number > position.cursor), len(numbers))


def test_a_connection_that_the_receiver_has_closed_is_no_trouble() -> None:
    reported: list[str] = []
    answers = iter([200, 0, 200, 200])
    taken: list[str] = []

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> int:
        taken.append(json.loads(body)["id"])
        return next(answers)

    whole = lives(1, 3)

    def report(name: str, text: str, /, **more: str) -> None:
        reported.append(text)

    with listening(answer) as (address, used), closing(Outbox(None)) as outbox:
        feeds = targets([f"cloudevents+{address}#private=yes"])
        with sending(outbox, feeds, ORIGIN, report):
            outbox.add(whole, {"p": 0})
            until(lambda: not outbox.statuses()[0].waiting, "all is there")
    assert taken == [whole[0].id, whole[1].id, whole[1].id, whole[2].id] and not reported
    assert sorted(used.values()) == [2, 2]


def test_a_reminder_is_told_apart_from_what_comes_twice() -> None:
    """It has the id of its change and a number; the key is that of the reminder, the same when it comes twice."""
    taken: list[tuple[str, int, int | None, str]] = []
    answers = iter([204, 503, 204, 503, 204])

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> int:
        event = json.loads(body)
        assert request.headers["webhook-id"] == request.headers["Idempotency-Key"]
        taken.append((event["id"], event["data"]["reminder"], event.get("reminder"), request.headers["webhook-id"]))
        return next(answers, 204)

    change = replace(lives(1, 3)[0], repeat=1_000_000)
    with listening(answer) as (address, _), closing(Outbox(None)) as outbox:
        aim = target(f"cloudevents+{address}#private=yes", {"SEMCEP_CLOUDEVENTS_SECRET": f"whsec_{'A' * 32}"})
        with sending(outbox, [aim], ORIGIN, quiet):
            outbox.add([change], {"p": 0})
            until(lambda: len(taken) >= 5, "it is sent, and twice a reminder that comes twice")
    first, second, again, third, fourth = taken[:5]
    assert first == (change.id, 0, None, change.id)
    assert second == again and third == fourth and 0 < second[1] < third[1]
    for each in (second, third):
        assert each == (change.id, each[1], each[1], f"{change.id}.{each[1]}")


def test_signatures_are_those_of_standard_webhooks() -> None:
    """The example of its libraries; then what a receiver gets, with two secrets while one replaces the other."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    environment = {"SEMCEP_CLOUDEVENTS_SECRET": f"{secret}  whsec_{'A' * 32}"}
    aim = target("cloudevents+https://e.org/in", environment)
    headers = signed(aim.secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    first, second = headers.pop("webhook-signature").split()
    assert first == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" and second.startswith("v1,")
    assert headers == {"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330"}
    got: list[bool] = []

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> int:
        id, second = request.headers["webhook-id"], int(request.headers["webhook-timestamp"])
        assert id == request.headers["Idempotency-Key"] == json.loads(body)["id"]
        got.append(request.headers["webhook-signature"] == signed(aim.secrets, id, second, body)["webhook-signature"])
        return 204

    with listening(answer) as (address, _), closing(Outbox(None)) as outbox:
        feed = target(f"cloudevents+{address}#private=yes", environment)
        with sending(outbox, [feed], ORIGIN, quiet):
            outbox.add(expected()[:3], {"p": 0})
            until(lambda: not outbox.statuses()[0].waiting, "all is there")
    assert got == [True] * 3
    assert target("alertmanager+http://localhost:9093", environment).secrets == ()
    for wrong in ("secret", "whsec_", "whsec_c2hvcnQ=", "whsec_*" + "A" * 40, "A" * 32, f"whsec_{'A' * 88}"):
        with pytest.raises(CepError, match="SEMCEP_CLOUDEVENTS_SECRET") as caught:
            target("cloudevents+https://e.org/in", {"SEMCEP_CLOUDEVENTS_SECRET": wrong})
        assert wrong not in str(caught.value) or wrong in ("secret", "whsec_")


@pytest.mark.parametrize("seed", seeds(12))
def test_after_trouble_an_alertmanager_is_sent_how_it_is(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alert that was told to be over is never opened again, though the receiver takes some changes without an answer
    and the server restarts. In the end the receiver knows the open alerts."""
    monkeypatch.setattr(sender, "_FIRST_WAIT", 0.005)
    monkeypatch.setattr(sender, "_LONGEST_WAIT", 0.02)
    chance, lock = random.Random(seed), threading.Lock()
    told: list[Sequence[dict[str, Any]]] = []
    calm = threading.Event()

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> int:
        with lock:
            mood = 1.0 if calm.is_set() else chance.random()
            if mood > 0.25:
                told.append(json.loads(body))
            return 0 if mood < 0.5 else 503 if mood < 0.6 else 200

    path, numbers = tmp_path / "alerts.db", iter(range(1000))
    slots = {f"k{number}": 0 for number in range(6)}
    first = expected()[0]

    def changes() -> list[AlertChange]:
        """Some of them open, change, and end; the next of a slot is another alert."""
        made = []
        for slot in chance.choices(list(slots), k=chance.randint(1, 12)):
            state = "firing" if not slots[slot] else chance.choice(["updated", "resolved"])
            alert = next(numbers) + 1 if state == "firing" else slots[slot]
            slots[slot] = 0 if state == "resolved" else alert
            key, name = {"k": slot}, f"{alert:032x}"
            revision = sum(change.alert == name for change in [*whole, *made])
            made.append(replace(first, alert=name, slot=slot, key=key, revision=revision, state=state))  # type: ignore[arg-type]
        return made

    whole: list[AlertChange] = []
    with listening(answer) as (address, _):
        for start in range(3):
            with closing(Outbox(path)) as outbox:
                feeds = targets([f"alertmanager+{address}#from=start&every=1000"])
                with sending(outbox, feeds, ORIGIN, quiet) as (one,):
                    for _ in range(8):
                        some = changes()
                        whole += some
                        outbox.add(some, {"p": 0})
                        until(lambda: chance.random() < 0.3 or not outbox.statuses()[0].waiting, "some is sent")
                    if start == 2:
                        calm.set()
                        until(lambda: not outbox.statuses()[0].waiting, "all is there")
                assert one.position.cursor == outbox.last or start < 2
                live = {entry.change.alert for entry in outbox.live()}
    order = {change.id: at for at, change in enumerate(whole)}
    assert len(order) == len(whole)
    over: set[str] = set()
    known: dict[str, tuple[str, bool]] = {}
    for alert in (each for body in told for each in body):
        name, ended = alert["annotations"]["alert"], _past(alert)
        assert ended or name not in over, "it is opened once more"
        over |= {name} if ended else set()
        known[alert["labels"]["k"]] = name, ended
    assert {name for name, ended in known.values() if not ended} == live


def _past(alert: dict[str, Any]) -> bool:
    """It ends now, by the time it was sent; what is open ends in hours."""
    return datetime.fromisoformat(alert["endsAt"]) < datetime.now(UTC) + timedelta(minutes=30)
