"""The kernels of conditions on fluents that are revised: what held at occurrences, and what holds at them now.

Beginnings and ends of a key, as they were and as they are, are swept side by side, with its occurrences between them.
"""

from __future__ import annotations

from cep.core.kernels import njit
from cep.core.time import END_OF_TIME
from cep.operators.goals.intrinsics import bare_linear, inside
from cep.operators.goals.keyed_rows import (
    AT,
    COMES,
    COUNT,
    KEY,
    R_END,
    ROW,
    SIGN,
    before_or_same,
    copied,
    first_from,
    goes,
    merged,
    same_key,
)
from cep.operators.goals.keys import grow

# an edge: when, whether the tuple begins or ends, which it is
E_END, E_BEGINS, E_TUPLE = range(3)
# of each tuple: its place in the lists of those that held, that hold, and of which one is so and the other is not,
# counted from 1; 0: it is not there
OLD, NEW, OTHER = range(3)


@inside
def _into(lists, places, which, tuple_):  # type: ignore[no-untyped-def]
    """A tuple into a list, the first of whose cells says how many it has."""
    lists[which, 0] += 1
    lists[which, lists[which, 0]] = tuple_
    places[tuple_, which] = lists[which, 0]


@inside
def _out_of(lists, places, which, tuple_):  # type: ignore[no-untyped-def]
    last = lists[which, lists[which, 0]]
    lists[which, places[tuple_, which]] = last
    places[last, which] = places[tuple_, which]
    places[tuple_, which] = 0
    lists[which, 0] -= 1


@inside
def _passed(edges, i, lists, places, which):  # type: ignore[no-untyped-def]
    """An edge is passed by the sweep of what held (OLD) or holds (NEW)."""
    tuple_ = edges[i, E_TUPLE]
    there = places[tuple_, which] > 0
    if there == (edges[i, E_BEGINS] == 1):
        return
    if there:
        _out_of(lists, places, which, tuple_)
    else:
        _into(lists, places, which, tuple_)
    if (places[tuple_, OLD] > 0) != (places[tuple_, NEW] > 0):
        _into(lists, places, OTHER, tuple_)
    else:
        _out_of(lists, places, OTHER, tuple_)


@njit(cache=True)
def _met(row, left, lists, places, which, negated, differing, pairs, count):  # type: ignore[no-untyped-def]
    """Pairs (number of the row of the left, tuple) of a row, which grow as they must, and how many there are then: with
    what holds in a sweep, `differing`: and not in the other; `negated`: with nothing, where nothing does."""
    if negated:
        if lists[which, 0] == 0:
            pairs = grow(pairs, count + 1) if count == pairs.shape[0] else pairs
            pairs[count, 0], pairs[count, 1] = left, -1
            count += 1
        return pairs, count
    listed = OTHER if differing else which
    needed = count + lists[listed, 0]
    pairs = grow(pairs, needed) if needed > pairs.shape[0] else pairs
    for place in range(1, lists[listed, 0] + 1):
        tuple_ = lists[listed, place]
        if places[tuple_, which] > 0:
            pairs[count, 0], pairs[count, 1] = left, tuple_
            count += 1
    return pairs, count


@inside
def _meets(lists, negated):  # type: ignore[no-untyped-def]
    """Whether an occurrence now meets what it did not meet, or the other way round."""
    if negated:
        return (lists[OLD, 0] == 0) != (lists[NEW, 0] == 0)
    return lists[OTHER, 0] > 0


