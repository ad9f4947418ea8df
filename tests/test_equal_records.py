"""Equal records are as many events, each with a number among those equal to it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import cep
from cep.command import app
from cep.compile import CompileOptions, compiled
from cep.connectors.files import read
from cep.core.errors import CepError
from cep.core.identity import ID
from cep.core.schema import CHANGE
from cep.engine import Engine, detect
from cep.events import Event
from cep.runtime.history import BECAUSE, CONSTITUENTS
from cep.runtime.options import EngineOptions
from cep.workers.partitioned_engine import PartitionedEngine
from tests.local_workers import LocalWorkers
from tests.long import examples
from tests.program_maker import SECOND
from tests.rounds import Buckets

LOGIN = "event login(user: string, ok: bool).\n"
FAILED = "failed(U) <- login(U, false).\n"
SEVEN = "many(U, N) <- failed(U) AGGREGATE N = count() OVER LAST 1 min BY U.\n"


def login(user: str, ok: bool, second: int) -> Event:
    return Event("login", (user, ok), second * SECOND, second * SECOND)


Row = tuple[str, tuple[Any, ...], int, int]
"""Event, arguments, start, end."""


def counted(events: Iterable[Event]) -> Counter[Row]:
    return Counter((event.type, event.args, event.start, event.end) for event in events)


def rows(frames: Mapping[str, pl.DataFrame]) -> Counter[Row]:
    """The rows of tables, each as often as it is there."""
    found: Counter[Row] = Counter()
    for type, table in frames.items():
        names = [name for name in table.columns if name not in ("start", "end")]
        for row in table.iter_rows(named=True):
            found[type, tuple(row[name] for name in names), row["start"], row["end"]] += 1
    return found


def test_seven_failed_logins_in_one_second_are_seven() -> None:
    found = detect(LOGIN + FAILED + SEVEN, [login("ann", False, 1)] * 7 + [login("bob", False, 1)])
    assert counted(found) == {
        ("failed", ("ann",), SECOND, SECOND): 7,
        ("failed", ("bob",), SECOND, SECOND): 1,
        ("many", ("ann", 7), SECOND, SECOND): 1,
        ("many", ("bob", 1), SECOND, SECOND): 1,
    }


def test_what_pairs_derive_is_a_set() -> None:
    program = LOGIN + "back(U) <- login(U, false) SEQ login(U, true).\n"
    found = detect(program, [login("ann", False, 1)] * 3 + [login("ann", True, 2)] * 2)
    assert counted(found) == {("back", ("ann",), SECOND, 2 * SECOND): 1}


def test_chronological_uses_equal_records_up_one_by_one() -> None:
    program = LOGIN + "back(U, T) <- login(U, false) SEQ login(U, true) WHERE T = end() POLICY chronological.\n"
    found = detect(program, [login("ann", False, 1)] * 2 + [login("ann", True, second) for second in (2, 3, 4)])
    assert [event.end for event in found] == [2 * SECOND, 3 * SECOND]


def test_records_that_a_rule_makes_equal_have_the_numbers_that_they_had() -> None:
    program = "event login(user: string, host: string).\nseen(U) <- login(U, _).\n"
    events = [Event("login", ("ann", host), 0, 0) for host in ("h1", "h1", "h1", "h2", "h2")]
    assert counted(detect(program, events)) == {("seen", ("ann",), 0, 0): 3}


def test_or_passes_numbers_on_and_makes_none_twice() -> None:
    program = "event a(x: int).\nevent b(x: int).\ne(X) <- a(X) OR b(X).\n"
    found = detect(program, [Event("a", (1,), 0, 0)] * 3 + [Event("b", (1,), 0, 0)] * 2)
    assert counted(found) == {("e", (1,), 0, 0): 3}


def test_a_recursion_inside_an_instant_passes_numbers_on() -> None:
    program = "event a(x: int).\ne(X) <- a(X).\ne(X + 1) <- e(X) WHERE X < 2.\n"
    found = detect(program, [Event("a", (0,), 0, 0)] * 2 + [Event("a", (1,), 0, 0)])
    assert counted(found) == {("e", (x,), 0, 0): 2 for x in range(3)}


@pytest.mark.parametrize("fast", [True, False])
def test_a_chronological_recursion_uses_equal_ones_up_one_by_one(fast: bool) -> None:
    program = "event s(x: int).\nevent a(y: int).\nx(X) <- s(X).\nx(X + Y) <- x(X) SEQ a(Y) POLICY chronological.\n"
    events = [Event("s", (0,), 0, 0)] * 2 + [Event("a", (10,), t * SECOND, t * SECOND) for t in (1, 2, 3)]
    engine = Engine.from_text(program, fast_recursion=fast)
    found = rows(engine.push(events)) + rows(engine.close())
    want = {(0, 0, 0): 2, (10, 0, 1): 1, (10, 0, 2): 1, (20, 0, 3): 1}
    assert found == {("x", (x,), start * SECOND, end * SECOND): count for (x, start, end), count in want.items()}


def test_conditions_on_fluents_pass_numbers_on() -> None:
    program = (
        "event on(x: int).\nevent a(x: int).\nfluent f(x: int).\ninitiate f(X) <- on(X).\n"
        "e(X) <- a(X) WHERE f(X).\ng(X) <- a(X) WHERE not f(X).\n"
    )
    events = [Event("on", (1,), 0, 0), *[Event("a", (x,), SECOND, SECOND) for x in (1, 1, 2, 2, 2)]]
    found = counted(detect(program, events))
    assert found["e", (1,), SECOND, SECOND] == 2
    assert found["g", (2,), SECOND, SECOND] == 3


# --- sets ---


def test_distinct_makes_equal_records_one() -> None:
    program = "event login(user: string, ok: bool) DISTINCT.\n" + FAILED + SEVEN
    found = detect(program, [login("ann", False, 1)] * 7)
    assert counted(found) == {("failed", ("ann",), SECOND, SECOND): 1, ("many", ("ann", 1), SECOND, SECOND): 1}


def test_a_derived_event_may_be_distinct() -> None:
    program = LOGIN + "event failed(user: string) DISTINCT.\n" + FAILED
    assert counted(detect(program, [login("ann", False, 1)] * 7)) == {("failed", ("ann",), SECOND, SECOND): 1}


def test_distinct_and_a_key_are_refused() -> None:
    with pytest.raises(CepError, match="cannot have both KEY and DISTINCT"):
        Engine.from_text("event a(x: int) TIME t KEY x DISTINCT.\ne(X) <- a(X).")


# --- against numbers that are written ---

RULES = (
    ("one(X) <- a(X, _).", "one(X, N) <- a(X, _, N)."),
    ("one(Y) <- b(Y) WHERE Y > 0.", "one(Y, N) <- b(Y, N) WHERE Y > 0."),
    ("either(X) <- one(X) OR b(X).", "either(X, N) <- one(X, N) OR b(X, N)."),
    ("both(X, Y) <- either(X) SEQ a(X, Y) WITHIN 3 s.", "both(X, Y, 1) <- either(X, _) SEQ a(X, Y, _) WITHIN 3 s."),
    ("kept(X) <- both(X, _) OR a(_, X).", "kept(X, N) <- both(X, _, N) OR a(_, X, N)."),
    (
        "used(X, T) <- (one(X) SEQ b(X) WHERE T = end()) POLICY chronological.",
        "used(X, T, 1) <- (one(X, _) SEQ b(X, _) WHERE T = end()) POLICY chronological.",
    ),
    (
        "last(X, Y) <- a(X, Y) AND either(Y) WITHIN 2 s POLICY recent.",
        "last(X, Y, 1) <- a(X, Y, _) AND either(Y, _) WITHIN 2 s POLICY recent.",
    ),
    ("none(X) <- NOT(b(X)).[one(X), a(X, _)].", "none(X, 1) <- NOT(b(X, _)).[one(X, _), a(X, _, _)]."),
    ("alone(X) <- either(X) UNLESS b(X) WITHIN 2 s.", "alone(X, 1) <- either(X, _) UNLESS b(X, _) WITHIN 2 s."),
    (
        "sums(X, C, S) <- a(X, Y) AGGREGATE C = count(), S = sum(Y) OVER LAST 2 s BY X.",
        "sums(X, C, S, 1) <- a(X, Y, _) AGGREGATE C = count(), S = sum(Y) OVER LAST 2 s BY X.",
    ),
    (
        "runs(C) <- either(_) AGGREGATE C = count() OVER SESSION 1 s.",
        "runs(C, 1) <- either(_, _) AGGREGATE C = count() OVER SESSION 1 s.",
    ),
    (
        "pairs(C) <- (one(X) SEQ b(X)) AGGREGATE C = count() OVER EACH 3 s.",
        "pairs(C, 1) <- (one(X, _) SEQ b(X, _)) AGGREGATE C = count() OVER EACH 3 s.",
    ),
    ("grows(X, 0) <- one(X).", "grows(X, 0, N) <- one(X, N)."),
    (
        "grows(X, S + Y) <- (grows(X, S) SEQ a(X, Y) WITHIN 3 s) POLICY recent.",
        "grows(X, S + Y, 1) <- (grows(X, S, _) SEQ a(X, Y, _) WITHIN 3 s) POLICY recent.",
    ),
)
"""Rules, and the same ones where numbers are arguments."""
DECLARED = "event a(x: int, y: int).\nevent b(x: int).\n"
NUMBERED = "event a(x: int, y: int, n: int).\nevent b(x: int, n: int).\n"


def programs(chosen: Iterable[int]) -> tuple[str, str]:
    """A program, and the same one with numbers; each with the rules that those chosen need."""
    mine = sorted(set(chosen))
    needed = {name for at in mine for name in ("one", "either", "both") if f"{name}(" in RULES[at][0]}
    more = {at for at, (own, _) in enumerate(RULES) if own.split("(")[0] in needed | {"one", "either"}}
    every = sorted({*mine, *more})
    return DECLARED + "\n".join(RULES[at][0] for at in every), NUMBERED + "\n".join(RULES[at][1] for at in every)


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Records in order, many of them equal."""
    found = []
    for _ in range(draw(st.integers(0, 8))):
        end = draw(st.integers(0, 5))
        start = max(0, end - draw(st.sampled_from((0, 0, 0, 2))))
        type = draw(st.sampled_from("ab"))
        args = tuple(draw(st.integers(0, 1)) for _ in range(2 if type == "a" else 1))
        found += [Event(type, args, start * SECOND, end * SECOND)] * draw(st.integers(1, 3))
    return sorted(draw(st.permutations(found)), key=lambda event: event.end)


