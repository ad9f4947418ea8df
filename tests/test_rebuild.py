"""A store of which most is gone is loaded into a new one, whatever is written and asked, and wherever it is ended."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random

import polars as pl
import pyoxigraph as ox
import pytest

from cep.connectors.rdf import triples
from cep.connectors.rdf.question import Question
from cep.connectors.rdf.rebuild import Rebuild, recover, swap
from cep.connectors.rdf.store import EventStore
from cep.connectors.rdf.store_files import Corruption
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.rdf.withdrawals import StoreRevision
from cep.core.identity import ID, identified
from cep.core.schema import Attribute, Schema
from tests.damage import flipped
from tests.killing import HOOK, ROOT, KillPoint
from tests.waiting import until

EIGHT, SECOND = 1_714_550_400_000_000, 1_000_000  # 2024-05-01T08:00:00Z
BEAT = Schema("beat", (Attribute("n", "int"),), True, False)
ALL = Question("SELECT ?s ?p ?o { ?s ?p ?o }", table="csv", seconds=60.0)
SMALL = {"cep.connectors.rdf.rebuild:_REMOVED": 2_000, "cep.connectors.rdf.quad_writer:_IN_MEMORY": 1_000}
MINUTES = 30
KNOWN = (
    b'_:b%d <urn:p%d> "%d\\n\\"\\u00e9"^^<urn:t> .\n'
    b"<urn:s> <urn:p> _:b%d <urn:g%d> .\n"
    b'<urn:s> <urn:d> "%d.50"^^<http://www.w3.org/2001/XMLSchema#decimal> .\n'
)

NEW = r"events\.new"
POINTS = [
    KillPoint("open", NEW + r"\.changes$", within="_begin", alone=True),
    KillPoint("open", NEW + r"\.hashes", within="_load", alone=True),
    KillPoint("remove", NEW + r"\.quads$", within="_load", alone=True),
    KillPoint("open", NEW + r"\.changes$", within="_load", alone=True),
    KillPoint("open", NEW + r"\.changes$", within="complete", alone=True),
    KillPoint("rename", r"events\.old$", alone=True),
    KillPoint("rename", r"events\.hashes$", within="_put_in_place", alone=True),
    KillPoint("rename", r"events$", within="_put_in_place", alone=True),
    KillPoint("open", r"events\.hashes", within="_replace", alone=True),
    KillPoint("rmtree", r"events\.old$", within="_rebuild", alone=True),
]


@cache
def beats(minute: int) -> tuple[list[str], str]:
    """The ids and the triples of twenty beats in each second of a minute, by and by."""
    ends = [EIGHT + minute * 60 * SECOND + n * 50_000 for n in range(60)]
    table = identified(pl.DataFrame({"start": ends, "end": ends, "n": range(60)}), BEAT, "p")
    return table[ID].to_list(), triples.event_triples([triples.Derived(table, BEAT, "urn:rule")], EventVocabulary())


def stamp(minute: int) -> str:
    return triples.stamp(EIGHT + minute * 60 * SECOND)


def rows(store: StoreProcess) -> list[bytes]:
    return sorted(store.ask(ALL).result().body.splitlines()[1:])


def quads(store: EventStore) -> list[str]:
    return sorted(str(quad) for quad in store.store)


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Stores are rebuilt when they are small."""
    monkeypatch.setenv("PYTHONPATH", f"{HOOK}:{ROOT}")
    monkeypatch.setenv("SEMCEP_NUMBERS", json.dumps(SMALL))
    return monkeypatch


def identity(folder: Path) -> str:
    """What RocksDB calls a store."""
    return (folder / "events" / "IDENTITY").read_text()


def filled(store: StoreProcess) -> Iterator[int]:
    """Write a minute's beats at a time, and forget those of two minutes before."""
    for minute in range(MINUTES):
        store.add(beats(minute)[1])
        store.forget(stamp(minute - 1))
        store.flush()
        yield minute


