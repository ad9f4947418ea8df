"""Tables of polars, pandas and Arrow with the same contents, for tests."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from cep import Event

PROGRAM = """
event reading(station: string FROM origin, wind: float FROM "wind speed", gusts: int?, calm: bool) TIME measured.
event gust(station: string, wind: float, gusts: int, calm: bool).
gust(S, W, N, C) <- reading(S, W, N, C) WHERE W > 10.
"""
HOUR = 3_600_000_000
FRAME = pl.DataFrame(
    {
        "origin": ["JFK", "LGA", "JFK", "EWR", "JFK"],
        "wind speed": [12.5, 3.0, None, 20.0, 11.0],
        "gusts": [1, 2, 3, None, 5],
        "calm": [True, False, True, False, False],
        "measured": pl.datetime_range(datetime(2024, 1, 1), datetime(2024, 1, 1, 4), "1h", eager=True, time_zone="UTC"),
    }
).with_columns(unread=pl.Series([object()] * 5, dtype=pl.Object), lists=pl.Series([[1], [2], [], None, [3]]))
READ = FRAME.drop("unread", "lists")
DAY = 1_704_067_200_000_000  # 2024-01-01
FOUND = [
    Event("gust", ("JFK", 12.5, 1, True), DAY, DAY),
    Event("gust", ("EWR", 20.0, None, False), DAY + 3 * HOUR, DAY + 3 * HOUR),
    Event("gust", ("JFK", 11.0, 5, False), DAY + 4 * HOUR, DAY + 4 * HOUR),
]


class Stream:
    """Something that only offers an Arrow stream."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)
