"""Hot keys: which keys have many of the rows that are dealt is told, whatever the cuts, and what is kept is little."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.app.meter import Meter, charts
from cep.app.metrics import serving
from cep.app.watch import Watch
from cep.compile import CompileOptions, compiled
from cep.core.schema import Attribute, Schema
from cep.engine import Engine
from cep.plan.partition import Stage
from cep.runtime.buckets import PART, KeyCounter, KeyShares, merged, slowdown
from cep.runtime.options import EngineOptions
from cep.runtime.report import Report
from cep.runtime.run_stats import RunStats
from cep.runtime.state_by_key import deal_groups
from cep.workers.partitioned_engine import PartitionedEngine
from tests.local_workers import LocalWorkers
from tests.long import examples
from tests.test_metrics import scraped

SCHEMA = Schema("e", (Attribute("s", "string"), Attribute("n", "int")), True, False)
STAGE = Stage(0, True, (), {"e": (1, 0), "f": "whole"}, frozenset({"e"}), (), frozenset(), ())
TEXT = """event e(s: string, n: int).
twice(S) <- e(S, N) SEQ e(S, M) WITHIN 1 s.
"""


Rows = list[tuple[str | None, int]]


@examples(100, few=10)
@given(random=st.randoms(use_true_random=False))
def test_counts_are_nearly_those_of_all_rows(random: Random) -> None:
    """Cut anyhow, a count is at most a 32nd of all rows too small, and never too large; what is left out has little."""
    often = random.choice((("a",), ("a", "b", None), tuple("abcdefghijklmnopqrstuvwxyz")))
    rows: Rows = [
        (random.choice(often) if random.random() < 0.7 else f"k{random.randrange(500)}", random.randrange(2))
        for _ in range(random.randrange(1, 600))
    ]
    counter, first = KeyCounter(), 0
    while first < len(rows):
        part = rows[first : first + random.randrange(1, 200)]
        first += len(part)
        table = pl.DataFrame(part, {"s": pl.String, "n": pl.Int64}, orient="row")
        deal_groups(STAGE, {"e": table, "f": table}, {"e": SCHEMA, "f": SCHEMA}, 3, counter)
    (found,) = counter.counts()
    true = Counter(f"{number}, {'missing' if name is None else name}" for name, number in rows)
    assert (found.event, found.by, found.rows) == ("e", "n, s", len(rows)) and len(found.keys) <= PART
    for key, number in found.keys.items():
        assert true[key] - len(rows) / PART <= number <= true[key]
    assert {key for key, number in true.items() if number * PART > 2 * len(rows)} <= found.keys.keys()
    assert list(found.keys.values()) == sorted(found.keys.values(), reverse=True)
    assert not counter.counts(), "counting begins anew"


def test_what_is_kept_of_many_tables_stays_small() -> None:
    counter, table = KeyCounter(), pl.DataFrame({"s": ["a", "b"], "n": [1, 1]})
    for _ in range(2_000):
        deal_groups(STAGE, {"e": table}, {"e": SCHEMA}, 3, counter)
    assert len(counter._found) <= 256
    assert counter.counts() == (KeyShares("e", "n, s", 4_000, {"1, a": 2_000, "1, b": 2_000}),)


def test_rows_without_the_key_are_not_counted_by_it() -> None:
    counter = KeyCounter()
    deal_groups(STAGE, {"e": pl.DataFrame({"s": ["a"]})}, {"e": SCHEMA}, 3, counter)
    assert counter.counts() == ()


def test_a_report_carries_them() -> None:
    one = Report(keys=[KeyShares("e", "s", 4, {"a": 3})])
    assert Report.of_line(one.line()).keys == one.keys
    assert merged([*one.keys, KeyShares("e", "s", 96, {"b": 4})]) == (KeyShares("e", "s", 100, {"b": 4}),)


@pytest.mark.parametrize(("share", "partitions", "times"), [(1, 8, 8), (0.5, 2, 1.5), (0, 8, 1), (0.25, 1, 1)])
def test_what_a_hot_key_costs(share: float, partitions: int, times: float) -> None:
    assert slowdown(share, partitions) == times


def test_workers_tell_of_the_rows_they_deal() -> None:
    engine = PartitionedEngine(compiled(TEXT, "<program>", CompileOptions()), EngineOptions(), LocalWorkers(2))
    rows = pl.DataFrame({"time": range(10), "s": ["a"] * 7 + ["b", "c", "d"], "n": range(10)})
    engine.push({"e": rows})
    (told,) = engine.take_key_shares()
    assert (told.event, told.by, told.rows) == ("e", "s", 10)
    assert told.shares() == {"s=a": 0.7, "s=b": 0.1, "s=c": 0.1, "s=d": 0.1}
    assert engine.take_key_shares() == () and Engine.from_text(TEXT).take_key_shares() == ()


def test_a_hot_key_is_warned_of_once_and_is_a_metric() -> None:
    logged: list[dict[str, Any]] = []

    def log(event: str, text: str | None, level: str = "info", /, **fields: object) -> None:
        logged.append({"event": event, "text": text, "level": level, **fields})

    def batch(rows: int, **keys: int) -> list[Report]:
        return [Report(keys=[KeyShares("e", "s", rows, keys)]), Report(stage=1)]

    plan = Engine.from_text(TEXT).plan
    one = Watch(charts(plan), RunStats(), log, 0.0, partitions=8)
    with serving(one.meter, "0") as url:
        one.batch(batch(9_000, a=9_000), 0.1)
        assert [line["event"] for line in logged] == ["progress"], "few rows say little"
        one.batch(batch(20_000, a=12_000, b=800), 0.1)
        assert scraped(url)["semcep_hot_key_share"] == {("e", "s=a"): 0.6, ("e", "s=b"): 0.04}
        one.batch(batch(30_000, a=12_000), 0.1)
        one.batch([Report(stage=1)], 0.1)
        assert scraped(url)["semcep_hot_key_share"] == {("e", "s=a"): 0.4}, "of the last that dealt rows"
    hot = [line for line in logged if line["event"] == "hot_key"]
    text = "hot key: s=a has 60% of the rows of `e`, and one of 8 partitions takes them: a step is up to 5.2 times as "
    assert hot == [
        {
            "event": "hot_key",
            "text": text + "long as with even keys",
            "level": "warning",
            "of": "e",
            "key": "s=a",
            "share": 0.6,
        }
    ]
    assert [line["hot_keys"] for line in logged if line["event"] == "progress"][1] == {"e": {"s=a": 0.6, "s=b": 0.04}}
    assert not Meter(charts(plan)).keys
