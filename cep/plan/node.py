"""Nodes of the plan: the base class with everything that passes may ask of an operator's goal.

A node is shared by all rules that need it. Its columns have canonical names (`v0`, `v1`, ...), so that equal
sub-patterns are equal nodes. Each operator has its own subclass in `cep/operators/`, a frozen dataclass. Passes read
its `NodeProperties` and name no operator.
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
"""A part of a node, counted from 0, and one of that part's columns."""

PART_FIELDS = ("left", "right", "absent", "child")
"""The fields of nodes that hold the numbers of other nodes, in the order of their inputs."""


class Meeting(Enum):
    """Which occurrences must share a bucket so that a goal can run there. `cep plan` lists kinds of goals in this
    order."""

    PAIRS = "occurrences of the first two parts are paired; what a third has forbids pairs"
    AGAINST = "the first part's occurrences stand unless the second has one that joins"
    GROUPS = "the occurrences of a group together"
    EITHER = "the occurrences of all parts, as they come"
    SAME = "each occurrence by itself"


class Lasting(Enum):
    """How long the results of a goal last, as far as the plan knows."""

    AS_LONGEST = "as its part, the longest where it has several"
    AS_SHORTEST = "as the shorter of its two parts"
    TOUCHING = "an instant if both parts are, else more"
    MORE = "of several, one after the other"


