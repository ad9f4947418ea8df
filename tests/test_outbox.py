"""Nothing is lost, whoever is killed: every receiver gets each alert's life, complete and in order."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import threading
from pathlib import Path

from connectors.alerts.outbox import Outbox
from connectors.feeds.document import Origin, document
from connectors.feeds.senders import sending, targets
from tests.alert_server import expected
from tests.receiver import receiver

ROOT = Path(__file__).parent.parent


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def process(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def until(running: subprocess.Popen[str], line: str) -> None:
    assert running.stdout is not None
    for said in running.stdout:
        if said.strip() == line:
            return
    raise AssertionError(f"it ended before it said `{line}`")


def test_receiver_and_server_are_killed_at_random_moments(tmp_path: Path) -> None:
    chance = random.Random(20130209)
    port, taken, state = free_port(), tmp_path / "taken", tmp_path / "alerts.sqlite"
    feed = f"cloudevents+http://127.0.0.1:{port}/hook?a=1#private=yes&attempts=1000"
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
    assert [(one.waiting, one.dead) for one in outbox.standings()] == [(0, 0)]
    outbox.close()


def test_what_is_refused_is_a_dead_letter(tmp_path: Path) -> None:
    """After so many answers; one that is not there is waited for. What was before it was known, it is not told."""
    whole, told = expected()[:4], []
    port, taken = free_port(), tmp_path / "taken"
    outbox = Outbox(None)
    outbox.add(whole[:1], "p", 0)
    server = receiver(port, taken, random.Random(0), 1.0)
    answers = {whole[1].id: 404}
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

    def tell(name: str, text: str) -> None:
        told.append(text)

    with sending(outbox, targets(feeds), Origin("p.cep"), tell) as (sender,):
        outbox.add(whole[1:], "p", 0)
        while not told:
            all_there.wait(0.05)
        thread.start()  # the connection waits in the queue of the socket until then
        while outbox.standings()[0].waiting:
            all_there.wait(0.05)
    server.shutdown()
    server.server_close()
    keys = [line.split("\t")[1] for line in taken.read_text().splitlines()]
    assert list(dict.fromkeys(keys)) == [change.id for change in whole[2:]]
    ((entry, reason),) = outbox.dead(sender.name)
    assert entry.change == whole[1] and "404" in reason and "secret" not in sender.name + "".join(told)
    assert any("gave up on" in text for text in told) and "/in" not in sender.name
