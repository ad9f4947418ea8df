"""Answers to patterns while the knowledge changes, each with the interval for which the answer holds.

Many changes are processed together, instead of one after the other. For this, the module builds two sets of triples:
all triples that exist at some time, and the triples that exist all the time. If reasoning infers nothing from the
changing triples, an answer holds exactly while all its triples exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cep.core.errors import CepError
from cep.core.hashtable import KeySet
from cep.core.values import Ints, Pool
from cep.knowledge.change import Change, parse_change, unnamed
from cep.knowledge.query.answers import spanned
from cep.knowledge.query.bindings import Bindings, TooLarge, solve
from cep.knowledge.query.graph_patterns import MOST_CELLS
from cep.knowledge.query.pattern_tables import PatternComponent, PatternTable, Resolve
from cep.knowledge.query.valid_time import ValidTimeRows, always, concat_rows
from cep.knowledge.rdf.terms import NONE
from cep.knowledge.rdf.triples import TripleColumns, TripleSet, expand
from cep.plan import algebra
from cep.rules.static.materialized import ALWAYS, NEVER, words
from cep.rules.terms import Graph
from cep.runtime.knowledge_source import Spanned

if TYPE_CHECKING:
    from cep.knowledge.graph import Knowledge


@dataclass(frozen=True, slots=True)
class Stretch:
    """Knowledge before, during and after a sequence of changes.

    - `whole`: knowledge that contains all triples that exist at some time.
    - `rest`: knowledge that contains only the triples that exist all the time.
    - `after`: the knowledge after the last change.
    - `spans`: the changing triples as they are asserted, with their valid times.
    - `seen`: the changing triples with canonical objects (see `Knowledge.seen`), with their valid times.
    """

    whole: Knowledge
    rest: Knowledge
    after: Knowledge
    spans: ValidTimeRows
    seen: ValidTimeRows

    def answers(
        self, patterns: Mapping[str, Graph | algebra.Triples], keys: Mapping[str, Any], pool: Pool
    ) -> dict[str, Spanned] | None:
        """Return the answers to each pattern, with their valid times. Return None if a pattern has too many answers.

        `patterns`: the patterns by name. `keys`: for each name, the key of the pattern's table in `Knowledge.tables`.
        """
        answers_by_name: dict[str, Spanned] = {}
        terms = self.after.terms
        for name, pattern in patterns.items():
            if isinstance(pattern, algebra.Triples):
                spans = self.triples([None if term is None else terms.id_of(str(term)) for term in pattern.fixed])
            else:
                whole, rest = (state.tables.get(keys[name]) for state in (self.whole, self.rest))
                if whole is None or rest is None:
                    return None
                try:
                    spans = self.table(whole, rest, self.whole.constant_id, MOST_CELLS)
                except TooLarge:
                    return None
            answers_by_name[name] = spanned(terms, spans, pool)
        return answers_by_name

    def triples(self, fixed: Sequence[int | None]) -> ValidTimeRows:
        """Return the triples that have the ids `fixed`, with their valid times.

        `fixed`: the ids of subject, predicate and object. None accepts any id. The result has one column for each
        position that is None.
        """
        wanted = [i for i, id in enumerate(fixed) if id is None]
        if NONE in fixed:
            return always((np.empty(0, dtype=np.int64),) * len(wanted), 0)
        fits = np.ones(self.spans.rows, dtype=np.bool_)
        for column, id in zip(self.spans.columns, fixed):
            if id is not None:
                fits &= column == id
        matched = self.rest.closed.match(*fixed)
        lasting = always(tuple(matched[i] for i in wanted), len(matched[0]))
        some = self.spans.take(fits)
        return concat_rows([lasting, ValidTimeRows(tuple(some.columns[i] for i in wanted), some.since, some.until)])

    def table(self, whole: PatternTable, rest: PatternTable, resolve: Resolve, most: int) -> ValidTimeRows:
        """Return the answers to a basic graph pattern, with one column per variable.

        `whole`, `rest`: the pattern's tables in the knowledge `self.whole` and `self.rest`. Raises TooLarge if the
        result would have more than `most` cells.
        """
        columns: dict[str, Ints] = {}
        since, until = np.array([ALWAYS]), np.array([NEVER])
        for of_whole, of_rest in zip(whole.components, rest.components):
            piece = self._piece(of_whole, of_rest, resolve, most)
            if len(since) * piece.rows * len(whole.variables) > most:
                raise TooLarge(len(since) * piece.rows)
            left_rows = np.repeat(np.arange(len(since)), piece.rows)
            other = np.tile(np.arange(piece.rows), len(since))
            since = np.maximum(since[left_rows], piece.since[other])
            until = np.minimum(until[left_rows], piece.until[other])
            together = np.flatnonzero(since < until)
            columns = {name: column[left_rows[together]] for name, column in columns.items()}
            columns |= {name: column[other[together]] for name, column in zip(of_whole.wanted, piece.columns)}
            since, until = since[together], until[together]
        return ValidTimeRows(tuple(columns[name] for name in whole.variables), since, until)

    def _piece(self, whole: PatternComponent, rest: PatternComponent, resolve: Resolve, most: int) -> ValidTimeRows:
        names = whole.wanted
        lasting = always(tuple(rest.bindings.columns[name] for name in names), rest.bindings.rows)
        if whole is rest:
            return lasting
        every = tuple(whole.bindings.columns[name] for name in names)
        some = np.flatnonzero(~_among(every, whole.bindings.rows, lasting))
        if not len(some):
            return lasting
        patterns = whole.resolved(resolve)
        variables = list(dict.fromkeys(slot for pattern in patterns for slot in pattern if isinstance(slot, str)))
        start = Bindings({name: column[some] for name, column in zip(names, every)}, len(some))
        if not names:
            start = Bindings({}, 1)
        ways = solve(patterns, self.whole.seen, variables, start, most)
        rows = always(tuple(ways.columns[name] for name in variables), ways.rows)
        for pattern in patterns:
            bound = dict(zip(variables, rows.columns))
            s, p, o = (np.full(rows.rows, x, dtype=np.int64) if isinstance(x, int) else bound[x] for x in pattern)
            rows = self._while_there(rows, (s, p, o))
        named = dict(zip(variables, rows.columns))
        return concat_rows([lasting, ValidTimeRows(tuple(named[name] for name in names), rows.since, rows.until)])

    def _while_there(self, rows: ValidTimeRows, triples: TripleColumns) -> ValidTimeRows:
        """Restrict the valid time of each row to the times at which its triple, in the same row of `triples`,
        exists."""
        groups, begins, counts = self._groups
        _, start, stop = groups.ranges(*triples)
        changing = stop > start
        group = np.where(changing, start, 0)
        index, nth = expand(np.zeros_like(group), np.where(changing, counts[group], 1))
        row = np.where(changing[index], begins[group[index]] + nth, 0)
        since = np.where(changing[index], self.seen.since[row], ALWAYS)
        until = np.where(changing[index], self.seen.until[row], NEVER)
        since, until = np.maximum(rows.since[index], since), np.minimum(rows.until[index], until)
        kept = np.flatnonzero(since < until)
        return ValidTimeRows(tuple(column[index[kept]] for column in rows.columns), since[kept], until[kept])

    @property
    def _groups(self) -> tuple[TripleSet, Ints, Ints]:
        """The distinct changing triples. For each triple, also the index of its first row in `seen`, and the number of
        its rows."""
        s, p, o = self.seen.columns
        first = np.ones(len(s), dtype=np.bool_)
        first[1:] = (s[1:] != s[:-1]) | (p[1:] != p[:-1]) | (o[1:] != o[:-1])
        begins = np.flatnonzero(first)
        return TripleSet((s[begins], p[begins], o[begins])), begins, np.diff(np.append(begins, len(s)))


def stretch(before: Knowledge, changes: Sequence[tuple[int, bytes]]) -> Stretch | None:
    """Combine changes into a Stretch. Return None if they must be applied one by one.

    `changes`: the changes with their times, in order of time. They must be applied one by one in three cases:

    - A rule infers something from a changing triple.
    - A changing triple gives a thing a place.
    - All triples together are inconsistent.
    """
    spans, lines = _spans(before, changes)
    if not spans.rows:
        return None
    after, whole = before.fork(), before.fork()
    try:
        after.apply(before.merge([change for _, change in changes]))
        whole.apply(Change(frozenset(), lines).written())
        rest = whole.fork()
        rest.apply(Change(lines, frozenset()).written())
    except CepError:
        return None
    s, p, o = spans.columns
    changing = TripleSet.of(s, p, o)
    lasting = rest.closed.has(s, p, o)
    if before.placed(changing) or len(whole.closed) != len(rest.closed) + len(changing.minus(rest.closed)):
        return None
    if whole.closure is not None and rest.closure is not None and whole.closure.links(rest.closure):
        return None
    spans = spans.take(np.flatnonzero(~lasting)).united()[0]
    s, p, o = spans.columns
    seen = ValidTimeRows((s, p, whole.canonical.ids(o)), spans.since, spans.until)
    return Stretch(whole, rest, after, spans, seen.take(~rest.seen.has(*seen.columns)).united()[0])


def _spans(before: Knowledge, changes: Sequence[tuple[int, bytes]]) -> tuple[ValidTimeRows, frozenset[str]]:
    """Return the triples that the changes add or remove in any graph, with the times at which they are asserted.

    Also return the same triples as lines of N-Quads, without the names of graphs.
    """
    read = [(time, Change.read(blob)) for time, blob in changes]
    sides = [sorted(side) for _, edit in read for side in (edit.removed, edit.added)]
    every = list(dict.fromkeys(line for side in sides for line in side))
    quads = parse_change(every, before.terms)
    triples: dict[tuple[int, int, int], int] = {}
    of = [triples.setdefault(t, len(triples)) for t in zip(quads.s.tolist(), quads.p.tolist(), quads.o.tolist())]
    graph = quads.g.tolist()
    number = {line: i for i, line in enumerate(every)}
    s, p, o = (np.array(column, dtype=np.int64) for column in zip(*triples)) if triples else TripleSet.empty().columns
    graphs_of: list[set[int]] = [set() for _ in triples]
    for name, asserted in before.graphs.items():
        for i in np.flatnonzero(asserted.has(s, p, o)).tolist():
            graphs_of[i].add(name)
    begun: list[int | None] = [ALWAYS if graphs else None for graphs in graphs_of]
    rows: list[tuple[int, int, int]] = []
    for time, change in read:
        removed, added = ([number[line] for line in side] for side in (change.removed, change.added))
        for i in removed:
            graphs_of[of[i]] = set() if graph[i] == NONE else graphs_of[of[i]] - {graph[i]}
        for i in added:
            graphs_of[of[i]].add(graph[i])
        for i in {of[i] for i in (*removed, *added)}:
            if begun[i] is None and graphs_of[i]:
                begun[i] = time
            elif (start := begun[i]) is not None and not graphs_of[i]:
                rows.append((i, start, time))
                begun[i] = None
    rows += [(i, begin, NEVER) for i, begin in enumerate(begun) if begin is not None]
    rows = sorted(row for row in rows if row[1] < row[2])
    index, since, until = (np.array(column, dtype=np.int64) for column in zip(*rows)) if rows else (s[:0],) * 3
    once: dict[int, str] = {}
    ever = {i for i, _, _ in rows}
    for i, line in enumerate(every):
        if of[i] in ever:
            once.setdefault(of[i], unnamed(line))
    return ValidTimeRows((s[index], p[index], o[index]), since, until), frozenset(once.values())


def _among(columns: Sequence[Ints], rows: int, others: ValidTimeRows) -> NDArray[np.bool_]:
    known = KeySet(max(1, len(columns)))
    known.insert(words(others.columns, others.rows))
    is_member: NDArray[np.bool_] = known.find(words(columns, rows)) >= 0
    return is_member
