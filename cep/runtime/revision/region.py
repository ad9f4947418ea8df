"""Regions: goals that share a key and are rerun together, for single keys. A rerun starts from the last stored state
before a change.

The revision window is divided into stretches of time. A key is rerun from the beginning of the first stretch in which
it has a change. The rerun goes on, one stretch at a time, until the key's state at the end of a stretch equals the
stored one. The state of some keys is read and replaced without reading the state of other keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from cep.core.relation import END, FIRST, Table, concat, rows
from cep.core.time import BEGINNING, Frontier
from cep.core.values import Pool
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Arrays, Bools, Goal, Ints, KeyedRows, StateKeys
from cep.operators.goals.keyed_rows import KEY, R_END, ROW, TIMES, as_table, changes_of, words_of
from cep.operators.goals.keyed_rows import KeyedRows as RowsByKey
from cep.operators.goals.reviser import apart, concatenated, differing, differing_keys
from cep.plan.order import PlanUnit
from cep.plan.plan import Plan
from cep.runtime.keyed_stage import KeySide
from cep.runtime.machine_part import GivenTables, SingleGoal
from cep.runtime.revision.key_numbers import KeyNumbers
from cep.runtime.revision.plan_regions import PartsTogether, keys_of
from cep.runtime.revision.row_window import parted
from cep.runtime.revision.window_segment import KeptState, Overlay, States, Stretch, copied

SMALL = 2_000_000
"""The size in bytes below which a stored state is changed directly, without an overlay."""

Goals = tuple[int, ...]
"""The numbers of some goals. A region numbers those of its goals that have state, starting at 0."""

LiveGoals = Sequence[tuple[PlanUnit, Goal]]
"""The goals of the running program. They have the current states, unlike the stored states of the window."""


@dataclass(frozen=True, slots=True)
class Window:
    """The stretches of a revision window, and its watermark.

    `frontier`: a function that returns the frontier for a time in the window.
    """

    stretches: Sequence[Stretch]
    watermark: int
    frontier: Callable[[int], Frontier]

    def until(self, number: int) -> int:
        """Return the watermark at the end of the stretch `number`."""
        last = number + 1 == len(self.stretches)
        return self.watermark if last else self.stretches[number + 1].since

    def place(self, end: int) -> int:
        """Return the number of the stretch that contains the time `end`."""
        return max(0, int(np.searchsorted([stretch.since for stretch in self.stretches], end, "left")) - 1)


Due = dict[int, Bools | None]
"""The changed keys of each stretch that has changes. A stretch is identified by its number. Its changed keys are a
mask, or None if all keys have changed."""


def due_of(changed: Iterable[tuple[int, Ints | None]], count: int) -> Due:
    """Collect the changed keys of each stretch.

    `changed`: pairs of a stretch number and the numbers of its changed keys, or None if all its keys have changed.
    `count`: the number of known keys.
    """
    due: Due = {}
    for number, keys in changed:
        mask = due.setdefault(number, np.zeros(count, np.bool_))
        if keys is None:
            due[number] = None
        elif mask is not None:
            mask[keys] = True
    return due


RunStretch = Callable[[int, Bools | None, States], States]
"""A function that runs one stretch for some keys. It returns the states of the keys at the end of the stretch.

