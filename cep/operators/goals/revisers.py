"""The choice of a reviser for each goal. A reviser updates a goal's output after late changes of its input. A goal
without a reviser runs again instead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cep.core.interval_relations import B, Bound, C, relation_named
from cep.core.relation import FIRST
from cep.operators.goals.contract import Goal
from cep.operators.goals.fluents.holding import HoldingGoal
from cep.operators.goals.fluents.holding_reviser import holding_reviser
from cep.operators.goals.fluents.inertia import InertiaGoal
from cep.operators.goals.fluents.inertia_reviser import inertia_reviser
from cep.operators.goals.pairs.join import JoinGoal
from cep.operators.goals.pairs.join_reviser import join_reviser
from cep.operators.goals.pairs.unless import AbsenceDeadline
from cep.operators.goals.relational import Project, ScanGoal, SelectGoal, UnionGoal
from cep.operators.goals.reviser import InputReviser, LinearReviser, Reviser, RuleReviser, SetReviser
from cep.plan.order import PlanUnit
from cep.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class GoalInPlan:
    """A goal and its place in the plan.

    `unit`: the unit that the goal evaluates. `reads`: the units whose output the goal reads. The goal of an event also
    reads the event's own input, before the output of these units.
    """

    unit: PlanUnit
    goal: Goal
    reads: tuple[PlanUnit, ...]


def allow_twice(goal: GoalInPlan, allowed: bool) -> None:
    """Set whether the goal of an event may output an occurrence more than once, if it has several derivations."""
    if isinstance(goal.goal, Project):
        goal.goal.bag = allowed


def revisers_of(
    goals: Sequence[GoalInPlan],
    widths: Mapping[PlanUnit, int],
    units: Collection[PlanUnit],
    plan: Plan,
) -> list[Reviser | None]:
    """Return a reviser for each goal, or None for a goal that cannot revise.

    - `goals`: the goals. They may read units that are not among them.
    - `widths`: the number of columns of each unit.
    - `units`: the events in the program's output.
    """
    by_unit = {goal.unit: goal for goal in goals}
    revisers: list[Reviser | None] = []
    for goal in goals:
        reviser = reviser_of(goal.goal)
        if goal.unit in units and goal.unit in plan.inputs:
            reviser = None  # input events are output as a set
        elif isinstance(goal.goal, Project) and goal.goal.lineage is None and not goal.goal.bag:
            if not goal.goal.heads:
                reviser = InputReviser()
            elif (goal.goal.distinct and goal.unit not in plan.inputs) or _one_to_one(goal.unit, by_unit, widths, plan):
                reviser = RuleReviser()
        revisers.append(reviser)
    return revisers


def _distinct(unit: PlanUnit, goals: Mapping[PlanUnit, GoalInPlan], widths: Mapping[PlanUnit, int], plan: Plan) -> bool:
    """Return True if a reviser of the unit never outputs equal rows.

    The pairs of a join are distinct if the rows of both sides are. A pair contains the arguments of both sides and, if
    both are instants and the left one is never after the right one, also their times. UNLESS outputs rows of its left
    side, all later by the same duration.
    """
    if unit not in goals:
        return False
    goal, reads = goals[unit].goal, goals[unit].reads
    if isinstance(goal, InertiaGoal):
        return goal.lineage is None
    if isinstance(goal, JoinGoal):
        sides = reads[:2]
        in_turn = relation_named(goal.spec.relation, goal.spec.gap).implies(Bound(B, C, 0))
        instants = all(isinstance(side, int) and plan.points[side] for side in sides)
        return in_turn and instants and all(_distinct(side, goals, widths, plan) for side in sides)
    if isinstance(goal, AbsenceDeadline):
        return widths[unit] == widths[reads[0]] and _distinct(reads[0], goals, widths, plan)
    if isinstance(goal, Project) and not goal.bag:
        return goal.lineage is None  # its reviser makes it a set
    return _one_to_one(unit, goals, widths, plan)


def _one_to_one(
    unit: PlanUnit, goals: Mapping[PlanUnit, GoalInPlan], widths: Mapping[PlanUnit, int], plan: Plan
) -> bool:
    """Return True if a unit copies all arguments of the only unit that it reads, whose rows are distinct."""
    goal, reads = goals[unit].goal, goals[unit].reads
    chosen: set[int] = set()
    if isinstance(goal, SelectGoal) and not goal.binds:
        chosen = set(range(widths[unit]))
    elif isinstance(goal, ScanGoal):
        chosen = {*(goal.rows[FIRST:] - FIRST).tolist(), *(place for place, _ in goal.constants)}
    elif isinstance(goal, Project) and len(goal.heads) == 1 and unit not in plan.inputs:
        chosen = {column for column in goal.heads[0].columns or () if column is not None}
    whole = len(reads) == 1 and chosen >= set(range(widths[reads[0]]))
    return whole and bool(chosen) and _distinct(reads[0], goals, widths, plan)


def reviser_of(goal: Goal) -> Reviser | None:
    """Return the reviser of a goal, or None if it cannot revise."""
    make_reviser = _REVISERS.get(type(goal))
    return None if make_reviser is None else make_reviser(goal)


def project_reviser(goal: Project) -> Reviser | None:
    """Return the reviser of an event, or None if the goal records lineage.

    The reviser counts derivations, unless the event's output may contain an occurrence more than once.
    """
    if goal.lineage is not None:
        return None
    return RuleReviser() if goal.bag else SetReviser(goal)


def _linear(goal: Any) -> Reviser:
    return LinearReviser()


_REVISERS: dict[type, Callable[[Any], Reviser | None]] = {
    ScanGoal: _linear,
    SelectGoal: _linear,
    UnionGoal: _linear,
    Project: project_reviser,
    JoinGoal: join_reviser,
    InertiaGoal: inertia_reviser,
    HoldingGoal: holding_reviser,
}
