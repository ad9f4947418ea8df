"""Rows that are stored by key, in order of time. A late row moves only the later rows of its key.

The rows of a key are contiguous. A row consists of words:

- its end, and two words that order rows of equal end
- all other words that identify the row
- in a bag, its multiplicity
- further words that are stored with the row

Changes are sorted in the same order as rows. So a key is updated in one pass from its first change on.
"""

from __future__ import annotations

import numpy as np

from cep.core.array_capacity import filled_room, roomy
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, rows
from cep.core.stable_order import stable_order
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Ints
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import grow

# Columns of a key: the place of its first row, the number of rows, and the room for rows.
AT, COUNT, ROOM = range(3)
R_END, R_START, R_ORDER, R_REST = range(4)
"""The first words of a row that is an occurrence. The end, the start and the order number determine the order of
rows."""
LEAST = 256
"""The number of new rows after which all keys are searched again for rows that have left the window."""
LEAST_TIMES, MOST_TIMES = 1.25, 4.0
"""The least and the greatest factor by which the room of a key may exceed its number of rows."""


@inside
def copied(rows, i, target, j):  # type: ignore[no-untyped-def]
    for word in range(rows.shape[1]):
        target[j, word] = rows[i, word]


@inside
def moved(rows, first, last, by):  # type: ignore[no-untyped-def]
    """Move the rows `first` to `last` by `by` places within the array."""
    if by > 0:
        for i in range(last - 1, first - 1, -1):
            copied(rows, i, rows, i + by)
    elif by < 0:
        for i in range(first, last):
            copied(rows, i, rows, i + by)


@inside
def first_from(rows, first, last, end):  # type: ignore[no-untyped-def]
    """Return the first of the rows `first` to `last` that does not end before `end`."""
    while first < last:
        middle = (first + last) >> 1
        if rows[middle, R_END] < end:
            first = middle + 1
        else:
            last = middle
    return first


@bare
def same_key(changes, c):  # type: ignore[no-untyped-def]
    """Return the index after the last change that has the same key as change `c`."""
    key = changes[c, KEY]
    while c < changes.shape[0] and changes[c, KEY] == key:
        c += 1
    return c


@bare
def coming(changes, c, stop):  # type: ignore[no-untyped-def]
    """Count the changes from `c` to before `stop` that may add a row. The caller makes room for this number of rows."""
    count = 0
    for d in range(c, stop):
        count += changes[d, TIMES] > 0
    return count


@inside
def turn(rows, i, last, changes, c, stop, words):  # type: ignore[no-untyped-def]
    """Compare the next row `i` with the next change `c`. At least one of them exists.

    Return -1 if the row comes first, 1 if the change comes first, and 0 if the change applies to this row.
    """
    if c == stop:
        return -1
    if i == last:
        return 1
    for word in range(words):
        if rows[i, word] != changes[c, ROW + word]:
            return -1 if rows[i, word] < changes[c, ROW + word] else 1
    return 0


@inside
def put(rows, i, j, changes, c, which, words, bag):  # type: ignore[no-untyped-def]
    """Write the next row to the place `j`.

    `which`: -1 to copy the old row `i`, 0 to apply change `c` to it, 1 to write the new row of change `c`. A new row
    must not overwrite an old one that is still needed, so `j` must be before `i`.

    Return the next `i`, `j` and `c`. Also return True if the change contradicts the rows: it removes a row that does
    not exist, or adds a row to a set that already has it.
    """
    if which < 0:
        if i != j:
            copied(rows, i, rows, j)
        return i + 1, j + 1, c, False
    times = changes[c, TIMES]
    if which == 0:
        times += rows[i, words] if bag else 1
        if times > 0 and i != j:
            copied(rows, i, rows, j)
        i += 1
    elif times > 0:
        for word in range(words):
            rows[j, word] = changes[c, ROW + word]
        for word in range(words, rows.shape[1]):
            rows[j, word] = 0
    if times > 0:
        if bag:
            rows[j, words] = times
        j += 1
    return i, j, c + 1, times < 0 or (times > 1 and not bag)


