"""The memory of a server with steady input does not grow with its running time."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cep.connectors.brokers.messages import Inbox, Messages
from cep.connectors.inputs import inputs
from cep.connectors.rdf import quad_writer
from cep.connectors.rdf.store import EventStore
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.records.batch import Batch
from cep.connectors.why.origins import Origins
from cep.engine import Engine
from cep.explain.occurrences import Occurrence
from tests.test_serve import PAIRS

PLACE = "tcp://localhost:9"


def record(number: int) -> Occurrence:
    return Occurrence("reading", (), 0, 0, number, number + 1)


def come(batches: list[Batch]) -> Origins:
    origins = Origins()
    assert list(origins.noted(iter(batches))) == batches
    return origins


def test_where_records_of_a_stream_came_from_takes_no_room() -> None:
    """Also where a dead letter is among them; messages of several sources lose their text, topics and keys."""
    schemas = Engine.from_text(PAIRS).inputs
    (found,) = inputs([f"reading={PLACE}"], schemas, None)
    inbox, batches = Inbox(found, schemas), []
    for first in range(0, 3_000, 3):
        payloads = [b'{"time": %d, "fridge": "milk", "temp": 4}' % n for n in range(first, first + 3)]
        batches.append(inbox.batch(Messages([PLACE] * 3, range(first + 1, first + 4), payloads), first))
    origins = come(batches)
    assert len(origins._blocks) == 1, "a stream of one source is one block"
    assert [origins(record(n)) for n in (0, 1_234, 2_999)] == [(PLACE, 1), (PLACE, 1_235), (PLACE, 3_000)]
    assert origins(record(3_000)) is None
    topics = ["mqtt://h/a", "mqtt://h/b"]
    both = Messages(
        topics, [7, 3], [b'{"time": 1, "fridge": "milk", "temp": 4}'] * 2, topics=["a", "b"], keys=[b"", b""]
    )
    origins = come([inbox.batch(both, 0)])
    assert [origins(record(n)) for n in (0, 1)] == [("mqtt://h/a", 7), ("mqtt://h/b", 3)]
    (block,) = origins._blocks
    kept = block.messages  # type: ignore[attr-defined]
    assert not kept.payloads and not kept.topics and not kept.keys and block.data is None
    gaps = inbox.batch(Messages([PLACE] * 2, [1, 5], list(both.payloads)), 0).blocks[0].without_text()
    assert np.array_equal(gaps.lines, [1, 5]) and gaps.place(1) == (PLACE, 5)  # type: ignore[arg-type]


@pytest.mark.long
def test_the_store_gives_back_what_it_has_written(tmp_path: Path) -> None:
    """Its process keeps what one file of RocksDB takes, and not that of each of its threads."""

    def used(process: int) -> int:
        """Megabytes that are its own."""
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon"))

    found: list[int] = []
    with closing(StoreProcess(tmp_path / "events", EventVocabulary())) as store:
        for turn in range(4):
            for first in range(0, quad_writer._IN_MEMORY, 5_000):
                lines = (f'<urn:s{turn}/{n}> <urn:p{n % 9}> "{n}" .\n' for n in range(first, first + 5_000))
                store.add("".join(lines)).result()
            found.append(used(store.process))
    assert max(found) < 40, found


def test_what_is_written_does_not_stay_in_memory(tmp_path: Path) -> None:
    """A store of Oxigraph alone would keep some hundred megabytes before it writes files."""
    store, folder, step = EventStore(str(tmp_path / "events"), EventVocabulary()), tmp_path / "events", 1_000
    before = set(folder.glob("*.sst"))
    for first in range(0, quad_writer._IN_MEMORY, step):
        assert set(folder.glob("*.sst")) == before, "it waits until it is worth a file"
        store.add(b"".join(b"<urn:s%d> <urn:p> <urn:o> .\n" % n for n in range(first, first + step)))
    assert set(folder.glob("*.sst")) > before
