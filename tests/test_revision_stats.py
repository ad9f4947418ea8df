"""What revision counts, and that a replay takes no more than the stages and keys that it must."""

from __future__ import annotations

from cep.engine import Engine
from cep.events import Event

PAIRS = "both(K) <- (a(K) SEQ b(K)).\nalone(K) <- (c(K) SEQ c(K))."
TYPES = dict.fromkeys("abc", ("int",))


def test_a_late_event_is_run_again_for_its_key_in_the_stage_that_reads_it() -> None:
    engine = Engine.from_text(PAIRS, revise=1000, types=TYPES)
    engine.push([Event(name, (key,), 10 * at, 10 * at) for at, name in enumerate("acb", 1) for key in range(50)])
    stats = engine.revision_stats
    assert stats is not None and (stats.late, stats.revisions, stats.keys_replayed) == (0, 0, 0)
    made = engine.push([Event("b", (7,), 15, 15), Event("b", (8,), 5, 5)])
    assert made["both"].select("end", "k", "@change").rows() == [(15, 7, 1)]
    stats = engine.revision_stats
    assert stats is not None
    assert (stats.late, stats.revisions, stats.withdrawn, stats.keys_replayed) == (2, 1, 0, 2)
    assert stats.seconds > 0


def test_rows_that_are_withdrawn_are_counted() -> None:
    text = "event a(k: int, v: int) KEY k.\nbig(K) <- a(K, V) WHERE V > 5."
    engine = Engine.from_text(text, revise=1000)
    engine.push([Event("a", (1, 9), 10, 10), Event("a", (1, 9), 20, 20)])
    engine.push([Event("a", (1, 2), 10, 10)])
    stats = engine.revision_stats
    assert stats is not None
    assert (stats.late, stats.withdrawn) == (2, 1), "one row goes, one comes; what was made of the first is withdrawn"


def test_without_revision_there_is_nothing_to_count() -> None:
    assert Engine.from_text(PAIRS, types=TYPES).revision_stats is None
    assert Engine.from_text(PAIRS, types=TYPES, revise=5, final=True).revision_stats is None
