"""The changes of the knowledge beside a store are a log like every other of ours."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from connectors.rdf.knowledge_files import Damaged, StoreChangeLog
from tests.damage import flipped

WRITTEN = Path(__file__).parent / "written_before" / "store"
CHANGES = [
    (b"<urn:s> <urn:p> <urn:x> .\n", b"<urn:s> <urn:p> <urn:y> .\n"),
    (b"", b"<urn:s> <urn:p> <urn:z> .\n<urn:s> <urn:p> <urn:w> .\n"),
]
NEXT = (b"<urn:a> <urn:b> <urn:c> .\n", b"")


def test_a_file_that_the_version_before_wrote_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "events.learned"
    shutil.copy(WRITTEN / "events.learned", path)
    before = path.read_bytes()
    log = StoreChangeLog(str(path))
    assert list(log.changes()) == CHANGES
    log.append(*NEXT)
    assert path.read_bytes().startswith(before)
    assert list(StoreChangeLog(str(path)).changes()) == [*CHANGES, NEXT]


def test_the_bytes_are_those_of_the_version_before(tmp_path: Path) -> None:
    log = StoreChangeLog(str(tmp_path / "learned"))
    for change in CHANGES:
        log.append(*change)
    assert log.path.read_bytes() == (WRITTEN / "events.learned").read_bytes()


def test_lines_of_an_earlier_version_are_read_but_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "learned"
    shutil.copy(WRITTEN / "lines.learned", path)
    log = StoreChangeLog(str(path))
    assert list(log.changes()) == [(CHANGES[0][0], b""), (b"", CHANGES[0][1])]
    log.remove()
    log.append(*NEXT)
    assert list(log.changes()) == [NEXT]


def test_a_torn_change_is_cut_off_before_the_next_one_is_added(tmp_path: Path) -> None:
    path = tmp_path / "learned"
    whole = (WRITTEN / "events.learned").read_bytes()
    for torn in (whole[:-3], whole[:-20] + bytes(20)):
        path.write_bytes(torn)
        assert list(StoreChangeLog(str(path)).changes()) == CHANGES[:1]
        StoreChangeLog(str(path)).append(*NEXT)
        assert list(StoreChangeLog(str(path)).changes()) == [CHANGES[0], NEXT]


def test_nothing_is_added_behind_damage(tmp_path: Path) -> None:
    path = tmp_path / "learned"
    for _, damaged in flipped((WRITTEN / "events.learned").read_bytes(), 40, Random(3)):
        path.write_bytes(damaged)
        with pytest.raises(Damaged, match="learned is damaged"):
            StoreChangeLog(str(path)).append(*NEXT)
        assert path.read_bytes() == damaged
