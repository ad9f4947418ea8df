"""Events in a time window: each holds for some evaluation ticks from its own on, which its tick alone decides.

goal(E):  tuples of E's columns, perhaps with the tick, each while any event of it is in the window
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cep.core.evaluation_ticks import WindowTicks
from cep.core.interval_sets import INFINITE
from cep.core.relation import END, FIRST, Table, contiguous, empty, rows
from cep.core.time import Frontier
from cep.operators.goals.coded_columns import codes_of
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
    demand,
)
from cep.operators.goals.fluents.change_tables import decided, due, put_changes, put_tuples
from cep.operators.goals.fluents.passing_supports import QUEUES, PassingSupports
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.windowed_event import WindowedEvent


@dataclass(frozen=True, slots=True)
class PassingSpec:
    """Of an input of so many columns (`width`) those at `take` make a tuple, and then, where it is `numbered`, the
    tick; `codes`: which columns of it hold pool codes; `late`: how late it is given,
    `delay`: how much later its rows say that they are known."""

    width: int
    take: tuple[int, ...]
    numbered: bool
    codes: tuple[int, ...]
    late: int
    delay: int = 0

    @property
    def columns(self) -> int:
        """How many columns a tuple has."""
        return len(self.take) + self.numbered


class PassingGoal(NumberedState):
    """A goal of tuples that are supported for a time which is known beforehand."""

    def __init__(self, spec: PassingSpec, lineage: Lineage | None = None) -> None:
        self.spec, self.lineage = spec, lineage
        self.columns, self.take = np.arange(spec.columns), FIRST + np.array(spec.take, np.int64)
        self._clear()

    def _clear(self) -> None:
        self.tuples = Keys(self.spec.columns)
        self.passing = PassingSupports()

    def _slots(self, table: Table, at: Ints) -> Ints:
        """The numbers of the tuples of rows at these ticks."""
        made = np.empty((FIRST + self.spec.columns, rows(table)), np.int64)
        made[FIRST : FIRST + len(self.take)] = table.take(self.take, axis=0)
        if self.spec.numbered:
            made[-1] = at
        return self.tuples.slots(made, self.columns, True, True)

    def _pass_on(self, frontier: Frontier) -> Table:
        """What changes by now."""
        changes = self.passing.pass_on(decided(frontier, self.spec.late), self.tuples.count)
        if not len(changes.key):
            return empty(self.spec.columns + 1)
        made = np.empty((FIRST + self.spec.columns + 1, len(changes.key)), np.int64)
        put_tuples(made, FIRST, self.tuples.known, changes.key, 0)
        put_changes(made, FIRST + self.spec.columns, changes.code, changes.begins, self.spec.delay)
        if self.lineage is not None:
            self.lineage.name(made)
        return made

    def due(self) -> int | None:
        code = self.passing.next_change()
        return None if code >= INFINITE else due(code, self.spec.late)

    def pending(self) -> int:
        return self.passing.count

    def _numbers(self) -> int:
        return self.tuples.count

    # --- state ---

    def _state(self) -> Arrays:
        return self.passing.named(self.tuples.known)

    def _tables(self) -> dict[str, StateTable]:
        spec = self.spec
        own: dict[str, Any] = {"width": 1 + spec.columns, "codes": tuple(1 + column for column in spec.codes)}
        tables = {name: StateTable(keyed=tuples_of(name, spec.take, first=1), **own) for name in ("held", *QUEUES)}
        return tables | {name: replace(tables[name], order=((name, 0),)) for name in QUEUES}

    def _fits(self, state: Arrays) -> None:
        demand(bool((state["held"][:, 0] > 0).all()))
        for name in QUEUES:
            demand(bool((np.diff(state[name][:, 0]) >= 0).all()))

    def _become(self, state: Arrays) -> None:
        self._clear()
        parts = [self._named(state[name][:, 1:]) for name in ("held", *QUEUES)]
        held, opening, closing = parts
        queues = [(state[name][:, 0], slots) for name, slots in zip(QUEUES, (opening, closing))]
        self.passing.become(held, state["held"][:, 0], queues)

    def _named(self, tuples: Ints) -> Ints:
        """The numbers of tuples, a row each."""
        table = np.zeros((FIRST + self.spec.columns, len(tuples)), np.int64)
        table[FIRST:] = tuples.T
        return self.tuples.slots(table, self.columns, True, True)

    def codes(self) -> list[Ints]:
        return [self.tuples.known[:, column] for column in self.spec.codes]

    @property
    def size(self) -> tuple[int, int]:
        return self.passing.count + len(self.passing.held()), int(self.passing.nbytes + self.tuples.nbytes)


class WindowedEventGoal(PassingGoal):
    """The goal of one WindowedEvent node."""

    def __init__(self, spec: PassingSpec, window: WindowTicks, lineage: Lineage | None = None) -> None:
        super().__init__(spec, lineage)
        self.window = window

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        table = contiguous(inputs[0])
        if rows(table):
            at = table[END] // self.window.tick
            slots = self._slots(table, at)
            self.passing.put(self.window.opens(at), slots, True)
            if self.window.last is not None:
                self.passing.put(self.window.closes(at), slots, False)
        return self._pass_on(frontier)


def windowed_event_of(node: WindowedEvent, builder: GoalBuilder) -> Goal:
    """The goal of a node."""
    types = builder.types(node.child)
    codes = codes_of([types[column] for column in node.take])
    spec = PassingSpec(len(types), node.take, node.numbered, codes, node.ticks.late, node.delay)
    return WindowedEventGoal(spec, node.ticks, builder.lineage)
