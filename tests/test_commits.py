"""The log of the sink: which files count, for whoever reads them, whatever micro-batch is committed again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pytest

from cep.core.errors import CepError
from cep.core.schema import Attribute, Schema
from cep.spark import disk, spark_files
from cep.spark.disk import SINK_LOG
from cep.spark.sink import commit_log
from cep.spark.sink.commit_log import COMING, COMPACTED, CommitLog, OutputFile, file_name
from cep.spark.sink.file_sink import FileSinkOptions, FileWriter, agree, finish_batches
from cep.spark.sink.reader import SinkReader
from cep.spark.spark_files import sync_batch
from tests import spark_runs

pytestmark = [
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]


FOUND = Schema("found", (Attribute("x", "int"),), True, True)


def written(folder: Path, name: str, rows: int, end: int | None = None) -> OutputFile:
    path = folder / f"part-{name}.parquet"
    at = CommitLog(folder).coming(path.name)
    at.parent.mkdir(parents=True, exist_ok=True)
    times = [end or 0] * rows
    columns = {"start": times, "end": times, "x": range(rows)}
    pl.DataFrame(
        columns, schema={"start": pl.Datetime("us", "UTC"), "end": pl.Datetime("us", "UTC"), "x": pl.Int64}
    ).write_parquet(at)
    return OutputFile.of(at, path, {"found": rows} if rows else {}, end)


@pytest.mark.long
def test_files_of_micro_batches_count_once(tmp_path: Path) -> None:
    writer = FileWriter(FileSinkOptions(str(tmp_path), "parquet", {"found": FOUND}, frozenset()))
    counting = set()
    for batch in range(2 * COMPACTED + 3):
        mine = [written(tmp_path, f"{task}-{batch}", 0 if task == 0 else batch) for task in range(2)]
        writer.commit(mine, batch)
        again = written(tmp_path, f"again-{batch}", 5)
        writer.commit([again], batch)
        assert not Path(again.path).exists() and not list((tmp_path / SINK_LOG / COMING).iterdir())
        counting |= {Path(one.path) for one in mine if one.rows or batch == 0}
        assert (
            {tmp_path / file_name(line) for line in CommitLog(tmp_path).lines()}
            == counting
            == set(tmp_path.glob("part-*"))
        )
    assert CommitLog(tmp_path).totals() == {"found": sum(range(2 * COMPACTED + 3))}
    numbers = sorted(int(file.name.partition(".")[0]) for file in (tmp_path / SINK_LOG).glob("[0-9]*"))
    assert numbers == list(range(COMPACTED - 1, 2 * COMPACTED + 3))
    assert spark_runs.spark().read.parquet(str(tmp_path)).count() == sum(range(2 * COMPACTED + 3))


@pytest.mark.long
def test_a_long_log_is_written_rarely_and_old_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its readers go on: Spark, which finds whole entries by the way between two of them, and a server that follows."""
    monkeypatch.setattr(commit_log, "LONG", 1)
    monkeypatch.setattr(commit_log, "WIDEST", 40)
    log, folder = tmp_path / SINK_LOG, SinkReader(str(tmp_path), {"found": FOUND})
    read: list[int] = []
    whole: list[int] = []

    def server() -> None:
        for batch in folder.new():
            read.extend(batch.tables["found"]["end"].to_list())

    for batch in range(200):
        one = CommitLog(tmp_path)  # each micro-batch is committed by a process that knows of no other
        one.add(batch, [written(tmp_path, f"00000-{batch:032x}", 1, batch)], keep=50 if batch > 100 else None)
        if (log / f"{batch}.compact").exists():
            whole.append(batch)
        if batch % 7 == 0 and batch < 180:
            server()
        if batch in (8, 25, 45, 79, 81, 130, 199):
            paths = [f"{tmp_path}/{file_name(line)}" for line in one.lines()]
            there = spark_runs.spark().read.parquet(str(tmp_path)).inputFiles()
            assert sorted(there) == sorted(f"file://{path}" for path in paths)
            assert all(Path(path).exists() for path in paths)
    assert whole == [9, 19, 29, 39, 59, 79, 119, 159, 199]
    assert len(list(log.iterdir())) < 60, "one entry each since the one before the last whole one"
    ends = sorted(int(file_name(line)[11:43], 16) for line in one.lines())
    assert ends == list(range(149, 200)), "50 before the last, when that was written as a whole"
    leaving = {int(name[11:43], 16) for name in one.leaving()}
    assert leaving == set(range(109, 149)), "they may still be read"
    assert {int(path.name[11:43], 16) for path in tmp_path.glob("part-*")} == leaving | set(ends)
    assert one.totals() == {"found": 200}
    server()
    assert read == list(range(200)) and len(folder._seen) == len(ends)
    late = SinkReader(str(tmp_path), {"found": FOUND})
    for name in sorted(one.leaving())[:3] + [file_name(next(one.lines()))]:
        (tmp_path / name).unlink()
    with pytest.raises(CepError, match="no such file"):
        list(late.new())
    with pytest.raises(CepError, match="ends with micro-batch 199, but 200 was finished"):
        agree(spark(tmp_path / "state", range(201), range(202)), tmp_path)
    assert finish_batches(tmp_path) == []