@njit(linear=True, cache=True)
def sweep(  # type: ignore[no-untyped-def]
    edge_changes, edges, edge_spans, left_changes, left, left_spans, negated, wholly, lists, places, older, newer, made,
    found, was, now, ended,
):  # fmt: skip
    """Put changes of both sides in. `older`, `newer`: room for the edges of any key, `made`: for its occurrences;
    `lists` for its tuples. Gives the occurrences `found`, pairs of them with the tuples that they met and now meet, and
    the tuples that hold now, as they did not, or do not any more (`ended`, with room for all edges that change).
    `wholly`: pairs of an occurrence are given with all its tuples where one of them is another."""
    c = d = counted = old = new = ends = 0
    words = left.shape[1]
    while c < edge_changes.shape[0] or d < left_changes.shape[0]:
        if d == left_changes.shape[0] or (c < edge_changes.shape[0] and edge_changes[c, KEY] <= left_changes[d, KEY]):
            number = edge_changes[c, KEY]
        else:
            number = left_changes[d, KEY]
        # the edges before and now
        at, count = edge_spans[number, AT], edge_spans[number, COUNT]
        for i in range(count):
            copied(edges, at + i, older, i)
        since, last, more = END_OF_TIME, -END_OF_TIME, count
        if c < edge_changes.shape[0] and edge_changes[c, KEY] == number:
            stop = same_key(edge_changes, c)
            since, last = edge_changes[c, ROW + R_END], edge_changes[stop - 1, ROW + R_END]
            more = merged(older, 0, count, edge_changes, c, stop, 3, newer)
            for i in range(more):
                copied(newer, i, edges, at + i)
            edge_spans[number, COUNT] = more
            c = stop
        else:
            for i in range(count):
                copied(older, i, newer, i)
        # the occurrences from there on
        until = d
        if d < left_changes.shape[0] and left_changes[d, KEY] == number:
            until = same_key(left_changes, d)
            since = min(since, left_changes[d, ROW + R_END])
        begin = left_spans[number, AT]
        beyond = begin + left_spans[number, COUNT]
        first = i = first_from(left, begin, beyond, since)
        x = y = kept = 0
        while i < beyond or d < until:
            there = i < beyond and (d == until or before_or_same(left, i, left_changes, d))
            time = left[i, R_END] if there else left_changes[d, ROW + R_END]
            while x < count and older[x, E_END] < time:
                _passed(older, x, lists, places, OLD)
                x += 1
            while y < more and newer[y, E_END] < time:
                _passed(newer, y, lists, places, NEW)
                y += 1
            if d == until and time > last and lists[OTHER, 0] == 0:  # from here on all is as it was
                break
            stays, leaves, comes = False, False, False
            if there:
                leaves = d < until and goes(left, i, left_changes, d, until, words)
                stays = not leaves
            else:
                comes = left_changes[d, SIGN] == COMES
            if leaves or comes or (stays and _meets(lists, negated)):
                found = grow(found, counted + 1) if counted == found.shape[0] else found
                for word in range(words):
                    found[counted, word] = left[i, word] if there else left_changes[d, ROW + word]
                if not comes:
                    was, old = _met(left, counted, lists, places, OLD, negated, stays and not wholly, was, old)
                if not leaves:
                    now, new = _met(left, counted, lists, places, NEW, negated, stays and not wholly, now, new)
                counted += 1
            if there:
                if stays:
                    copied(left, i, made, kept)
                    kept += 1
                i += 1
            else:
                if comes:
                    for word in range(words):
                        made[kept, word] = left_changes[d, ROW + word]
                    kept += 1
                d += 1
        moved = kept - (i - first)
        if moved > 0:
            for j in range(beyond - 1, i - 1, -1):
                copied(left, j, left, j + moved)
        for j in range(kept):
            copied(made, j, left, first + j)
        if moved < 0:
            for j in range(i, beyond):
                copied(left, j, left, j + moved)
        left_spans[number, COUNT] = beyond - begin + moved
        # what holds in the end, where it is not what held
        while x < count:
            _passed(older, x, lists, places, OLD)
            x += 1
        while y < more:
            _passed(newer, y, lists, places, NEW)
            y += 1
        for place in range(1, lists[OTHER, 0] + 1):
            ended[ends] = lists[OTHER, place]
            ends += 1
        for which in range(3):
            for place in range(1, lists[which, 0] + 1):
                places[lists[which, place], which] = 0
            lists[which, 0] = 0
    return found, counted, was, old, now, new, ends


@bare_linear
def without_ended(edges, spans, keys, floor, latest):  # type: ignore[no-untyped-def]
    """Of edges of these keys that are at or before `floor` all go but the beginning of what holds there. `latest` has a
    cell for every tuple."""
    for key in keys:
        at, count = spans[key, AT], spans[key, COUNT]
        past = 0
        while past < count and edges[at + past, E_END] <= floor:
            latest[edges[at + past, E_TUPLE]] = past
            past += 1
        kept = 0
        for i in range(count):
            begun = edges[at + i, E_BEGINS] == 1 and latest[edges[at + i, E_TUPLE]] == i
            if i >= past or begun:
                copied(edges, at + i, edges, at + kept)
                kept += 1
        spans[key, COUNT] = kept
