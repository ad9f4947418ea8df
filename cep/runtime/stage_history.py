"""Where the occurrences of one stage come from, in pieces that the run puts together: other stages made some of its
input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set

import numpy as np
import polars as pl
import pyarrow as pa

from cep.core.relation import IDENTITY, Table, rows
from cep.core.schema import NUMBER, Schema
from cep.core.values import Pool
from cep.operators.goals.contract import Ints, demand
from cep.plan.plan import Plan
from cep.runtime.decode import DerivedTables
from cep.runtime.history import BECAUSE, CONSTITUENTS, OccurrenceHistory, Piece


class StageHistory(OccurrenceHistory):
    """`handed`: the events that other stages make; `hidden`: tables of fluents that are no occurrences of their own;
    `rules`: the numbers that the stage's rules have in the program.

    A piece is [end, start, order, text] of a record or an occurrence. The column `because` holds a list of pieces,
    `constituents` a list of rules and one of pieces (`told`)."""

    def __init__(
        self, remember: int | None, handed: frozenset[str], hidden: frozenset[str], rules: Sequence[int]
    ) -> None:
        super().__init__(remember)
        self.handed, self.hidden, self.rules = handed, hidden, rules
        self.origins: dict[int, str] = {}
        self.parts: dict[int, str] = {}

    def add_derived(self, made: DerivedTables) -> None:
        super().add_derived({name: tables for name, tables in made.items() if name not in self.hidden})

    def hand(self, event: str, first: int, table: pl.DataFrame) -> None:
        """Rows that another stage made come in, whose names go on from `first`, and say what they come from and how
        many equal ones are before them."""
        if NUMBER in table.columns:
            self.lineage.number(np.arange(first, first + table.height), table[NUMBER].to_numpy())
        if BECAUSE in table.columns:
            self.origins.update(enumerate(table[BECAUSE].to_list(), first))
        if CONSTITUENTS in table.columns:
            for name, text in enumerate(table[CONSTITUENTS].to_list(), first):
                rules, pieces = json.loads(text)
                if event in self.hidden or not rules:  # of a record of the input, itself
                    self.parts[name] = json.dumps(pieces)

    def because(self, table: Table, schemas: Mapping[str, Schema], pool: Pool) -> pl.Series:
        roots, inputs = self.lineage.inputs_of(table[IDENTITY])
        own = np.unique(inputs)
        texts = self.records(own[[name not in self.origins for name in own.tolist()]], schemas, pool)
        found: list[set[Piece]] = [set() for _ in range(rows(table))]
        for root, name in zip(roots.tolist(), inputs.tolist(), strict=True):
            found[root] |= set(map(_piece, json.loads(self.origins[name]))) if name in self.origins else {texts[name]}
        return pl.Series(BECAUSE, [json.dumps(sorted(each)) for each in found], pl.String)

    def constituents(self, event: str, table: Table, plan: Plan, pool: Pool) -> pl.Series:
        rules, roots, parts, texts = self.made_of(event, table, plan, pool, self.handed)
        found: list[list[Piece]] = [[] for _ in range(rows(table))]
        for root, name in zip(roots.tolist(), parts.tolist(), strict=True):
            found[root] += map(_piece, json.loads(self.parts[name])) if name in self.parts else [texts[name]]
        made = [
            json.dumps([[self.rules[rule] for rule in own], sorted(set(each))])
            for own, each in zip(rules, found, strict=True)
        ]
        return pl.Series(CONSTITUENTS, made, pl.String)

    def keep_only(self, needed: Ints) -> None:
        held = set(needed.tolist())
        self.origins = {name: each for name, each in self.origins.items() if name in held}
        self.parts = {name: each for name, each in self.parts.items() if name in held}

    def snapshot(self, waiting: Sequence[Ints]) -> list[pa.RecordBatch]:
        needed = set(self.lineage.behind(np.concatenate([np.empty(0, np.int64), *waiting])).tolist())
        return [*(_batch(each, needed) for each in (self.origins, self.parts)), *super().snapshot(waiting)]

    def take_on(self, batches: list[pa.RecordBatch]) -> None:
        super().take_on(batches)
        self.parts, self.origins = _held(batches.pop()), _held(batches.pop())


def _batch(texts: Mapping[int, str], needed: Set[int]) -> pa.RecordBatch:
    names = sorted(texts.keys() & needed)
    columns = [pa.array(names, pa.int64()), pa.array([texts[name] for name in names], pa.large_string())]
    return pa.RecordBatch.from_arrays(columns, ["name", "pieces"])


def _held(batch: pa.RecordBatch) -> dict[int, str]:
    demand(batch.schema.names == ["name", "pieces"])
    return dict(zip(batch["name"].to_pylist(), batch["pieces"].to_pylist(), strict=True))


def with_rules(made_of: Sequence[str]) -> str:
    """The `constituents` of the first of several derivations of one occurrence, with the rules of all."""
    if len(made_of) == 1:
        return made_of[0]
    found = [json.loads(text) for text in made_of]
    return json.dumps([sorted({rule for rules, _ in found for rule in rules}), found[0][1]])


def told(because: str) -> str:
    """What an engine of the whole program gives as `because`."""
    return f"[{', '.join(text for *_, text in json.loads(because))}]"


def told_constituents(made_of: str) -> str:
    """What it gives as `constituents`."""
    rules, pieces = json.loads(made_of)
    return f"[{rules}, [{', '.join(text for *_, text in pieces)}]]"


def _piece(read: Sequence[object]) -> Piece:
    end, start, order, text = read
    assert isinstance(end, int) and isinstance(start, int) and isinstance(order, int)
    return end, start, order, str(text)
