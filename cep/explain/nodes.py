"""The parts of an explanation: occurrences and the rules that derived them, intervals of fluents, and formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.core.errors import Span
from cep.explain.formulas import When
from cep.explain.judging import Judged, TypedValue
from cep.explain.occurrences import Occurrence
from cep.plan.algebra import Rule
from cep.plan.pattern import Pattern


@dataclass(frozen=True, slots=True)
class Turn:
    """The time in microseconds when a fluent began or ended. The reason is `how`, which has one of these values:

    - rule: rules derived the transitions in `nodes`.
    - initially: the fluent held from before all time, because of `nodes`.
    - other: `nodes` initiated another value of the fluent.
    - deadline: a deadline passed. It had started, or was last renewed, at `since`. `deadline` is its statement.
    - forgotten: the transitions are not remembered. `nodes` are the records from which the fluent was derived.
    """

    time: int
    how: str
    nodes: tuple[DerivationNode, ...] = ()
    deadline: Span | None = None
    since: int = 0


@dataclass(frozen=True, slots=True)
class FormulaNode:
    """A formula, its intervals near the requested time, and its parts.

    - `negated`: True if the formula must not hold.
    - `rule`: the rule whose whole body is the formula, or None.
    """

    pattern: Pattern
    bound: Mapping[str, TypedValue]
    when: When
    negated: bool = False
    rule: Rule | None = None
    judged: tuple[Judged, ...] = ()
    parts: tuple[FormulaNode | DerivationNode, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class LiteralNode:
    """A literal of a rule's body, the values of its variables, and the atoms that make it true.

    `negated`: True if the literal is true because no such atom exists.
    """

    text: str
    negated: bool = False
    parts: tuple[DerivationNode, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class AnswerNode:
    """The rule that derived an atom of an answer stream. `time`: the beginning of the tick at which the atom is true,
    in microseconds."""

    time: int
    span: Span
    bound: Mapping[str, TypedValue]
    literals: tuple[LiteralNode, ...] = ()
    judged: tuple[Judged, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerRefusal:
    """The reason why the rule at `span` does not derive an atom at a tick, by `kind`:

    - head: the rule derives other atoms.
    - missing: the literal `text` is not true.
    - denied: a negated literal fails, because the atoms `against` are true.
    - condition: the conditions `lacking` are false.
    - none: this tick has no answer stream.

    `parts`: the atoms that make the rule's other literals true. `forbidden`: the constraints that would be violated if
    the atom were true and the atoms in `against` were false.
    """

    kind: str
    span: Span
    bound: Mapping[str, TypedValue]
    text: str = ""
    parts: tuple[Occurrence, ...] = ()
    judged: tuple[Judged, ...] = ()
    against: tuple[Occurrence, ...] = ()
    lacking: tuple[Judged, ...] = ()
    forbidden: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class DerivationNode:
    """An occurrence, the rule that derived it, the values of the rule's variables, and the constituents.

    - `rule`: None for an input record, and for an occurrence whose constituents are no longer remembered.
    - `also`: the other rules that derived the same occurrence.
    - `chain`: the earlier occurrences of the same event that this occurrence continues, latest first.
    - `again`: True if the occurrence is already in another place of the tree, where its constituents are shown.
    - `left_out`: the number of constituents that are not in the tree.

    For a fluent:

    - `began`, `ended`: the times and reasons of its beginning and end.
    - `deadline`: the time in microseconds at which it ends if nothing else happens.
    - `formulas`: the formulas that define it and hold in the interval.
    - `answer`: the rule that derived an atom, if a solver derived it.
    """

    occurrence: Occurrence
    record: bool
    rule: Rule | None = None
    bound: Mapping[str, TypedValue] | None = None
    judged: tuple[Judged, ...] = ()
    silent: tuple[tuple[Pattern, int], ...] = ()
    parts: tuple[DerivationNode, ...] = ()
    chain: tuple[DerivationNode, ...] = ()
    again: bool = False
    left_out: int = 0
    also: tuple[Rule, ...] = ()
    began: Turn | None = None
    ended: Turn | None = None
    deadline: tuple[int, Span | None] | None = None
    formulas: tuple[FormulaNode, ...] = ()
    answer: AnswerNode | None = None
