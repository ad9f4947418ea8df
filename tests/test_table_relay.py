"""What Spark has committed goes to a Delta table, each micro-batch once; and the folder of a job by its readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest

from cep.core.errors import CepError
from cep.engine import Engine
from cep.spark.disk import OUTGOING
from cep.spark.sink import table_relay
from cep.spark.sink.file_sink import FileSinkOptions, FileWriter
from cep.spark.sink.table_relay import TableRelay, check_table
from connectors.table_names import TableName, table_name
from connectors.tables import delta

SCHEMAS = Engine.from_text("hot(N) <- reading(N) WHERE N >= 0.\ncold(N) <- reading(N) WHERE N < 0.").outputs


def commit(folder: Path, batch: int, events: tuple[str, ...] = ("hot", "cold"), task: int = 2) -> None:
    """A micro-batch of so many tasks, each with a row of each event: the number of the micro-batch."""
    schemas = {event: SCHEMAS[event] for event in events}
    writer = FileWriter(FileSinkOptions(str(folder), "parquet", schemas, frozenset(), passing=folder.name == OUTGOING))
    row = pl.DataFrame({"start": [batch], "end": [batch], "n": pl.Series([batch], dtype=pl.Object)})
    writer.commit([writer.write([(event, row) for event in events], n, batch) for n in range(task)], batch)


def numbers(table: Path) -> list[str]:
    found = pl.from_arrow(deltalake.DeltaTable(table).to_pyarrow_table())
    assert isinstance(found, pl.DataFrame)
    return sorted(found.sort("n")["n"].to_list(), key=int)


class Killed(BaseException):
    """The process is killed here."""


@pytest.mark.parametrize("where", ["write", "after", "note", "unlink"])
def test_a_commit_is_done_once_whatever_is_killed(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, name = tmp_path / "state" / OUTGOING, TableName("delta", str(tmp_path / "table"))
    write, put, killed = delta.write, table_relay.put, []

    def dies(stage: str, does: Callable[..., Any], before: bool) -> Callable[..., Any]:
        def act(*given: Any, **named: Any) -> Any:
            if before and not killed:
                killed.append(stage)
                raise Killed
            found = does(*given, **named)
            if not killed:
                killed.append(stage)
                raise Killed
            return found

        return act

    folder.mkdir(parents=True)
    expected: list[str] = []
    for batch in range(6):
        commit(folder, batch)
        expected += [str(batch)] * 4
        killed.clear()
        with monkeypatch.context() as patched:
            if where == "write":
                patched.setattr(table_relay.delta, "write", dies(where, write, True))
            elif where == "after":
                patched.setattr(table_relay.delta, "write", dies(where, write, False))
            elif where == "note":
                patched.setattr(table_relay, "put", dies(where, put, False))
            else:
                patched.setattr(Path, "unlink", dies(where, Path.unlink, False))
            with pytest.raises(Killed):
                TableRelay(folder, name).move()
        relay = TableRelay(folder, name)
        relay.move()
        relay.move()
        assert relay.waiting() == [] and numbers(tmp_path / "table") == expected


def test_files_of_other_rules_are_added_by_themselves(tmp_path: Path) -> None:
    """Columns are by name, also where what was derived before `--migrate` waits with what came after."""
    folder, name = tmp_path / "state" / OUTGOING, TableName("delta", str(tmp_path / "table"))
    folder.mkdir(parents=True)
    commit(folder, 0, ("hot",))
    other = Engine.from_text("hot(M, N) <- reading(N, M) WHERE N >= 0.").outputs
    writer = FileWriter(FileSinkOptions(str(folder), "parquet", other, frozenset(), passing=True))
    values = {name: pl.Series([value], dtype=pl.Object) for name, value in (("m", 7), ("n", 1))}
    writer.commit([writer.write([("hot", pl.DataFrame({"start": [1], "end": [1]} | values))], 0, 1)], 1)
    relay = TableRelay(folder, name)
    relay.move()
    found = pl.from_arrow(deltalake.DeltaTable(tmp_path / "table").to_pyarrow_table())
    assert isinstance(found, pl.DataFrame) and relay.waiting() == []
    assert sorted(found.select("n", "m").rows(), key=repr) == [("0", None), ("0", None), ("1", "7")]


def test_two_jobs_add_to_one_table_and_small_files_are_put_together(tmp_path: Path) -> None:
    name = table_name(f"delta:{tmp_path}/table?compact=4")
    for job in ("one", "two"):
        for batch in range(3):
            folder = tmp_path / job / OUTGOING
            folder.mkdir(parents=True, exist_ok=True)
            commit(folder, batch, ("hot",))
            relay = TableRelay(folder, name)
            relay.move()
        relay.close()
    assert numbers(tmp_path / "table") == ["0"] * 4 + ["1"] * 4 + ["2"] * 4
    assert len(deltalake.DeltaTable(tmp_path / "table").file_uris()) < 4


def test_what_spark_does_not_write_is_refused() -> None:
    with pytest.raises(CepError, match="on Spark it is not written"):
        check_table(table_name("iceberg:here/a.b"))
    with pytest.raises(CepError, match="those of each micro-batch once"):
        check_table(table_name("delta:x?append=a"))


@pytest.mark.parametrize(("events", "pattern"), [(("hot",), "*.parquet"), (("hot", "cold"), "type=*/*.parquet")])
def test_readers_of_the_folder_see_what_counts(tmp_path: Path, events: tuple[str, ...], pattern: str) -> None:
    for batch in range(12):
        commit(tmp_path, batch, events)
    schemas = {event: SCHEMAS[event] for event in events}
    writer = FileWriter(FileSinkOptions(str(tmp_path), "parquet", schemas, frozenset()))
    row = pl.DataFrame({"start": [99], "end": [99], "n": pl.Series([99], dtype=pl.Object)})
    writer.write([(event, row) for event in events], 0, 12)  # which does not count
    where = f"{tmp_path}/{pattern}"
    found = [
        pl.read_parquet(where, hive_partitioning=True),
        pl.read_parquet(f"{tmp_path}/**/*.parquet", hive_partitioning=True),
        pl.from_pandas(pd.read_parquet(tmp_path)),
        pl.from_arrow(ds.dataset(tmp_path, partitioning="hive").to_table()),
        duckdb.sql(f"SELECT * FROM read_parquet('{where}', hive_partitioning = true)").pl(),
    ]
    for each in found:
        assert isinstance(each, pl.DataFrame)
        assert sorted(each["n"].to_list(), key=int) == [str(n) for n in range(12) for _ in range(2 * len(events))]
        if len(events) > 1:
            assert set(each["type"].cast(pl.String)) == set(events)
