"""Late rows as changes, where some operators are run again by key: the law, and how little is run."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import polars as pl
import pytest

from cep.compile import CompileOptions, compiled
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.operators.goals.pairs.chronological_reviser import ChronologicalReviser
from cep.runtime.options import EngineOptions
from cep.runtime.revision import incremental
from cep.runtime.revision.incremental import Incremental
from cep.runtime.revision.region import BoundedRerun, Rerun
from cep.workers.partitioned_engine import PartitionedEngine
from tests.keyed_programs import keyed
from tests.local_workers import LocalWorkers
from tests.long import seeds
from tests.programs import contest, iteration, program, window
from tests.revising_programs import revising_events, revising_program, with_keys
from tests.test_equivalence import types
from tests.test_revision import check


def incremental_of(engine: Engine) -> Incremental:
    revision = engine._parts.revision
    assert revision is not None and revision.incremental is not None, "it revises"
    return revision.incremental


@pytest.mark.parametrize("seed", seeds(300))
def test_the_law_on_random_programs_of_events(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"rerun {seed}")
    if seed % 8:
        monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    made = rng.choice([program, iteration, contest, window, window, *[keyed] * 4])(rng)
    lines, keys = [], []
    for line in made.text.split("\n"):
        declared = re.match(r"event (\w+)\((\w+): .*\)(.*)\.$", line)
        if declared is not None and rng.random() < 0.4:
            keys.append(declared[1])
            line = f"{line[:-1]} KEY {declared[2]}."
        lines.append(line)
    text = "\n".join(lines)
    try:
        Engine.from_text(text, types=types(made.events))
    except CepError:
        return  # some of what is drawn is no program
    check(text, made.events, rng, rng.choice((1, 3, 20)) * 1_000_000, keys, types=types(made.events))


def _with_memory(rng: random.Random, text: str) -> str:
    """The program, with rules that remember events, and a fluent that these begin and end."""

    def within() -> str:
        return f"WITHIN {rng.randint(1, 12) / 1_000_000:.6f} s"

    event = rng.choice([*re.findall(r"(?m)^(d\d)\(", text), "a", "b"])
    right = rng.choice(("b(K, W)", "b(K, W)", "b(_, W)"))
    lines = [
        f"policy {rng.choice(('unrestricted', 'recent', 'chronological', 'chronological'))}.",
        f"s(K, V, W) <- ({event}(K, V) SEQ {right}){rng.choice(('', ' WHERE V < W'))} {within()}.",
        f"u(K) <- b(K, V) UNLESS {rng.choice(('a(K, _)', 'a(_, V)', 'a(_, _)'))} {within()}.",
        f"t(K, N) <- a(K, V) AGGREGATE N = {rng.choice(('count()', 'avg(V)', 'max(V)'))} "
        f"OVER LAST {rng.choice(('3 EVENTS', '0.000007 s'))} BY K.",
        "fluent z(k: string?).",
        f"initiate z(K) <- {rng.choice(('s(K, _, _)', 't(K, 2)', 'b(K, V) SEQ b(K, V)'))}.",
        "terminate z(K) <- u(K).",
        "y(K) <- b(K, V) WHERE z(K).",
    ]
    return "\n".join([text, *lines])


@pytest.mark.parametrize("seed", seeds(120))
def test_the_law_where_fluents_and_events_that_are_remembered_meet(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"remembered {seed}")
    if seed % 4:
        monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    text, keys = with_keys(rng, _with_memory(rng, revising_program(rng)))
    events = revising_events(rng, text, keys)
    check(text, events, rng, rng.choice((3, 10, 30, 100)), keys, changes=seed % 3 == 0)


def _chronological(rng: random.Random) -> str:
    """A program of pairs that use up their left sides, some of pairs, and an average of floats."""

    def pair(left: str, right: str) -> str:
        relation = rng.choice(("SEQ", "SEQ", "SEQ[0 s, 0.000005 s]", "SEQ[0.000002 s, 0.000009 s]", "OVERLAPS"))
        return f"({left} {relation} {right}){where} WITHIN {rng.choice((1, 2, 4, 8, 30, 200)) / 1_000_000:.6f} s"

    where = rng.choice(("", " WHERE V < W", " WHERE V + W > 1", " WHERE V != W", " WHERE V >= W, V + W != 3"))
    tie = rng.choice(("", "", "(shortest)", "(longest)", "(by V)"))
    right = rng.choice(("b(K, W)", "b(K, W)", "a(K, W)", "b(_, W)"))
    lines = [
        *(f"event {event}(k: string, v: {type})." for event, type in zip("abc", ("int", "int", "float"))),
        f"s(K, V, W) <- {pair(rng.choice(('a(K, V)', 'a(K, V)', 'b(K, V)')), right)} POLICY chronological{tie}.",
        f"q(K, V, W) <- {pair('s(K, V, _)', 'b(K, W)')} POLICY chronological.",
        "m(K, M) <- a(K, V) AGGREGATE M = avg(V * 0.1) OVER LAST 0.000007 s BY K.",
    ]
    return "\n".join(lines[: rng.choice((4, 5, 6))])


@pytest.mark.parametrize("seed", seeds(200))
def test_the_law_where_pairs_use_up_their_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"chronological {seed}")
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    text, keys = with_keys(rng, _chronological(rng))
    check(text, revising_events(rng, text, keys), rng, rng.choice((3, 10, 30, 100)), keys)


def _tied(rng: random.Random) -> str:
    """A program that derives an event in several ways, in rows that tie, for rules that depend on their order."""

    def pattern() -> str:
        patterns = ("a(K, V)", *["a(K, V) EQUALS b(K, W)"] * 3, "a(K, V) EQUALS b(_, W)", "a(K, V) OR b(K, V)")
        asked = rng.choice(("", " WHERE not h(_, V)", " WHERE not h(_, V)", " WHERE not h(K, _)", " WHERE h(J, V)"))
        return f"({rng.choice(patterns)}){asked}"

    begins = ("a(K, V) EQUALS c(K, V)", "a(K, V) EQUALS c(K, V)", "b(K, V)", "a(K, V) EQUALS b(K, _)")
    lines = [
        *(f"event {event}(k: string, v: {type})." for event, type in zip("abc", ("int", "int", "float"))),
        "fluent h(k: string, v: int).",
        f"initiate h(K, V) <- {rng.choice(begins)}.",
        *([f"terminate h(K, V) <- {rng.choice(begins)}."] if rng.random() < 0.3 else []),
        *(f"d(K, {rng.choice(('V', 1))}) <- {pattern()}." for _ in range(rng.choice((1, 2, 2, 3)))),
        *(["e(K, V) <- d(K, V)."] if (handed := rng.random() < 0.3) else []),
    ]
    event = "e" if handed else "d"
    for name in rng.sample("sstu", rng.choice((1, 1, 2))):
        within = f"WITHIN {rng.randint(1, 12) / 1_000_000:.6f} s"
        right = rng.choice(("b(K, W)", "c(K, W)", "c(K, W)", "a(_, W)"))
        key, other = rng.choice((("K", "V"), ("V", "K")))
        policy = rng.choice(("recent", "recent", "chronological"))
        lines += {
            "s": [f"policy {policy}.", f"s(K, V, W) <- ({event}(K, V) SEQ {right}) {within}."],
            "t": [f"t({key}, N) <- {event}(K, V) AGGREGATE N = last({other}) OVER LAST 2 EVENTS BY {key}."],
            "u": ["policy recent.", f"u(J, K, V) <- ({event}(J, V) SEQ a(K, V)) {within}."],
        }[name]
    return "\n".join(lines)


@pytest.mark.parametrize("seed", seeds(200))
def test_the_law_where_rows_of_several_rules_tie(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"tied {seed}")
    monkeypatch.setattr(incremental, "A_PUSH", rng.choice((-(10**6), 64, 10**6)))
    text, keys = with_keys(rng, _tied(rng))
    check(text, revising_events(rng, text, keys), rng, rng.choice((3, 10, 30, 100)), keys)


TIED = """event a(k: string, v: int).
event b(k: string, v: int) KEY k.
event c(k: string, v: float).
fluent h(k: string, v: int).
initiate h(K, V) <- a(K, V) EQUALS c(K, V).
{}
policy recent.
s(K, V, W) <- (d(K, V) SEQ {}(K, W)) WITHIN 0.000004 s.
"""
TWO, MOVED = (
    ("d(K, V) <- a(K, V) EQUALS b(K, W).\nd(K, 1) <- (a(K, V)) WHERE not h(_, V).", "b"),
    ("d(K, 1) <- (a(K, V) EQUALS b(K, W)) WHERE not h(_, V).\nd(K, V) <- a(K, V) EQUALS b(K, W).", "c"),
)
PAIRED, LAST, NEXT = ("a p 0 5", "a p 1 5", "b p 7 5"), "c p 9 9", "c p 9 8"
SHRUNK = [
    ("a p 1 4",),
    ("c r 1 3", "c q 2 1"),
    ("a p 2 4", "c q 2 6", "c q 2 6"),
    ("b p 0 4",),
    ("b p 4 5", "a q 2 1", "a r 1 3"),
]
HELD, EQUAL = ("a q 0 1", "c q 0 1", "a q 1 2", "c q 1 2"), ("c r 3 9", "c r 3 9")


@pytest.mark.parametrize(
    "rules, a_push, pushes",
    [
        (TWO, 10**6, SHRUNK),
        (TWO, -(10**6), [("a p 1 4", "c r 1 3", "c q 2 1", "a p 2 4", "c q 2 6"), *SHRUNK[-2:]]),
        (MOVED, -(10**6), [PAIRED, HELD, (LAST,)]),
        (MOVED, -(10**6), [(*PAIRED, LAST), HELD]),
        (MOVED, 10**6, [(*PAIRED, LAST), HELD, EQUAL, (NEXT,)]),
    ],
    ids=["shrunk", "replaced", "moved", "moved-late", "left"],
)
def test_rows_that_tie_are_in_the_order_of_a_run(
    rules: tuple[str, str], a_push: int, pushes: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another stage reads them: one that comes again, or comes in another way, comes where the rules derive it."""
    monkeypatch.setattr(incremental, "A_PUSH", a_push)
    program = compiled(TIED.format(*rules), "<program>", CompileOptions())
    workers = PartitionedEngine(program, EngineOptions(revise=100), LocalWorkers(2))
    engines, every = [Engine(program, EngineOptions(revise=100)), workers], list[Event]()
    nets: list[Counter[tuple[Any, ...]]] = [Counter(), Counter()]
    for push in pushes:
        events = [
            Event(type, (key, float(value) if type == "c" else int(value)), int(end), int(end))
            for type, key, value, end in map(str.split, push)
        ]
        every += events
        for engine, net in zip(engines, nets):
            net.update(_changes(engine.push(events)))
    for engine, net in zip(engines, nets):
        net.update(_changes(engine.close()))
    other = Engine(program, EngineOptions())
    tables = [other.push(sorted(every, key=lambda event: event.end)), other.close()]
    expected = Counter((name, *row) for made in tables for name, table in made.items() for row in table.rows())
    assert [{row: count for row, count in net.items() if count} for net in nets] == [expected, expected]


