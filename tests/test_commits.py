"""The log of the sink: which files count, for whoever reads them, whatever micro-batch is committed again."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from cep.schema import Attribute, Schema
from cep.spark.commits import COMPACTED, File, FileWriter, Outlet, Written
from cep.spark.tidy import LOG, committed
from tests import spark_runs

pytestmark = [
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]


def written(folder: Path, name: str, rows: int) -> File:
    path = folder / f"part-{name}.parquet"
    pl.DataFrame({"x": range(rows)}, schema={"x": pl.Int64}).write_parquet(path)
    return File.of(path, bare=not rows)


def test_files_of_micro_batches_count_once(tmp_path: Path) -> None:
    schema = Schema("found", (Attribute("x", "int"),), True, True)
    writer = FileWriter(Outlet(str(tmp_path), "parquet", {"found": schema}, frozenset()))
    counting = set()
    for batch in range(2 * COMPACTED + 3):
        mine = [written(tmp_path, f"{task}-{batch}", 0 if task == 0 else batch) for task in range(2)]
        writer.commit([Written(mine[:1]), None, Written(mine[1:])], batch)
        again = written(tmp_path, f"again-{batch}", 5)
        writer.commit([Written([again])], batch)
        assert not Path(again.path).exists()
        counting |= {Path(one.path) for one in mine if not one.bare or batch == 0}
        assert committed(tmp_path) == counting == set(tmp_path.glob("part-*"))
    lost = written(tmp_path, "lost", 3)
    writer.abort([Written([lost]), None], 23)
    assert set(tmp_path.glob("part-*")) == counting
    numbers = sorted(int(file.name.partition(".")[0]) for file in (tmp_path / LOG).iterdir())
    assert numbers == list(range(COMPACTED - 1, 2 * COMPACTED + 3))
    assert spark_runs.spark().read.parquet(str(tmp_path)).count() == sum(range(2 * COMPACTED + 3))