def spark(checkpoint: Path, finished: range, begun: range) -> Path:
    """Spark's own logs: of micro-batches that each take the next file."""
    for log, numbers in (("commits", finished), ("offsets", begun)):
        (checkpoint / "spark" / log).mkdir(parents=True, exist_ok=True)
        for number in numbers:
            entry = f'v1\n{{"batchWatermarkMs":{number},"batchTimestampMs":{id(numbers)}}}\n{{"files": {number}}}'
            (checkpoint / "spark" / log / str(number)).write_text(entry)
    return checkpoint / "spark"


def test_what_a_killed_run_left_goes_and_what_is_left_of_it_adds_nothing(tmp_path: Path) -> None:
    out, state = tmp_path / "out", tmp_path / "state"
    out.mkdir()
    own = spark(state, range(0), range(4))
    with disk.locked(state):
        outlet = FileSinkOptions(
            str(out), "parquet", {"found": FOUND}, frozenset(), None, str(state), disk.holder(state)
        )
        writer = FileWriter(outlet)
        writer.commit([written(out, "0", 3)], 0)
        with pytest.raises(CepError, match="in use"):
            disk.locked(state)
        failed = written(out, "failed", 9)
        writer.commit([written(out, "1", 4)], 1)
        writer.commit([written(out, "1 again", 4)], 1)
        assert not Path(failed.path).exists(), "a task was done again, and had written before"
        spark(state, range(2), range(1, 2))  # planned anew, at another time
        writer.commit([written(out, "1 once more", 4)], 1)
        (own / "offsets" / "1").write_text((own / "offsets" / "2").read_text())
        with pytest.raises(CepError, match=r"micro-batch 1 is already in the log of .*, with other input"):
            writer.commit([written(out, "1 otherwise", 5)], 1)
    taken: list[str] = []

    def take() -> None:
        with disk.locked(state):
            taken.append(disk.holder(state))

    with disk.exclusive(state, outlet.holder):  # it is at the end of a micro-batch
        other = Thread(target=take)
        other.start()
        other.join(0.3)
        assert disk.holder(state) == outlet.holder and not taken
    other.join()
    assert taken == [disk.holder(state)] != [outlet.holder]
    with pytest.raises(CepError, match="another run has taken over"):
        writer.commit([written(out, "2", 5)], 2)
    (out / SINK_LOG / ".2.tmp").touch()
    (out / "part-3.parquet").touch()
    assert [path.name for path in finish_batches(out)] == ["part-3.parquet"]
    assert CommitLog(out).totals() == {"found": 7} and not list((out / SINK_LOG).glob(".*"))
    assert {path.name for path in out.glob("part-*")} == {"part-0.parquet", "part-1.parquet"}
    assert not list((out / SINK_LOG / COMING).iterdir())


