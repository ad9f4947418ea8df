"""Revision: a machine that processes input in order, and goes back in time if earlier input changes.

The revision window is divided into stretches of time. Each stretch stores the state at its beginning, the input, and
the output of the stages. A late change goes back to the beginning of its stretch. From there, each affected stage runs
again for the affected keys (see `cep.runtime.revision.rerunning`). It stops at the first stretch whose stored state is
equal to the new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from time import perf_counter_ns

import numpy as np
import pyarrow as pa

from cep.core.relation import END, IDENTITY, ORDER, Table, concat, empty, rows, slice_until
from cep.core.stable_order import stable_order
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.core.values import Pool
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Ints, Translation, from_arrow, to_arrow
from cep.plan.partition import partition
from cep.plan.plan import Plan
from cep.runtime.history import OccurrenceHistory
from cep.runtime.knowledge_changes import KnowledgeChanges
from cep.runtime.machine import Machine
from cep.runtime.reorder_buffer import ReorderBuffer
from cep.runtime.revision.incremental import Incremental
from cep.runtime.revision.key_numbers import KEPT
from cep.runtime.revision.net_changes import RevisionLineage, all_changes, net_changes
from cep.runtime.revision.region import Window
from cep.runtime.revision.rerunning import GoingBack
from cep.runtime.revision.row_window import RowChanges, RowWindow, joined, parted
from cep.runtime.revision.window_segment import (
    Given,
    KeptState,
    LatestInstant,
    RevisionWindow,
    Stretch,
    Windows,
    copied,
    cuts_between,
    extend,
    put,
    window_of,
)
from cep.runtime.run_stats import RevisionStats


class Revision:
    """A machine and its revision window.

    - `build`: a function that builds a machine for a part of the plan.
    - `changes`: the changes of the knowledge.
    - `history`: the history of occurrences, or None if the output has no lineage.
    """

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
        self.length = window.length
        self.watermark = BEGINNING
        self.reach = Frontier.at(BEGINNING)
        """The frontier to which the machine goes on, or has gone on."""
        self.floor = BEGINNING  # rows that end at or before it are final, even within the window
        self.stretches = [Stretch(BEGINNING, KeptState(copied(machine.states())))]
        self.waiting: Windows = {}
        self.late: dict[str, list[RowChanges]] = {}
        self.merges = any(stage.merged for stage in partition(plan))
        """True if several keys or stages may derive the same occurrence."""
        # With a history, occurrences of several stages are revised together, so that each stage sees all origins.
        whole = self.merges or (history is not None and len(partition(plan)) > 1)
        self.going_back = GoingBack(plan, machine, build, pool, changes, history is not None, whole)
        self.stats = RevisionStats()
        self.late_rows: Counter[str] = Counter()
        """The number of late rows, by event."""
        transitions = machine.transitions
        self.lineage = None if history is None else RevisionLineage(history, build(plan), plan, transitions)
        self.followers: list[Callable[[str, RowChanges], None]] = [self.lineage.come] if self.lineage else []
        self.latest = LatestInstant()
        machine.given = self.going_back.seen
        self.incremental: Incremental | None = None
        if self.length and history is None and window.handed is None:
            self.incremental = Incremental(plan, machine, build, pool)

    @property
    def stable(self) -> int:
        """The time up to which results are final."""
        return max(self.floor, self.watermark - self.length)

    def reached(self, buffer: ReorderBuffer) -> int:
        """Return the watermark that follows from the input that `buffer` has received."""
        if buffer.moving == BEGINNING or buffer.lateness is None:
            return self.watermark
        return max(self.watermark, buffer.moving - self.window.behind)

    def known(self, event: str, table: Table, words: Sequence[int]) -> Table:
        """Return the stored rows of an input event that equal a row of `table`. `words`: the indexes of the matrix rows
        that are compared."""
        if not rows(table):
            return self._none(event)
        wanted = table.take(stable_order(table[END]), axis=1)
        first, last = int(wanted[END, 0]), int(wanted[END, -1])
        windows = [self.waiting, *(stretch.inputs for stretch in self.stretches if stretch.since < last)]
        same = [held[event].same(wanted, words) for held in windows if event in held and held[event].last >= first]
        return np.concatenate([self._none(event), *same], axis=1)

    def last(self, event: str) -> int:
        """Return the latest end of all stored rows of an input event."""
        return max((window.last for window in self._taken(event)), default=BEGINNING)

    def take(self, event: str, changes: RowChanges, span: tuple[int, int] | None = None) -> None:
        """Add and remove input rows of an event. All these rows must end after `stable`.

        `span`: the earliest and the latest end of the added rows, if known.
        """
        for follow in self.followers:
            follow(event, changes)
        if span is not None and span[0] >= self.watermark and not rows(changes.going):
            again = int(np.count_nonzero(changes.coming[END] == self.watermark)) if span[0] == self.watermark else 0
            if not again or self._may_go_back:
                self._window(self.waiting, event).add(changes.coming, span)
                self._count(event, again)
                self.latest.goes_on |= again > 0
                return
        self._sort_late()
        late = []
        for table, come in ((changes.going, False), (changes.coming, True)):
            before = table[END] <= self.watermark
            if not before.any():  # the usual case: rows arrive in order
                self._window(self.waiting, event).change(table, come)
                late.append(self._none(event))
                continue
            first, others = parted(table, before)
            late.append(first)
            self._window(self.waiting, event).change(others, come)
        self._take_late(event, RowChanges(*late))
        self._count(event, rows(late[0]) + rows(late[1]))

    def _take_late(self, event: str, late: RowChanges) -> None:
        if not rows(late.going) and not rows(late.coming):
            return
        self._put({event: late}, True)
        self.late.setdefault(event, []).append(late)

    def _sort_late(self) -> None:
        """Move the waiting rows of the latest instant to the late rows, so that revision need not undo that instant."""
        if self.latest.goes_on:
            self.latest.goes_on = False
            for event, window in sorted(self.waiting.items()):
                self._take_late(event, RowChanges(self._none(event), window.leaving(self.watermark)))

    def _count(self, event: str, late: int) -> None:
        if late:
            self.stats += RevisionStats(late=late)
            self.late_rows[event] += late

    def go_on(self, frontier: Frontier) -> dict[str, RowChanges]:
        """Revise the output and continue to a frontier. Return the changes of the output, by event."""
        self.reach, watermark = frontier, frontier.watermark
        old: Given = {}
        new: Given = {}
        if self.late or self.latest.goes_on or self.going_back.knowledge.late:
            began = perf_counter_ns()
            if not self._go_back(old):
                self._sort_late()
                self.latest.forget()
                if not self._change(old, new, frontier):
                    self._revise(old, new)
            self.stats += RevisionStats(revisions=1, seconds=(perf_counter_ns() - began) / 1e9)
        since = self.watermark
        if since == BEGINNING:  # there is no state yet, and all rows end later
            since = max(since, min(frontier.first, watermark) - 1)
        tries = self.latest.expected > 0 and watermark < END_OF_TIME and not self._changes_begun
        for until in cuts_between(since, watermark, self.length):
            back, begins = None, False
            if tries and until == watermark:
                back = self._frontier(until - 1, frontier)
                begins = self.latest.begins(until, self.stretches[-1].since)
            waiting = sorted(self.waiting.items())
            inputs = {event: table for event, window in waiting if rows(table := window.leaving(until))}
            ahead = self._frontier(until, frontier)
            if back is None:
                derived = self.machine.step(inputs, ahead)
            else:
                derived = self.machine.attempt(inputs, ahead, back, begins)
            if until >= END_OF_TIME and not self.plan.changes:
                extend(derived, self.machine.open())
            self._keep(inputs, derived, until)
            if self.incremental is not None:
                self.incremental.took(inputs)
            extend(new, derived)
            self.watermark = until
            self._begin_stretch(until, frontier)
        if not self.length:  # nothing is ever revised
            self.stretches[-1].inputs = {}
        while len(self.stretches) > 1 and self.stretches[1].since <= self.stable:
            self.stretches.pop(0)
        changes = self.incremental
        if changes is not None and changes.begun:
            gone = changes.went_on(self.stretches, self.watermark, self.length)
            if gone or not self._is_uniform(changes):
                self.leave()
        numbered = self.going_back.numbered - KEPT
        if numbered > 0 and numbered > sum(w.size for stretch in self.stretches for w in stretch.inputs.values()):
            self.settle()
        self.going_back.knowledge.reflected(self.stretches[0].since, self.watermark)
        if self.lineage is not None:
            self.lineage.made(old, new)
        net = dict(net_changes(self.plan, old, new, self.lineage is None))
        self.stats += RevisionStats(withdrawn=sum(rows(row_changes.going) for row_changes in net.values()))
        # Rows that stay may have another lineage, or another order, which other stages receive.
        every = self.lineage is not None or self.window.handed is not None
        return dict(all_changes(self.plan, old, new)) if every else net

    def _keep(self, inputs: Mapping[str, Table], outputs: Given, until: int) -> None:
        """Add input and output up to the time `until` to the last stretch.

        If the machine has kept its states just before `until`, a new stretch begins with these states. It contains the
        rows that end at `until`.
        """
        kept = {event: by_arrival(concat(tables)) for event, tables in sorted(outputs.items())} if self.length else {}
        stretch, attempts = self.stretches[-1], self.machine.attempts
        states = attempts.states
        if states is not None:
            self.stretches.append(Stretch(until - 1, KeptState(states)))
        for number, tables in enumerate((inputs, kept)):
            for event, table in tables.items():
                ordered = True
                if states is not None:
                    if number and event in attempts.apart:
                        early, late = attempts.apart[event]
                        early, ordered = concat([*outputs[event][:-1], early]), False
                    else:
                        stop = slice_until(table, until - 1)
                        early, late = table[:, :stop], table[:, stop:]
                    self._window(self.stretches[-1].held[number], event).add(late, ordered=ordered)
                    table = early
                self._window(stretch.held[number], event).add(table, ordered=ordered)

    def _begin_stretch(self, until: int, reach: Frontier) -> None:
        """Begin a new stretch if the current one should end (see `Stretch.ends`). If the last step can be undone, the
        new stretch begins just before the next instant. Otherwise it begins now."""
        changes = self.incremental
        parts = None if changes is None else changes.stretches_of_a_window
        ends = self.stretches[-1].ends(until, reach.watermark, self.length, parts)
        if self.machine.attempts.there:
            self.latest.stretch_ends = ends
        elif self.length and ends:
            self.stretches.append(Stretch(until, KeptState(copied(self.machine.needed(self._frontier(until, reach))))))

    # --- state ---

    def coded(self, places: Mapping[str, Sequence[int]]) -> list[Ints]:
        """Return the pool codes in the rows of the window.

        `places`: for each event, the indexes of the matrix rows that contain codes.
        """
        return [table[place] for event, table in self._tables() for place in places.get(event, ())]

    def codes(self, places: Mapping[str, Sequence[int]]) -> list[Ints]:
        """Return the pool codes in the rows of the window and in its stored states.

        `places`: for each event, the indexes of the matrix rows that contain codes.
        """
        self.leave()
        code_columns = self.coded(places)

        def seen(codes: Ints) -> Ints:
            code_columns.append(codes.copy())
            return codes

        for states in self._states():
            for (_, goal), state in zip(self.machine.goals(), states, strict=True):
                goal.recoded(state, seen)
        return code_columns

    def recode(self, codes: Translation, places: Mapping[str, Sequence[int]]) -> None:
        """Replace the pool codes in the rows of the window and in its stored states.

        `places`: for each event, the indexes of the matrix rows that contain codes.
        """
        self.leave()
        for event, table in self._tables():
            for place in places[event]:
                table[place] = codes(table[place])
        goals = [goal for _, goal in self.machine.goals()]
        for stretch in self.stretches:
            states = zip(goals, stretch.state.base, strict=True)
            stretch.state = KeptState([from_arrow(goal.recoded(to_arrow(arrays), codes)) for goal, arrays in states])

    def names(self) -> list[Ints]:
        """Return the handles that lineage uses in the rows of the window and in its stored states."""
        if self.lineage is None:
            return []
        self.settle()
        states = [[to_arrow(state) for state in stretch.state.base] for stretch in self.stretches]
        return self.lineage.names(self.held(), self.late, states)

    @property
    def size(self) -> tuple[int, int]:
        """The number of rows in the window, and the size in bytes of its rows and stored states."""
        windows = [window for windows_by_event in self.held() for window in windows_by_event.values()]
        states = sum(stretch.state.nbytes for stretch in self.stretches)
        states += 0 if self.incremental is None else self.incremental.nbytes
        return sum(w.size for w in windows), sum(w.nbytes for w in windows) + states

    def held(self) -> list[Windows]:
        """Return the waiting rows, and the input and output of each stretch."""
        return [self.waiting, *(windows for stretch in self.stretches for windows in (stretch.inputs, stretch.outputs))]

    def _tables(self) -> list[tuple[str, Table]]:
        tables = [(event, run) for windows in self.held() for event, window in windows.items() for run in window.runs]
        for event, changes in self.late.items():
            tables += [(event, table) for change in changes for table in (change.going, change.coming)]
        return tables

    def _states(self) -> list[list[pa.RecordBatch]]:
        return [[to_arrow(state) for state in stretch.state.base] for stretch in self.stretches]

    # --- changes before the watermark ---

    def _revise(self, old: Given, new: Given) -> None:
        changed = {event: joined(self.late[event]) for event in sorted(self.late)}
        self.late = {}
        revised = self.going_back.revise(changed, self._whole_window)
        extend(old, revised.old)
        extend(new, revised.new)
        self.stats += RevisionStats(keys_replayed=revised.keys)

    def _change(self, old: Given, new: Given, frontier: Frontier) -> bool:
        """Revise incrementally. Returns False if this is impossible, or not worthwhile for so few late rows.

        The old output is added to `old`, and the new output to `new`.
        """
        changes = self.incremental
        if changes is None:
            return False
        late = {event: joined(self.late[event]) for event in sorted(self.late)}
        for event in changes.several.keys() & late.keys():
            going, every = late[event].going, concat([late[event].going, late[event].coming])
            words = [row for row in range(len(every)) if row not in (ORDER, IDENTITY)]
            changes.look_at(concat([going, self.known(event, every, words)]))
        if not self._is_uniform(changes):
            if changes.begun:
                self.leave()
            return False
        now = self._frontier(self.watermark, frontier)
        if not changes.begun:
            tables = [table for row_changes in late.values() for table in (row_changes.going, row_changes.coming)]
            if not self.merges:
                if all((table[END] >= self.watermark).all() for table in tables):
                    return False  # only the latest instant continues; nothing is late
                changes.cost(late)
                sizes = (window.size for stretch in self.stretches for window in stretch.inputs.values())
                if any(total > changes.spent for total in accumulate(sizes)):
                    return False
            self.settle()
            self._put(late, False)
            changes.begin(self.stretches, now)
            self._put(late, True)
        self.late = {}
        until, *_ = [*cuts_between(self.watermark, frontier.watermark, self.length), END_OF_TIME]
        ahead = now if until >= END_OF_TIME else self._frontier(until, frontier)
        waiting = sorted(self.waiting.items()) if ahead is not now else []
        inputs = {event: table for event, window in waiting if rows(table := window.leaving(until))}
        for event in changes.several.keys() & inputs.keys():
            changes.look_at(inputs[event])
        if changes.tells_apart(self.stretches):
            for event, table in inputs.items():
                self._window(self.waiting, event).add(table)
            self.late = {event: [row_changes] for event, row_changes in late.items()}
            self.leave()
            return False
        revised, derived = changes.revise(late, inputs, self.watermark, ahead)
        extend(old, revised.old)
        extend(new, revised.new)
        if ahead is not now:
            self._keep(inputs, derived, until)
            extend(new, derived)
            self.watermark = until
            self._begin_stretch(until, frontier)
        self.stats += RevisionStats(keys_replayed=revised.keys)
        return True

    def _is_uniform(self, changes: Incremental) -> bool:
        """Return True if the window has neither of two obstacles to incremental revision: late changes of the
        knowledge, and equal records that count separately."""
        return not self.going_back.knowledge.late and not changes.tells_apart(self.stretches)

    def _put(self, late: Mapping[str, RowChanges], forward: bool) -> None:
        """Apply late changes to the input that the stretches store. If `forward` is False, undo the changes instead."""
        for event, row_changes in late.items():
            put(self.stretches, event, row_changes.going, not forward)
            put(self.stretches, event, row_changes.coming, forward)

    def _go_back(self, old: Given) -> bool:
        """Undo the latest instant, so that it runs again with its late rows. Add the undone output to `old`.

        Return False without undoing anything if a late change belongs to an earlier instant, or if another kind of
        revision is cheaper.
        """
        changes = [table for parts in self.late.values() for change in parts for table in (change.going, change.coming)]
        earlier = any(bool((table[END] < self.watermark).any()) for table in changes)
        if earlier or not self._goes_back or self.going_back.knowledge.late:
            return False
        self.latest.expect()
        if not self._may_go_back:
            return False
        number = max(number for number, segment in enumerate(self.stretches) if segment.since < self.watermark)
        stretch, before = self.stretches[number], self.watermark - 1
        changed = sum(map(rows, changes)) + sum(window.until(self.watermark) for window in self.waiting.values())
        if not self.latest.is_short(changed, sum(window.after(before) for window in stretch.inputs.values())):
            return False
        for event, window in stretch.inputs.items():
            self._window(self.waiting, event).add(window.since(before))
        apart = self.machine.attempts.apart
        for event, window in stretch.outputs.items():
            if event in apart:
                dropped = apart[event][1]
                window.drop(dropped)
            else:
                dropped = window.since(before)
            extend(old, {event: [dropped]})
        self.machine.take_back()
        self.late, self.latest.goes_on, self.watermark = {}, False, before
        return True

    @property
    def _goes_back(self) -> bool:
        return not self._changes_begun and self.lineage is None and self.window.handed is None

    @property
    def _may_go_back(self) -> bool:
        return self._goes_back and self.machine.attempts.there and self.latest.end == self.watermark

    @property
    def _changes_begun(self) -> bool:
        return self.incremental is not None and self.incremental.begun

    def leave(self) -> None:
        """Update the states of the stretches, and end incremental revision."""
        self.settle()
        self.latest.forget()
        self.forget_changes()

    def forget_changes(self) -> None:
        """End incremental revision without updating the stretches, because the caller replaces them."""
        if self.incremental is not None:
            self.incremental.leave()
            self.incremental.restored = True

    def settle(self) -> None:
        """Update all stored states, and drop the key numbers."""
        self._sort_late()
        if self.incremental is not None and self.incremental.since < END_OF_TIME:
            since, late = self.incremental.since, {event: joined(changes) for event, changes in self.late.items()}
            self.incremental.settle(self.stretches)
            self._put(late, False)
            self.going_back.reorder(self.incremental.by_order, since, self._whole_window)
            self._put(late, True)
        for stretch in self.stretches:
            self.going_back.settle(stretch.state)
        self.going_back.clear()

    # --- parts ---

    def _none(self, event: str) -> Table:
        return empty(len(self.plan.schemas[event].attributes))

    @property
    def _whole_window(self) -> Window:
        return Window(self.stretches, self.watermark, lambda until: self._frontier(until, self.reach))

    def _taken(self, event: str) -> list[RowWindow]:
        return [
            held[event] for held in (self.waiting, *(stretch.inputs for stretch in self.stretches)) if event in held
        ]

    def _window(self, held: Windows, event: str) -> RowWindow:
        return window_of(held, event, len(self.plan.schemas[event].attributes))

    def _frontier(self, until: int, frontier: Frontier) -> Frontier:
        return replace(frontier, watermark=until, stable=min(until, self.stable))
