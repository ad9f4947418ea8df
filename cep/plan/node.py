"""Nodes of the plan. This module has their base class, with everything that passes need to know about an operator's
goal.

A node is shared by all rules that need it. Its columns have canonical names (`v0`, `v1`, ...), so that equal
sub-patterns are equal nodes. Each operator has its own subclass in `cep/operators/`, a frozen dataclass. Passes read a
node's `NodeProperties` and name no operator.
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
"""A column of a node's part: the number of the part, from 0, and the number of the column."""

PART_FIELDS = ("left", "right", "absent", "child")
"""The fields that contain the numbers of the nodes that a node reads, in the order of the node's inputs."""


class Meeting(Enum):
    """The occurrences that must be in the same bucket so that a goal can run there.

    `cep plan` lists kinds of goals in this order.
    """

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
    """The properties of a node, for passes. A "place" is a column of one of the node's parts (`PartColumn`).

    - `word`: the operator as the author writes it
    - `kind`: the category in `cep plan`; None for a leaf, which is not shown
    - `remembers`: True if the goal has state that does not depend on time alone

    Columns:

    - `shows`: for each column, the places whose values it contains unchanged; the first is its origin
    - `looks`: further places that the goal reads
    - `equal`: pairs of places whose values are equal in every result
    - `negated`: the number of the part that must be absent
    - `forbids`: places of the negated part, each with the node's column that it is compared with
    - `groups`: the places to group by. Only columns that contain one of them may choose the bucket
    - `by`: True if the program writes these places after BY
    - `conditions`: the conditions that the node tests, over the node's columns

    Time:

    - `earlier`: the parts whose occurrences are used only at instants after their end
    - `completes`: the parts that determine the order in which results arrive
    - `waits`: the parts whose occurrences wait for partners
    - `lasting`: how long the results last
    - `within`: the WITHIN that limits how long the results last
    - `delay`: the least number of half microseconds by which results are later than the parts; 1 means just after

    Splitting and recursion:

    - `meeting`: the occurrences that must be in the same bucket
    - `changing`: places that describe a change of a tuple; all changes of a tuple must be in the same bucket
    - `multiplies`: True if an occurrence may produce several results that arrive together
    - `needs_instant`: the node's name in messages, if it reads all input of an instant before it produces anything
      there. Such a node cannot depend on itself at that instant. None for other nodes
    - `selects`: True if results are occurrences of the node's part, unchanged
    - `distinct`: True if no result occurs twice
    - `guessed`: True if the goal can undo speculative steps, at a cost proportional to the state that they changed
    - `keeps_equal`: the parts whose equal occurrences have separate results, each with the number of its occurrence
    - `uncounted`: the parts whose equal occurrences produce only equal results, so that their number matters only if
      the results are counted
    - `constituents`: the parts whose constituents become constituents of the results. If there are none, each result is
      its own constituent
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

    The names of a subclass and of its fields are part of a goal's fingerprint, by which the goal's state is stored
    (`cep.plan.identity`).
    """

    __slots__ = ("_parts",)
    _parts: tuple[int, ...]

    @property
    def parts(self) -> tuple[int, ...]:
        """The numbers of the nodes that this node reads, in the order of its inputs."""
        try:
            return self._parts
        except AttributeError:
            numbers = (getattr(self, name) for name in PART_FIELDS if hasattr(self, name))
            object.__setattr__(self, "_parts", tuple(number for number in numbers if number is not None))
            return self._parts

    def moved(self, place: Mapping[int, int]) -> Self:
        """Return the node with new numbers of the nodes that it reads. `place`: the new number of each node."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name in PART_FIELDS}  # type: ignore[arg-type]
        numbers = {name: None if number is None else place[number] for name, number in own.items()}
        return replace(self, **numbers)  # type: ignore[type-var]

    @abstractmethod
    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        """Return the types of the node's columns, computed from the types of its parts. Report errors to
        `inference`."""

    def takes(self) -> tuple[int, ...]:
        """Return the positions of the event's arguments that the node's columns contain."""
        return ()

    def picks(self) -> bool:
        """Return True if the node passes on only some occurrences of its event."""
        return False

    def answered(self) -> tuple[str, ...]:
        """Return the variables that the node's conditions bind. They are its last columns."""
        return ()

    def settles(self) -> bool:
        """Return True if the node computes when a fluent holds that formulas define. Its cycles are then cycles of
        formulas."""
        return False

    def asked_first(self) -> bool:
        """Return True if the node's conditions are checked before one of several partners is chosen."""
        return True

    def spends(self) -> tuple[int, ...]:
        """Return the parts through which a recursion may come to an end.

        A result that is fed back into such a part does not always find the same partner again.
        """
        return ()

    def undivided(self, part: int, text: str) -> str | None:
        """Explain why one part cannot be in every bucket while the other part is partitioned. Return None if it can.

        `text`: the node's source.
        """
        return None

    def once(self) -> bool:
        """Return True if the node produces a single occurrence, at a fixed time that does not depend on the input."""
        return False

    def unending(self) -> bool:
        """Return True if the node produces results for ever by the passage of time alone."""
        return False

    def going_on(self) -> str | None:
        """Return a hint that tells authors how to exclude occurrences of the negated part that are still in progress.

        Return None if there is no hint.
        """
        return None

    def after(self, texts: Sequence[str]) -> str | None:
        """Return the rule text of results that the passage of time produces. Return None if it is the node's own text.

        `texts`: the texts of the node's columns.
        """
        return None

    def timed(self) -> bool:
        """Return True if the node is a formula whose results can change although no input arrives."""
        return False

    def looks_ahead(self) -> bool:
        """Return True if the node's results depend on what holds later."""
        return False

    def one_at_once(self) -> bool:
        """Return True if the node produces at most one occurrence per instant and group."""
        return False

    def instants(self, parts: Sequence[bool]) -> bool:
        """Return True if all results are instants. `parts`: for each part, True if it has only instants."""
        return all(parts)

    def horizon(self, parts: Sequence[bool]) -> Horizon | None:
        """Return how long the node remembers occurrences, or None if it remembers nothing.

        `parts`: for each part, True if it has only instants.
        """
        return None

    def memory(self, types: Sequence[str]) -> int | None:
        """Return the time after a row's end during which the row can still affect results, in microseconds. None: for
        ever.

        The limit must hold whatever the earlier results were. `types`: the types of the node's columns.
        """
        return None

    def window(self) -> int | None:
        """Return the length in microseconds of the windows that produce the node's results, or None if they have no
        fixed length."""
        return None

    def by_order(self, types: Sequence[str]) -> bool:
        """Return True if results depend on the order of simultaneous occurrences. `types`: the types of the node's
        columns."""
        return False

    def refused(self, parts: Sequence[bool]) -> tuple[str, str] | None:
        """Return an error message and a hint if the node is invalid, otherwise None.

        `parts`: for each part, True if it has only instants.
        """
        return None

    def unbounded(self) -> tuple[str, str] | None:
        """Explain why the node keeps something for ever, and what to write instead. None: the node's `horizon` decides
        this."""
        return None

    def known_at_end(self) -> tuple[str, str] | None:
        """Explain why the node's results are known only at the end of the input, and what to write instead. None: they
        are known earlier."""
        return None

    def impossible(self, parts: Sequence[bool]) -> tuple[int, str, str] | None:
        """Return the part whose instants can never match, the reason, and what to write instead. None: there is no such
        part.

        `parts`: for each part, True if it has only instants.
        """
        return None

    @abstractmethod
    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        """Return the node's text as a rule writes it. `sides`: the texts of its parts."""

    def under(self, rendering: Rendering, names: Sequence[str]) -> Text:
        """Return the text of a leaf. `names`: the names of its columns."""
        return self.text(rendering, 0, ())

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        """Return further lines about the node for `cep plan`, as pairs of a label and a text."""
        return []

    @abstractmethod
    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        """Create the goal that executes the node. `builder`: a `cep.operators.build.GoalBuilder`."""


class FormulaNode(Node):
    """The base class of formula nodes. Each row is a change of a tuple and has the instant of the change."""

    __slots__ = ()

    def instants(self, parts: Sequence[bool]) -> bool:
        return True
