"""On Spark a table has what each micro-batch derives, once: of Delta in S3, with inputs there; and of Iceberg, by runs
that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import deltalake
import polars as pl
import pytest

from tests import spark_runs
from tests.cli_runs import jsonl
from tests.object_store import Bucket, reached
from tests.waiting import pause, until

ROOT = str(Path(__file__).parent.parent)
KILLS = int(os.environ.get("SEMCEP_KILLS", "2"))
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
        for number in range(3):
            bucket.put(f"in/{number}.jsonl", day(number))
            if number == 1:
                run(bucket, tmp_path, *spark, "--lateness", "1s", "--once", "--files", "1")
                first = len(rows("s3://bucket/found"))
        run(bucket, tmp_path, *spark, "--lateness", "1s")
        run(bucket, tmp_path, "--output", "delta:s3://bucket/expected")
        assert rows("s3://bucket/found") == rows("s3://bucket/expected")
        assert 0 < first < len(rows("s3://bucket/found"))
        assert not list((tmp_path / "state" / "outgoing").glob("**/part-*"))


def day(number: int) -> str:
    """Records that no other day has."""
    return jsonl(
        [{"type": "reading", "time": number * 50 + n // 4, "sensor": n % 4, "value": n * n % 20} for n in range(200)]
    )


def lake(folder: Path, name: str) -> Any:
    """An Iceberg table of the catalog there; None: there is none yet."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return SqlCatalog("here", uri=f"sqlite:///{folder}/catalog.db").load_table(name)
    except NoSuchTableError:
        return None


def killed(command: list[str], folder: Path, env: Mapping[str, str], rng: random.Random) -> None:
    """Run, and kill at any moment after the next commit, or the one after it."""

    def commits() -> int:
        there = lake(folder, "plant.found")
        return 0 if there is None else len(there.snapshots())

    before = commits()
    with TemporaryFile() as said:
        run = subprocess.Popen(command, cwd=folder, env=env, start_new_session=True, stdout=said, stderr=said)
        try:
            until(lambda: commits() > before or run.poll() is not None, "a micro-batch is in the table", 600)
            pause(rng.random())
            if run.poll() is not None:
                said.seek(0)
                assert run.returncode == 0, said.read().decode()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()


def test_killed_runs_add_to_an_iceberg_table_what_one_process_derives(tmp_path: Path) -> None:
    rng = random.Random(KILLS)
    (tmp_path / "rules.cep").write_text(PROGRAM)
    (tmp_path / "in").mkdir()
    for number in range(KILLS + 3):
        (tmp_path / "in" / f"{number}.jsonl").write_text(day(number))
    command = [sys.executable, "-m", "cep", "run", "rules.cep", "--input", "in"]
    spark = ["--on", "spark", "--master", "local[2]", "--checkpoint", "state", "--lateness", "1s", "--files", "1"]
    spark += ["--output", "iceberg:here/plant.found?compact=2"]
    catalog = {
        "PYICEBERG_CATALOG__HERE__URI": f"sqlite:///{tmp_path}/catalog.db",
        "PYICEBERG_CATALOG__HERE__WAREHOUSE": f"file://{tmp_path}/warehouse",
    }
    env = {**os.environ, **catalog, "PYTHONPATH": ROOT}
    for _ in range(KILLS):
        killed([*command, *spark], tmp_path, env, rng)
    for more in (spark, ["--output", "iceberg:here/plant.expected"]):
        done = subprocess.run([*command, *more], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    found, expected = lake(tmp_path, "plant.found"), lake(tmp_path, "plant.expected")

    def sorted_rows(table: Any) -> list[dict[str, Any]]:
        rows = pl.from_arrow(table.scan().to_arrow())
        assert isinstance(rows, pl.DataFrame)
        return rows.select(sorted(rows.columns)).sort(sorted(rows.columns)).to_dicts()

    assert sorted_rows(found) == sorted_rows(expected) and len(sorted_rows(found)) > 100
    assert len(found.snapshots()) > KILLS and len(list(found.scan().plan_files())) == 1
    assert not list((tmp_path / "state" / "outgoing").glob("**/part-*"))
