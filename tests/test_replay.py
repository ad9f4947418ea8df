"""Whole inputs in the order of time."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cep.connectors.files import read, replay
from tests.file_reading import BOTH, LOOSE, TICK, TICKS, dead, rows
from tests.long import examples


def test_replay_merges_by_end_and_then_input_order(tmp_path: Path) -> None:
    by_station = "origin,wind_speed,gust,time_hour\nA,1,NA,1\nA,1,NA,3\nA,1,NA,5\nB,1,NA,1\nB,1,NA,4\nbad\n"
    (tmp_path / "w.csv").write_text(by_station)
    (tmp_path / "t.jsonl").write_text(
        '{"type": "tick", "time": 9, "n": 1}\n'
        '{"type": "tick", "start": 0, "end": 3, "n": 2}\n'
        '{"type": "tick", "time": 4, "n": 3}\n'
    )
    batches = list(replay([f"{tmp_path}/t.jsonl", f"reading={tmp_path}/w.csv"], BOTH, rows=2))
    seconds = 1_000000
    assert [batch.watermark for batch in batches] == [seconds, 3 * seconds, 4 * seconds, 9 * seconds]
    found = [
        {type: [(row[1] // seconds, row[2]) for row in table.rows()] for type, table in batch.tables.items()}
        for batch in batches
    ]
    assert found == [
        {"reading": [(1, 3), (1, 6)]},
        {"reading": [(3, 4)], "tick": [(3, 1)]},
        {"reading": [(4, 7)], "tick": [(4, 2)]},
        {"reading": [(5, 5)], "tick": [(9, 0)]},
    ]
    assert dead(batches) == [(7, "row")]
    assert batches[2].origin("reading", 0) == (f"{tmp_path}/w.csv", 6, "B,1,NA,4")
    assert batches[1].origin("tick", 0)[1:] == (2, '{"type": "tick", "start": 0, "end": 3, "n": 2}')
    assert batches[-1].bytes_read == batches[-1].total_bytes


@examples(60)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 2.5, "x", True, None])), max_size=9), max_size=3
    ),
    st.data(),
)
def test_replay_is_the_input_sorted(
    tmp_path_factory: Any, files: list[list[tuple[int, Any]]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("replay")
    specs = []
    for i, records in enumerate(files):
        specs.append(str(folder / f"{i}.jsonl"))
        text = "".join(json.dumps({"type": "loose", "time": time, "args": [value]}) + "\n" for time, value in records)
        Path(specs[-1]).write_text(text)
    schemas = {"loose": LOOSE, "tick": TICK}
    chunk = data.draw(st.integers(1, 200))
    large = data.draw(st.sampled_from([-1, 1 << 30]))
    batches = list(replay(specs, schemas, chunk=chunk, rows=data.draw(st.integers(1, 9)), large=large))
    found = [row for batch in batches for table in batch.tables.values() for row in table.rows()]
    expected = sorted(rows(read(specs, schemas)), key=lambda row: row[2])
    assert sorted(found, key=lambda row: (row[1], row[2])) == [row[1:] for row in expected]
    latest = -1
    for batch in batches:
        ends = [end for table in batch.tables.values() for end in table["end"].to_list()]
        assert all(end > latest for end in ends), "nothing is late"
        assert batch.watermark is not None or not found
        latest = max(latest, batch.watermark if batch.watermark is not None else -1)


def test_a_large_input_in_order_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"time": {i // 3}, "n": {i}}}\n' for i in range(300)))
    batches = list(replay([str(path)], TICKS, chunk=500, large=0))
    assert len(batches) > 10
    assert all(len(batch.blocks) == 1 for batch in batches)
    assert [row[-1] for batch in batches for row in batch.tables["tick"].rows()] == list(range(300))
    with path.open("a") as out:
        out.write('{"time": 0, "n": 300}\n')
    held = list(replay([str(path)], TICKS, chunk=500, large=0))
    assert [row[-1] for row in held[0].tables["tick"].rows()][:4] == [0, 1, 2, 300]
    path.write_text('{"time": 5, "n": 1}\n{"time": 4, "args": [2]}\n')
    assert [row[-1] for row in next(replay([str(path)], TICKS, chunk=20, large=0)).tables["tick"].rows()] == [2, 1]


def test_a_pipe_is_replayed_as_it_comes() -> None:
    batches = list(replay(["-"], TICKS, stdin=io.BytesIO(b'{"time": 5, "n": 1}\n{"time": 4, "n": 2}\n')))
    assert [batch.watermark for batch in batches] == [None]
    assert [row[-1] for row in rows(batches)] == [1, 2]
