"""The folder of a sink: away with files that a killed run or task left, which no finished micro-batch has written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cep.spark.sink.commit_log import LOG, CommitLog, place


def sweep(folder: Path) -> list[Path]:
    """Finish the micro-batches that count, and remove the files that none has written which does, so that whoever reads
    the folder finds each event once. Not while tasks write. CepError: a file that counts is gone."""
    if not folder.is_dir():
        return []
    ledger = CommitLog(folder)
    ledger.settle()
    kept = {place(line) for line in ledger.lines()}
    kept.update(ledger.leaving())
    gone = [folder / name for name in sorted(set(_written(folder)) - kept)]
    for path in gone:
        path.unlink()
    if ledger.there:
        hidden(folder / LOG)
    return gone


def missing(folder: Path) -> list[Path]:
    """The files that count, and are gone. CepError: the log is damaged."""
    there = set(_written(folder)) if folder.is_dir() else set()
    return [folder / name for name in dict.fromkeys(map(place, CommitLog(folder).lines())) if name not in there]


def hidden(folder: Path, begin: str = "") -> None:
    """Remove files that were not yet whole when their writer was killed, of names that `begin` so. Not while anyone
    writes such."""
    if folder.is_dir():
        for name in os.listdir(folder):
            if name.startswith(f".{begin}"):
                (folder / name).unlink(missing_ok=True)


def _written(folder: Path) -> Iterator[str]:
    """All files of data, with their checksums, as the log has them."""
    with os.scandir(folder) as found:
        for one in found:
            if one.name.lstrip(".").startswith("part-") and one.is_file():
                yield one.name
            elif one.name.startswith("type=") and one.is_dir():
                yield from (f"{one.name}/{name}" for name in _written(Path(one.path)))
