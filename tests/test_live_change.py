"""Programs that change while a server runs: each instant is derived by one of them, also where the server is killed.

`SEMCEP_CHANGES=200` changes so often, with as many kills.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from connectors.addresses import address
from connectors.mqtt import Subscription
from tests import brokers
from tests.brokers import mosquitto, publish
from tests.live_programs import BEGINNING, Reading, Row, Rules, expected
from tests.serving import EIGHT
from tests.test_serve import Server
from tests.waiting import pause, until

CHANGES = int(os.environ.get("SEMCEP_CHANGES", "6"))
TOKEN = "a-secret-of-the-house"
ANN = {"Authorization": f"Bearer {TOKEN}"}
STATE = """SELECT ?f ?w ?s ?e { ?x a <urn:semcep:type/state> ; <urn:semcep:attribute/state/f> ?f ;
  <urn:semcep:attribute/state/w> ?w ; time:hasBeginning/time:inXSDDateTimeStamp ?s ;
  time:hasEnd/time:inXSDDateTimeStamp ?e }"""
OTHERS = ("rising", "steep", "silent", "often", "same")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


class Editable(Server):
    """A server whose program can be changed."""

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        return httpx.request(method, self.url + path, headers={**ANN, **more.pop("headers", {})}, timeout=60, **more)

    def put(self, text: str) -> httpx.Response:
        return self.ask("PUT", "/program", content=text, headers={"Content-Type": "text/plain"})

    def select(self, query: str) -> list[dict[str, Any]]:
        answer = self.ask(
            "GET", "/sparql", params={"query": query}, headers={"Accept": "application/sparql-results+json"}
        )
        assert answer.status_code == 200, answer.text
        return [{name: _value(each) for name, each in row.items()} for row in answer.json()["results"]["bindings"]]

    def told(self) -> set[Row]:
        """All derived events, as `expected` has them."""
        found: set[Row] = {("state", row["f"], row["w"], row["s"], row["e"]) for row in self.select(STATE)}
        for name in OTHERS:
            rows = self.select(
                f"SELECT * {{ ?x a <urn:semcep:type/{name}> ; ?p ?v ; time:hasBeginning/time:inXSDDateTimeStamp ?s ; "
                "time:hasEnd/time:inXSDDateTimeStamp ?e FILTER(contains(str(?p), 'attribute')) }"
            )
            events: dict[str, dict[str, Any]] = {}
            for row in rows:
                events.setdefault(row["x"], {"s": row["s"], "e": row["e"]})[row["p"].rpartition("/")[2]] = row["v"]
            for event in events.values():
                start, end = event.pop("s"), event.pop("e")
                found.add((name, *(value for _, value in sorted(event.items())), start, end))
        return found


def _value(term: dict[str, str]) -> Any:
    kind = term.get("datatype", "").rpartition("#")[2]
    if kind in ("dateTime", "dateTimeStamp"):
        return round(datetime.fromisoformat(term["value"]).timestamp() * 1e6)
    return float(term["value"]) if kind in ("double", "integer", "decimal") else term["value"]


def drawn(random: Random, count: int) -> list[Reading]:
    """Readings of four fridges, and at the end all of them cold, and time that goes on."""
    readings = [(n * 700_000, f"f{random.randrange(4)}", float(random.randrange(10))) for n in range(count)]
    last = readings[-1][0]
    readings += [(last + 700_000, f"f{number}", 0.0) for number in range(4)]
    return [*readings, (last + 10**8, "end", 2.0), (last + 2 * 10**8, "end", 2.0)]


def lines(readings: Sequence[Reading]) -> list[str]:
    return [
        json.dumps({"type": "reading", "time": (EIGHT + at) / 1e6, "fridge": fridge, "temp": temp})
        for at, fridge, temp in readings
    ]


def started(folder: Path, rules: Rules) -> list[str]:
    """The arguments of a server of a program, and its files."""
    (folder / "rules.cep").write_text(rules.text)
    (folder / "tokens").write_text(f"ann editor {TOKEN}\nben responder {TOKEN[::-1]}\n")
    (folder / "tokens").chmod(0o600)
    arguments = [str(folder / "rules.cep"), "--state", str(folder / "state"), "--token-file", str(folder / "tokens")]
    return [*arguments, "--idle", "never", "--rate", "0", "--readings"]


def versions_of(server: Editable, texts: dict[str, Rules]) -> list[tuple[Rules, int]]:
    """The programs that took over, as the history has them, each with its watermark."""
    found: list[tuple[Rules, int]] = []
    for each in reversed(server.ask("GET", "/program/history").json()):
        text = server.ask("GET", f"/program/history/{each['version']}").json()["files"]["rules.cep"]
        time = BEGINNING if each["from"] is None else round(datetime.fromisoformat(each["from"]).timestamp() * 1e6)
        found.append((texts[text], time))
    return found


def check(server: Editable, versions: Sequence[tuple[Rules, int]], readings: Sequence[Reading]) -> None:
    """All is derived that is to be, and nothing else, once all is read."""
    last = "SELECT ?x { ?x a <urn:semcep:type/silent> ; <urn:semcep:attribute/silent/f> 'end' }"
    until(lambda: server.select(last), "the last but one reading is followed by silence", every=0.2)
    wanted, told = expected(versions, readings), server.told()
    assert sorted(map(str, told - wanted)) == [], "nothing else is derived"
    assert sorted(map(str, wanted - told)) == [], "nothing is missing"


def test_programs_take_over_under_load(tmp_path: Path) -> None:
    random = Random(CHANGES)
    readings = drawn(random, 80 * CHANGES)
    rules = [Rules.draw(random) for _ in range(CHANGES + 1)]
    server = Editable("--input", "reading=-", *started(tmp_path, rules[0]))
    sent = 0

    def say(texts: list[str]) -> None:
        stdin = server.process.stdin
        assert stdin is not None
        for text in texts:
            stdin.write(text + "\n")
            stdin.flush()
            pause(0.004)

    for number, new in enumerate(rules[1:], 1):
        feeder = threading.Thread(target=say, args=[lines(readings[sent : 80 * number])])
        feeder.start()
        sent = 80 * number
        pause(random.uniform(0, 0.25))
        answer = server.put(new.text)
        assert answer.status_code == 200, answer.text
        said = answer.json()
        assert said["version"] == number + 1 and said["author"] == "ann" and said["tests"] == 0
        feeder.join()
    say(lines(readings[sent:]))
    versions = versions_of(server, {each.text: each for each in rules})
    assert [each for each, _ in versions] == rules and [time for _, time in versions] == sorted(t for _, t in versions)
    check(server, versions, readings)
    assert server.end(signal.SIGTERM) == 0


@pytest.mark.long
@pytest.mark.skipif(brokers.MOSQUITTO is None, reason=brokers.MISSING)
def test_each_instant_is_derived_by_one_program_whenever_the_server_is_killed(tmp_path: Path) -> None:
    random = Random(CHANGES + 1)
    readings = drawn(random, 60 * CHANGES)
    rules = [Rules.draw(random) for _ in range(CHANGES + 1)]
    records = [("readings/a", line.encode()) for line in lines(readings)]
    killed = 0
    with mosquitto(tmp_path / "broker") as port:
        place = f"mqtt://127.0.0.1:{port}/readings/#?client=roof"
        Subscription.open(address(place), "roof").close()  # from now on there is a session
        arguments = ["--input", f"reading={place}", *started(tmp_path, rules[0])]
        server = Editable(*arguments)
        for number, new in enumerate(rules[1:], 1):
            feeder = threading.Thread(target=publish, args=[port, records[60 * (number - 1) : 60 * number]])
            feeder.start()
            pause(random.uniform(0, 0.3))
            change = threading.Thread(target=_put_in_silence, args=[server, new.text])
            change.start()
            pause(random.uniform(0, 1.2))
            if random.random() < 0.7:
                killed += 1
                assert server.end(signal.SIGKILL) == -signal.SIGKILL
                change.join()
                server = Editable(*arguments)
            change.join()
            feeder.join()
        publish(port, records[60 * CHANGES :])
        versions = versions_of(server, {each.text: each for each in rules})
        assert killed and len(versions) > 1
        check(server, versions, readings)
        assert server.end(signal.SIGTERM) == 0


def _put_in_silence(server: Editable, text: str) -> None:
    """Change the program of a server that may be killed meanwhile, or not be ready yet."""
    try:
        answer = server.put(text)
    except httpx.HTTPError:
        return
    assert answer.status_code in (200, 409), answer.text
