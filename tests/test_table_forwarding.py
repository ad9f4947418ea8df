"""What Spark has committed goes to a table, each micro-batch once; and the folder of a job by its readers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest
from pyiceberg.utils.config import Config

from cep.connectors.tables import delta
from cep.connectors.tables import iceberg as iceberg_table
from cep.connectors.tables.kinds import KINDS
from cep.connectors.tables.names import TableName, table_name
from cep.core.errors import CepError
from cep.engine import Engine
from cep.spark.disk import OUTGOING
from cep.spark.sink import forwarding as forwards
from cep.spark.sink.file_sink import FileSinkOptions, FileWriter
from cep.spark.sink.forwarding import Forwarding, Table, check_table, forwarding
from tests.object_store import reached
from tests.waiting import Received

SCHEMAS = Engine.from_text("hot(N) <- reading(N) WHERE N >= 0.\ncold(N) <- reading(N) WHERE N < 0.").outputs


def commit(folder: Path, batch: int, events: tuple[str, ...] = ("hot", "cold"), task: int = 2) -> None:
    """A micro-batch of so many tasks, each with a row of each event: the number of the micro-batch."""
    schemas = {event: SCHEMAS[event] for event in events}
    writer = FileWriter(FileSinkOptions(str(folder), "parquet", schemas, frozenset(), passing=folder.name == OUTGOING))
    row = pl.DataFrame({"start": [batch], "end": [batch], "n": pl.Series([batch], dtype=pl.Object)})
    every = [writer.write([(event, row) for event in events], n, batch) for n in range(task)]
    writer.commit([*chain(*every)], batch)


def named(kind: str, folder: Path, options: str = "") -> TableName:
    return table_name((f"delta:{folder}/table" if kind == "delta" else "iceberg:here/plant.hot") + options)


def relay(folder: Path, name: TableName) -> Forwarding:
    """The way from the folder of a job, which is called as the folder above its own."""
    checkpoint = folder.parent
    return Forwarding(checkpoint, Table(name, checkpoint.name, checkpoint), print, lambda: False, lasting=False)


def iceberg() -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog("here").load_table("plant.hot")


def rows(name: TableName) -> pl.DataFrame:
    there = deltalake.DeltaTable(name.place).to_pyarrow_table() if name.kind == "delta" else iceberg().scan().to_arrow()
    found = pl.from_arrow(there)
    assert isinstance(found, pl.DataFrame)
    return found


def numbers(name: TableName) -> list[str]:
    return sorted(rows(name)["n"].to_list(), key=int)


def count_files(name: TableName) -> int:
    if name.kind == "delta":
        return len(deltalake.DeltaTable(name.place).file_uris())
    return len(list(iceberg().scan().plan_files()))


@pytest.fixture(autouse=True)
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which is read once


class Killed(BaseException):
    """The process is killed here."""


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("where", ["write", "after", "note", "unlink"])
def test_a_commit_is_done_once_whatever_is_killed(
    tmp_path: Path, kind: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, name = tmp_path / "state" / OUTGOING, named(kind, tmp_path)
    write, put, killed = KINDS[kind].write, forwards.put, []

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
                patched.setattr(KINDS[kind], "write", dies(where, write, True))
            elif where == "after":
                patched.setattr(KINDS[kind], "write", dies(where, write, False))
            elif where == "note":
                patched.setattr(forwards, "put", dies(where, put, False))
            else:
                patched.setattr(Path, "unlink", dies(where, Path.unlink, False))
            with pytest.raises(Killed):
                relay(folder, name).forward()
        sends = relay(folder, name)
        sends.forward()
        sends.forward()
        assert not sends.waiting() and numbers(name) == expected


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_files_of_other_rules_are_added_by_themselves(tmp_path: Path, kind: str) -> None:
    """Columns are by name, also where what was derived before `--migrate` waits with what came after."""
    folder, name = tmp_path / "state" / OUTGOING, named(kind, tmp_path)
    folder.mkdir(parents=True)
    commit(folder, 0, ("hot",))
    other = Engine.from_text("hot(M, N) <- reading(N, M) WHERE N >= 0.").outputs
    writer = FileWriter(FileSinkOptions(str(folder), "parquet", other, frozenset(), passing=True))
    values = {name: pl.Series([value], dtype=pl.Object) for name, value in (("m", 7), ("n", 1))}
    writer.commit(writer.write([("hot", pl.DataFrame({"start": [1], "end": [1]} | values))], 0, 1), 1)
    sends = relay(folder, name)
    sends.forward()
    assert not sends.waiting()
    assert sorted(rows(name).select("n", "m").rows(), key=repr) == [("0", None), ("0", None), ("1", "7")]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_two_jobs_add_to_one_table_and_small_files_are_put_together(tmp_path: Path, kind: str) -> None:
    name = named(kind, tmp_path, "?compact=4")
    for job in ("one", "two"):
        for batch in range(3):
            folder = tmp_path / job / OUTGOING
            folder.mkdir(parents=True, exist_ok=True)
            commit(folder, batch, ("hot",))
            sends = relay(folder, name)
            sends.forward()
        sends._to.close()
    assert numbers(name) == ["0"] * 4 + ["1"] * 4 + ["2"] * 4
    assert count_files(name) < 4


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_small_files_are_put_together_while_a_run_goes_on(tmp_path: Path, kind: str) -> None:
    folder, name = tmp_path / "one" / OUTGOING, named(kind, tmp_path, "?compact=4")
    folder.mkdir(parents=True)
    sends, most = relay(folder, name), 0
    for batch in range(10):
        commit(folder, batch, ("hot",))
        sends.forward()
        most = max(most, count_files(name))
    assert numbers(name) == sorted((str(n) for n in range(10) for _ in range(2)), key=int)
    assert most <= 4 and count_files(name) <= 3


def test_what_spark_does_not_write_is_refused() -> None:
    check_table(table_name("iceberg:here/a.b"))
    with pytest.raises(CepError, match="PYICEBERG_CATALOG__NOWHERE__URI"):
        check_table(table_name("iceberg:nowhere/a.b"))
    for name in ("delta:x?append=a", "iceberg:here/a.b?append=a"):
        with pytest.raises(CepError, match="Spark adds the rows of each micro-batch once"):
            check_table(table_name(name))


def test_the_snapshots_of_a_table_say_what_they_add(tmp_path: Path) -> None:
    folder, name = tmp_path / "state" / OUTGOING, named("iceberg", tmp_path)
    folder.mkdir(parents=True)
    for batch in range(3):
        commit(folder, batch)
        relay(folder, name).forward()
    told = [one.summary["semcep.added.state"] for one in iceberg().snapshots()]
    assert told == ["0", "1", "2"] and iceberg().properties["semcep.added.state"] == "2"
    assert json.loads((folder.parent / forwards.NOTE).read_text()) == {"number": 2, "table": name.text}


def test_a_commit_is_tried_again_where_others_add_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, mine, other = named("iceberg", tmp_path), tmp_path / "mine" / OUTGOING, tmp_path / "other" / OUTGOING
    for folder in (mine, other):
        folder.mkdir(parents=True)
        commit(folder, 0)
    whole, left = iceberg_table._commit, [1, 2]

    def meanwhile(*given: Any) -> None:
        if left:
            batch = left.pop(0)
            with monkeypatch.context() as patched:
                patched.setattr(iceberg_table, "_commit", whole)
                commit(other, batch)
                relay(other, name).forward()
        whole(*given)

    relay(other, name).forward()
    monkeypatch.setattr(iceberg_table, "_commit", meanwhile)
    relay(mine, name).forward()
    assert numbers(name) == ["0"] * 8 + ["1"] * 4 + ["2"] * 4 and not left
    assert [one.summary["added-records"] for one in iceberg().snapshots()] == ["4"] * 4


def test_a_commit_of_which_the_answer_is_lost_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed run may have on its way is found as well, and nothing is added twice."""
    from pyiceberg.exceptions import CommitFailedException

    folder, name, whole = tmp_path / "state" / OUTGOING, named("iceberg", tmp_path), iceberg_table._commit
    folder.mkdir(parents=True)

    def lost(*given: Any) -> None:
        whole(*given)
        raise CommitFailedException("the answer is lost")

    def twice(there: TableName, table: Any, rows: Any, number: int, mine: str) -> None:
        batches = rows.read_all()
        for made in ("of a killed run", mine):
            whole(there, table if made == mine else iceberg(), batches.to_reader(), number, made)

    for batch, does in enumerate((whole, lost, twice, whole)):
        commit(folder, batch)
        monkeypatch.setattr(iceberg_table, "_commit", does)
        if does is twice:
            with pytest.raises(CepError, match="nothing is added twice"):
                relay(folder, name).forward()
        else:
            relay(folder, name).forward()
    assert numbers(name) == [str(n) for n in range(4) for _ in range(4)]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_store_that_is_away_for_a_while_stops_nothing(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a query runs; where it is away at the end, the next run adds what waits."""
    with reached(monkeypatch) as bucket:
        monkeypatch.setenv("PYICEBERG_CATALOG__HERE__WAREHOUSE", "s3://bucket/warehouse")
        monkeypatch.setenv("PYICEBERG_CATALOG__HERE__S3__ENDPOINT", bucket.env["AWS_ENDPOINT_URL"])
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        text = "delta:s3://bucket/table" if kind == "delta" else "iceberg:here/plant.hot"
        folder, told = tmp_path / "state" / OUTGOING, Received[str]()
        folder.mkdir(parents=True)
        schemas = {"hot": SCHEMAS["hot"]}

        def away() -> None:
            monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
            monkeypatch.setenv("PYICEBERG_CATALOG__HERE__S3__ENDPOINT", "http://127.0.0.1:1")
            monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())

        def back() -> None:
            monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.env["AWS_ENDPOINT_URL"])
            monkeypatch.setenv("PYICEBERG_CATALOG__HERE__S3__ENDPOINT", bucket.env["AWS_ENDPOINT_URL"])
            monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())

        monkeypatch.setattr(delta, "_PATIENCE", {"timeout": "1s", "retry_timeout": "1s"})

        def back_later(text: str) -> None:
            told.append(text)
            back()

        monkeypatch.setattr(forwards, "PATIENCE", 5.0)
        with forwarding(folder.parent, "job", text, schemas, back_later) as sends:
            commit(folder, 0, ("hot",))
            sends.forward()
            assert not sends.waiting() and not told
            away()
            commit(folder, 1, ("hot",))
            sends.forward()
            assert not sends.waiting() and len(told) == 1 and "derived rows wait" in told[0]
            away()
        assert len(told) == 1
        commit(folder, 2, ("hot",))
        with (
            pytest.raises(CepError) as failed,
            forwarding(folder.parent, "job", f"{text}?compact=2", schemas, told.append),
        ):
            pass
        assert failed.value.code == "failed" and "the same command sends them" in str(failed.value.hint)
        assert "small files are not compacted" in told[-1]
        back()
        with forwarding(folder.parent, "job", text, schemas, told.append):
            pass
        if kind == "delta":
            there = deltalake.DeltaTable("s3://bucket/table", storage_options={"allow_http": "true"}).to_pyarrow_table()
        else:
            there = iceberg().scan().to_arrow()
        assert sorted(there["n"].to_pylist(), key=int) == [str(n) for n in range(3) for _ in range(2)]


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


def test_a_catalog_that_others_hold_is_waited_for(tmp_path: Path) -> None:
    """Of SQLite, which lets one write at a time."""
    folder, name = tmp_path / "state" / OUTGOING, named("iceberg", tmp_path)
    folder.mkdir(parents=True)
    commit(folder, 0)
    relay(folder, name).forward()
    commit(folder, 1)
    with sqlite3.connect(tmp_path / "catalog.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        told: list[str] = []

        def let_go(text: str) -> None:
            told.append(text)
            other.execute("ROLLBACK")

        with forwarding(folder.parent, "state", name.text, SCHEMAS, let_go):
            pass
        assert len(told) == 1 and "database is locked" in told[0]
    assert numbers(name) == ["0"] * 4 + ["1"] * 4


def test_rows_that_may_be_in_one_table_go_to_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, first = tmp_path / "state" / OUTGOING, named("delta", tmp_path)
    other = TableName("delta", str(tmp_path / "other"))
    write = KINDS["delta"].write

    def killed(*given: Any) -> None:
        write(*given)
        raise KeyboardInterrupt

    commit(folder, 0, ("hot",))
    monkeypatch.setattr(KINDS["delta"], "write", killed)
    with pytest.raises(KeyboardInterrupt):
        relay(folder, first).forward()
    monkeypatch.setattr(KINDS["delta"], "write", write)
    with pytest.raises(CepError, match=f"some of the next rows may already be in {first.text}"):
        relay(folder, other).forward()
    relay(folder, first).forward()
    commit(folder, 1, ("hot",))
    relay(folder, other).forward()
    assert numbers(first) == ["0", "0"] and numbers(other) == ["1", "1"]
