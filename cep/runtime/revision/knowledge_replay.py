"""Stages run again by what was known then: cut where the knowledge changed, as it was and as late changes make it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from cep.core.relation import Table, slice_until
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.operators.goals.contract import Ints
from cep.plan.identity import identities, meanings
from cep.plan.partition import Stage
from cep.plan.plan import Plan
from cep.plan.staged import staged
from cep.runtime.knowledge_changes import KnowledgeChanges
from cep.runtime.machine import Machine
from cep.runtime.prepared_change import PastChange

Given = dict[str, list[Table]]
Step = Callable[[Machine, Mapping[str, Table], Frontier], Given]
"""What a machine makes of inputs up to a frontier."""


class KnowledgeReplay:
    """The knowledge of a revision; `changes`: as it changes, None: there is none. `asking`: the numbers of the stages
    that ask it."""

    def __init__(self, plan: Plan, stages: Iterable[Stage], changes: KnowledgeChanges | None) -> None:
        self.changes = changes
        self.asking: frozenset[int] = frozenset()
        if changes is not None:
            changes.remember(0)
            changes.keep_from(BEGINNING, BEGINNING)
            self.asking = frozenset(
                stage.number for stage in stages if asks(staged(plan, stage.number) if stage.number else plan)
            )

    @property
    def late(self) -> bool:
        """Whether changes have come that what was given does not go by."""
        return self.changes is not None and self.changes.given_by is not None

    def reaches(self, stage: Stage) -> bool:
        """Whether there are such, and a stage asks what they change."""
        return self.late and stage.number in self.asking

    def reached(self, stage: Stage, ends: Ints) -> tuple[int, int]:
        """The first and the last time from which a stage may give something else, where rows change that end then."""
        first, last = (int(ends.min()), int(ends.max())) if len(ends) else (END_OF_TIME, BEGINNING)
        if self.changes is None or not self.reaches(stage):
            return first, last
        return min(first, *(time for time, _ in self.changes.come_late)), END_OF_TIME

    def steady(self, time: int) -> bool:
        """Whether nothing of it has changed at that time or later, and nothing late."""
        return self.changes is None or (not self.late and all(each.time < time for each in self.changes.past[-1:]))

    def told(self, since: int, now: int) -> None:
        """What was given goes by all that came; nobody goes back before `since`."""
        if self.changes is not None:
            self.changes.given_by, self.changes.come_late = None, []
            self.changes.keep_from(now, since)

    def steps(self, stage: Stage, since: int) -> tuple[Step, Step]:
        """How a stage goes on from `since` by what was known before late changes came, and by what is known now."""
        changes = self.changes
        if changes is None or stage.number not in self.asking:
            return Machine.step, Machine.step
        past = changes.past if changes.given_by is None else changes.given_by
        return partial(self._step, changes, past, since), partial(self._step, changes, changes.past, since)

    def _step(
        self,
        changes: KnowledgeChanges,
        past: list[PastChange],
        since: int,
        machine: Machine,
        inputs: Mapping[str, Table],
        frontier: Frontier,
    ) -> Given:
        first, last = _place(past, since + 1), _place(past, frontier.watermark)
        if past is changes.past and first == len(past) - 1:
            return machine.step(inputs, frontier)
        changes.prepare(past, first, last)
        made: Given = {}
        done, reached = dict.fromkeys(inputs, 0), since
        with changes.going_by(past):
            for place in range(first, last + 1):
                until = frontier.watermark if place == last else past[place + 1].time - 1
                if until <= reached:
                    continue
                changes.show(place)
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
