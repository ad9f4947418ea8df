"""Lineage: an optional record of the occurrences from which each occurrence was derived.

Occurrences have handles, which are called names here. Edges connect the name of an occurrence with the names of its
constituents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from cep.core.relation import IDENTITY, Table, rows
from cep.operators.goals import sorted_runs
from cep.operators.goals.contract import Ints, Translation, demand, from_arrow, to_arrow

# Input events are named by their position in the input; names of derived events begin here.
DERIVED = 2**48

_WHOLE, _PART = 0, 1  # the rows of a table of edges


Places = list[tuple[int, int, int]]
"""The positions of some input records, sorted: end, start and order of each."""


class Lineage:
    """The names of occurrences, and the constituents of each derived occurrence.

    `places_of`: a function that takes names of occurrences. It returns, for each name, the positions of the input
    records from which the occurrence was derived.
    """

    def __init__(self, places_of: Callable[[Ints], list[Places]]) -> None:
        self.places_of = places_of
        self.next = DERIVED
        self._runs: list[Table] = []  # sorted by the whole
        self._new: list[Table] = []
        self._rules: list[Table] = []  # (name, rule), sorted by the name
        self._equal: list[Table] = []  # (name, number of earlier equal ones), sorted by the name

    def name(self, table: Table) -> Ints:
        """Give the occurrences in a table new names, and return the names."""
        names = np.arange(self.next, self.next + table.shape[1])
        self.next += table.shape[1]
        table[IDENTITY] = names
        return names

    def link(self, wholes: Ints, parts: Ints) -> None:
        """Record pairs of a derived occurrence and its constituent, by their names.

        Pairs whose part is 0 are not recorded. The constituent is then a time point, which has no name.
        """
        known = parts != 0
        self._new.append(np.stack([wholes[known], parts[known]]))

    def follow(self, names: Ints, rules: Ints) -> None:
        """Record which rule derived each occurrence. This is needed only if several rules derive an event."""
        sorted_runs.put(self._rules, np.stack([names, rules]), _WHOLE)

    def number(self, names: Ints, numbers: Ints) -> None:
        """Record for each name how many equal occurrences came before it."""
        some = numbers > 0
        sorted_runs.put(self._equal, np.stack([names[some], numbers[some]]), _WHOLE)

    def numbers_of(self, names: Ints) -> Ints:
        """Return for each name the recorded number of equal occurrences before it."""
        numbers = np.zeros(len(names), np.int64)
        for run in self._equal:
            index, positions = sorted_runs.found(run, names, _WHOLE)
            numbers[index] = run[_PART, positions]
        return numbers

    def pass_on(self, names: Ints, parts: Ints) -> None:
        """Copy the recorded numbers of the occurrences `parts` to the occurrences `names`."""
        if self._equal:
            self.number(names, self.numbers_of(parts))

    def rules_of(self, names: Ints) -> tuple[Ints, Ints]:
        """Return the recorded rules as sorted pairs (index into `names`, rule), without duplicates."""
        pairs = [np.empty((2, 0), np.int64)]
        for run in self._rules:
            index, positions = sorted_runs.found(run, names, _WHOLE)
            pairs.append(np.stack([index, run[_PART, positions]]))
        both: Table = np.unique(np.concatenate(pairs, axis=1), axis=1)
        return both[0], both[1]

    def edges(self) -> tuple[Ints, Ints]:
        """Return all edges as (wholes, parts), sorted by the whole. A whole is a derived occurrence, a part its
        constituent."""
        pairs: Table = np.concatenate([np.empty((2, 0), np.int64), *self._settled()], axis=1)
        pairs = pairs[:, np.argsort(pairs[_WHOLE], kind="stable")]
        return pairs[_WHOLE], pairs[_PART]

    def parts_of(self, names: Ints) -> tuple[Ints, Ints]:
        """Return the constituents of the occurrences `names` as pairs (index into `names`, constituent)."""
        index, parts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for run in self._settled():
            places, positions = sorted_runs.found(run, names, _WHOLE)
            index.append(places)
            parts.append(run[_PART, positions])
        return np.concatenate(index), np.concatenate(parts)

    def _settled(self) -> list[Table]:
        if self._new:
            sorted_runs.put(self._runs, np.concatenate(self._new, axis=1), _WHOLE)
            self._new = []
        return self._runs

    def inputs_of(self, names: Ints) -> tuple[Ints, Ints]:
        """Return the input occurrences from which the occurrences `names` were derived, as sorted pairs (index into
        `names`, input).

        The result has no duplicates.
        """
        roots, current = np.arange(len(names)), names
        found_roots: list[Ints] = []
        inputs: list[Ints] = []
        while len(current):
            basic = current < DERIVED
            is_input = basic & (current != 0)  # 0 is a time point, which is not an input
            found_roots.append(roots[is_input])
            inputs.append(current[is_input])
            roots, current = roots[~basic], current[~basic]
            index, current = self.parts_of(current)
            roots = roots[index]
            both = np.unique(np.stack([roots, current], axis=1), axis=0)
            roots, current = both[:, 0], both[:, 1]
        nothing = np.empty(0, np.int64)
        both = np.stack([np.concatenate([nothing, *found_roots]), np.concatenate([nothing, *inputs])], axis=1)
        both = np.unique(both, axis=0)
        return both[:, 0], both[:, 1]

    def behind(self, live: Ints) -> Ints:
        """Return the names `live` and the names of all occurrences from which these were derived, sorted."""
        seen: list[Table] = []
        frontier = np.unique(live)
        while len(frontier):
            sorted_runs.put(seen, frontier[np.newaxis], 0)
            frontier = np.unique(self.parts_of(frontier)[1])
            for run in seen:
                frontier = frontier[~sorted_runs.holds(run[0], frontier)]
        return np.sort(np.concatenate([np.empty(0, np.int64), *(run[0] for run in seen)]))

    def keep(self, live: Ints) -> Ints:
        """Drop the records of all occurrences except `live` and those from which these were derived. Return the names
        of the remaining occurrences, sorted."""
        needed = self.behind(live)
        settled, self._runs = self._settled(), []
        for run in settled:
            sorted_runs.put(self._runs, run[:, sorted_runs.holds(needed, run[_WHOLE])], _WHOLE)
        for runs in (self._rules, self._equal):
            before, runs[:] = [*runs], []
            for run in before:
                sorted_runs.put(runs, run[:, sorted_runs.holds(needed, run[_WHOLE])], _WHOLE)
        return needed

    def renumber(self, rules: Mapping[int, int]) -> None:
        """Replace the recorded rule numbers. `rules`: the new number of each old one; records of other rules are
        dropped."""
        before, self._rules = self._rules, []
        for run in before:
            known = np.array([number in rules for number in run[_PART].tolist()], np.bool_)
            kept = run.compress(known, axis=1)
            kept[_PART] = [rules[number] for number in kept[_PART].tolist()]
            sorted_runs.put(self._rules, kept, _WHOLE)

    def add(self, other: Lineage, names: Translation, known: Ints) -> None:
        """Add the records of another lineage.

        `names`: a function that translates names of `other`; for an unknown occurrence, it returns a new name. `known`:
        the names of `other` that are skipped, sorted.
        """
        edges = [(self._runs, run, True) for run in other._settled()]
        edges += [(self._rules, run, False) for run in other._rules] + [
            (self._equal, run, False) for run in other._equal
        ]
        for runs, run, named in edges:
            new = run[:, ~sorted_runs.holds(known, run[_WHOLE])]
            sorted_runs.put(runs, np.stack([names(new[_WHOLE]), names(new[_PART]) if named else new[_PART]]), _WHOLE)
        self.next += other.next - DERIVED

    @property
    def size(self) -> int:
        """Return the total number of recorded edges, rules and numbers of equal occurrences."""
        return sum(table.shape[1] for table in (*self._runs, *self._new, *self._rules, *self._equal))

    def snapshot(self, needed: Ints | None = None) -> pa.RecordBatch:
        """Return the lineage as a record batch. `needed`: the only names that are included, sorted. None means all."""
        wholes, parts = self.edges()
        rules, equal = (
            np.concatenate([np.empty((2, 0), np.int64), *runs], axis=1) for runs in (self._rules, self._equal)
        )
        if needed is not None:
            held = sorted_runs.holds(needed, wholes)
            wholes, parts = wholes[held], parts[held]
            rules = rules[:, sorted_runs.holds(needed, rules[_WHOLE])]
            equal = equal[:, sorted_runs.holds(needed, equal[_WHOLE])]
        arrays = {"wholes": wholes, "parts": parts, "rules": rules, "equal": equal}
        return to_arrow({**arrays, "next": np.array([self.next], np.int64)})

    def restore(self, batch: pa.RecordBatch) -> None:
        """Load a snapshot. Raises CepError if it is damaged."""
        arrays = from_arrow(batch)
        demand(arrays.keys() == {"wholes", "parts", "rules", "equal", "next"})
        wholes, parts, rules, following = (arrays[name] for name in ("wholes", "parts", "rules", "next"))
        demand(following.shape == (1,) and wholes.ndim == 1 and wholes.shape == parts.shape)
        equal = arrays["equal"]
        demand(all(table.ndim == 2 and len(table) == 2 for table in (rules, equal)))
        demand(bool((parts < wholes).all() and (np.diff(wholes) >= 0).all()))  # parts are older than wholes
        for names in (wholes, rules[_WHOLE]):
            demand(not names.size or (int(names.min()) >= DERIVED and int(names.max()) < int(following[0])))
        self._runs, self._new = [], [np.stack([wholes, parts])]
        self._rules, self._equal = [], []
        sorted_runs.put(self._rules, rules, _WHOLE)
        sorted_runs.put(self._equal, equal, _WHOLE)
        self.next = int(arrays["next"][0])


def numbers(table: Table, lineage: Lineage | None) -> Ints:
    """Return for each occurrence in a table how many equal occurrences of its event came before it."""
    part_numbers: Ints = table[IDENTITY] if lineage is None else lineage.numbers_of(table[IDENTITY])
    return part_numbers


def first_of_each(tables: Sequence[Table], once: Sequence[bool], lineage: Lineage | None) -> list[Table]:
    """Return the tables. If a table's entry in `once` is True, drop all but the first of its equal occurrences."""
    firsts = list(tables)
    for place, table in enumerate(tables):
        if once[place] and rows(table) and np.count_nonzero(before := numbers(table, lineage)):
            firsts[place] = np.ascontiguousarray(table[:, before == 0])
    return firsts
