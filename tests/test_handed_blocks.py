"""Blocks on their way, by columns: what lists of blocks would be, wherever they are cut, joined and sent."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cep.spark.handed_blocks import FilePart, HandedBlock, HandedBlocks
from tests.long import examples

PARTS = st.builds(
    FilePart, st.sampled_from(["/a", "/b", "/c"]), st.integers(0, 2**62), st.integers(0, 99), st.integers(0, 2**32 - 1)
)
BLOCKS = st.builds(
    HandedBlock,
    st.integers(-2, 4),
    st.integers(0, 1023),
    st.sampled_from(["a", "b", ""]),
    st.integers(0, 2**62),
    st.sampled_from([None, "", "a", "file"]),
    st.binary(max_size=5) | PARTS,
)


@examples(300)
@given(st.lists(st.lists(BLOCKS, max_size=6), max_size=5))
def test_they_are_what_lists_of_blocks_are(tasks: list[list[HandedBlock]]) -> None:
    every = [one for mine in tasks for one in mine]
    joined = HandedBlocks.joined(pickle.loads(pickle.dumps(HandedBlocks.of(mine))) for mine in tasks)
    assert list(joined) == every and len(joined) == len(every)
    assert [joined[place] for place in range(len(every))] == every and list(joined[1:]) == every[1:]
    for numbers, of in ((joined.stages, lambda one: one.stage), (joined.buckets, lambda one: one.bucket)):
        found = {key: list(mine) for key, mine in joined.by(numbers).items()}
        assert found == {key: [one for one in every if of(one) == key] for key in sorted(set(map(of, every)))}
    assert list(joined.of_events({"a", "c"})) == [one for one in every if one.event == "a"]
    for mine in joined.by(joined.buckets).values():
        assert list(pickle.loads(pickle.dumps(mine))) == list(mine)
        assert list(pickle.loads(pickle.dumps(HandedBlocks.joined([mine, mine])))) == [*mine, *mine]


def test_what_is_sent_has_only_what_it_needs() -> None:
    long = [HandedBlock(1, n, "e", n, f"file {n}", bytes(1000)) for n in range(100)]
    blocks = HandedBlocks.of([*long, HandedBlock(1, 7, "e", 1, "file 7", FilePart("/path", 0, 9, 1))])
    sent = {bucket: pickle.dumps(mine) for bucket, mine in blocks.by(blocks.buckets).items()}
    assert len(sent) == 100 and max(map(len, sent.values())) < 1600
    assert blocks.by(np.zeros(len(blocks), np.int64)).keys() == {0} and HandedBlocks().by(HandedBlocks().stages) == {}