Its arguments are the number of the stretch, a mask of the keys (None for all keys), and the states of these keys at the
beginning of the stretch.
"""


class Region:
    """Goals that are rerun together, and their stored states.

    - `own`: the goals that have state. `places`: their positions among the goals of the whole program.
    - `sides`: the key columns of each of these goals.
    - `numbers`: the numbering of keys.
    - `alone`: True if no goal of this region belongs to another region as well.

    In all methods, `keys` is a mask over key numbers. None selects all keys.
    """

    def __init__(
        self,
        number: int,
        own: Sequence[Goal],
        places: Sequence[int],
        sides: Sequence[tuple[KeySide, ...]],
        numbers: KeyNumbers,
        alone: bool,
    ) -> None:
        self.number, self.own, self.places, self.sides = number, own, places, sides
        self.numbers, self.alone = numbers, alone
        self._selected: list[_Selected] = []

    def run_again(
        self,
        due: Due,
        window: Window,
        live: LiveGoals,
        run: RunStretch,
        to_the_end: bool = False,
        run_as_before: RunStretch | None = None,
    ) -> int:
        """Rerun keys from their changes on, until their states equal the stored ones.

        - `due`: the changed keys of each stretch.
        - `live`: the goals of the running program, whose states are also corrected.
        - `run`: a function that reruns a stretch with the changes.
        - `to_the_end`: True if later results may differ even after states are equal, so that the rerun must not stop.
        - `run_as_before`: a function that reruns a stretch without the changes, before `run`. It is None if this is not
          necessary.

        Return the number of keys that were rerun. If all keys were rerun at once, return 1.
        """
        stretches = window.stretches
        active: Bools | None = np.zeros(self.numbers.count, np.bool_)
        ever = np.zeros(self.numbers.count, np.bool_)
        carried: States | None = None
        """The states of the active keys at the beginning of the stretch. It is None if they equal the stored states."""
        goals: Goals = ()
        for number in range(min(due), len(stretches)):
            kept, changed = stretches[number].state, active
            if number in due:
                more = due[number]
                active = None if more is None or active is None else active | more
            if active is not None:
                if not active.any():
                    continue
                ever |= active
            before = self.state(kept, active) if run_as_before is not None or carried is None else carried
            was = None if run_as_before is None else run_as_before(number, active, copied(before))
            if carried is not None:
                self.put(kept, changed, carried, goals)
                more_keys = active is not None and changed is not None and bool((active & ~changed).any())
                before = self.state(kept, active) if more_keys or (active is None) != (changed is None) else carried
            now = run(number, active, before)
            last = number + 1 == len(stretches)
            after = self.live(live) if last else stretches[number + 1].state
            was = self.state(after, active) if was is None else was
            carried = None
            if active is None:
                if not to_the_end and all(same(arrays, other) for arrays, other in zip(was, now, strict=True)):
                    active = np.zeros(self.numbers.count, np.bool_)
                    continue
                goals = tuple(range(len(now)))
                carried = copied(now)
            else:
                active, goals = self.differing(was, now, active)
                if not active.any():
                    continue
                carried = self.part(now, active)
            if last:
                self.become(live, after.base, active, carried, goals)
        return 1 if any(keys is None for keys in due.values()) else int(ever.sum())

    # --- states ---

    def state(self, kept: KeptState, keys: Bools | None) -> States:
        """Copy the states of the region's goals for some keys from the stored state `kept`."""
        over = kept.overlays.get(self.number)
        base = [kept.base[place] for place in self.places]
        if keys is None:
            return copied(base if over is None else self._merged(base, over))
        if over is None:
            return self._part(base, keys)
        if over.keys is None:
            return self._part(over.states, keys)
        mask = sized(over.keys, len(keys))
        inside, outside = keys & mask, keys & ~mask
        if not outside.any():
            return self._part(over.states, keys)
        if not inside.any():
            return self._part(base, keys)
        return self._together(self._part(base, outside), self._others(over.states, ~inside))

    def put(self, kept: KeptState, keys: Bools | None, states: States, goals: Goals) -> None:
        """Replace the states of some keys in the stored state `kept`.

        `states`: the new states. `goals`: the goals whose new states differ from the stored ones.
        """
        over = kept.overlays.get(self.number)
        if keys is not None and over is None and self.alone and _few(kept.base[place] for place in self.places):
            chosen = self._of_keys(keys).chosen
            for number in goals:
                goal, place = self.own[number], self.places[number]
                kept.base[place] = goal.together(goal.others(kept.base[place], chosen[number]), states[number])
        elif keys is None:
            kept.overlays[self.number] = Overlay(None, copied(states))
        elif over is None:
            kept.overlays[self.number] = Overlay(keys.copy(), copied(states))
        else:
            over.states = self._together(self._others(over.states, keys), states)
            if over.keys is not None:
                over.keys = sized(over.keys, len(keys)) | keys

    def settle(self, kept: KeptState) -> None:
        """Apply the region's overlay to the stored state `kept`, which then has no overlay of this region."""
        if (over := kept.overlays.pop(self.number, None)) is not None:
            base = [kept.base[place] for place in self.places]
            for place, state in zip(self.places, self._merged(base, over), strict=True):
                kept.base[place] = state

    def live(self, goals: LiveGoals) -> KeptState:
        """Return the current states of the region's goals in the running program, without copying. The goals may change
        these arrays later."""
        own = set(self.places)
        return KeptState([goal.as_arrays() if place in own else {} for place, (_, goal) in enumerate(goals)])

    def become(self, live: LiveGoals, held: States, keys: Bools | None, states: States, goals: Goals) -> None:
        """Replace the states of some keys in the goals of the running program.

        `held`: the current states. `states`: the new states. `goals`: the goals whose new states differ from the
        current ones.
        """
        for number in range(len(states)) if keys is None else goals:
            place, state = self.places[number], states[number]
            goal = live[place][1]
            if keys is not None:
                state = goal.together(goal.others(held[place], self._of_keys(keys).chosen[number]), state)
            goal.become_arrays(state)

    def differing(self, was: States, now: States, keys: Bools) -> tuple[Bools, tuple[int, ...]]:
        """Compare two states of the region's goals. Return a mask of the keys whose states differ, and the numbers of
        the goals whose states differ."""
        changed_keys, goals, every = np.zeros(len(keys), np.bool_), list[int](), False
        for number, (goal, chosen) in enumerate(zip(self.own, self._of_keys(keys).chosen, strict=True)):
            old_state, other = was[number], now[number]
            if not chosen.columns or same(old_state, other):
                continue
            mine, theirs = goal.rows_by_key(old_state, chosen), goal.rows_by_key(other, chosen)
            differs, shared = np.zeros(len(keys), np.bool_), False
            for old_rows, its in zip(mine, theirs, strict=True):
                shared |= _shared(old_rows, its)
                differs |= differing_keys(old_rows, its, len(keys))
            every |= shared
            if shared or differs.any():
                goals.append(number)
                changed_keys |= differs
        return keys if every else changed_keys & keys, tuple(goals)

    def part(self, states: States, keys: Bools) -> States:
        return self._part(states, keys)

    def _part(self, states: States, keys: Bools) -> States:
        return [
            goal.part(state, chosen) if chosen.columns else state
            for goal, chosen, state in zip(self.own, self._of_keys(keys).chosen, states, strict=True)
        ]

    def _others(self, states: States, keys: Bools) -> States:
        return [
            goal.others(state, chosen) if chosen.columns else state
            for goal, chosen, state in zip(self.own, self._of_keys(keys).chosen, states, strict=True)
        ]

    def _together(self, some: States, others: States) -> States:
        return [
            goal.together(state, other) if sides else state
            for goal, sides, state, other in zip(self.own, self.sides, some, others, strict=True)
        ]

    def _merged(self, base: States, over: Overlay) -> States:
        return over.states if over.keys is None else self._together(self._others(base, over.keys), over.states)

    def _of_keys(self, keys: Bools) -> _Selected:
        """Return the selection of keys for each goal.

        The last two results are cached by the identity of `keys`, so the caller must not change this array.
        """
        for selected in self._selected:
            if selected.keys is keys and selected.known == self.numbers.count:
                return selected
        self._selected = [_Selected(self.numbers, keys, self.sides), *self._selected[:1]]
        return self._selected[0]


