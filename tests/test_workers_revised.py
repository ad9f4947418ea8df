"""Worker processes put right what one engine does: late, corrected and withdrawn records, and records with a KEY."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from cep.compile import CompileOptions, compiled
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.runtime.options import EngineOptions
from cep.workers.partitioned_engine import PartitionedEngine, dealt_engine
from tests.cases_format import known
from tests.feature_programs import LANGUAGE, LOADED, PREFIX, Case, feature_case
from tests.feature_runs import Run
from tests.keyed_programs import keyed
from tests.local_workers import LocalWorkers
from tests.long import seeds
from tests.spark_operators import keyed_declarations
from tests.test_equivalence import types


@pytest.mark.parametrize("seed", seeds(240))
def test_the_law_in_workers(seed: int, tmp_path: Path) -> None:
    """Programs that split into stages, and such of all features of the language."""
    rng = Random(f"workers {seed}")
    features = {"workers", rng.choice(("revise", "revise", "final", "lateness", "KEY"))}
    features |= {one for one in ("snapshots", "changes", "explain") if rng.random() < 0.3}
    if rng.random() < 0.7:
        made = keyed(rng)
        text, keys = keyed_declarations(made.text, rng) if rng.random() < 0.6 else (made.text, [])
        events = sorted(made.events, key=lambda event: event.end)
        case, features = Case({"rules.cep": text}, {"types": types(events)}, events, keys, []), features - {"changes"}
    else:
        features |= set(rng.sample(list(LANGUAGE), 3))
        case = feature_case(rng, sorted(features))
    try:
        run = Run(case, features, rng, tmp_path)
    except CepError:
        return  # some of what is drawn is no program
    try:
        found = run.run()
    except CepError as error:
        assert "the origins of an event may change in all of them" in error.message
        return
    assert found == run.expected(), case


READINGS = """event reading(sensor: string, seq: int, temp: float) TIME time KEY sensor, seq.
hot(S, T) <- reading(S, _, T) WHERE T > 30.
two(S) <- hot(S, _) SEQ hot(S, _) WITHIN 20 s.
many(N) <- hot(_, _) AGGREGATE N = count() OVER LAST 100 s.
fluent warm(s: string).
initiate warm(S) <- reading(S, _, T) WHERE T > 25.
terminate warm(S) <- reading(S, _, T) WHERE T <= 25.
"""


def engine(text: str, workers: int, **options: Any) -> PartitionedEngine:
    program = compiled(text, "<program>", CompileOptions())
    return PartitionedEngine(program, EngineOptions(**options), LocalWorkers(workers))


def batches(rng: Random) -> list[pl.DataFrame]:
    """Records of which some come late, some correct others and some withdraw them, among which are unknown ones."""
    found, time = [], 0
    for _ in range(rng.randrange(3, 9)):
        rows = []
        for _ in range(rng.randrange(1, 12)):
            time += rng.randrange(2)
            at = time - (rng.randrange(30) if rng.random() < 0.3 else 0)
            sign = -1 if rng.random() < 0.2 else 1
            temp = None if sign < 0 else float(rng.randrange(20, 40))
            rows.append((at * 1_000_000, f"s{rng.randrange(4)}", rng.randrange(2), temp, sign))
        columns = {"time": pl.Int64, "sensor": pl.String, "seq": pl.Int64, "temp": pl.Float64, "@change": pl.Int8}
        found.append(pl.DataFrame(rows, schema=columns, orient="row"))
    return found


@pytest.mark.parametrize("options", [{}, {"changes": True}, {"final": True}], ids=["intervals", "changes", "final"])
@pytest.mark.parametrize("seed", seeds(48))
def test_each_batch_gives_what_it_gives_in_one_process(seed: int, options: dict[str, Any]) -> None:
    """The same rows with the same ids, the same dead letters, and the same counts of what was put right."""
    rng = Random(seed)
    one = Engine.from_text(READINGS, revise=15_000_000, lateness=0, **options)
    many = engine(READINGS, rng.choice((2, 3)), revise=15_000_000, **options)
    for batch in [*batches(rng), None]:
        if batch is None:
            found = [each.close() for each in (one, many)]
        elif rng.random() < 0.5:
            for each in (one, many):
                each.receive({"reading": batch}, in_turn=True)
            assert one.take_dead() == many.take_dead()
            found = [each.advance(each.reached) for each in (one, many)]
        else:
            found = [each.push({"reading": batch}) for each in (one, many)]
        expected, made = ({name: sorted(map(str, t.rows())) for name, t in each.items() if t.height} for each in found)
        assert made == expected
        assert [t.columns for _, t in sorted(found[1].items())] == [t.columns for _, t in sorted(found[0].items())]
        assert one.take_dead() == many.take_dead()
        assert (many.watermark, many.stable, many.late_rows) == (one.watermark, one.stable, one.late_rows)
        for mine, theirs in zip(stats(one, options), stats(many, options), strict=True):
            assert mine == theirs


def stats(engine: Engine, options: Mapping[str, Any]) -> list[int]:
    """What was put right; with `changes` one process counts some rows that are not given."""
    done = engine.revision_stats
    if done is None:
        return []
    return [done.late, done.revisions, *([] if "changes" in options else [done.withdrawn])]


def test_a_key_by_which_the_rules_do_not_go_runs_in_one_process() -> None:
    text = "event a(k: int, n: int) KEY n. x(K) <- a(K, _) SEQ a(K, _)."
    told: list[str] = []
    found = dealt_engine(compiled(text, "<program>", CompileOptions()), EngineOptions(), 2, told.append)
    assert (
        type(found) is Engine
        and "rules need records of `a` distributed by attributes that are not part of the KEY" in told[0]
    )


def test_rules_without_memory_go_by_any_key() -> None:
    """Records of one KEY go to one worker, so several may make one row."""
    text = "event a(k: int, n: int) KEY n. x(K) <- a(K, _)."
    table = pl.DataFrame({"time": [5] * 20, "k": [1] * 20, "n": list(range(20))})
    found = engine(text, 3)
    assert found.push({"a": table}) == {} and found.close()["x"].rows() == [(5, 5, 1)]


KNOWN = """PREFIX x: <http://x/>
event r(k: int, v: int) TIME time.
h(K, L) <- r(K, V) SEQ r(K, W) WHERE { ?p x:code ?K ; x:level ?L }, L <= W.
"""


def test_an_update_that_cannot_be_changes_nothing() -> None:
    program = compiled(KNOWN, "<program>", CompileOptions(knowledge=known(LOADED)))
    one, many = Engine(program), PartitionedEngine(program, EngineOptions(), LocalWorkers(2))
    for each in (one, many):
        each.push([Event("r", (number % 3, 5), number, number) for number in range(20)])
        level = PREFIX + "x:s1 x:level {} ."
        with pytest.raises(CepError, match="it was an int"):
            each.updates([(30, level.format(4), None), (40, level.format('"much"'), None)])
        with pytest.raises(CepError, match="the update is late"):
            each.update(10, level.format(4))
        each.updates([(30, level.format(3), level.format(1)), (35, level.format(1), None)])
    batch = [Event("r", (number % 3, 5), number, number) for number in range(20, 60)]
    expected, found = ([each.push(batch)["h"].rows(), each.close()["h"].rows()] for each in (one, many))
    assert list(map(sorted, found)) == list(map(sorted, expected)) and len(found[0]) > 20


def test_what_may_still_change_goes_on_in_as_many_workers() -> None:
    state = engine(READINGS, 2, revise=100).snapshot()
    with pytest.raises(CepError, match="the snapshot was made with 2 workers") as refused:
        engine(READINGS, 3, revise=100).restore(state)
    assert refused.value.hint == "restore it with as many workers, not with 3"


def test_another_duration_leaves_final_what_was() -> None:
    one, many = Engine.from_text(READINGS, revise=10), engine(READINGS, 2, revise=10)
    for each in (one, many):
        each.push([Event("reading", ("a", 1, 31.0), 100, 100)])
    one = Engine.from_text(READINGS, revise=90).restore(one.snapshot())
    many = engine(READINGS, 2, revise=90).restore(many.snapshot())
    for each in (one, many):
        each.push([Event("reading", ("a", 2, 31.0), at, at) for at in (88, 89, 90, 95)])
    assert many.stable == one.stable and many.take_dead() == one.take_dead()


def test_what_begins_and_may_be_withdrawn_is_refused() -> None:
    with pytest.raises(CepError, match="workers: beginnings that may be withdrawn need one process"):
        engine(READINGS, 2, revise=10, begins=True)
