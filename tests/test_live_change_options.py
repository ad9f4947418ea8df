"""Programs that change while a server says why events are there, or reads records that are corrected."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from cep.app.pipeline import Interrupt, flow
from cep.connectors.records.batch import Batch
from cep.core.schema import ARRIVAL
from cep.engine import Engine
from cep.events import Event
from cep.runtime.run_stats import RunStats
from cep.server.warming import NoDeadLetters, joined
from tests.live_programs import Reading, Rules
from tests.serving import EIGHT
from tests.test_live_change import Editable, check, drawn, lines, started, versions_of
from tests.test_serve import Server
from tests.waiting import until

EVENTS = ("rising", "steep", "silent", "often", "same")
FIELDS = {
    "rising": ("rise", "within"), "steep": ("rise", "within"), "silent": ("silent",), "often": ("window",), "same": (),
}  # fmt: skip
"""The numbers that an event's rules go back to."""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def explained(rules: Rules, readings: Sequence[Reading]) -> set[tuple[Any, ...]]:
    """The events of a run of one program: event, arguments, start, end, and the readings behind each."""
    engine = Engine.from_text(rules.text, explain=True)
    events = [Event("reading", (fridge, temp), EIGHT + at, EIGHT + at) for at, fridge, temp in readings]
    found = set()
    for given in (engine.push(events), engine.advance(EIGHT + readings[-1][0] - 1)):
        for name, table in given.items():
            for row in table.iter_rows(named=True) if name in EVENTS else ():
                behind = frozenset((each["fridge"], each["end"]) for each in json.loads(row["because"]))
                own = sorted(each.name for each in engine.outputs[name].attributes)
                found.add((name, tuple(row[each] for each in own), row["start"], row["end"], behind))
    return found


def leaves(tree: dict[str, Any]) -> set[tuple[str, int]]:
    """The readings at the ends of an answer."""
    if "record" in tree:
        return {(tree["arguments"]["fridge"], micros(tree["end"]))}
    return {one for part in (*tree.get("parts", ()), *tree.get("chain", ())) for one in leaves(part)}


def micros(text: Any) -> int:
    if isinstance(text, int | float):
        return round(text * 1e6)
    return round(datetime.fromisoformat(text).timestamp() * 1e6)


def asked(server: Editable) -> dict[str, tuple[str, int]]:
    """The ids of all derived events that are no fluents, with the event and the end."""
    found = {}
    for name in EVENTS:
        query = f"SELECT ?x ?e {{ ?x a <urn:semcep:type/{name}> ; time:hasEnd/time:inXSDDateTimeStamp ?e }}"
        found.update({row["x"].rpartition("/")[2]: (name, row["e"]) for row in server.select(query)})
    return found


def reached(server: Editable) -> int:
    """How far the program has come."""
    watermark = server.ask("GET", "/api/state").json()["numbers"]["watermark"]
    return int(watermark or 0)


