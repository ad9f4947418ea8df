"""Stages run again by what was known then: cut where the knowledge changed, as it was and as late changes make it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from cep.core.relation import Table, slice_until
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.plan.identity import identities, meanings
from cep.plan.partition import Stage
from cep.plan.plan import Plan
from cep.plan.staged import staged
from cep.runtime.knowledge_changes import KnowledgeChanges
from cep.runtime.machine import Machine
from cep.runtime.prepared_change import PastChange

Given = dict[str, list[Table]]


class KnowledgeReplay:
    """The knowledge of a revision. `asking`: the numbers of the stages that ask it."""

    def __init__(self, plan: Plan, stages: Iterable[Stage], changes: KnowledgeChanges) -> None:
        self.changes = changes
        changes.remember(0)
        changes.keep_from(BEGINNING, BEGINNING)
        self.asking = frozenset(
            stage.number for stage in stages if asks(staged(plan, stage.number) if stage.number else plan)
        )

    @property
    def late(self) -> bool:
        """Whether changes came that what was given does not go by."""
        return self.changes.given_by is not None

    @property
    def first(self) -> int:
        """From when on; END_OF_TIME: none came."""
        return min((time for time, _ in self.changes.come_late), default=END_OF_TIME)

    def told(self, since: int, now: int) -> None:
        """What was given goes by all that came; nobody goes back before `since`."""
        self.changes.given_by, self.changes.come_late = None, []
        self.changes.keep_from(now, since)

    def step_before(self, machine: Machine, inputs: Mapping[str, Table], since: int, frontier: Frontier) -> Given:
        """A step from `since` to a frontier by what was known before late changes came."""
        past = self.changes.given_by
        return self._step(self.changes.past if past is None else past, machine, inputs, since, frontier)

    def step_after(self, machine: Machine, inputs: Mapping[str, Table], since: int, frontier: Frontier) -> Given:
        """The same by what is known now of then."""
        return self._step(self.changes.past, machine, inputs, since, frontier)

    def _step(
        self, past: list[PastChange], machine: Machine, inputs: Mapping[str, Table], since: int, frontier: Frontier
    ) -> Given:
        first, last = _place(past, since + 1), _place(past, frontier.watermark)
        if past is self.changes.past and first == len(past) - 1:
            return machine.step(inputs, frontier)
        self.changes.prepare(past, first, last)
        made: Given = {}
        done, reached = dict.fromkeys(inputs, 0), since
        with self.changes.going_by(past):
            for place in range(first, last + 1):
                until = frontier.watermark if place == last else past[place + 1].time - 1
                if until <= reached:
                    continue
                self.changes.show(place)
                stops = {name: slice_until(table, until) for name, table in inputs.items()}
                piece = {name: table[:, done[name] : stops[name]] for name, table in inputs.items()}
                for name, tables in machine.step(piece, frontier.until(until)).items():
                    made.setdefault(name, []).extend(tables)
                done, reached = stops, until
        return made


def asks(plan: Plan) -> bool:
    """Whether a plan asks knowledge that may change."""
    one, other = (identities(plan, meanings(plan.rules, {}, name)) for name in ("one", "other"))
    return one != other


def _place(past: Sequence[PastChange], time: int) -> int:
    return max(0, bisect_right(past, time, key=lambda each: each.time) - 1)