@pytest.mark.parametrize("buckets", (2, 7))
def test_a_late_row_that_another_bucket_derived_before_is_no_second_one(buckets: int) -> None:
    """The stage that reads it gets the row once, with the earlier arrival, and the other one if that is withdrawn."""
    text = """
event a(k: string, v: int).
event c(k: string).
d(K, 1) <- (a(K, V)) WHERE not h(_, V).
d(K, V) <- (a(K, V)) WHERE not h(_, V).
fluent h(k: string, v: int).
initiate h(K, V) <- a(K, V) SEQ c(K).
policy chronological.
s(K, V, W) <- (d(K, V) SEQ a(_, W)) WITHIN 0.012 s.
"""
    program = compiled(text, "<program>", CompileOptions())
    engine = PartitionedEngine(program, EngineOptions(revise=10**6), LocalWorkers(buckets))
    first, late = ("p", 0, 5), ("p", 2, 5)
    rest = [("q", 5, 7), ("r", 0, 8), ("q", 1, 9), ("q", 1, 10), ("q", 7, 11)]
    net: Counter[tuple[Any, ...]] = Counter()
    pushes = [[first, *rest[:3]], [late, *rest[3:]], [first]]
    for push, change in zip(pushes, (1, 1, -1)):
        times = pl.Series([1000 * end for *_, end in push])
        columns = {"k": [key for key, *_ in push], "v": [value for _, value, _ in push]}
        changes = pl.Series([change] * len(push), dtype=pl.Int8)
        table = pl.DataFrame({"start": times, "end": times, "@change": changes} | columns)
        net.update(_changes(engine.push({"a": table})))
    net.update(_changes(engine.close()))
    other = Engine(program, EngineOptions(lateness=None))
    other.push([Event("a", (key, value), 1000 * end, 1000 * end) for key, value, end in (late, *rest)])
    expected = Counter((name, *row) for name, table in other.close().items() for row in table.rows())
    assert {row: count for row, count in net.items() if count} == expected