def has_come(server: Editable, time: int) -> bool:
    return reached(server) >= time


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_each_event_comes_from_what_its_own_program_says(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    readings = drawn(random, 48)
    rules = [Rules(0, 9, 2, 8, 7, True), Rules(1, 9, 2, 5, 5, True), Rules(1, 3, 4, 5, 7, True)]
    arguments = started(tmp_path, rules[0])
    server = Editable("--input", "reading=-", *arguments, "--explain")
    stdin = server.process.stdin
    assert stdin is not None
    watermarks = [-(2**62)]
    for number in range(3):
        stdin.write("\n".join(lines(readings[16 * number : 16 * (number + 1)])) + "\n")
        stdin.flush()
        last = EIGHT + readings[16 * (number + 1) - 1][0] - 1
        until(partial(has_come, server, last), "it has come as far", every=0.1)
        if number < 2:
            answer = server.put(rules[number + 1].text)
            assert answer.status_code == 200, answer.text
            watermarks.append(micros(answer.json()["from"]))
            kept = {each.partition(": ")[2] for each in answer.json()["kept"]}
            assert "same" in kept and ("silent" in kept) == (number == 0), kept
    stdin.write("\n".join(lines(readings[48:])) + "\n")
    stdin.flush()
    end = "SELECT ?x { ?x a <urn:semcep:type/silent> ; <urn:semcep:attribute/silent/f> 'end' }"
    until(lambda: server.select(end), "all is read", every=0.2)

    expected = set()
    for program, begin, beyond in zip(rules, watermarks, [*watermarks[1:], 2**62]):
        expected |= {one for one in explained(program, readings) if begin < one[3] <= beyond}
    told, gone = [], 0
    for id, (name, over) in asked(server).items():
        answer = server.ask("GET", f"/why/{id}")
        number = sum(begin < over for begin in watermarks) - 1
        numbers = [[getattr(each, field) for field in FIELDS[name]] for each in rules[number:]]
        if all(each == numbers[0] for each in numbers):
            assert answer.status_code == 200, answer.text
            tree = answer.json()
            assert tree["id"] == id
            own = tuple(value for _, value in sorted(tree["arguments"].items()))
            told.append((name, own, micros(tree["start"]), micros(tree["end"]), frozenset(leaves(tree))))
        else:
            gone += 1
            assert answer.status_code == 410 and "since this program took over" in answer.text, answer.text
    assert gone and len(told) == len(set(told))
    assert sorted(map(str, set(told) - expected)) == []
    assert len(told) + gone == len(expected)

    early = datetime.fromtimestamp(EIGHT / 1e6 + 10, UTC).isoformat()
    refused = server.ask("GET", "/why-not", params={"event": "rising(nobody, 1, 2)", "at": early})
    assert refused.status_code == 410 and "the rules of `rising` have changed" in refused.text, refused.text
    fine = server.ask("GET", "/why-not", params={"event": "same(nobody, 1)", "at": early})
    assert fine.status_code == 200 and fine.json()["exists"] is False, fine.text
    assert server.end(signal.SIGTERM) == 0


KEYED = "TIME time KEY fridge"


def corrected(random: Random, readings: Sequence[Reading]) -> list[Reading]:
    """Readings of which some come with other degrees first, and are right one later."""
    said = list(readings)
    for place in range(len(readings) - 8, 0, -1):
        at, fridge, _ = said[place]
        if random.random() < 0.4:
            said.insert(place + 2, said[place])
            said[place] = (at, fridge, float(random.randrange(10)))
    return said


def test_corrected_readings_count_for_the_program_that_took_over(tmp_path: Path) -> None:
    random = Random(11)
    readings = drawn(random, 90)
    said = corrected(random, readings)
    rules = [Rules.draw(random) for _ in range(4)]
    texts = {each.text.replace("TIME time", KEYED): each for each in rules}
    arguments = started(tmp_path, rules[0])
    (tmp_path / "rules.cep").write_text(next(iter(texts)))
    server = Editable("--input", "reading=-", *arguments, "--lateness", "3s")
    stdin = server.process.stdin
    assert stdin is not None
    share = len(said) // 4
    for number, text in enumerate(texts):
        if number:
            answer = server.put(text)
            assert answer.status_code == 200, answer.text
        until_now = said[share * number : share * (number + 1)] if number < 3 else said[3 * share :]
        stdin.write("\n".join(lines(until_now)) + "\n")
        stdin.flush()
        last = EIGHT + max(at for at, *_ in said[: share * (number + 1)]) - 3 * 10**6 - 1
        until(partial(has_come, server, last), "it has come as far", every=0.05)
    check(server, versions_of(server, texts), readings)
    without = server.put(rules[0].text)
    assert without.status_code == 409 and "the running program reads events with a KEY" in without.text, without.text
    assert server.end(signal.SIGTERM) == 0


def test_values_of_the_command_line_hold_for_later_programs_which_say_so(tmp_path: Path) -> None:
    first = Rules(0, 9, 4, 8, 7, False)
    text = "PARAM Hot = 7.0 IN 5..12.\n" + first.text.replace("T > 7", "T > Hot").replace("T <= 7", "T <= Hot")
    arguments = ["--input", "reading=-", *started(tmp_path, first), "--param", "Hot=8"]
    (tmp_path / "rules.cep").write_text(text)
    server = Editable(*arguments)
    value = {"name": "Hot", "value": "8.0", "default": "7.0", "source": "command line"}
    assert server.ask("GET", "/program").json()["parameters"] == [value]
    taken = server.put(text.replace("= 7.0", "= 9.0")).json()
    assert taken["parameters"] == [{**value, "default": "9.0"}] == server.ask("GET", "/program").json()["parameters"]
    (told,) = (each for each in taken["warnings"] if "command line" in each)
    assert told == "`Hot` is 8.0, as set on the command line: it overrides the program's own 9.0"
    for wrong, message in (
        (first.text.replace("B > A", "B > Q"), "`Q` is not bound"),
        (text.replace("5..12", "9..12").replace("= 7.0", "= 9.0"), "8.0 is out of range"),
        ("", "no rules and no alerts"),
    ):
        answer = server.put(wrong)
        assert answer.status_code == 422 and message in answer.text, answer.text
    own = text.replace("Hot", "Warm")
    taken = server.put(own).json()
    assert taken["parameters"] == [{"name": "Warm", "value": "7.0", "default": "7.0", "source": "program"}], taken
    assert "`Hot` is set on the command line, but the program has no such parameter" in taken["warnings"]
    assert server.end(signal.SIGTERM) == 0
    server = Editable(*arguments)
    assert server.ask("GET", "/program").json()["files"] == {"rules.cep": own}, "also after a restart"
    assert server.end(signal.SIGTERM) == 0


def test_a_program_that_was_edited_goes_on_with_what_it_keeps(tmp_path: Path) -> None:
    """With --explain, too, a server that is started with other rules keeps the state of those that mean the same."""
    before, after = Rules(0, 9, 4, 8, 7, False), Rules(1, 9, 4, 8, 7, False)
    arguments = [*started(tmp_path, before), "--explain"]
    server = Editable("--input", "reading=-", *arguments)
    assert server.process.stdin is not None
    server.process.stdin.write("\n".join(lines([(0, "milk", 4.0), (10**6, "fish", 4.0)])) + "\n")
    server.process.stdin.flush()
    until(lambda: reached(server) == EIGHT + 10**6 - 1, "it is read", every=0.1)
    assert server.end(signal.SIGTERM) == 0
    (tmp_path / "rules.cep").write_text(after.text)
    server = Editable("--input", "reading=-", *arguments)
    carried = next(line for line in server.logged if line["event"] == "carried")
    assert any("same" in rule for rule in carried["carried"]) and any("rising" in rule for rule in carried["empty"])
    assert server.process.stdin is not None
    server.process.stdin.write("\n".join(lines([(2 * 10**6, "milk", 4.0), (3 * 10**6, "fish", 4.0)])) + "\n")
    server.process.stdin.flush()
    until(lambda: asked(server), "the same twice", every=0.1)
    ((id, (name, _)),) = [(id, one) for id, one in asked(server).items() if one[0] == "same"]
    tree = server.ask("GET", f"/why/{id}").json()
    assert name == "same" and leaves(tree) == {("milk", EIGHT), ("milk", EIGHT + 2 * 10**6)}
    assert server.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("seed", range(20))
def test_small_batches_of_a_history_are_taken_as_one(seed: int) -> None:
    random = Random(seed)
    text = Rules.draw(random).text.replace("TIME time.", "TIME time.\nevent pause(fridge: string) TIME time.", 1)
    text += "after(F) <- pause(F) SEQ reading(F, _) WITHIN 9 s.\n"
    batches, order = [], 0
    for number in range(120):
        tables = {}
        for name in random.sample(("reading", "pause"), random.choice((1, 1, 2))):
            times = [EIGHT + (number + random.choice((-6, -2, 0, 0, 1))) * 500_000 for _ in range(random.randrange(3))]
            columns = {
                "start": times,
                "end": times,
                ARRIVAL: range(order, order + len(times)),
                "fridge": ["a"] * len(times),
            }
            order = 0 if random.random() < 0.03 else order + len(times)
            temps = {"temp": [float(random.randrange(10)) for _ in times]} if name == "reading" else {}
            types = {"start": pl.Int64, "end": pl.Int64, ARRIVAL: pl.Int64, "fridge": pl.String, "temp": pl.Float64}
            data = {**columns, **temps}
            tables[name] = pl.DataFrame(data, {each: types[each] for each in data})
        batches.append(Batch(tables, [], [], silence=800_000 if random.random() < 0.03 else 0))
    runs = []
    for given in (batches, list(joined(batches))):
        engine, stats, interrupt = Engine.from_text(text, lateness=1_000_000), RunStats(), Interrupt()
        found: Counter[tuple[object, ...]] = Counter()

        def take(_: Batch | None, derived: Mapping[str, pl.DataFrame], found: Counter[Any] = found) -> None:
            found.update((name, *row) for name, table in derived.items() for row in table.iter_rows())

        def fed(given: Sequence[Batch] = given, interrupt: Interrupt = interrupt) -> Iterator[Batch]:
            yield from given
            interrupt.signal = 1

        flow(engine, fed(), stats, take, NoDeadLetters(), interrupt)
        runs.append((found, stats.dead["late"], engine.watermark))
    assert runs[0] == runs[1] and runs[0][1] and len(list(joined(batches))) < len(batches) // 3