@dataclass(frozen=True, slots=True)
class NodeProperties:
    """The properties of a node, for passes.

    - `word`: the operator as written
    - `kind`: the category in `cep plan`; None for a leaf, which is not shown
    - `remembers`: the goal has state that does not depend on time alone

    Columns and places (columns of parts):

    - `shows`: for each column, the places whose values it contains unchanged; the first is its origin
    - `looks`: further places that the goal reads
    - `equal`: pairs of places whose values are equal in every result
    - `negated`: the part that must be absent
    - `forbids`: places of the negated part, each with the column of the node that it is compared with
    - `groups`: the places to group by; the bucket may only depend on columns that contain one of these places
    - `by`: the program writes these places after BY
    - `conditions`: the conditions that the node tests, over its columns

    Time:

    - `earlier`: parts whose occurrences are used only at instants after their end
    - `completes`: the parts that determine the order in which results arrive
    - `waits`: the parts whose occurrences wait for partners
    - `lasting`: how long the results last
    - `within`: the WITHIN that limits how long the results last
    - `delay`: the least number of half microseconds by which results are later than their parts; 1 is just after

    Splitting and recursion:

    - `meeting`: which occurrences must be in the same bucket
    - `changing`: places that describe a change of a tuple; all changes of a tuple must be in the same bucket
    - `multiplies`: an occurrence may produce several results that arrive together
    - `needs_instant`: the node's name in messages, if it reads all input of an instant before it produces anything
      there. Such a node cannot depend on itself at that instant. None for other nodes
    - `selects`: results are occurrences of the node's part, unchanged
    - `distinct`: no result occurs twice
    - `guessed`: the goal can undo speculative steps, at a cost proportional to the state that they changed
    - `keeps_equal`: parts whose equal occurrences have separate results, each with the number of its occurrence
    - `uncounted`: parts whose equal occurrences produce only equal results, so their number matters only if the
      results are counted
    - `constituents`: parts that pass their constituents on to the results; without such parts, each result is its own
      constituent
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
    delay: int = 0
    distinct: bool = False
    guessed: bool = False
    keeps_equal: tuple[int, ...] = ()
    uncounted: tuple[int, ...] = ()
    constituents: tuple[int, ...] = ()


class Node(WithProperties[NodeProperties]):
    """The base class of nodes. Subclasses are frozen dataclasses.

    The names of the classes and their fields are part of a goal's fingerprint, by which its state is stored
    (`cep.plan.identity`).
    """

    __slots__ = ("_parts",)
    _parts: tuple[int, ...]

    @property
    def parts(self) -> tuple[int, ...]:
        """Return the numbers of the nodes that it reads, in the order of its inputs."""
        try:
            return self._parts
        except AttributeError:
            numbers = (getattr(self, name) for name in PART_FIELDS if hasattr(self, name))
            object.__setattr__(self, "_parts", tuple(number for number in numbers if number is not None))
            return self._parts

    def moved(self, place: Mapping[int, int]) -> Self:
        """Return the node with other numbers for the nodes that it reads."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name in PART_FIELDS}  # type: ignore[arg-type]
        numbers = {name: None if number is None else place[number] for name, number in own.items()}
        return replace(self, **numbers)  # type: ignore[type-var]

    @abstractmethod
    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        """Return the types of its columns, computed from those of its parts. Errors are reported to `inference`."""

    def takes(self) -> tuple[int, ...]:
        """Return the positions of the event's arguments that its columns contain."""
        return ()

    def picks(self) -> bool:
        """Return True if it passes on only some occurrences of its event."""
        return False

    def answered(self) -> tuple[str, ...]:
        """Return the variables that its conditions bind, which are its last columns."""
        return ()

    def settles(self) -> bool:
        """Return True if its results are the extent of a fluent that formulas define. A cycle through it is then a
        cycle of formulas."""
        return False

    def asked_first(self) -> bool:
        """Return True if its conditions are checked before one of several partners is chosen."""
        return True

    def spends(self) -> tuple[int, ...]:
        """Return the parts where the recursion may stop: a result that is fed back there does not always find the same
        partner again."""
        return ()

    def undivided(self, part: int, text: str) -> str | None:
        """Explain why one part cannot be in every bucket while the other is partitioned. None if it can. `text`: the
        node's source."""
        return None

    def once(self) -> bool:
        """Return True if it produces a single occurrence, at a fixed time and whatever the input is."""
        return False

    def unending(self) -> bool:
        """Return True if the passage of time alone produces results for ever."""
        return False

    def going_on(self) -> str | None:
        """Return what the author must write so that occurrences of the negated part that merely continue are excluded,
        too."""
        return None

    def after(self, texts: Sequence[str]) -> str | None:
        """Return the rule text of the results that the passage of time produces, or None if it is the node's own text.

        `texts`: the texts of the node's columns.
        """
        return None

    def timed(self) -> bool:
        """Return True if it is a formula whose results can change although no input arrives."""
        return False

    def looks_ahead(self) -> bool:
        """Return True if it depends on what holds later."""
        return False

    def one_at_once(self) -> bool:
        """Return True if it produces at most one occurrence per instant and group."""
        return False

    def instants(self, parts: Sequence[bool]) -> bool:
        """Return True if all results are instants, given which parts have only instants."""
        return all(parts)

    def horizon(self, parts: Sequence[bool]) -> Horizon | None:
        """Return how long it remembers, given which parts have only instants; None if it remembers nothing."""
        return None

    def memory(self, types: Sequence[str]) -> int | None:
        """Return how long after its end, in microseconds, a row can still affect results. None if there is no limit.

        The limit must hold whatever the earlier results were. `types`: the types of the node's columns.
        """
        return None

    def window(self) -> int | None:
        """Return the length in microseconds of the windows that produce its results, or None if they have no fixed
        length."""
        return None

    def by_order(self, types: Sequence[str]) -> bool:
        """Return True if results depend on the order of simultaneous occurrences. `types`: the types of the node's
        columns."""
        return False

    def refused(self, parts: Sequence[bool]) -> tuple[str, str] | None:
        """Return an error and a hint if the node is invalid, given which parts have only instants."""
        return None

    def unbounded(self) -> tuple[str, str] | None:
        """Explain that it keeps something for ever, and what to write instead. None: its horizon shows whether it
        forgets."""
        return None

    def known_at_end(self) -> tuple[str, str] | None:
        """Explain why its results are known only at the end of the input, and what to write instead."""
        return None

    def impossible(self, parts: Sequence[bool]) -> tuple[int, str, str] | None:
        """Return the part whose instants can never match, the reason, and what to write instead."""
        return None

    @abstractmethod
    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        """Return the node's text, given the texts of its parts (`sides`)."""

    def under(self, rendering: Rendering, names: Sequence[str]) -> Text:
        """Return the text of a leaf, with these names for its columns."""
        return self.text(rendering, 0, ())

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        """Return pairs of a label and a text for `cep plan`."""
        return []

    @abstractmethod
    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        """Create its goal. `builder`: a `cep.operators.build.GoalBuilder`."""


class FormulaNode(Node):
    """The base class of formula nodes. Their rows are changes of tuples, which are instants."""

    __slots__ = ()

    def instants(self, parts: Sequence[bool]) -> bool:
        return True
