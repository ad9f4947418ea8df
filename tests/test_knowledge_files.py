"""The changes of the knowledge beside a store are a log like every other of ours."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from cep.connectors.rdf.knowledge_files import Damaged, StoreChangeLog
from cep.core import checksum
from tests.damage import flipped

CHANGES = [
    (b"<urn:s> <urn:p> <urn:x> .\n", b"<urn:s> <urn:p> <urn:y> .\n"),
    (b"", b"<urn:s> <urn:p> <urn:z> .\n<urn:s> <urn:p> <urn:w> .\n"),
]
NEXT = (b"<urn:a> <urn:b> <urn:c> .\n", b"")


def logged() -> bytes:
    """The bytes of a log of these changes."""
    records = [checksum.record(gone, come) for gone, come in CHANGES]
    return b"".join([checksum.MARK, *records])


def test_changes_are_removed_and_begin_anew(tmp_path: Path) -> None:
    log = StoreChangeLog(str(tmp_path / "learned"))
    for change in CHANGES:
        log.append(*change)
    assert log.path.read_bytes() == logged() and list(log.changes()) == CHANGES
    log.remove()
    log.append(*NEXT)
    assert list(log.changes()) == [NEXT]


def test_a_torn_change_is_cut_off_before_the_next_one_is_added(tmp_path: Path) -> None:
    path = tmp_path / "learned"
    whole = logged()
    for torn in (whole[:-3], whole[:-20] + bytes(20)):
        path.write_bytes(torn)
        assert list(StoreChangeLog(str(path)).changes()) == CHANGES[:1]
        StoreChangeLog(str(path)).append(*NEXT)
        assert list(StoreChangeLog(str(path)).changes()) == [CHANGES[0], NEXT]


def test_nothing_is_added_behind_damage(tmp_path: Path) -> None:
    path = tmp_path / "learned"
    for _, damaged in flipped(logged(), 40, Random(3)):
        path.write_bytes(damaged)
        with pytest.raises(Damaged, match="learned is damaged"):
            StoreChangeLog(str(path)).append(*NEXT)
        assert path.read_bytes() == damaged
