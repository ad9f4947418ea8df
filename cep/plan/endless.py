"""Find cycles that never end at one instant, because each round of the evaluation derives new values.

The evaluation of a cycle at an instant continues as long as it derives new occurrences. The evaluation ends if one of
these is true:

- The occurrences of each round must begin earlier than those of the previous round.
- Each round uses up an occurrence.
- The values come from outside the cycle.
- A condition bounds the values.

Otherwise the evaluation continues until the limit of derivations (decision 2026-11-28, cycles without an end).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from cep.core.components import components
from cep.core.errors import CepError, Source, Warning
from cep.core.interval_relations import FOLLOWS
from cep.plan.algebra import Head
from cep.plan.binarise import Binarised
from cep.plan.names import excerpt
from cep.plan.node import Node
from cep.plan.order import Group, PlanUnit
from cep.rules.expressions.functions import TESTS
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Constant,
    Disjunction,
    Expression,
    Predicate,
    Variable,
    condition_variables,
)

Slot = tuple[PlanUnit, int | str]
"""A place for a value: a column of a node, a variable that the node's conditions bind, or an argument of an event."""


class Step(Enum):
    """The relation of a computed value to its source, which is the value from which it is computed. For example, it is
    the same value, or it is new and greater."""

    SAME = "the same"
    OTHER = "another that soon repeats"
    UP = "new and greater"
    DOWN = "new and less"
    NEW = "new"

    @property
    def makes_new(self) -> bool:
        return self in (Step.UP, Step.DOWN, Step.NEW)


_BACK = {Step.UP: Step.DOWN, Step.DOWN: Step.UP, Step.NEW: Step.NEW}
"""The direction in which the negative of a value grows, by the direction of the value."""
Flow = dict[Slot, dict[Slot, Step]]
"""For each slot, the slots from which its values are computed. Each of these is mapped to the relation between the
computed value and its source."""

_NEW = frozenset(("+", "-", "*", "**", "concat", "replace", "format", "sin", "tan", "atan"))
"""Functions whose result can be a new value in each round."""
_FEW = frozenset(("mod", "/", "//"))
"""Functions that soon repeat an earlier result if they are applied to their own results."""
_KEEPING = frozenset(("max", "min", "float", "int", "round", "floor", "ceil", "coalesce"))
"""Functions whose result grows when an argument grows, and shrinks when an argument shrinks."""
_WITHOUT_END = frozenset(("+", "-", "*", "**", "/", "//", "neg", "abs", "length", *_KEEPING)) - {"max", "min"}
"""Functions whose result exceeds every bound if one of their arguments exceeds every bound."""


@dataclass(frozen=True, slots=True)
class EndlessCycle:
    """A cycle that derives new occurrences without end at one instant, and the slots that get new values in each round.

    `units`: the nodes and events of the cycle. `asks`: conditions that test the new values. They may or may not bound
    these values.
    """

    units: frozenset[PlanUnit]
    slots: frozenset[Slot]
    asks: tuple[Condition, ...] = ()

    @property
    def numbers(self) -> list[int]:
        return sorted(unit for unit in self.units if isinstance(unit, int))

    def head(self, heads: Sequence[Head]) -> Head:
        """Return the first head whose event and body both belong to the cycle."""
        return next(head for head in heads if head.event in self.units and head.child in self.units)


def endless(groups: Sequence[Group], nodes: Sequence[Node], heads: Sequence[Head]) -> list[EndlessCycle]:
    """Return the cycles whose evaluation may continue without end at one instant.

    A cycle is also returned if its conditions test the growing values, but perhaps do not bound them.
    """
    return [
        growing
        for group in groups
        for part, rounds in group.slices
        if rounds and not any(nodes[unit].settles() for unit in part if isinstance(unit, int))
        for cycle in _lasting(part, nodes, heads)
        if (growing := _growing(cycle, nodes, heads)) is not None
    ]


def refused(groups: Sequence[Group], binarised: Binarised, source: Source) -> list[CepError]:
    """Return an error for each endless cycle that contains a join, and whose conditions do not test the growing values.
    In each round, such a join combines a new occurrence with an occurrence that it has used before."""
    errors = []
    for cycle in endless(groups, binarised.nodes, binarised.heads):
        joins = [number for number in cycle.numbers if binarised.nodes[number].properties().kind == "join"]
        if not joins or cycle.asks:
            continue
        word, event = binarised.nodes[joins[0]].properties().word, cycle.head(binarised.heads).event
        values = [name for place, name in enumerate(binarised.names[joins[0]]) if (joins[0], place) in cycle.slots]
        bound = f"; or a WHERE that bounds `{values[0]}`" if values else ""
        message = f"this {word} never ends: at one instant it takes the same occurrence again for each new `{event}`"
        hint = (
            f"use `{event}(...) {FOLLOWS} ...`, which takes only later events; or `POLICY chronological`, which uses "
        )
        errors.append(
            CepError(message, source, binarised.spans[joins[0]], hint + f"each event once{bound}", "recursion")
        )
    return errors


