"""What is old goes in small steps, with what only it needs, and what comes meanwhile does not wait for it."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.connectors.rdf import retention, triples
from cep.connectors.rdf.history import StoreListener
from cep.connectors.rdf.quad_writer import QuadWriter
from cep.connectors.rdf.retention import Retention
from cep.connectors.rdf.store_files import StoreFiles
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.time_tree import TimeTree
from cep.connectors.rdf.vocabulary import PROV, EventVocabulary
from cep.core.identity import identified
from cep.core.schema import Attribute, Schema
from tests.long import examples

EIGHT, SECOND = 1_714_550_400_000_000, 1_000_000  # 2024-05-01T08:00:00Z
BEAT = Schema("beat", (Attribute("n", "int"),), True, False)

Beats = list[tuple[int, int, int]]  # end in seconds, how long, from which of five records it comes
beats = st.lists(st.tuples(st.integers(0, 8_000), st.sampled_from([0, 0, 50, 7_000]), st.integers(0, 4)), max_size=50)


def written(made: Beats) -> str:
    """Beats that come from records, which are only named."""
    ends = [EIGHT + end * SECOND for end, _, _ in made]
    starts = [end - long * SECOND for end, (_, long, _) in zip(ends, made)]
    table = pl.DataFrame({"start": starts, "end": ends, "n": range(len(made))}, schema_overrides={"n": pl.Int64})
    named = identified(table, BEAT, "p")
    text = triples.event_triples([triples.Derived(named, BEAT, "urn:rule")], EventVocabulary())
    for id, (_, _, record) in zip(named["@id"], made):
        text += (
            f"<{EventVocabulary().event(id)}> <{PROV}wasDerivedFrom> <urn:r{record}> .\n"
            f"<urn:r{record}> <urn:is> <urn:R> .\n"
        )
    return text


def loaded(text: str) -> ox.Store:
    store = ox.Store()
    store.load(text, ox.RdfFormat.N_TRIPLES, lenient=True)
    return store


def lines(store: ox.Store) -> list[str]:
    return sorted(str(quad) for quad in store)


@examples(60)
@given(beats, st.lists(st.integers(-100, 9_000), min_size=1, max_size=4).map(sorted), st.integers(1, 7))
def test_what_stays_is_what_would_be_there_without_what_goes(made: Beats, times: list[int], step: int) -> None:
    """Whatever the steps; in each of them so much at most, and never half an event."""
    made = list({(end, long): (end, long, record) for end, long, record in made}.values())
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(retention, "_STEP", step)
        store = loaded(written(made))
        old = Retention(QuadWriter(store, StoreFiles(folder)), TimeTree(store, EventVocabulary()))
        for time in times:
            until = triples.stamp(EIGHT + time * SECOND)
            for gone in old.steps(until):
                assert gone <= step
                said = [len(list(store.quads_for_pattern(quad.subject, None, None))) for quad in _ends(store)]
                assert set(said) <= {6}
            over = time // 60 * 60
            kept = [beat for beat in made if beat[0] >= over]
            whole = lines(loaded(written(made)))
            names = {f"<{one}>" for one in _names(made) if one not in _names(kept, made)}
            assert [line for line in lines(store) if ":event/" in line] == [
                line for line in whole if ":event/" in line and line.split()[0] not in names
            ]
            assert lines(store) == sorted(_without(whole, names)), "no more, and no less"


def _ends(store: ox.Store) -> list[ox.Quad]:
    return list(store.quads_for_pattern(None, ox.NamedNode("http://www.w3.org/2006/time#hasEnd"), None))


def _names(some: Beats, all: Beats | None = None) -> set[str]:
    """The events of some of all beats."""
    found = loaded(written(all or some))
    ends = {triples.stamp(EIGHT + end * SECOND): None for end, _, _ in some}
    return {q.subject.value for q in _ends(found) if q.object.value.rpartition("/")[2] in ends}  # type: ignore[union-attr]


def _without(whole: list[str], names: set[str]) -> list[str]:
    """Lines without events, and what nothing of the rest needs."""
    rest = [line for line in whole if line.split()[0] not in names]
    used = {line.split()[2] for line in rest if ":event/" in line.split()[0]}
    times = [line for line in rest if line.split()[0].startswith("<urn:semcep:instant/") and line.split()[0] in used]
    minutes = [line for line in rest if "#inside>" in line and line.split()[2] in used]
    spans = {line.split()[0] for line in minutes}
    around: list[str] = []
    for _ in range(3):
        found = [line for line in rest if "#intervalContains>" in line and line.split()[2] in spans]
        around += found
        spans = {line.split()[0] for line in found}
    records = [line for line in rest if line.startswith("<urn:r") and line.split()[0] in used]
    return [line for line in rest if ":event/" in line.split()[0]] + times + minutes + sorted(set(around)) + records


def test_what_comes_is_written_between_two_steps(tmp_path: Path) -> None:
    """Four thousand events go, more than an hour's at once: what came after that was reported is there first."""
    with closing(StoreProcess(tmp_path / "events", EventVocabulary())) as store:
        store.add(written([(n // 10, 0, 0) for n in range(4_000)]))
        store.flush()
        done: list[str] = []
        store.forget("2024-05-02T00:00:00.000000Z").add_done_callback(lambda future: done.append("old"))
        for _ in range(3):
            store.add(written([(9_000, 0, 0)])).add_done_callback(lambda future: done.append("new"))
        store.flush()
        assert done == ["new", "new", "new", "old"]


def test_who_writes_does_not_wait_while_little_is_waiting(tmp_path: Path) -> None:
    """However many texts: here the process stands still."""
    with closing(StoreProcess(tmp_path / "events", EventVocabulary())) as store:
        os.kill(store.process, signal.SIGSTOP)
        try:
            futures = [store.add(f"<urn:s{n}> <urn:p> <urn:o> .\n") for n in range(200)]
        finally:
            os.kill(store.process, signal.SIGCONT)
        for future in futures:
            future.result()


def test_what_could_not_be_stored_is_told_once() -> None:
    """A disk that is full: who starts the server sees it, not only who asks `/ready`."""
    history, reported = object.__new__(StoreListener), list[str]()
    history._trouble, history._listeners, history.troubled = None, [], reported.append
    failed = Future[None]()
    failed.set_exception(OSError("No space left on device"))
    history._notify(failed, "events were", [])
    history._notify(failed, "events were", [])
    assert reported == ["events were not stored: No space left on device"]
