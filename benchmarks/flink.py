"""`PYTHON benchmarks/flink.py`: the SEQ as MATCH_RECOGNIZE in Flink. PYTHON is a Python that has `apache-flink`.

Flink reads the events as text, because its package on PyPI cannot read Parquet. It discards the matches. It matches an
`a` only with the next `b` of its key, so it finds fewer matches than the SEQ, which pairs an `a` with several.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

MATCH = """INSERT INTO gone SELECT s, f, id, x, y FROM e MATCH_RECOGNIZE (
    PARTITION BY id ORDER BY t
    MEASURES A.t AS s, B.t AS f, A.x AS x, B.x AS y
    ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
    PATTERN (A X*? B) WITHIN INTERVAL '{seconds}' SECOND(9, 3)
    DEFINE A AS kind = 'a', X AS kind = 'a', B AS kind = 'b')"""
SCAN = """INSERT INTO gone
    SELECT CAST(t AS TIMESTAMP_LTZ(3)), CAST(t AS TIMESTAMP_LTZ(3)), id, x, x FROM e"""


def tables(folder: str, parallelism: int) -> Any:
    """Return an environment with the events of `a.csv` and `b.csv`: columns id, x and milliseconds, by time."""
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", str(parallelism))
    made.get_config().set("table.local-time-zone", "UTC")
    for event in ("a", "b"):
        made.execute_sql(
            f"CREATE TABLE {event} (id BIGINT, x BIGINT, ms BIGINT,"
            " t AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR t AS t)"
            f" WITH ('connector' = 'filesystem', 'path' = '{folder}/{event}.csv', 'format' = 'csv')"
        )
    made.execute_sql("CREATE VIEW e AS SELECT 'a' AS kind, id, x, t FROM a UNION ALL SELECT 'b', id, x, t FROM b")
    columns = "s TIMESTAMP_LTZ(3), f TIMESTAMP_LTZ(3), id BIGINT, x BIGINT, y BIGINT"
    made.execute_sql(f"CREATE TABLE gone ({columns}) WITH ('connector' = 'blackhole')")
    return made


def seconds(tables: Any, query: str) -> float:
    """Return the seconds from the start of a query to its end."""
    begun = time.perf_counter()
    tables.execute_sql(query).wait()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--within", type=int, required=True, help="milliseconds")
    parser.add_argument("--parallelism", type=int, default=2)
    asked = parser.parse_args()
    made = tables(asked.folder, asked.parallelism)
    match = MATCH.format(seconds=f"{asked.within / 1000:.3f}")
    warm = seconds(made, match)
    print(json.dumps({"first": warm, "match": seconds(made, match), "scan": seconds(made, SCAN)}))


if __name__ == "__main__":
    main()
