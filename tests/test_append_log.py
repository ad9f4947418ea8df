"""Logs on disk: what was added is read again, a torn end is cut off, damage is found, also in older files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cep.core.append_log import AppendLog, LineLog, RecordLog
from cep.core.checksum import MARK, Broken
from cep.engine import Engine
from cep.spark.source.file_list import FileList
from cep.spark.source.knowledge_changes import FileChangeLog
from cep.spark.source.message_log import MessageLog
from connectors.batch import DeadLetter
from connectors.inputs import Input
from connectors.journal import Journal
from connectors.mqtt import Arrival
from tests.damage import flipped

WRITTEN = Path(__file__).parent / "written_before"
"""By the version before, each with a torn end: a journal, the messages of a live input, files and changes."""

PROGRAM = "event reading(fridge: string, temp: float) TIME time.\nwarm(F) <- reading(F, T) WHERE T > 8.0."

Entry = Any

KINDS: tuple[tuple[Callable[[Path], Any], list[Entry]], ...] = (
    (RecordLog, [(b"head %d" % n, b"body" * n) for n in range(6)]),
    (LineLog, [{"number": n, "name": "ä" * n} for n in range(6)]),
)


def entries(log: AppendLog[Any]) -> list[Any]:
    return list(log.unread())


@pytest.mark.parametrize(("kind", "added"), KINDS)
def test_what_was_added_is_read_again(kind: Callable[[Path], Any], added: list[Entry], tmp_path: Path) -> None:
    path = tmp_path / "log"
    one, other = kind(path), kind(path)
    assert entries(one) == [] and len(one) == 0
    one.append(added[:2])
    one.append([])
    assert entries(other) == added[:2] and entries(one) == [], "who added them knows them"
    one.append(added[2:5])
    assert entries(other) == added[2:5] and other.read(1, 4) == added[1:4] and other.read(3, 3) == []
    assert list(one.places) == list(other.places) and other.size == path.stat().st_size
    one.close()
    one.append(added[5:])
    assert entries(kind(path)) == added == one.read(0, 6)
    one.move(tmp_path / "renamed")
    one.append(added[:1])
    assert entries(kind(tmp_path / "renamed")) == [*added, added[0]] and not path.exists()


@pytest.mark.parametrize(("kind", "added"), KINDS)
def test_a_torn_end_is_cut_off_before_the_next_entry(
    kind: Callable[[Path], Any], added: list[Entry], tmp_path: Path
) -> None:
    path = tmp_path / "log"
    kind(path).append(added[:3])
    data, places = path.read_bytes(), None
    for size in range(len(data)):
        path.write_bytes(data[:size])
        log = kind(path)
        places = entries(log)
        assert places == added[: len(places)] and path.read_bytes() == data[:size], "reading cuts nothing off"
        log.append(added[3:])
        assert entries(kind(path)) == [*places, *added[3:]]
    assert places == added[:2]


@pytest.mark.parametrize(("kind", "added"), KINDS)
def test_damage_is_found_and_nothing_is_cut_off(
    kind: Callable[[Path], Any], added: list[Entry], tmp_path: Path
) -> None:
    path = tmp_path / "log"
    kind(path).append(added)
    data, begin = path.read_bytes(), len(kind(path).MARK)  # who opens it asks first what it begins with
    first = kind(path)
    entries(first)
    last = first.places[-2]
    for bit, damaged in flipped(data, 200, Random(0), until=last):
        if bit < begin * 8:
            continue
        path.write_bytes(damaged)
        log = kind(path)
        with pytest.raises(Broken) as caught:
            entries(log)
        assert len(log) <= caught.value.number < len(added) and path.read_bytes() == damaged
        if kind is RecordLog:  # the hashes of lines are looked at once
            with pytest.raises(Broken):
                first.read(0, 6)


def test_what_begins_a_log_of_records_is_known(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for data, known in ((b"", True), (MARK[:3], True), (MARK + b"more", True), (b"something else", False)):
        path.write_bytes(data)
        assert RecordLog.wrote(path) is known
    path.write_bytes(b"x" + MARK[1:])
    with pytest.raises(Broken):
        RecordLog.wrote(path)


def test_an_entry_that_could_not_be_written_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, added in KINDS:
        log = kind(tmp_path / kind.__name__)
        log.append(added[:1])
        with monkeypatch.context() as full:
            full.setattr("os.fsync", _fails)
            with pytest.raises(OSError, match="full"):
                log.append(added[1:3])
        log.append(added[3:])
        assert entries(kind(log.path)) == [added[0], *added[3:]]


def _fails(file: int) -> None:
    raise OSError(28, "the disk is full")


def test_a_journal_of_the_version_before_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    shutil.copytree(WRITTEN / "journal", folder)
    schemas = Engine.from_text(PROGRAM).inputs
    with closing(Journal(folder, schemas)) as journal:
        assert (journal.snapshot(), journal.first, journal.behind) == (b"a snapshot", 6, 6)
        assert {source: dict(place) for source, place in journal.places.items()} == {"reading=x": {0: 6}}
        first, second, empty = journal.replayed()
        assert first.tables["reading"]["fridge"].to_list() == ["a", "b"] and first.place == {0: 4}
        assert second.dead == [DeadLetter("x/0", 7, "it is no record", "json", "{")] and not empty.tables
        journal.add(second)
    with closing(Journal(folder, schemas)) as journal:
        assert len(list(journal.replayed())) == 4
        journal.save(b"another")
    with closing(Journal(folder, schemas)) as journal:
        assert journal.snapshot() == b"another" and journal.first == 6 and not list(journal.replayed())


def test_messages_of_the_version_before_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "messages"
    shutil.copytree(WRITTEN / "messages", folder)
    wanted = [Arrival("rooms", b"%d" % n, n, 1) for n in range(6)]
    with closing(MessageLog(folder)) as log:
        assert log.end == 6 and log.read(0, 6) == wanted
        assert set(log.known()) == set(range(6))
        log.append([Arrival("rooms", b"6", 6, 1)])
    with closing(MessageLog(folder)) as log:
        assert log.read(4, 7) == [*wanted[4:], Arrival("rooms", b"6", 6, 1)]
        log.forget(4)
        assert len(list(folder.glob("*.mail"))) == 1 and set(log.known()) == set(range(7))


def test_files_and_changes_of_the_version_before_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(WRITTEN / "checkpoint", folder)
    files = FileList(str(folder / "files.jsonl"))
    assert files.known == {"/in/ä.jsonl", "/in/2.csv", "/in/3.jsonl"}
    assert [one.number for one in files.entries(0, 3)] == [1 << 22, 0, 1]
    assert files.extend([(0, Input("/in/4.jsonl", "jsonl", None, False))]) == 4
    again = FileList(str(folder / "files.jsonl"))
    assert [one.path for one in again.entries(2, 4)] == ["/in/3.jsonl", "/in/4.jsonl"]
    assert again.entries(3, 4)[0].number == 2
    (first, second) = FileChangeLog(folder, []).lines(0, 2)
    assert first["files"]["updates.nq"]["bytes"] == 153 and len(second["refused"]) == 2 and set(first) == set(second)
