"""Programs that change while a server runs and the knowledge changes: each instant goes by one program, and by what is
known at that time, also where the server is killed.

`SEMCEP_CHANGES=200` changes so often, with as many kills.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cep.connectors.addresses import address
from cep.connectors.brokers.mqtt import Subscription
from tests import brokers
from tests.brokers import mosquitto, publish
from tests.live_programs import KnowingRules, Reading
from tests.test_live_change import (
    CHANGES,
    EVENTS,
    Editable,
    changed_and_killed,
    check,
    drawn,
    lines,
    started,
    taken_in,
    versions_of,
)
from tests.test_live_change_options import has_come
from tests.test_serve import Server
from tests.waiting import pause, until

NAMES = (*EVENTS, *KnowingRules.EVENTS)
LIMITS = "SELECT ?f ?l { ?x <http://example.org/kitchen#name> ?f ; <http://example.org/kitchen#limit> ?l }"
EVERY = 6_000_000


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def said(server: Editable, readings: Sequence[Reading]) -> None:
    assert server.process.stdin is not None
    server.process.stdin.write("".join(line + "\n" for line in lines(readings)))
    server.process.stdin.flush()


@pytest.mark.parametrize(
    "options", [(), pytest.param(("--explain",), marks=pytest.mark.long)], ids=["plain", "explain"]
)
def test_programs_take_over_while_the_knowledge_changes(tmp_path: Path, options: tuple[str, ...]) -> None:
    random = Random(CHANGES)
    readings = drawn(random, 40 * CHANGES)
    rules = KnowingRules.edits(random, CHANGES)
    knowledge = KnowingRules.write_knowledge(tmp_path, random, readings[-7][0], EVERY)
    server = Editable("--input", "reading=-", *started(tmp_path, rules[0]), *knowledge, *options)
    for number, new in enumerate(rules[1:], 1):
        part = readings[40 * (number - 1) : 40 * number]
        feeder = threading.Thread(target=said, args=[server, part])
        feeder.start()
        pause(random.uniform(0, 0.3))
        answer = server.put(new.text)
        assert answer.status_code == 200, answer.text
        feeder.join()
    said(server, readings[40 * CHANGES :])
    check(server, versions_of(server, {each.text: each for each in rules}), readings, NAMES)
    assert not server.select(LIMITS), "the last limits are over"
    assert server.end(signal.SIGTERM) == 0


@pytest.mark.long
@pytest.mark.skipif(brokers.MOSQUITTO is None, reason=brokers.MISSING)
def test_each_instant_goes_by_one_program_and_its_knowledge_whenever_the_server_is_killed(tmp_path: Path) -> None:
    random = Random(CHANGES + 2)
    readings = drawn(random, 60 * CHANGES)
    rules = KnowingRules.edits(random, CHANGES)
    knowledge = KnowingRules.write_knowledge(tmp_path, random, readings[-7][0], EVERY)
    records = [("readings/a", line.encode()) for line in lines(readings)]
    with mosquitto(tmp_path / "broker") as port:
        place = f"mqtt://127.0.0.1:{port}/readings/#?client=roof"
        Subscription.open(address(place), "roof").close()  # from now on there is a session
        arguments = ["--input", f"reading={place}", *started(tmp_path, rules[0]), *knowledge]
        server, killed = changed_and_killed(
            arguments, random, rules, lambda number: publish(port, records[60 * (number - 1) : 60 * number])
        )
        publish(port, records[60 * CHANGES :])
        versions = versions_of(server, {each.text: each for each in rules})
        assert killed and len(versions) > 1
        check(server, versions, readings, NAMES)
        assert server.end(signal.SIGTERM) == 0


TEXT = """PREFIX k: <http://example.org/kitchen#>
event reading(fridge: string, temp: float) TIME time.
above(F, L) <- reading(F, T) WHERE { ?f k:name ?F ; k:limit ?L }, T > L.
calm(F) <- reading(F, T) SEQ reading(F, S) WHERE S < T + 1 WITHIN 1 min.
"""


def limits(folder: Path, *changes: tuple[int, int, int]) -> list[str]:
    """The milk's limits: from a second after eight until another one. Returns the options of a server."""
    prefix = "@prefix k: <http://example.org/kitchen#> .\n"
    (folder / "names.ttl").write_text(f'{prefix}k:f1 k:name "milk" .\n')
    text = prefix + "@prefix prov: <http://www.w3.org/ns/prov#> .\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    for since, end, limit in changes:
        times = (f'"2024-05-01T08:{each // 60:02}:{each % 60:02}Z"^^xsd:dateTime' for each in (since, end))
        text += "<urn:{}> prov:generatedAtTime {} ; prov:invalidatedAtTime {} .\n".format(since, *times)
        text += f"<urn:{since}> {{ k:f1 k:limit {limit} }}\n"
    (folder / "limits.trig").write_text(text)
    return ["--knowledge", str(folder / "names.ttl"), "--knowledge-updates", str(folder / "limits.trig")]


def milk(*readings: tuple[int, float]) -> list[Reading]:
    return [(second * 1_000_000, "milk", temp) for second, temp in readings]


