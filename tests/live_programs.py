"""Programs that are edited while they run, and their expected result: each instant is processed by one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import ClassVar, Self

from cep.engine import Engine
from cep.events import Event
from cep.knowledge.graph import Knowledge
from cep.knowledge.updates import read_updates
from tests.serving import EIGHT

BEGINNING, END = -(2**62), 2**62
Reading = tuple[int, str, float]
"""Microseconds after eight, a fridge, degrees."""
Row = tuple[object, ...]
Result = tuple[str, tuple[object, ...], int, int]
"""An event: its name, the arguments by the names of attributes, start, end."""


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

    FLUENTS: ClassVar[Mapping[str, tuple[str, ...]]] = {"state": ("hot",)}
    """The numbers that a fluent goes back to."""

    @classmethod
    def draw(cls, random: Random) -> Self:
        return cls(
            random.randrange(3), random.choice((3, 9)), random.choice((2, 4)), random.choice((5, 8)),
            random.choice((5, 7)), random.random() < 0.5,
        )  # fmt: skip

    @classmethod
    def edits(cls, random: Random, count: int) -> list[Self]:
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

    def results(self, readings: Sequence[Reading]) -> list[Result]:
        """The events of a run of this program alone over all readings."""
        return results(self.text, readings)


def results(text: str, readings: Sequence[Reading]) -> list[Result]:
    """The events of a run of one program over all readings."""
    return derived(Engine.from_text(text), readings)


def derived(engine: Engine, readings: Sequence[Reading]) -> list[Result]:
    """The events that an engine derives from all readings."""
    found: list[Result] = []
    events = [Event("reading", (fridge, temp), EIGHT + at, EIGHT + at) for at, fridge, temp in readings]
    tables = [engine.push(events), engine.advance(EIGHT + readings[-1][0] - 1)]
    for given in tables:
        for name, table in given.items():
            names = sorted(each.name for each in engine.outputs[name].attributes)
            for row in table.iter_rows(named=True):
                found.append((name, tuple(row[each] for each in names), row["start"], row["end"]))
    return found


class RevisedRules(Rules):
    """The same with a fluent that some of them have, a formula, a cycle, and an event of an event."""

    FLUENTS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "state": ("hot",), "cold": ("steep", "hot"), "both": ("steep", "hot"),
    }  # fmt: skip

    @property
    def text(self) -> str:
        cold = f"""fluent cold(f: string).
initiate cold(F) <- reading(F, T) WHERE T < {self.hot - 2}.
terminate cold(F) <- reading(F, T) WHERE T > {self.hot}.
fluent both(f: string).
both(F) WHILE cold(F) AND state(F) = "mild".
"""
        return f"""{super().text}{cold if self.steep else ""}
chain(F, N) <- reading(F, N) WHERE N > {self.hot}.
chain(F, N) <- chain(F, N) SEQ reading(F, _) WITHIN {self.within} s.
twice(F) <- rising(F, _, A) SEQ rising(F, A, _) WITHIN 20 s.
"""


class KnowingRules(Rules):
    """The same with rules that ask what is known, which changes: limits of fridges in `limits.trig`, names in
    `names.ttl`, of the folder where programs are."""

    FLUENTS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "state": ("hot",), "strict": ("hot",), "limited": ("hot",), "seen": (), "allowed": (),
    }  # fmt: skip
    EVENTS: ClassVar = ("above", "crossed", "near", "strict", "limited", "seen", "allowed")
    folder: ClassVar[Path]

    @property
    def text(self) -> str:
        return f"""PREFIX k: <http://example.org/kitchen#>