@bare
def _change(rows, spans, changes, words, bag):  # type: ignore[no-untyped-def]
    """Apply changes. The store of each key must have room. Return the number of changes that contradict the rows."""
    c = wrong = 0
    while c < changes.shape[0]:
        stop, number = same_key(changes, c), changes[c, KEY]
        start, last = spans[number, AT], spans[number, AT] + spans[number, COUNT]
        j = first_from(rows, start, last, changes[c, ROW + R_END])
        more = coming(changes, c, stop)
        moved(rows, j, last, more)
        i, last = j + more, last + more
        while c < stop:
            i, j, c, none = put(rows, i, j, changes, c, turn(rows, i, last, changes, c, stop, words), words, bag)
            wrong += none
        moved(rows, i, last, j - i)
        spans[number, COUNT] = j + last - i - start
    return wrong


@bare
def _moved(rows, spans, keys, rooms, used):  # type: ignore[no-untyped-def]
    """Move the rows of these keys to new places, from row `used` on.

    `rooms`: the new room of each key. The array must have room for all of them.
    """
    for i in range(len(keys)):
        start, count = spans[keys[i], AT], spans[keys[i], COUNT]
        for j in range(count):
            copied(rows, start + j, rows, used + j)
        spans[keys[i], AT], spans[keys[i], ROOM] = used, rooms[i]
        used += rooms[i]
    return used


@bare
def _closed_up(rows, spans, order):  # type: ignore[no-untyped-def]
    """Move the rows of all keys together, so that there are no gaps between keys.

    `order`: the keys in the order of their places.
    """
    used = 0
    for key in order:
        start, room = spans[key, AT], spans[key, ROOM]
        if room > 0 and start > used:
            for j in range(spans[key, COUNT]):
                copied(rows, start + j, rows, used + j)
            spans[key, AT] = used
        used += room
    return used


@bare
def _packed(rows, spans, packed):  # type: ignore[no-untyped-def]
    """Copy the rows of all keys into `packed`, one key after the other. Each key gets the room that `spans` says."""
    used = 0
    for key in range(spans.shape[0]):
        start, count = spans[key, AT], spans[key, COUNT]
        for j in range(count):
            copied(rows, start + j, packed, used + j)
        spans[key, AT] = used
        used += spans[key, ROOM]
    return used


@bare
def _forgotten(rows, spans, keys, floor, before, kept):  # type: ignore[no-untyped-def]
    """Drop the rows of these keys that do not end after `floor`.

    Copy the last `kept` words of each key's last dropped row into `before`.
    """
    for key in keys:
        start, count = spans[key, AT], spans[key, COUNT]
        gone = 0
        while gone < count and rows[start + gone, R_END] <= floor:
            gone += 1
        if gone == 0:
            continue
        for word in range(kept):
            before[key, word] = rows[start + gone - 1, rows.shape[1] - kept + word]
        for j in range(count - gone):
            copied(rows, start + gone + j, rows, start + j)
        spans[key, COUNT] = count - gone


@njit()
def _at(rows, spans, keys, ends, words, bag, matched):  # type: ignore[no-untyped-def]
    """Return the rows of each pair (key, end), and their count.

    A result row is the index of its pair, then the words of the row. In a `bag`, each row is repeated by its
    multiplicity. `matched`: a buffer for the result, which is replaced by a larger one if needed.
    """
    count = 0
    for i in range(len(keys)):
        start = spans[keys[i], AT]
        j, last = first_from(rows, start, start + spans[keys[i], COUNT], ends[i]), start + spans[keys[i], COUNT]
        while j < last and rows[j, R_END] == ends[i]:
            for _ in range(rows[j, words] if bag else 1):
                if count == matched.shape[0]:
                    matched = grow(matched, count + 1)
                matched[count, 0] = i
                for word in range(words):
                    matched[count, 1 + word] = rows[j, word]
                count += 1
            j += 1
    return matched, count


@bare
def _counted(rows, spans, keys, after, until, words, bag, runs):  # type: ignore[no-untyped-def]
    """Find the rows of each key that end after `after` and not after `until`. Write their ranges into `runs`.

    Return the number of rows. In a `bag`, each row counts by its multiplicity.
    """
    count = 0
    for i in range(keys.shape[0]):
        start, last = spans[keys[i], AT], spans[keys[i], AT] + spans[keys[i], COUNT]
        runs[i, 0], runs[i, 1] = (
            first_from(rows, start, last, after[i] + 1),
            first_from(rows, start, last, until[i] + 1),
        )
        if not bag:
            count += runs[i, 1] - runs[i, 0]
            continue
        for j in range(runs[i, 0], runs[i, 1]):
            count += rows[j, words]
    return count


