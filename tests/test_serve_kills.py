"""`cep serve` killed at random moments, with live input: nothing that came is lost, and whoever follows the alerts has
each one's life, complete and in order.

`SEMCEP_KILLS=50` kills so often.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from lxml import etree

from cep.connectors.addresses import address
from cep.connectors.alerts.lifecycle import AlertChange, AlertLifecycle
from cep.connectors.brokers.mqtt import Subscription
from cep.connectors.receivers.document import document
from cep.engine import Engine
from cep.events import Event
from tests import brokers
from tests.alert_feeds import by_key
from tests.brokers import mosquitto, publish
from tests.consumers import Reader, Stream, subscribed
from tests.receiver import receiver
from tests.reference_alerts import Change, Reading, Simple, Statement, intervals, of_event, of_fluent, patterns
from tests.serving import EIGHT
from tests.test_serve import PAIRS, Server
from tests.told_alerts import Told
from tests.waiting import pause, until

KILLS = int(os.environ.get("SEMCEP_KILLS", "2"))
PROGRAM = """
event reading(fridge: string, temp: float) TIME time.
rising(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE B > A WITHIN 9 s.
policy recent.
ALERT hot ON rising(f: F, b: B) WHERE B > 6 SEVERITY "Severe" TITLE "{F} at {B}" FOR 20 s KEYED BY F.
ALERT warm ON rising(f: F, b: B) TITLE "{F}" FOR 2 s KEYED BY F.
fluent state(f: string) = w: string.
initiate state(F) = "hot" <- reading(F, T) WHERE T > 7.
initiate state(F) = "mild" <- reading(F, T) WHERE T > 3, T <= 7.
terminate state(F) = _ <- reading(F, T) WHERE T < 1.
ALERT state ON state(F) = W SEVERITY "Minor" TITLE "{F} is {W}" FOR 4 s KEYED BY F.
"""
RULES = """
event reading(fridge: string, temp: float) TIME time.
rising(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE B > A WITHIN 9 s.
policy recent.
"""
DAY = 86_400_000_000
UNIT = 100_000
"""Microseconds of one time of the oracle (`reference_alerts`)."""
RISING = ("f", "a", "b")
STATEMENTS = [
    Statement("hot", "rising", RISING, lambda args: args[2] > 6, (0,), 200, "Severe", "{0} at {2}", ""),
    Statement("warm", "rising", RISING, lambda args: True, (0,), 20, "Unknown", "{0}", ""),
    Statement("state", "state", ("f", "w"), lambda args: True, (0,), 40, "Minor", "{0} is {1}", ""),
]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def children(process: int) -> list[int]:
    """The processes that one has begun; where the system does not say so, none."""
    place = Path(f"/proc/{process}/task")
    return [int(one) for file in place.glob("*/children") for one in file.read_text().split()]


def begin_and_kill(arguments: list[str], seconds: float) -> None:
    """A server that is killed at its beginning."""
    command = [sys.executable, "-m", "cep", "serve", *arguments, "--port", "0"]
    begun = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    pause(seconds)
    begun.kill()
    begun.wait()


def expected(readings: list[tuple[int, str, float]]) -> list[AlertChange]:
    """What a run over readings tells that nothing interrupts."""
    engine = Engine.from_text(PROGRAM, alerts=True)
    schemas = {table: engine.plan.schemas[table] for alert in engine.alerts for table in alert.tables}
    lives = AlertLifecycle(engine.alerts, schemas, engine.inputs, engine.meanings())
    events = [Event("reading", (fridge, temp), EIGHT + at, EIGHT + at) for at, fridge, temp in readings]
    return lives.take(engine.push(events), engine.watermark)


def by_brute_force(readings: list[tuple[int, str, float]]) -> list[Change]:
    """The same by the oracle."""
    records = [Reading("reading", (fridge, temp), at // UNIT) for at, fridge, temp in readings]
    until = records[-1].time - 1
    state = Simple(_states, lambda one: [(one.args[0], None)] if one.args[1] < 1 else [], valued=True)
    holds = intervals(state.codes(records, until), until)
    rising = [each for each in patterns(RULES, records, UNIT) if each.end <= until * UNIT]
    found = [change for each in STATEMENTS[:2] for change in of_event(each, rising, UNIT, until)]
    return found + of_fluent(STATEMENTS[2], holds, until)


def _states(one: Reading) -> list[tuple[str, str]]:
    fridge, temp = one.args
    return [(fridge, "hot" if temp > 7 else "mild")] if temp > 3 else []


@pytest.mark.long
@pytest.mark.skipif(brokers.MOSQUITTO is None, reason=brokers.MISSING)
def test_every_consumer_has_every_life(tmp_path: Path) -> None:
    """Messages of a broker in; a stream of events, Atom with CAP, topics of a broker, and posts to who fails at random
    out."""
    chance = random.Random(KILLS)
    readings = [(n * 700_000, f"f{chance.randrange(7)}", float(chance.randrange(10))) for n in range(300 + 30 * KILLS)]
    last = readings[-1][0] + 7 * 10**5
    readings += [(last, f"f{number}", 0.0) for number in range(7)]
    readings += [(last + 10**8, "end", 0.0), (last + 2 * 10**8, "end", 0.0)]
    whole = expected(readings)
    lives = by_brute_force(readings)
    assert {change.state for change in whole} == {"firing", "updated", "resolved"} and len(whole) > 200
    records = [
        json.dumps({"time": (EIGHT + at) / 1e6, "fridge": fridge, "temp": temp}).encode()
        for at, fridge, temp in readings
    ]
    (tmp_path / "rules.cep").write_text(PROGRAM)
    received: list[tuple[str, bytes]] = []
    stream, reader = Stream(), Reader()
    hook = receiver(0, tmp_path / "taken", random.Random(KILLS), 0.95)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    with mosquitto(tmp_path / "broker") as port:
        place = f"mqtt://127.0.0.1:{port}/readings/#?client=roof"
        Subscription.open(address(place), "roof").close()  # from now on there is a session
        arguments = [str(tmp_path / "rules.cep"), "--state", str(tmp_path / "state"), "--idle", "never"]
        arguments += ["--input", f"reading={place}", "--rate", "0"]
        arguments += ["--feed", f"mqtt://127.0.0.1:{port}/alerts#from=start"]
        arguments += ["--feed", f"cloudevents+http://127.0.0.1:{hook.server_port}/in#private=yes&from=start"]
        cuts = [0, *sorted(chance.sample(range(1, len(records)), KILLS)), len(records)]
        for turn in range(KILLS):
            sent, beyond = cuts[turn], cuts[turn + 1]
            some = (sent + beyond) // 2
            with subscribed(port, "alerts/#", received):
                publish(port, [("readings/a", record) for record in records[sent:some]])
                if turn % 3 == 2:
                    begin_and_kill(arguments, chance.uniform(0.5, 4))
                    publish(port, [("readings/b", record) for record in records[some:beyond]])
                    continue
                server = Server(*arguments)
                stream.url = server.url
                if turn == 0:
                    stream.start()
                publish(port, [("readings/b", record) for record in records[some:beyond]])
                if turn % 3 == 1:
                    least = chance.randrange(len(whole) * sent // len(records) + 1)
                    stream.found.at_least(least)
                    reader.read(server.url)
            pause(chance.uniform(0, 0.3))
            assert server.end(signal.SIGKILL) == -signal.SIGKILL
        with subscribed(port, "alerts/#", received):
            publish(port, [("readings/a", record) for record in records[cuts[-2] :]])
            server = Server(*arguments)
            stream.url = server.url
            stream.found.at_least(len(whole))
            until(lambda: len({body for _, body in received}) > len(whole), "the subscriber has all")
            fresh = Reader()
            assert fresh.read(server.url) > 2 and fresh.read(server.url) == 1, "it goes back as far as it must"
            reader.read(server.url)
            assert list(reader.found.items()) == list(fresh.found.items()), "what was read never changes"
            receivers = f"{server.url}/feeds/receivers"
            until(lambda: not any(one["waiting"] for one in reader.get(receivers).json()), "all is reported")
            assert [one["dead"] for one in reader.get(receivers).json()] == [0, 0]
            stream.over.set()
            assert server.end(signal.SIGTERM) == 0
        stream.join()
        retained: list[tuple[str, bytes]] = []
        with brokers.listening(port, "alerts/#") as kept:
            publish(port, [("alerts/over", b"over")])
            until(lambda: bool(kept), "it comes")
            retained += [(topic, body) for topic, _, body in kept]
    hook.shutdown()
    hook.server_close()
    documents = [document(change) for change in whole]
    taken = [line.split("\t") for line in (tmp_path / "taken").read_text().splitlines()]
    posted = {key: body for _, key, _, body in taken}  # of one that broke off what came after it
    got = [json.loads(body)["data"] for body in posted.values()]
    assert by_key(got) == by_key(documents) and len(taken) > len(posted)
    follower = Told(UNIT, EIGHT)
    follower.take([one for _, one in stream.found])
    follower.check_all(lives)
    assert [number for number, _ in stream.found] == list(range(1, len(whole) + 1))
    assert [one for _, one in stream.found] == documents, "each once"
    given = [json.loads(body) for _, body in received if body]
    assert list({one["id"]: one for one in given}.values()) == documents, "each at least once, by its id"
    assert {topic for topic, _ in received} == {f"alerts/{change.name}/{change.key['f']}" for change in whole}
    assert retained == [("alerts/over", b"over")], "nothing stands there of what is over"
    assert list(reader.found) == [f"urn:semcep:alert/{change.alert}/{change.revision}" for change in whole]
    kinds = {"firing": "Alert", "updated": "Update", "resolved": "Cancel"}
    cap = {"c": "urn:oasis:names:tc:emergency:cap:1.2"}
    messages = [etree.fromstring(message) for message in reader.found.values()]
    assert [one.findtext("c:identifier", namespaces=cap) for one in messages] == [change.id for change in whole]
    assert [one.findtext("c:msgType", namespaces=cap) for one in messages] == [kinds[c.state] for c in whole]
    assert len(given) >= len(whole)


@pytest.mark.long
def test_lines_that_were_taken_are_not_lost(tmp_path: Path) -> None:
    """A connection is told of nothing, and sends nothing again: what it has brought is in the journal."""
    (tmp_path / "pairs.cep").write_text(PAIRS)
    whole, count, kills = Engine.from_text(PAIRS), 0, max(1, KILLS // 2)
    arguments = [str(tmp_path / "pairs.cep"), "--state", str(tmp_path / "state"), "--idle", "never"]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        arguments += ["--input", f"reading=tcp://127.0.0.1:{listening.getsockname()[1]}"]
        for turn in range(kills + 1):
            server = Server(*arguments)
            connection, _ = listening.accept()
            with connection:
                for at in range(20):  # one fridge warms up at once, the others from one turn to the next
                    fridge, temp = ("own", at) if at % 5 == 0 else (f"f{at}", turn)
                    when = EIGHT + (turn * 20 + at) * 1_000_000
                    record = {"time": when / 1e6, "fridge": fridge, "temp": temp}
                    connection.sendall(json.dumps(record).encode() + b"\n")
                    made = whole.push([Event("reading", (fridge, float(temp)), when, when)])
                    count += sum(table.height for table in made.values())
                assert len(server.rows(count=count)) == count, f"in turn {turn}"
                if turn < kills:
                    own = children(server.process.pid) if turn % 2 == 0 else []
                    assert server.end(signal.SIGKILL) == -signal.SIGKILL
                    for one in own:  # the store, too: nor has the snapshot what that had not written
                        with suppress(ProcessLookupError):
                            os.kill(one, signal.SIGKILL)
        assert count > 20 * kills and server.end(signal.SIGTERM) == 0


@pytest.mark.long
def test_clocks_of_keys_go_on_after_a_kill(tmp_path: Path) -> None:
    """Lateness is judged as if nobody had killed the server; one wrong clock harms only itself, and what was ahead of
    the clock of the machine is not judged again."""
    (tmp_path / "pairs.cep").write_text(PAIRS)
    rng, count, late, kills = random.Random(KILLS), 0, 0, max(2, KILLS // 2)
    whole = Engine.from_text(PAIRS, lateness=0, lateness_by="fridge")
    arguments = [str(tmp_path / "pairs.cep"), "--state", str(tmp_path / "state"), "--idle", "never"]
    arguments += ["--lateness-by", "fridge", "--dead-letter", str(tmp_path / "dead.jsonl")]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        arguments += ["--input", f"reading=tcp://127.0.0.1:{listening.getsockname()[1]}"]
        for turn in range(kills + 1):
            server = Server(*arguments)
            connection, _ = listening.accept()
            with connection:
                for at in range(20):
                    now = EIGHT + (turn * 20 + at) * 1_000_000
                    fridge = rng.choice(("a", "b", "fast"))
                    when = now + (DAY if fridge == "fast" else 0) - rng.choice((0, 0, 0, 30_000_000))
                    events = [Event("reading", (fridge, float(at)), when, when)]
                    if at == 10:
                        far = time.time_ns() // 1000 + 7 * DAY
                        events.append(Event("reading", (fridge, 99.0), far, far))
                    for event in events:
                        record = {"time": event.end / 1e6, "fridge": event.args[0], "temp": event.args[1]}
                        connection.sendall(json.dumps(record).encode() + b"\n")
                    whole.receive(events[:1], in_turn=True)
                    count += sum(table.height for table in whole.advance(whole.reached).values())
                    late += len(whole.take_dead())
                there = len(server.rows(count=count))
                told = late + turn + 1
                until(lambda told=told: codes(tmp_path / "dead.jsonl").total() >= told, "dead letters")  # type: ignore[misc]
                assert there == count, f"in turn {turn}"
                assert server.end(signal.SIGKILL if turn < kills else signal.SIGTERM) is not None
    assert codes(tmp_path / "dead.jsonl") == {"late": late, "ahead": kills + 1} and late > kills and count > 10


def codes(letters: Path) -> Counter[str]:
    """Why records are dead letters."""
    found = letters.read_text().splitlines() if letters.exists() else []
    return Counter(json.loads(line)["code"] for line in found)
