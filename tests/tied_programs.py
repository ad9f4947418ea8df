"""Random programs in which several rules, keys and partners derive equal events at the same time."""

from __future__ import annotations

import re
from random import Random

from cep.events import Event
from tests.program_maker import SECOND
from tests.programs import Program

BODIES = (
    "a(K, V)",
    "a(K, V) WHERE V > 0",
    "a(K, V) OR b(K, V)",
    "a(K, V) AND b(K, _) WITHIN 3 s",
    "a(_, V) AND b(_, _) WITHIN 2 s",
    "a(K, V) PAR b(K, _)",
    "a(_, V) EQUALS b(_, _)",
    "a(_, V) SEQ b(_, _) WITHIN 3 s",
    "b(_, _) SEQ a(_, V) WITHIN 3 s",
    "a(_, V) TIMES 2",
    "(a(K, V) SEQ a(K, _) WITHIN 4 s) POLICY recent",
    "(a(_, V) SEQ b(_, _) WITHIN 4 s) POLICY chronological",
    "a(K, V) UNLESS b(K, _) WITHIN 1 s",
    "a(_, V) UNLESS b(_, V) WITHIN 2 s",
    "NOT(b(K, _)).[a(K, V), a(K, _)]",
    "NOT(b(_, V)).[a(_, V), a(_, _)]",
    "a(K, W) AGGREGATE V = max(W) OVER LAST 2 s BY K",
    "a(K, W) AGGREGATE V = count() OVER LAST 2 EVENTS BY K",
    "a(K, W) AGGREGATE V = sum(W) OVER EACH 2 s BY K",
    "a(K, W) AGGREGATE V = max(W) OVER SESSION 1 s BY K",
    "a(K, W) AGGREGATE V = min(W) OVER LAST 3 s EVERY 1 s BY K",
    "a(_, W) AGGREGATE V = last(W) OVER LAST 3 EVENTS",
    "(a(_, W) SEQ b(_, W) WITHIN 3 s) AGGREGATE V = count() OVER LAST 3 s",
)
"""Patterns that bind V, and some of them K."""
FLUENT = """fluent f(k: int).
initiate f(K) <- {h}(K, _).
initiate f(K) <- a(K, 0).
terminate f(K) <- b(K, _).
g(K, V) <- a(K, V) WHERE f(K)."""


def tied(random: Random) -> Program:
    """One to three events, each derived by up to three rules. Most heads leave out what tells two matches apart."""
    lines = [f"event {name}(k: int, v: int) TIME time." for name in "ab"]
    if random.random() < 0.2:
        lines.append(f"policy {random.choice(('recent', 'chronological', 'unrestricted'))}.")
    known = ["a", "b"]
    for number in range(random.choice((1, 1, 2, 2, 3))):
        head = f"h{number}"
        for _ in range(random.choice((1, 2, 2, 3))):
            body = re.sub(r"\b[ab]\(", lambda _: f"{random.choice(known[-3:])}(", random.choice(BODIES))
            keys = ["K", "K"] if re.search(r"\bK\b", body) else []
            lines.append(
                f"{head}({random.choice((*keys, '0', 'V'))}, {random.choice(('V', 'V', '0', 'V mod 2'))}) <- {body}."
            )
        if random.random() < 0.12:
            lines.append(f"{head}(K, W) <- {head}(K, V) SEQ a(K, W) WITHIN 2 s.")
        known.append(head)
    if random.random() < 0.25:
        lines.append(FLUENT.format(h=known[-1]))
    return Program("\n".join(lines), _events(random), restricted=True, aggregates=True, negative=True)


def _events(random: Random) -> tuple[Event, ...]:
    keys, seconds, values = random.choice((2, 3, 5)), random.choice((2, 4, 6)), random.choice((1, 2, 3))
    found = []
    for _ in range(random.randint(8, 30)):
        time = random.randrange(seconds) * SECOND
        found.append(Event(random.choice("aab"), (random.randrange(keys), random.randrange(values)), time, time))
    return tuple(sorted(found, key=lambda event: event.end))