def warnings(groups: Sequence[Group], binarised: Binarised, source: Source) -> list[Warning]:
    """Return a warning for each endless cycle that `refused` does not report."""
    remarks = []
    for cycle in endless(groups, binarised.nodes, binarised.heads):
        head = cycle.head(binarised.heads)
        message = f"`{head.event}` derives itself at the same instant with new values each time, which "
        bound = "bound its values with a WHERE"
        if cycle.asks:
            written = excerpt(source, cycle.asks[0].span)
            message += f"{'its condition' if written is None else f'`{written}`'} may never end"
            bound = "bound the changing values in a WHERE: growing ones from above, shrinking ones from below"
        else:
            message += "never ends"
        hint = f"put `{head.event}` on the left of a {FOLLOWS}, or {bound}"
        remarks.append(Warning(message, source, head.span, hint))
    return remarks


def _lasting(part: Sequence[PlanUnit], nodes: Sequence[Node], heads: Sequence[Head]) -> Iterator[frozenset[PlanUnit]]:
    inside = frozenset(part)

    def needs(unit: PlanUnit) -> list[PlanUnit]:
        return [other for other in _reads(unit, nodes, heads) if other in inside]

    for cycle in components(list(part), needs):
        if len(cycle) > 1:
            yield frozenset(cycle)


def _reads(unit: PlanUnit, nodes: Sequence[Node], heads: Sequence[Head]) -> list[PlanUnit]:
    """Return the inputs of a unit that it can use again in each round at the same instant.

    Inputs that the unit reads only at earlier instants, or whose occurrences it uses up, are left out.
    """
    if isinstance(unit, str):
        return [head.child for head in heads if head.event == unit]
    own = nodes[unit].properties()
    if own.event is not None:
        return [own.event]
    return [other for port, other in enumerate(nodes[unit].parts) if port not in (*own.earlier, *nodes[unit].spends())]


def _growing(cycle: frozenset[PlanUnit], nodes: Sequence[Node], heads: Sequence[Head]) -> EndlessCycle | None:
    """Return the endless cycle if each round derives new values and no condition bounds these values. Otherwise return
    None."""
    flow: Flow = {}
    for unit in cycle:
        if isinstance(unit, str):
            for head in heads:
                if head.event == unit and head.child in cycle:
                    for place, argument in enumerate(head.arguments):
                        _add(flow, (unit, place), head.child, _used(argument))
        else:
            _columns(flow, unit, nodes, cycle)
    slots = frozenset(
        slot
        for loop in components(list(flow), lambda slot: [source for source in flow[slot] if source in flow])
        if any(step.makes_new and other in loop for slot in loop for other, step in flow[slot].items())
        for slot in loop
    )
    if not slots:
        return None
    growing, asks = _after(slots, flow), list[Condition]()
    for unit in cycle:
        if isinstance(unit, int):
            conditions = _asked(unit, nodes, growing)
            if nodes[unit].picks() or any(_ends(unit, condition, growing) for condition in conditions):
                return None
            asks += conditions
    return EndlessCycle(cycle, slots, tuple(asks))


def _columns(flow: Flow, unit: int, nodes: Sequence[Node], cycle: Collection[PlanUnit]) -> None:
    """Add to `flow` the slots from which the columns of a node are computed. `unit`: the number of the node."""
    own, parts = nodes[unit].properties(), nodes[unit].parts
    elsewhere = {
        part_column for pair in own.equal for part_column in pair if any(parts[part] not in cycle for part, _ in pair)
    }
    answered = nodes[unit].answered()
    width = len(own.shows) - len(answered)
    for column, places in enumerate(own.shows):
        if own.event is not None:
            flow.setdefault((unit, column), {})[own.event, nodes[unit].takes()[column]] = Step.SAME
        for part, below in places:
            if parts[part] in cycle and (part, below) not in elsewhere:
                flow.setdefault((unit, column), {})[parts[part], below] = Step.SAME
        if column >= width:
            flow.setdefault((unit, column), {})[_slot(unit, answered[column - width])] = Step.SAME
    for name, (_, value) in _definitions(own.conditions).items():
        _add(flow, _slot(unit, name), unit, _used(value))


def _add(flow: Flow, slot: Slot, unit: int, used: Mapping[str, Step]) -> None:
    for name, step in used.items():
        sources = flow.setdefault(slot, {})
        sources[_slot(unit, name)] = _both(step, sources.get(_slot(unit, name)))


def _both(left: Step, other: Step | None) -> Step:
    if other is None or left is other:
        return left
    if left.makes_new or other.makes_new:
        moves = {left, other} - {Step.SAME}
        return moves.pop() if len(moves) == 1 else Step.NEW
    return Step.OTHER


def _slot(unit: int, name: str) -> Slot:
    return unit, int(name[1:]) if name[0] == "v" else name


