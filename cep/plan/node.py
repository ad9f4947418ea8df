"""The base class of the nodes of a plan. It contains everything that passes need to know about the goal of an operator.

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
"""A column of one of a node's parts: the number of the part and the number of the column, both from 0."""

PART_FIELDS = ("left", "right", "absent", "child")
"""The fields that contain the numbers of the nodes that a node reads, in the order of the node's inputs."""


class Meeting(Enum):
    """The occurrences that must be in the same bucket if an operator's occurrences are divided into buckets.

    `cep plan` lists kinds of goals in the order of this class.
    """

    PAIRS = "occurrences of the first two parts are paired; what a third has forbids pairs"
    AGAINST = "the first part's occurrences stand unless the second has one that joins"
    GROUPS = "the occurrences of a group together"
    EITHER = "the occurrences of all parts, as they come"
    SAME = "each occurrence by itself"


class Lasting(Enum):
    """The duration of an operator's results, as far as the plan knows it."""

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

    - `shows`: for each column, the places whose values it contains unchanged; the first place is the column's
      origin
    - `looks`: further places that the goal reads
    - `equal`: pairs of places whose values are equal in every result
    - `negated`: the number of the part that must be absent
    - `forbids`: pairs of a place in the negated part and a column of the node; the goal compares both
    - `groups`: the places to group by. Only columns that contain one of them may determine the bucket
    - `by`: True if the author writes the places of `groups` after BY
    - `conditions`: the conditions that the node tests, over the node's columns

    Time:

    - `earlier`: the parts whose occurrences are used only at instants after their end
    - `completes`: the parts that determine the order in which results arrive
    - `waits`: the parts whose occurrences wait for partners
    - `lasting`: how long the results last
    - `within`: the WITHIN that limits how long the results last
    - `delay`: the least number of half microseconds between the time of a part and the time of the result. 1 means
      just after

    Splitting and recursion:

    - `meeting`: the occurrences that must be in the same bucket
    - `changing`: places that describe a change of a tuple; all changes of a tuple must be in the same bucket
    - `multiplies`: True if an occurrence may produce several results that arrive together
    - `needs_instant`: the node's name in messages, if the node must read all input of an instant before it can
      have a result at this instant. Such a node cannot depend on itself at that instant. None for other nodes
    - `selects`: True if results are occurrences of the node's part, unchanged
    - `distinct`: True if no result occurs twice
    - `guessed`: True if the goal can undo speculative steps, at a cost proportional to the state that they changed
    - `keeps_equal`: the parts whose equal occurrences have separate results. Equal occurrences are numbered, and a
      result gets the number of its occurrence
    - `uncounted`: the parts whose equal occurrences produce only equal results. The number of such occurrences
      matters only if the results are counted
    - `constituents`: the parts whose constituents become constituents of the results. If there are none, each
      result is its own constituent
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

    The names of a subclass and of its fields are part of a goal's fingerprint. The goal's stored state is found by this
    fingerprint (see `cep.plan.identity`).
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
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name in PART_FIELDS}  # type: ignore[arg-type]
        numbers = {name: None if number is None else place[number] for name, number in own.items()}
        return replace(self, **numbers)  # type: ignore[type-var]

    @abstractmethod
    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        """Return the types of the node's columns, computed from the types of its parts. Report errors to
        `inference`."""

    def takes(self) -> tuple[int, ...]:
        """For a leaf, return the positions of the event's arguments that the node's columns contain."""
        return ()

    def picks(self) -> bool:
        """For a leaf, return True if the node passes on only some occurrences of its event."""
        return False

    def answered(self) -> tuple[str, ...]:
        """Return the variables that the node's conditions bind. They are its last columns."""
        return ()

    def settles(self) -> bool:
        """Return True if the node evaluates formulas that define a fluent."""
        return False

    def asked_first(self) -> bool:
        """Return True if the node checks its conditions before its policy chooses among several partners."""
        return True

    def spends(self) -> tuple[int, ...]:
        """Return the parts through which a recursion cannot continue without end.

        If the node's results become input of such a part again, each of them can pair with the same partner only a
        limited number of times.
        """
        return ()

    def undivided(self, part: int, text: str) -> str | None:
        """Explain why the part number `part` cannot be in every bucket while the occurrences of the other part are
        divided among the buckets. Return None if this is possible. `text`: the node's source text."""
        return None

    def once(self) -> bool:
        """Return True if the node produces exactly one occurrence, at a time that does not depend on the input."""
        return False

    def unending(self) -> bool:
        """Return True if the node can produce results without end as time passes, although no input arrives."""
        return False

    def going_on(self) -> str | None:
        """Return a hint that tells authors how to also exclude occurrences of the negated part that have begun but not
        ended.

        Return None if there is no hint.
        """
        return None

    def after(self, texts: Sequence[str]) -> str | None:
        """Return the part of the rule's text that describes results which the passing of time causes. An example is
        `ENDS AFTER 5 min`. Return None if the node's other results have the same text.

        `texts`: the texts of the node's columns.
        """
        return None

    def timed(self) -> bool:
        """Return True if the node is a formula whose value can change although no input arrives."""
        return False

    def looks_ahead(self) -> bool:
        """Return True if the node's results at a time depend on later input."""
        return False

    def one_at_once(self) -> bool:
        """Return True if the node produces at most one occurrence per instant. False if the node groups by columns."""
        return False

    def instants(self, parts: Sequence[bool]) -> bool:
        """Return True if all results are instants. `parts`: for each part, True if all its occurrences are instants."""
        return all(parts)

    def horizon(self, parts: Sequence[bool]) -> Horizon | None:
        """Return the conditions under which the node forgets an occurrence. Return None if it remembers nothing.

        `parts`: for each part, True if all its occurrences are instants.
        """
        return None

    def memory(self, types: Sequence[str]) -> int | None:
        """Return how long after its end an input row can still affect results, in microseconds. Return None if it can
        affect them for ever.

        The limit must not depend on earlier results. `types`: the types of the node's columns.
        """
        return None

    def window(self) -> int | None:
        """Return the length in microseconds of the windows that produce the node's results. Return None if the node has
        no windows of a fixed length."""
        return None

    def by_order(self, types: Sequence[str]) -> bool:
        """Return True if results depend on the order of occurrences that have the same time. `types`: the types of the
        node's columns."""
        return False

    def refused(self, parts: Sequence[bool]) -> tuple[str, str] | None:
        """Return an error message and a hint if the node is invalid, otherwise None.

        `parts`: for each part, True if all its occurrences are instants.
        """
        return None

    def unbounded(self) -> tuple[str, str] | None:
        """Explain why the node must keep its state for ever, and what to write instead. Return None if the node's
        `horizon` says when it forgets."""
        return None

    def known_at_end(self) -> tuple[str, str] | None:
        """Explain why the node's results are known only at the end of the input, and what to write instead. Return None
        if they are known earlier."""
        return None

    def impossible(self, parts: Sequence[bool]) -> tuple[int, str, str] | None:
        """Return the part that can never match because its occurrences are instants, the reason, and what to write
        instead. Return None if there is no such part.

        `parts`: for each part, True if all its occurrences are instants.
        """
        return None

    @abstractmethod
    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        """Return the node's text as a rule writes it. `sides`: the texts of its parts."""

    def under(self, rendering: Rendering, names: Sequence[str]) -> Text:
        """Return the text of a node that reads no other nodes. `names`: the names of its columns."""
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
