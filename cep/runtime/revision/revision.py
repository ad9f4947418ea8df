"""Revision: a machine that goes on with what comes in order, and goes back where something earlier changes.

The window is cut into stretches of time. Of each there is the state at its beginning, the input that ends in it, and
what stages gave to others in it. A change goes back to the beginning of its stretch. From there on each stage that it
reaches is run again (`cep.runtime.revision.stage_replay`), for the keys that it has, until the state is what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyarrow as pa

from cep.core.relation import END, Table, concat, contiguous, empty, rows
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.core.values import Pool
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Ints, Translation, demand, from_arrow, kept, to_arrow
from cep.plan.partition import Route, Stage, partition
from cep.plan.plan import Plan
from cep.runtime.history import OccurrenceHistory
from cep.runtime.knowledge_changes import KnowledgeChanges
from cep.runtime.knowledge_steps import stepped
from cep.runtime.machine import Machine
from cep.runtime.reorder_buffer import ReorderBuffer
from cep.runtime.revision.knowledge_replay import KnowledgeReplay
from cep.runtime.revision.latest_instant import LatestInstant
from cep.runtime.revision.net_changes import all_changes, net_changes
from cep.runtime.revision.revision_lineage import RevisionLineage
from cep.runtime.revision.revision_stats import RevisionStats
from cep.runtime.revision.row_changes import NetChange, between, joined
from cep.runtime.revision.row_window import RowWindow, parted, without
from cep.runtime.revision.stage_replay import RowChanges, StageReplay
from cep.runtime.revision.stretch import Stretch, Windows, cuts_between, tables_of

WHOLE = 0
"""The number of all stages as one."""

Given = dict[str, list[Table]]


@dataclass(frozen=True, slots=True)
class RevisionWindow:
    """In microseconds: `length`: how far behind the watermark what changes may be; `behind`: how far the watermark is
    behind the latest time. `final`: what is given is never withdrawn. `handed`: of a stage, what others hand on."""

    length: int
    behind: int
    final: bool
    handed: frozenset[str] | None = None


class Revision:
    """The window of a machine. `build`: makes a machine for a part of the plan; `changes`: the knowledge as it changes;
    `history`: what is known of what came from what."""

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        window: RevisionWindow,
        build: Callable[[Plan], Machine],
        pool: Pool,
        changes: KnowledgeChanges | None = None,
        history: OccurrenceHistory | None = None,
    ) -> None:
        self.plan, self.machine, self.window = plan, machine, window
        self.build, self.pool, self.length = build, pool, window.length
        self.watermark, self.stretches = BEGINNING, [Stretch(BEGINNING, kept(machine.snapshot()))]
        self.waiting: Windows = {}
        self.late: dict[str, list[RowChanges]] = {}
        self.stages: tuple[Stage, ...] = partition(plan)
        rules = tuple(range(len(plan.heads)))
        made = tuple(dict.fromkeys(head.event for head in plan.heads))
        taken: dict[str, Route] = dict.fromkeys(sorted(plan.inputs), "single")
        self.whole = Stage(WHOLE, False, rules, taken, plan.inputs, made, frozenset(), ())
        self.handed = frozenset(event for stage in self.stages for event in stage.inputs if event not in stage.outside)
        self.replays: dict[int, StageReplay] = {}
        self.stats = RevisionStats()
        self.lineage = None if history is None else RevisionLineage(history, build(plan))
        self.followers: list[Callable[[str, RowChanges], None]] = [self.lineage.come] if self.lineage else []
        self.latest = LatestInstant()
        machine.given = made
        self.knowledge = KnowledgeReplay(plan, (self.whole, *self.stages), changes)

    @property
    def stable(self) -> int:
        """Nothing that ends at or before it changes any more."""
        return max(BEGINNING, self.watermark - self.length)

    def reached(self, buffer: ReorderBuffer) -> int:
        """The watermark that what has come allows."""
        if buffer.latest == BEGINNING or buffer.lateness is None:
            return self.watermark
        return max(self.watermark, buffer.latest - self.window.behind)

    def known(self, event: str, ends: Ints) -> Table:
        """The rows of an input event that have one of these ends, sorted and distinct."""
        return np.concatenate([self._none(event), *(window.at(ends) for window in self._taken(event))], axis=1)

    def last(self, event: str) -> int:
        """No row of an input event ends after it."""
        return max((window.last for window in self._taken(event)), default=BEGINNING)

    def take(self, event: str, changes: RowChanges) -> None:
        """Take rows of an event in and out, all of which end after `stable`."""
        for follow in self.followers:
            follow(event, changes)
        late = []
        for table, come in ((changes.going, False), (changes.coming, True)):
            before = table[END] <= self.watermark
            if not before.any():  # so it is where all comes in order
                self._window(self.waiting, event).change(table, come)
                late.append(self._none(event))
                continue
            first, others = parted(table, before)
            late.append(first)
            self._window(self.waiting, event).change(others, come)
            self._put([each.inputs for each in self.stretches], event, late[-1], come)
        if rows(late[0]) or rows(late[1]):
            self.stats += RevisionStats(late=rows(late[0]) + rows(late[1]))
            self.late.setdefault(event, []).append(RowChanges(*late))

    def go_on(self, at: Frontier) -> dict[str, NetChange]:
        """Put right what was derived, and go on to a frontier: what that changes, for each event that it does."""
        watermark = at.watermark
        old: Given = {}
        new: Given = {}
        if self.late or self.knowledge.late:
            began = perf_counter_ns()
            if not self._go_back(old):
                self._revise(old, new, at)
                self.latest.forget()
            self.stats += RevisionStats(revisions=1, seconds=(perf_counter_ns() - began) / 1e9)
        for until in cuts_between(self.watermark, watermark, self.length, self.latest.expected > 0):
            stretch = self.stretches[-1]
            if self.watermark == until - 1:
                self.latest.begin(self.machine, until)
            inputs = {}
            for event, window in sorted(self.waiting.items()):
                inputs[event] = window.leaving(until)
                self._window(stretch.inputs, event).add(inputs[event])
            inputs = {event: table for event, table in inputs.items() if rows(table)}
            made = stepped(self.machine, self.knowledge.changes, inputs, self._frontier(until, at))
            if until >= END_OF_TIME and not self.plan.changes:
                _extend(made, self.machine.open())
            for event in made.keys() & self.handed:
                self._window(stretch.given, event).add(by_arrival(concat(made[event])))
            _extend(new, made)
            self.latest.made(until, made)
            self.watermark = until
            if self.length and stretch.ends(until, self.length, self.machine.size[0]):
                self.stretches.append(Stretch(until, kept(self.machine.snapshot())))
        if not self.length:  # nothing goes back
            self.stretches[-1].inputs, self.stretches[-1].given = {}, {}
        while len(self.stretches) > 1 and self.stretches[1].since <= self.stable:
            self.stretches.pop(0)
        self.knowledge.told(self.stretches[0].since, self.watermark)
        if self.lineage is not None:
            self.lineage.made((old, new), self.plan.edges)
        found = dict(net_changes(self.plan, old, new, self.window.handed is not None))
        self.stats += RevisionStats(withdrawn=sum(rows(each.withdrawn) for each in found.values()))
        return found if self.lineage is None else dict(all_changes(self.plan, old, new))  # of that it may change, too

    # --- state ---

    def snapshot(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        """What the window holds: numbers, and tables."""
        numbers = {"watermark": self.watermark, "since": [each.since for each in self.stretches]}
        late = {event: joined(each) for event, each in self.late.items()}
        batches = [
            to_arrow(tables_of(self.waiting)),
            to_arrow({event: each.going for event, each in late.items()}),
            to_arrow({event: each.coming for event, each in late.items()}),
        ]
        for each in self.stretches:
            batches += [to_arrow(tables_of(each.inputs)), to_arrow(tables_of(each.given)), *each.state]
        return numbers, batches

    def restore(self, numbers: Mapping[str, Any], batches: Sequence[pa.RecordBatch]) -> None:
        """Take on what a window held. CepError: it is none of this program."""
        goals = [goal for _, goal in self.machine.goals()]
        begins = numbers["since"]
        demand(bool(begins) and begins == sorted(set(begins)) and numbers["watermark"] >= begins[-1])
        demand(len(batches) == 3 + len(begins) * (2 + len(goals)))
        waiting, going, coming = map(from_arrow, batches[:3])
        demand(going.keys() == coming.keys())
        self.watermark, self.waiting = numbers["watermark"], self._windows(waiting)
        self.latest = LatestInstant()
        self.late = {event: [RowChanges(going[event], coming[event])] for event in sorted(going)}
        self.stretches = []
        for number, since in enumerate(begins):
            at = 3 + number * (2 + len(goals))
            inputs, given = (self._windows(from_arrow(batch)) for batch in batches[at : at + 2])
            state = list(batches[at + 2 : at + 2 + len(goals)])
            for goal, each in zip(goals, state, strict=True):
                goal.restore(each)  # it says what is wrong; the state of now is restored after it
            self.stretches.append(Stretch(since, state, inputs, given))

    def coded(self, places: Mapping[str, Sequence[int]]) -> list[Ints]:
        """The pool codes in the rows of the window, given each event's rows of codes."""
        return [table[place] for event, table in self._tables() for place in places.get(event, ())]

    def codes(self, places: Mapping[str, Sequence[int]]) -> list[Ints]:
        """The same, and all that the states hold."""
        found = self.coded(places)

        def seen(codes: Ints) -> Ints:
            found.append(codes.copy())
            return codes

        for states in self._states():
            for (_, goal), state in zip(self.machine.goals(), states, strict=True):
                goal.recoded(state, seen)
        for event, tables in self.latest.given.items():
            found += [table[place] for table in tables for place in places.get(event, ())]
        return found

    def recode(self, codes: Translation, places: Mapping[str, Sequence[int]]) -> None:
        """Put other pool codes in the place of those of the window and its states."""
        for event, table in self._tables():
            for place in places[event]:
                table[place] = codes(table[place])
        goals = [goal for _, goal in self.machine.goals()]
        for stretch in self.stretches:
            stretch.state = [goal.recoded(each, codes) for goal, each in zip(goals, stretch.state, strict=True)]

    def names(self) -> list[Ints]:
        """The identities of what the window and its states hold, for lineage."""
        held = self._held(), self.late, [each.state for each in self.stretches]
        return [] if self.lineage is None else self.lineage.names(*held)

    @property
    def size(self) -> tuple[int, int]:
        """Rows that the window holds, and the bytes that they and the states take."""
        windows = [window for each in self._held() for window in each.values()]
        states = sum(state.nbytes for each in self._states() for state in each)
        return sum(w.size for w in windows), sum(run.nbytes for w in windows for run in w.runs) + states

    def _held(self) -> list[Windows]:
        return [self.waiting, *(windows for each in self.stretches for windows in (each.inputs, each.given))]

    def _tables(self) -> list[tuple[str, Table]]:
        """All rows that are held, with their events."""
        found = [(event, run) for each in self._held() for event, window in each.items() for run in window.runs]
        for event, changes in self.late.items():
            found += [(event, table) for each in changes for table in (each.going, each.coming)]
        return found + [(event, table) for event, tables in self.latest.given.items() for table in tables]

    def _states(self) -> list[list[pa.RecordBatch]]:
        return [*(each.state for each in self.stretches), *([self.latest.state] if self.latest.state else [])]

    def _windows(self, tables: Mapping[str, Table]) -> Windows:
        found: Windows = {}
        for event, table in tables.items():
            demand(event in self.plan.schemas and len(table) == len(self._none(event)) and table.ndim == 2)
            self._window(found, event).add(table)
        return found

    # --- what changes before the watermark ---

    def _revise(self, old: Given, new: Given, at: Frontier) -> None:
        """Run the stages again that late changes reach."""
        changed, self.late = {event: joined(self.late[event]) for event in sorted(self.late)}, {}
        told = self.lineage is not None and len(self.stages) > 1  # later stages hear as well what rows come from
        for stage in [self.whole] if told or self._merges(changed) else self.stages:
            mine = {event: each for event, each in changed.items() if event in stage.inputs}
            if not mine and not self.knowledge.reaches(stage):
                continue
            before, after = self._again(stage, mine, at)
            for event in sorted(before.keys() | after.keys()):
                was, is_ = (concat([self._none(event), *found.get(event, ())]) for found in (before, after))
                _extend(old, {event: [was]})
                _extend(new, {event: [is_]})
                going, coming = without(was, is_), without(is_, was)
                if event in self.handed and (rows(going) or rows(coming)):
                    self._hand(event, going, coming)
                    changed[event] = joined(
                        [*([changed[event]] if event in changed else []), RowChanges(going, coming)]
                    )

    def _go_back(self, old: Given) -> bool:
        """To before the latest instant, where late changes are of that alone: it is run again with what follows."""
        changes = [table for each in self.late.values() for one in each for table in (one.going, one.coming)]
        earlier = any(bool((table[END] < self.watermark).any()) for table in changes)
        if (
            earlier
            or self.lineage is not None
            or self.window.handed is not None
            or not self.knowledge.steady(self.watermark)
        ):
            return False
        self.latest.expect()
        number = max(number for number, each in enumerate(self.stretches) if each.since < self.watermark)
        stretch, before = self.stretches[number], self.watermark - 1
        again = sum(rows(window.ending(before, self.watermark)) for window in stretch.inputs.values())
        state = self.latest.state_before(self.watermark, sum(map(rows, changes)), again)
        if state is None:
            return False
        self.machine.restore(state)
        for event, window in stretch.inputs.items():
            self._window(self.waiting, event).add(window.since(before))
        for event in self.latest.given.keys() & self.handed:
            stretch.given[event].drop(contiguous(concat(self.latest.given[event])))
        _extend(old, self.latest.given)
        self.late, self.watermark = {}, before
        del self.stretches[number + 1 :]
        return True

    def _merges(self, events: Iterable[str]) -> bool:
        """Whether these reach a stage that makes what others may make as well: what it no longer makes may stay."""
        reached = set(events)
        for stage in self.stages:
            if reached & stage.inputs.keys() or self.knowledge.reaches(stage):
                if stage.merged:
                    return True
                reached.update(stage.outputs)
        return False

    def _hand(self, event: str, going: Table, coming: Table) -> None:
        """Put right what a stage has given to others."""
        for table, come in ((going, False), (coming, True)):
            self._put([each.given for each in self.stretches], event, table, come)

    def _again(self, stage: Stage, changes: Mapping[str, RowChanges], at: Frontier) -> tuple[Given, Given]:
        """What a stage gave where its input changes, and gives, by event."""
        replay = self._replay(stage)
        keys = None if self.knowledge.reaches(stage) else replay.keys(changes)
        ends = [t[END] for each in changes.values() for t in (each.going, each.coming)]
        first, last = self.knowledge.reached(stage, np.concatenate([np.empty(0, np.int64), *ends]))
        self.stats += RevisionStats(keys_replayed=1 if keys is None else len(keys))
        begun = max(number for number, each in enumerate(self.stretches) if each.since < first)
        own, _ = replay.apart(keys, self.stretches[begun].state)
        replay.begin(own)
        old: Given = {}
        new: Given = {}
        for number in range(begun, len(self.stretches)):
            stretch, end = self.stretches[number], number + 1 == len(self.stretches)
            until = self.watermark if end else self.stretches[number + 1].since
            within = {event: between(each, stretch.since, until) for event, each in changes.items()}
            inputs = {}
            for event in stage.inputs:
                windows = stretch.inputs if event in stage.outside else stretch.given
                if event in windows:
                    every = windows[event].ending(stretch.since, until)
                    coming = within[event].coming if event in within else None
                    inputs[event] = replay.taken(keys, event, every, coming)
            made = replay.stretch(inputs, within, self._frontier(until, at), self.knowledge.steps(stage, stretch.since))
            _extend(old, made[0])
            _extend(new, made[1])
            was, is_ = replay.states()
            if until > last and all(one.equals(other) for one, other in zip(was, is_, strict=True)):
                break  # nothing later differs
            state = self.machine.snapshot() if end else self.stretches[number + 1].state
            _, others = replay.apart(keys, state)
            for place, each in zip(replay.goals, replay.together(others, is_), strict=True):
                if end:
                    self.machine.goals()[place][1].restore(each)
                else:
                    state[place] = each
        return old, new

    def _replay(self, stage: Stage) -> StageReplay:
        if stage.number not in self.replays:
            self.replays[stage.number] = StageReplay(self.machine, self.plan, stage, self.build, self.pool)
        return self.replays[stage.number]

    # --- parts ---

    def _none(self, event: str) -> Table:
        return empty(len(self.plan.schemas[event].attributes))

    def _taken(self, event: str) -> list[RowWindow]:
        """The windows of an input event."""
        return [held[event] for held in (self.waiting, *(each.inputs for each in self.stretches)) if event in held]

    def _put(self, held: Sequence[Windows], event: str, table: Table, come: bool) -> None:
        """Take rows into or out of the stretches, of each the windows, in which they end."""
        begins = np.array([each.since for each in self.stretches])
        numbers = np.searchsorted(begins, table[END], "left") - 1
        for number in np.unique(numbers).tolist():
            self._window(held[number], event).change(table[:, numbers == number], come)

    def _window(self, held: Windows, event: str) -> RowWindow:
        if event not in held:
            held[event] = RowWindow(len(self.plan.schemas[event].attributes))
        return held[event]

    def _frontier(self, until: int, at: Frontier) -> Frontier:
        return replace(at, watermark=until, stable=min(until, self.stable))


def _extend(made: Given, more: Mapping[str, Iterable[Table]]) -> None:
    for name, tables in more.items():
        made.setdefault(name, []).extend(tables)
