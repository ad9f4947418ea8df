"""Time: microseconds UTC since 1970, their range, and the progress of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

FARTHEST = 2**60
"""The maximum distance of times from 1970 in microseconds (36 thousand years), and the maximum duration.

Sums of times and durations therefore never overflow.
"""

BEGINNING = -(2**62)
"""A time before all others: the watermark of a run without input."""

END_OF_TIME = 2**62
"""A time after all others: the watermark at the end of the input."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """The progress of time, in microseconds.

    `watermark`: events that end at or before it no longer arrive, except as revisions. `stable`: results that end at or
    before it never change; without revision, it equals the watermark. `latest`, `earliest`: the times to which results
    that would continue for ever, or reach back for ever, are computed at the end of the input. `first`: the first time
    of the input, or END_OF_TIME before any. `half`: changes that take effect just after the watermark are still to
    come.

    The watermark is that of Akidau et al., The Dataflow Model, PVLDB 8(12), 2015.
    """

    watermark: int
    stable: int
    latest: int = END_OF_TIME
    first: int = BEGINNING
    half: bool = False
    earliest: int = BEGINNING

    @classmethod
    def at(
        cls, watermark: int, latest: int = END_OF_TIME, first: int = BEGINNING, earliest: int = BEGINNING
    ) -> Frontier:
        """Return the frontier of an engine without revision."""
        return cls(watermark, watermark, latest, first, earliest=earliest)

    def until(self, time: int) -> Frontier:
        """Return this frontier, or one at `time` if that is earlier."""
        return self if time >= self.watermark else replace(self, watermark=time, stable=min(time, self.stable))
