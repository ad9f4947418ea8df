"""Changes of the knowledge that come while a query lives do what they would do had they been there before it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pyoxigraph as ox
import pytest

from cep.core.errors import CepError
from cep.knowledge.graph import Knowledge
from cep.knowledge.growing_files import GrowingFile
from cep.knowledge.updates import FROM, UNTIL
from cep.spark.source.knowledge_changes import FileChangeLog
from tests import spark_runs
from tests.cases_format import difference
from tests.program_maker import SECOND
from tests.spark_runs import alone, distributed, job, line, quads_of
from tests.test_arriving import holds, said
from tests.test_spark import EACH, GENERATED, LATENESS, events

TEXT = """PREFIX : <urn:> event reading(station: string, wind: float).
high(S, F) <- reading(S, W) WHERE { ?station :name ?S ; :floor ?F }, F > 2.
again(S, F) <- (reading(S, W) WHERE { ?station :name ?S ; :floor ?F }) SEQ high(S, F) WITHIN 20 s.
many(N) <- high(S, F) AGGREGATE N = count() OVER LAST 15 s WHERE { :limit :floor ?L }, N > L.
"""
NAMED = [f'<urn:{letter}> <urn:name> "{letter}" ; <urn:floor> {place} .' for place, letter in enumerate("abcdefg")]


def floor(thing: str, number: int) -> ox.Triple:
    return ox.Triple(ox.NamedNode(f"urn:{thing}"), ox.NamedNode("urn:floor"), ox.Literal(number))


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("buckets", [3, 1][: 1 + (GENERATED > EACH)])
def test_changes_come_while_a_query_lives(buckets: int, tmp_path: Path) -> None:
    random = Random(buckets)
    loaded = Knowledge.of(ox.parse("".join([*NAMED, "<urn:limit> <urn:floor> 4 ."]), format=ox.RdfFormat.TURTLE))
    updates = []
    for time in random.sample(range(1, 150_000), 16):
        name = random.choice("abcdefg") if random.random() < 0.8 else "limit"
        less, *more = (floor(name, n) for n in random.sample(range(6), 3))
        updates.append((time * 1000 + random.choice((0, 1)), [less], more))
    arriving = sorted(events("seq", random), key=lambda event: event.end + random.randrange(LATENESS + 1))
    days, changes = tmp_path / "days", tmp_path / "changes"
    days.mkdir()
    changes.mkdir()
    options = {"lateness": LATENESS, "limit": 1, "dead_letters": str(tmp_path / "dead"), "closing": False}
    wanted = job(TEXT, [str(days)], tmp_path, buckets, None, loaded, updates=(), **options)
    wanted = replace(wanted, updates=(str(changes),))
    third, reached, left = len(arriving) // 3, 0, sorted(updates, key=lambda update: random.random())
    for turn in range(3):
        part = arriving[turn * third : None if turn == 2 else (turn + 1) * third]
        (days / f"{turn}.jsonl").write_text("".join(map(line, part)))
        latest = max(event.end for event in part)
        now = [update for update in left if update[0] <= latest or random.random() < 0.5 or turn == 2]
        left = [update for update in left if update not in now]
        text = "".join(quads_of(*update) for update in now)
        if turn == 1:
            text += quads_of(reached - LATENESS - SECOND, [floor("a", 9)], []) + "none\n"  # late; no change at all
            (changes / "more.nq").write_text(text)
        else:
            with (changes / "all.nq").open("a") as file:
                file.write(text + "<urn:torn")  # the beginning of a line, of which the rest comes
        if turn:
            (changes / "all.nq").write_text((changes / "all.nq").read_text().replace("<urn:torn", ""))
        reached = latest
        found = distributed(replace(wanted, closing=turn == 2))
    expected = alone(TEXT, [str(days)], LATENESS, updates, knowledge=loaded)
    assert {event.type for event in expected} == {"high", "again", "many"}
    assert difference(expected, found) == ""
    assert difference(expected, alone(TEXT, [str(days)], LATENESS, knowledge=loaded)) != ""
    letters = [json.loads(text) for file in (tmp_path / "dead").iterdir() for text in file.read_text().splitlines()]
    assert sorted((each["code"], Path(each["file"]).name) for each in letters) == [
        ("late", "more.nq"), ("quad", "more.nq"),
    ]  # fmt: skip


def test_what_was_told_stays_as_it_was(tmp_path: Path) -> None:
    state, folder = tmp_path / "state", tmp_path / "changes"
    state.mkdir()
    folder.mkdir()

    def chronicle() -> FileChangeLog:
        return FileChangeLog(state, [str(folder)])

    def times() -> list[int]:
        one = chronicle()
        lines = one.lines(0, len(one))
        return [change[0] // SECOND for line in lines for change in line["changes"]]

    assert chronicle().look() == 0
    growing, whole = folder / "a.nq", folder / "b.trig"
    growing.write_text(said("g", FROM, 3) + holds("g", (1,)) + said("g", UNTIL, 9)[:20])
    assert chronicle().look() == 1 and times() == [3]
    growing.write_text(growing.read_text()[:-20] + said("g", UNTIL, 9) + said("h", FROM, 4) + holds("h", (2,)))
    whole.write_text(said("i", FROM, 5) + "<urn:i> { <urn:x> <urn:y> 1 }")
    assert chronicle().look() == 2 and times() == [3, 4, 5, 9]
    assert chronicle().look() == 2
    journal = state / "changes.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"files":')  # killed while it wrote
    growing.write_text(growing.read_text() + said("h", UNTIL, 11) + said("open", FROM, 12))
    assert chronicle().look() == 3 and times() == [3, 4, 5, 9, 11]
    whole.unlink()  # who has been told of it need not keep it
    assert chronicle().look() == 3
    (folder / "c.trig").write_text("<urn:j> {")
    with pytest.raises(CepError, match=r"c\.trig"):
        chronicle().look(strict=True)
    assert chronicle().look() == 4
    with pytest.raises(CepError, match=r"d\.nq: no such file"):
        FileChangeLog(state, [str(folder / "*.trig"), str(whole), str(folder / "d.nq")]).look(strict=True)
    growing.write_text(growing.read_text().replace('"1"', '"7"'))
    with pytest.raises(CepError, match=r"a\.nq has changed: its first [0-9,]+ bytes have already been read"):
        chronicle().look()
    with pytest.raises(CepError, match="has 4 changes, but 5 were sent"):
        FileChangeLog(state, []).lines(0, 5)


def test_a_graph_may_come_in_any_pieces() -> None:
    lines = (holds("g", (1,)) + said("g", FROM, 3) + holds("g", (2,)) + said("g", UNTIL, 8) + said("x", UNTIL, 5)
             + holds("x", (0,)) + said("back", UNTIL, 2) + said("back", FROM, 2) + holds("lost", (1,)))  # fmt: skip
    for cuts in ([], [1], [1, 2, 3], [4, 5, 6, 7]):
        growing, found, dead = GrowingFile("f"), [], []
        parts = lines.splitlines(keepends=True)
        for first, beyond in zip([0, *cuts], [*cuts, len(parts)]):
            news = growing.read("".join(parts[first:beyond]).encode(), last=beyond == len(parts))
            found += [(each.time // SECOND, len(each.add), len(each.remove)) for each in news.changes]
            dead += [(each.code, each.line) for each in news.refused]
        whole = {time: [sum(one[k] for one in found if one[0] == time) for k in (1, 2)] for time, _, _ in found}
        assert whole == {3: [2, 0], 8: [0, 2], 5: [0, 1]}
        assert sorted(dead) == [("graph", 7), ("graph", 9)]
