"""Time: microseconds UTC from 1970, how far they go, and how far the time of a run has come."""

from __future__ import annotations

from dataclasses import dataclass, replace

FARTHEST = 2**60
"""Times lie within so many microseconds of 1970, 36 thousand years, and no duration is longer: what is added to them
never overflows."""

BEGINNING = -(2**62)
"""Before every time: the watermark of a run that nothing has come to."""

END_OF_TIME = 2**62
"""After every time: the watermark that the end of the input brings."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """How far time has come, in microseconds. Nothing that ends at or before `watermark` is still to come, but for what
    revises; nothing that ends at or before `stable` ever changes. Without revision the two are one. At the end of the
    input what goes on by itself goes to `latest`, and what goes back by itself to `earliest`. `first`: the time at
    which the first of the input counts, END_OF_TIME before it comes. `half`: what is so from just after the watermark
    on is still to come.

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
        """Make a frontier for an engine that does not revise."""
        return cls(watermark, watermark, latest, first, earliest=earliest)

    def until(self, time: int) -> Frontier:
        """This frontier, or an earlier one that ends at `time`: a step goes on to it in several."""
        return self if time >= self.watermark else replace(self, watermark=time, stable=min(time, self.stable))
