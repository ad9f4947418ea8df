"""Parquet: columns of every kind, exact times, and slices."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from cep.connectors.files import read
from cep.core.schema import Attribute, Schema
from tests.file_reading import TICKS, dead, refusal, rows


def test_parquet_columns_of_every_kind(tmp_path: Path) -> None:
    types = ["int", "int", "float", "float", "string", "string", "bool", "time", "time", "duration", "duration", "iri"]
    types += ["any", "int"]
    schema = Schema(
        "e",
        tuple(Attribute(name, type, optional=True) for name, type in zip("iwfdscbtquvran", types)),
        declared=True,
        point=True,
    )
    moment = datetime(2013, 2, 8, 18, 0, 0, 5, tzinfo=UTC)
    ticks = 1360346400_000005
    pl.DataFrame(
        {
            "time": pl.Series([moment, moment, None], dtype=pl.Datetime("ns", "America/New_York")),
            "i": pl.Series([1, None, 3], dtype=pl.UInt8),
            "w": [1.0, 2.5, 3.0],
            "f": [1, 2, 3],
            "d": pl.Series([Decimal("1.5"), None, None], dtype=pl.Decimal(10, 2)),
            "s": ["x", "y", "z"],
            "c": pl.Series(["x", "y", "z"], dtype=pl.Categorical),
            "b": [True, False, None],
            "t": [date(1970, 1, 2)] * 3,
            "q": ["2013-02-08T18:00:00.000005Z"] * 3,
            "u": [timedelta(seconds=1.5)] * 3,
            "v": [0.1] * 3,
            "r": ["http://e.org/x"] * 3,
            "a": [True, None, False],
            "n": pl.Series([None] * 3, dtype=pl.Null),
        }
    ).write_parquet(tmp_path / "x.parquet")
    batches = list(read([str(tmp_path)], {"e": schema}))
    day = 86400_000000
    expected: tuple[Any, ...] = ("e", ticks, ticks, 0, 1, 1, 1.0, 1.5, "x", "x", True, day, ticks, 1_500000, 100000)
    expected += ("http://e.org/x", True, None)
    assert rows(batches) == [expected]
    assert dead(batches) == [(2, "ill-typed"), (3, "time")]
    assert batches[0].origin("e", 0) == (f"{tmp_path}/x.parquet", 1, None)
    assert batches[0].times == "iso"
    kinds = [str(column.dtype) for column in batches[0].tables["e"].get_columns()]
    assert kinds[:10] == ["Int64"] * 5 + ["Float64"] * 2 + ["String"] * 2 + ["Boolean"]
    assert kinds[10:] == ["Int64"] * 4 + ["String", "Boolean", "Int64"]


def test_parquet_times_are_exact_or_refused(tmp_path: Path) -> None:
    def ends(column: pl.Series) -> list[int]:
        pl.DataFrame({"time": column, "n": [1] * len(column)}).write_parquet(tmp_path / "x.parquet")
        return [row[2] for row in rows(read([str(tmp_path)], TICKS))]

    assert ends(pl.Series([1360346400.123456, 0.0000005, float("nan"), 1e30])) == [1360346400_123456, 0]
    assert ends(pl.Series([1, -(2**63), 2**62])) == [1_000000]
    assert ends(pl.Series([1500, 500, 501, -500, -1500]).cast(pl.Datetime("ns"))) == [2, 0, 1, 0, -2]
    assert ends(pl.Series([7]).cast(pl.Datetime("ms"))) == [7000]
    assert ends(pl.Series([253402300800000]).cast(pl.Datetime("ms"))) == []
    assert reasons(pl.Series([253402300800000]).cast(pl.Datetime("ms")), tmp_path) == [
        "time: is not a time of the years 1 to 9999"
    ]
    milliseconds = "is not a time of the years 1 to 9999: seconds since 1970 are expected, this looks like milliseconds"
    milliseconds += "; they are declared `FORMAT epoch ms`"
    assert reasons(pl.Series([1714554000000, 5]), tmp_path) == [f"time: `1714554000000` {milliseconds}"]
    assert reasons(pl.Series([1714554000000.5]), tmp_path) == [f"time: `1714554000000.5` {milliseconds}"]
    assert reasons(pl.Series([Decimal("1714554000000.5")]), tmp_path) == [f"time: `1714554000000.5` {milliseconds}"]
    assert ends(pl.Series([Decimal("1360346400.1234565")])) == [1360346400_123456]
    assert ends(pl.Series(["2013-02-08T18:00:00+01:00", "12"])) == [1360342800_000000]
    assert "time needs datetimes" in refusal_of_column(pl.Series([True]), tmp_path)


def reasons(column: pl.Series, folder: Path) -> list[str]:
    pl.DataFrame({"time": column, "n": [1] * len(column)}).write_parquet(folder / "x.parquet")
    return [record.reason for batch in read([str(folder)], TICKS) for record in batch.dead]


def refusal_of_column(column: pl.Series, folder: Path) -> str:
    pl.DataFrame({"time": column, "n": [1] * len(column)}).write_parquet(folder / "x.parquet")
    return refusal([str(folder)], TICKS)


def test_parquet_comes_in_slices(tmp_path: Path) -> None:
    pl.DataFrame({"time": range(10), "n": range(10), "more": ["x"] * 10}).write_parquet(tmp_path / "x.parquet")
    batches = list(read([str(tmp_path)], TICKS, rows=4))
    assert [batch.rows for batch in batches] == [4, 4, 2]
    assert [row[3:] for row in rows(batches)] == [(i, i) for i in range(10)]
    assert batches[1].origin("tick", 2)[1] == 7
    assert batches[-1].bytes_read == batches[-1].total_bytes == (tmp_path / "x.parquet").stat().st_size
