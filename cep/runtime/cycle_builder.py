"""Construction of a plan's cycles: their goals, cut at the edges that feed rows back with a delay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from cep.core.components import components
from cep.core.errors import NOWHERE
from cep.core.relation import Table, empty
from cep.operators.goals.contract import Goal
from cep.operators.goals.in_rounds import InRounds
from cep.plan.delayed_cycles import Lagging, lagging, wholes_of_formulas
from cep.plan.node import NodeProperties
from cep.plan.order import Group, PlanUnit, by_stretches
from cep.plan.plan import Plan
from cep.runtime.cycle import Cycle, CycleGoals, Later, Whole
from cep.runtime.delayed_cycle import FluentsOfCycle, FormulaCycle, HeldOutside, IntervalRounds, Lagged
from cep.runtime.instants import Instants, RowRounds
from cep.runtime.machine_part import SingleGoal

Held = Callable[[Table, int, int], Table]


@dataclass(frozen=True, slots=True)
class CycleBuilder:
    """A builder for the cycles of one plan.

    - `single`: a function that creates the goal of a unit.
    - `limit`: the maximum number of rows that a recursion may derive in a step.
    - `guesses`: True if cycles may process several instants at once and guess the rows that are fed back (see
      `cep.runtime.instants`).
    """

    plan: Plan
    widths: Mapping[PlanUnit, int]
    single: Callable[[PlanUnit], SingleGoal]
    limit: int
    guesses: bool

    def cycle(self, group: Group, before: Mapping[PlanUnit, Goal]) -> Cycle:
        """Build the cycle of a group of units. `before`: the goals that run before the group."""
        singles = {unit: self.single(unit) for unit in group.units}

        def reads(unit: PlanUnit) -> tuple[PlanUnit, ...]:
            return singles[unit].reads

        lags = lagging(group.units, self.plan.nodes, reads)
        if lags is not None:
            return self._lagged(group, lags, singles, before)
        if not any(self._settles(unit) for unit in group.units):
            return self._instants(group, singles)
        asked = {other for unit in singles for other in reads(unit) if other not in singles}
        return Whole(self._formulas(singles, {unit: _held(before[unit]) for unit in asked}), self.widths)

    def _asks(self, unit: PlanUnit) -> NodeProperties:
        return _EVENT if isinstance(unit, str) else self.plan.nodes[unit].properties()

    def _settles(self, unit: PlanUnit) -> bool:
        return isinstance(unit, int) and self.plan.nodes[unit].settles()

    def _instants(self, group: Group, singles: Mapping[PlanUnit, SingleGoal]) -> Instants:
        place = {unit: number for number, (units, _) in enumerate(group.slices) for unit in units}
        rounds = {unit for units, is_cycle in group.slices if is_cycle for unit in units}
        rules = [head.label or head.event for head in self.plan.heads if head.event in singles]

        def comes_later(unit: PlanUnit, port: int) -> bool:
            other = singles[unit].reads[port]
            if other not in place or place[other] != place[unit]:
                return other in place and place[other] > place[unit]
            return unit not in rounds or port in self._asks(unit).earlier

        ports = {
            unit: [port for port in range(len(single.reads)) if comes_later(unit, port)]
            for unit, single in singles.items()
        }
        nothing = {unit: empty(width) for unit, width in self.widths.items()}
        parts: list[SingleGoal | RowRounds | IntervalRounds] = []
        for units, is_cycle in group.slices:
            mine = [singles[unit] for unit in units]
            later = {(unit, port) for unit in units for port in ports[unit]}
            parts += [RowRounds(mine, later, nothing, self.limit, rules)] if is_cycle else mine
        goals = CycleGoals(parts, [Later(singles[unit], places) for unit, places in ports.items() if places])
        guesses = self.guesses and by_stretches(group, self.plan.nodes)
        return Instants(goals, self.widths, self.limit, rules, guesses)

    def _lagged(
        self,
        group: Group,
        lags: Lagging,
        singles: Mapping[PlanUnit, SingleGoal],
        before: Mapping[PlanUnit, Goal],
    ) -> Lagged:
        parts: list[SingleGoal | RowRounds | IntervalRounds] = []
        asked = {other for units, is_cycle in lags.parts if is_cycle for u in units for other in singles[u].reads}
        outside = {unit: HeldOutside(goal) for unit, goal in before.items() if unit in asked}
        known: dict[PlanUnit, Held] = {unit: outside_part.held for unit, outside_part in outside.items()}
        known |= {unit: _held(singles[unit].goal) for unit in asked if unit in singles}
        for units, is_cycle in lags.parts:
            mine = {unit: singles[unit] for unit in units}
            parts += [self._formulas(mine, known)] if is_cycle else mine.values()
        back = [singles[unit] for unit in lags.back]
        fluents = FluentsOfCycle(
            [single.goal for unit, single in singles.items() if self._asks(unit).kind != "formula"],
            [cast(InRounds, single.goal) for unit, single in singles.items() if self._settles(unit)],
            next(wholes_of_formulas(group.units, self.plan.nodes, lambda unit: singles[unit].reads), None) is not None,
            outside,
        )
        later = [Later(single, range(len(single.reads))) for single in (*(singles[unit] for unit in lags.after), *back)]
        lag = min((self._asks(unit).delay // 2 for unit in lags.back), default=0)
        return Lagged(CycleGoals(parts, later, back, lag), self.widths, fluents)

    def _formulas(self, singles: Mapping[PlanUnit, SingleGoal], outside: Mapping[PlanUnit, Held]) -> IntervalRounds:
        settling = frozenset(unit for unit in singles if self._settles(unit))
        sequence = components(list(singles), lambda unit: [n for n in singles[unit].reads if n not in settling])
        inside = [number for number, head in enumerate(self.plan.heads) if head.event in singles]
        own = [number for number in inside if self.plan.rules.rules[number].span != NOWHERE]
        negated = frozenset(
            singles[unit].reads[port] for unit in singles if (port := self._asks(unit).negated) is not None
        )
        rules = [self._written(number) for number in own or inside]
        cycle = FormulaCycle(tuple(singles[unit] for (unit,) in sequence), settling, outside, negated, rules)
        return IntervalRounds(cycle, self.widths, self.limit)

    def _written(self, number: int) -> str:
        head, rule = self.plan.heads[number], self.plan.rules.rules[number]
        if head.label is not None:
            return head.label
        if rule.span == NOWHERE:
            fluent = self.plan.schemas[head.event].fluent
            return head.event if fluent is None else fluent.name
        return self.plan.source.line(rule.span.line)[rule.span.column - 1 :].strip()


_EVENT = NodeProperties("event")


def _held(goal: Goal) -> Held:
    return cast(InRounds, goal).held