def _few(states: Iterable[Arrays]) -> bool:
    return sum(int(array.nbytes) for state in states for array in state.values()) < SMALL


def same(arrays: Arrays, other: Arrays) -> bool:
    return all(
        array.shape == other[name].shape and bool((array == other[name]).all()) for name, array in arrays.items()
    )


class _Selected:
    """A selection of keys, for goals and row windows. `keys`: a mask over the key numbers."""

    def __init__(self, numbers: KeyNumbers, keys: Bools, sides: Sequence[Sequence[KeySide]]) -> None:
        self.numbers, self.keys, self.sides, self.known = numbers, keys, sides, numbers.count
        self._tests: dict[tuple[str, ...], Callable[[Ints], Bools]] = {}

    def test(self, types: tuple[str, ...]) -> Callable[[Ints], Bools]:
        """Return a function that takes key columns of these types and returns a mask of the rows whose key is
        selected."""
        if types not in self._tests:
            self._tests[types] = self.numbers.test(types, self.keys)
        return self._tests[types]

    @cached_property
    def chosen(self) -> list[StateKeys]:
        """The selection for each goal, in the form that the methods of the goal's state expect."""
        return [
            StateKeys(
                tuple(side.columns for side in sides),
                tuple(self.test(side.types) for side in sides),
                tuple(partial(self.numbers.found, side.types) for side in sides),
            )
            for sides in self.sides
        ]


