"""Fluents, which hold in intervals: their tables, and the meaning of the rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from cep.core.time import BEGINNING as BEFORE_TIME
from cep.core.time import END_OF_TIME

SINCE_EVER = BEFORE_TIME + 1
"""The start of an interval that began before the earliest time."""

FOREVER = END_OF_TIME
"""The delay, in microseconds, of results that are known only at the end of the input."""

RECORDS_OF, TIMES_OF, TRANSITIONS_OF = "records of ", "times of ", "transitions of "
"""Prefixes of a fluent's tables: input records, beginnings and ends, and transitions that rules derive."""

RECORDED = " recorded"
"""The suffix of a fluent's name for its input records, if formulas define the fluent, too."""

LASTS = "what lasts in "
"""The prefix of a name. If `f` is defined with LASTING, the auxiliary fluent `what lasts in f` is the operand of
LASTING."""

UNCONSTRAINED = " before constraints"
"""The suffix of a fluent's name before LARS constraints are applied."""

AT_TICKS = " at"
"""The suffix of a predicate's name for the atoms that LARS derives at ticks. The last argument is the tick."""

FIRST_TICK, TICK_NOW = "first tick", "tick now"
"""Auxiliary fluents of LARS, with a tick as argument.

FIRST_TICK holds from the stream's first tick on, with that tick. TICK_NOW holds at each tick, with the current one.
"""

INCONSISTENT = "answer streams"
"""The fluent that holds at ticks at which a LARS program has no answer stream. Its argument is their number, 0."""

OWN_END = -3
"""The matrix row with the ends of records in a table of records, as a negative index. Two rows follow: bounds and
starts."""

HOLDS, TRANSITIONS, EDGES, CHANGES, RECORDS = "holds", "transitions", "edges", "changes", "records"

EDGE = "@edge"
"""The column with the word `begins` or `ends` in changes of a fluent."""

INITIATED, TERMINATED, ENDED_ALL = range(3)
"""Effects of a transition: it initiates a value, terminates one, or terminates whatever holds."""

BEGINS, ENDS, WHOLE, HELD, BEFORE = range(5)
"""Kinds of changes.

BEGINS is a beginning, ENDS an end, and WHOLE a whole maximal interval. HELD is the end of an interval that began before
the earliest time. BEFORE reports, at the first step, that the fluent began to hold earlier.

BEGINS and ENDS take effect just after the instant.
"""
BEGINS_AT, ENDS_AT, BEGINNING, ENDING = range(5, 9)
"""Kinds of changes of fluents that formulas define: BEGINS_AT and ENDS_AT take effect at the instant itself.

BEGINNING and ENDING are the instants of beginnings and ends, as occurrences that patterns match. They do not tell
whether the change takes effect at the instant or just after it.
"""
GIVEN = 9
"""The kind of a maximal interval for output. Its bounds (`BOUNDS`) are in the column of the arrival order."""
KINDS = GIVEN + 1
BOUNDS = ("()", "[)", "(]", "[]")
"""The brackets of an interval by its bounds: 1 if the start belongs to it, plus 2 if the end does."""


def author_name(table: str) -> str:
    """Return the author's name for a table: `warm` for `times of warm`. The name of an event is unchanged."""
    name = table
    for prefix in (RECORDS_OF, TIMES_OF, TRANSITIONS_OF, LASTS):
        name = name.removeprefix(prefix)
    for suffix in (RECORDED, UNCONSTRAINED):
        name = name.removesuffix(suffix)
    return name if name == table else author_name(name)


def beside(column: str, attributes: Collection[str]) -> str:
    """Return a name for an additional column of a fluent's table: `column`, with an apostrophe if an attribute has that
    name."""
    return f"{column}'" if column in attributes else column


@dataclass(frozen=True, slots=True)
class FluentTable:
    """The kind of a fluent's table.

    `part` names the contents. HOLDS: maximal intervals; TRANSITIONS: transitions that its rules derive; EDGES:
    beginnings and ends; CHANGES: beginnings and ends in the form of the output; RECORDS: input records. `name`: the
    fluent. `valued`: its last attribute is its value. `defined`: formulas or records define it, so each interval has
    its own bounds. `late`: the delay, in microseconds, after which all rows up to a time are known. `final`: an
    interval of a record without an end lasts for ever, and no later record closes it.
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
"""Additional columns of a fluent's record: the end (null: it still holds), which ends belong to the interval, and the
start.

The time of a record is normally the start of its interval. A record that closes an earlier one has the end as its time,
and RECORD_START contains the start of the earlier one.
"""
