"""What stays as it is in the state of a bucket is written once, and goes when no state that is kept has it."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from cep.core.errors import CepError
from cep.core.schema import CHANGE, Attribute, Schema
from cep.engine import Engine
from cep.events import Event
from cep.runtime.snapshot import SegmentedState

pytest.importorskip("pyspark")

from cep.core import checksum
from cep.spark.state.bucket_states import KEPT, BucketStates, remove_leftovers
from cep.workers.multiplicities import Ways
from cep.workers.row_runs import ROWS
from tests.damage import flipped

SECOND = 1_000_000
TEXT = "event r(k: string, x: int).\nhot(K, X) <- r(K, X) WHERE X > 5.\nrise(K) <- r(K, X) SEQ r(K, Y) WHERE Y > X + 8."


def state(*parts: bytes) -> SegmentedState:
    found = {checksum.digest(part).hex(): part for part in parts}
    return SegmentedState(b"head", tuple(found), found)


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.glob("w*"))}


def test_a_segment_is_there_while_a_state_that_is_kept_has_it(tmp_path: Path) -> None:
    states = BucketStates(str(tmp_path), 1)
    long, short = b"l" * 1000, b"s" * 300
    states.write(0, 1, state(long, short), 1)
    assert list(files(tmp_path).values()) == [1300]
    states.write(0, 2, state(long, b"more"), 2)
    assert sorted(files(tmp_path).values()) == [4, 1300]
    states.write(0, 3, state(short), 3)  # less than half of its file: written again
    assert sorted(files(tmp_path).values()) == [4, 300, 1300]
    for version in range(4, 4 + KEPT):
        states.write(0, version, state(short), version)
    assert list(files(tmp_path).values()) == [300], "what is older has no part in what is kept"

    def opened(head: bytes, segments: object) -> list[bytes]:
        assert head == b"head"
        return [segments.fetch(name) for name in segments.names]  # type: ignore[attr-defined]

    assert states.opened(0, 6, opened) == [short]
    (tmp_path / "w1-0000-00000009-left").write_bytes(b"by a task that was killed")
    remove_leftovers(tmp_path)
    (kept,) = files(tmp_path)
    (tmp_path / kept).write_bytes(b"x" * 300)
    with pytest.raises(CepError, match=f"{kept} .*damaged|{kept}.* is not"):
        states.opened(0, 6, opened)
    (tmp_path / kept).unlink()
    with pytest.raises(CepError, match=f"{kept} is missing: it is a part of the state"):
        states.opened(0, 6, opened)


def test_what_says_where_segments_are_may_be_damaged(tmp_path: Path) -> None:
    """It is read before its hash is looked at: of whatever length it says it is, no more is read than there is."""
    states = BucketStates(str(tmp_path), 1)
    states.write(0, 1, state(b"segment" * 9), 1)
    path = tmp_path / "1-0000-00000001"
    data = path.read_bytes()
    for _, damaged in flipped(data, 300, random.Random(1)):
        path.write_bytes(damaged)
        remove_leftovers(tmp_path)
        with pytest.raises(CepError, match="1-0000-00000001"):
            states.opened(0, 1, lambda head, segments: [segments.fetch(name) for name in segments.names])


def test_what_is_written_is_what_changed(tmp_path: Path) -> None:
    """And a bucket that is read again goes on in the same way."""
    rng, states = random.Random(1), BucketStates(str(tmp_path), 1)
    engines = [Engine.from_text(TEXT, lateness=None, revise=800 * SECOND) for _ in range(2)]
    wrote: list[int] = []
    for number in range(1, 70):
        time = 10 * number * SECOND
        events = [
            Event("r", (f"{rng.randrange(9)} {number}", rng.randrange(20)), time + n, time + n) for n in range(20)
        ]
        if number % 40 == 0:
            late = (number - 20) * 10 * SECOND
            events.append(Event("r", ("1 late", 19), late, late))
        for engine in engines:
            engine.receive(events)
        given = [engine.advance(time + SECOND) for engine in engines]
        assert {event: table.rows() for event, table in given[0].items()} == {
            event: table.rows() for event, table in given[1].items()
        }
        found = engines[0].snapshot_in_segments()
        wrote.append(sum(map(len, found.new.values())))
        states.write(0, number, found, number)
        if number in (50, 51, 60):
            made = Engine.from_text(TEXT, lateness=None, revise=800 * SECOND)
            engines[0] = states.opened(
                0, number, lambda head, has, made=made: made.restore_segments(head, has.names, has.fetch)
            )
            assert not made.snapshot_in_segments().new, "all of it is there"
    whole = len(engines[0].snapshot())
    assert sum(wrote[30:]) / len(wrote[30:]) < whole / 8
    assert sum(files(tmp_path).values()) < 2 * whole


def test_only_rows_that_end_when_others_change_are_looked_at() -> None:
    schema = Schema("e", (Attribute("k", "int"),), True, False)
    rng, ways, there = random.Random(2), Ways({"e": schema}), dict[tuple[int, int], int]()
    for number in range(30):
        changes: list[tuple[int, int, int, int]] = []
        for _ in range(200):
            end = 1000 * number + rng.randrange(1000) if rng.random() < 0.9 else rng.randrange(1000 * (number + 1))
            row = end // 50, rng.randrange(4)
            sign = -1 if there.get(row, 0) > 0 and rng.random() < 0.5 else 1
            changes.append((row[0], row[0], row[1], sign))
            before, there[row] = there.get(row, 0), there.get(row, 0) + sign
            assert before >= 0
        was = {row for row, count in there.items() if count - sum(c[3] for c in changes if (c[1], c[2]) == row) > 0}
        given = ways.take("e", pl.DataFrame(changes, schema=["start", "end", "k", CHANGE], orient="row"))
        is_ = {row for row, count in there.items() if count > 0}
        expected = {(*row, 1) for row in is_ - was} | {(*row, -1) for row in was - is_}
        assert {(row[1], row[2], row[3]) for row in given.rows()} == expected
        if number % 7 == 0:
            kept = ways.snapshot("p")
            parts = kept.new if number == 0 else parts | kept.new  # noqa: F821 - the first gives all
            ways = Ways({"e": schema}).restore(kept.head, kept.names, parts.__getitem__, "p")
    assert all(table.height <= ROWS for table in ways.runs["e"].tables)
    assert ways.runs["e"].height == sum(count > 0 for count in there.values())
    ways.forget(10**6)
    assert not ways.runs
