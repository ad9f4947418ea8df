"""Results that time completes choose and are chosen by their values: disorder within the lateness, batches, restarts,
buckets, Spark and revision change nothing. Decision 2026-11-30-order-of-timed-results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import polars as pl
import pytest

from cep.core.value_hashes import hash_words, orders
from cep.engine import Engine
from cep.events import Event
from cep.testing.laws import broken, laws_named
from cep.testing.rule_files import parse_test_file
from cep.testing.runs import Programs
from tests import reference, spark_operators
from tests.cli_runs import jsonl
from tests.long import seeds
from tests.program_maker import SECOND
from tests.rounds import Buckets
from tests.test_equivalence import LONG, check, in_order, rows, run

EVENTS = "event a(k: int, v: int).\nevent b(k: int, v: int).\nevent c(k: int, v: int).\n"
WINDOWS = ("LAST 3 s EVERY 1 s", "LAST 2 s EVERY 2 s", "EACH 2 s", "EACH 3 s", "SESSION 1 s", "SESSION 2 s")
RESULTS = ("count()", "last(V)", "first(V)", "sum(V)", "max(V)")
FLUENTS = """event a(k: int, v: int) TIME time.
event b(k: int, v: int) TIME time.
event c(k: int, v: int) TIME time.
fluent r(k: int) START s END e.
fluent h(k: int) = v: int.
initiate h(K) = V <- a(K, V).
terminate h(K) = _ <- c(K, _).
h(K) = V ENDS AFTER 2 s RENEWED.
fluent d(k: int).
initiate d(K) <- b(K, _).
d(K) ENDS AFTER 3 s.
fluent w(k: int).
w(K) WHILE ONCE[1 s, 2 s] a(K, _) OR ONCE[2 s, 3 s] c(K, _).
"""
CHOICES = (
    "f(K, M) <- (h(K) = _ AND b(_, M)) POLICY recent.",
    "f(K, M) <- (END OF h(K) = _ AND b(_, M)) POLICY chronological.",
    "f(K) <- (END OF h(J) = _ AGGREGATE K = last(J) OVER LAST 2 EVENTS).",
    "f(K, M) <- (d(K) AND b(_, M)) POLICY recent.",
    "f(K) <- (w(J) AGGREGATE K = last(J) OVER LAST 2 EVENTS).",
    "f(K, M) <- (w(K) AND b(_, M)) POLICY recent.",
    "f(K, M) <- (BEGIN OF w(K) SEQ b(_, M)) POLICY chronological.",
    "e(J, K) <- b(J, _) WHERE w(K).\nf(K, M) <- (e(_, K) SEQ c(_, M)) POLICY recent.",
    "e(J, K) <- b(J, _) WHERE d(K).\nf(K) <- (e(_, J) AGGREGATE K = last(J) OVER LAST 1 EVENTS).",
    "f(K) <- (r(J) AGGREGATE K = last(J) OVER LAST 2 EVENTS).",
    "f(K, M) <- (END OF r(K) AND b(_, M)) POLICY recent.",
)


def windowed(rng: Random, source: str, head: str) -> str:
    window, result = rng.choice(WINDOWS), rng.choice(RESULTS)
    return f"{head}(K, N) <- ({source}(K, V) AGGREGATE N = {result} OVER {window} BY K).\n"


def absent(rng: Random, source: str) -> str:
    return f"({source}(K, V) UNLESS c({rng.choice('K_')}, {rng.choice('V_')}) WITHIN {rng.randint(1, 3)} s)"


def timed(rng: Random, head: str) -> str:
    """Rules whose results time completes."""
    match rng.randrange(6):
        case 0:
            return windowed(rng, "a", head)
        case 1:
            return windowed(rng, "a", head) + windowed(rng, rng.choice("ab"), head)
        case 2:
            return f"{head}(K, V) <- {absent(rng, 'a')}.\n"
        case 3:
            return f"{head}(K, V) <- {absent(rng, 'a')} OR {absent(rng, 'b')}.\n"
        case 4:
            rules = [f"{head}(K, V) <- {pattern}.\n" for pattern in (absent(rng, "a"), absent(rng, "b"), "b(V, K)")]
            return "".join(rng.sample(rules, rng.choice((2, 3))))
        case _:
            return f"{head}(K, V) <- {absent(rng, 'a')} UNLESS b(K, _) WITHIN {rng.randint(1, 2)} s.\n"


def choosing(rng: Random, source: str, head: str) -> str:
    """A rule that chooses by the order of arrival."""
    policy = f"POLICY {rng.choice(('recent', 'chronological'))}"
    operator = rng.choice(("AND", "SEQ", "PAR"))
    choice = f"({source}(K, N) AGGREGATE M = {rng.choice(('last', 'first'))}(N) OVER"
    match rng.randrange(6):
        case 0:
            return f"{head}(N, M) <- ({source}(K, N) {operator} b({rng.choice('KJ')}, M)) {policy}.\n"
        case 1:
            return f"{head}(N, M) <- (b(J, M) {operator} {source}({rng.choice('KJ')}, N)) {policy}.\n"
        case 2:
            return f"{head}(N, M) <- ({source}(K, N) {operator} {source}(L, M)) {policy}.\n"
        case 3:
            return f"{head}(K, M) <- {choice} LAST {rng.randint(1, 3)} EVENTS BY K).\n"
        case 4:
            return f"{head}(0, M) <- {choice} LAST {rng.randint(1, 3)} EVENTS).\n"
        case _:
            return f"{head}(0, M) <- {choice} {rng.choice((*WINDOWS, 'LAST 2 s'))}).\n"


def random_rules(rng: Random) -> str:
    text = EVENTS + timed(rng, "e") + choosing(rng, "e", "f")
    if rng.random() < 0.4:
        text += windowed(rng, "f", "g") + choosing(rng, "g", "h")
    return text


def random_events(rng: Random, instants: bool = False) -> list[Event]:
    events = []
    for _ in range(rng.randint(4, 18)):
        end = rng.randrange(8)
        start = end if instants or rng.random() < 0.4 else max(0, end - rng.randint(1, 2)) // 2 * 2
        args = rng.randrange(3), rng.randrange(3)
        events.append(Event(rng.choice("aaabbc"), args, start * SECOND, end * SECOND))
    return in_order(events)


def with_texts(rng: Random, text: str, events: Sequence[Event]) -> tuple[str, list[Event]]:
    """The program and the events, often with texts as keys."""
    if "b(V, K)" in text or "g(K, N)" in text or rng.random() < 0.4:
        return text, list(events)
    named = [replace(event, args=(f"key {event.args[0]}", *event.args[1:])) for event in events]
    return re.sub(r"(event \w|fluent \w)\(k: int", r"\1(k: string", text).replace("(0, M)", '("0", M)'), named


def disordered(rng: Random, events: Sequence[Event], time: str = "end") -> list[Event]:
    """The events in random order. Those of one time keep their order."""
    waiting: dict[int, list[Event]] = {}
    for event in events:
        waiting.setdefault(getattr(event, time), []).append(event)
    return [waiting[getattr(event, time)].pop(0) for event in rng.sample(events, len(events))]


def pieces(rng: Random, events: Sequence[Event]) -> list[list[Event]]:
    cuts = sorted(rng.randrange(len(events) + 1) for _ in range(rng.randrange(4)))
    return [list(events[a:b]) for a, b in zip([0, *cuts], [*cuts, len(events)])]


def restarted(text: str, batches: Sequence[Sequence[Event]]) -> list[Event]:
    engine, found = Engine.from_text(text, lateness=LONG), []
    for batch in batches:
        found += rows(engine.push([event for event in batch if event.type in engine.inputs]))
        engine = Engine.from_text(text, lateness=LONG).restore(engine.snapshot())
    return found + rows(engine.close())


def revised(text: str, batches: Sequence[Sequence[Event]]) -> list[Event]:
    """The results that stand in the end when late records revise them."""
    engine, net = Engine.from_text(text, revise=LONG), Counter[Event]()
    outputs = [engine.push([event for event in batch if event.type in engine.inputs]) for batch in batches]
    for output in (*outputs, engine.close()):
        for type, table in output.items():
            values = [name for name in table.columns if not name.startswith("@")]
            for sign, start, end, *args in table.select("@change", *values).iter_rows():
                net[Event(type, tuple(args), start, end)] += sign
    assert min(net.values(), default=0) >= 0
    return sorted(net.elements(), key=reference.sort_key)


def chosen(events: Sequence[Event]) -> list[Event]:
    """The events of rules, without fluents, of which an output tells other things as well."""
    return [event for event in events if event.type in "ef"]


def bucketed(rng: Random, text: str, batches: Sequence[Sequence[Event]]) -> list[Event]:
    numbers = iter(range(1000))
    numbered = [[(next(numbers), event) for event in batch] for batch in batches]
    return Buckets(text, rng.choice((2, 3)), rng).run(numbered, LONG)


@pytest.mark.parametrize("seed", seeds(400))
def test_disorder_changes_no_choice(seed: int) -> None:
    rng = Random(f"timed {seed}")
    text, events = with_texts(rng, random_rules(rng), random_events(rng))
    expected = reference.detect(text, events)
    check(expected, run(Engine.from_text(text), [events]), "the engine (+) is not the reference (-)")
    batches = pieces(rng, disordered(rng, events))
    check(expected, run(Engine.from_text(text, lateness=LONG), batches), "out of order (+) it is not in order (-)")
    check(expected, restarted(text, batches), "restarted (+) it goes on otherwise (-)")
    check(expected, revised(text, batches), "revised (+) it is not in order (-)")
    check(expected, bucketed(rng, text, batches), "in buckets (+) it is not one engine (-)")


@pytest.mark.parametrize(
    ("rules", "events"),
    [
        (
            "e(K, V) <- a(K, V) UNLESS b(K, _) WITHIN 2 s.\ne(V, K) <- b(K, V) UNLESS a(_, V) WITHIN 2 s.\n",
            [Event("a", (1, 2), 0, 0), Event("b", (1, 2), 0, 0)],
        ),
        (
            "e(K, N) <- ((a(K, V) SEQ b(K, _)) AGGREGATE N = count() OVER EACH 4 s BY K).\n"
            "e(V, 7) <- ((b(_, V) SEQ a(_, V)) AGGREGATE N = count() OVER EACH 4 s BY V).\n",
            [Event(name, (1, 1), end * SECOND, end * SECOND) for end, name in enumerate("aba")],
        ),
    ],
)
def test_results_of_two_stages_do_not_tie(rules: str, events: list[Event]) -> None:
    """The same events are in both patterns, but others complete them, and the values are the same."""
    text = EVENTS + rules + "f(K) <- (e(_, J) AGGREGATE K = last(J) OVER LAST 1 EVENTS).\n"
    expected = reference.detect(text, events)
    check(expected, run(Engine.from_text(text), [events]), "the engine (+) is not the reference (-)")
    for seed in range(20):
        check(expected, bucketed(Random(seed), text, [events]), "in buckets (+) it is not one engine (-)")


@pytest.mark.parametrize("seed", seeds(200))
def test_disorder_changes_no_choice_among_fluents(seed: int) -> None:
    rng = Random(f"timed fluents {seed}")
    events = random_events(rng, instants=True)
    for _ in range(rng.randrange(6)):
        start = rng.randrange(6)
        events.append(Event("r", (rng.randrange(3),), start * SECOND, (start + rng.randint(1, 3)) * SECOND))
    text, events = with_texts(rng, FLUENTS + rng.choice(CHOICES), events)
    events.sort(key=lambda event: event.start)  # records of fluents count by their start
    expected = run(Engine.from_text(text, lateness=LONG), [events])
    batches = pieces(rng, disordered(rng, events, "start"))
    check(expected, run(Engine.from_text(text, lateness=LONG), batches), "out of order (+) it is not in order (-)")
    check(expected, restarted(text, batches), "restarted (+) it goes on otherwise (-)")
    check(chosen(expected), chosen(revised(text, batches)), "revised (+) it is not in order (-)")


@pytest.mark.parametrize("seed", seeds(60))
def test_spark_chooses_as_one_process(seed: int, tmp_path: Path) -> None:
    rng = Random(f"timed on Spark {seed}")
    fluents = rng.random() < 0.3
    text = FLUENTS + rng.choice(CHOICES) if fluents else random_rules(rng)
    text, events = with_texts(rng, text, random_events(rng, instants=fluents))
    spark_operators.check(text, events, rng, LONG, tmp_path, rng.choice((2, 3)), revise=rng.random() < 0.5)


@pytest.mark.parametrize("file", ["lateness: 5 s", "revise: 5 s"])
def test_laws_hold_where_a_policy_chooses_among_groups(file: str, tmp_path: Path) -> None:
    rules = "e(G, N) <- (a(G, _) AGGREGATE N = count() OVER LAST 3 s EVERY 1 s BY G).\n"
    (tmp_path / "p.rules").write_text(f"{EVENTS}{rules}f(G, N, M) <- (e(G, N) AND b(_, M)) POLICY recent.\n")
    times = [("a", 0, 0, 0), ("a", 1, 0, 1), ("b", 0, 1, 1), ("a", 0, 2, 2), ("b", 1, 4, 4)]
    records = [{"type": name, "start": start, "end": end, "k": k, "v": 0} for name, k, start, end in times]
    (tmp_path / "events.jsonl").write_text(jsonl(records))
    text = f"program: p.rules\n{file}\ntests:\n  - name: t\n    input: events.jsonl\n    until: end\n    dead: 0\n"
    prepared = Programs().prepare(parse_test_file(text, tmp_path / "t.test.yaml").tests[0])
    law = laws_named(["shuffle" if file.startswith("lateness") else "late"], workers=False)
    passed, failures = broken(prepared, prepared.run(), law, range(40))
    assert not failures, [(failure.message, *failure.details) for failure in failures]
    assert passed == 40


def test_orders_are_the_same_in_every_version() -> None:
    """Positions of older versions are in snapshots, next to those of this one."""
    words = [hash_words(pl.Series(values), "any") for values in ([1, 2, None], ["x", "y", "x"])]
    expected = [-3354834523969212597, -4555659517827323877, -4348325406808839811]
    assert orders(words, ["b", "a"], 3).tolist() == expected
    assert orders([], ["a"], 2).tolist() == [-3869686719857366143] * 2
