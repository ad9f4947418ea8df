"""The folder of a sink: what a killed run or task has left is removed, and it is compared with Spark's checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cep.core.errors import CepError
from cep.spark.sink.commit_log import CommitLog, file_name
from cep.spark.storage import spark_files
from cep.spark.storage.disk import BACK, remove_hidden
from cep.spark.storage.layout import SINK_LOG


def finish_batches(folder: Path) -> list[Path]:
    """Finish the micro-batches that count, and remove all files of others, so that a reader of the folder finds each
    event once. Not while tasks write. Gives what was removed. CepError: a file that counts is missing."""
    if not folder.is_dir():
        return []
    log = CommitLog(folder)
    log.settle()
    listed = {file_name(line) for line in log.lines()}
    listed.update(log.leaving())
    gone = [folder / name for name in sorted(set(_written(folder)) - listed)]
    for path in gone:
        path.unlink()
    if log.there:
        remove_hidden(folder / SINK_LOG)
    return gone


def missing_files(folder: Path) -> list[Path]:
    """The files that count, and are missing. CepError: the log is damaged."""
    there = set(_written(folder)) if folder.is_dir() else set()
    return [folder / name for name in dict.fromkeys(map(file_name, CommitLog(folder).lines())) if name not in there]


def agree(folder: Path, output: Path, first: int = 0) -> None:
    """Make sure that the log of the sink and Spark's logs in a folder are of one time; `first`: the number of Spark's
    first micro-batch in the log. CepError: Spark has finished micro-batches that the log does not have, or would plan
    anew some that it has."""
    log = CommitLog(output)
    done, begun = first + spark_files.last(folder / "commits"), first + spark_files.last(folder / "offsets")
    if done > log.last:
        there = f"ends with micro-batch {log.last}, and {done} was finished" if log.there else "is missing"
        raise CepError(f"--output: the log of {output}, {SINK_LOG}, {there}", hint=BACK, code="checkpoint")
    if log.last > begun:
        message = f"--checkpoint: {folder} ends with micro-batch {begun}, and {log.last} is written in {output}"
        raise CepError(message, hint=BACK, code="checkpoint")


def _written(folder: Path) -> Iterator[str]:
    """The names of all files of data, and of their check sums."""
    with os.scandir(folder) as found:
        for one in found:
            if one.name.lstrip(".").startswith("part-") and one.is_file():
                yield one.name
            elif one.name.startswith("type=") and one.is_dir():
                yield from (f"{one.name}/{name}" for name in _written(Path(one.path)))
