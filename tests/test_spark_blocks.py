"""What stages on Spark make of the blocks of files, read and stepped as tasks do, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cep.compile import CompileOptions
from cep.connectors.inputs import inputs
from cep.connectors.writing.writers import json_lines
from cep.core.schema import ARRIVAL, TIE
from cep.engine import Engine
from cep.runtime.options import EngineOptions
from cep.spark import stage_task
from cep.spark.program import ProgramOptions, ShippedProgram
from cep.spark.shuffle_blocks import END
from cep.spark.source.reading import file_blocks
from cep.spark.stage_task import StageTask, StageWork
from cep.spark.state.bucket_states import BucketStates
from cep.spark.state.delta_log import Came

pytest.importorskip("pyspark")


class Task(StageTask):
    """A stage whose buckets are kept in this process; each step restores one from its state."""

    def engine(self, bucket: int, version: int) -> Engine:
        _, engine = stage_task._engines.pop((self.run, self.stage.number, bucket), (0, None))
        return self.first_engine(bucket) if engine is None else engine

    def keep(self, bucket: int, version: int, engine: Engine, batch: int, came: Came) -> None:
        restored = self.program.engine(self.stage.number).restore(engine.snapshot())
        stage_task._engines[self.run, self.stage.number, bucket] = version, restored


def distributed(text: str, files: list[str], folder: Path, buckets: int, **options: Any) -> tuple[list[str], list[Any]]:
    """The lines that a job writes, and its dead letters: each file is a micro-batch, then the input ends."""
    compiling = CompileOptions(**{name: value for name, value in options.items() if name == "dialect"})
    engine = Engine.from_text(text, **options)
    running = EngineOptions(until=options.get("until"))
    program = ShippedProgram.of(engine, text, "p", ProgramOptions(compiling=compiling, running=running), buckets)
    states, dead = BucketStates(str(folder), 1), str(folder / "dead-")
    work = StageWork(program, 1, f"{folder} {buckets}", tuple(program.outputs), dead, states, None)
    stages = [Task(replace(work, number=stage.number)) for stage in program.stages]
    lines: list[str] = []
    found, steps = inputs(files, program.inputs, None), count()
    for number, watermark in [*((number, 0) for number in range(len(found))), (-1, END // 1000)]:
        blocks = [] if number < 0 else list(file_blocks(program, number, found[number], dead))
        for task in stages:
            for bucket in range(program.count(task.stage)):
                mine = [one for one in blocks if (one.stage, one.bucket) == (task.stage.number, bucket)]
                if mine or number < 0:
                    made = task.step(bucket, next(steps), mine, watermark, 0)
                    blocks += made.blocks
                    for one in made.world:
                        table = one.table.drop(ARRIVAL, TIE, strict=False)
                        lines += json_lines({one.event: table}, program.outputs, "iso", False).decode().splitlines()
    letters = [json.loads(line) for file in folder.glob("dead-*") for line in file.read_text().splitlines()]
    return sorted(lines), letters


def alone(text: str, files: list[str], **options: Any) -> list[str]:
    engine = Engine.from_text(text, lateness=None, **options)
    from cep.connectors.files import replay

    for batch in replay(files, engine.inputs):
        engine.receive(batch.tables)
    made = {name: table for name, table in engine.close().items() if name in engine.outputs and table.height}
    return sorted(json_lines(made, engine.outputs, "iso", False).decode().splitlines())


DIALECT = """\
Flag(X,Z) :- Monit(X,Z), Boxminus[0,4]Diamondminus[0,2]Signal(Z)
Alarm(X) :- Flag(X,Z), Diamondminus[1,1]Alarm(X)
Alarm(X) :- Flag(X,Z)
"""
FACTS = """\
Monit(a,b)@[0,30]
Monit(c,b)@[10,20)
Signal(b)@1
Signal(b)@2.5
Signal(b)@4
Signal(b)@5
Signal(b)@7
Signal(b)@(9,13]
"""


@pytest.mark.parametrize("buckets", [2, 7])
def test_a_dialect_whose_facts_are_records_of_fluents(tmp_path: Path, buckets: int) -> None:
    (tmp_path / "in.facts").write_text(FACTS)
    files = [str(tmp_path / "in.facts")]
    expected = alone(DIALECT, files, dialect="datalogmtl")
    assert any('"Alarm"' in line for line in expected)
    assert distributed(DIALECT, files, tmp_path, buckets, dialect="datalogmtl") == (expected, [])


BEAT = """\
event ping(k: string, n: int? in 0..9) TIME t.
fluent beat(k: string).
fluent paired(k: string).
beat(K) WHILE ping(K, _) OR ONCE[3 s, 3 s] beat(K).
paired(K) WHILE beat(K) AND ONCE[0, 2 s] ping(K, 7).
"""


@pytest.mark.parametrize(("buckets", "changes"), [(1, False), (2, True), (7, False)])
def test_what_goes_on_by_itself_goes_to_the_latest_time_in_all_files(
    tmp_path: Path, buckets: int, changes: bool
) -> None:
    """Also of keys whose bucket has seen nothing for long; what is refused is not a time of the input."""
    for number in range(2):
        rows = [{"type": "ping", "t": 20 * number + n, "k": f"k{n}", "n": n + number} for n in range(5)]
        (tmp_path / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused = {"type": "ping", "t": 90, "k": "k0", "n": 77}
    with (tmp_path / "0.jsonl").open("a") as file:
        file.write(json.dumps(refused) + "\n")
    files = [str(tmp_path / "0.jsonl"), str(tmp_path / "1.jsonl")]
    expected = alone(BEAT, files, changes=changes)
    found, letters = distributed(BEAT, files, tmp_path, buckets, changes=changes)
    assert found == expected
    assert ('"@edge": "ends"' in expected[-1]) is changes
    assert any('"time": "1970-01-01T00:00:24Z"' in line or '"start": "1970-01-01T00:00:24Z"' in line for line in found)
    assert not any("1970-01-01T00:00:27Z" in line for line in found)
    (letter,) = letters
    assert letter["code"] == "range" and letter["record"] == refused | {"t": "1970-01-01T00:01:30Z"}


@pytest.mark.parametrize("buckets", [1, 7])
def test_what_goes_on_by_itself_goes_to_until_where_that_is_later(tmp_path: Path, buckets: int) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"type": "ping", "t": 5, "k": "k0", "n": 1}) + "\n")
    files, until = [str(tmp_path / "in.jsonl")], 30_000_000
    expected = alone(BEAT, files, until=until)
    assert len(expected) > len(alone(BEAT, files))
    assert distributed(BEAT, files, tmp_path, buckets, until=until) == (expected, [])