def sized(keys: Bools, count: int) -> Bools:
    """Extend a mask with False, to at least `count` keys."""
    return keys if len(keys) >= count else np.concatenate([keys, np.zeros(count - len(keys), np.bool_)])


def _shared(keyed_rows: KeyedRows, other: KeyedRows) -> bool:
    """Return True if two states of a goal differ in the rows that belong to all keys."""
    mine, theirs = keyed_rows[1][keyed_rows[0] < 0], other[1][other[0] < 0]
    return not np.array_equal(mine, theirs)


class _Input:
    """The rows of one input of a region, by key number. Rows that belong to all keys are stored under the number 0."""

    def __init__(self, side: KeySide, width: int, numbers: KeyNumbers) -> None:
        self.side, self.numbers = side, numbers
        self.words, self.rows = words_of(width), RowsByKey(3 + width)

    @property
    def shared(self) -> bool:
        return self.side.columns is None

    def changes(self, table: Table) -> Ints:
        """Assign the changes in a table to keys. Return the changed rows with their key numbers. New keys get a
        number."""
        if self.side.columns is None:
            slots, known = np.zeros(rows(table), np.int64), 1
        else:
            columns = np.ascontiguousarray(table[[FIRST + column for column in self.side.columns]].T)
            slots = self.numbers.entered(self.side.types, columns)
            known = self.numbers.count
        self.rows.know(known)
        return changes_of(table, slots, self.words, known)

    def ending(self, keys: Ints, after: Ints, until: Ints) -> Table:
        """Return the rows of `keys` that end after `after` and at or before `until`. Both are given for each key."""
        if self.shared:
            keys, after, until = _merged(np.zeros(len(keys), np.int64), after, until)
        known = keys < len(self.rows.spans)
        return as_table(self.rows.ending(keys[known], after[known], until[known]))

    def changed(self, changes: Ints, keys: Ints, after: Ints, until: Ints) -> tuple[Table, Table]:
        """Apply changes. Return the rows that `ending` returned before the changes, and those that it returns now.

        Rows are read once, or twice if the changes both add and remove rows.
        """
        comes = changes[:, TIMES] > 0
        if comes.all():
            self.rows.change(changes)
            now = self.ending(keys, after, until)
            return minus(now, changes), now
        was = self.ending(keys, after, until)
        self.rows.change(changes)
        return was, self.ending(keys, after, until) if comes.any() else minus(was, changes)


Tables = dict[PlanUnit, Table]
"""Rows, by the unit that outputs them."""


