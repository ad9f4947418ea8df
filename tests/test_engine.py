"""The engine's face: pushes, time, refused rows, snapshots, and what it forgets."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from cep.core.errors import CepError, CepErrors
from cep.engine import Engine, detect
from cep.events import Event

SECOND = 1_000_000
PAIRS = (
    "event a(id: int, x: int) TIME t. event b(id: int, x: int) TIME t. e(I, X, Y) <- a(I, X) SEQ b(I, Y) WITHIN 9 s."
)


def frame(times: list[int], **columns: Any) -> pl.DataFrame:
    return pl.DataFrame(
        {"start": times, "end": times, **columns}, schema_overrides={"start": pl.Int64, "end": pl.Int64}
    )


def rows(output: dict[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
    return [(name, *row) for name, table in sorted(output.items()) for row in table.iter_rows()]


def test_a_push_gives_what_the_watermark_has_passed() -> None:
    engine = Engine.from_text(PAIRS)
    assert rows(engine.push({"a": frame([1], id=[7], x=[1]), "b": frame([2], id=[7], x=[2])})) == []
    assert engine.watermark == 1 and engine.latest == 2 and engine.state_rows == 2
    assert rows(engine.advance(2)) == [("e", 1, 2, 7, 1, 2)]
    assert engine.advance(1) == {} and engine.watermark == 2
    assert rows(engine.close()) == []


def test_lateness_none_waits_for_advance() -> None:
    engine = Engine.from_text(PAIRS, lateness=None)
    assert engine.push({"b": frame([9], id=[7], x=[2])}) == {}
    assert engine.push({"a": frame([1], id=[7], x=[1])}) == {} and engine.take_dead() == []
    assert rows(engine.advance(9)) == [("e", 1, 9, 7, 1, 2)]


def test_late_rows_are_named_by_their_place_in_the_push() -> None:
    engine = Engine.from_text(PAIRS, lateness=2)
    engine.push({"a": frame([10], id=[1], x=[1])})
    engine.push({"a": frame([3, 20], id=[1, None], x=[1, 1]), "b": frame([9, 20, 7], id=[1, 1, 1], x=[1, 1, 1])})
    found = [(dead.type, dead.row, dead.code) for dead in engine.take_dead()]
    assert sorted(found) == [("a", 0, "late"), ("a", 1, "missing"), ("b", 2, "late")]
    assert engine.take_dead() == []


def test_in_turn_a_row_is_late_by_what_came_before_it() -> None:
    batch = {"a": frame([5, 3, 9], id=[1, 1, 1], x=[1, 1, 1]).with_columns(pl.Series("@order", [0, 1, 2]))}
    engine = Engine.from_text(PAIRS)
    engine.receive(batch, in_turn=True)
    assert [(dead.row, dead.code) for dead in engine.take_dead()] == [(1, "late")]
    engine = Engine.from_text(PAIRS)
    engine.push(batch)
    assert engine.take_dead() == [] and engine.watermark == 8


@pytest.mark.parametrize("options", [{}, {"revise": 5}, {"revise": 5, "final": True}, {"explain": True}])
@pytest.mark.parametrize("key", ["", " KEY id"])
@pytest.mark.parametrize("shape", ["tables", "ordered", "events", "received"])
def test_one_push_is_one_batch(options: dict[str, Any], key: str, shape: str) -> None:
    """No row is late for another of the same call, whatever lies between them."""
    text = f"event a(id: int) TIME time{key}. event b(id: int) TIME time{key}. ab(I) <- a(I) SEQ b(I) WITHIN 1000."
    engine = Engine.from_text(text, **options)
    times = {"a": [0, 20, 40], "b": [10, 30]}
    batch: Any = {name: frame(each, id=[1] * len(each)) for name, each in times.items()}
    if shape == "ordered":
        batch = {name: table.with_row_index("@order", 10 * len(table)) for name, table in batch.items()}
    if shape == "events":
        batch = [Event(name, (1,), time, time) for name, each in times.items() for time in each]
    if shape == "received":
        for name, table in batch.items():
            engine.receive({name: table})
        made = engine.advance(engine.reached)
    else:
        made = engine.push(batch)
    tables = [each["ab"].select("start", "end") for each in (made, engine.close()) if "ab" in each]
    assert engine.take_dead() == []
    assert sorted(pl.concat(tables).rows()) == [(0, 10), (0, 30), (20, 30)]
    assert engine.watermark == 2**62


def test_an_attribute_may_be_called_order() -> None:
    engine = Engine.from_text("event a(order: int). event b(order: int). policy recent. e(X) <- a(X) SEQ b(_).")
    engine.push({"a": frame([5, 5], order=[3, 1]), "b": frame([9], order=[0])})
    assert engine.advance(10)["e"]["x"].to_list() == [1]


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({"c": frame([1], id=[1])}, "does not read an event `c`"),
        ({"a": frame([1], id=[1])}, "no column `x`"),
        ({"a": frame([1], id=[1], x=[1], **{"@order": [None]})}, "`@order`"),
        ({"a": frame([1], id=[1], x=[1], **{"@order": [4]}), "b": frame([1], id=[1], x=[1])}, "`@order`"),
        ({"a": frame([1], id=[1], x=[1]), "e": frame([1], i=[1])}, "declare `event e(...)`"),
    ],
)
def test_a_wrong_push_is_refused_whole(batch: dict[str, pl.DataFrame], said: str) -> None:
    engine = Engine.from_text(PAIRS)
    with pytest.raises(CepError, match=said.replace("(", r"\(").replace(")", r"\)").replace(".", r"\.")):
        engine.push(batch)
    assert engine.position == 0 and engine.state_rows == 0 and engine.take_dead() == []


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"start": 2, "end": 1, "x": 1.0}, "interval"),
        ({"start": None, "end": 1, "x": 1.0}, "time"),
        ({"start": -(2**63), "end": 1, "x": 1.0}, "time"),
        ({"start": 1, "end": 2**61, "x": 1.0}, "time"),
        ({"start": 1, "end": 1, "x": float("inf")}, "type"),
        ({"start": 1, "end": 1, "x": 250.5}, "range"),
        ({"start": 1, "end": 1, "x": None}, "missing"),
    ],
)
def test_rows_that_do_not_fit_are_dead_with_the_reason(row: dict[str, Any], code: str) -> None:
    engine = Engine.from_text("event a(x: float in 0..250). e(X) <- a(X).")
    types = {"start": pl.Int64, "end": pl.Int64, "x": pl.Float64}
    good = {"start": 5, "end": 6, "x": 250.0}
    found = rows(engine.push({"a": pl.DataFrame([row, good], schema=types)})) + rows(engine.close())
    assert found == [("e", 5, 6, 250.0)]
    assert [(dead.row, dead.code) for dead in engine.take_dead()] == [(0, code)]


@pytest.mark.parametrize("values", [[[1], [2]], [b"x", b"y"], [{"k": 1}, {"k": 2}]])
def test_values_of_no_type_are_dead(values: list[Any]) -> None:
    engine = Engine.from_text("e(X) <- a(X).")
    engine.push({"a": frame([1, 2], arg1=values)})
    assert [dead.code for dead in engine.take_dead()] == ["type", "type"]


def test_detect_names_the_event_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="must have 1 argument"):
        detect("event a(x: int). e(X) <- a(X).", [Event("a", (1, 2), 0, 0)])
    with pytest.raises(ValueError, match="out of range"):
        detect("e(X) <- a(X).", [Event("a", (1,), 0, 2**70)])


def test_all_mistakes_of_a_program_come_together() -> None:
    text = (
        "event a(x: int).\ne(X, Y) <- a(X, Y).\nf(Z) <- a(X).\ng(X) <- a(X) WHERE X > q.\nk(X) <- a(X) WHERE odd(X).\n"
    )
    with pytest.raises(CepErrors) as caught:
        Engine.from_text(text.replace("> q", '> "q"'))
    assert [error.span.line for error in caught.value.errors if error.span] == [2, 3, 4, 5]


def test_integers_join_only_floats_that_are_they() -> None:
    program = "event a(k: int). event b(k: float). e(K) <- a(K) SEQ b(K)."
    big = 2**53
    events = [Event("a", (big,), 1, 1), Event("a", (big + 1,), 1, 1), Event("a", (2**63 - 1,), 1, 1)]
    events += [Event("b", (float(big),), 2, 2), Event("b", (2.0**63,), 2, 2)]
    assert [event.args for event in detect(program, events)] == [(big,)]


@pytest.mark.parametrize("window", ["3 EVENTS", "65 EVENTS", "1 h"])
def test_a_sum_may_pass_out_of_64_bits_and_come_back(window: str) -> None:
    events = [Event("a", (value,), i * SECOND, i * SECOND) for i, value in enumerate([2**63 - 1, 5, -9])]
    found = detect(f"event a(x: int) TIME t. e(S) <- a(X) AGGREGATE S = sum(X) OVER LAST {window}.", events)
    assert [event.args for event in found] == [(2**63 - 1,), (None,), (2**63 - 5,)]


def test_a_snapshot_goes_with_its_program_policy_types_and_facts() -> None:
    facts = {"good": pl.DataFrame({"id": [1, 2]})}
    program = PAIRS + " f(I) <- a(I, X) WHERE good(I)."
    blob = Engine.from_text(program, facts=facts).snapshot()
    assert Engine.from_text(program, facts=facts).restore(blob).snapshot() == blob
    other = {"good": pl.DataFrame({"id": [1, 3]})}
    for options in ({"facts": other}, {"facts": facts, "policy": "recent"}, {"facts": facts, "types": {"q": ("int",)}}):
        with pytest.raises(CepError, match="another program"):
            Engine.from_text(program, **options).restore(blob)
    with pytest.raises(CepError, match="`explain`"):
        Engine.from_text(program, facts=facts, explain=True).restore(blob)
    for damaged in (b"", b"nonsense", blob[:-5], blob[:20]):
        with pytest.raises(CepError, match="snapshot"):
            Engine.from_text(program, facts=facts).restore(damaged)


def test_many_texts_are_forgotten_and_integer_keys_do_no_harm() -> None:
    program = "event a(id: int, name: string) TIME t. e(I, N, M) <- a(I, N) SEQ a(I, M) WITHIN 1 s."
    engine, whole = Engine.from_text(program), Engine.from_text(program)
    n, step = 150_000, 10_000
    times = np.arange(n) * 100
    table = pl.DataFrame(
        {"start": times, "end": times, "id": 2**40 + np.arange(n) % 5000, "name": [f"n{i}" for i in range(n)]}
    )
    pieces = [engine.push({"a": table[i : i + step]}) for i in range(0, n, step)] + [engine.close()]
    assert engine.pool.size < 100_000 < whole.pool.size + n
    together = pl.concat([piece["e"] for piece in pieces if "e" in piece])
    expected = pl.concat([piece["e"] for piece in (whole.push({"a": table}), whole.close()) if "e" in piece])
    assert together.sort(together.columns).equals(expected.sort(expected.columns))


def test_lineage_names_the_records_and_forgets_the_rest() -> None:
    program = (
        PAIRS
        + " n(I, S) <- a(I, X) AGGREGATE S = sum(X) OVER LAST 2 EVENTS BY I. u(I) <- a(I, X) UNLESS b(I, Y) WITHIN 5 s."
    )
    engine = Engine.from_text(program, explain=True)
    found = []
    for second in range(0, 40_000, 400):
        times = [(second + i) * SECOND for i in range(400)]
        batch = {
            "a": frame(times[::2], id=[1] * 200, x=list(range(200))),
            "b": frame(times[1::2], id=[1] * 200, x=[0] * 200),
        }
        found.append(engine.push(batch))
    assert engine.history is not None
    kept = sum(table.shape[1] for tables in engine.history.sources.values() for table in tables)
    assert engine.history.lineage.size + kept < 1 << 17
    last = found[-1]["n"].row(-1, named=True)
    because = json.loads(last["because"])
    assert sum(record["x"] for record in because) == last["s"] and {record["type"] for record in because} == {"a"}


def test_state_counts_what_waits_for_the_watermark() -> None:
    engine = Engine.from_text(PAIRS, lateness=10**12)
    before = engine.state_bytes
    engine.push({"a": frame(list(range(1000)), id=[1] * 1000, x=[1] * 1000)})
    assert engine.state_rows == 1000 and engine.state_bytes >= before + 1000 * 6 * 8


@pytest.mark.parametrize(
    ("count", "options"), [(200, {"max_derivations": 1000}), pytest.param(2000, {}, marks=pytest.mark.long)]
)
def test_deadlines_in_a_cycle_end_where_they_end(count: int, options: dict[str, Any]) -> None:
    program = "p(X) <- a(X). q(X) <- p(X) UNLESS b(X) WITHIN 1 h. p(X) <- q(X) SEQ c(X) WITHIN 1 h."
    events = [Event("a", (i,), i, i) for i in range(count)]
    assert sum(event.type == "q" for event in detect(program, events)) == count
    endless = Engine.from_text("x <- a. x <- x UNLESS b WITHIN 5.", types={"a": ()}, lateness=None, **options)
    endless.push([Event("a", (), 0, 0)])
    with pytest.raises(CepError, match="a recursion does not end"):
        endless.close()