def test_what_was_known_then_explains_after_a_change(tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(TEXT)
    rules = KnowingRules(0, 9, 4, 8, 7, False)
    arguments = ["--input", "reading=-", *started(tmp_path, rules), "--explain"]
    (tmp_path / "rules.cep").write_text(TEXT)
    arguments += limits(tmp_path, (0, 10, 3), (10, 20, 5), (20, 600, 8))
    server = Editable(*arguments)
    said(server, milk((1, 4.0), (11, 6.0), (21, 9.0), (22, 1.0)))
    until(partial(has_come, server, 1_714_550_400_000_000 + 21_999_999), "it has come as far", every=0.1)

    def told() -> list[tuple[Any, ...]]:
        query = (
            "SELECT ?x ?l { ?x a <urn:semcep:type/above> ; <urn:semcep:attribute/above/l> ?l ; "
            "time:hasEnd/time:inXSDDateTimeStamp ?e } ORDER BY ?e"
        )
        found = []
        for row in server.select(query):
            answer = server.ask("GET", f"/why/{row['x'].rpartition('/')[2]}")
            assert answer.status_code == 200, answer.text
            facts = [each["triple"] for each in triples(answer.json()) if "limit" in str(each["triple"][1])]
            found.append((row["l"], *(re.findall(r"\d+", str(each[2]))[0] for each in facts)))
        return found

    wanted = [(3.0, "3"), (5.0, "5"), (8.0, "8")]
    assert told() == wanted
    assert [row["l"] for row in server.select(LIMITS)] == [8.0]
    text = (tmp_path / "limits.trig").read_text()
    (tmp_path / "limits.trig").write_text(text + "broken {")
    refused = server.put(TEXT.replace("T + 1", "T + 2"))
    assert refused.status_code == 409 and "cannot use the changes of the knowledge; nothing has" in refused.text
    assert "limits.trig:10:1" in refused.text and str(tmp_path) not in refused.text, refused.text
    (tmp_path / "limits.trig").write_text(text)
    assert server.put(TEXT.replace("T + 1", "T + 2")).status_code == 200
    assert told() == wanted and [row["l"] for row in server.select(LIMITS)] == [8.0]
    assert server.end(signal.SIGTERM) == 0
    server = Editable(*arguments)
    assert [row["l"] for row in server.select(LIMITS)] == [8.0]
    assert server.end(signal.SIGTERM) == 0


def triples(tree: object) -> Iterator[dict[str, str]]:
    """The facts at any depth of an answer."""
    if isinstance(tree, dict):
        if "triple" in tree:
            yield tree
        for each in tree.values():
            yield from triples(each)
    elif isinstance(tree, list):
        for each in tree:
            yield from triples(each)


def above(server: Editable) -> list[float]:
    """The limits that were exceeded."""
    return sorted(row["l"] for row in server.select("SELECT ?l { ?x <urn:semcep:attribute/above/l> ?l }"))


def test_a_restart_reads_the_changes_of_the_knowledge_again(tmp_path: Path) -> None:
    rules = KnowingRules(0, 9, 4, 8, 7, False)
    arguments = ["--input", "reading=-", *started(tmp_path, rules)]
    (tmp_path / "rules.cep").write_text(TEXT)
    arguments += limits(tmp_path, (0, 10, 3), (30, 40, 5))
    server = Editable(*arguments)
    said(server, milk((1, 4.0), (2, 1.0)))
    taken_in(server, 2)
    assert server.end(signal.SIGTERM) == 0
    limits(tmp_path, (0, 5, 3), (6, 40, 5))  # before the first limit was over, somebody has edited the file
    server = Editable(*arguments)
    said(server, milk((7, 6.0), (31, 6.0), (41, 6.0), (42, 6.0)))
    until(lambda: len(above(server)) == 3, "three", every=0.1)
    assert above(server) == [3.0, 5.0, 5.0]
    assert server.end(signal.SIGTERM) == 0
    limits(tmp_path, (0, 600, 2))  # other limits than there were: from now on they count
    server = Editable(*arguments)
    assert [row["l"] for row in server.select(LIMITS)] == [2.0]
    said(server, milk((43, 6.0), (44, 6.0)))
    until(lambda: len(above(server)) == 5, "the one at 42 s, too", every=0.1)
    assert above(server) == [2.0, 2.0, 3.0, 5.0, 5.0]
    assert server.end(signal.SIGTERM) == 0
    arguments = arguments[: arguments.index("--knowledge-updates")]
    server = Editable(*arguments)  # without changes: what was loaded
    assert server.select(LIMITS) == []
    assert server.end(signal.SIGTERM) == 0


def test_a_shadow_goes_by_the_changing_knowledge_and_is_promoted(tmp_path: Path) -> None:
    rules = KnowingRules(0, 9, 4, 8, 7, False)
    arguments = ["--input", "reading=-", *started(tmp_path, rules)]
    (tmp_path / "rules.cep").write_text(TEXT)
    (tmp_path / "new.cep").write_text(TEXT.replace("T > L.", "T > L + 1."))
    many = [(second, second + 1, 1 + second % 7) for second in range(200)]  # more than an engine takes ahead of time
    server = Editable(*arguments, *limits(tmp_path, *many), "--shadow", str(tmp_path / "new.cep"))
    until(lambda: server.ask("GET", "/shadow").status_code == 200, "it runs", every=0.1)
    readings = milk(*((second, 4.5) for second in range(100)))
    said(server, readings)
    wanted = [sum(1 + second % 7 + more < 4.5 for second in range(99)) for more in (0, 1)]

    def counts() -> dict[str, int]:
        found: dict[str, int] = server.ask("GET", "/shadow").json()["events"]["above"]
        return found

    until(lambda: counts()["same"] == wanted[1] and counts()["gone"] == wanted[0] - wanted[1], "both", every=0.1)
    assert counts()["appeared"] == 0
    assert server.ask("POST", "/shadow/promote").status_code == 200
    said(server, milk(*((second, 4.5) for second in range(100, 201))))
    later = sum(1 + second % 7 + 1 < 4.5 for second in range(99, 200))
    until(lambda: len(above(server)) == wanted[0] + later, "the rest", every=0.2)
    assert server.end(signal.SIGTERM) == 0
