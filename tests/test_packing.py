"""Tables lie in shared memory and come out as they were; rows are dealt and put in order as tables are."""

from __future__ import annotations

import errno
import gc
import os
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from cep.core.schema import ARRIVAL, Attribute, Schema
from cep.events import Iri
from cep.plan.partition import Stage
from cep.runtime.buckets import KeyCounter
from cep.runtime.state_by_key import deal_groups
from cep.workers import shared_memory
from cep.workers.dealing import deal_packed
from cep.workers.merging import in_order
from cep.workers.messages import Done, Line
from cep.workers.packing import copy, laid_out, read
from tests.local_workers import carried, lines
from tests.long import seeds

ATTRIBUTES = (Attribute("s", "string"), Attribute("n", "int"), Attribute("f", "float", optional=True))
SCHEMAS = {name: Schema(name, ATTRIBUTES, True, False) for name in ("one", "two", "some", "all", "single")}
STAGE = Stage(
    1,
    True,
    (),
    {"one": (1,), "two": (0, 1), "some": (2,), "all": "broadcast", "single": "single", "whole": "whole"},
    frozenset(SCHEMAS),
    (),
    frozenset(),
    (),
)


def table(random: Random, rows: int, plain: bool = False) -> pl.DataFrame:
    """A random one; `plain`: nothing is missing in it."""
    columns: dict[str, list[Any]] = {
        "time": sorted(random.randrange(99) for _ in range(rows)),
        ARRIVAL: sorted(random.randrange(999) for _ in range(rows)),
        "s": [random.choice(("", "a", "größe", "x" * 40)) for _ in range(rows)],
        "n": [random.randrange(-3, 3) for _ in range(rows)],
        "f": [random.choice((0.5, -1.0) if plain else (0.5, -1.0, None)) for _ in range(rows)],
        "b": [random.random() < 0.5 for _ in range(rows)],
    }
    types = {"time": pl.Int64, ARRIVAL: pl.Int64, "s": pl.String, "n": pl.Int64, "f": pl.Float64, "b": pl.Boolean}
    made = pl.DataFrame(columns, schema=types)
    if not plain and random.random() < 0.3:
        made = made.with_columns(pl.Series("n", [random.choice((1, None)) for _ in range(rows)], dtype=pl.Int64))
    cut = random.randrange(rows + 1)
    return pl.concat([made[:cut], made[cut:]], rechunk=False) if random.random() < 0.5 else made


@pytest.mark.parametrize("seed", seeds(60))
def test_tables_come_as_they_were_sent(seed: int) -> None:
    random = Random(seed)
    here, there = lines() if random.random() < 0.7 else (Line(each.socket, None, None) for each in lines())
    for _ in range(4):
        sent = {name: table(random, random.choice((0, 1, 5, 70))) for name in ("a", "b")[: random.randrange(3)]}
        if random.random() < 0.3:
            mixed = pl.Series("m", [1, "x", None, 2.5, True, Iri("i:x")], dtype=pl.Object)
            sent["m"] = pl.DataFrame([mixed, pl.Series("k", range(6))])
        head, found = carried(here, there, Done(), sent)
        assert isinstance(head, Done) and list(found) == list(sent)
        for name, each in sent.items():
            assert found[name].columns == each.columns and found[name].rows() == each.rows()
            assert found[name].dtypes == each.dtypes
        here, there = there, here


def test_memory_is_used_again_when_nobody_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "SIZE", 1 << 16)
    here, there = lines()
    given = here._given
    if given is None:
        return  # a system without such memory sends all of it
    random = Random(1)
    kept: list[tuple[pl.DataFrame, pl.DataFrame]] = []
    for step in range(300):
        sent = table(random, random.randrange(1, 200))
        found = carried(here, there, Done(), {"a": sent})[1]["a"]
        assert found.rows() == sent.rows()
        kept.append((sent, found))
        if random.random() < 0.6:
            kept = random.sample(kept, min(len(kept), random.choice((0, 3, 50))))
        assert all(was.rows() == now.rows() for was, now in kept), f"what is kept stays as it was, step {step}"
        carried(there, here, Done(), {})  # says what is over
        del found
    kept.clear()
    gc.collect()
    carried(there, here, Done(), {})
    carried(here, there, Done(), {"a": table(random, 10)})
    assert len(given._used) == 1, "all the others were given back"


def test_memory_without_room_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def full(descriptor: int, size: int) -> None:
        asked.append(descriptor)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "ftruncate", full)
    assert shared_memory.shared_memory() is None
    for descriptor in asked:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


@pytest.mark.parametrize("seed", seeds(60))
def test_rows_are_dealt_as_tables_are(seed: int) -> None:
    random = Random(seed)
    count, plain = random.choice((1, 2, 3, 7)), random.random() < 0.5
    schemas = SCHEMAS | {"whole": SCHEMAS["one"]}
    parts = {
        name: [table(random, random.choice((0, 1, 50)), plain) for _ in range(random.randrange(1, 4))]
        for name in random.sample([*schemas, "other"], 4)
    }
    keys, packed_keys = KeyCounter(), KeyCounter()
    expected = deal_groups(STAGE, {n: pl.concat(each) for n, each in parts.items()}, schemas, count, keys)
    dealt = deal_packed(STAGE, parts, schemas, count, packed_keys)
    for tables, packed in zip(expected, dealt, strict=True):
        layout, buffers, size = laid_out(packed)
        memory = np.empty(size, np.uint8)
        copy(buffers, memory)
        found = read(layout, pa.py_buffer(memory))
        tables = {name: each for name, each in tables.items() if each.height}
        assert {name: each.rows() for name, each in found.items()} == {n: each.rows() for n, each in tables.items()}
    rows = [{one.event: one.rows for one in each.counts() if one.rows} for each in (keys, packed_keys)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("seed", seeds(60))
def test_parts_are_put_in_order(seed: int) -> None:
    random = Random(seed)
    parts = []
    for number in range(random.randrange(1, 5)):
        rows = [tuple(random.randrange(6) for _ in range(3)) for _ in range(random.choice((0, 1, 40)))]
        if random.random() < 0.8:
            rows.sort(key=lambda row: (row[0], row[1], row[2]))
        columns = (
            dict(zip(("end", "start", ARRIVAL), zip(*rows))) if rows else dict.fromkeys(("end", "start", ARRIVAL), ())
        )
        made = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64))
        who = pl.Series(
            "who", [f"{number}.{i}" if random.random() < 0.9 else None for i in range(len(rows))], pl.String
        )
        parts.append(made.with_columns(who, mean=pl.Series([0.5 * i for i in range(len(rows))], dtype=pl.Float64)))
    expected = pl.concat(parts).sort("end", "start", ARRIVAL, maintain_order=True)
    found = in_order(parts, "start")
    if sum(part.height > 0 for part in parts) > 1:
        assert found.equals(expected.drop("start"))
    else:
        assert found.rows() == next((part.drop("start").rows() for part in parts if part.height), [])
