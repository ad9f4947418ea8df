"""A run on Spark goes on from the checkpoint that commit db814b7 left: `tests/written_before/spark`.

It had read five records of `a` and `b` with `--once`, in two buckets. Checkpoint and log name files by absolute paths,
which `tests/relocated.py` replaces.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.core.compilation import Compilation
from tests import spark_runs
from tests.relocated import relocate

pytestmark = pytest.mark.xdist_group("spark")

BEFORE = Path(__file__).parent / "written_before" / "spark"
WAS_AT = "/written/before"


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.parametrize("buckets", [None, 2, 3])
def test_a_run_on_spark_goes_on_from_the_checkpoint_of_the_version_before(
    buckets: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(BEFORE / "run.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    relocate(tmp_path, WAS_AT, str(tmp_path))
    spark_runs.spark()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)

    def derived() -> dict[str, list[tuple[object, ...]]]:
        """The values of each event; files of several events have the columns of all."""
        return {
            event: sorted(
                tuple(value for value in row if value is not None)
                for file in Path("out", f"type={event}").glob("*.parquet")
                for row in pl.read_parquet(file, hive_partitioning=False).drop("start", "end").rows()
            )
            for event in ("rise", "pair", "silent")
            if Path("out", f"type={event}").exists()
        }

    assert derived() == {"rise": [("one", 1, 3)], "pair": [("two",)]}
    records = [
        {"type": "a", "k": "one", "x": 9, "at": "2026-01-01T00:00:20Z"},
        {"type": "b", "k": "one", "at": "2026-01-01T00:00:22Z"},
        {"type": "b", "k": "end", "at": "2026-01-01T00:00:40Z"},
    ]
    Path("days", "b.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    options = ["--on", "spark", "--input", "days", "--output", "out", "--checkpoint", "state"]
    options += [] if buckets is None else ["--buckets", str(buckets)]
    options += ["--lateness", "0 s", "--once"]
    result = CliRunner().invoke(app, ["run", str(BEFORE / "rules.cep"), *options], prog_name="cep")
    assert result.exit_code == 0, result.stderr
    assert "late" not in result.stderr and "3 records" in result.stderr, result.stderr
    found = derived()
    assert found["rise"] == [("one", 1, 3), ("one", 1, 9), ("one", 3, 9)], "what waited meets what comes now"
    assert found["pair"] == [("one",)] * 3 + [("two",)]
    assert found["silent"] == [("one",), ("one",), ("two",)], "deadlines of before pass: of 0 s, 5 s and 8 s"
