"""Score detections against labels. Detections are merged into episodes. The figures are computed from the labels that
these episodes hit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cep.backtest.nab import Key, NabScores, Times, nab_scores

DAY = 86_400_000_000
_NONE = np.empty(0, np.int64)
_NEVER = np.iinfo(np.int64).max
FEW = 10
"""The number of labels below which the report prints confidence intervals of rates."""
Z = 1.959963984540054
"""The quantile of the normal distribution for a 95 % confidence interval."""


@dataclass(frozen=True, slots=True)
class Label:
    """The label of an incident: a closed interval in microseconds. `key`: the incident's key, or None if the label
    applies to all keys."""

    start: int
    end: int
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class Episodes:
    """The episodes of detections. An episode consists of detections of one key that are close together.

    - `firsts`, `lasts`: the times of the first and the last detection of each episode, grouped by key and sorted by
      time.
    - `places`: for each key, the range of its episodes in these arrays.
    """

    firsts: Times
    lasts: Times
    places: Mapping[Key, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Scoring:
    """The rules of scoring. Durations are in microseconds.

    - `merge`: the largest gap that may separate two detections of one episode.
    - `flapping`: the duration below which an episode counts as short, or None if short episodes are not counted.
    - `nab`: True if the scores of NAB are also computed.
    """

    merge: int
    before: int = 0
    after: int = 0
    flapping: int | None = None
    nab: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a set of detections, such as recall and precision. A figure is None if it is undefined.

    Durations are in microseconds, loads in episodes per day.
    """

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
    nab: NabScores | None = None

    @property
    def recall_interval(self) -> tuple[float, float] | None:
        """The Wilson confidence interval of the recall. It is None if there are at least FEW labels, or if the recall
        is undefined."""
        return wilson(self.hit, self.labels) if 0 < self.labels < FEW else None

    @property
    def precision_interval(self) -> tuple[float, float] | None:
        """The Wilson confidence interval of the precision. It is None if there are at least FEW labels, or if the
        precision is undefined."""
        return wilson(self.hitting, self.episodes) if self.episodes and self.labels < FEW else None


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a rate (Wilson 1927)."""
    rate, square = successes / trials, Z * Z
    middle = rate + square / (2 * trials)
    spread = Z * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def episodes_of(detections: Mapping[Key, Times], merge: int) -> Episodes:
    """Merge detections into episodes: detections of one key that follow each other at most `merge` apart. `detections`:
    sorted times, by key."""
    firsts, lasts, places, count = [_NONE], [_NONE], dict[Key, tuple[int, int]](), 0
    for key, times in detections.items():
        if not len(times):
            continue
        cuts = np.flatnonzero(times[1:] - times[:-1] > merge)
        firsts.append(times[np.append(0, cuts + 1)])
        lasts.append(times[np.append(cuts, len(times) - 1)])
        places[key] = (count, count + len(cuts) + 1)
        count += len(cuts) + 1
    return Episodes(np.concatenate(firsts), np.concatenate(lasts), places)


def score(
    detections: Mapping[Key, Times], labels: Sequence[Label], scoring: Scoring, since: int, until: int
) -> Figures:
    """Score the detections in a history that lasts from `since` to `until` (microseconds)."""
    episodes = episodes_of(detections, scoring.merge)
    number = len(episodes.firsts)
    hitting, leads = _hits(episodes, labels, scoring)
    days = (until - since) / DAY
    busiest = max((end - begin for begin, end in episodes.places.values()), default=0)
    short = int((episodes.lasts - episodes.firsts < (scoring.flapping or 0)).sum())
    return Figures(
        labels=len(labels),
        hit=len(leads),
        episodes=number,
        hitting=hitting,
        days=days,
        recall=len(leads) / len(labels) if labels else None,
        precision=hitting / number if number else None,
        lead=_median(leads) if leads else None,
        lead_worst=leads[math.ceil(len(leads) / 10) - 1] if leads else None,
        load=number / days if days > 0 else None,
        load_busiest=busiest / days if days > 0 else None,
        quiet=_quiet(episodes, since, until),
        flapping=short / number if scoring.flapping is not None and number else None,
        nab=nab_scores(detections, _windows(labels, scoring)) if scoring.nab and labels else None,
    )


def _windows(labels: Sequence[Label], scoring: Scoring) -> list[tuple[Key | None, int, int]]:
    return [(label.key, label.start - scoring.before, label.end + scoring.after) for label in labels]


def _hits(episodes: Episodes, labels: Sequence[Label], scoring: Scoring) -> tuple[int, list[int]]:
    """Return the number of episodes that hit a label, and the sorted lead times of the labels that an episode hits."""
    by_key: dict[Key | None, list[Label]] = {}
    for label in labels:
        by_key.setdefault(label.key, []).append(label)
    marked = np.zeros(len(episodes.firsts) + 1, np.int64)  # +1 where hits of a label begin, -1 behind them
    delays = []
    for key, own in by_key.items():
        if key is not None:
            pieces = [episodes.places[key]] if key in episodes.places else []
        else:
            pieces = list(episodes.places.values())
        starts = np.array([label.start for label in own], np.int64)
        ends = np.array([label.end for label in own], np.int64)
        earliest = np.full(len(own), _NEVER)
        for begin, end in pieces:
            first = begin + np.searchsorted(episodes.lasts[begin:end], starts - scoring.before)
            last = begin + np.searchsorted(episodes.firsts[begin:end], ends + scoring.after, side="right")
            hit = first < last
            np.add.at(marked, first[hit], 1)
            np.add.at(marked, last[hit], -1)
            earliest[hit] = np.minimum(earliest[hit], episodes.firsts[first[hit]])
        delays += (starts - earliest)[earliest < _NEVER].tolist()
    return int(np.count_nonzero(np.cumsum(marked) > 0)), sorted(delays)


def _median(values: Sequence[int]) -> float:
    middle = len(values) // 2
    return float(values[middle]) if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _quiet(episodes: Episodes, since: int, until: int) -> int:
    """Return the length of the longest part of the history in which no key has an episode."""
    order = np.argsort(episodes.firsts, kind="stable")
    reached = np.maximum.accumulate(np.append(since, episodes.lasts[order]))
    return max(0, int((np.append(np.minimum(episodes.firsts[order], until), until) - reached).max()))


def halves(
    detections: Mapping[Key, Times], labels: Sequence[Label], instant: int
) -> tuple[tuple[dict[Key, Times], list[Label]], tuple[dict[Key, Times], list[Label]]]:
    """Split detections and labels at `instant`. A label belongs to the half in which it starts."""
    early = {key: times[times < instant] for key, times in detections.items()}
    late = {key: times[times >= instant] for key, times in detections.items()}
    before = [label for label in labels if label.start < instant]
    return (early, before), (late, [label for label in labels if label.start >= instant])


def holdout_of(labels: Sequence[Label]) -> int | None:
    """Return the start of the first label in the last third of the labels. Returns None for fewer than three labels."""
    starts = sorted(label.start for label in labels)
    return starts[2 * len(starts) // 3] if len(starts) > 2 else None
