"""Logs on disk: what was added is read again, a torn end is cut off, damage is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cep.core.append_log import AppendLog, LineLog, RecordLog
from cep.core.checksum import MARK, Broken
from tests.damage import flipped

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
    data = path.read_bytes()
    first = kind(path)
    entries(first)
    last = first.places[-2]
    for _, damaged in flipped(data, 200, Random(0), until=last):
        path.write_bytes(damaged)
        log = kind(path)
        with pytest.raises(Broken) as caught:
            entries(log)
        assert len(log) <= caught.value.number < len(added) and path.read_bytes() == damaged
        if kind is RecordLog and damaged.startswith(MARK):  # the hashes of lines are looked at once
            with pytest.raises(Broken):
                first.read(0, 6)


def test_another_file_is_no_log_of_records(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for data in (b"", MARK[:3]):
        path.write_bytes(data)
        assert entries(RecordLog(path)) == [], "it was just begun"
    for data in (b"something else", b"x" + MARK[1:] + b"more"):
        path.write_bytes(data)
        with pytest.raises(Broken):
            entries(RecordLog(path))


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