@bare
def _listed(rows, runs, words, bag, listed):  # type: ignore[no-untyped-def]
    """Write the rows in these ranges into `listed`, which must have room. In a `bag`, rows are repeated by their
    multiplicity."""
    count = 0
    for i in range(runs.shape[0]):
        for j in range(runs[i, 0], runs[i, 1]):
            for _ in range(rows[j, words] if bag else 1):
                for word in range(words):
                    listed[count, word] = rows[j, word]
                count += 1


@bare
def _short(rows, spans, changes, short):  # type: ignore[no-untyped-def]
    """Find the keys that have too little room for their changes. Return their number.

    For each such key, `short` gets the key, the number of its changes, and the earliest end of its rows and changes.
    """
    c = count = 0
    while c < changes.shape[0]:
        stop, key = same_key(changes, c), changes[c, KEY]
        if spans[key, COUNT] + stop - c > spans[key, ROOM]:
            first = changes[c, ROW + R_END]
            if spans[key, COUNT] > 0:
                first = min(first, rows[spans[key, AT], R_END])
            short[count, 0], short[count, 1], short[count, 2] = key, stop - c, first
            count += 1
        c = stop
    return count


@bare
def _still_short(spans, short, count):  # type: ignore[no-untyped-def]
    """Reduce `short` to the keys that are still almost full after old rows have been dropped. Return their number."""
    left = 0
    for i in range(count):
        if 8 * (spans[short[i, 0], COUNT] + short[i, 1]) > 7 * spans[short[i, 0], ROOM]:
            for word in range(3):
                short[left, word] = short[i, word]
            left += 1
    return left


