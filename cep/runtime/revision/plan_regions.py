"""Division of a machine's parts for revision. A goal that has a reviser is a separate group. All other parts form
regions.

A region is as small as possible. It is rerun as a unit, for the rows of some keys, from a stored state. Where one
region reads another, the reader must accept rows in any order, and rows must end in the step that outputs them. This
has two consequences:

- A part may depend on the order of simultaneous rows. Its region then includes the parts that output these rows, and so
  on, up to parts whose rows have no ties.
- Formulas and time points may output rows that end before the step. All their direct and indirect readers are in their
  region.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from cep.core.components import components
from cep.core.errors import CepError
from cep.core.relation import Table
from cep.core.time import Frontier
from cep.operators.goals.contract import Goal, Takes
from cep.plan.order import PlanUnit
from cep.plan.partition import Stage, partition
from cep.plan.plan import Plan
from cep.plan.staged import needed
from cep.plan.ties import Ties
from cep.runtime.keyed_stage import KeyedStage, KeySide
from cep.runtime.machine_part import GivenTables, GoalByGoal, MachinePart

SHARED = KeySide(None)


class PartsTogether(GoalByGoal):
    """Several parts of the machine that run as one part, in the order of `parts`.

    `seen`: the units whose output the caller or parts outside this object need. `come`: the input events that these
    parts read.
    """

    def __init__(
        self,
        parts: Sequence[MachinePart],
        seen: Collection[PlanUnit],
        come: Collection[str],
        nothing: Mapping[PlanUnit, Table],
    ) -> None:
        self.parts, self.nothing = tuple(parts), nothing
        self.inside = {unit for part in parts for unit in part.gives}
        self.gives = tuple(unit for part in parts for unit in part.gives if unit in seen)
        units = dict.fromkeys(unit for part in parts for unit in part.takes.units if unit not in self.inside)
        events = dict.fromkeys(event for part in parts for event in part.takes.events if event in come)
        always = any(part.takes.always for part in parts)
        self.takes = Takes(tuple(units), tuple(events), any(part.takes.timed for part in parts), always)

    @property
    def unit(self) -> PlanUnit:
        return self.parts[0].unit

    def due(self) -> int | None:
        times = [due for part in self.parts if (due := part.due()) is not None]
        return min(times, default=None)

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        row_counts: dict[PlanUnit, int],
    ) -> bool:
        inner = GivenTables(self.nothing)
        inner.update((unit, outputs[unit]) for unit in self.takes.units)
        for part in self.parts:
            part.run(inputs, inner, frontier, row_counts)
        outputs.update((unit, inner[unit]) for unit in self.gives)
        return True

    def goals_by_unit(self) -> list[tuple[PlanUnit, Goal]]:
        return [unit_goal for part in self.parts for unit_goal in part.goals_by_unit()]


def regions_of(parts: Sequence[MachinePart], plan: Plan, ties: Ties, strays: Collection[int]) -> list[list[int]]:
    """Divide parts into regions, each a list of part numbers. A region follows after the regions that it reads.

    `strays`: the numbers of parts that may output rows that end before the step begins.
    """
    maker = {unit: number for number, part in enumerate(parts) for unit in part.gives}
    reads = [[maker[unit] for unit in part.takes.units] for part in parts]
    with_readers: list[set[int]] = [set() for _ in parts]
    late = set(strays)
    for number, makers in enumerate(reads):
        for other in late.intersection(makers):
            with_readers[other].add(number)
            late.add(number)
    waiting = [number for number, part in enumerate(parts) if goes_by_order(part, plan)]
    known = set(waiting)
    while waiting:
        number = waiting.pop()
        for unit in parts[number].takes.units:
            if not (ties.alone[unit] if isinstance(unit, str) else ties.node_alone[unit]):
                with_readers[maker[unit]].add(number)
                if maker[unit] not in known:
                    known.add(maker[unit])
                    waiting.append(maker[unit])
    regions = components(range(len(parts)), lambda number: (*reads[number], *with_readers[number]))
    return [sorted(region) for region in regions]


def goes_by_order(part: MachinePart, plan: Plan) -> bool:
    """Return True if results of a part depend on the order of its input."""
    units = [unit for unit in {*part.gives, part.unit} if not isinstance(unit, str)]
    return any(plan.nodes[unit].by_order(plan.types(unit)) for unit in units)


@dataclass(frozen=True, slots=True)
class RegionKeys:
    """The key columns of a region. `inputs`: the key columns of each input. `held`: the key columns in the state of
    each goal.

    The inputs are the input events, followed by the units that the region reads.
    """

    inputs: tuple[KeySide, ...]
    held: tuple[tuple[KeySide, ...], ...]


def keys_of(plan: Plan, part: PartsTogether, held: Sequence[PlanUnit]) -> RegionKeys:
    """Return the key columns by which a region can be rerun. If its goals have no common key, every row belongs to all
    keys.

    `held`: the units whose goals have state.
    """
    for stage in partition(plan):
        if stage.keyed and part.inside <= _units(plan, stage):
            try:
                return _keys_in(KeyedStage.of(plan, stage.number), part, held)
            except CepError:
                pass
    count = len(part.takes.events) + len(part.takes.units)
    return RegionKeys((SHARED,) * count, ((SHARED,),) * len(held))


def _units(plan: Plan, stage: Stage) -> Set[PlanUnit]:
    return {*needed(plan, stage), *stage.inputs, *stage.outputs}


def _keys_in(stage: KeyedStage, part: PartsTogether, held: Iterable[PlanUnit]) -> RegionKeys:
    chained = {part.compiled for part in part.parts}
    sides = tuple(stage.sides(unit) if not isinstance(unit, str) or unit in chained else () for unit in held)
    inputs = [*map(stage.dealt, part.takes.events), *map(stage.coming, part.takes.units)]
    lengths = {
        len(side.types) for side in (*inputs, *(keys for some in sides for keys in some)) if side.columns is not None
    }
    if len(lengths) != 1:
        raise CepError("what it takes and holds has no key of its own", code="key")
    return RegionKeys(tuple(inputs), sides)
