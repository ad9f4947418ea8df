"""Programs that are edited while they run, and what they give together: each instant by one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from cep.engine import Engine
from cep.events import Event
from tests.serving import EIGHT

BEGINNING, END = -(2**62), 2**62
Reading = tuple[int, str, float]
"""Microseconds after eight, a fridge, degrees."""
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers of a program: degrees that a reading rises by and seconds in which; seconds of silence; seconds of a
    window; degrees from which it is hot."""

    rise: int
    within: int
    silent: int
    window: int
    hot: int
    steep: bool

    @classmethod
    def draw(cls, random: Random) -> Rules:
        return cls(
            random.randrange(3), random.choice((3, 9)), random.choice((2, 4)), random.choice((5, 8)),
            random.choice((5, 7)), random.random() < 0.5,
        )  # fmt: skip

    @classmethod
    def edits(cls, random: Random, count: int) -> list[Rules]:
        """A program and so many edits of it, each of which changes something."""
        found = [cls.draw(random)]
        while len(found) <= count:
            new = cls.draw(random)
            if new != found[-1]:
                found.append(new)
        return found

    @property
    def text(self) -> str:
        steep = "steep(F) <- rising(F, A, B) SEQ reading(F, C) WHERE C > B WITHIN 12 s.\n" if self.steep else ""
        return f"""
event reading(fridge: string, temp: float) TIME time.
rising(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE B > A + {self.rise} WITHIN {self.within} s POLICY recent.
{steep}silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN {self.silent} s.
often(F, N) <- reading(F, _) AGGREGATE N = count() OVER LAST {self.window} s BY F.
same(F, T) <- reading(F, T) SEQ reading(F, T) WITHIN 20 s POLICY recent.
fluent state(f: string) = w: string.
initiate state(F) = "hot" <- reading(F, T) WHERE T > {self.hot}.
initiate state(F) = "mild" <- reading(F, T) WHERE T > 3, T <= {self.hot}.
terminate state(F) = _ <- reading(F, T) WHERE T < 1.
"""


def results(text: str, readings: Sequence[Reading]) -> list[tuple[str, tuple[object, ...], int, int]]:
    """The events of a run of one program over all readings."""
    engine = Engine.from_text(text)
    found: list[tuple[str, tuple[object, ...], int, int]] = []
    events = [Event("reading", (fridge, temp), EIGHT + at, EIGHT + at) for at, fridge, temp in readings]
    tables = [engine.push(events), engine.advance(EIGHT + readings[-1][0] - 1)]
    for given in tables:
        for name, table in given.items():
            names = sorted(each.name for each in engine.outputs[name].attributes)
            for row in table.iter_rows(named=True):
                found.append((name, tuple(row[each] for each in names), row["start"], row["end"]))
    return found


def expected(versions: Sequence[tuple[Rules, int]], readings: Sequence[Reading]) -> set[Row]:
    """What is derived together, by brute force: of each event that ends behind a watermark the program that took over
    there. `versions`: with the watermark at which each took over, the first from the beginning."""
    found: set[Row] = set()
    whole = {rules: results(rules.text, readings) for rules, _ in versions}
    ends = [time for _, time in versions[1:]] + [END]
    for (rules, begin), end in zip(versions, ends):
        for name, args, start, over in whole[rules]:
            if name != "state" and begin < over <= end:
                found.add((name, *args, start, over))
    pieces: list[tuple[Rules, int, int]] = []  # of the fluent, which the same numbers do not cut
    for (rules, begin), end in zip(versions, ends):
        if pieces and pieces[-1][0].hot == rules.hot:
            pieces[-1] = (pieces[-1][0], pieces[-1][1], end)
        else:
            pieces.append((rules, begin, end))
    for rules, begin, end in pieces:
        for name, args, start, over in whole[rules]:
            if name == "state" and over > begin and start < end:
                found.add((name, *args, max(start, begin), min(over, end)))
    return {row for row in found if row[0] != "state" or row[-2] != row[-1]}
