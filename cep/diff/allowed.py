"""How many differences a change may make: `gone 0, appeared 10`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from cep.app.durations import refuse
from cep.core.suggest import did_you_mean
from cep.diff.matching import KINDS, Kind

_LIMIT = re.compile(r"(?:((?:alert\s+)?\w+)\s+)?(\w+)\s+([\d_]+)")


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many differences of a kind, of one event or (None) of all together."""

    kind: Kind
    most: int
    event: str | None = None

    @property
    def name(self) -> str:
        """The kind, after the event if it is one."""
        return self.kind if self.event is None else f"{self.event} {self.kind}"

    def number(self, counts: Mapping[str, Counter[Kind]]) -> int:
        """Return how many there are of what is limited."""
        return sum(own[self.kind] for name, own in counts.items() if self.event in (None, name))


def read_limits(text: str, events: Sequence[str]) -> list[Limit]:
    """Read `gone 0, appeared 10`, `warming gone 0` of one event, or `alert hot gone 0` of one alert.

    CepError: it is no such list.
    """
    found: list[Limit] = []
    for part in text.split(","):
        match = _LIMIT.fullmatch(part.strip())
        if match is None:
            raise refuse(f"--allow: `{part.strip()}` is not a kind and a number", "`--allow 'gone 0, appeared 10'`")
        event, kind, number = match.groups()
        event = None if event is None else " ".join(event.split())
        if kind not in KINDS:
            hint = did_you_mean(kind, KINDS) or f"the kinds are {', '.join(KINDS)}"
            raise refuse(f"--allow: `{kind}` is not a kind of difference", hint)
        if event is not None and event not in events:
            hint = did_you_mean(event, events) or f"they derive {', '.join(f'`{each}`' for each in events)}"
            raise refuse(f"--allow: neither program derives `{event}`", hint)
        if any((each.event, each.kind) == (event, kind) for each in found):
            raise refuse(f"--allow: `{kind}` is limited twice", "give it one number")
        found.append(Limit(cast(Kind, kind), int(number), event))
    return found


def exceeded(limits: Sequence[Limit], counts: Mapping[str, Counter[Kind]]) -> list[str]:
    """Return what is more than allowed: `warming gone 2 (at most 0)`."""
    found = [(each, each.number(counts)) for each in limits]
    return [f"{each.name} {number:,} (at most {each.most:,})" for each, number in found if number > each.most]
