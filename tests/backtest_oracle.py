"""The figures of a backtest, computed one label and one episode at a time. The code follows only the documentation."""

from __future__ import annotations

import math
from typing import Any

Detections = list[tuple[str, int]]
"""(key, time in microseconds)."""
Labels = list[tuple[int, int, str | None]]
"""(start, end, key); no key: every key."""
DAY = 24 * 3600 * 1_000_000


def episodes(detections: Detections, merge: int) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    for key in sorted({key for key, _ in detections}):
        times = sorted(time for own, time in detections if own == key)
        begin = last = times[0]
        for time in times[1:]:
            if time - last > merge:
                found.append((key, begin, last))
                begin = time
            last = time
        found.append((key, begin, last))
    return found


def figures(
    detections: Detections,
    labels: Labels,
    since: int,
    until: int,
    merge: int,
    before: int = 0,
    after: int = 0,
    short: int | None = None,
) -> dict[str, Any]:
    every = episodes(detections, merge)

    def hits(episode: tuple[str, int, int], label: tuple[int, int, str | None]) -> bool:
        key, first, last = episode
        start, end, whose = label
        return whose in (None, key) and not (last < start - before or first > end + after)

    leads = []
    for label in labels:
        own = [each for each in every if hits(each, label)]
        if own:
            leads.append(label[0] - min(first for _, first, _ in own))
    leads.sort()
    useful = [each for each in every if any(hits(each, label) for label in labels)]
    days = (until - since) / DAY
    count = {key: sum(own == key for own, _, _ in every) for key, _, _ in every}
    median = None
    if leads:
        half = len(leads) // 2
        median = leads[half] if len(leads) % 2 else (leads[half - 1] + leads[half]) / 2
    busy = sorted((first, last) for _, first, last in every)
    quiet, free = 0, since
    for first, last in busy:
        if first > free:
            quiet = max(quiet, min(first, until) - free)
        free = max(free, last)
    quiet = max(quiet, until - free)
    return {
        "labels": len(labels),
        "hit": len(leads),
        "episodes": len(every),
        "hitting": len(useful),
        "recall": len(leads) / len(labels) if labels else None,
        "precision": len(useful) / len(every) if every else None,
        "lead": median,
        "lead_worst": leads[max(0, math.ceil(len(leads) * 0.1) - 1)] if leads else None,
        "load": len(every) / days if days else None,
        "load_busiest": max(count.values(), default=0) / days if days else None,
        "quiet": quiet,
        "flapping": sum(last - first < short for _, first, last in every) / len(every)
        if short is not None and every
        else None,
    }


def cut(detections: Detections, labels: Labels, at: int) -> tuple[tuple[Detections, Labels], tuple[Detections, Labels]]:
    """What is before a time, and what is from it on: detections by their time, labels by their start."""
    early = [each for each in detections if each[1] < at], [each for each in labels if each[0] < at]
    late = [each for each in detections if each[1] >= at], [each for each in labels if each[0] >= at]
    return early, late


def nab(detections: Detections, labels: Labels, tp: float, fp: float, fn: float) -> float:
    """The score of NAB, one detection at a time, from the text of its publication."""

    def sigmoid(position: float) -> float:
        return 2 / (1 + math.exp(5 * position)) - 1

    total = 0.0
    for start, end, whose in labels:
        own = [time for key, time in detections if whose in (None, key) and start <= time <= end]
        if not own:
            total -= fn
            continue
        position = -1.0 if start == end else (min(own) - end) / (end - start)
        total += tp * sigmoid(position) / sigmoid(-1)
    for key, time in detections:
        windows = [(end, start) for start, end, whose in labels if whose in (None, key)]
        if any(start <= time <= end for end, start in windows):
            continue
        before = max(((end, end - start) for end, start in windows if end <= time), default=None)
        far = before is None or before[1] == 0 or (time - before[0]) / before[1] >= 3
        total += fp * (-1 if far or before is None else sigmoid((time - before[0]) / before[1]))
    nothing, perfect = -fn * len(labels), tp * len(labels)
    return 100 * (total - nothing) / (perfect - nothing)
