"""What a micro-batch begins with, by the note of the one before it; and what its tasks hand on."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark")

from cep.core.errors import CepError
from cep.spark import handover
from cep.spark.claims import Claims
from cep.spark.driver import reports
from cep.spark.handed_blocks import HandedBlocks, of_rows
from cep.spark.handover import ALL, FEW, as_row, share
from cep.spark.micro_batch import every
from cep.spark.outbox import Outbox
from cep.spark.shuffle_blocks import END, TIME, ShuffleBlock
from cep.spark.state.batch_notes import KEPT, BatchNote, BatchNotes
from cep.spark.state.bucket_states import begin
from cep.spark.tasks import BucketInput, TaskInput, TaskOutput
from tests.damage import cut, flipped


def test_notes_say_what_is_there_after_a_micro_batch(tmp_path: Path) -> None:
    begin(tmp_path / "states", "run")
    notes = BatchNotes(tmp_path / "states")
    assert notes.after(-1) == BatchNote()
    for batch in range(2 * KEPT):
        calls = {"1-0000": 5 if batch % 2 else None, "1-0001": 7}
        note = notes.after(batch - 1).after({"1-0000": batch + 1}, calls, [f"of {batch}"])
        notes.write(batch, note)
        assert BatchNotes(tmp_path / "states").after(batch) == note
    assert note.calls == {"1-0000": 5, "1-0001": 7} and note.versions == {"1-0000": 2 * KEPT}
    again = BatchNotes(tmp_path / "states")
    before = again.after(2 * KEPT - 2)
    assert before.calls == {"1-0001": 7}, "one that sleeps is not there"
    again.write(2 * KEPT - 1, before.after({}, {}, []))
    assert BatchNotes(tmp_path / "states").after(2 * KEPT - 1).versions == {"1-0000": 2 * KEPT - 1}, "done again"
    with pytest.raises(CepError, match="batch-00000002 is missing: it is a part of the state"):
        BatchNotes(tmp_path / "states").after(KEPT - 1)
    with pytest.raises(CepError, match="batch-00000009 is missing"):
        BatchNotes(tmp_path / "states").after(9)


def test_a_note_that_is_not_what_was_written_is_told(tmp_path: Path) -> None:
    for run in ("one", "two"):
        begin(tmp_path / run, run)
        notes = BatchNotes(tmp_path / run)
        for batch in range(2):
            notes.write(batch, BatchNote({"1-0000": batch}, {"1-0000": 9}, ["report"]))
    path = tmp_path / "one" / "batch-00000001"
    data = path.read_bytes()
    every = [damaged for _, damaged in flipped(data, 200, Random(1))] + list(cut(data, Random(2)))
    every += [(tmp_path / "two" / path.name).read_bytes(), path.with_name("batch-00000000").read_bytes()]
    for damaged in every:
        path.write_bytes(damaged)
        with pytest.raises(CepError, match=f"{path} is damaged"):
            BatchNotes(tmp_path / "one").after(1)


def test_what_is_handed_on_arrives(tmp_path: Path) -> None:
    random = Random(3)
    for size in (0, 10, FEW // 3, FEW + 1):
        blocks = [ShuffleBlock(1, n, "e", 7, "f", random.randbytes(size), n) for n in range(5)]
        (row,) = as_row(lambda _, some=blocks: [*some, ShuffleBlock(TIME, 0, latest=END)], None, str(tmp_path))
        assert row.column("time").cast("int64").to_pylist() == [END]
        came = of_rows(row.column("blocks").to_pylist())
        assert [(one.bucket, one.rows) for one in came] == [(one.bucket, one.rows) for one in blocks]
        assert len(list(tmp_path.iterdir())) == (5 * size > FEW), "little goes through the driver"
        handover.clear(tmp_path)
    handover.begin(tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())


def test_what_is_too_much_for_the_driver_is_all_in_a_file(tmp_path: Path) -> None:
    outbox = Outbox(str(tmp_path), FEW)
    for number in range(1000):
        outbox.add(ShuffleBlock(1, number, "e", 7, "f", bytes(1000), 0))
    handed = outbox.close()
    assert [one.bucket for one in handed] == list(range(1000))
    assert len(pickle.dumps(handed)) < 100_000
    assert {one.rows for one in handed} == {bytes(1000)}


def test_what_was_handed_on_and_is_damaged_is_told(tmp_path: Path) -> None:
    outbox = Outbox(str(tmp_path), FEW)
    for bucket in range(2):
        outbox.add(ShuffleBlock(1, bucket, "e", 7, None, bytes(FEW), 0))
    every: HandedBlocks = pickle.loads(pickle.dumps(outbox.close()))
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    for _, damaged in flipped(data, 20, Random(1)):
        path.write_bytes(damaged)
        with pytest.raises(CepError, match=f"{path.name}.* is missing or damaged"):
            list(every)
    path.unlink()
    with pytest.raises(CepError, match="is missing or damaged"):
        list(every)
    with pytest.raises(CepError, match=r"--checkpoint: .*cannot be written"):
        gone = Outbox(str(tmp_path / "gone"), FEW)
        gone.add(ShuffleBlock(1, 0, "e", 7, None, bytes(2 * FEW), 0))


def test_a_worker_takes_what_it_has_the_engines_for(tmp_path: Path) -> None:
    inputs = [TaskInput(n, 7, 1, 0, {n: BucketInput(5, ()), n + 4: BucketInput(6, ())}) for n in range(4)]
    kept = {2: 5, 6: 6, 1: 5, 3: 4}
    claims = pickle.loads(pickle.dumps(Claims.put(str(tmp_path), inputs)))

    def claim(task: int, kept: dict[int, int]) -> int | None:
        place: int | None = claims.claim(task, lambda stage, bucket: kept.get(bucket))
        return place

    assert claim(0, kept) == 2, "both of its engines"
    assert claim(0, {}) == 2, "done again, in another worker"
    assert claim(1, kept) == 1, "one, and that of 3 is old"
    assert claim(2, {2: 5}) == 3, "its own is taken; the next one"
    assert claim(3, kept) == 0 and claim(4, kept) is None
    assert [claim(task, {}) for task in range(4)] == [2, 1, 3, 0]


def test_a_claim_that_is_damaged_is_told(tmp_path: Path) -> None:
    claims = Claims.put(str(tmp_path), [TaskInput(n, 7, 1, 99, {0: BucketInput(5, ())}) for n in range(2)])
    assert claims.claim(3, lambda stage, bucket: None) == 1
    claimed = tmp_path / f"{claims.job}.3"
    for damaged in (b"", b"2", b"-1", b"1 ", b"\xb2", pickle.dumps(1)):
        claimed.write_bytes(damaged)
        with pytest.raises(CepError, match=f"{claimed.name}, which one task wrote for another, is missing or damaged"):
            claims.claim(3, lambda stage, bucket: None)


def test_what_goes_through_the_driver_is_bounded_for_all_tasks_together(tmp_path: Path) -> None:
    assert share(1) == share(4096) == FEW and 60_000 * share(60_000) <= ALL
    blocks = [ShuffleBlock(1, 0, "e", 7, "f", bytes(share(60_000) + 1), 0)]
    (row,) = as_row(lambda _: blocks, None, str(tmp_path), share(60_000))
    (came,) = of_rows(row.column("blocks").to_pylist())
    assert list(tmp_path.iterdir()) and came.rows == blocks[0].rows


def test_tasks_that_were_lost_are_run_again() -> None:
    tasks, runs = [TaskInput(number, 7, 1, 0, {}) for number in range(5)], list[list[int]]()

    def run(some: Sequence[TaskInput]) -> list[TaskOutput]:
        runs.append([one.number for one in some])
        return [TaskOutput(one.number) for one in some if one.number % 2 == 0 or len(runs) > 1][::-1]

    assert [done.number for done in every(tasks, run)] == [0, 1, 2, 3, 4]
    assert runs == [[0, 1, 2, 3, 4], [1, 3]]
    with pytest.raises(CepError, match="Spark has lost the result of a task"):
        every(tasks, lambda some: [TaskOutput(some[0].number)])


def test_reports_wait_for_the_end_of_their_micro_batch() -> None:
    reports.tell("q", 1, [])
    for batch in range(2, 200):
        reports.tell("q", batch, [])
    assert reports.told("q", 1) == () and reports.told("q", 199) == [] and reports.told("q", 199) == ()
