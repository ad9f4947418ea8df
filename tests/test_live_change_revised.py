"""Programs that change while a server revises what they derive, from records that come late and are withdrawn: the
store has what each program derives in its time, also where the server is killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random

import pytest

from cep.connectors.addresses import address
from cep.connectors.brokers.mqtt import Subscription
from tests import brokers
from tests.brokers import mosquitto, publish
from tests.live_programs import Reading, Rules, expected
from tests.serving import EIGHT
from tests.test_live_change import (
    CHANGES,
    EVENTS,
    SMALL,
    Editable,
    changed_and_killed,
    drawn,
    lines,
    started,
    taken_in,
    versions_of,
)
from tests.test_live_change_options import has_come
from tests.test_serve import Server
from tests.waiting import pause, until

REVISE = ("--revise", "5s")
Said = tuple[Reading, bool]
"""A reading that comes, or is withdrawn."""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def disordered(random: Random, readings: Sequence[Reading]) -> tuple[list[Said], list[Reading]]:
    """Readings, some of which come up to 3.5 s late, and some are withdrawn later; and those that are left. The last
    ones come in order."""
    order = sorted(
        (place + (random.randrange(1, 6) if random.random() < 0.3 and place < len(readings) - 9 else 0), place)
        for place in range(len(readings))
    )
    said, left = [(readings[place], True) for _, place in order], list(readings)
    for place in range(len(said) - 9, 3, -1):
        if random.random() < 0.1:
            reading, _ = said[place - random.randrange(1, 4)]
            if (reading, False) not in said and said[place - 1] != (reading, False):
                said.insert(place, (reading, False))
                left.remove(reading)
    return said, left


def written(said: Sequence[Said]) -> list[str]:
    """Readings as lines of JSON."""
    found = []
    for reading, comes in said:
        record = json.loads(lines([reading])[0])
        found.append(json.dumps(record if comes else record | {"@change": "withdraw"}))
    return found


def check(server: Editable, texts: dict[str, Rules], left: Sequence[Reading]) -> None:
    """The store has what each program derives in its time of the readings that are left, once all are read."""
    last = EIGHT + left[-1][0]
    until(lambda: has_come(server, last), "all is read", every=0.2)
    silent = "SELECT ?x { ?x a <urn:semcep:type/silent> ; <urn:semcep:attribute/silent/f> 'end' }"
    until(lambda: server.select(silent), "the last but one reading is followed by silence", every=0.2)
    wanted = {row for row in expected(versions_of(server, texts), left) if row[-1] != last}
    told = {row for row in server.told(EVENTS) if row[-1] != last}
    assert sorted(map(str, told - wanted)) == [], "nothing else is derived"
    assert sorted(map(str, wanted - told)) == [], "nothing is missing"


def say(server: Editable, texts: Sequence[str]) -> None:
    stdin = server.process.stdin
    assert stdin is not None
    stdin.write("\n".join(texts) + "\n")
    stdin.flush()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
def test_the_store_has_what_each_program_derives_in_its_time(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    said, left = disordered(random, drawn(random, 100))
    rules = Rules.edits(random, 3)
    arguments = ["--input", "reading=-", *started(tmp_path, rules[0]), *REVISE]
    server = Editable(*arguments)
    share = len(said) // 8
    for number in range(8):
        part = said[share * number : share * (number + 1)] if number < 7 else said[share * 7 : -2]
        say(server, written(part))
        latest = max(at for (at, *_), _ in said[: share * number + len(part)])
        until(partial(has_come, server, EIGHT + latest), "it has come as far", every=0.1)
        if number % 2 == 0 and number < 6:
            answer = server.put(rules[number // 2 + 1].text)
            assert answer.status_code == 200, answer.text
        if number % 2 == 1 or random.random() < 0.5:  # while the former program still revises, and later
            assert server.end(signal.SIGKILL) == -signal.SIGKILL
            server = Editable(*arguments)
    say(server, written(said[-2:]))
    check(server, {each.text: each for each in rules}, left)
    assert server.end(signal.SIGTERM) == 0


@pytest.mark.long
@pytest.mark.skipif(brokers.MOSQUITTO is None, reason=brokers.MISSING)
def test_each_instant_is_derived_by_one_program_whenever_the_server_is_killed(tmp_path: Path) -> None:
    random = Random(CHANGES + 2)
    said, left = disordered(random, drawn(random, 60 * CHANGES))
    rules = Rules.edits(random, CHANGES)
    records = [("readings/a", text.encode()) for text in written(said)]
    with mosquitto(tmp_path / "broker") as port:
        place = f"mqtt://127.0.0.1:{port}/readings/#?client=roof"
        Subscription.open(address(place), "roof").close()  # from now on there is a session
        arguments = ["--input", f"reading={place}", *started(tmp_path, rules[0]), *REVISE]
        server, killed = changed_and_killed(
            arguments, random, rules, lambda number: publish(port, records[60 * (number - 1) : 60 * number])
        )
        publish(port, records[60 * CHANGES :])
        texts = {each.text: each for each in rules}
        assert killed and len(versions_of(server, texts)) > 1
        check(server, texts, left)
        assert server.end(signal.SIGTERM) == 0


ALERT = 'ALERT up ON rising(f: F) TITLE "{F}" FOR 5 s KEYED BY F.\n'
HEAT = 'ALERT heat ON state(F) = "hot" TITLE "{F} is hot" KEYED BY F.\n'


def alerts_of(server: Editable) -> list[tuple[str, str, str]]:
    """The name, title and state of each alert."""
    states = [("state", each) for each in ("firing", "resolved", "withdrawn")]
    found = server.ask("GET", "/alerts", params=states).json()
    return sorted((each["name"], each["title"], "withdrawn" if each["withdrawn"] else each["state"]) for each in found)


def test_alerts_change_with_the_program(tmp_path: Path) -> None:
    """An alert that is open at the change is withdrawn, one on a fluent that holds begins, and late records correct
    both, also after a kill."""
    arguments = ["--input", "reading=-", *started(tmp_path, SMALL), *REVISE]
    (tmp_path / "rules.cep").write_text(SMALL.text + ALERT)
    server = Editable(*arguments)
    say(server, written([((0, "milk", 1.0), True), ((10**6, "milk", 9.0), True), ((10**6, "fish", 2.0), True)]))
    until(partial(has_come, server, EIGHT + 10**6), "it has come as far", every=0.1)
    assert alerts_of(server) == [("up", "milk", "firing")]
    assert server.put(SMALL.text + HEAT).status_code == 200
    assert alerts_of(server) == [("heat", "milk is hot", "firing"), ("up", "milk", "withdrawn")]
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    server = Editable(*arguments)
    late = [((500_000, "fish", 1.0), True), ((600_000, "fish", 8.0), True), ((10**6, "milk", 9.0), False)]
    say(server, written([*late, ((2 * 10**6, "fish", 8.0), True)]))
    wanted = [
        ("heat", "fish is hot", "firing"),
        ("heat", "milk is hot", "withdrawn"),
        ("up", "fish", "withdrawn"),
        ("up", "milk", "withdrawn"),
    ]
    until(lambda: alerts_of(server) == wanted, "the late records count", every=0.1)
    assert server.end(signal.SIGTERM) == 0


def test_what_cannot_be_revised_by_two_programs_is_refused(tmp_path: Path) -> None:
    text = SMALL.text + ALERT
    arguments = started(tmp_path, SMALL)
    (tmp_path / "rules.cep").write_text(text)
    server = Editable("--input", "reading=-", *arguments, *REVISE)
    say(server, written([((0, "milk", 1.0), True), ((10**6, "milk", 6.0), True)]))
    until(partial(has_come, server, EIGHT + 10**6), "it has come as far", every=0.1)
    answer = server.put(text.replace("silent(F)", "silent(F, F)"))
    assert answer.status_code == 409 and "`silent` cannot have other attributes" in answer.text, answer.text
    assert "nothing has changed" in answer.text
    often = 'ALERT often ON often(f: F, n: N) WHERE N > 1 TITLE "{F}" FOR 5 s KEYED BY F.\n'
    assert server.put(text + often).status_code == 200
    busy = server.put(text)
    assert busy.status_code == 409 and "at or before 2024-05-01T08:00:01Z" in busy.text, busy.text
    assert "try again when event time has reached 2024-05-01T08:00:06.000001Z" in busy.text, busy.text
    assert server.put(text + often).json()["same"] is True
    say(server, written([((7 * 10**6, "milk", 1.0), True)]))
    until(lambda: server.put(text.replace("2 s", "3 s") + often).status_code == 200, "it is stable", every=0.1)
    pause(0.1)
    assert server.end(signal.SIGTERM) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--explain",), "with --revise and --explain"),
        (("--knowledge", "some.ttl", "--knowledge-updates", "some.trig"), "--knowledge-updates"),
    ],
)
def test_options_that_do_not_go_with_a_change_say_so(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    arguments = started(tmp_path, SMALL)
    for name in ("some.ttl", "some.trig"):
        (tmp_path / name).write_text("")
    places = [str(tmp_path / each) if each.startswith("some") else each for each in options]
    server = Editable("--input", "reading=-", *arguments, *REVISE, *places)
    answer = server.put(SMALL.text.replace("2 s", "3 s"))
    assert answer.status_code == 409 and message in answer.text, answer.text
    assert server.end(signal.SIGTERM) == 0


def test_a_shadow_is_compared_with_what_is_left(tmp_path: Path) -> None:
    server = Editable("--input", "reading=-", *started(tmp_path, SMALL), *REVISE)
    say(server, written([((0, "milk", 1.0), True)]))
    until(partial(has_come, server, EIGHT), "it has come as far", every=0.1)
    new = SMALL.text.replace("B > A + 0", "B > A + 2")
    answer = server.ask("PUT", "/shadow", content=new, headers={"Content-Type": "text/plain"})
    assert answer.status_code == 200, answer.text
    said = [((10**6, "milk", 5.0), True), ((10**6, "fish", 5.0), True), ((2 * 10**6, "fish", 6.0), True)]
    say(server, written(said))

    def rising() -> dict[str, int]:
        found: dict[str, int] = server.ask("GET", "/shadow").json()["events"]["rising"]
        return found

    until(lambda: (rising()["same"], rising()["gone"]) == (1, 1), "milk in both, fish in one", every=0.1)
    say(server, written([((10**6, "milk", 5.0), False), ((10**6, "fish", 5.0), False)]))
    until(lambda: (rising()["same"], rising()["gone"]) == (0, 0), "all is withdrawn", every=0.1)
    assert server.ask("POST", "/shadow/promote").status_code == 200
    assert server.ask("GET", "/program").json()["files"] == {"rules.cep": new}
    assert server.end(signal.SIGTERM) == 0


def test_with_a_time_of_each_key_both_programs_read_the_same(tmp_path: Path) -> None:
    two = SMALL.text + "event door(fridge: string) TIME time.\nopened(F) <- door(F) UNLESS reading(F, _) WITHIN 1 s.\n"
    arguments = started(tmp_path, SMALL)
    (tmp_path / "rules.cep").write_text(two)
    server = Editable("--input", "-", *arguments, *REVISE, "--lateness-by", "fridge", "--lateness", "1s")
    say(server, written([((0, "milk", 1.0), True), ((3 * 10**6, "milk", 2.0), True)]))
    taken_in(server, 2)
    refused = server.put(SMALL.text)
    assert refused.status_code == 409 and "must read the same events, because they move the time" in refused.text, (
        refused.text
    )
    assert server.put(two.replace("B > A + 0", "B > A + 1")).status_code == 200
    assert server.end(signal.SIGTERM) == 0
