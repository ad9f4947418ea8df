"""Programs with a thousand rules, of which ten read each event, and equivalent Python loops."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import numpy as np

from benchmarks.baselines import Waiting, arrivals, distinct
from benchmarks.streams import Row, Rows

RULES, TYPES, KINDS = 1000, 200, 100

TYPED, KINDED = 40_000, 100_000
"""The WITHIN in microseconds of the rules on types (TYPED) and of the rules on kinds (KINDED), for one key. The WITHIN
grows with the number of keys."""


def typed_rules() -> list[tuple[str, str, int]]:
    """Return the left type, the right type and the threshold of each rule on types.

    Every type is the left type of five rules and the right type of five rules.
    """
    thresholds = np.random.default_rng(1).integers(300, 700, RULES).tolist()
    return [
        (f"e{number % TYPES}", f"e{(number + 1 + 37 * (number // TYPES)) % TYPES}", threshold)
        for number, threshold in enumerate(thresholds)
    ]


def by_type(keys: int) -> str:
    """Return the rules on types, which all derive the same event."""
    lines = [f"event e{number}(id: int, x: int) TIME t.\n" for number in range(TYPES)]
    lines.append("event alert(rule: int, id: int, x: int, y: int).\n")
    for number, (left, right, threshold) in enumerate(typed_rules()):
        body = f"{left}(I, X) SEQ {right}(I, Y) WHERE X >= {threshold}"
        lines.append(f"alert({number}, I, X, Y) <- ({body}) WITHIN {TYPED * keys // 1000} ms.\n")
    return "".join(lines)


def by_type_loop(events: Rows, keys: int) -> list[Row]:
    """Evaluate the rules on types in Python. A dictionary finds the rules for the type of an event."""
    within = TYPED * keys
    begins: defaultdict[str, list[tuple[int, Waiting]]] = defaultdict(list)
    ends: defaultdict[str, list[tuple[int, Waiting]]] = defaultdict(list)
    for number, (left, right, threshold) in enumerate(typed_rules()):
        lefts: Waiting = defaultdict(deque)
        begins[left].append((threshold, lefts))
        ends[right].append((number, lefts))
    out: list[Row] = []
    for name, time, key, value in distinct(*events.values()):
        for number, lefts in ends[name]:
            if key in lefts:
                waiting = lefts[key]
                while waiting and waiting[0][0] < time - within:
                    waiting.popleft()
                for start, x in waiting:
                    if start == time:
                        break
                    out.append(("alert", start, time, number, key, x, value))
        for threshold, lefts in begins[name]:
            if value >= threshold:
                lefts[key].append((time, value))
    return out


def kind_rules() -> tuple[list[list[tuple[str, int]]], list[list[tuple[str, int, int]]]]:
    """Return rules on one type: for each kind of reading, five levels (name, level), five jumps (name, low, high)."""
    levels = [[(f"level{kind}_{n}", 900 + 15 * n + kind % 10) for n in range(5)] for kind in range(KINDS)]
    jumps = [[(f"jump{kind}_{n}", 200 + n, 800 - kind) for n in range(5)] for kind in range(KINDS)]
    return levels, jumps


def by_kind(keys: int) -> str:
    """Return the rules on kinds. Each derives its own event."""
    lines = ["event reading(id: int, kind: int, x: int) TIME t.\n"]
    for kind, (levels, jumps) in enumerate(zip(*kind_rules())):
        lines += [f"{name}(I, X) <- reading(I, {kind}, X) WHERE X >= {level}.\n" for name, level in levels]
        for name, low, high in jumps:
            body = f"reading(I, {kind}, X) SEQ reading(I, {kind}, Y) WHERE X < {low}, Y >= {high}"
            lines.append(f"{name}(I, X, Y) <- ({body}) WITHIN {KINDED * keys // 1000} ms.\n")
    return "".join(lines)


def by_kind_loop(events: Rows, keys: int) -> list[Row]:
    """Evaluate the rules on kinds in Python. A dictionary finds the rules for the kind of a reading."""
    within = KINDED * keys
    levels, jumps = kind_rules()
    waits: defaultdict[tuple[str, Any], deque[tuple[int, int]]] = defaultdict(deque)
    out: list[Row] = []
    pairs: dict[Row, None] = {}
    for _, time, key, kind, value in arrivals(events["reading"]):
        for name, level in levels[kind]:
            if value >= level:
                out.append((name, time, time, key, value))
        for name, low, high in jumps[kind]:
            if value >= high:
                waiting = waits[name, key]
                while waiting and waiting[0][0] < time - within:
                    waiting.popleft()
                for start, x in waiting:
                    if start == time:
                        break
                    pairs[name, start, time, key, x, value] = None
            if value < low:
                waits[name, key].append((time, value))
    return out + list(pairs)
