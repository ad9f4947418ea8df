"""Fluents, which hold for a time: what the tables of one have, and what their rows say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from cep.core.time import BEGINNING as BEFORE_TIME
from cep.core.time import END_OF_TIME

SINCE_EVER = BEFORE_TIME + 1
"""The start of what holds from before all times that there are."""

FOREVER = END_OF_TIME
"""How late, in microseconds, is what is known at the end of the input alone."""

RECORDS_OF, TIMES_OF, TRANSITIONS_OF = "records of ", "times of ", "transitions of "
"""The names of the tables of a fluent begin so; the fluent's follows: what comes in, when it begins and ends, and what
rules initiate and terminate."""

RECORDED = " recorded"
"""The name of the records of a fluent that formulas define ends so; the fluent's precedes."""

LASTS = "what lasts in "
"""The name of what the LASTING of a fluent asks begins so; the fluent's follows."""

UNCONSTRAINED = " before constraints"
"""The name of what a fluent is where constraints are broken, too, ends so; the fluent's precedes."""

AT_TICKS = " at"
"""The name of what LARS derives at ticks ends so; the predicate precedes, and the tick is the last argument."""

FIRST_TICK, TICK_NOW = "first tick", "tick now"
"""The fluents of the first tick of a stream of LARS, from it on, and of each tick while it is now."""

INCONSISTENT = "answer streams"
"""The fluent that holds at ticks at which a program of LARS has no answer, with their number, 0."""

OWN_END = -3
"""The row of a table of records of a fluent that has their own ends, before their bounds and starts."""

HOLDS, TRANSITIONS, EDGES, CHANGES, RECORDS = "holds", "transitions", "edges", "changes", "records"

EDGE = "@edge"
"""The column that says whether a change of a fluent is that it `begins` or `ends`."""

INITIATED, TERMINATED, ENDED_ALL = range(3)
"""What a transition does: it initiates a value, terminates one, or terminates whatever holds."""

BEGINS, ENDS, WHOLE, HELD, BEFORE = range(5)
"""What becomes of it: instants of its beginning and its end; a whole maximal interval; one that held from before all
time, when it ends; that it holds from before all time, at the first step.

Of a change BEGINS and ENDS say that it is from just after the instant on."""
BEGINS_AT, ENDS_AT, BEGINNING, ENDING = range(5, 9)
"""Of what formulas define: it holds from the instant itself on, or does not from it on; and as occurrences in patterns
the instants of a beginning and an end, whichever of the two they are."""
GIVEN = 9
"""A maximal interval as it is given: the column of the order of arrival says which ends belong to it."""
KINDS = GIVEN + 1
BOUNDS = ("()", "[)", "(]", "[]")
"""By that number: 1 where the start belongs to an interval, 2 where the end does."""


def author_name(table: str) -> str:
    """Return the name that the author knows a table by: `warm` for `times of warm`, an event's for itself."""
    name = table
    for prefix in (RECORDS_OF, TIMES_OF, TRANSITIONS_OF, LASTS):
        name = name.removeprefix(prefix)
    for suffix in (RECORDED, UNCONSTRAINED):
        name = name.removesuffix(suffix)
    return name if name == table else author_name(name)


def beside(column: str, attributes: Collection[str]) -> str:
    """The name of a column that the tables of a fluent have of their own, beside its attributes."""
    return f"{column}'" if column in attributes else column


@dataclass(frozen=True, slots=True)
class FluentTable:
    """What a table of a fluent holds. `part`: its maximal intervals (HOLDS), the transitions that its rules derive
    (TRANSITIONS), when it begins and ends (EDGES), also as that is written (CHANGES), or what comes in of it (RECORDS);
    `name`: its own; `valued`: its last attribute is its value; `defined`: formulas say when it holds, so that its
    intervals have bounds of their own; `late`: their ends, and those of all rows of its tables, are so many
    microseconds late, when they are known; `final`: of records, one without an end holds for good, and no other closes
    it.

    What comes in is as what formulas define."""

    part: str
    name: str
    valued: bool
    defined: bool = False
    late: int = 0
    final: bool | None = field(default=None, metadata={"later": True})

    @property
    def of_formulas(self) -> bool:
        """Whether the rules of the table are formulas."""
        return self.part == TRANSITIONS and self.defined


RECORD_COLUMNS = ("start", "end", "bounds")
"""What the columns of a record of a fluent are called where nothing else is said."""
RECORD_END, RECORD_BOUNDS, RECORD_START = "@end", "@bounds", "@start"
"""Of a record of a fluent, which counts by its start: the end (null: it still holds), which ends belong to it, and of
one that closes an earlier one, so that it counts by its end, the start of that."""
