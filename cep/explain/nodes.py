"""The parts of an explanation: occurrences with the rules that derived them, intervals of fluents, formulas."""

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
    """When a fluent began or ended, in microseconds, and by what. `how`:

    rule: `nodes` are the transitions that rules derived; initially: it held from before all time, by those; other:
    `nodes` initiated another value; deadline: of what began at `since`, or was renewed then, that was so much later;
    forgotten: `nodes` are records that led to it. `deadline`: the statement that says so.
    """

    time: int
    how: str
    nodes: tuple[DerivationNode, ...] = ()
    deadline: Span | None = None
    since: int = 0


@dataclass(frozen=True, slots=True)
class FormulaNode:
    """A formula, when it holds or, `negated`, does not (its intervals near the time in question), and what it is made
    of. `rule`: it is all that this rule says."""

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
    """A literal of a rule's body with its values, and the atoms that it is true by; `negated`: it is that none is."""

    text: str
    negated: bool = False
    parts: tuple[DerivationNode, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class AnswerNode:
    """The rule by which an atom is in an answer stream, at `time` (the beginning of a tick, microseconds)."""

    time: int
    span: Span
    bound: Mapping[str, TypedValue]
    literals: tuple[LiteralNode, ...] = ()
    judged: tuple[Judged, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerRefusal:
    """Why a rule (`span`) gives no such atom at a tick. `kind`: head: it gives others; missing: the literal `text` is
    not true; denied: it is, by `against`, and must not be; condition: `lacking` does not hold; none: there is no answer
    stream then. `parts`: by what its other literals are true. `forbidden`: constraints that would be broken, were the
    atom there and not what denies it."""

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
    """An occurrence, the rule that made it with its variables, and its constituents.

    `rule` is None of an input record, and where its constituents are no longer remembered. Of an event that a rule
    made of an earlier one of its own kind, `chain` holds these, the latest first, each without the one before it.
    `also`: the other rules that gave the same.
    `again`: it stands in the tree before, with all below it. `left_out`: constituents that are not in the tree.

    Of a fluent `began` and `ended` say by what; of what holds `deadline` is when it ends if nothing else happens
    (microseconds); of one that formulas define, `formulas` are those of its rules that hold then; of an atom that a
    solver derived, `answer` is the rule that gives it.
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
