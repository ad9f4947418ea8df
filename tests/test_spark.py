"""Programs on Spark derive what one process derives, whatever the buckets, the order of arrival, the micro-batches.

`SEMCEP_PROGRAMS=200` runs so many generated programs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyoxigraph as ox
import pytest

from cep.engine import Engine
from cep.events import Event
from cep.knowledge.graph import Knowledge
from tests import spark_runs
from tests.cases_format import difference
from tests.program_maker import SECOND
from tests.spark_runs import alone, deliver, distributed, job, write
from tests.together import One, Together, cases, generated

pytestmark = [
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]

LATENESS = 4 * SECOND
GENERATED = int(os.environ.get("SEMCEP_PROGRAMS", "30"))
EACH = 50  # programs of one run

PROGRAMS = {
    "seq": "event reading(station: string, wind: float)."
    "gust(S, V, W) <- (reading(S, V) SEQ reading(S, W)) WITHIN 6 s WHERE W > V + 5.",
    "unless": "event reading(station: string, wind: float)."
    "calm(S) <- reading(S, W) UNLESS reading(S, _) WITHIN 5 s WHERE W > 5.",
    "not": "event reading(station: string, wind: float). event check(station: string)."
    "quiet(S) <- NOT(check(S)).[reading(S, V), reading(S, W)] WHERE V < W.",
    "aggregate": "event reading(station: string, wind: float)."
    "mean(S, A, N) <- reading(S, W) AGGREGATE A = avg(W), N = count() OVER LAST 10 s BY S.",
    "blizzard": """event reading(station: string, wind: float). event settling(station: string, n: int). policy recent.
    settling(S, 1) <- reading(S, W) WHERE W >= 7.
    settling(S, C + 1) <- settling(S, C) SEQ reading(S, W) WHERE W >= 7.
    warning(S, C) <- settling(S, C) WHERE C >= 4.
    passed(S) <- warning(S, _) UNLESS reading(S, _) WITHIN 8 s.""",
    "stages": """event reading(station: string, wind: float).
    gust(S, W) <- reading(S, V) SEQ reading(S, W) WHERE W > V + 6 POLICY chronological.
    many(N) <- gust(S, W) AGGREGATE N = count() OVER LAST 10 s.
    lull(N) <- many(N) UNLESS gust(_, _) WITHIN 3 s.""",
    "rekeyed": """event trade(seller: string, buyer: int).
    x(S, N) <- trade(S, B) AGGREGATE N = count() OVER LAST 10 s BY S.
    y(B, N) <- trade(S, B) AGGREGATE N = count() OVER LAST 10 s BY B.
    z(B) <- x(S, N) SEQ y(B, N).""",
    "made twice": "event reading(station: string, wind: float). some <- reading(_, _). hot(W) <- reading(_, W).",
    "chronological": "event reading(station: string, wind: float). policy chronological."
    "pair(S, V, W) <- reading(S, V) SEQ reading(S, W).",
}


def events(name: str, random: Random) -> list[Event]:
    """Two minutes and a half of readings, of checks and of trades, to the microsecond."""
    found = []
    for _ in range(120):
        end = random.randrange(150) * SECOND + random.choice((0, 0, 0, 1, 999, 1000, 1001))
        station = random.choice("abcdefg")
        if name == "rekeyed":
            found.append(Event("trade", (station, random.randrange(4)), end, end))
        elif name == "not" and random.randrange(4) == 0:
            found.append(Event("check", (station,), end, end))
        else:
            found.append(Event("reading", (station, float(random.randrange(12))), end, end))
    return found


def stories(random: Random) -> Together:
    return Together([One(text, events(name, random)) for name, text in PROGRAMS.items()])


def check(programs: Together, buckets: int, random: Random, folder: Path) -> None:
    """Spark gives what one process gives of the same files, and this what each program gives by itself."""
    schemas = Engine.from_text(programs.text, types=programs.types).inputs
    arriving = programs.arriving(random, LATENESS)
    inputs = deliver(folder / "in", arriving, random.choice((3, 4, 6)), random, schemas)
    expected = programs.derived(arriving)
    assert expected
    assert difference(expected, alone(programs.text, inputs, LATENESS, types=programs.types)) == ""
    wanted = job(programs.text, inputs, folder, buckets, programs.types, lateness=LATENESS, limit=1)
    assert difference(expected, distributed(wanted)) == ""


def the_cases(random: Random) -> Together:
    return cases()


SOME = [(stories, 1), (stories, 7), (the_cases, 2)]
MORE = [(stories, 2), (the_cases, 1), (the_cases, 7)]


@pytest.mark.long
@pytest.mark.parametrize(("make", "buckets"), SOME + MORE * (GENERATED > EACH))
def test_what_one_process_derives(make: Callable[[Random], Together], buckets: int, tmp_path: Path) -> None:
    random = Random(buckets)
    check(make(random), buckets, random, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(-(-GENERATED // EACH)))
def test_generated_programs(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    programs = generated(random, min(EACH, GENERATED))
    for buckets in (1, 2, 7) if GENERATED > EACH else (7,):
        folder = tmp_path / str(buckets)
        folder.mkdir()
        check(programs, buckets, random, folder)


def test_time_points_come_without_events(tmp_path: Path) -> None:
    text = """event reading(station: string).
    due <- 1970-01-01T00:01:00Z.
    dawn(S) <- 1970-01-01T00:00:30Z SEQ reading(S)."""
    inputs = write(tmp_path / "in", [Event("reading", ("a",), 40 * SECOND, 40 * SECOND)], 1, Random(1))
    expected = alone(text, inputs, 0)
    assert len(expected) == 2
    assert difference(expected, distributed(job(text, inputs, tmp_path))) == ""


@pytest.mark.long
def test_every_version_of_the_knowledge_has_its_time(tmp_path: Path) -> None:
    """Whatever micro-batch an event comes in, it is judged by what was known at its end."""
    random = Random(3)
    text = """PREFIX : <urn:> event reading(station: string, wind: float).
    high(S, F) <- reading(S, W) WHERE { ?station :name ?S ; :floor ?F }, F > 2.
    again(S, F) <- (reading(S, W) WHERE { ?station :name ?S ; :floor ?F }) SEQ high(S, F) WITHIN 20 s.
    known(S, N) <- high(S, F) AGGREGATE N = count() OVER LAST 15 s BY S."""
    named = [f'<urn:{letter}> <urn:name> "{letter}" ; <urn:floor> {place} .' for place, letter in enumerate("abcdefg")]
    loaded = Knowledge.of(ox.parse("".join(named), format=ox.RdfFormat.TURTLE))
    updates = []
    for time in random.sample(range(1, 150_000), 12):
        floor = [ox.Triple(ox.NamedNode(f"urn:{random.choice('abcdefg')}"), ox.NamedNode("urn:floor"), ox.Literal(n))
                 for n in random.sample(range(6), 3)]  # fmt: skip
        updates.append((time * 1000 + random.choice((0, 1)), floor[:1], floor[1:]))
    inputs = write(tmp_path / "in", events("seq", random), 5, random, LATENESS)
    expected = alone(text, inputs, LATENESS, updates, knowledge=loaded)
    assert {event.type for event in expected} == {"high", "again", "known"}
    wanted = job(text, inputs, tmp_path, 3, None, loaded, updates, lateness=LATENESS, limit=1)
    assert difference(expected, distributed(wanted)) == ""
    unchanged = alone(text, inputs, LATENESS, knowledge=loaded)
    assert difference(expected, unchanged) != ""
