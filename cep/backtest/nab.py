"""The score of the Numenta Anomaly Benchmark (Lavin and Ahmad 2015, arXiv:1510.03336). A position in a window is
measured in time, not in rows.

Let s(y) = 2 / (1 + exp(5 y)) - 1. A profile has three weights: `tp` for true positives, `fp` for false positives, and
`fn` for false negatives. Only the earliest detection in a window counts. It earns `tp` times s(y) / s(-1), where y goes
from -1 at the start of the window to 0 at its end. A window without a detection costs `fn`.

A detection outside of windows costs `fp` times -s(y). Here y is the time since the end of the last window, divided by
the length of that window. The cost is the full `fp` if y is at least 3, or if there is no earlier window.

The sum is scaled so that no detection at all scores 0, and a detection at the start of each window scores 100. There is
no probationary period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Key = tuple[object, ...]
Times = NDArray[np.int64]
Floats = NDArray[np.float64]
Window = tuple[Key | None, int, int]
"""A window: its key, its start and its end. The key is None if the window applies to all keys."""
PROFILES = {"standard": (1.0, 0.11, 1.0), "low_fp": (1.0, 0.22, 1.0), "low_fn": (1.0, 0.11, 2.0)}
"""The weights of true positives, false positives and false negatives, for each profile of NAB."""
_FAR = 3.0


@dataclass(frozen=True, slots=True)
class NabScores:
    """The score for each profile: standard, and profiles for which false positives or false negatives cost more."""

    standard: float
    low_fp: float
    low_fn: float


def nab_scores(detections: Mapping[Key, Times], windows: Sequence[Window]) -> NabScores:
    """Return the NAB scores of detections.

    - `detections`: the sorted times of the detections, by key.
    - `windows`: the windows, at least one.
    """
    earned, missed, false = _parts(detections, windows)
    count = len(windows)
    scores = {}
    for name, (tp, fp, fn) in PROFILES.items():
        nothing, perfect = -fn * count, tp * count
        scores[name] = 100 * (tp * earned + fp * false - fn * missed - nothing) / (perfect - nothing)
    return NabScores(**scores)


def _parts(detections: Mapping[Key, Times], windows: Sequence[Window]) -> tuple[float, int, float]:
    """Return three parts of the score, before they are weighted: the sum over the windows that have a detection, the
    number of windows that have none, and the sum over false positives, which is negative."""
    first = [int(end) + 1 for _, _, end in windows]
    false = 0.0
    for key, times in detections.items():
        own = sorted((start, end, place) for place, (of, start, end) in enumerate(windows) if of is None or of == key)
        inside = np.zeros(len(times), np.bool_)
        for start, end, place in own:
            begin, beyond = np.searchsorted(times, start), np.searchsorted(times, end, side="right")
            inside[begin:beyond] = True
            if begin < beyond:
                first[place] = min(first[place], int(times[begin]))
        false += _false(times[~inside], own)
    hit = [(time, start, end) for time, (_, start, end) in zip(first, windows) if time <= end]
    positions = np.array([-(end - time) / (end - start) if end > start else -1.0 for time, start, end in hit])
    earned = float((_sigmoid(positions) / _sigmoid(np.array([-1.0]))).sum())
    return earned, len(windows) - len(hit), false


def _false(times: Times, windows: Sequence[tuple[int, int, int]]) -> float:
    """Return the sum of the scores of one key's false positives, before the profile's weight is applied. Each score is
    negative, and lower if the false positive is further from the end of the last window before it."""
    by_end = sorted((end, end - start) for start, end, _ in windows)
    if not by_end:
        return -float(len(times))
    ends, lengths = (np.array(column, np.float64) for column in zip(*by_end))
    last = np.searchsorted(ends, times) - 1
    after = last >= 0
    apart = times[after] - ends[last[after]]
    position = np.full(int(after.sum()), _FAR)
    np.divide(apart, lengths[last[after]], out=position, where=lengths[last[after]] > 0)
    scores = np.where(position >= _FAR, -1.0, _sigmoid(np.minimum(position, _FAR)))
    return float(scores.sum()) - float((~after).sum())


def _sigmoid(position: Floats) -> Floats:
    return 2 / (1 + np.exp(5 * position)) - 1
