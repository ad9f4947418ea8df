"""Nodes of the plan: what every operator says of the goal that it becomes, and how passes ask it.

A node is shared by all rules that need it; its columns have canonical names (`v0`, `v1`, ...), so that equal
sub-patterns are equal nodes. Each operator has a class of them in `cep/operators/`: a frozen dataclass whose
`NodeProperties` the passes fold over, none of them naming an operator.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Self

from cep.plan.properties import WithProperties
from cep.rules.pattern_text import Text
from cep.rules.terms import Condition

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.horizon import Horizon
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference

PartColumn = tuple[int, int]
"""A part of a node, counted from 0, and a column of it."""

PART_FIELDS = ("left", "right", "absent", "child")
"""The fields of nodes that hold the numbers of other nodes, in the order of their inputs."""


class Meeting(Enum):
    """How what a goal reads must lie in one bucket for it to run there. `cep plan` counts goals in this order."""

    PAIRS = "occurrences of the first two parts are paired; what a third has forbids pairs"
    AGAINST = "the first part's occurrences stand unless the second has one that joins"
    GROUPS = "the occurrences of a group together"
    EITHER = "the occurrences of all parts, as they come"
    SAME = "each occurrence by itself"


class Lasting(Enum):
    """How long what a node gives is known to last."""

    AS_LONGEST = "as its part, the longest where it has several"
    AS_SHORTEST = "as the shorter of its two parts"
    TOUCHING = "an instant if both parts are, else more"
    MORE = "of several, one after the other"


@dataclass(frozen=True, slots=True)
class NodeProperties:
    """The properties of a node, for passes.

    word: the operator as written
    kind: the category in `cep plan`; None for a leaf, which is not shown
    remembers: the goal has state that does not depend on time alone

    Columns and places (columns of parts):

    shows: for each column, the places that it shows unchanged; the first is its origin
    looks: further places that the goal reads
    equal: places of two parts that are equal in every result
    negated: the part that must be absent
    forbids: places of that part, each with the column of the node that it is compared with
    groups: the places to group by; of the columns that show a part's key only these decide the bucket
    by: the program names these places after BY
    conditions: decided here, over the node's columns
    binds: the columns that the conditions bind

    Time:

    earlier: parts of which only occurrences that ended strictly before are used
    completes: the parts that determine the order in which results arrive
    waits: the parts whose occurrences wait
    lasting, within: how long they wait, and the WITHIN that limits it
    delay: the least number of half microseconds by which results are later than their parts; 1 is just after

    Splitting and recursion:

    meeting: which occurrences must be in the same bucket
    changing: places that describe a change of a tuple; all changes of one tuple must be in the same bucket
    multiplies: one occurrence may produce several that arrive together
    needs_instant: how messages call a node that produces nothing at an instant before it has all of it, so that it
        cannot depend on itself there
    selects: results are occurrences of its part, unchanged
    distinct: no result occurs twice
    guessed: the goal can undo speculative steps, at a cost in proportion to what they touched
    settles: results are the extents of a fluent's formulas, so that cycles of formulas pass through this node
    keeps_equal: parts of whose equal occurrences each has a result of its own, which carries its number
    uncounted: parts whose equal occurrences produce equal results and nothing else, so that it matters how many there
        are only if somebody counts the results
    constituents: parts whose constituents are those of a result; a result of a node without any is one constituent
    """

    word: str
    kind: str | None = None
    remembers: bool = False
    event: str | None = None
    shows: tuple[tuple[PartColumn, ...], ...] = ()
    looks: tuple[PartColumn, ...] = ()
    equal: tuple[tuple[PartColumn, PartColumn], ...] = ()
    negated: int | None = None
    forbids: tuple[tuple[PartColumn, int], ...] = ()
    groups: tuple[PartColumn, ...] = ()
    by: bool = False
    conditions: tuple[Condition, ...] = ()
    binds: tuple[str, ...] = ()
    earlier: tuple[int, ...] = ()
    completes: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    lasting: Lasting = Lasting.AS_LONGEST
    within: int | None = None
    meeting: Meeting = Meeting.SAME
    changing: tuple[PartColumn, ...] = ()
    multiplies: bool = False
    needs_instant: str | None = None
    selects: bool = False
    settles: bool = False
    delay: int = 0
    distinct: bool = False
    guessed: bool = False
    keeps_equal: tuple[int, ...] = ()
    uncounted: tuple[int, ...] = ()
    constituents: tuple[int, ...] = ()


class Node(WithProperties[NodeProperties]):
    """A node of some operator: a frozen dataclass.

    The names of the classes and of their fields are part of what a goal's state is kept under (`cep.plan.identity`).
    """

    __slots__ = ("_parts",)
    _parts: tuple[int, ...]

    @property
    def parts(self) -> tuple[int, ...]:
        """The numbers of the nodes that it reads, in the order of its inputs."""
        try:
            return self._parts
        except AttributeError:
            found = (getattr(self, name) for name in PART_FIELDS if hasattr(self, name))
            object.__setattr__(self, "_parts", tuple(number for number in found if number is not None))
            return self._parts

    def moved(self, place: Mapping[int, int]) -> Self:
        """The node where those that it reads have other numbers."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name in PART_FIELDS}  # type: ignore[arg-type]
        numbers = {name: None if number is None else place[number] for name, number in own.items()}
        return replace(self, **numbers)  # type: ignore[type-var]

    @abstractmethod
    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        """The types of its columns, from those of its parts; its mistakes go to `inference`."""

    def takes(self) -> tuple[int, ...]:
        """The arguments of its event that its columns are."""
        return ()

    def picks(self) -> bool:
        """Return True if it gives only some occurrences of its event."""
        return False

    def asked_first(self) -> bool:
        """Return True if its conditions are asked before one of several partners is chosen."""
        return True

    def spends(self) -> tuple[int, ...]:
        """The parts where what it makes does not surely find the same partner again."""
        return ()

    def undivided(self, part: int, text: str) -> str | None:
        """Say why a part may not be in every bucket while the other is dealt out; None: it may. `text`: the node's."""
        return None

    def once(self) -> bool:
        """Return True if it has the one occurrence that time alone makes."""
        return False

    def unending(self) -> bool:
        """Return True if time alone makes something of it for ever."""
        return False

    def going_on(self) -> str | None:
        """Return what to write where nothing of its negated part may be going on either."""
        return None

    def after(self, texts: Sequence[str]) -> str | None:
        """Return how a rule writes what time alone makes of an occurrence with these texts for its columns; None: as
        the node is written."""
        return None

    def timed(self) -> bool:
        """Return True if time alone changes what it gives as a formula."""
        return False

    def looks_ahead(self) -> bool:
        """Return True if it asks what holds later."""
        return False

    def one_at_once(self) -> bool:
        """Return True if it gives at most one occurrence for an instant and group."""
        return False

    def instants(self, parts: Sequence[bool]) -> bool:
        """Return True if all results are instants, given which parts have only instants."""
        return all(parts)

    def horizon(self, parts: Sequence[bool]) -> Horizon | None:
        """Return how long it remembers, given which parts have only instants; None: it remembers nothing."""
        return None

    def memory(self, types: Sequence[str]) -> int | None:
        """How long after its end, in microseconds, a row has a part in what is given, whatever was given before; None:
        for as long as something follows. `types`: of its columns."""
        return None

    def window(self) -> int | None:
        """The length of the windows that its results are of, in microseconds; None: it has none of a length."""
        return None

    def by_order(self, types: Sequence[str]) -> bool:
        """Return True if results depend on the order of simultaneous occurrences. `types`: of its columns."""
        return False

    def refused(self, parts: Sequence[bool]) -> tuple[str, str] | None:
        """Return an error and a hint if the node is invalid, given which parts have only instants."""
        return None

    def unbounded(self) -> tuple[str, str] | None:
        """That it keeps something for ever, in words, and what to write instead; None: see its horizon."""
        return None

    def known_at_end(self) -> tuple[str, str] | None:
        """Say why it is known only at the end of the input, and what to write instead."""
        return None

    def impossible(self, parts: Sequence[bool]) -> tuple[int, str, str] | None:
        """The part whose instants can have no place in it, why, and what to write instead."""
        return None

    @abstractmethod
    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        """The node as it is written over its parts, which are `sides`."""

    def under(self, rendering: Rendering, names: Sequence[str]) -> Text:
        """A leaf as it is written, with its columns under these names."""
        return self.text(rendering, 0, ())

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        """Return pairs of a label and a text for `cep plan`."""
        return []

    @abstractmethod
    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        """Its goal. `builder`: a `cep.operators.build.GoalBuilder`."""


class FormulaNode(Node):
    """A node of a formula. Its rows are changes of tuples, which are instants."""

    __slots__ = ()

    def instants(self, parts: Sequence[bool]) -> bool:
        return True
