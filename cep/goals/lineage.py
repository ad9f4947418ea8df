"""Which occurrences made this one: identities and edges, as columns, kept only when asked for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cep.goals.contract import Ints, from_arrow, to_arrow
from cep.table import IDENTITY, Table

# Input events are named by their position in the input; what is derived, from here on.
DERIVED = 2**48


class Lineage:
    """Names for occurrences, and for each derived one the names of its constituents."""

    def __init__(self) -> None:
        self.next = DERIVED
        self.wholes: list[Ints] = []
        self.parts: list[Ints] = []

    def name(self, table: Table) -> Ints:
        """Give the rows of a table new names; gives them back."""
        names = np.arange(self.next, self.next + table.shape[1])
        self.next += table.shape[1]
        table[IDENTITY] = names
        return names

    def link(self, wholes: Ints, parts: Ints) -> None:
        """Each of `parts` is a constituent of the one of `wholes` beside it (0: of none, a time point)."""
        known = parts != 0
        self.wholes.append(wholes[known])
        self.parts.append(parts[known])

    def edges(self) -> tuple[Ints, Ints]:
        """All edges, sorted by the whole."""
        if len(self.wholes) != 1:
            nothing = np.empty(0, np.int64)
            wholes = np.concatenate([nothing, *self.wholes])
            parts = np.concatenate([nothing, *self.parts])
            order = np.argsort(wholes, kind="stable")
            self.wholes, self.parts = [wholes[order]], [parts[order]]
        return self.wholes[0], self.parts[0]

    def inputs_of(self, names: Ints) -> tuple[Ints, Ints]:
        """For each of `names` the input events it goes back to: pairs (index into names, input), distinct, sorted."""
        wholes, parts = self.edges()
        roots, current = np.arange(len(names)), names
        found_roots: list[Ints] = []
        found: list[Ints] = []
        while len(current):
            basic = current < DERIVED
            given = basic & (current != 0)  # 0: a time point, which no input made
            found_roots.append(roots[given])
            found.append(current[given])
            roots, current = roots[~basic], current[~basic]
            first = np.searchsorted(wholes, current, "left")
            last = np.searchsorted(wholes, current, "right")
            counts = last - first
            roots = np.repeat(roots, counts)
            offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            current = parts[np.repeat(first, counts) + offsets]
            both = np.unique(np.stack([roots, current], axis=1), axis=0)
            roots, current = both[:, 0], both[:, 1]
        nothing = np.empty(0, np.int64)
        both = np.stack([np.concatenate([nothing, *found_roots]), np.concatenate([nothing, *found])], axis=1)
        both = np.unique(both, axis=0)
        return both[:, 0], both[:, 1]

    def keep(self, live: Ints) -> Ints:
        """Forget all edges that no name of `live` goes back to; gives the names still needed, inputs too, sorted."""
        wholes, parts = self.edges()
        needed = np.unique(live)
        frontier = needed
        while len(frontier):
            mask = np.isin(wholes, frontier)
            frontier = np.setdiff1d(parts[mask], needed)
            needed = np.union1d(needed, frontier)
        mask = np.isin(wholes, needed)
        self.wholes, self.parts = [wholes[mask]], [parts[mask]]
        return needed

    @property
    def size(self) -> int:
        """How many edges are kept."""
        return sum(len(wholes) for wholes in self.wholes)

    def snapshot(self) -> pa.RecordBatch:
        """The edges and the next name."""
        wholes, parts = self.edges()
        return to_arrow({"wholes": wholes, "parts": parts, "next": np.array([self.next], np.int64)})

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take on the edges of a snapshot."""
        arrays = from_arrow(batch)
        self.wholes, self.parts, self.next = [arrays["wholes"]], [arrays["parts"]], int(arrays["next"][0])