def numbered(events: Iterable[Event]) -> list[Event]:
    """The same records, each with its number."""
    seen: Counter[Event] = Counter()
    found = []
    for event in events:
        seen[event] += 1
        found.append(Event(event.type, (*event.args, seen[event]), event.start, event.end))
    return found


def without_numbers(found: Counter[Row]) -> Counter[Row]:
    made: Counter[Row] = Counter()
    for (type, args, start, end), count in found.items():
        made[type, args[:-1], start, end] += count
    return made


def cut(data: st.DataObject, events: list[Event]) -> list[list[Event]]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=3)))
    return [events[first:last] for first, last in zip([0, *cuts], [*cuts, len(events)])]


CHOSEN = st.lists(st.integers(0, len(RULES) - 1), min_size=1, max_size=4)


@examples(60)
@given(data=st.data(), chosen=CHOSEN, events=streams())
def test_numbers_are_what_arguments_would_be(data: st.DataObject, chosen: list[int], events: list[Event]) -> None:
    program, spelled = programs(chosen)
    want = without_numbers(counted(detect(spelled, numbered(events))))
    assert counted(detect(program, events)) == want
    options: dict[str, Any] = data.draw(
        st.sampled_from(({}, {"explain": True}, {"fast_recursion": False}, {"lateness": 20 * SECOND}))
    )
    engine, found = Engine.from_text(program, **options), Counter[Row]()
    if "lateness" in options:  # equal records are told apart, whatever order they come in
        events = list(data.draw(st.permutations(events)))
        want = without_numbers(counted(detect(spelled, numbered(in_order(events)))))
    for batch in cut(data, events):
        found += rows(without_because(engine.push([event for event in batch if event.type in engine.inputs])))
        if data.draw(st.booleans()):
            engine = Engine.from_text(program, **options).restore(engine.snapshot())
    found += rows(without_because(engine.close()))
    assert found == want


