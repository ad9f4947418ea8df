"""Limits on the number of differences: `gone 0, appeared 10`."""

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
    """The greatest number of differences of one kind that is allowed. `event`: the event to which the limit applies, or
    None for all events together."""

    kind: Kind
    most: int
    event: str | None = None

    @property
    def name(self) -> str:
        """The kind of difference, as text. If the limit applies to one event, the event's name precedes it."""
        return self.kind if self.event is None else f"{self.event} {self.kind}"

    def number(self, counts: Mapping[str, Counter[Kind]]) -> int:
        """Return the number of differences to which the limit applies."""
        return sum(own[self.kind] for name, own in counts.items() if self.event in (None, name))


def read_limits(text: str, events: Sequence[str]) -> list[Limit]:
    """Parse limits: `gone 0, appeared 10`, `warming gone 0` for one event, or `alert hot gone 0` for one alert.

    Raises CepError if the text is not a list of limits, or names an unknown event.
    """
    limits: list[Limit] = []
    for part in text.split(","):
        match = _LIMIT.fullmatch(part.strip())
        if match is None:
            raise refuse(
                f"--allow: `{part.strip()}` is not a kind and a number",
                "use a text like `--allow 'gone 0, appeared 10'`",
            )
        event, kind, number = match.groups()
        event = None if event is None else " ".join(event.split())
        if kind not in KINDS:
            hint = did_you_mean(kind, KINDS) or f"the kinds are {', '.join(KINDS)}"
            raise refuse(f"--allow: `{kind}` is not a kind of difference", hint)
        if event is not None and event not in events:
            hint = did_you_mean(event, events) or f"they derive {', '.join(f'`{event}`' for event in events)}"
            raise refuse(f"--allow: neither program derives `{event}`", hint)
        if any((limit.event, limit.kind) == (event, kind) for limit in limits):
            raise refuse(f"--allow: `{kind}` is limited twice", "give it one number")
        limits.append(Limit(cast(Kind, kind), int(number), event))
    return limits


def exceeded(limits: Sequence[Limit], counts: Mapping[str, Counter[Kind]]) -> list[str]:
    """Return a text for each limit that is exceeded: `warming gone 2 (at most 0)`."""
    counted = [(limit, limit.number(counts)) for limit in limits]
    return [f"{limit.name} {number:,} (at most {limit.most:,})" for limit, number in counted if number > limit.most]
