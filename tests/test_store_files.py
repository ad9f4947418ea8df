"""Damage in the files of a store is noticed, whatever the file, and a kill is not taken for damage."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from cep.connectors.rdf import quad_writer
from cep.connectors.rdf.store import EventStore
from cep.connectors.rdf.store_files import Corruption, StoreFiles
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import EventVocabulary
from tests.damage import flipped
from tests.waiting import until


def lines(first: int, count: int) -> bytes:
    return b"".join(b'<urn:s%d> <urn:p%d> "a text, number %d" .\n' % (n, n % 7, n) for n in range(first, first + count))


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store that was killed: tables, two of which were loaded at once, and a log of 400 lines."""
    monkeypatch.setattr(quad_writer, "_IN_MEMORY", 2_000)
    store = EventStore(str(tmp_path / "open" / "events"), EventVocabulary())
    store.add(lines(0, quad_writer.MANY))
    for first in range(quad_writer.MANY, quad_writer.MANY + 6_000, 500):
        store.add(lines(first, 500))
    store.settle()
    for first in range(50_000, 52_400, 400):
        store.add(lines(first, 400))
    store.files.note()
    return Path(shutil.copytree(tmp_path / "open", tmp_path / "killed"))


def read(folder: Path) -> list[str]:
    """Open a store, then ask for everything in it."""
    store = EventStore(str(folder / "events"), EventVocabulary())
    store.files.verify()
    return sorted(str(quad) for quad in store.store)


def test_a_flipped_bit_in_any_file_is_noticed_or_changes_nothing(left: Path, tmp_path: Path) -> None:
    whole = read(Path(shutil.copytree(left, tmp_path / "whole")))
    assert len(whole) == quad_writer.MANY + 6_000 + 2_400
    files = [path for path in left.rglob("*") if path.is_file() and path.stat().st_size]
    kinds = {path.suffix or path.name.partition("-")[0] for path in files}
    assert {".sst", ".log", ".hashes", "MANIFEST", "CURRENT", "IDENTITY", "OPTIONS"} <= kinds
    noticed = dict.fromkeys(kinds, 0)
    for number, path in enumerate(files):
        for place, data in flipped(path.read_bytes(), 3, Random(number)):
            trial = Path(shutil.copytree(left, tmp_path / "trial"))
            (trial / path.relative_to(left)).write_bytes(data)
            try:
                assert read(trial) == whole, (path.name, place)
            except (Corruption, RuntimeError, OSError):
                noticed[path.suffix or path.name.partition("-")[0]] += 1
            shutil.rmtree(trial)
    assert noticed[".sst"] == 3 * sum(path.suffix == ".sst" for path in files), "also in what nobody reads"
    assert noticed[".log"] and noticed["MANIFEST"] and noticed["CURRENT"] == 3


def test_what_was_not_noted_is_not_damaged(left: Path, tmp_path: Path) -> None:
    """Files that were written right before the end of the process, those that have gone, and a folder of the version
    before."""
    whole = read(Path(shutil.copytree(left, tmp_path / "whole")))
    assert read(tmp_path / "whole") == whole, "the log is a table now"
    (left / "events.hashes").unlink()
    assert read(left) == whole
    files = StoreFiles(str(left / "events"))
    files.note()
    tables = sorted(path.name for path in (left / "events").glob("*.sst"))
    (left / "events" / "999999.sst").write_bytes(b"half a table")
    files.note()
    assert sorted(name for name in files._notes if name.endswith(".sst")) == tables
    shutil.rmtree(left / "events")
    assert read(left) == [], "the folder was removed, as the error says"
    assert not {*tables} & {*StoreFiles(str(left / "events"))._notes}


@pytest.mark.long
def test_kills_are_no_damage(tmp_path: Path) -> None:
    """Kill the store's process while it loads, writes, removes and merges; verify the files each time."""
    random, number = Random(7), 0
    with closing(StoreProcess(tmp_path / "events", EventVocabulary())) as store:
        for turn in range(8):
            for _ in range(12):
                count = random.choice((300, 3_000, quad_writer.MANY))
                store.add(lines(number, count).decode())
                number += count
                store.written()
            if turn % 3 == 2:
                store.settle()
            os.kill(store.process, signal.SIGKILL)
            until(lambda turn=turn: store.restarts == turn + 1, "another process", every=0.01)
            store.verify().result()
            store.flush()
            assert (tmp_path / "events.hashes").stat().st_size < 1 << 20
    assert len(read(tmp_path)) == number
