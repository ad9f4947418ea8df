"""On Spark inputs in S3, and a Delta table there that has what each micro-batch derives, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
import pytest

from tests import spark_runs
from tests.cli_runs import jsonl
from tests.object_store import Bucket, reached

ROOT = str(Path(__file__).parent.parent)
PROGRAM = """\
event reading(sensor: int, value: int).
event rise(sensor: int, from: int, to: int).
event high(sensor: int).
rise(S, A, B) <- (reading(S, A) SEQ reading(S, B) WHERE B > A + 5) WITHIN 5 s.
high(S) <- reading(S, V) WHERE V > 17.
"""
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]


def run(bucket: Bucket, folder: Path, *more: str) -> None:
    """Run to the end."""
    command = [sys.executable, "-m", "cep", "run", "rules.cep", "--input", "s3://bucket/in/*.jsonl", *more]
    env = {**os.environ, **bucket.env, "PYTHONPATH": ROOT}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def rows(table: str) -> list[dict[str, Any]]:
    options = {"allow_http": "true"}
    found = pl.from_arrow(deltalake.DeltaTable(table, storage_options=options).to_pyarrow_table())
    assert isinstance(found, pl.DataFrame)
    return found.sort(sorted(found.columns)).to_dicts()


def test_days_in_s3_go_to_a_table_there_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules.cep").write_text(PROGRAM)
    spark = ["--on", "spark", "--master", "local[1]", "--checkpoint", "state", "--output", "delta:s3://bucket/found"]
    with reached(monkeypatch) as bucket:
        for day in range(3):
            records = [
                {"type": "reading", "time": day * 50 + n // 4, "sensor": n % 4, "value": n * n % 20} for n in range(200)
            ]
            bucket.put(f"in/{day}.jsonl", jsonl(records))
            if day == 1:
                run(bucket, tmp_path, *spark, "--lateness", "1s", "--once", "--files", "1")
                first = len(rows("s3://bucket/found"))
        run(bucket, tmp_path, *spark, "--lateness", "1s")
        run(bucket, tmp_path, "--output", "delta:s3://bucket/expected")
        assert rows("s3://bucket/found") == rows("s3://bucket/expected")
        assert 0 < first < len(rows("s3://bucket/found"))
        assert not list((tmp_path / "state" / "outgoing").glob("**/part-*"))