def test_a_row_has_the_same_id_in_order_and_among_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    text = (
        "event a(k: string, v: int).\nevent c(v: int).\nfluent h(v: int).\ninitiate h(V) <- c(V).\n"
        "d(K, V) <- a(K, V).\nd(K, 1) <- (a(K, V)) WHERE not h(V).\n"
        "policy recent.\ns(K, V, W) <- (d(K, V) SEQ a(K, W)) WITHIN 0.000004 s."
    )
    ids = []
    for time in (7, 1):  # in order, and late
        engine = Engine.from_text(text, revise=100)
        engine.push([Event("a", ("p", 0), 6, 6)])
        made = engine.push([Event("c", (5,), time, time), Event("a", ("r", 0), 9, 9)])["d"]
        assert incremental_of(engine).begun == (time == 1)
        ids.append(made.sort(made.columns[3])["@id"].to_list())
    assert ids[0] == ids[1] and len(ids[0]) == 2


def _recorded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows goals are given each time that they are run again."""
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    ran, run = list[int](), Rerun._run

    def recorded(self: Rerun, states: Any, inputs: Any, frontier: Any) -> Any:
        ran.append(sum(table.shape[1] for table in inputs))
        return run(self, states, inputs, frontier)

    monkeypatch.setattr(Rerun, "_run", recorded)
    return ran


RISE = """
event a(k: int, v: int).
fluent f(k: int).
initiate f(K) <- a(K, V) WHERE V > 1.
rise(K, V, W) <- (a(K, V) SEQ a(K, W)) WHERE V < W WITHIN 10 s.
"""


def test_a_seq_beside_fluents_leaves_their_changes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = _recorded(monkeypatch)
    engine = _late(f"policy recent.\n{RISE}")
    revisers = [part.reviser for part in incremental_of(engine).parts]
    assert {type(reviser) for reviser in revisers if isinstance(reviser, Rerun)} == {BoundedRerun}
    ran.clear()
    engine.push([Event("a", (3, 2), 300_500_000, 300_500_000)])
    assert 0 < sum(ran) <= 20, "rows of the key near the change, not all 800"


def test_a_key_is_matched_again_until_the_same_rows_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    engine = _late(f"policy chronological.\n{RISE}")
    revisers = [part.reviser for part in incremental_of(engine).parts]
    (reviser,) = [reviser for reviser in revisers if isinstance(reviser, ChronologicalReviser)]
    assert not any(isinstance(other, Rerun) for other in revisers)
    kept = reviser.right.rows
    kept[kept[:, 0] > 400_000_000, reviser.right.words + 1] = 0  # whoever looks at such a partner finds another
    made = engine.push([Event("a", (3, 2), 300_500_000, 300_500_000)])["rise"]
    assert 0 < made.height <= 20, "rows of the key near the change, not all 800"


def _late(text: str) -> Engine:
    """An engine that has taken rows of five keys, and a late one."""
    engine = Engine.from_text(text, revise=1_000_000_000)
    for first in range(0, 800, 10):
        engine.push([Event("a", (at % 5, at % 3), at * 1_000_000, at * 1_000_000) for at in range(first, first + 10)])
    engine.push([Event("a", (3, 0), 500_000, 500_000)])
    assert incremental_of(engine).begun
    return engine


TOGETHER = {
    "cycle": "fluent f(k: int).\nfluent g(k: int).\ninitiate f(K) <- a(K, 0) WHERE not g(K).\n"
    "terminate f(K) <- a(K, 1).\ninitiate g(K) <- a(K, 1) WHERE not f(K).\nterminate g(K) <- a(K, 2).",
    "formula": "fluent f(k: int).\nf(K) WHILE EVENTUALLY[0, 2 s] a(K, 0).",
    "initially": "fluent f(k: int).\ninitially f(1).\ninitiate f(K) <- a(K, 0).\nterminate f(K) <- a(K, 1).",
    "order": "policy unrestricted.\nd(K, V) <- (a(K, V) SEQ a(K, W)) WITHIN 5 s.\npolicy chronological.\n"
    "e(K) <- d(K, _) SEQ a(K, 2).",
}


@pytest.mark.parametrize("rules", TOGETHER)
def test_parts_that_run_together_run_again_together(rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = _recorded(monkeypatch)
    text = f"event a(k: int, v: int) TIME time.\n{TOGETHER[rules]}"
    engine, other = (Engine.from_text(text, revise=revise) for revise in (1_000_000_000, None))
    events = [Event("a", (at % 5, at // 5 % 3), at * 1_000_000, at * 1_000_000) for at in range(800)]
    net: Counter[tuple[Any, ...]] = Counter()
    for first in range(0, 800, 10):
        net.update(_changes(engine.push(events[first : first + 10])))
    late = [Event("a", (3, 0), at, at) for at in (500_000, 300_500_000)]
    for each in late:
        ran.clear()
        net.update(_changes(engine.push([each])))
    most = 4 * 400 if rules == "initially" else 2 * 160  # rows of one key, as they were and are; time has no key
    assert incremental_of(engine).begun and 0 < sum(ran) <= most
    net.update(_changes(engine.close()))
    every = [other.push(sorted([*events, *late], key=lambda event: event.end)), other.close()]
    expected = Counter((name, *row) for made in every for name, table in made.items() for row in table.rows())
    assert {row: count for row, count in net.items() if count} == expected


def _changes(made: dict[str, pl.DataFrame]) -> Counter[tuple[Any, ...]]:
    """How much more often each row is there."""
    found: Counter[tuple[Any, ...]] = Counter()
    for name, table in made.items():
        for row, sign in zip(table.drop("@change", "@id").rows(), table["@change"]):
            found[name, *row] += sign
    return found


def test_a_key_that_differs_is_run_on_through_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `b` uses up the earliest `a` that is left: one that comes late shifts all pairs after it."""
    ran = _recorded(monkeypatch)
    text = "event a(k: int).\nevent b(k: int).\npolicy chronological.\np(K) <- a(K) SEQ b(K)."
    engine = Engine.from_text(text, revise=1_000)
    engine.push([Event("a", (2,), 0, 0)])
    for at in range(2, 900, 2):
        engine.push([Event("a", (key,), at, at) for key in (1, 2)] + [Event("b", (1,), at + 1, at + 1)])
    engine.push([Event("a", (2,), 5, 5)])
    ran.clear()
    made = engine.push([Event("a", (1,), 301, 301)])["p"]
    assert len(ran) > 4, "several stretches, as it was and as it is"
    # the pair of 303 begins at 301 instead of 302, that of 305 at 302, ..
    assert made.filter(pl.col("@change") == 1)["start"].to_list() == [301, *range(302, 898, 2)]
    assert made.filter(pl.col("@change") == -1)["start"].to_list() == [*range(302, 900, 2)]


def test_rules_whose_order_is_not_known_are_one_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of one right side arrive together: which is used up first is known to a run of the whole rule alone."""
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    first, second = "b(K, V) <- (a(K, V) SEQ a(K, W)) WITHIN 5 s.", "c(K) <- b(K, _) SEQ a(K, _)."
    for policies, known in (
        (("unrestricted", "unrestricted"), True),
        (("unrestricted", "chronological"), False),
        (("chronological", "chronological"), True),
    ):
        rules = "".join(f"policy {policy}.\n{rule}\n" for policy, rule in zip(policies, (first, second), strict=True))
        engine = Engine.from_text(f"event a(k: int, v: int).\n{rules}", revise=10)
        engine.push([Event("a", (1, at), at, at) for at in (5, 8)])
        engine.push([Event("a", (1, 4), 4, 4)])
        regions = [part.part for part in incremental_of(engine).parts if isinstance(part.reviser, Rerun)]
        together = [{unit for unit in part.inside if isinstance(unit, str)} for part in regions]
        assert any("b" in events for events in together) != known, policies