class Rerun(ABC):
    """A region in incremental revision.

    - `part`: the region's parts in a separate machine, which reruns keys.
    - `live`: the goals of the program.
    - `nothing`: an empty output for each unit.
    """

    remembers = True

    def __init__(self, plan: Plan, part: PartsTogether, live: LiveGoals, pool: Pool) -> None:
        self.part, self.live, self.nothing = part, live, part.nothing
        self.numbers = KeyNumbers(pool)
        goals = [(unit, goal) for unit, goal in part.goals_by_unit() if goal.as_arrays()]
        units = [unit for unit, _ in goals]
        self.own = [goal for _, goal in goals]
        keys = keys_of(plan, part, units)
        places = {unit: place for place, (unit, _) in enumerate(live)}
        self.places = [places[unit] for unit in units]
        number = places[part.goals_by_unit()[0][0]]
        self.region = Region(-1 - number, self.own, self.places, keys.held, self.numbers, True)
        widths = [len(self.nothing[name]) - FIRST for name in (*part.takes.events, *part.takes.units)]
        self.inputs = [_Input(side, width, self.numbers) for side, width in zip(keys.inputs, widths, strict=True)]
        self._made: dict[PlanUnit, int] = Counter()

    def begin(self, base: States, frontier: Frontier, length: int) -> None:
        """Begin with the states that all goals have at `frontier`.

        `length`: how far back input may change, in microseconds.
        """
        for region_input in self.inputs:
            region_input.rows.length = length
        self.forget(frontier.watermark)

    def came(self, inputs: Sequence[Table]) -> None:
        for region_input, table in zip(self.inputs, inputs, strict=True):
            if rows(table):
                region_input.rows.change(region_input.changes(table))

    def revise(
        self, inputs: Sequence[Table], part: PartsTogether, since: int, frontier: Frontier, counts: dict[PlanUnit, int]
    ) -> tuple[Tables, int]:
        """Revise the region. Return the changes of its output, and the number of keys that were rerun.

        First, keys that have late rows are rerun up to `since`. Then `part` processes the rows after `since` in order,
        up to `frontier`. `part` contains the region's goals in the running program. The number of output rows of each
        unit is added to `counts`.
        """
        late, ahead = zip(*(parted(table, table[END] <= since) for table in inputs), strict=True)
        delta, keys = Tables(), 0
        if any(map(rows, late)):
            changes = [region_input.changes(table) for region_input, table in zip(self.inputs, late, strict=True)]
            if any(map(len, changes)):
                delta, keys = self._again(changes, frontier.until(since))
        due = part.due()
        if any(map(rows, ahead)) or part.takes.always or (due is not None and due <= frontier.watermark):
            taken = self._taken(part, [by_arrival(table) for table in ahead], frontier, counts)
            self.came(ahead)
            delta = {unit: concat([delta[unit], taken[unit]]) if unit in delta else taken[unit] for unit in part.gives}
        return delta, keys

    def _taken(
        self, part: PartsTogether, inputs: Sequence[Table], frontier: Frontier, row_counts: dict[PlanUnit, int]
    ) -> Tables:
        outputs, count = GivenTables(self.nothing), len(part.takes.events)
        outputs.update(zip(part.takes.units, inputs[count:], strict=True))
        events = {event: table for event, table in zip(part.takes.events, inputs) if rows(table)}
        part.run(events, outputs, frontier, row_counts)
        return {unit: outputs[unit] for unit in part.gives}

    @abstractmethod
    def _again(self, changes: Sequence[Ints], frontier: Frontier) -> tuple[Tables, int]:
        """Rerun the keys that have changes, up to the frontier. Return the changes of the output, and the number of
        keys that were rerun."""

    def _whole(self, changes: Sequence[Ints]) -> bool:
        return any(source.shared and len(change) for source, change in zip(self.inputs, changes, strict=True))

    def _put(
        self, changes: Sequence[Ints], keys: Ints, after: Ints, until: Ints
    ) -> tuple[Sequence[Table], Sequence[Table]]:
        """Apply changes to the stored inputs. For each input, return the rows that `ending` returned before the changes
        and those that it returns now."""
        pairs = zip(self.inputs, changes, strict=True)
        was, now = zip(*(source.changed(change, keys, after, until) for source, change in pairs), strict=True)
        return was, now

    def _run(self, states: States, inputs: Sequence[Table], frontier: Frontier) -> Tables:
        """Run the region from `states`, which it may overwrite. Return its output."""
        for goal, state in zip(self.own, states, strict=True):
            goal.become_arrays(state)
        return self._taken(self.part, inputs, frontier, self._made)

    def _ended(self, frontier: Frontier) -> States:
        return [goal.needed_arrays(frontier) for goal in self.own]

    def forget(self, until: int) -> None:
        for region_input in self.inputs:
            region_input.rows.floor = until

    def _apart(self, old: Sequence[Tables], new: Sequence[Tables]) -> Tables:
        """Return the difference between the old and the new output of each unit. `old`, `new`: the outputs of all
        units, one entry per run."""
        widths = {unit: len(self.nothing[unit]) - FIRST for unit in self.part.gives}
        return {
            unit: apart(*(concatenated(width, [outputs[unit] for outputs in runs]) for runs in (old, new)))
            for unit, width in widths.items()
        }

    @abstractmethod
    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """See `Reviser`."""

    @property
    def keys(self) -> int:
        return self.numbers.count

    @property
    def nbytes(self) -> int:
        return sum(region_input.rows.nbytes for region_input in self.inputs)