def in_order(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.end)


# --- withdrawn and late ---


def changed(there: dict[str, Row], frames: Mapping[str, pl.DataFrame]) -> None:
    """Take changes on: each `@id` is added where it is not there, and withdrawn where it is."""
    for type, table in frames.items():
        names = [name for name in table.columns if name not in ("start", "end", CHANGE, ID)]
        for row in table.iter_rows(named=True):
            what = (type, tuple(row[name] for name in names), row["start"], row["end"])
            if row[CHANGE] < 0:
                assert there.pop(row[ID]) == what
            else:
                assert row[ID] not in there
                there[row[ID]] = what


def tables(batch: Iterable[tuple[Event, int]]) -> dict[str, pl.DataFrame]:
    """Records that come (1) and go (-1), as tables of a push, with their places in it."""
    found: dict[str, list[dict[str, object]]] = {}
    for place, (event, sign) in enumerate(batch):
        values = dict(zip("xy", event.args))
        row: dict[str, object] = {"start": event.start, "end": event.end, **values, CHANGE: sign, "@order": place}
        found.setdefault(event.type, []).append(row)
    return {type: pl.DataFrame(each, schema_overrides={CHANGE: pl.Int8}) for type, each in found.items()}


@examples(80)
@given(data=st.data(), chosen=CHOSEN, events=streams())
def test_a_withdrawal_takes_one_of_equal_records(data: st.DataObject, chosen: list[int], events: list[Event]) -> None:
    program, _ = programs(chosen)
    options: dict[str, Any] = data.draw(st.sampled_from(({}, {}, {"explain": True})))
    engine = Engine.from_text(program, revise=20 * SECOND, **options)
    there: dict[str, Row] = {}
    held: list[Event] = []
    coming = [event for event in data.draw(st.permutations(events)) if event.type in engine.inputs]
    position = 0
    steps = iter(range(data.draw(st.integers(0, 12))))
    while coming or (held and next(steps, None) is not None):
        batch: list[tuple[Event, int]] = []
        for _ in range(data.draw(st.integers(1, 4))):
            if coming and (not held or data.draw(st.integers(0, 3))):
                held.append(coming.pop())
                batch.append((held[-1], 1))
            elif held:
                batch.append((held.pop(data.draw(st.integers(0, len(held) - 1))), -1))
        made = {name: table.with_columns(pl.col("@order") + position) for name, table in tables(batch).items()}
        position += len(batch)
        changed(there, without_because(engine.push(made)))
        if data.draw(st.integers(0, 4)) == 0:
            engine = Engine.from_text(program, revise=20 * SECOND, **options).restore(engine.snapshot())
        assert not engine.take_dead()
    changed(there, without_because(engine.close()))
    if any(word in program for word in ("chronological", "recent")):
        return  # equal ends go by the order of arrival, which withdrawals and what is late change
    assert Counter(there.values()) == counted(detect(program, in_order(held)))


