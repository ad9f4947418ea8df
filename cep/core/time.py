"""Time: microseconds UTC since 1970, the range of times, and the progress of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

FARTHEST = 2**60
"""The greatest distance of a time from 1970, in microseconds (36 thousand years). It is also the greatest duration.

Sums of times and durations therefore never overflow.
"""

BEGINNING = -(2**62)
"""A time before all others: the watermark of a run without input."""

END_OF_TIME = 2**62
"""A time after all others: the watermark at the end of the input."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """The progress of time in a run, in microseconds.

    - `watermark`: no further event arrives that ends at or before it, except as a revision.
    - `stable`: results that end at or before it never change. Without revision, it equals the watermark.
    - `latest`, `earliest`: at the end of the input, results that would continue or reach back for ever
      are computed only up to these times.
    - `first`: the first time of the input, or END_OF_TIME before any input.
    - `half`: True if changes that take effect just after the watermark are still to come.

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
        """Return a frontier at `time`, or this frontier if its watermark is earlier than `time`."""
        return self if time >= self.watermark else replace(self, watermark=time, stable=min(time, self.stable))
