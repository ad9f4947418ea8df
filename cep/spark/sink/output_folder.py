"""The folder of a sink: away with files that a killed run or task left, which no finished micro-batch has written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cep.core.errors import CepError
from cep.spark.sink.commit_log import CommitLog, place
from cep.spark.storage import spark_files
from cep.spark.storage.disk import BACK, remove_hidden
from cep.spark.storage.layout import SINK_LOG


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
        remove_hidden(folder / SINK_LOG)
    return gone


def missing(folder: Path) -> list[Path]:
    """The files that count, and are gone. CepError: the log is damaged."""
    there = set(_written(folder)) if folder.is_dir() else set()
    return [folder / name for name in dict.fromkeys(map(place, CommitLog(folder).lines())) if name not in there]


def agree(folder: Path, output: Path, first: int = 0) -> None:
    """See that the log of the sink and Spark's, of which the first micro-batch is the sink's `first`, are of one time.
    CepError: Spark has finished micro-batches that the log has not, or would plan some anew that are in it."""
    ledger = CommitLog(output)
    done, begun = first + spark_files.last(folder / "commits"), first + spark_files.last(folder / "offsets")
    if done > ledger.last:
        there = f"ends with micro-batch {ledger.last}, and {done} was finished" if ledger.there else "is missing"
        raise CepError(f"--output: the log of {output}, {SINK_LOG}, {there}", hint=BACK, code="checkpoint")
    if ledger.last > begun:
        told = f"--checkpoint: {folder} ends with micro-batch {begun}, and {ledger.last} is written in {output}"
        raise CepError(told, hint=BACK, code="checkpoint")


def _written(folder: Path) -> Iterator[str]:
    """All files of data, with their checksums, as the log has them."""
    with os.scandir(folder) as found:
        for one in found:
            if one.name.lstrip(".").startswith("part-") and one.is_file():
                yield one.name
            elif one.name.startswith("type=") and one.is_dir():
                yield from (f"{one.name}/{name}" for name in _written(Path(one.path)))
