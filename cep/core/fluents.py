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
"""Effects of a transition: it initiates a value, terminates one, or terminates whatever holds."""

BEGINS, ENDS, WHOLE, HELD, BEFORE = range(5)
"""Kinds of changes: a beginning; an end; a whole maximal interval; the end of one that held from before all time; and,
at the first step, that it holds from before all time.

BEGINS and ENDS take effect just after the instant.
"""
BEGINS_AT, ENDS_AT, BEGINNING, ENDING = range(5, 9)
"""Kinds of changes of fluents that formulas define: it holds, or stops holding, from the instant itself. BEGINNING and
ENDING are the instants as occurrences in patterns, whichever kind they are."""
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
    """The contents of a fluent's table.

    `part`: its maximal intervals (HOLDS), the transitions that its rules derive (TRANSITIONS), its beginnings and ends
    (EDGES), the same as written (CHANGES), or its input records (RECORDS). `name`: the fluent; `valued`: its last
    attribute is its value. `defined`: formulas define it, or it is read from records, so that intervals have bounds of
    their own. `late`: how many microseconds after an end all rows of its tables are known. `final`: for records, one
    without an end holds for good, and no later one closes it.
    """

    part: str
    name: str
    valued: bool
    defined: bool = False
    late: int = 0
    final: bool | None = field(default=None, metadata={"later": True})

    @property
    def of_formulas(self) -> bool:
        """True if the rules of the table are formulas."""
        return self.part == TRANSITIONS and self.defined


RECORD_COLUMNS = ("start", "end", "bounds")
"""The default columns of a fluent's records."""
RECORD_END, RECORD_BOUNDS, RECORD_START = "@end", "@bounds", "@start"
"""Further columns of a fluent's record, which counts by its start: the end (null: it still holds), and which ends
belong to it. A record that closes an earlier one counts by its end, and has the start of that one."""
