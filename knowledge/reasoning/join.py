"""Evaluation of a rule's body as joins of relations by columns. At each step, the smallest of the remaining joins is
performed. Rows are joined in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cep.core.errors import CepError
from cep.core.values import Ints
from cep.knowledge.rdf.relation import BinaryRelation, PredicateRelations, contained, packed, unpacked
from cep.knowledge.reasoning.rule import HAS, RuleAtom, RuleTerm

BLOCK = 1 << 21
"""The number of rows that a join produces at a time."""

MOST = 2_000_000_000
"""The maximum number of rows that one join may produce. It takes some minutes to produce so many rows."""


@dataclass(frozen=True, slots=True)
class Substitutions:
    """Bindings of variables: one column of ids for each variable, with `count` rows."""

    count: int = 1
    columns: Mapping[str, Ints] = field(default_factory=dict)

    def take(self, rows: Ints | NDArray[np.bool_], count: int) -> Substitutions:
        return Substitutions(count, {name: column[rows] for name, column in self.columns.items()})

    def only(self, names: set[str]) -> Substitutions:
        return Substitutions(self.count, {name: column for name, column in self.columns.items() if name in names})

    def of(self, slot: RuleTerm) -> Ints | None:
        """Return the column of a variable. Return None if the variable is unbound. If `slot` is a constant, return a
        column that repeats it."""
        if isinstance(slot, str):
            return self.columns.get(slot)
        return np.full(self.count, slot, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class BodyAtom:
    """An atom of a rule's body, and the relations in which it is looked up.

    `before`: if it is not None, only facts that were derived in an earlier round than this one count.
    """

    atom: RuleAtom
    relations: PredicateRelations
    before: int | None = None

    def at(self, predicate: int) -> BodyAtom:
        if self.atom.p == predicate:
            return self
        atom = self.atom
        return BodyAtom(RuleAtom(atom.s, predicate, atom.o, atom.asks, atom.every), self.relations, self.before)


def solutions(
    parts: Sequence[BodyAtom], start: Substitutions, keep: set[str], differ: Sequence[tuple[str, RuleTerm]] = ()
) -> Iterator[Substitutions]:
    """Yield the bindings that extend `start` and match all atoms, in blocks of rows. A row may occur several times.

    - `keep`: the variables that the result must contain.
    - `differ`: pairs of terms that must not be equal.

    The order of rows is not defined. Raises CepError if a join would produce more than MOST rows.
    """
    open_ = _open_predicate(parts, start)
    if open_ is None:
        yield from _solve(list(parts), start, keep, list(differ))
        return
    predicates = next(part for part in parts if part.atom.p == open_).relations.predicates
    for predicate in predicates[predicates >= 0].tolist():
        known = Substitutions(start.count, {**start.columns, open_: np.full(start.count, predicate, dtype=np.int64)})
        closed = [part.at(predicate) if part.atom.p == open_ else part for part in parts]
        yield from _solve(closed, known, keep, list(differ))


def _open_predicate(parts: Sequence[BodyAtom], start: Substitutions) -> str | None:
    """Return a variable that only occurs as a predicate and is unbound. Return None if there is none.

    The caller evaluates the body once for each value of this variable.
    """
    ends = {slot for part in parts for slot in (part.atom.s, part.atom.o)} | set(start.columns)
    return next((p for part in parts if isinstance(p := part.atom.p, str) and p not in ends), None)


def _solve(
    parts: list[BodyAtom], rows: Substitutions, keep: set[str], differ: list[tuple[str, RuleTerm]]
) -> Iterator[Substitutions]:
    open_ = []
    for x, y in differ:
        left, other = rows.of(x), rows.of(y)
        if left is None or other is None:
            open_.append((x, y))
        elif not (unequal := left != other).all():
            rows = rows.take(unequal, int(unequal.sum()))
    if not rows.count:
        return
    needed = keep | {slot for pair in open_ for slot in pair if isinstance(slot, str)}
    rows = rows.only(needed.union(*(part.atom.variables for part in parts)))
    if not parts:
        yield rows
        return
    part = parts[0] if len(parts) == 1 else _cheapest(parts, rows)
    rest = [other for other in parts if other is not part]
    later = needed.union(*(other.atom.variables for other in rest))
    for more in _extended(part, rows, later):
        yield from _solve(rest, more, keep, open_)


def _cheapest(parts: list[BodyAtom], rows: Substitutions) -> BodyAtom:
    """Choose the atom to evaluate next.

    An atom whose variables are all bound is chosen first. Otherwise atoms that share a variable with `rows` are
    preferred, and among these the one that yields the fewest rows.
    """
    ready = []
    for part in parts:
        s, p, o = (not isinstance(slot, str) or slot in rows.columns for slot in part.atom.slots)
        if s and p and o:
            return part
        if p and not part.atom.asks:
            ready.append((not (s or o), part))
    joined = [part for apart, part in ready if not apart] or [part for _, part in ready]
    assert joined, "a rule's body binds every predicate"
    return joined[0] if len(joined) == 1 else min(joined, key=lambda part: _size(part, rows))


def _size(part: BodyAtom, rows: Substitutions) -> int:
    return sum(int(_ranges(part.at(p), group, relation)[2].sum()) for p, group, relation in _groups(part, rows))


def _groups(part: BodyAtom, rows: Substitutions) -> Iterator[tuple[int, Substitutions, BinaryRelation]]:
    """Group the rows by the value of the atom's predicate. For each predicate that has triples, yield the predicate,
    its rows and its relation."""
    p = part.atom.p
    if not isinstance(p, str):
        if len(relation := part.relations[p]):
            yield p, rows, relation
        return
    column = rows.columns[p]
    order = np.flatnonzero(contained(part.relations.predicates, column))
    order = order[np.argsort(column[order], kind="stable")]
    column = column[order]
    starts = np.flatnonzero(np.r_[True, column[1:] != column[:-1]]) if len(column) else column
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(column)]):
        yield int(column[start]), rows.take(order[start:stop], stop - start), part.relations[int(column[start])]


def _extended(part: BodyAtom, rows: Substitutions, later: set[str]) -> Iterator[Substitutions]:
    """Join the rows with an atom. The resulting rows also bind those variables of the atom that are in `later`.

    `later`: the variables that are needed after this join.
    """
    for predicate, group, relation in _groups(part, rows):
        known = part.at(predicate)
        s, o = group.of(part.atom.s), group.of(part.atom.o)
        if s is not None and o is not None:
            keep = _of_every(known, relation, s, o) if part.atom.every else relation.has(packed(s, o), part.before)
            yield group.take(keep, int(keep.sum()))
            continue
        wanted = {slot for slot, column in ((part.atom.s, s), (part.atom.o, o)) if column is None} & later
        if part.before is not None or part.atom.s == part.atom.o:
            yield from _joined(known, group, relation)
        elif not wanted:
            has_match = _ranges(known, group, relation)[2] > 0
            yield group.take(has_match, int(has_match.sum()))
        elif s is None and o is None and len(wanted) == 1:
            ends = relation.subjects if part.atom.s in wanted else relation.objects
            yield from _crossed(group, str(wanted.pop()), ends)
        else:
            yield from _joined(known, group, relation)


def _joined(part: BodyAtom, rows: Substitutions, relation: BinaryRelation) -> Iterator[Substitutions]:
    atom = part.atom
    lows, backward, counts = _ranges(part, rows, relation)
    for index, places in _expanded(lows, counts):
        if backward:
            second, first = unpacked(relation.backward[places])
        else:
            first, second = unpacked(relation.pairs[places])
        columns = dict(rows.take(index, len(index)).columns)
        columns |= {str(slot): column for slot, column in ((atom.s, first), (atom.o, second)) if isinstance(slot, str)}
        keep = np.ones(len(index), dtype=np.bool_)
        if atom.s == atom.o:
            keep &= first == second
        if part.before is not None:
            keep &= relation.rounds[np.searchsorted(relation.pairs, packed(first, second))] < part.before
        joined = Substitutions(len(index), columns)
        yield joined if keep.all() else joined.take(keep, int(keep.sum()))


def _crossed(rows: Substitutions, name: str, column: Ints) -> Iterator[Substitutions]:
    lows, counts = np.zeros(rows.count, dtype=np.int64), np.full(rows.count, len(column), dtype=np.int64)
    for index, places in _expanded(lows, counts):
        yield Substitutions(len(index), {**rows.take(index, len(index)).columns, name: column[places]})


def _ranges(part: BodyAtom, rows: Substitutions, relation: BinaryRelation) -> tuple[Ints, bool, Ints]:
    """Find the pairs of the relation that match each row. Return the start of each row's range of pairs, a flag, and
    the size of each range.

    If the flag is True, only the object is bound, and the ranges refer to `relation.backward`. Otherwise they refer to
    `relation.pairs`.
    """
    s, o = rows.of(part.atom.s), rows.of(part.atom.o)
    if s is None and o is None:
        return np.zeros(rows.count, dtype=np.int64), False, np.full(rows.count, len(relation), dtype=np.int64)
    within, bound = (relation.backward, o) if s is None else (relation.pairs, s)
    assert bound is not None, "one end is bound"
    lows = np.searchsorted(within, bound << 32)
    return lows, s is None, np.searchsorted(within, (bound + 1) << 32) - lows


def _expanded(lows: Ints, counts: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield all positions in some ranges, and for each position the index of its range, in blocks.

    `lows`: the start of each range. `counts`: the size of each range. Raises CepError for more than MOST positions.
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    if total > MOST:
        raise CepError(
            f"reasoning over the knowledge needs a join of {total:,} rows, more than the limit of {MOST:,}",
            hint="look for a transitive or functional property, or a key, that relates very many things to each other",
            code="too-large",
        )
    for first in range(0, total, BLOCK):
        places = np.arange(first, min(total, first + BLOCK), dtype=np.int64)
        whole = total <= BLOCK
        index = np.repeat(np.arange(len(lows)), counts) if whole else np.searchsorted(ends, places, side="right")
        yield index, places + (lows - ends + counts)[index]


def _of_every(part: BodyAtom, relation: BinaryRelation, s: Ints, lists: Ints) -> NDArray[np.bool_]:
    pairs, back = np.unique(packed(s, lists), return_inverse=True)
    subjects, heads = unpacked(pairs)
    members = part.relations[HAS]
    lows = np.searchsorted(members.pairs, heads << 32)
    counts = np.searchsorted(members.pairs, (heads + 1) << 32) - lows
    in_every = np.ones(len(pairs), dtype=np.bool_)
    for index, places in _expanded(lows, counts):
        held = relation.has(packed(subjects[index], unpacked(members.pairs[places])[1]), part.before)
        in_every[index[~held]] = False
    return in_every[back]
