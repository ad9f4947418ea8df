"""Key groups: rows of a key are in one group for good, and partitions may be as many as one likes, from run to run."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.schema import Attribute, Schema
from cep.engine import Engine, detect
from cep.plan.partition import Stage, partition
from cep.runtime.buckets import row_hashes
from cep.runtime.state_by_key import (
    GROUPS,
    deal_groups,
    first_group,
    groups_in,
    groups_of,
    partition_of,
    redeal,
)
from tests.keyed_programs import keyed_programs
from tests.programs import Program
from tests.rounds import Buckets
from tests.test_equivalence import check, examples, in_order, types

COUNTS = (1, 2, 7, 64)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 1000, GROUPS])
def test_groups_are_dealt_evenly(count: int) -> None:
    groups = np.arange(GROUPS)
    mine = [partition_of(groups, count) == number for number in range(count)]
    sizes = [int(each.sum()) for each in mine]
    assert sum(sizes) == GROUPS and max(sizes) - min(sizes) <= 1
    for number, held in enumerate(mine):
        share = groups_in(number, count)
        assert np.flatnonzero(held).tolist() == list(range(share.first, share.stop)) and len(share) == sizes[number]
    assert first_group(count, count) == GROUPS


@pytest.mark.parametrize("count", [0, -1, GROUPS + 1])
def test_there_are_no_more_partitions_than_groups(count: int) -> None:
    with pytest.raises(CepError, match=f"{count} is not a valid number of workers or partitions") as caught:
        groups_in(0, count)
    assert caught.value.hint == "use 1 to 1,024"


def test_a_key_keeps_its_group() -> None:
    """What is on disk is by these numbers."""
    schema = Schema("e", (Attribute("s", "string"), Attribute("n", "int")), True, False)
    table = pl.DataFrame({"s": ["a", "ü€😀", "", None, "station-000017"], "n": [1, 2, -3, 0, None]})
    assert groups_of(row_hashes(table, schema, (0,))).tolist() == [232, 778, 341, 147, 240]
    assert groups_of(row_hashes(table, schema, (1,))).tolist() == [812, 999, 706, 0, 147]
    assert groups_of(row_hashes(table, schema, (0, 1))).tolist() == [913, 995, 977, 899, 929]


@examples(40)
@given(random=st.randoms(use_true_random=False), count=st.sampled_from(COUNTS))
def test_rows_are_dealt_by_their_groups(random: Random, count: int) -> None:
    """In their order, each to the partition that has its group."""
    schema = Schema("e", (Attribute("s", "string"), Attribute("n", "int")), True, False)
    height = random.randrange(60)
    table = pl.DataFrame(
        {
            "s": pl.Series([random.choice("abcdef") for _ in range(height)], dtype=pl.String),
            "n": pl.Series([random.randrange(9) for _ in range(height)], dtype=pl.Int64),
            "at": pl.Series(range(height), dtype=pl.Int64),
        }
    )
    stage = Stage(0, True, (), {"e": (1, 0)}, frozenset({"e"}), (), frozenset(), ())
    places = partition_of(groups_of(row_hashes(table, schema, (1, 0))), count)
    dealt = deal_groups(stage, {"e": table}, {"e": schema}, count)
    found = [each["e"]["at"].to_list() if "e" in each else [] for each in dealt]
    assert found == [np.flatnonzero(places == number).tolist() for number in range(count)]
    single = Stage(0, False, (), {"e": "single"}, frozenset({"e"}), (), frozenset(), ())
    assert deal_groups(single, {"e": table}, {"e": schema}, 1)[0]["e"] is table
    assert [each.keys() for each in deal_groups(stage, {}, {"e": schema}, count)] == [set()] * count


class Regrouped(Buckets):
    """Between two rounds all goes to another number of partitions, through snapshots or as it is."""

    def round(self, tables: Mapping[str, pl.DataFrame], watermark: int) -> dict[str, pl.DataFrame]:
        for place, stage in enumerate(self.stages):
            if stage.keyed and self.random.random() < 0.6:
                before = [self.engine(stage).restore(engine.snapshot()) for engine in self.engines[place]]
                after = [self.engine(stage) for _ in range(self.random.choice(COUNTS))]
                try:
                    redeal(before, after)
                except CepError as error:
                    assert error.code == "key"  # of a goal beside what is everywhere: its rows go by no argument
                    continue
                self.engines[place] = after
        return super().round(tables, watermark)


@examples(300, few=3)
@given(keyed_programs(), st.sampled_from(COUNTS), st.data())
def test_any_number_of_partitions_derives_the_same(program: Program, count: int, data: st.DataObject) -> None:
    events = in_order(program.events)
    try:
        expected = detect(program.text, events)
    except CepError:
        assume(False)  # a type that no event of the stream gives
    run = Regrouped(program.text, count, Random(data.draw(st.integers(0, 999))), types=types(events))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=5)))
    batches = [list(enumerate(events))[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)])]
    check(expected, run.run(batches), "partitions (+) change what is derived (-)")


@pytest.mark.parametrize(
    ("of", "count"),
    [(1, 64), (64, 1), (7, 5), (5, 7), (14, 13), (16, 16), pytest.param(64, 63, marks=pytest.mark.long)],
)
def test_state_goes_where_rows_go(of: int, count: int) -> None:
    """Each partition holds the keys that come to it, and those before hold nothing any more."""
    text = "event a(k: int, v: int). event b(k: int). both(K, V) <- a(K, V) SEQ b(K)."
    keys = 500
    whole = Engine.from_text(text)
    (stage,), schemas = partition(whole.plan), whole.plan.schemas
    before = [Engine.from_text(text, stage=1, lateness=None) for _ in range(of)]
    given_a = pl.DataFrame({"time": range(keys), "k": range(keys), "v": range(keys)}).with_columns(
        pl.col("time").alias("@order")
    )
    for engine, tables in zip(before, deal_groups(stage, {"a": given_a}, schemas, of), strict=True):
        engine.push(tables)
        engine.advance(keys)
    after = [Engine.from_text(text, stage=1, lateness=None) for _ in range(count)]
    redeal(before, after)
    assert sum(engine.state_rows for engine in after) == keys
    assert not sum(engine.state_rows for engine in before)
    given_b = pl.DataFrame({"time": range(keys + 1, 2 * keys + 1), "k": range(keys)})
    given_b = given_b.with_columns(pl.col("time").alias("@order"))
    found = []
    for engine, tables in zip(after, deal_groups(stage, {"b": given_b}, schemas, count), strict=True):
        engine.push(tables)
        found += [table.to_series(3).to_list() for table in engine.advance(3 * keys).values()]
    assert sorted(value for each in found for value in each) == list(range(keys))