def wait_for_rebuild(store: StoreProcess, folder: Path, before: str) -> None:
    """Wait for another store; as with live input there is always something to forget."""

    def is_over() -> bool:
        store.forget(stamp(0)).result()
        left = {path.name for path in folder.glob("events*")}
        return left == {"events", "events.hashes"} and identity(folder) != before

    until(is_over, "another store")


def expected(tmp_path: Path) -> list[bytes]:
    with closing(StoreProcess(tmp_path / "alone" / "events", EventVocabulary())) as store:
        for minute in (MINUTES - 2, MINUTES - 1):
            store.add(beats(minute)[1])
        store.flush()
        return rows(store)


def test_a_store_of_which_most_is_gone_gives_back_its_disk(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    """Nobody notices: the same process answers all the time, and each answer has what was written before."""
    sizes = []
    for folder in (tmp_path / "rebuilt", tmp_path / "grown"):
        with closing(StoreProcess(folder / "events", EventVocabulary())) as store:
            process, first = store.process, identity(folder)
            for minute in filled(store):
                asked = Question(f"ASK {{ ?beat ?has <urn:semcep:instant/{stamp(minute)}> }}", seconds=60.0)
                assert b"true" in store.ask(asked).result().body
            if not sizes:
                wait_for_rebuild(store, folder, first)
            assert rows(store) == expected(folder)
            assert (store.process, store.restarts) == (process, 0)
            assert sorted(path.name for path in folder.glob("events*")) == ["events", "events.hashes"]
        sizes.append(folder_size(folder / "events"))
        small.delenv("SEMCEP_NUMBERS", raising=False)
    assert sizes[0] < sizes[1] / 2


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point.does}-{point.path}-{point.within}")
def test_a_rebuild_that_is_killed_loses_nothing(point: KillPoint, tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    """Killed at any step of it, the process or the one that loads; the next one succeeds."""
    told = tmp_path / "told"
    where = {"does": point.does, "path": point.path, "within": point.within, "nth": 1, "alone": True}
    small.setenv("SEMCEP_KILL", json.dumps({**where, "told": str(told)}))
    warned: list[str] = []
    with closing(StoreProcess(tmp_path / "events", EventVocabulary(), warn=warned.append)) as store:
        first = identity(tmp_path)
        for _ in filled(store):
            pass
        wait_for_rebuild(store, tmp_path, first)
        assert told.exists() and store.restarts == (point.within != "_load")
        assert bool(warned) == (point.within == "_load"), "of a process that ended there is nobody to tell it"
        assert rows(store) == expected(tmp_path)
        store.verify().result()
    read(tmp_path)


def read(folder: Path) -> list[str]:
    """Open a store as its process does, hold its files against their hashes, and read all."""
    recover(str(folder / "events"))
    store = EventStore(str(folder / "events"), EventVocabulary())
    store.files.verify()
    return quads(store)


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A store and a new one that is complete, of which neither is open."""
    store = EventStore(str(tmp_path / "half" / "events"), EventVocabulary())
    for minute in range(4):
        store.add(beats(minute)[1].encode())
    rebuild = Rebuild(str(tmp_path / "half" / "events"))
    store.writer.log = rebuild.log
    store.store.dump(rebuild.dump, ox.RdfFormat.N_QUADS)
    store.add(beats(4)[1].encode())
    rebuild.load()
    sum(store.forget(stamp(3)))
    store.writer.flush()
    del store
    rebuild.complete()
    return tmp_path / "half"


def test_what_was_left_half_done_is_finished_or_undone(half: Path, tmp_path: Path) -> None:
    """Whatever the moment, the next start has all quads, and nothing else is in the folder."""
    first = read(Path(shutil.copytree(half, tmp_path / "first")))
    steps = [[], [("events", "events.old")]]
    steps.append([*steps[1], ("events.new.hashes", "events.hashes")])
    steps.append([*steps[2], ("events.new", "events")])
    for number, renamed in enumerate(steps):
        left = Path(shutil.copytree(half, tmp_path / str(number)))
        for one, other in renamed:
            os.replace(left / one, left / other)
        assert read(left) == first
        assert (identity(left) == identity(half)) == (number == 0)
        assert sorted(path.name for path in left.iterdir()) == ["events", "events.hashes"]
        shutil.rmtree(left / "events")
        assert read(left) == [], "the folder was removed, as the error of damage says"


def test_a_flipped_bit_in_a_rebuilt_store_is_noticed(half: Path, tmp_path: Path) -> None:
    """The tables have the numbers of others, so the hashes of those are gone."""
    swap(str(half / "events"))
    whole = read(Path(shutil.copytree(half, tmp_path / "whole")))
    tables = list((half / "events").glob("*.sst"))
    assert tables
    for number, path in enumerate(tables):
        for _, data in flipped(path.read_bytes(), 3, Random(number)):
            trial = Path(shutil.copytree(half, tmp_path / "trial"))
            (trial / path.relative_to(half)).write_bytes(data)
            with pytest.raises((Corruption, RuntimeError, OSError)):
                read(trial)
            shutil.rmtree(trial)
    assert read(half) == whole


@pytest.mark.parametrize("seed", range(4))
def test_what_changes_meanwhile_is_in_the_new_store(seed: int, tmp_path: Path) -> None:
    """Events that come, end and are withdrawn, with and without history, and knowledge with blank nodes and graphs.
    What the dump has is applied again."""
    random, path = Random(seed), str(tmp_path / "events")
    store, told = EventStore(path, EventVocabulary()), 0

    def change(minute: int) -> None:
        nonlocal told
        store.add(beats(minute)[1].encode())
        known = [KNOWN % ((n,) * 6) for n in random.choices(range(12), k=3)]
        store.learn(known[0], known[1] + known[2])
        ids = beats(max(0, minute - 1))[0]
        gone = tuple(random.sample(ids, 10))
        told += 1
        store.revise(StoreRevision(stamp(minute), told, gone, gone[:5], b"", random.random() < 0.5))
        if random.random() < 0.5:
            sum(store.forget(stamp(minute - 2)))

    for minute in range(3):
        change(minute)
    rebuild = Rebuild(path)
    store.writer.log = rebuild.log
    for minute in range(3, 6):
        change(minute)
    store.store.dump(rebuild.dump, ox.RdfFormat.N_QUADS)
    for minute in range(6, 8):
        change(minute)
    rebuild.log.flush()
    rebuild.load()
    for minute in range(8, 10):
        change(minute)
    whole, graphs = quads(store), sorted(map(str, store.store.named_graphs()))
    assert any("_:b" in each for each in whole) and graphs
    del store
    rebuild.complete()
    swap(path)
    store = EventStore(path, EventVocabulary())
    assert quads(store) == whole
    assert sorted(map(str, store.store.named_graphs())) == graphs


def test_without_room_the_store_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the store nor what is written to it fails for want of room for another one."""
    store = EventStore(str(tmp_path / "events"), EventVocabulary())
    with Path("/dev/full").open("wb", buffering=0) as full:
        store.writer.log = full
        store.add(beats(0)[1].encode())
        assert store.writer.log is None and len(store.store) > 300
    monkeypatch.setattr("cep.connectors.rdf.rebuild._LEFT", 1 << 60)
    with pytest.raises(OSError, match="room"):
        Rebuild(str(tmp_path / "events"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events", "events.hashes"]


def test_who_writes_more_than_can_be_loaded_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until all is loaded, so that the log of changes has a bound."""
    EventStore(str(tmp_path / "events"), EventVocabulary())
    monkeypatch.setattr("cep.connectors.rdf.rebuild._MANY", 100)
    rebuild = Rebuild(str(tmp_path / "events"))
    rebuild.log.write(b"." * 100)
    rebuild.keep_pace()
    rebuild.log.write(b".")
    writing = threading.Thread(target=rebuild.keep_pace)
    writing.start()
    assert writing.is_alive()
    rebuild.end()
    writing.join()