def _used(expression: Expression) -> dict[str, Step]:
    """Return the variables from which an expression is computed, each with the relation of the expression to it."""
    match expression:
        case Variable(name):
            return {name: Step.SAME}
        case Call(function, arguments) if function not in _FEW:
            used: dict[str, Step] = {}
            for place, argument in enumerate(arguments):
                others = [*arguments[:place], *arguments[place + 1 :]]
                for name, step in _used(argument).items():
                    used[name] = _both(_moved(function, place, others, step), used.get(name))
            return used
        case _:
            return {}


def _moved(function: str, place: int, others: Sequence[Expression], step: Step) -> Step:
    """Return the relation of a call to the source of one of its arguments.

    - `place`: the position of the argument. `others`: the other arguments. Of these, only constants are assumed to be
      negative or less than 1.
    - `step`: the relation of the argument to its source.
    """
    if function in ("+", "*") or (function == "-" and place == 0):
        less = any(_is_below(other, 1 if function == "*" else 0) for other in others)
        move = Step.DOWN if less is not (function == "-") else Step.UP
        return move if step in (Step.SAME, move) else Step.NEW
    if function in _NEW:
        return Step.NEW
    if function in _KEEPING:
        return step
    return Step.NEW if step.makes_new else Step.OTHER


def _is_below(expression: Expression, bound: int) -> bool:
    return isinstance(expression, Constant) and isinstance(expression.value, int | float) and expression.value < bound


def _definitions(conditions: Iterable[Condition]) -> dict[str, tuple[Condition, Expression]]:
    """Return, for each variable that an equation binds, the equation and the expression that equals the variable."""
    definitions: dict[str, tuple[Condition, Expression]] = {}
    for condition in conditions:
        if isinstance(condition, Comparison) and condition.operator == "=":
            for side, value in ((condition.left, condition.right), (condition.right, condition.left)):
                if isinstance(side, Variable) and side.name[0] == "w":
                    definitions.setdefault(side.name, (condition, value))
                    break
    return definitions


def _after(slots: frozenset[Slot], flow: Flow) -> dict[Slot, Step]:
    """Return the growing slots `slots`, and all slots that are computed from them. With each slot, return the direction
    of its growth: UP, DOWN or NEW."""
    inside = {step for slot in slots for other, step in flow[slot].items() if other in slots} - {Step.SAME}
    step_of = dict.fromkeys(slots, inside.pop() if len(inside) == 1 else Step.NEW)
    more = True
    while more:
        more = False
        for slot, sources in flow.items():
            steps = {_then(step_of[other], step) for other, step in sources.items() if other in step_of}
            if steps and slot not in step_of:
                step_of[slot] = steps.pop() if len(steps) == 1 else Step.NEW
                more = True
    return step_of


def _then(way: Step, step: Step) -> Step:
    return way if step is Step.SAME or (step.makes_new and step is way) else Step.NEW


def _asked(unit: int, nodes: Sequence[Node], growing: Collection[Slot]) -> list[Condition]:
    own = nodes[unit].properties()
    defining = [condition for condition, _ in _definitions(own.conditions).values()]
    asked = (condition for condition in own.conditions if condition not in defining)
    return [
        condition for condition in asked if any(_slot(unit, name) in growing for name in condition_variables(condition))
    ]


def _ends(unit: int, condition: Condition, growing: Mapping[Slot, Step]) -> bool:
    """Return True if a condition stops the growth of a value. Such a condition is a bound in the direction of growth,
    or looks the value up in a static predicate."""
    match condition:
        case Disjunction(alternatives):
            return all(any(_ends(unit, condition, growing) for condition in every) for every in alternatives)
        case Predicate(name, arguments, negated):
            looked = any(
                isinstance(argument, Variable) and _slot(unit, argument.name) in growing for argument in arguments
            )
            return looked and not negated and name not in TESTS
        case Comparison(operator, left, right):
            if operator in (">", ">="):
                left, right = right, left
            less, more = _way(unit, left, growing), _way(unit, right, growing)
            if operator == "=":
                return (less is None) is not (more is None) and Step.OTHER not in (less, more)
            return (
                operator != "!="
                and (more is None or less is None)
                and (less in (Step.UP, Step.NEW) or more is Step.DOWN)
            )


def _way(unit: int, expression: Expression, growing: Mapping[Slot, Step]) -> Step | None:
    """Return the direction in which an expression grows. Return OTHER if it is possible that the expression does not
    grow. If it contains no growing value, return None."""
    match expression:
        case Variable(name):
            return growing.get(_slot(unit, name))
        case Call(function, arguments):
            by_place = [_way(unit, argument, growing) for argument in arguments]
            ways = {way for way in by_place if way is not None}
            if not ways:
                return None
            if function not in _WITHOUT_END or Step.OTHER in ways:
                return Step.OTHER
            way = ways.pop() if len(ways) == 1 else Step.NEW
            if function in ("+", "*", *_KEEPING) or (function in ("-", "/", "//") and by_place[1] is None):
                return way
            return _BACK[way] if function == "neg" or (function == "-" and by_place[0] is None) else Step.NEW
        case _:
            return None