class RerunFromStretches(Rerun):
    """A region of goals whose output may depend on input from any time before. A key is rerun from the state stored at
    the beginning of a stretch. The rerun also corrects the states of later stretches."""

    def __init__(
        self, plan: Plan, part: PartsTogether, live: LiveGoals, pool: Pool, stretches: Sequence[Stretch]
    ) -> None:
        super().__init__(plan, part, live, pool)
        self.stretches = stretches

    def _again(self, changes: Sequence[Ints], frontier: Frontier) -> tuple[Tables, int]:
        window = Window(self.stretches, frontier.watermark, frontier.until)
        begins = np.array([stretch.since for stretch in self.stretches])
        places = [np.searchsorted(begins, change[:, ROW + R_END], "left") - 1 for change in changes]
        whole = self._whole(changes)
        due = due_of(
            (
                (number, None if whole else change[place == number, KEY])
                for change, place in zip(changes, places, strict=True)
                for number in np.unique(place).tolist()
            ),
            self.numbers.count,
        )
        old, new = list[Tables](), list[Tables]()
        now: Sequence[Table] = ()

        def run_as_before(number: int, keys: Bools | None, before: States) -> States:
            nonlocal now
            every = np.arange(max(1, self.numbers.count)) if keys is None else np.flatnonzero(keys)
            after, until = self.stretches[number].since, window.until(number)
            mine = [change[place == number] for change, place in zip(changes, places, strict=True)]
            was, now = self._put(mine, every, np.full(len(every), after), np.full(len(every), until))
            old.append(self._run(before, was, frontier.until(until)))
            return copied(self._ended(frontier.until(until)))

        def run(number: int, keys: Bools | None, before: States) -> States:
            until = frontier.until(window.until(number))
            new.append(self._run(copied(before), now, until))
            return self._ended(until)

        keys = self.region.run_again(due, window, self.live, run, run_as_before=run_as_before)
        return self._apart(old, new), keys

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """See `Reviser`. This method applies the overlays of all stretches, so that their states are up to date. It
        returns an empty sequence."""
        for stretch in self.stretches:
            self.region.settle(stretch.state)
        return ()


