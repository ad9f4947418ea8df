"""Rows of keys, those of each key next to each other in their order: what comes late moves only what its key has after
it.

A row is its end, two more words by which rows of one end are in order, and whatever else tells it from others. Behind
these words stands how often it is there, of a bag, and then what is kept with it. Rows are in the order of all words,
as their changes are (`cep.operators.goals.keyed_rows`): a key is changed in one pass over what it has from its first
change on.
"""

from __future__ import annotations

import numpy as np

from cep.core.array_capacity import filled_room, roomy
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, contiguous, rows
from cep.core.stable_order import stable_order
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Ints
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import grow

# of each key: where its rows begin, how many they are, for how many there is room
AT, COUNT, ROOM = range(3)
R_END, R_START, R_ORDER, R_REST = range(4)
"""The first words of a row that is an occurrence. The first three put rows in order."""
LEAST = 256
"""The fewest new rows before all keys are searched for rows that have left the window."""
LEAST_TIMES, MOST_TIMES = 1.25, 4.0
"""A key gets room for so many times the rows that it has, and at most."""


@inside
def copied(rows, i, made, j):  # type: ignore[no-untyped-def]
    """A row at another place."""
    for word in range(rows.shape[1]):
        made[j, word] = rows[i, word]


@inside
def moved(rows, first, last, by):  # type: ignore[no-untyped-def]
    """Rows at other places of the same array, so many further on."""
    if by > 0:
        for i in range(last - 1, first - 1, -1):
            copied(rows, i, rows, i + by)
    elif by < 0:
        for i in range(first, last):
            copied(rows, i, rows, i + by)


@inside
def first_from(rows, first, last, end):  # type: ignore[no-untyped-def]
    """The first of these rows that ends at a time or later."""
    while first < last:
        middle = (first + last) >> 1
        if rows[middle, R_END] < end:
            first = middle + 1
        else:
            last = middle
    return first


@bare
def same_key(changes, c):  # type: ignore[no-untyped-def]
    """After the last change of the key of this one."""
    key = changes[c, KEY]
    while c < changes.shape[0] and changes[c, KEY] == key:
        c += 1
    return c


@bare
def coming(changes, c, stop):  # type: ignore[no-untyped-def]
    """Count the changes that add rows. The rows to change are preceded by as much room."""
    count = 0
    for d in range(c, stop):
        count += changes[d, TIMES] > 0
    return count


@inside
def turn(rows, i, last, changes, c, stop, words):  # type: ignore[no-untyped-def]
    """Compare the next row with the next change. At least one of them exists.

    Returns -1 if the row comes first, 1 if the change does, and 0 if the change is of that row.
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
    """Write the next row, chosen by `which`, to the place `j`. A place before `i` is free if the row is a change's.

    Returns the next row, place and change, and True if the change had no effect: it removes a row that was not there,
    or adds one to a set that has it.
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
    """Apply changes, for which each key has room. Returns the number of changes without effect."""
    c = wrong = 0
    while c < changes.shape[0]:
        stop, number = same_key(changes, c), changes[c, KEY]
        at, last = spans[number, AT], spans[number, AT] + spans[number, COUNT]
        j = first_from(rows, at, last, changes[c, ROW + R_END])
        more = coming(changes, c, stop)
        moved(rows, j, last, more)
        i, last = j + more, last + more
        while c < stop:
            i, j, c, none = put(rows, i, j, changes, c, turn(rows, i, last, changes, c, stop, words), words, bag)
            wrong += none
        moved(rows, i, last, j - i)
        spans[number, COUNT] = j + last - i - at
    return wrong


@bare
def _moved(rows, spans, keys, rooms, used):  # type: ignore[no-untyped-def]
    """Move keys to new places from `used` on, with so much room each. The rows must have room for all of them."""
    for i in range(len(keys)):
        at, count = spans[keys[i], AT], spans[keys[i], COUNT]
        for j in range(count):
            copied(rows, at + j, rows, used + j)
        spans[keys[i], AT], spans[keys[i], ROOM] = used, rooms[i]
        used += rooms[i]
    return used


