"""Workers that share no folder: rows go through Spark's shuffle, states come from an object store and go there."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

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
from cep.spark.slots import Slots
from tests import spark_runs
from tests.object_store import reached
from tests.spark_apart import ApartQuery
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
        (["--migrate"], "--migrate: the states are on no machine of the cluster"),
        (["--solve-limit", "1s"], "--solve-limit: what is lost with a machine is searched for again"),
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


def who(slot: int, partition: int, rows: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, int, int, int, str]]:
    yield slot, partition, os.getpid(), sum(len(row) for _, row in rows), os.environ["SPARK_LOCAL_DIRS"]


@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.xdist_group("spark")
def test_a_task_comes_to_the_same_worker_again() -> None:
    """Which no other task has; it takes the rows of its partition, and of no other. What came through the shuffle is
    removed when nobody asks for it any more."""
    context = spark_runs.spark().sparkContext
    slots, seen = Slots(context), []
    for _ in range(3):
        rows = context.parallelize([(n % 4, b"x" * n) for n in range(8)], 2).partitionBy(4, int)
        seen.append(sorted(slots.run(rows, lambda slot: partial(who, slot)).collect()))
        (shuffle,), place = slots._shuffles, Path(seen[0][0][4])
        assert any(place.rglob(f"shuffle_{shuffle}_*"))
        slots.clear()
        until(lambda place=place, shuffle=shuffle: not any(place.rglob(f"shuffle_{shuffle}_*")), "it is removed")  # type: ignore[misc]
    assert seen[0] == seen[1] == seen[2]
    assert [(slot, partition, size) for slot, partition, _, size, _ in seen[0]] == [(n, n, 2 * n + 4) for n in range(4)]
    assert len({pid for _, _, pid, _, _ in seen[0]}) == 4
