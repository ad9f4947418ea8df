"""A linear recursion `x <- x SEQ a ...` that one kernel evaluates. The event x may also have rules that are not
recursive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cep.core.interval_relations import RELATIONS
from cep.core.relation import Table, empty, rows
from cep.core.time import Frontier
from cep.operators import pair
from cep.operators.event import Scan
from cep.operators.goals.contract import Goal, Takes
from cep.operators.goals.heads import codes_of
from cep.operators.goals.pairs.bytecode import LEFT, Code, compile_stack
from cep.operators.goals.pairs.join_spec import JoinSpec, places_of, spec_of
from cep.operators.goals.pairs.linear_recursion import LinearRecursion
from cep.operators.goals.relational import Project
from cep.plan.order import Group, PlanUnit
from cep.rules.expressions.typed import TypedVariable

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder


@dataclass(frozen=True, slots=True)
class Loop:
    """The machine part that evaluates a recursive event.

    - `make`: the goal that derives the event from its input and from the rules that are not recursive.
    - `chain`: the goal that adds the occurrences that the recursive rule derives.
    - `join`: the node that the chain replaces. `right`: the node of the join's right side.
    - `scan`, `scanned`: the node of the event's scan and its goal. Other nodes may read the output of this goal.
    - `width`: the number of the event's columns.
    """

    event: str
    width: int
    make: Project
    chain: Goal
    reads: tuple[PlanUnit, ...]
    join: PlanUnit
    right: PlanUnit
    scan: PlanUnit
    scanned: Goal

    @property
    def unit(self) -> PlanUnit:
        """The join. The running time of the loop is reported as the join's."""
        return self.join

    @property
    def gives(self) -> tuple[PlanUnit, ...]:
        """The units whose output this part provides: the event and its scan."""
        return self.event, self.scan

    @property
    def takes(self) -> Takes:
        """The units and the input event that the loop reads."""
        return Takes((*self.reads, self.right), (self.event,), False)

    def due(self) -> int | None:
        return self.chain.due()

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        counts: dict[PlanUnit, int],
    ) -> bool:
        """Add the results of the event and its scan to `outputs`."""
        own = inputs.get(self.event, empty(self.width))
        base = self.make.step([own, *(outputs[unit] for unit in self.reads)], frontier)
        whole = self.make.as_set([self.chain.step([base, outputs[self.right]], frontier)])
        self.chain.evict(frontier)
        outputs[self.event] = whole
        outputs[self.scan] = self.scanned.step([whole], frontier)
        counts[self.join] += rows(whole) - rows(base)
        counts[self.event] += rows(whole)
        counts[self.scan] += rows(outputs[self.scan])
        return True

    def goals_by_unit(self) -> list[tuple[PlanUnit, Goal]]:
        return [(self.event, self.chain)]

    @property
    def counted_as(self) -> Mapping[PlanUnit, PlanUnit]:
        """A mapping that reports the row counts of the chain as those of the join."""
        return {self.event: self.join}

    def goal_names(self, names: Mapping[PlanUnit, str]) -> Mapping[PlanUnit, str]:
        return dict.fromkeys((self.event, self.join), f"{names[self.join]} chained")

    @property
    def compiled(self) -> str | None:
        return self.event


def loop_of(builder: GoalBuilder, group: Group) -> Loop | None:
    """Return the loop for a cycle, or None if no kernel can evaluate it.

    The cycle must consist of an event, its scan and a join.
    """
    plan = builder.plan
    events = [unit for unit in group.units if isinstance(unit, str)]
    if len(group.units) != 3 or len(events) != 1:
        return None
    event = events[0]
    parts = _chain_of(builder, event)
    if parts is None:
        return None
    chain, join, last = parts
    left, right = plan.nodes[join].parts
    if left not in group.units or join not in group.units or right in group.units:
        return None
    bases = [plan.heads[number].child for number in builder.heads[event] if number != last]
    if any(child in group.units for child in bases):
        return None
    make = builder.event(event).without_last()
    width = len(plan.schemas[event].attributes)
    return Loop(event, width, make, chain, tuple(bases), join, right, left, builder.node(left))


def _chain_of(builder: GoalBuilder, event: str) -> tuple[LinearRecursion, int, int] | None:
    """Return the goal of a recursive event, the number of the join that this goal replaces, and the number of the
    recursive rule's head.

    Returns None if no kernel can evaluate the recursion. A kernel can if all of these conditions are true:

    - The last rule of the event is `x(...) <- x(...) SEQ a(...) WHERE ...`. No other rule is recursive.
    - The last rule does not change the arguments that form the join key.
    - The conditions and the head of the last rule are arithmetic.
    """
    plan = builder.plan
    mine = builder.heads[event]
    head = plan.heads[mine[-1]]
    node = plan.nodes[head.child]
    if not isinstance(node, pair.Join) or node.interval_relation != RELATIONS["SEQ"] or node.absent is not None:
        return None
    scan = plan.nodes[node.left]
    width = len(plan.schemas[event].attributes)
    if not isinstance(scan, Scan) or scan.event != event or scan.constants or scan.equal:
        return None
    if builder.users[head.child] > 1:
        return None
    spec, decided, widenings = spec_of(node, builder, matching=False)  # keys must not change around the cycle
    if not decided or any(widenings):
        return None
    places = places_of(node, builder)
    programs: list[tuple[Code, Code]] = []
    for position, argument in enumerate(plan.arguments[mine[-1]]):
        program = compile_stack([argument], places, builder.pool.code, False)
        if program is None:
            return None
        programs.append(program)
        if position in scan.take and scan.take.index(position) in spec.left_key:
            column = scan.take.index(position)
            if not (isinstance(argument, TypedVariable) and argument.name == f"v{column}"):
                return None
    if any(scan.take[k] >= width for k in spec.left_key):
        return None
    # The store holds whole events, so key and output columns are numbers of the event's arguments.
    whole = JoinSpec(
        relation="SEQ",
        policy=spec.policy,
        tie=spec.tie,
        within=spec.within,
        point=spec.point,
        left_width=width,
        right_width=spec.right_width,
        left_key=tuple(scan.take[k] for k in spec.left_key),
        right_key=spec.right_key,
        take_left=tuple(range(width)),
        take_right=(),
        left_codes=codes_of([attribute.type for attribute in plan.schemas[event].attributes]),
        right_codes=(),
        by=(scan.take[spec.by[0]] if spec.by[0] >= 0 else -1, spec.by[1]),
        by_float=spec.by_float,
        stack=None if spec.stack is None else (_moved(spec.stack[0], scan.take), spec.stack[1]),
    )
    moved = [(_moved(code, scan.take), literals) for code, literals in programs]
    return LinearRecursion(whole, moved, builder.lineage, mine[-1]), head.child, mine[-1]


def _moved(code: Code, take: Sequence[int]) -> Code:
    """Convert bytecode that reads columns of a scan to bytecode that reads arguments of the event.

    Instructions that read the right side of the join stay unchanged. `take`: the argument that each column of the scan
    contains.
    """
    moved = code.copy()
    for row in moved:
        if row[0] == LEFT:
            row[1] = take[row[1]]
    return moved