@bare
def _closed_up(rows, spans, order):  # type: ignore[no-untyped-def]
    """The rows of all keys where they are, without what lies between; `order`: the keys as they lie."""
    used = 0
    for key in order:
        at, room = spans[key, AT], spans[key, ROOM]
        if room > 0 and at > used:
            for j in range(spans[key, COUNT]):
                copied(rows, at + j, rows, used + j)
            spans[key, AT] = used
        used += room
    return used


@bare
def _packed(rows, spans, made):  # type: ignore[no-untyped-def]
    """The rows of all keys into `made`, one after the other, each with the room that it is to have."""
    used = 0
    for key in range(spans.shape[0]):
        at, count = spans[key, AT], spans[key, COUNT]
        for j in range(count):
            copied(rows, at + j, made, used + j)
        spans[key, AT] = used
        used += spans[key, ROOM]
    return used


@bare
def _forgotten(rows, spans, keys, floor, before, kept):  # type: ignore[no-untyped-def]
    """Rows of these keys that end at or before `floor` go; the last words of the last of them are kept in `before`,
    if there are any."""
    for key in keys:
        at, count = spans[key, AT], spans[key, COUNT]
        gone = 0
        while gone < count and rows[at + gone, R_END] <= floor:
            gone += 1
        if gone == 0:
            continue
        for word in range(kept):
            before[key, word] = rows[at + gone - 1, rows.shape[1] - kept + word]
        for j in range(count - gone):
            copied(rows, at + gone + j, rows, at + j)
        spans[key, COUNT] = count - gone


@njit()
def _at(rows, spans, keys, ends, words, bag, made):  # type: ignore[no-untyped-def]
    """The rows of these keys that have these ends, each with the number of the pair, and of a `bag` as often as it is
    there; they grow as they must."""
    count = 0
    for i in range(len(keys)):
        at = spans[keys[i], AT]
        j, last = first_from(rows, at, at + spans[keys[i], COUNT], ends[i]), at + spans[keys[i], COUNT]
        while j < last and rows[j, R_END] == ends[i]:
            for _ in range(rows[j, words] if bag else 1):
                if count == made.shape[0]:
                    made = grow(made, count + 1)
                made[count, 0] = i
                for word in range(words):
                    made[count, 1 + word] = rows[j, word]
                count += 1
            j += 1
    return made, count


@bare
def _counted(rows, spans, keys, after, until, words, bag, runs):  # type: ignore[no-untyped-def]
    """Find each key's rows that end after one time and at or before another. Returns their count with multiplicity."""
    count = 0
    for i in range(keys.shape[0]):
        at, last = spans[keys[i], AT], spans[keys[i], AT] + spans[keys[i], COUNT]
        runs[i, 0], runs[i, 1] = first_from(rows, at, last, after[i] + 1), first_from(rows, at, last, until[i] + 1)
        if not bag:
            count += runs[i, 1] - runs[i, 0]
            continue
        for j in range(runs[i, 0], runs[i, 1]):
            count += rows[j, words]
    return count


@bare
def _listed(rows, runs, words, bag, made):  # type: ignore[no-untyped-def]
    """The rows of these runs, each as often as it is there, into `made`, which has room for them."""
    count = 0
    for i in range(runs.shape[0]):
        for j in range(runs[i, 0], runs[i, 1]):
            for _ in range(rows[j, words] if bag else 1):
                for word in range(words):
                    made[count, word] = rows[j, word]
                count += 1


@bare
def _short(rows, spans, changes, short):  # type: ignore[no-untyped-def]
    """The keys that have no room for all their changes, with how many these are, and the first end of rows and changes;
    gives how many keys."""
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
    """Move to the front the keys that are still full, or nearly so, without the rows that may be dropped. Returns
    their count."""
    left = 0
    for i in range(count):
        if 8 * (spans[short[i, 0], COUNT] + short[i, 1]) > 7 * spans[short[i, 0], ROOM]:
            for word in range(3):
                short[left, word] = short[i, word]
            left += 1
    return left