class BoundedRerun(Rerun):
    """A region that consists of one goal whose output depends only on input of the last `memory` microseconds.

    A key is rerun from an empty state. The rerun begins `memory` before a change, and ends `memory` after it. Input
    rows are stored from the time `since` on. `base`: the goal's state at this time, or None if no rerun can need it any
    more.
    """

    def __init__(self, plan: Plan, part: PartsTogether, live: LiveGoals, pool: Pool, memory: int) -> None:
        super().__init__(plan, part, live, pool)
        self.memory = memory
        (self.empty,) = copied([goal.as_arrays() for goal in self.own])
        self.base: Arrays | None = None
        self.since = BEGINNING

    def begin(self, base: States, frontier: Frontier, length: int) -> None:
        super().begin(base, frontier, length)
        (self.base,), self.since = copied([base[place] for place in self.places]), frontier.watermark

    def _again(self, changes: Sequence[Ints], frontier: Frontier) -> tuple[Tables, int]:
        """Rerun the keys that `changes` concern. Return the changes of the output, and the number of these keys.

        Output that is more than `memory` later than a change stays the same.
        """
        times = np.concatenate([change[:, ROW + R_END] for change in changes])
        keys = np.concatenate([change[:, KEY] for change in changes])
        whole = self._whole(changes)
        if whole:
            count = max(1, self.numbers.count)
            keys, times = np.tile(np.arange(count), len(times)), np.repeat(times, count)
        ranges = _merged(keys, times - self.memory - 1, np.minimum(times + self.memory, frontier.watermark))
        old_rows, new_rows = self._put(changes, *ranges)
        before = self._before(*ranges[:2], whole)
        old, new = self._run(copied(before), old_rows, frontier), self._run(before, new_rows, frontier)
        recent = keys[times + self.memory >= frontier.watermark]
        if len(recent):
            now = self._ended(frontier)
            if whole:
                self.live[self.places[0]][1].become_arrays(copied(now)[0])
            else:
                mask, held = self._mask(recent), self.region.live(self.live).base
                self.region.become(self.live, held, mask, self.region.part(now, mask), (0,))
        return self._apart([old], [new]), len(np.unique(keys))

    def _mask(self, keys: Ints) -> Bools:
        mask = np.zeros(self.numbers.count, np.bool_)
        mask[keys] = True
        return mask

    def _before(self, keys: Ints, after: Ints, whole: bool) -> States:
        early = keys[after < self.since]
        if self.base is None or not len(early):
            return copied([self.empty])
        return copied([self.base]) if whole else self.region.part([self.base], self._mask(early))

    def forget(self, until: int) -> None:
        super().forget(until - self.memory)
        if self.base is not None and until - self.memory > self.since:
            self.base = None

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        return list(self._states_at(times))

    def _states_at(self, times: Sequence[int]) -> Iterator[Arrays]:
        every = np.arange(max(1, self.numbers.count))
        for time in times:
            after, until = np.full(len(every), time - self.memory - 1), np.full(len(every), time)
            taken = [region_input.ending(every, after, until) for region_input in self.inputs]
            self._run(self._before(every, after, True), taken, Frontier.at(time))
            (state,) = self._ended(Frontier.at(time))
            yield {name: array.copy() for name, array in state.items()}


def minus(table: Table, changes: Ints) -> Table:
    """Remove the rows of these changes from a table that is sorted by arrival."""
    if not len(changes):
        return table
    others = as_table(np.repeat(changes[:, ROW:], np.abs(changes[:, TIMES]), axis=0))
    return table.compress(differing(table, others)[0], axis=1)


def rerun_of(plan: Plan, part: PartsTogether, live: LiveGoals, pool: Pool, stretches: Sequence[Stretch]) -> Rerun:
    """Create the region for `part`, which contains the region's parts in a separate machine."""
    unit = part.unit
    if len(part.parts) == 1 and isinstance(part.parts[0], SingleGoal) and not isinstance(unit, str):
        memory = plan.nodes[unit].memory(plan.types(unit))
        if memory is not None:
            return BoundedRerun(plan, part, live, pool, memory)
    return RerunFromStretches(plan, part, live, pool, stretches)


def _merged(keys: Ints, after: Ints, until: Ints) -> tuple[Ints, Ints, Ints]:
    """Merge overlapping time ranges of the same key. `after`, `until`: the start and the end of each range.

    If `keys` contains several keys, the ends of each key's ranges must ascend with their starts.
    """
    order = np.lexsort((after, keys))
    keys, after, until = keys[order], after[order], until[order]
    reached = np.maximum.accumulate(until) if keys[0] == keys[-1] else until
    first = np.ones(len(keys), np.bool_)
    first[1:] = (keys[1:] != keys[:-1]) | (after[1:] > reached[:-1])
    places = np.flatnonzero(first)
    return keys[places], after[places], np.maximum.reduceat(until, places)
