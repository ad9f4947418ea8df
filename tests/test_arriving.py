"""Changes of knowledge that arrive in a stream do what they would do if all had been there from the beginning."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cep.app.knowledge_updates import KnowledgeUpdates
from cep.connectors.records.times import iso
from cep.core.time import END_OF_TIME
from cep.engine import Engine
from cep.events import Event
from cep.knowledge.arriving import Arriving
from cep.knowledge.updates import FROM, UNTIL, Update, read_updates
from tests.cases_format import known
from tests.long import examples
from tests.test_equivalence import rows

SECOND = 1_000_000
TIME = "http://www.w3.org/2001/XMLSchema#dateTime"
PROGRAM = """PREFIX k: <http://k/>
event a(n: int).
e(N, X) <- a(N) WHERE { ?s k:limit ?X }.
none(N) <- a(N) WHERE not { ?s k:limit ?x }."""
TimedLines = tuple[int, str]  # seconds, lines


class Patient:
    """Nobody interrupts."""

    signal = 0

    def next(self, pieces: Iterator[bytes]) -> bytes | None:
        return next(pieces, None)


def said(name: str, word: str, second: int) -> str:
    return f'<urn:{name}> <{word}> "1970-01-01T00:00:{second:02}Z"^^<{TIME}> .\n'


def holds(name: str, limits: tuple[int, ...]) -> str:
    return "".join(f'<http://k/s> <http://k/limit> "{x}"^^<{TIME[:-8]}integer> <urn:{name}> .\n' for x in limits)


@st.composite
def streams(draw: st.DrawFn) -> str:
    """Graphs that come, and go later or not, and removals, in the order of time; sometimes a time alone."""
    blocks: list[TimedLines] = []
    for i in range(draw(st.integers(1, 7))):
        second, limits = draw(st.integers(1, 12)), tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
        kind = draw(st.sampled_from(("comes", "comes and goes", "goes later", "removes", "passes")))
        ends = second + draw(st.integers(1, 9))
        if kind == "removes":
            blocks.append((second, said(f"g{i}", UNTIL, second) + holds(f"g{i}", limits)))
            continue
        times = said(f"g{i}", FROM, second)
        if kind == "comes and goes":
            times = "".join(draw(st.permutations((times, said(f"g{i}", UNTIL, ends)))))
        blocks.append((second, times + ("" if kind == "passes" else holds(f"g{i}", limits))))
        if kind == "goes later":
            blocks.append((ends, said(f"g{i}", UNTIL, ends)))
    return "".join(lines for _, lines in sorted(blocks, key=lambda block: block[0]))


def pieces(text: str, cuts: list[int]) -> Iterator[bytes]:
    lines = text.encode().splitlines(keepends=True)
    bounds = sorted({0, len(lines), *(cut % (len(lines) + 1) for cut in cuts)})
    for start, stop in zip(bounds, bounds[1:]):
        yield b"".join(lines[start:stop])


def whole(text: str) -> list[Update]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "changes.nq"
        file.write_text(text)
        return read_updates(file)


def run(updates: KnowledgeUpdates, seconds: list[int], size: int) -> list[Event]:
    engine = Engine.from_text(PROGRAM, knowledge=known('<http://k/s> <http://k/limit> 0 ; <http://k/name> "s" .'))
    engine.advance_only()
    found: list[Event] = []
    for start in range(0, len(seconds), size):
        batch = seconds[start : start + size]
        engine.receive([Event("a", (start + i,), each * SECOND, each * SECOND) for i, each in enumerate(batch)])
        for derived in updates.bring(engine, batch[-1] * SECOND - 1, Patient()):
            found += rows(derived)
    for derived in updates.bring(engine, END_OF_TIME, Patient()):
        found += rows(derived)
    assert not updates.take_dead()
    return sorted(found, key=repr)


@settings(max_examples=25, deadline=None)
@given(streams(), st.lists(st.integers(0, 99), max_size=6), st.lists(st.integers(0, 22)).map(sorted), st.integers(1, 5))
def test_in_pieces_as_at_once(text: str, cuts: list[int], seconds: list[int], size: int) -> None:
    expected = run(KnowledgeUpdates(whole(text)), seconds, max(len(seconds), 1))
    assert run(KnowledgeUpdates((), [Arriving("-", pieces(text, cuts))]), seconds, size) == expected


@examples(150)
@given(streams(), st.lists(st.integers(0, 99), max_size=6))
def test_no_change_is_lost_or_made_up(text: str, cuts: list[int]) -> None:
    arriving = Arriving("-", pieces(text, cuts))
    made: list[Update] = []
    while not arriving.over:
        made += arriving.read(lambda each: next(each, None))
    assert not arriving.refused
    assert history(made) == history(whole(text))


def history(updates: list[Update]) -> list[tuple[int, set[str]]]:
    """The triples that hold from when on."""
    quads: set[str] = set()
    found: list[tuple[int, set[str]]] = [(0, set())]
    for time in sorted({update.time for update in updates}):
        now = [update for update in updates if update.time == time]
        gone = {str(each) for update in now for each in update.remove}
        quads = {each for each in quads if each not in gone and each.rsplit(" ", 1)[0] not in gone}
        quads |= {str(each) for update in now for each in update.add}
        triples = {each.rsplit(" ", 1)[0] for each in quads}
        if triples != found[-1][1]:
            found.append((time, triples))
    return found


def test_what_is_over_is_forgotten() -> None:
    """A graph that has ended, a removal, a time alone, a graph of which nothing is left: none of them is kept."""
    lines = []
    for i in range(2, 40):
        ends = said(f"g{i - 1}", UNTIL, i) if i % 2 else said(f"r{i}", UNTIL, i) + holds(f"r{i}", (i - 1,))
        lines += [ends, said(f"g{i}", FROM, i), holds(f"g{i}", (i,)), said(f"t{i}", FROM, i)]
    arriving = Arriving("-", pieces("".join(lines), list(range(200))))
    most = 0
    while not arriving.over:
        arriving.read(lambda each: next(each, None))
        most = max(most, len(arriving._graphs.known), len(arriving._bringing))
    assert most <= 6


def test_what_cannot_be_taken_is_a_dead_letter() -> None:
    text = (
        said("early", FROM, 9) + holds("early", (1,)) + said("late", FROM, 3) + holds("late", (2,)) + "garbage\n"
        + said("one", FROM, 10).replace("1970", "soon") + holds("one", (3,)) + said("typed", FROM, 11)
        + '<http://k/s> <http://k/limit> "high" <urn:typed> .\n<urn:x> <urn:y> <urn:z> .\n'
        + said("back", FROM, 12) + said("back", UNTIL, 12) + holds("back", (4,))
        + said("slip", FROM.replace("generated", "genreated"), 13)
    )  # fmt: skip
    updates = KnowledgeUpdates((), [Arriving("-", pieces(text, list(range(99))))])
    engine = Engine.from_text(PROGRAM, knowledge=known("<http://k/s> <http://k/limit> 0 ."), lateness=None)
    for until in (5 * SECOND, END_OF_TIME):
        for _ in updates.bring(engine, until, Patient()):
            pass
    dead = updates.take_dead()
    assert [(each.line, each.code) for each in sorted(dead, key=lambda each: each.line)] == [
        (3, "late"), (5, "quad"), (6, "time"), (7, "graph"), (8, "type"), (10, "graph"), (11, "graph"), (14, "graph"),
    ]  # fmt: skip
    assert "did you mean" not in dead[0].reason and all(each.text for each in dead)


def test_silence_is_not_waited_for() -> None:
    """A pipe that says nothing for so long holds up nothing; what it says later of times that are over is late."""
    late = (said("g1", FROM, 2) + holds("g1", (1,)) + said("g2", FROM, 20)).encode()
    arriving = Arriving("-", iter([said("g0", FROM, 1).encode(), b"", late]))
    updates = KnowledgeUpdates((), [arriving])
    engine = Engine.from_text(PROGRAM, knowledge=known("<http://k/s> <http://k/limit> 0 ."), lateness=None)
    for until in (10 * SECOND, 15 * SECOND):
        list(updates.bring(engine, until, Patient()))
    assert [each.code for each in updates.take_dead()] == ["late"]


def test_a_run_takes_changes_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(PROGRAM.replace("event a(n: int)", "event a(n: int) TIME t"))
    (tmp_path / "k.ttl").write_text("<http://k/s> <http://k/limit> 0 .")
    (tmp_path / "a.csv").write_text("t,n\n" + "".join(f"{iso(i * SECOND)},{i}\n" for i in range(1, 6)))
    text = said("g", FROM, 3) + holds("g", (7,)) + said("g", UNTIL, 5) + "oh\n"
    command = [
        sys.executable,
        "-m",
        "cep",
        "run",
        "rules.cep",
        "--input",
        "a.csv",
        "--only",
        "e",
        "--output-format",
        "csv",
    ]
    command += ["--knowledge", "k.ttl", "--knowledge-updates", "-"]
    root = Path(__file__).parent.parent
    done = subprocess.run(
        command, input=text, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(root)}
    )
    found = [line.split(",")[-2:] for line in done.stdout.splitlines()[1:]]
    assert sorted(found) == [["1", "0"], ["2", "0"], ["3", "0"], ["3", "7"], ["4", "0"], ["4", "7"], ["5", "0"]]
    assert "1 dead letter (1 bad N-Quads)" in done.stderr and done.returncode == 0
    twice = subprocess.run(
        [*command, "--input", "-"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert twice.returncode == 2 and "standard input is named twice" in twice.stderr