class KeyedRows:
    """Rows of so many `words`, behind which stands how often each is there, of a `bag`, and `rest` more words; the last
    `kept` of these of the last row that is forgotten stay with its key (`before`)."""

    def __init__(self, words: int, rest: int = 0, kept: int = 0, bag: bool = True) -> None:
        self.words, self.bag, self.kept = words, bag, kept
        self.rows = np.zeros((0, words + bag + rest), np.int64)
        self.spans = np.zeros((0, 3), np.int64)
        self.before = np.zeros((0, kept), np.int64)
        self.used = 0
        self.floor = np.iinfo(np.int64).min
        """Rows that end at or before it may be dropped."""
        self.length, self.latest = 0, self.floor
        """The length of the window in microseconds, and an end within it."""
        self.come = self.stayed = 0
        """The number of changes since all keys were searched, and of the rows that remained then."""

    def know(self, keys: int) -> None:
        """Make room for so many keys."""
        self.spans = filled_room(self.spans, keys, 0)
        self.before = filled_room(self.before, keys, 0)

    def change(self, changes: Ints) -> None:
        """Apply changes."""
        if len(changes):
            self.make_room(changes)
            demand_there(_change(self.rows, self.spans, changes, self.words, self.bag))

    def make_room(self, changes: Ints) -> None:
        """Make room for changes."""
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
        """Drop the rows of these keys that end at or before the floor."""
        _forgotten(self.rows, self.spans, keys, self.floor, self.before, self.kept)

    def _tidy(self) -> None:
        """Drop the rows of all keys that end at or before the floor, and release their room, also of keys without new
        rows."""
        self.forget(np.flatnonzero(self.spans[:, COUNT]))
        counts = self.spans[:, COUNT]
        there = np.flatnonzero(counts)
        rooms = np.zeros_like(counts)
        rooms[there] = self._rooms(counts[there], self.rows[self.spans[there, AT], R_END])
        self.spans[:, ROOM] = np.minimum(self.spans[:, ROOM], rooms)
        self.come, self.stayed = 0, int(counts.sum())
        if len(self.rows) > 3 * int(self.spans[:, ROOM].sum()):
            self._pack()

    def _rooms(self, counts: Ints, first: Ints) -> Ints:
        """For how many rows keys get room that have so many, the first of which ends then: for half as many again as
        they will have when the window is full, if as many come as have come."""
        times = np.clip(1.5 * self.length / np.maximum(self.latest - first, 1), LEAST_TIMES, MOST_TIMES)
        others = counts - 1  # a key that is a whole row has no more of them
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
        """The rows of all keys in another array, as large as their rooms need."""
        whole = int(self.spans[:, ROOM].sum())
        made = np.empty((roomy(whole, whole + whole // 2), self.rows.shape[1]), np.int64)
        self.used = _packed(self.rows, self.spans, made)
        self.rows = made

    def at(self, keys: Ints, ends: Ints, once: bool = False) -> tuple[Ints, Ints]:
        """The rows of these keys that have these ends, each as often as it is there, or `once`, and for each the number
        of the pair."""
        room = np.empty((len(keys), self.words + 1), np.int64)
        made, count = _at(self.rows, self.spans, keys, ends, self.words, self.bag and not once, room)
        return made[:count, 1:], made[:count, 0]

    def ending(self, keys: Ints, after: Ints, until: Ints) -> Ints:
        """The rows of each of these keys that end after a time and at or before another, each as often as it is
        there."""
        runs = np.empty((len(keys), 2), np.int64)
        count = _counted(self.rows, self.spans, keys, after, until, self.words, self.bag, runs)
        made = np.empty((count, self.words), np.int64)
        _listed(self.rows, runs, self.words, self.bag, made)
        return made

    def every(self) -> tuple[Ints, Ints]:
        """All rows, and the key of each, key by key."""
        counts = self.spans[:, COUNT]
        places = np.repeat(self.spans[:, AT] - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        return self.rows[places], np.repeat(np.arange(len(counts)), counts)

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.spans[:, COUNT].sum())

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + self.spans.nbytes + self.before.nbytes)


def demand_there(wrong: int) -> None:
    """Assert that no change contradicted the rows. `wrong`: the number of those that did."""
    assert not wrong, "what goes was there"


def as_table(found: Ints) -> Table:
    """Rows that are occurrences as a table, sorted by arrival."""
    table = np.empty((found.shape[1] + 1, len(found)), np.int64)
    table[END], table[START], table[ORDER] = found[:, R_END], found[:, R_START], found[:, R_ORDER]
    table[IDENTITY] = 0
    table[FIRST:] = found[:, R_REST:].T
    return by_arrival(table)


# of a change: the key, how many rows come, and then the row
KEY, TIMES, ROW = range(3)
COMES, GOES = 1, -1
NONE = -1
"""Marks a word that no row of the table holds; its value is 0."""
SHORT = 64
"""Up to this many changes of a key are sorted by insertion."""
SPREAD = 8
"""Times the changes: where more keys are known, changes are sorted without a look at each of these."""


@bare
def collected(table, slots, words, made):  # type: ignore[no-untyped-def]
    """The rows of a table that have a key, as changes; `words`: the rows of the table that their words are in."""
    count = 0
    for i in range(table.shape[1]):
        if slots[i] < 0:
            continue
        made[count, KEY] = slots[i]
        made[count, TIMES] = GOES if table[IDENTITY, i] == GOES else COMES
        for word in range(len(words)):
            made[count, ROW + word] = 0 if words[word] == NONE else table[words[word], i]
        count += 1
    return count


@bare
def _by_key(changes, begins, made):  # type: ignore[no-untyped-def]
    """Changes sorted by key, otherwise as they come; `begins` has a zero for each key and one more."""
    for i in range(changes.shape[0]):
        begins[changes[i, KEY] + 1] += 1
    for key in range(1, len(begins)):
        begins[key] += begins[key - 1]
    for i in range(changes.shape[0]):
        place = begins[changes[i, KEY]]
        for word in range(changes.shape[1]):
            made[place, word] = changes[i, word]
        begins[changes[i, KEY]] = place + 1


@inside
def _same(changes, c, d):  # type: ignore[no-untyped-def]
    """Return True if two changes are of the same row of the same key."""
    for word in range(changes.shape[1]):
        if word != TIMES and changes[c, word] != changes[d, word]:
            return False
    return True


@inside
def _before(changes, c, d):  # type: ignore[no-untyped-def]
    """Return True if the row of one change sorts before that of another."""
    for word in range(ROW, changes.shape[1]):
        if changes[c, word] != changes[d, word]:
            return changes[c, word] < changes[d, word]
    return False


@bare
def _by_row(changes):  # type: ignore[no-untyped-def]
    """Sort changes that are sorted by key by their rows too. Returns False if that would take too many moves."""
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
    """Merge equal changes among sorted ones, and drop those that cancel out. Returns the number left."""
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
    """Changes of keys of which so many are known, sorted, and equal ones one."""
    if len(changes) < 2:
        return changes
    if known <= SPREAD * len(changes):
        made = np.empty_like(changes)
        _by_key(changes, np.zeros(known + 1, np.int64), made)
    else:
        made = changes[stable_order(np.ascontiguousarray(changes[:, KEY]))]
    if not _by_row(made):
        made = made[np.lexsort((*made[:, :ROW:-1].T, made[:, ROW], made[:, KEY]))]
    return made[: _netted(made)]


def changes_of(table: Table, slots: Ints, words: Ints, known: int) -> Ints:
    """A table of changes as changes of rows: `slots`: the key of each of its rows, of which so many are known, -1: it
    has none, and is left out; `words`: see `collected`."""
    made = np.empty((len(slots), ROW + len(words)), np.int64)
    return in_turn(made[: collected(table, slots, words, made)], known)


def words_of(arguments: int) -> Ints:
    """Return the row numbers of a table with so many arguments that hold end, start, order and arguments."""
    return np.array([END, START, ORDER, *range(FIRST, FIRST + arguments)])


def signed(going: Table, coming: Table) -> Table:
    """Return removed and added rows as one table of changes."""
    if not rows(going):
        return coming
    made = np.concatenate([going, coming], axis=1)
    made[IDENTITY, : rows(going)] = GOES
    return made


def parts_of(changes: Table) -> tuple[Table, Table]:
    """Split a table of changes into removed and added rows."""
    goes = changes[IDENTITY] == GOES
    if not goes.any():
        return changes[:, :0], changes
    going, coming = contiguous(changes[:, goes]), contiguous(changes[:, ~goes])
    going[IDENTITY] = 0
    return going, coming