def without_because(frames: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    return {name: table.drop("because", strict=False) for name, table in frames.items()}


def test_a_withdrawal_of_more_than_there_are_is_unknown() -> None:
    engine = Engine.from_text("event a(x: int, y: int).\none(X) <- a(X, _).", revise=20 * SECOND)
    event = Event("a", (1, 2), 0, 0)
    there: dict[str, Row] = {}
    for signs in ((1, 1), (-1, -1, -1), (-1, 1, -1, 1)):
        changed(there, engine.push(tables([(event, sign) for sign in signs])))
    assert len(there) == 1
    assert [row.code for row in engine.take_dead()] == ["unknown-withdrawal"] * 2


# --- in stages and workers ---


@examples(40)
@given(data=st.data(), chosen=CHOSEN, events=streams())
def test_buckets_give_what_one_process_gives(data: st.DataObject, chosen: list[int], events: list[Event]) -> None:
    program, _ = programs(chosen)
    buckets = Buckets(program, data.draw(st.integers(1, 3)), Random(data.draw(st.integers(0, 99))))
    placed = [each for each in enumerate(events) if each[1].type in buckets.inputs]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(placed)), max_size=3)))
    batches = [placed[first:last] for first, last in zip([0, *cuts], [*cuts, len(placed)])]
    assert counted(buckets.run(batches)) == counted(detect(program, events))


