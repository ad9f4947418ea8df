"""Blocks on their way, by columns: what lists of blocks would be, wherever they are cut, joined and sent."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.spark.handed_blocks import FilePart, HandedBlocks
from cep.spark.shuffle_blocks import ShuffleBlock
from tests.long import examples

DATA = bytes(range(256)) * 4
PARTS = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 900), st.integers(0, 99))
BLOCKS = st.tuples(
    st.integers(-2, 4),
    st.integers(0, 1023),
    st.sampled_from(["a", "b", ""]),
    st.integers(0, 2**62),
    st.sampled_from([None, "", "a", "file"]),
    st.binary(max_size=5) | PARTS,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of rows."""
    place = tmp_path_factory.mktemp("handed")
    for name in ("a", "b", "c"):
        (place / name).write_bytes(DATA)
    return place


def sent(mine: list[Any], folder: Path) -> HandedBlocks:
    """Blocks of a task, of which some are in files: as an outbox has them."""
    parts, rest, filed = list[FilePart](), list[ShuffleBlock](), list[ShuffleBlock]()
    for *fields, rows in mine:
        if isinstance(rows, bytes):
            rest.append(ShuffleBlock(*fields, rows))
        else:
            name, offset, length = rows
            filed.append(ShuffleBlock(*fields))
            parts.append(FilePart(str(folder / name), offset, length, crc32(DATA[offset : offset + length])))
    return HandedBlocks.of([*filed, *rest], parts)


def as_read(mine: list[Any]) -> list[ShuffleBlock]:
    """The blocks of a task with their rows, first those in files."""
    blocks = [ShuffleBlock(*fields, DATA[r[1] : r[1] + r[2]]) for *fields, r in mine if not isinstance(r, bytes)]
    return blocks + [ShuffleBlock(*fields, rows) for *fields, rows in mine if isinstance(rows, bytes)]


@examples(300)
@given(st.lists(st.lists(BLOCKS, max_size=6), max_size=5))
def test_they_are_what_lists_of_blocks_are(folder: Path, tasks: list[list[Any]]) -> None:
    every = [one for mine in tasks for one in as_read(mine)]
    joined = HandedBlocks.joined(pickle.loads(pickle.dumps(sent(mine, folder))) for mine in tasks)
    assert list(joined) == every and len(joined) == len(every)
    assert joined.sources == [one.source or "" for one in every]
    for numbers, of in ((joined.stages, lambda one: one.stage), (joined.buckets, lambda one: one.bucket)):
        found = {key: list(mine) for key, mine in joined.by(numbers).items()}
        assert found == {key: [one for one in every if of(one) == key] for key in sorted(set(map(of, every)))}
    assert list(joined.of_events({"a", "c"})) == [one for one in every if one.event == "a"]
    for mine in joined.by(joined.buckets).values():
        assert list(pickle.loads(pickle.dumps(mine))) == list(mine)
        assert list(pickle.loads(pickle.dumps(HandedBlocks.joined([mine, mine])))) == [*mine, *mine]


def test_what_is_sent_has_only_what_it_needs() -> None:
    long = [ShuffleBlock(1, n, "e", n, f"file {n}", bytes(1000)) for n in range(100)]
    blocks = HandedBlocks.of([ShuffleBlock(1, 7, "e", 1, "file 7"), *long], [FilePart("/path", 0, 9, 1)])
    mine = {bucket: pickle.dumps(some) for bucket, some in blocks.by(blocks.buckets).items()}
    assert len(mine) == 100 and max(map(len, mine.values())) < 1600
    assert blocks.by(np.zeros(len(blocks), np.int64)).keys() == {0} and HandedBlocks().by(HandedBlocks().stages) == {}
