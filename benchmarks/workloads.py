"""The workloads: programs, their streams, the Python loops to compare with, and targets.

A WITHIN grows with the number of keys, so that an event finds as many partners among 100 keys as among 100,000. A
thousand events arrive per second, so each id has one every `keys` milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks import baselines, enriched, fluents, geometry, rules, streams, windows
from benchmarks.baselines import Baseline
from benchmarks.streams import Row, Rows, Stream
from benchmarks.workload import K, M, Workload, usual

MILLISECOND = 1000
SECOND = 1_000_000


def mixed(types: dict[str, str], text: bool = False) -> Callable[[int, int], Stream]:
    """Return a function that creates streams of these types. Their events have an `id` and a value.

    `types`: the name of the value, by event type.
    """
    return lambda events, keys: streams.mixed(types, events, keys, seed=1, text=text)


def declared(types: dict[str, str], key: str = "int") -> str:
    """Return the declarations of these types."""
    return "".join(f"event {name}(id: {key}, {value}: int) TIME t.\n" for name, value in types.items())


def with_width(loop: Callable[[Rows, int], list[Row]], width: Callable[[int], int]) -> Callable[[int], Baseline]:
    """Return a function from the number of keys to `loop` with its second argument, such as the WITHIN, set to the
    value of `width` for these keys."""
    return lambda keys: lambda events: loop(events, width(keys))


def pairs(keys: int) -> int:
    """Return the WITHIN in microseconds with which `a SEQ b` has about one result per event."""
    return 4 * keys * MILLISECOND


def many(keys: int) -> int:
    """Return the WITHIN in microseconds with which `a SEQ b` has about a hundred candidates per event.

    A condition then leaves about one of them.
    """
    return 50 * pairs(keys)


def half(keys: int) -> int:
    """Return the WITHIN in microseconds with which `a AND b` has about one result per event."""
    return 2 * keys * MILLISECOND


def triples(keys: int) -> int:
    """Return the WITHIN in microseconds with which `a SEQ b SEQ c` has about one result per event."""
    return 15 * keys * MILLISECOND // 2


def rule(declarations: str, head: str, pattern: str, width: Callable[[int], int]) -> Callable[[int], str]:
    """Return a function from the number of keys to a program with one rule, whose WITHIN is the value of `width`."""
    return lambda keys: f"{declarations}{head} <- {pattern} WITHIN {width(keys) // MILLISECOND} ms.\n"


A = {"a": "x"}
AB = {"a": "x", "b": "y"}
ABC = {"a": "x", "b": "y", "c": "z"}


def seq(policy: str, key: str = "int") -> Callable[[int], str]:
    """Return a function from the number of keys to a program: a SEQ of two events that have the same id."""
    return rule(f"{declared(AB, key)}policy {policy}.\n", "ab(I, X, Y)", "(a(I, X) SEQ b(I, Y))", pairs)


def total(window: str) -> Callable[[int], str]:
    """Return a function from the number of keys to a program: a sliding sum for each id."""
    return lambda keys: f"{declared(A)}total(I, S) <- a(I, X) AGGREGATE S = sum(X) OVER LAST {window} BY I.\n"


BLIZZARD = """\
event reading(station: int, wind: float, visib: float, temp: float) TIME t.
event settling(station: int, readings: int).
event warning(station: int, readings: int).
policy recent.
settling(S, 1) <- reading(S, W, V, T) WHERE W >= 15, V < 2, T <= 34.
settling(S, C + 1) <- (settling(S, C) SEQ reading(S, W, V, T) WHERE W >= 15, V < 2, T <= 34) WITHIN 6 h.
warning(S, C) <- settling(S, C) WHERE C >= 4, duration() >= 3 h.
"""


def tree(keys: int) -> list[tuple[int, int]]:
    """Return the links of a tree of ids, child to parent, with three children each."""
    return [(child, child // 3) for child in range(1, keys)]


def closure(keys: int) -> str:
    """Return a program in which events look up everything that their id leads to, over any number of links."""
    facts = "".join(f"linked({child}, {parent}).\n" for child, parent in tree(keys))
    recursive = "leads(X, Y) :- linked(X, Y).\nleads(X, Y) :- linked(X, Z), leads(Z, Y).\n"
    return f"{declared(A)}{facts}{recursive}alarm(I, X, Y) <- a(I, X) WHERE leads(I, Y).\n"


def closure_loop(keys: int) -> Baseline:
    """Return the Python loop of the workload, with a table of everything that each id leads to."""
    reached: dict[int, list[int]] = {0: []}
    for child, parent in tree(keys):
        reached[child] = [parent, *reached[parent]]
    return partial(baselines.closure, reached=reached)


SEQ_LOOPS = {
    "unrestricted": with_width(baselines.seq_unrestricted, pairs),
    "recent": with_width(baselines.seq_recent, pairs),
    "chronological": with_width(baselines.seq_chronological, pairs),
}

listed: tuple[Workload, ...] = (
    *(Workload(f"seq2 {policy}", seq(policy), mixed(AB), loop, rate=5 * M) for policy, loop in SEQ_LOOPS.items()),
    Workload(
        "seq2 by a condition",
        rule(declared(AB), "ab(I, X, Y)", "(a(I, X) SEQ b(J, Y) WHERE J = I)", pairs),
        mixed(AB),
        SEQ_LOOPS["unrestricted"],
        rate=5 * M,
    ),
    Workload(
        "seq2 by an inequality",
        rule(declared(AB), "ab(I, X, Y)", "(a(I, X) SEQ b(I, Y) WHERE Y > X + 860)", many),
        mixed(AB),
        lambda keys: (
            lambda events: [row for row in baselines.seq_unrestricted(events, many(keys)) if row[5] > row[4] + 860]
        ),
        flat=False,
        sizes=((20 * K, 100), (200 * K, 1 * K)),
    ),
    Workload(
        "seq3",
        rule(declared(ABC), "abc(I, X, Y, Z)", "(a(I, X) SEQ b(I, Y) SEQ c(I, Z))", triples),
        mixed(ABC),
        with_width(baselines.seq_three, triples),
        rate=3 * M,
    ),
    Workload(
        "and",
        rule(declared(AB), "ab(I, X, Y)", "(a(I, X) AND b(I, Y))", half),
        mixed(AB),
        with_width(baselines.conjunction, half),
        rate=5 * M,
    ),
    Workload(
        "not",
        rule(declared(ABC), "ab(I, X, Y)", "NOT(c(I, _)).[a(I, X), b(I, Y)]", pairs),
        mixed(ABC),
        with_width(baselines.absence, pairs),
        rate=4 * M,
    ),
    Workload(
        "unless",
        rule(declared(AB), "quiet(I, X)", "a(I, X) UNLESS b(I, _)", half),
        mixed(AB),
        with_width(baselines.timer, half),
        rate=4 * M,
    ),
    Workload(
        "sum of 10 events",
        total("10 EVENTS"),
        mixed(A),
        with_width(baselines.sum_of_events, lambda keys: 10),
        rate=5 * M,
    ),
    Workload(
        "sum of 10 s",
        total("10 s"),
        mixed(A),
        with_width(baselines.sum_of_time, lambda keys: 10 * SECOND),
        rate=5 * M,
    ),
    Workload(
        "blizzard",
        lambda keys: BLIZZARD,
        lambda events, keys: streams.weather(events, keys, seed=1),
        lambda keys: baselines.blizzard,
        rate=2 * M,
    ),
    Workload(
        "closure in WHERE",
        closure,
        mixed(A),
        closure_loop,
        sizes=((20 * K, 100), (2 * M, 100), (2 * M, 1000)),
    ),
    *(
        Workload(
            f"text {policy}", seq(policy, "string"), mixed(AB, text=True), SEQ_LOOPS[policy], half_of=f"seq2 {policy}"
        )
        for policy in ("unrestricted", "recent")
    ),
    Workload(
        "rules by type",
        rules.by_type,
        mixed({f"e{number}": "x" for number in range(rules.TYPES)}),
        with_width(rules.by_type_loop, int),
        rate=100 * K,
        times=None,
        plan=3.0,
        flat=False,
        sizes=((100 * K, 100), (M, 100)),
        push=100 * K,
    ),
    Workload(
        "rules by kind",
        rules.by_kind,
        lambda events, keys: streams.kinds(events, keys, rules.KINDS, seed=1),
        with_width(rules.by_kind_loop, int),
        rate=100 * K,
        times=None,
        plan=3.0,
        flat=False,
        sizes=((100 * K, 100), (M, 100)),
        push=100 * K,
    ),
    *(
        Workload(f"pushes of {size:,}", seq("recent"), mixed(AB), times=None, flat=False, sizes=usual[1:], push=size)
        for size in (K, 10 * K, 100 * K)
    ),
    Workload("live goals", seq("unrestricted"), mixed(AB), times=None, sizes=((2 * M, 500), (2 * M, 500 * K)), fill=4),
)

workloads: dict[str, Workload] = {
    workload.name: workload
    for workload in (*listed, *windows.listed, *enriched.listed, *geometry.listed, *fluents.listed)
}