def test_records_of_several_hosts_meet_where_rules_run_by_host() -> None:
    program = (
        "event login(user: string, host: string).\nseen(U) <- login(U, _).\n"
        "twice(U, H) <- login(U, H) SEQ login(U, H).\n"
    )
    events = [Event("login", ("ann", f"h{host}"), 0, 0) for host in range(6) for _ in range(host % 3)]
    found = Buckets(program, 4, Random(1)).run([list(enumerate(events))])
    assert counted(found) == {("seen", ("ann",), 0, 0): 2}


def test_workers_say_of_equal_occurrences_where_each_comes_from() -> None:
    program = compiled(
        "event a(k: string, v: int).\none(K) <- a(K, _).\nagain(K) <- one(K).\n"
        "hot(K, V) <- a(K, V) SEQ a(K, _) WITHIN 9 s.\n"
        "count(N) <- again(_) AGGREGATE N = count() OVER LAST 3 s.\npair(K, L) <- again(K) SEQ one(L) WITHIN 3 s.\n",
        "rules.cep",
        CompileOptions(),
    )
    options = EngineOptions(explain=True)
    found: list[Counter[Row]] = []
    for engine in (Engine(program, options), PartitionedEngine(program, options, LocalWorkers(2))):
        engine.set_lineage_columns(BECAUSE, CONSTITUENTS)
        rng = Random(3)
        times = sorted(rng.randint(0, 12) * SECOND for _ in range(25))
        events = [Event("a", (rng.choice("pq"), rng.randint(0, 1)), time, time) for time in times]
        made = rows(engine.push(events[:9])) + rows(engine.push(events[9:])) + rows(engine.close())
        found.append(made)
    one, many = found
    assert many == one
    assert max(Counter((type, args[0], end) for type, args, _, end in one.elements() if type == "again").values()) > 1


@pytest.mark.parametrize("options", [[], ["--workers", "2"], ["--revise", "1h"]])
def test_the_closing_line_says_how_many_records_were_left_out(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "rules.cep").write_text(LOGIN + FAILED)
    line = json.dumps({"type": "login", "time": 1, "user": "ann", "ok": False})
    (tmp_path / "in.jsonl").write_text("\n".join([line] * 7))
    asked = ["run", str(tmp_path / "rules.cep"), "--input", str(tmp_path / "in.jsonl"), *options]
    kept = CliRunner().invoke(app, asked)
    assert kept.stderr.startswith("7 records, 7 derived events: failed 7"), kept.stderr
    once = CliRunner().invoke(app, [*asked, "--distinct"])
    assert once.stderr.startswith("7 records, 6 equal to others, 1 derived event: failed 1"), once.stderr


def test_detect_of_data_takes_distinct() -> None:
    rows = [{"type": "login", "time": 1, "user": "ann", "ok": False}] * 7
    assert cep.detect(LOGIN + FAILED, rows).tables["failed"].height == 7
    assert cep.detect(LOGIN + FAILED, rows, distinct=True).tables["failed"].height == 1
    engine = cep.Engine.from_text(LOGIN + FAILED, distinct=True)
    assert sum(found.tables["failed"].height for found in (engine.push(rows), engine.finish())) == 1


def test_distinct_says_which_events_have_a_key() -> None:
    text = "event a(k: string, v: int) KEY k.\nevent b(k: string).\nx(K) <- a(K, _) AND b(K) WITHIN 1 s.\n"
    (warning,) = compiled(text, "p.cep", CompileOptions(distinct=True)).plan.warnings
    assert "`a` has a KEY" in str(warning) and not compiled(text, "p.cep", CompileOptions()).plan.warnings


def test_too_many_fields_without_a_header(tmp_path: Path) -> None:
    for form, names in ((' FORMAT csv(columns: "time, v")', "as FORMAT names columns (2)"), ("", "as the header (2)")):
        (tmp_path / "t.csv").write_text(("" if form else "time,v\n") + "1,2\n1,2,3\n")
        (batch,) = read(
            [str(tmp_path / "t.csv")], Engine.from_text(f"event t(v: int) TIME time{form}.\nx(V) <- t(V).").inputs
        )
        assert [names in one.reason for one in batch.dead] == [True]