def test_a_micro_batch_counts_whole_or_not_at_all_wherever_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before each of its steps: no reader ever finds what will not count, and the next run ends what counts."""
    real, steps = (os.replace, os.unlink), 0

    class Killed(BaseException):
        pass

    def cut(after: int) -> bool:
        """Whether it was killed before so many more changes of names."""
        left = [after]

        def counted(do: Callable[..., None]) -> Callable[..., None]:
            def step(*paths: Any, **options: Any) -> None:
                if not left[0]:
                    raise Killed
                left[0] -= 1
                do(*paths, **options)

            return step

        monkeypatch.setattr(os, "replace", counted(real[0]))
        monkeypatch.setattr(os, "unlink", counted(real[1]))
        try:
            writer.commit([written(folder, f"{task}-1", 2) for task in range(2)], 9)
        except Killed:
            return True
        finally:
            monkeypatch.setattr(os, "replace", real[0])
            monkeypatch.setattr(os, "unlink", real[1])
        return False

    while True:
        folder = tmp_path / str(steps)
        writer = FileWriter(FileSinkOptions(str(folder), "parquet", {"found": FOUND}, frozenset()))
        for batch in range(9):
            writer.commit([written(folder, f"0-{batch}-0", 1)], batch)
        killed = cut(steps)
        commit_log, files = CommitLog(folder), set(folder.glob("part-*"))
        assert all((folder / file_name(line)).exists() for line in commit_log.lines())
        counts = commit_log.last == 9
        assert counts or len(files) == 9
        finish_batches(folder)
        assert {folder / file_name(line) for line in commit_log.lines()} == set(folder.glob("part-*")) >= files
        assert len(set(folder.glob("part-*"))) == 9 + 2 * counts and commit_log.entered == commit_log.last
        writer.commit([written(folder, f"{task}-2", 2) for task in range(2)], 9)
        assert commit_log.totals() == {"found": 13} and len(set(folder.glob("part-*"))) == 11
        assert not list((folder / SINK_LOG / COMING).iterdir())
        if not killed:
            break
        steps += 1
    assert steps == 5, "a note, two files, an entry, and away with an old note"


def test_folders_of_two_times_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(CepError, match=r"the log of .*out, _spark_metadata, is missing"):
        agree(spark(tmp_path / "state", range(3), range(4)), out)
    for batch in range(4):
        CommitLog(out).add(batch, [])
    for finished, begun, first in ((3, 4, 0), (4, 4, 0), (4, 5, 0), (1, 2, 2), (0, 0, 4)):
        agree(spark(tmp_path / f"{finished}-{begun}", range(finished), range(begun)), out, first)
    with pytest.raises(CepError, match=r"ends with micro-batch 2, but 3 is written in .*out"):
        agree(spark(tmp_path / "older", range(3), range(3)), out)
    with pytest.raises(CepError, match="ends with micro-batch 3, but 4 was finished"):
        agree(spark(tmp_path / "newer", range(3), range(3)), out, 2)
    shutil.rmtree(out)  # while it runs
    with pytest.raises(CepError, match="has micro-batches up to -1, but the next one is 4"):
        CommitLog(out).add(4, [])


def test_files_that_are_sent_leave_the_log(tmp_path: Path) -> None:
    for batch in range(45):
        one = written(tmp_path, f"{batch}", 2)
        CommitLog(tmp_path).add(batch, [one], passing=True)
        if batch not in (3, 17):  # the broker was not there
            Path(one.path).unlink()
    numbers = [int(file_name(line)[5:-8]) for line in CommitLog(tmp_path).lines()]
    assert numbers == [3, 17, *range(39, 45)] and CommitLog(tmp_path).totals() == {"found": 90}


def test_what_counts_is_on_disk_and_what_a_cut_of_power_emptied_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, out, synced = spark(tmp_path / "state", range(6, 7), range(6, 8)), tmp_path / "out", list[str]()
    (own / "metadata").write_text("v1")
    for batch in range(7):
        CommitLog(out).add(batch, [])
    monkeypatch.setattr(spark_files, "sync", lambda file: synced.append(Path(file.name).name))
    monkeypatch.setattr(spark_files, "sync_names", lambda folder: synced.append(folder.name))
    monkeypatch.setattr(commit_log, "sync_names", lambda folder: synced.append(folder.name))
    outlet = FileSinkOptions(str(out), "parquet", {"found": FOUND}, frozenset(), None, str(tmp_path / "state"))
    FileWriter(outlet).commit([], 7)
    assert synced == ["7", "offsets", SINK_LOG] and CommitLog(out).last == 7
    assert not spark_files.remove_spoilt(own)
    for name in ("commits/5", "commits/7", "commits/.7.crc", "offsets/8", "offsets/9", "offsets/.6.crc", "metadata"):
        (own / name).write_text("")
    (own / "offsets" / ".9.crc").write_text("of what a run has removed that was killed then")
    (own / "offsets" / ".10.crc").write_text("of what a run has removed that was killed then")
    spark_files.remove_spoilt(own)
    left = [sorted(path.name for path in (own / log).iterdir()) for log in ("offsets", "commits")]
    assert left == [["6", "7"], ["6"]] and not (own / "metadata").exists()
    synced.clear()
    sync_batch(own, 0)
    assert sorted(synced) == ["6", "6", "7", "offsets"], "all that is there"
