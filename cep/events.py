"""Single occurrences as Python values, for tests, notebooks and small pushes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class Iri(str):
    """An IRI as a value. It is equal only to the same IRI, never to a string."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iri) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("iri", str(self)))

    def __repr__(self) -> str:
        return f"<{str(self)}>"


type_names = ("int", "float", "string", "bool", "iri", "time", "duration")

Value = int | float | str | bool | Iri | None


@dataclass(frozen=True, slots=True)
class Event:
    """An occurrence: its event type, its arguments in order, and its closed interval (microseconds since 1970, UTC).

    Times and durations among the arguments are whole microseconds, too. A missing value is None.
    """

    type: str
    args: tuple[Value, ...]
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(f"event {self.type} ends at {self.end}, before it starts at {self.start}")


@dataclass(frozen=True, slots=True)
class Held:
    """A maximal interval in which a fluent holds.

    - `args`: the fluent's arguments, followed by its value.
    - `start`, `end`: microseconds since 1970, UTC; None means that the interval is unbounded on this side.
    - `bounds`: two brackets that say which ends belong to the interval: `(]` `[]` `()` `[)`.
    """

    type: str
    args: tuple[Value, ...]
    start: int | None
    end: int | None
    bounds: str


def types_of(events: Iterable[Event]) -> dict[str, tuple[str, ...]]:
    """Return the argument types of each event type. A type is `any` if the values of an argument have different types.

    Event types whose number of arguments varies are omitted.
    """
    kinds: dict[str, list[set[str]]] = {}
    odd: set[str] = set()
    for event in events:
        columns = kinds.setdefault(event.type, [set() for _ in event.args])
        if len(columns) != len(event.args):
            odd.add(event.type)
            continue
        for column, value in zip(columns, event.args, strict=True):
            if value is not None:
                column.add(_NAMES.get(type(value).__name__, "any"))
    return {
        name: tuple(next(iter(kinds)) if len(kinds) == 1 else "any" for kinds in columns)
        for name, columns in kinds.items()
        if name not in odd
    }


_NAMES = {"int": "int", "float": "float", "bool": "bool", "str": "string", "Iri": "iri"}
