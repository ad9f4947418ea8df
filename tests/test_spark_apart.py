"""Workers that share no folder: rows go through Spark's shuffle, states come from an object store and go there."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cep.core.errors import CepError
from cep.engine import Engine
from tests.keyed_programs import keyed
from tests.long import seeds
from tests.programs import contest, loop, program, recursion, window
from tests.test_equivalence import types
from tests.waiting import until

pytest.importorskip("pyspark")
pytest.importorskip("obstore")

from cep.command import app
from cep.spark import task_affinity
from cep.spark.shuffled_batch import Place, StageJob
from cep.spark.task_affinity import Slots
from cep.spark.worker_dir import Files
from tests import spark_runs
from tests.object_store import reached
from tests.spark_apart import ApartQuery, HeldPacks
from tests.spark_operators import check, keyed_declarations


@pytest.mark.parametrize("seed", seeds(60))
def test_the_law_on_random_programs(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever worker does a task, as often as it is done: after each micro-batch the output is that of one process."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))  # where workers make their folders
    rng = random.Random(seed)
    made = rng.choice([program, recursion, contest, window, loop, *[keyed] * 12])(rng)
    text, keys = keyed_declarations(made.text, rng)
    try:
        Engine.from_text(text, types=types(made.events))
    except CepError:
        return  # some of what is drawn is no program
    revise, length = bool(seed % 2), rng.choice((0, 1, 3, 20)) * 1_000_000
    more = {"kind": ApartQuery, "types": types(made.events), "max_derivations": 2000}
    try:
        check(text, made.events, rng, length, tmp_path, (1, 2, 7)[seed % 3], keys, revise, **more)
    except CepError as error:
        assert error.code == "recursion", "some of what is drawn goes on for ever"


@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["--migrate"], "--migrate needs all states on one machine, but this cluster has no shared folder"),
        (["--solve-limit", "1s"], "--solve-limit: when a machine is lost, its answers are searched for again"),
    ],
)
def test_what_wants_the_states_of_one_machine_is_refused(
    options: list[str], refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules.lars").write_text("event a(n: int) TIME time.\nx(N) :- a(N) [2].\n")
    (tmp_path / "in.jsonl").write_text("")
    command = ["run", str(tmp_path / "rules.lars"), "--on", "spark", "--input", str(tmp_path / "in.jsonl"), "--master"]
    command += ["spark://127.0.0.1:1", "--checkpoint", "s3://bucket/state", "--output", "s3://bucket/out", *options]
    with reached(monkeypatch):
        result = CliRunner().invoke(app, command, prog_name="cep")
    assert refusal in result.stderr and result.exit_code == 2, result.stderr


def who(lane: Sequence[int], task: int, rows: Iterable[tuple[int, bytes]]) -> Iterator[tuple[Any, ...]]:
    yield task, tuple(lane), os.getpid(), sorted(rows), os.environ["SPARK_LOCAL_DIRS"]


def asked(tasks: Slots) -> list[Any]:
    """Of each task who does it; it takes the rows of its partition, and of no other."""
    context = spark_runs.spark().sparkContext
    rows = context.parallelize([(n % 4, b"x" * n) for n in range(8)], 2).partitionBy(4, int)
    found = sorted(tasks.run(rows, lambda lane: partial(who, lane)).collect())
    assert [(task, rows) for task, _, _, rows, _ in found] == [
        (n, [(n, b"x" * n), (n, b"x" * (n + 4))]) for n in range(4)
    ]
    return found


@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.xdist_group("spark")
def test_a_task_comes_to_the_same_worker_again() -> None:
    """Which no other task has. What came through the shuffle is removed when nobody asks for it any more."""
    tasks, seen = Slots(spark_runs.spark().sparkContext), list[Any]()
    for _ in range(3):
        seen.append(asked(tasks))
        (shuffle,), place = tasks._shuffles, Path(seen[0][0][4])
        assert any(place.rglob(f"shuffle_{shuffle}_*"))
        tasks.clear()
        until(lambda place=place, shuffle=shuffle: not any(place.rglob(f"shuffle_{shuffle}_*")), "it is removed")  # type: ignore[misc]
    assert seen[0] == seen[1] == seen[2]
    assert len({pid for _, _, pid, _, _ in seen[0]}) == 4


@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.xdist_group("spark")
def test_tasks_of_several_executors_share_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert task_affinity.lanes([]) == [] and task_affinity.lanes(["a"] * 3) == [[0], [1], [2]]
    assert task_affinity.lanes(["a", "b", "b", "a", "c", "b"]) == [[0, 1, 4], [2, 3], [5]]
    monkeypatch.setattr(task_affinity, "lanes", lambda executors: [[0, 3], [1, 2]] if len(set(executors)) == 1 else [])
    assert [lane for _, lane, _, _, _ in asked(Slots(spark_runs.spark().sparkContext))] == [
        (0, 3),
        (1, 2),
        (1, 2),
        (0, 3),
    ]


def test_a_lane_of_tasks_takes_the_files_of_their_states() -> None:
    files: dict[str, Files] = {f"{stage}-{bucket:04}": {} for stage in (1, 2) for bucket in range(8)}
    place = Place(HeldPacks(""), 0, "run", "mark", files)
    job = StageJob(4, 1, 0, 0, {}, frozenset(), False, False, {}, place)
    assert {name for lane in ([0, 2], [1], [3]) for name in job.of(lane).place.files} == files.keys()
    assert sorted(job.of([3, 1]).place.files)[:4] == ["1-0001", "1-0003", "1-0005", "1-0007"]