class KeyedRows:
    """A store of rows by key.

    - `words`: the number of words that identify a row. `rest`: the number of further words that each row has.
    - `bag`: True if rows have a multiplicity; False if the rows of a key are a set.
    - `kept`: when rows of a key are dropped, the last `kept` words of the last dropped row are saved in `before`.
    """

    def __init__(self, words: int, rest: int = 0, kept: int = 0, bag: bool = True) -> None:
        self.words, self.bag, self.kept = words, bag, kept
        self.rows = np.zeros((0, words + bag + rest), np.int64)
        self.spans = np.zeros((0, 3), np.int64)
        self.before = np.zeros((0, kept), np.int64)
        self.used = 0
        self.floor = np.iinfo(np.int64).min
        """The time up to which rows may be dropped. Rows that end later are kept."""
        self.length, self.latest = 0, self.floor
        """The length of the window in microseconds, and the latest end of any row so far."""
        self.come = self.stayed = 0
        """The number of changes since all keys were last searched for old rows, and how many rows remained then."""

    def know(self, keys: int) -> None:
        """Make room for keys with numbers below `keys`."""
        self.spans = filled_room(self.spans, keys, 0)
        self.before = filled_room(self.before, keys, 0)

    def change(self, changes: Ints) -> None:
        """Apply changes to the rows. The changes must be sorted as by `in_turn`."""
        if len(changes):
            self.make_room(changes)
            demand_there(_change(self.rows, self.spans, changes, self.words, self.bag))

    def make_room(self, changes: Ints) -> None:
        """Make room for the rows that these changes add."""
        if self.come > max(LEAST, self.stayed):
            self._tidy()
        self.come += len(changes)
        short = np.empty((len(changes), 3), np.int64)
        count = _short(self.rows, self.spans, changes, short)
        if not count:
            return
        self.latest = max(self.latest, int(changes[:, ROW + R_END].max()))
        self.forget(short[:count, 0].copy())
        keys, more, first = short[: _still_short(self.spans, short, count)].T
        needed = self.spans[keys, COUNT] + more
        self._widen(keys.copy(), needed, self._rooms(needed, first))

    def forget(self, keys: Ints) -> None:
        """Drop the rows of these keys that end at or before `self.floor`."""
        _forgotten(self.rows, self.spans, keys, self.floor, self.before, self.kept)

    def _tidy(self) -> None:
        self.forget(np.flatnonzero(self.spans[:, COUNT]))
        counts = self.spans[:, COUNT]
        filled = np.flatnonzero(counts)
        rooms = np.zeros_like(counts)
        rooms[filled] = self._rooms(counts[filled], self.rows[self.spans[filled, AT], R_END])
        self.spans[:, ROOM] = np.minimum(self.spans[:, ROOM], rooms)
        self.come, self.stayed = 0, int(counts.sum())
        if len(self.rows) > 3 * int(self.spans[:, ROOM].sum()):
            self._pack()

    def _rooms(self, counts: Ints, first: Ints) -> Ints:
        """Return the number of rows for which each key should have room.

        `counts`: the number of rows of each key. `first`: the end of its first row. It is assumed that rows continue to
        arrive at the same rate. The room is one and a half times the number of rows that are expected when the window
        is full.
        """
        times = np.clip(1.5 * self.length / np.maximum(self.latest - first, 1), LEAST_TIMES, MOST_TIMES)
        others = counts - 1  # a key that consists of the whole row gets no further rows
        return counts + roomy(0, 1) * ((others * (times - 1)).astype(np.int64) + np.minimum(others, 4))

    def _widen(self, keys: Ints, needed: Ints, rooms: Ints) -> None:
        if not len(keys):
            return
        more = int(rooms.sum())
        if self.used + more > len(self.rows) and 4 * (int(self.spans[:, ROOM].sum()) + more) <= 3 * len(self.rows):
            self.used = _closed_up(self.rows, self.spans, np.argsort(self.spans[:, AT], kind="stable"))
        if self.used + more <= len(self.rows):
            self.used = _moved(self.rows, self.spans, keys, rooms, self.used)
            return
        self.spans[keys, ROOM] = rooms
        self._pack()

    def _pack(self) -> None:
        whole = int(self.spans[:, ROOM].sum())
        packed = np.empty((roomy(whole, whole + whole // 2), self.rows.shape[1]), np.int64)
        self.used = _packed(self.rows, self.spans, packed)
        self.rows = packed

    def at(self, keys: Ints, ends: Ints, once: bool = False) -> tuple[Ints, Ints]:
        """Return the rows of each pair (key, end) and, for each row, the index of its pair.

        Rows are repeated by their multiplicity. `once`: True to return each row once.
        """
        room = np.empty((len(keys), self.words + 1), np.int64)
        matched, count = _at(self.rows, self.spans, keys, ends, self.words, self.bag and not once, room)
        return matched[:count, 1:], matched[:count, 0]

    def ending(self, keys: Ints, after: Ints, until: Ints) -> Ints:
        """Return the rows of each key that end after `after` and not after `until`, repeated by their multiplicity."""
        runs = np.empty((len(keys), 2), np.int64)
        count = _counted(self.rows, self.spans, keys, after, until, self.words, self.bag, runs)
        listed = np.empty((count, self.words), np.int64)
        _listed(self.rows, runs, self.words, self.bag, listed)
        return listed

    def every(self) -> tuple[Ints, Ints]:
        """Return all rows, sorted by key, and the key of each row."""
        counts = self.spans[:, COUNT]
        places = np.repeat(self.spans[:, AT] - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        return self.rows[places], np.repeat(np.arange(len(counts)), counts)

    @property
    def count(self) -> int:
        """Return the number of stored rows."""
        return int(self.spans[:, COUNT].sum())

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + self.spans.nbytes + self.before.nbytes)


def demand_there(wrong: int) -> None:
    """Assert that no change contradicts the rows. `wrong`: the number of changes that contradict them."""
    assert not wrong, "what goes was there"


def as_table(matched: Ints) -> Table:
    """Convert rows that are occurrences to a table, sorted by arrival."""
    table = np.empty((matched.shape[1] + 1, len(matched)), np.int64)
    table[END], table[START], table[ORDER] = matched[:, R_END], matched[:, R_START], matched[:, R_ORDER]
    table[IDENTITY] = 0
    table[FIRST:] = matched[:, R_REST:].T
    return by_arrival(table)


# Columns of a change: the key, the number of rows added (negative: removed), and then the row.
KEY, TIMES, ROW = range(3)
COMES, GOES = 1, -1
NONE = -1
"""A mark in the array `words` for a word that no matrix row of the table provides. The word is then 0."""
SHORT = 64
"""The maximum number of changes of a key that are sorted by insertion."""
SPREAD = 8
"""The minimum number of known keys per change for which changes are sorted without a scan of all keys."""


@bare
def collected(table, slots, words, changes):  # type: ignore[no-untyped-def]
    """Convert the rows of a table to changes. Rows without a key are left out. Return the number of changes.

    `slots`: the key of each row, or -1. `words`: the matrix row that provides each word of a change.
    """
    count = 0
    for i in range(table.shape[1]):
        if slots[i] < 0:
            continue
        changes[count, KEY] = slots[i]
        changes[count, TIMES] = GOES if table[IDENTITY, i] == GOES else COMES
        for word in range(len(words)):
            changes[count, ROW + word] = 0 if words[word] == NONE else table[words[word], i]
        count += 1
    return count


@bare
def _by_key(changes, begins, sorted_changes):  # type: ignore[no-untyped-def]
    """Sort changes by key, stably, into `sorted_changes`.

    `begins`: a buffer of zeros, one for each key and one more.
    """
    for i in range(changes.shape[0]):
        begins[changes[i, KEY] + 1] += 1
    for key in range(1, len(begins)):
        begins[key] += begins[key - 1]
    for i in range(changes.shape[0]):
        place = begins[changes[i, KEY]]
        for word in range(changes.shape[1]):
            sorted_changes[place, word] = changes[i, word]
        begins[changes[i, KEY]] = place + 1


@inside
def _same(changes, c, d):  # type: ignore[no-untyped-def]
    for word in range(changes.shape[1]):
        if word != TIMES and changes[c, word] != changes[d, word]:
            return False
    return True


@inside
def _before(changes, c, d):  # type: ignore[no-untyped-def]
    for word in range(ROW, changes.shape[1]):
        if changes[c, word] != changes[d, word]:
            return changes[c, word] < changes[d, word]
    return False


@bare
def _by_row(changes):  # type: ignore[no-untyped-def]
    """Sort the changes of each key by row. They must be sorted by key.

    Return False if the sort would take too many moves.
    """
    first = 0
    while first < changes.shape[0]:
        last = first + 1
        while last < changes.shape[0] and changes[last, KEY] == changes[first, KEY]:
            if _before(changes, last, last - 1):
                if last - first >= SHORT:
                    return False
                c = last
                while c > first and _before(changes, c, c - 1):
                    for word in range(changes.shape[1]):
                        changes[c, word], changes[c - 1, word] = changes[c - 1, word], changes[c, word]
                    c -= 1
            last += 1
        first = last
    return True


@bare
def _netted(changes):  # type: ignore[no-untyped-def]
    """Merge changes that apply to the same row, and drop those that cancel out. Return the number of remaining changes.

    The changes must be sorted.
    """
    count = first = 0
    while first < changes.shape[0]:
        last, times = first + 1, changes[first, TIMES]
        while last < changes.shape[0] and _same(changes, first, last):
            times += changes[last, TIMES]
            last += 1
        if times != 0:
            for word in range(changes.shape[1]):
                changes[count, word] = changes[first, word]
            changes[count, TIMES] = times
            count += 1
        first = last
    return count


def in_turn(changes: Ints, known: int) -> Ints:
    """Sort changes by key and row, and merge those that apply to the same row. `known`: the number of known keys."""
    if len(changes) < 2:
        return changes
    if known <= SPREAD * len(changes):
        ordered = np.empty_like(changes)
        _by_key(changes, np.zeros(known + 1, np.int64), ordered)
    else:
        ordered = changes[stable_order(np.ascontiguousarray(changes[:, KEY]))]
    if not _by_row(ordered):
        ordered = ordered[np.lexsort((*ordered[:, :ROW:-1].T, ordered[:, ROW], ordered[:, KEY]))]
    return ordered[: _netted(ordered)]


def changes_of(table: Table, slots: Ints, words: Ints, known: int) -> Ints:
    """Convert a table of changes to sorted changes of keyed rows.

    `slots`: the key of each row; rows with -1 are left out. `words`: see `collected`. `known`: the number of known
    keys.
    """
    changes = np.empty((len(slots), ROW + len(words)), np.int64)
    return in_turn(changes[: collected(table, slots, words, changes)], known)


def words_of(arguments: int) -> Ints:
    """Return the matrix rows that contain the end, the start, the order and the arguments of occurrences.

    `arguments`: the number of arguments.
    """
    return np.array([END, START, ORDER, *range(FIRST, FIRST + arguments)])


def signed(going: Table, coming: Table) -> Table:
    """Combine removed rows (`going`) and added rows (`coming`) into one table of changes."""
    if not rows(going):
        return coming
    changes = np.concatenate([going, coming], axis=1)
    changes[IDENTITY, : rows(going)] = GOES
    return changes


def parts_of(changes: Table) -> tuple[Table, Table]:
    """Split a table of changes into removed and added rows."""
    goes = changes[IDENTITY] == GOES
    if not goes.any():
        return changes[:, :0], changes
    going, coming = changes.compress(goes, axis=1), changes.compress(~goes, axis=1)
    going[IDENTITY] = 0
    return going, coming
