"""Detections against labels: episodes, hits, and the figures that follow from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Key = tuple[object, ...]
Times = NDArray[np.int64]
DAY = 86_400_000_000
FEW = 10
"""Labels below which intervals stand beside rates."""
Z = 1.959963984540054
"""The quantile of the normal distribution for an interval of 95 %."""


@dataclass(frozen=True, slots=True)
class Label:
    """An incident: its closed interval in microseconds. `key`: None: it applies to every key."""

    start: int
    end: int
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """Detections of one key that belong together, from the first to the last."""

    key: Key
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Scoring:
    """How detections are scored; durations in microseconds. `flapping`: episodes shorter than it flap, None: that is
    not asked."""

    merge: int
    before: int = 0
    after: int = 0
    flapping: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a set of detections; None: undefined. Durations are in microseconds, loads in episodes a day."""

    labels: int
    hit: int
    episodes: int
    hitting: int
    days: float
    recall: float | None
    precision: float | None
    lead: float | None
    lead_worst: int | None
    load: float | None
    load_busiest: float | None
    quiet: int
    flapping: float | None

    @property
    def recall_interval(self) -> tuple[float, float] | None:
        """The Wilson interval of the recall where labels are few."""
        return wilson(self.hit, self.labels) if 0 < self.labels < FEW else None

    @property
    def precision_interval(self) -> tuple[float, float] | None:
        """The Wilson interval of the precision where labels are few."""
        return wilson(self.hitting, self.episodes) if self.episodes and self.labels < FEW else None


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate (Wilson 1927)."""
    rate, square = successes / trials, Z * Z
    middle = rate + square / (2 * trials)
    spread = Z * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def episodes_of(detections: Mapping[Key, Times], merge: int) -> list[Episode]:
    """Return the episodes of detections (sorted times by key): those of a key no further apart than `merge` are one."""
    found = []
    for key, times in detections.items():
        if not len(times):
            continue
        cuts = np.flatnonzero(np.diff(times) > merge)
        firsts = times[np.concatenate([[0], cuts + 1])].tolist()
        lasts = times[np.concatenate([cuts, [len(times) - 1]])].tolist()
        found += [Episode(key, first, last) for first, last in zip(firsts, lasts)]
    return sorted(found, key=lambda each: (each.first, each.last, str(each.key)))


def score(
    detections: Mapping[Key, Times], labels: Sequence[Label], scoring: Scoring, since: int, until: int
) -> Figures:
    """Score the detections of a history from `since` to `until` (microseconds)."""
    episodes = episodes_of(detections, scoring.merge)
    by_key: dict[Key, list[tuple[int, Episode]]] = {}
    for number, each in enumerate(episodes):
        by_key.setdefault(each.key, []).append((number, each))
    hitting: set[int] = set()
    leads: list[int] = []
    for label in labels:
        low, high = label.start - scoring.before, label.end + scoring.after
        own = enumerate(episodes) if label.key is None else by_key.get(label.key, ())
        hits = [(number, each) for number, each in own if each.first <= high and each.last >= low]
        hitting.update(number for number, _ in hits)
        if hits:
            leads.append(label.start - min(each.first for _, each in hits))
    leads.sort()
    days = (until - since) / DAY
    busiest = max(map(len, by_key.values()), default=0)
    short = sum(each.last - each.first < (scoring.flapping or 0) for each in episodes)
    return Figures(
        labels=len(labels),
        hit=len(leads),
        episodes=len(episodes),
        hitting=len(hitting),
        days=days,
        recall=len(leads) / len(labels) if labels else None,
        precision=len(hitting) / len(episodes) if episodes else None,
        lead=_median(leads) if leads else None,
        lead_worst=leads[math.ceil(len(leads) / 10) - 1] if leads else None,
        load=len(episodes) / days if days > 0 else None,
        load_busiest=busiest / days if days > 0 else None,
        quiet=_quiet(episodes, since, until),
        flapping=short / len(episodes) if scoring.flapping is not None and episodes else None,
    )


def _median(values: Sequence[int]) -> float:
    middle = len(values) // 2
    return float(values[middle]) if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _quiet(episodes: Iterable[Episode], since: int, until: int) -> int:
    """Return the longest stretch of the history without an episode of any key."""
    longest, reached = 0, since
    for each in episodes:
        longest = max(longest, min(each.first, until) - reached)
        reached = max(reached, each.last)
    return max(longest, until - reached, 0)


def halves(
    detections: Mapping[Key, Times], labels: Sequence[Label], at: int
) -> tuple[tuple[dict[Key, Times], list[Label]], tuple[dict[Key, Times], list[Label]]]:
    """Return the detections and labels before a time, and those from it on; a label counts by its start."""
    early = {key: times[times < at] for key, times in detections.items()}
    late = {key: times[times >= at] for key, times in detections.items()}
    before = [each for each in labels if each.start < at]
    return (early, before), (late, [each for each in labels if each.start >= at])


def holdout_of(labels: Sequence[Label]) -> int | None:
    """Return the start of the label at two thirds, by start; None: there are too few labels to divide."""
    starts = sorted(each.start for each in labels)
    return starts[2 * len(starts) // 3] if len(starts) > 2 else None
