"""Names of the tables of fluents, and the meaning of the tables' rows. A fluent holds in intervals of time."""

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
"""Prefixes of the names of a fluent's tables: input records, beginnings and ends, and transitions that rules derive."""

RECORDED = " recorded"
"""The suffix of an auxiliary fluent's name. If formulas define a fluent that also has input records, the auxiliary
fluent contains these records."""

LASTS = "what lasts in "
"""The prefix of an auxiliary fluent's name. If LASTING defines `f`, then `what lasts in f` is the operand of
LASTING."""

UNCONSTRAINED = " before constraints"
"""The suffix of an auxiliary fluent's name. The auxiliary fluent contains the tuples before LARS constraints are
applied."""

AT_TICKS = " at"
"""The suffix of an auxiliary predicate's name. The predicate contains the atoms that LARS derives at ticks. Its last
argument is the tick."""

FIRST_TICK, TICK_NOW = "first tick", "tick now"
"""Auxiliary fluents of LARS whose argument is a tick.

The argument of FIRST_TICK is the stream's first tick, from which on the fluent holds. The argument of TICK_NOW is the
current tick.
"""

INCONSISTENT = "answer streams"
"""The fluent that holds at each tick at which a LARS program has no answer stream. Its argument is the number of answer
streams, which is always 0."""

OWN_END = -3
"""In a table of records, the index of the matrix row that contains the ends of the records. Like all negative indices,
it counts from the last row. The next two rows contain the bounds and the starts of the records."""

HOLDS, TRANSITIONS, EDGES, CHANGES, RECORDS = "holds", "transitions", "edges", "changes", "records"

EDGE = "@edge"
"""The column that says `begins` or `ends` for each change of a fluent."""

INITIATED, TERMINATED, ENDED_ALL = range(3)
"""The effects of a transition: it initiates a value, terminates a value, or terminates every value that holds."""

BEGINS, ENDS, WHOLE, HELD, BEFORE = range(5)
"""Kinds of rows in a table of a fluent's changes.

- BEGINS: a beginning. ENDS: an end. Both take effect just after the row's time.
- WHOLE: a whole maximal interval.
- HELD: the end of an interval that began before the earliest time.
- BEFORE: reports, at the first step, that the fluent began to hold before the earliest time.
"""
BEGINS_AT, ENDS_AT, BEGINNING, ENDING = range(5, 9)
"""Kinds of changes of fluents that formulas define: BEGINS_AT and ENDS_AT take effect exactly at the row's time.

BEGINNING and ENDING are beginnings and ends as occurrences that patterns match. They do not say whether the change
takes effect at the row's time or just after it.
"""
GIVEN = 9
"""The kind of a row that reports a maximal interval in the output. The bounds of the interval are in the column for the
arrival order, as an index into BOUNDS."""
KINDS = GIVEN + 1
BOUNDS = ("()", "[)", "(]", "[]")
"""The brackets of an interval. The index is 1 if the start belongs to the interval, plus 2 if the end does."""


def author_name(table: str) -> str:
    """Return the name by which an author knows a table: `warm` for `times of warm`. Names of events stay unchanged."""
    name = table
    for prefix in (RECORDS_OF, TIMES_OF, TRANSITIONS_OF, LASTS):
        name = name.removeprefix(prefix)
    for suffix in (RECORDED, UNCONSTRAINED):
        name = name.removesuffix(suffix)
    return name if name == table else author_name(name)


def beside(column: str, attributes: Collection[str]) -> str:
    """Return a name for an additional column of a fluent's table. It is `column`, with an apostrophe if an attribute
    has that name."""
    return f"{column}'" if column in attributes else column


@dataclass(frozen=True, slots=True)
class FluentTable:
    """The kind of a fluent's table.

    - `part`: the contents of the table. HOLDS: maximal intervals; TRANSITIONS: transitions that rules derive; EDGES:
      beginnings and ends; CHANGES: beginnings and ends in their output form; RECORDS: input records.
    - `name`: the name of the fluent.
    - `valued`: True if the fluent's last attribute is its value.
    - `defined`: True if formulas or records define the fluent, so that each interval has its own bounds.
    - `late`: the delay of the table in microseconds. At watermark w, all rows up to time w - `late` are known.
    - `final`: True if the interval of a record without an end lasts for ever, and no later record closes it.
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
"""Additional columns of a fluent's record: the end (null: the fluent still holds), the bounds, and the start.

The time of a record is normally the start of its interval. A record that closes an earlier one has the end as its time,
and RECORD_START contains the start of the earlier record.
"""