limit(F, L) :- {{ ?f k:name ?F ; k:limit ?L }}.
{super().text}
above(F, L) <- reading(F, T) WHERE {{ ?f k:name ?F ; k:limit ?L }}, T > L + {self.rise}.
crossed(F, L) <- reading(F, S) SEQ reading(F, T) WHERE limit(F, L), S <= L, T > L WITHIN {self.within} s POLICY recent.
near(F, L) <- reading(F, T) SEQ reading(F, T) WHERE {{ ?f k:name ?F ; k:limit ?L }}, T <= L WITHIN 20 s POLICY recent.
fluent strict(f: string).
initiate strict(F) <- reading(F, T) WHERE limit(F, L), T > L, T > {self.hot}.
terminate strict(F) <- reading(F, T) WHERE T < 3.
fluent limited(f: string, l: int).
limited(F, L) WHILE state(F) = "mild" WHERE {{ ?f k:name ?F ; k:limit ?L }}.
fluent seen(f: string).
initiate seen(F) <- reading(F, T) WHERE T > 1.
terminate seen(F) <- reading(F, T) WHERE T < 1.
fluent allowed(f: string, l: int).
allowed(F, L) WHILE seen(F) WHERE {{ ?f k:name ?F ; k:limit ?L }}.
"""

    def results(self, readings: Sequence[Reading]) -> list[Result]:
        known = Knowledge.load([self.folder / "names.ttl"], "none")
        engine = Engine.from_text(self.text, knowledge=known)
        engine.updates((one.time, one.add, one.remove) for one in read_updates([str(self.folder / "limits.trig")]))
        return derived(engine, readings)

    @classmethod
    def write_knowledge(cls, folder: Path, random: Random, until: int, every: int) -> list[str]:
        """Limits of four fridges, each of which is another one every so many microseconds, about. Returns the options
        of a server."""
        cls.folder = folder
        prefix = "@prefix k: <http://example.org/kitchen#> .\n"
        fridges = range(4)
        (folder / "names.ttl").write_text(prefix + "".join(f'k:f{n} k:name "f{n}" .\n' for n in fridges))
        graphs = [graph for number in fridges for graph in cls._limits(random, number, until, every)]
        (folder / "limits.trig").write_text(
            f"{prefix}@prefix prov: <http://www.w3.org/ns/prov#> .\n"
            + "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
            + "".join(graphs)
        )
        return ["--knowledge", str(folder / "names.ttl"), "--reasoning", "none", "--knowledge-updates",
                str(folder / "limits.trig")]  # fmt: skip

    @staticmethod
    def _limits(random: Random, fridge: int, until: int, every: int) -> Iterable[str]:
        time = -1_000_000
        while time < until:
            end = max(0, time) + random.randrange(1, 2 * every)
            name = f"<urn:limit:{fridge}:{time}>"
            yield f"{name} prov:generatedAtTime {_time(time)} ; prov:invalidatedAtTime {_time(end)} .\n"
            yield f"{name} {{ k:f{fridge} k:limit {random.randrange(1, 8)} }}\n"
            time = end + (random.randrange(every) if random.random() < 0.2 else 0)


def _time(time: int) -> str:
    """A time after eight as RDF has it."""
    return f'"{datetime.fromtimestamp((EIGHT + time) / 1e6, UTC).isoformat()}"^^xsd:dateTime'


def expected(versions: Sequence[tuple[Rules, int]], readings: Sequence[Reading]) -> set[Row]:
    """What is derived together, by brute force: of each event that ends behind a watermark the program that took over
    there. `versions`: with the watermark at which each took over, the first from the beginning."""
    return expected_of(versions, {rules: rules.results(readings) for rules, _ in versions})


def expected_of(versions: Sequence[tuple[Rules, int]], whole: Mapping[Rules, Sequence[Result]]) -> set[Row]:
    """The same, from what each program derives over all readings."""
    found: set[Row] = set()
    fluents = versions[0][0].FLUENTS
    ends = [time for _, time in versions[1:]] + [END]
    for (rules, begin), end in zip(versions, ends):
        for name, args, start, over in whole[rules]:
            if name not in fluents and begin < over <= end:
                found.add((name, *args, start, over))
    for fluent, numbers in fluents.items():
        pieces: list[tuple[Rules, int, int]] = []  # which the same numbers do not cut
        for (rules, begin), end in zip(versions, ends):
            if pieces and all(getattr(pieces[-1][0], each) == getattr(rules, each) for each in numbers):
                pieces[-1] = (pieces[-1][0], pieces[-1][1], end)
            else:
                pieces.append((rules, begin, end))
        for rules, begin, end in pieces:
            for name, args, start, over in whole[rules]:
                if name == fluent and over > begin and start < end:
                    found.add((name, *args, max(start, begin), min(over, end)))
    return {row for row in found if row[0] not in fluents or row[-2] != row[-1]}
