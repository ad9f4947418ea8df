"""The reviser of joins under the policy `chronological`, if the right side completes each pair. It stores the rows of
both sides, and the partner of each right row.

When a row changes, the rows of its key are matched again, from the changed row on, until the waiting left rows are the
same as without the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, empty
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.contract import Arrays, Bools, Goal, Ints, StateKeys
from cep.operators.goals.intrinsics import inside
from cep.operators.goals.keyed_rows import (
    AT,
    COMES,
    COUNT,
    GOES,
    KEY,
    R_END,
    R_ORDER,
    R_REST,
    R_START,
    ROW,
    TIMES,
    KeyedRows,
    as_table,
    first_from,
    words_of,
)
from cep.operators.goals.keys import Keys, grow
from cep.operators.goals.pairs.bytecode import run
from cep.operators.goals.pairs.join import JoinGoal
from cep.operators.goals.pairs.pairing import S_BOUNDS, ordered, read_spec, relates
from cep.operators.goals.reviser import PairReviser, Revised
from cep.operators.goals.store import ARRIVAL, BEGIN, FOREVER, HEADER, sortable
from cep.operators.goals.store import END as STORED_END

# Words stored with a left row: 1 if a right row has taken it, the end of that right row, and a mark. A right row has 1
# if it has a partner, and the words of the partner.
TAKEN, TIME, MARK = range(3)
# The mark of a left row: whether it waits without the changes, and with them. KNOWN: it is not new.
WAITED, WAITS, KNOWN = 1, 2, 4


@inside
def _place(rows, first, last, words, row, i, offset):  # type: ignore[no-untyped-def]
    """Return the place of a row among the sorted rows `first` to `last`, or -1.

    The row is given by its words. They are in line `i` of the array `row`, from column `offset` on.
    """
    while first < last:
        middle = (first + last) >> 1
        word = 0
        while word < words and rows[middle, word] == row[i, offset + word]:
            word += 1
        if word == words:
            return middle
        if rows[middle, word] < row[i, offset + word]:
            first = middle + 1
        else:
            last = middle
    return np.int64(-1)


@inside
def _before(rows, i, others, j):  # type: ignore[no-untyped-def]
    if rows[i, R_END] != others[j, R_END]:
        return rows[i, R_END] < others[j, R_END]
    if rows[i, R_START] != others[j, R_START]:
        return rows[i, R_START] < others[j, R_START]
    return rows[i, R_ORDER] < others[j, R_ORDER]


@inside
def _waiting(onward, p):  # type: ignore[no-untyped-def]
    """Return the number of the first left row from `p` on that has no partner yet, even if it has not arrived.

    `onward`: for each row that has no partner, its own row number. For each other row, the number of a later row.
    """
    while onward[p] != p:
        onward[p] = onward[onward[p]]
        p = onward[p]
    return p


@inside
def _preferred(rule, left, p, best):  # type: ignore[no-untyped-def]
    if rule.by_left >= 0:
        column = R_REST + rule.by_left
        return sortable(left[p, column], rule.by_float) > sortable(left[best, column], rule.by_float)
    if rule.longest:
        return left[p, R_START] < left[best, R_START]
    return left[p, R_START] > left[best, R_START]


@inside
def _partner(spec, rule, condition, left, first, arrived, onward, begin, now):  # type: ignore[no-untyped-def]
    """Return the left row that becomes the partner of a right row, or -1.

    - `first`, `arrived`: the range of left rows that may have no partner yet. `onward`: see `_waiting`.
    - `begin`, `now`: the start and the end of the right row.
    """
    code, literals, stack, current = condition
    floor = now - rule.within
    if rule.most_gap < FOREVER:
        floor = max(floor, begin - rule.most_gap)
    best = np.int64(-1)
    p = _waiting(onward, first_from(left, first, arrived, floor))
    while p < arrived:
        end = left[p, R_END]
        if end > begin - rule.least_gap or (best >= 0 and end > left[best, R_END]):
            break
        start = min(begin, left[p, R_START])
        fits = now - start <= rule.within and relates(spec, S_BOUNDS, left[p, R_START], end, begin, now)
        if fits and rule.orders:
            fits = ordered(spec, left, p, R_REST, current, True)
        if fits and rule.tested:
            last = code.shape[0]
            fits = run(code, np.int64(0), last, literals, stack, left, p, R_REST, current, True, start, now) == 1
        if fits and (best < 0 or _preferred(rule, left, p, best)):
            best = p
        p = _waiting(onward, p + 1)
    return best


@inside
def _differs(mark):  # type: ignore[no-untyped-def]
    """Return 1 if exactly one of the flags WAITED and WAITS is set in `mark`, else 0."""
    return (mark & 1) ^ (mark >> 1 & 1)


@njit()
def _tell(pairs, count, sign, left, p, offset, words, right, j):  # type: ignore[no-untyped-def]
    if count == pairs.shape[0]:
        pairs = grow(pairs, count + 1)
    pairs[count, 0] = sign
    for word in range(words):
        pairs[count, 1 + word] = left[p, offset + word]
    for word in range(right.shape[1] - words - 1):
        pairs[count, 1 + words + word] = right[j, word]
    return pairs, count + 1


@njit()
def _leave(left, left_spans, right, right_spans, left_changes, right_changes, words, until, pairs):  # type: ignore[no-untyped-def]
    """Prepare for the removal of rows. Return the pairs of right rows that are removed, and their number.

    `until` gets, for each removed left row that has a partner, the time at which it got this partner.
    """
    count, its_words = 0, right.shape[1] - words - 1
    for c in range(left_changes.shape[0]):
        key = left_changes[c, KEY]
        if left_changes[c, TIMES] > 0:
            continue
        p = _place(left, left_spans[key, AT], left_spans[key, AT] + left_spans[key, COUNT], words, left_changes, c, ROW)
        if p >= 0 and left[p, words + TAKEN]:
            until[c] = left[p, words + TIME]
    for d in range(right_changes.shape[0]):
        key = right_changes[d, KEY]
        if right_changes[d, TIMES] > 0:
            continue
        first, last = right_spans[key, AT], right_spans[key, AT] + right_spans[key, COUNT]
        j = _place(right, first, last, its_words, right_changes, d, ROW)
        if j >= 0 and right[j, its_words]:
            pairs, count = _tell(pairs, count, GOES, right, j, its_words + 1, words, right, j)
            first, last = left_spans[key, AT], left_spans[key, AT] + left_spans[key, COUNT]
            p = _place(left, first, last, words, right, j, its_words + 1)
            if p >= 0:  # it waits from now on, as if it were new
                left[p, words + TAKEN] = left[p, words + MARK] = 0
    return pairs, count


@njit()
def _match(  # type: ignore[no-untyped-def]
    spec, condition, left, left_spans, right, right_spans, left_changes, right_changes, words, until, onward, pairs,
    count,
):  # fmt: skip
    """Match the rows of keys again, from their changes on. The rows must include the changes.

    - `words`: the number of words that identify a left row.
    - `until`: for each change of a left row, a time up to which its key must be matched again.
    - `onward`: a buffer that has one more number than there are left rows.
    - `pairs`, `count`: the changes of pairs so far. Return both, with the changes that this call finds.
    """
    code, _, _, current = condition
    rule = read_spec(spec, code)
    taken, time, note, its_words = words + TAKEN, words + TIME, words + MARK, right.shape[1] - words - 1
    c = d = 0
    while c < left_changes.shape[0] or d < right_changes.shape[0]:
        if d == right_changes.shape[0] or (c < left_changes.shape[0] and left_changes[c, KEY] <= right_changes[d, KEY]):
            key = left_changes[c, KEY]
        else:
            key = right_changes[d, KEY]
        least, last = np.int64(-END_OF_TIME), left_spans[key, AT] + left_spans[key, COUNT]
        begins, its_last = right_spans[key, AT], right_spans[key, AT] + right_spans[key, COUNT]
        stop, its_stop = c, d
        while stop < left_changes.shape[0] and left_changes[stop, KEY] == key:
            least = max(least, until[stop])
            stop += 1
        while its_stop < right_changes.shape[0] and right_changes[its_stop, KEY] == key:
            its_stop += 1
        while c < stop or d < its_stop:
            since = END_OF_TIME
            if c < stop:
                since = left_changes[c, ROW + R_END]
            if d < its_stop:
                since = min(since, right_changes[d, ROW + R_END])
            first = first_from(left, left_spans[key, AT], last, since - rule.within)
            i, j = first_from(left, first, last, since), first_from(right, begins, its_last, since)
            # The number of left rows that wait only with or only without the changes, and their latest end.
            differing, latest = 0, np.int64(-END_OF_TIME)
            for p in range(first, i):
                if left[p, taken] and left[p, time] < since:
                    left[p, note], onward[p] = 0, p + 1
                    continue
                onward[p] = p
                left[p, note] = WAITS | (WAITED if left[p, note] & KNOWN else 0)
                if _differs(left[p, note]):
                    differing, latest = differing + 1, left[p, R_END]
            onward[i] = i
            passed = since - 1
            while i < last or j < its_last:
                left_next = i < last and (j == its_last or not _before(right, j, left, i))
                now = left[i, R_END] if left_next else right[j, R_END]
                if now > passed:  # another instant
                    coming = END_OF_TIME
                    if c < stop:
                        coming = left_changes[c, ROW + R_END]
                    if d < its_stop:
                        coming = min(coming, right_changes[d, ROW + R_END])
                    same = differing == 0 or latest < now - rule.within
                    if same and now > least and coming - rule.within > now:
                        break
                    while c < stop and left_changes[c, ROW + R_END] <= now:
                        c += 1
                    while d < its_stop and right_changes[d, ROW + R_END] <= now:
                        d += 1
                    passed = now
                if left_next:
                    left[i, note] = WAITS | (WAITED if left[i, note] & KNOWN else 0)
                    if _differs(left[i, note]):
                        differing, latest = differing + 1, max(latest, now)
                    i += 1
                    onward[i] = i
                    continue
                for word in range(its_words - R_REST):
                    current[word] = right[j, R_REST + word]
                best = _partner(spec, rule, condition, left, first, i, onward, right[j, R_START], now)
                was = right[j, its_words] != 0
                same = was == (best >= 0)
                for word in range(words if same and was else 0):
                    same = same and left[best, word] == right[j, its_words + 1 + word]
                if was and not same:
                    pairs, count = _tell(pairs, count, GOES, right, j, its_words + 1, words, right, j)
                    right[j, its_words] = 0
                    p = _place(left, first, i, words, right, j, its_words + 1)
                    if p >= 0:
                        if left[p, note] & WAITS:
                            left[p, taken] = 0
                        differing -= _differs(left[p, note])
                        left[p, note] &= ~WAITED
                        differing += _differs(left[p, note])
                        latest = max(latest, left[p, R_END])
                if best >= 0:
                    differing -= _differs(left[best, note])
                    left[best, note] &= ~(WAITS | WAITED) if same else ~WAITS
                    differing += _differs(left[best, note])
                    latest = max(latest, left[best, R_END])
                    onward[best] = best + 1
                    left[best, taken], left[best, time] = 1, now
                if best >= 0 and not same:
                    pairs, count = _tell(pairs, count, COMES, left, best, 0, words, right, j)
                    right[j, its_words] = 1
                    for word in range(words):
                        right[j, its_words + 1 + word] = left[best, word]
                j += 1
            if i == last and j == its_last:
                c, d = stop, its_stop
            for p in range(first, i):
                left[p, note] = KNOWN
    return pairs, count


@njit()
def _held(left, spans, keys, after, time, words, held):  # type: ignore[no-untyped-def]
    """Return the left rows of `keys` that have no partner at a time. Rows that do not end after `after` are omitted."""
    count = 0
    for key in keys:
        start, last = spans[key, AT], spans[key, AT] + spans[key, COUNT]
        for p in range(first_from(left, start, last, after + 1), first_from(left, start, last, time + 1)):
            if left[p, words + TAKEN] and left[p, words + TIME] <= time:
                continue
            if count == held.shape[0]:
                held = grow(held, count + 1)
            for word in range(words):
                held[count, word] = left[p, word]
            count += 1
    return held[:count]


class ChronologicalReviser(PairReviser):
    """The reviser of a join under the policy `chronological`. `within`: how long a left row can wait for a partner, in
    microseconds."""

    remembers = True

    def __init__(self, goal: JoinGoal, within: int) -> None:
        spec = goal.spec
        self.spec, self.numbers, self.within = spec, goal.numbers, within
        self.known = Keys(len(spec.left_key))
        self.columns = goal.left_key, goal.right_key
        self.words = words_of(spec.left_width), words_of(spec.right_width)
        self.left = KeyedRows(3 + spec.left_width, 3, bag=False)
        self.right = KeyedRows(3 + spec.right_width, 4 + spec.left_width, bag=False)
        self.sides = self.left, self.right
        current, stack = (np.empty_like(goal.scratch[number]) for number in (0, 2))
        self.condition = goal.code, goal.literals, stack, current
        self.take_left, self.take_right = goal.take_left, goal.take_right

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        for side in self.sides:
            side.length = length
        self.forget(frontier.watermark)
        hot, cold = state["hot"], state["cold"]
        table = np.zeros((FIRST + self.spec.left_width, len(hot)), np.int64)
        table[START], table[END], table[ORDER] = hot[:, BEGIN], hot[:, STORED_END], cold[:, ARRIVAL]
        table[FIRST:] = cold[:, HEADER : HEADER + self.spec.left_width].T
        self.came([table, empty(self.spec.right_width)])

    def came(self, inputs: Sequence[Table]) -> None:
        self._matched(self.changes(inputs))

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        changes = self.changes(inputs)
        if not any(map(len, changes)):
            return Revised(empty(len(self.take_left) + len(self.take_right)))
        table = self._pairs(self._matched(changes))
        changed, again = np.zeros(self.known.count, np.bool_), np.zeros(self.known.count, np.bool_)
        for change in changes:
            changed[change[:, KEY]] = True
            again[change[change[:, ROW + R_END] <= since, KEY]] = True
        self._put_right(cast(JoinGoal, goal), changed, frontier)
        return Revised(table, int(np.count_nonzero(again)))

    def _matched(self, changes: Sequence[Ints]) -> Ints:
        """Apply changes to the rows of both sides. Return the pairs that are removed and added (`_tell`)."""
        left, right = self.sides
        pairs, count = np.empty((sum(map(len, changes)), 1 + left.words + right.words), np.int64), 0
        until = np.full(len(changes[0]), -END_OF_TIME)
        if any(bool((change[:, TIMES] < 0).any()) for change in changes):
            pairs, count = _leave(left.rows, left.spans, right.rows, right.spans, *changes, left.words, until, pairs)
        for side, change in zip(self.sides, changes):
            side.change(change)
        pairs, count = _match(
            self.numbers, self.condition, left.rows, left.spans, right.rows, right.spans, *changes, left.words, until,
            np.empty(len(left.rows) + 1, np.int64), pairs, count,
        )  # fmt: skip
        matched: Ints = pairs[:count]
        return matched

    def _pairs(self, pairs: Ints) -> Table:
        left, right = pairs[:, 1 : 1 + self.left.words], pairs[:, 1 + self.left.words :]
        table = np.empty((FIRST + len(self.take_left) + len(self.take_right), len(pairs)), np.int64)
        table[IDENTITY] = np.minimum(pairs[:, 0], 0)
        table[START] = np.minimum(left[:, R_START], right[:, R_START])
        table[END] = np.maximum(left[:, R_END], right[:, R_END])
        table[ORDER] = right[:, R_ORDER]
        table[FIRST : FIRST + len(self.take_left)] = left[:, R_REST + self.take_left].T
        table[FIRST + len(self.take_left) :] = right[:, R_REST + self.take_right].T
        return table

    def _put_right(self, goal: JoinGoal, changed: Bools, frontier: Frontier) -> None:
        """Replace the state of keys in the goal. If most keys have changed, replace the whole state."""
        if 2 * int(np.count_nonzero(changed)) > self.known.count:
            goal.become_arrays(self._state(np.arange(self.known.count), frontier))
            return

        def test(columns: Ints) -> Bools:
            numbers = self.known.find(columns)
            is_changed: Bools = (numbers >= 0) & changed[numbers]
            return is_changed

        keys = StateKeys((self.spec.left_key, self.spec.right_key), (test, test))
        others = goal.others(goal.as_arrays(), keys)
        goal.become_arrays(goal.together(others, self._state(np.flatnonzero(changed), frontier)))

    def _state(self, keys: Ints, frontier: Frontier) -> Arrays:
        left, time = self.left, frontier.watermark
        room = np.empty((len(keys), left.words), np.int64)
        held = _held(left.rows, left.spans, keys, time - self.within, time, left.words, room)
        goal = JoinGoal(self.spec)
        goal.step([as_table(held), empty(self.spec.right_width)], frontier)
        return goal.needed_arrays(frontier)

    def forget(self, until: int) -> None:
        """See `Reviser`. A row of the left side is needed until `within` has passed after its end."""
        self.left.floor, self.right.floor = until - self.within, until

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        return [self._state(np.arange(self.known.count), Frontier.at(time)) for time in times]
