"""The journal of live input: whatever was read is worked off once, wherever a run was killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.app.pipeline import Interrupt, flow
from cep.app.program_thread import JournaledBatches, ProgramThread
from cep.connectors.dead_letters import DeadLetters
from cep.connectors.files import read
from cep.connectors.journal import Journal, JournalMark
from cep.connectors.records.batch import Batch, Block, DeadLetter
from cep.connectors.service import Service
from cep.core import checksum
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Iri
from cep.runtime.run_stats import RunStats
from tests.brokers import Cluster
from tests.damage import flipped
from tests.long import examples
from tests.serving import EIGHT

SECOND = 1_000_000
PROGRAM = """
event reading(fridge: string, temp: float) TIME time.
policy recent.
rising(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE B > A WITHIN 20 s.
silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN 6 s.
"""
Row = tuple[object, ...]


class Killed(Exception):
    """The process has ended."""


def readings(first: int, *rows: tuple[float, str, float]) -> Batch:
    """Seconds after eight, fridge, degrees; numbered from `first`."""
    times = [EIGHT + round(at * SECOND) for at, _, _ in rows]
    table = pl.DataFrame(
        {
            "start": times,
            "end": times,
            "@order": range(first, first + len(rows)),
            "fridge": [fridge for _, fridge, _ in rows],
            "temp": [temp for *_, temp in rows],
        }
    )
    return Batch({"reading": table}, [], [Block("-", first, len(rows), first + 1)])


def run(
    folder: Path,
    coming: Iterator[Batch],
    stop: int | None,
    found: set[Row],
    often: int,
    later: int = 0,
    program: Callable[[], Engine] = lambda: Engine.from_text(PROGRAM),
) -> None:
    """A program that goes on from a folder, and is killed before batch `stop` is worked off, which it has taken. Every
    `often` batches a snapshot is taken, and saved so many batches later."""
    engine = program()
    with closing(Journal(folder, engine.inputs)) as journal:
        if blob := journal.snapshot():
            engine.restore(blob)
        turns = JournaledBatches(chain(journal.replayed(), coming), journal)
        turns.lock.acquire()
        count = 0
        taken: list[tuple[int, bytes, JournalMark]] = []

        def killing() -> Iterator[Batch]:
            nonlocal count
            for batch in turns:
                if count == stop:
                    raise Killed
                count += 1
                yield batch

        def take(batch: Batch | None, derived: dict[str, pl.DataFrame]) -> None:
            for name, table in derived.items():
                found.update((name, *row) for row in table.rows())
            journal.processed()
            if batch is not None and count % often == 0 and not taken:
                taken.append((count + later, engine.snapshot(), journal.point()))
            if batch is not None and taken and count >= taken[0][0]:
                journal.save(*taken.pop()[1:])

        flow(engine, killing(), RunStats(), take, DeadLetters(), Interrupt())


Story = list[tuple[int, str, int] | float]


@examples(40)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(0, 3)) | st.sampled_from([0.5, 3.0, 7.0]),
        max_size=14,
    ),
    st.lists(st.integers(0, 6), max_size=4),
    st.integers(1, 4),
    st.integers(0, 3),
    st.booleans(),
)
def test_a_run_that_is_killed_derives_what_one_derives_that_is_not(
    story: Story, kills: list[int], often: int, later: int, torn: bool
) -> None:
    """Readings some seconds later, and silences of some more. Of a silence a new run knows only its own part."""

    def batches(story: Story, first: int, now: int) -> Iterator[Batch]:
        length = 0.0
        for one in story:
            if isinstance(one, tuple):
                later, fridge, temp = one
                now, length, first = now + later, 0.0, first + 1
                yield readings(first - 1, (now, fridge, float(temp)))
            else:
                length += one
                yield Batch({}, [], [], silence=round(length * SECOND))

    whole: set[Row] = set()
    with TemporaryDirectory() as there:
        run(Path(there), batches(story, 0, 0), None, whole, 1000)
    found: set[Row] = set()
    left, first, now = story, 0, 0
    with TemporaryDirectory() as there:
        folder = Path(there)
        for stop in kills:
            taken = 0

            def counted(left: Story = left, first: int = first, now: int = now) -> Iterator[Batch]:
                nonlocal taken
                for batch in batches(left, first, now):
                    taken += 1
                    yield batch

            try:
                run(folder, counted(), stop, found, often, later)
            except Killed:
                pass
            else:
                break  # its input has ended
            gone = [one for one in left[:taken] if isinstance(one, tuple)]
            left, first, now = left[taken:], first + len(gone), now + sum(later for later, *_ in gone)
            if torn:
                with (folder / "journal").open("ab") as file:
                    file.write(checksum.record(b"{}", bytes(100))[:-50])
        else:
            run(folder, batches(left, first, now), None, found, often, later)
    assert found == whole


def test_one_that_is_killed_again_and_again_while_it_replays_makes_progress(tmp_path: Path) -> None:
    """Snapshots are taken meanwhile, also within a silence; places of sources are those of the batches in them."""
    rows = [(at / 2, "ab"[at % 3 % 2], float(at % 5)) for at in range(20)]
    coming = [replace(readings(n, row), source="s", place={0: n}) for n, row in enumerate(rows)]
    coming[10:10] = [Batch({}, [], [], silence=SECOND * seconds) for seconds in (1, 2, 7, 8)]
    coming += [Batch({}, [], [], silence=SECOND * seconds) for seconds in range(1, 9)]
    whole, found = set[Row](), set[Row]()
    with TemporaryDirectory() as there:
        run(Path(there), iter(coming), None, whole, 1000)
    assert {name for name, *_ in whole} == {"rising", "silent"}
    engine = Engine.from_text(PROGRAM)
    with closing(Journal(tmp_path, engine.inputs)) as journal:
        for batch in coming:
            journal.add(batch)
    left: list[int] = []
    for later in (0, 1, 2, 0, 1, 2, 0, 1, 2, 0):
        with pytest.raises(Killed):
            run(tmp_path, iter(()), 4, found, 1, later)
        with closing(Journal(tmp_path, engine.inputs)) as journal:
            left.append(journal.behind)
            assert journal.places == {"s": {0: 19}} and journal.first == 20, "what was read is not asked for again"
        if later == 0 and len(left) > 1:
            assert left[-1] < left[0]
        if left[-1] == 0:
            break
    assert left == sorted(left, reverse=True) and left[-1] < 10
    run(tmp_path, iter(()), None, found, 1000)
    assert found == whole


def test_a_program_does_not_wait_for_what_it_derives_to_be_written(tmp_path: Path) -> None:
    """A snapshot is saved only when that is; what came in between stays in the journal."""
    engine = Engine.from_text(PROGRAM)
    stats, interrupt = RunStats(), Interrupt()
    service = Service(engine, PROGRAM, "rules.cep", stats)
    written: list[Future[None]] = []

    def flush() -> Future[None]:
        written.append(Future())
        return written[-1]

    service.written.append(flush)
    saved: list[bytes] = []
    with closing(Journal(tmp_path, engine.inputs)) as journal:

        def coming() -> Iterator[Batch]:
            yield from (readings(number, (number, "milk", float(number))) for number in range(8))
            assert len(written) == 1 and journal.snapshot() == b"", "it goes on, and nothing is saved yet"
            written[0].set_result(None)
            yield readings(8, (8.0, "milk", 8.0))
            saved.append(journal.snapshot())
            interrupt.signal = 2

        batches = JournaledBatches(coming(), journal)
        dead_letters = DeadLetters()
        one = ProgramThread(engine, batches, stats, service, dead_letters, interrupt, journal, lambda *_, **__: None)
        one._due = 0.0  # a snapshot is due at once
        one.run()
        assert one.error is None and len(saved[0]) > 0
    with closing(Journal(tmp_path, engine.inputs)) as journal:
        assert journal.snapshot() == saved[0] and journal.behind == 8, "the first batch alone is in the snapshot"
        again = Engine.from_text(PROGRAM).restore(saved[0])
        for batch in journal.replayed():
            again.push(batch.tables)
        assert again.snapshot() == engine.snapshot()


def test_what_is_in_it(tmp_path: Path) -> None:
    """Values of all kinds, dead records with their text, where records stand, how far sources have come; after a
    snapshot the last of these alone, also where the new journal had not yet taken the place of the old one."""
    any_kind = "event a(x: int).\nb(X, Y) <- a(X), c(Y).\nd(X) <- c(X)."
    schemas = Engine.from_text(any_kind.replace(", c", " AND c")).inputs
    values = [1, 2.5, "x", True, None, Iri("urn:x"), 2**60, "\ud800"]
    mixed = pl.DataFrame(
        {"start": range(8), "end": range(8), "@order": range(5, 13)}
        | {name.name: pl.Series(values, dtype=pl.Object) for name in schemas["c"].attributes}
    )
    letters = [
        DeadLetter("mqtt://h/ä", 7, "bad", "json", "\ud800{", "c"),
        DeadLetter("x.gz", 8, "damaged", "gzip", of_file=True),  # no record
    ]
    sent = Batch({"c": mixed}, letters, [Block("-", 5, 8, 3)], source="a", place={3: 2**32 - 1})
    with closing(Journal(tmp_path, schemas)) as journal:
        assert journal.whole and list(journal.replayed()) == [] and journal.snapshot() == b""
        journal.add(sent)
        journal.add(Batch({}, [], [], source="a", place={3: 5, 4: 6}))
    with closing(Journal(tmp_path, schemas)) as journal:
        assert (journal.whole, journal.behind, journal.first) == (False, 9, 13)
        assert journal.places == {"a": {3: 5, 4: 6}}
        again, _, pause = journal.replayed()
        assert again.tables["c"].columns[:3] == ["start", "end", "@order"] and again.dead == letters
        assert again.tables["c"].to_dicts() == mixed.to_dicts() and again.place == sent.place
        assert again.origin("c", 1) == ("-", 4, None)
        assert pause == Batch({}, [], []) and journal.whole
        before = (tmp_path / "journal").read_bytes()
        journal.save(b"one")
    with closing(Journal(tmp_path, schemas)) as journal:
        assert (journal.whole, journal.first, journal.places) == (True, 13, {"a": {3: 5, 4: 6}})
    (tmp_path / "journal").rename(tmp_path / "journal.part")
    (tmp_path / "journal").write_bytes(before)
    with closing(Journal(tmp_path, schemas)) as journal:
        assert journal.snapshot() == b"one" and journal.whole and journal.first == 13
        journal.add(sent)
    other = Engine.from_text("event c(x: float).\nd(X) <- c(X).").inputs
    with closing(Journal(tmp_path, other)) as journal:
        assert journal.behind == 1 and next(journal.replayed()).tables == {}, "the declaration has changed"
    (tmp_path / "journal").unlink()
    (tmp_path / "journal").mkdir()
    with pytest.raises(CepError, match=r"--state: .*journal: is a directory"):
        Journal(tmp_path, schemas)


def test_damage_is_told_and_what_is_torn_is_cut_off(tmp_path: Path) -> None:
    """Whatever bit has flipped, also of a length, and in the last record; then nothing is changed."""
    schemas, path = Engine.from_text(PROGRAM).inputs, tmp_path / "journal"
    with closing(Journal(tmp_path, schemas)) as journal:
        ends = [path.stat().st_size]
        for number in range(3):
            journal.add(readings(number, (number, "milk", 1.0)))
            ends.append(path.stat().st_size)
    whole = path.read_bytes()
    first = len(checksum.MARK)
    lengths = [8 * (end + byte) + bit for end in [first, *ends[:-1]] for byte in range(8) for bit in (0, 7)]
    for place in [*lengths, *(place for place, _ in flipped(whole, 200, Random(1)))]:
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        record = 0 if place < 8 * first else sum(end <= place // 8 for end in ends)
        with pytest.raises(CepError, match=f"--state: .*journal: record {record} is damaged"):
            Journal(tmp_path, schemas)
        assert path.read_bytes() == damaged
    half = checksum.record(b"{}", bytes(100))[:-50]
    for torn, rows in ((whole[:-30] + bytes(30), 2), (whole[:-1], 2), (whole + bytes(4096), 3), (whole + half, 3)):
        path.write_bytes(torn)
        with closing(Journal(tmp_path, schemas)) as journal:
            assert journal.behind == rows
        assert path.stat().st_size == ends[rows]
    path.write_bytes(b"")
    with pytest.raises(CepError, match="record 0 is damaged"):
        Journal(tmp_path, schemas)


def test_a_snapshot_and_a_journal_that_are_not_of_one_another(tmp_path: Path) -> None:
    """One damaged, missing, or of another folder: it is reported, and nothing is begun anew in its place."""
    engines = [Engine.from_text(PROGRAM) for _ in range(2)]
    folders = [tmp_path / name for name in ("a", "b")]
    for number, (folder, engine) in enumerate(zip(folders, engines)):
        folder.mkdir()
        with closing(Journal(folder, engine.inputs)) as journal:
            engine.push(readings(0, (number, "milk", 1.0)).tables)
            journal.save(engine.snapshot())
            journal.add(readings(1, (number, "milk", 1.0)))
    saved, kept = ((folders[0] / name).read_bytes() for name in ("snapshot", "journal"))

    def refused(message: str) -> None:
        with pytest.raises(CepError, match=f"--state: .*{message}"):
            Journal(folders[0], engines[0].inputs)
        (folders[0] / "snapshot").write_bytes(saved)
        assert (folders[0] / "journal").read_bytes() == kept, "nothing is begun anew"

    for _, damaged in flipped(saved, 100, Random(2)):
        (folders[0] / "snapshot").write_bytes(damaged)
        refused("snapshot")
    for wrong in (b"", saved[:-1], (folders[1] / "snapshot").read_bytes()):
        (folders[0] / "snapshot").write_bytes(wrong)
        refused("snapshot")
    (folders[0] / "snapshot").unlink()
    refused("journal does not belong to snapshot beside it")
    (folders[0] / "journal").unlink()
    with closing(Journal(folders[0], engines[0].inputs)) as journal:
        assert journal.whole and journal.snapshot() == saved, "as the message says"


def test_what_a_broker_is_told_when(tmp_path: Path) -> None:
    """Kafka is read on from what the folder knows, also where the group knows less, as after an end between the two;
    of what a program failed at nothing is reported."""
    cluster, schemas = Cluster("readings"), Engine.from_text(PROGRAM).inputs
    place = f"kafka://{cluster.servers}/readings?group=g&until=now"
    for number in range(8):
        record = {"time": EIGHT / 1e6 + number, "fridge": "milk", "temp": number}
        cluster.send([(number % 2, number, json.dumps(record).encode())])

    class Noted:
        over, kept, before = False, False, dict[int, int]()

        def place(self, source: str) -> Mapping[int, int]:
            assert source == f"reading=kafka://{cluster.servers}/readings"
            return self.before

    rest = Noted()
    for known, count, kept in (({}, 8, False), ({0: 3}, 5, True), ({}, 0, True), ({0: 4, 1: 3}, 1, True)):
        rest.before, rest.kept = known, kept
        batches = read([f"reading={place}"], schemas, rest=rest, first=100)
        found: list[Batch] = []
        while sum(batch.rows for batch in found) < count:
            found.append(next(batches))
        assert sum(batch.rows for batch in found) == count
        if found:
            assert found[0].tables["reading"]["@order"][0] == 100 and found[-1].place.items() >= {(0, 4), (1, 4)}
        batches.close()  # type: ignore[attr-defined]
