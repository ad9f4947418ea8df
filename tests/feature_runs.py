"""A program run in several ways at once, as features require, and its final result in each way."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from cep.compile import CompiledProgram, CompileOptions, compiled
from cep.core.errors import CepError
from cep.core.schema import ARRIVAL, CHANGE, NUMBER, TIE
from cep.engine import Engine
from cep.events import Event
from cep.language.files import joined
from cep.plan.event_schemas import tables_of
from cep.plan.partition import partition
from cep.runtime.buckets import merged_identical
from cep.runtime.fluent_records import as_records
from cep.runtime.options import EngineOptions
from cep.runtime.prior_state import PriorState
from cep.workers.partitioned_engine import PartitionedEngine, why_one_place
from tests.feature_programs import Case, Update
from tests.local_workers import LocalWorkers
from tests.program_maker import SECOND
from tests.test_revision import Change, Known

Rows = Counter[tuple[object, ...]]
Frames = Mapping[str, pl.DataFrame]

RUNNING = (
    "revise",
    "final",
    "explain",
    "workers",
    "Spark",
    "snapshots",
    "lateness",
    "by key",
    "changes",
    "serve",
    "before",
)
"""Features of a run."""

ALL = 1000 * SECOND
"""Longer than any run."""


@dataclass
class Run:
    """What comes is cut at random, and comes in random order as far as the features allow."""

    case: Case
    features: Collection[str]
    rng: Random
    folder: Path

    def __post_init__(self) -> None:
        rng, has = self.rng, self.features
        self.revises = "revise" in has or "final" in has
        self.withdraws = self.revises and "final" not in has
        self.length = rng.choice((1, 3, 20)) * SECOND if self.revises or "lateness" in has else 0
        if "by key" in has:
            self.length = ALL  # nothing is late of any key
        self.asked = EngineOptions(
            lateness=self.length if not self.revises else 0,
            explain="explain" in has,
            remember=3 * SECOND if "serve" in has else None,
            changes="changes" in has,
            begins="serve" in has,
            revise=self.length if self.revises else None,
            final="final" in has,
            max_derivations=2000,
            lateness_by="k" if "by key" in has else None,
        )
        self.program = self.compiled()
        sets = {
            name if one.fluent is None else one.fluent.name
            for name, one in self.program.plan.schemas.items()
            if one.distinct or one.fluent is not None
        }
        self.known = Known(self.length, self.case.keys, sets)
        self.workers = rng.choice((2, 3))
        self.learnt: list[Update] = []
        self.net: Rows = Counter()
        self.final = -(2**62)

    def compiled(self) -> CompiledProgram:
        self.text, self.name, files = joined(list(self.case.files.items()))
        alerts = self.case.options.get("alerts", False) and "Spark" not in self.features  # a server makes them there
        self.compiling = CompileOptions(files=files, **self.case.options | {"alerts": alerts})
        return compiled(self.text, self.name, self.compiling)

    def engine(self, before: PriorState | None = None) -> Engine:
        asked = replace(self.asked, before=before)
        if "workers" not in self.features:
            return Engine(self.program, asked)
        if why_one_place(self.program.plan, asked) is not None:
            return Engine(self.program, asked)
        count = self.workers if self.revises or self.case.keys or self.asked.explain else self.rng.choice((2, 3))
        return PartitionedEngine(self.program, asked, LocalWorkers(count))

    def coming(self, engine: Engine) -> list[list[Change | Update]]:
        """What comes, batch by batch."""
        outside = frozenset[str]().union(*(stage.outside for stage in partition(self.program.plan)))
        read = {name for name, table in tables_of(self.program.plan).items() if table in outside} | outside
        rng, events = self.rng, [event for event in self.case.events if event.type in read & engine.inputs.keys()]
        if self.length:
            late = min(self.length // SECOND, 20)
            events.sort(key=lambda one: one.end + (rng.randrange(late + 1) * SECOND if rng.random() < 0.5 else 0))
        things: list[Change | Update] = []
        for number, event in enumerate(events):
            things.append((event, 1))
            if self.revises and rng.random() < 0.25 and (gone := rng.choice(events[: number + 1])).type != "on":
                things.append((gone, -1))
        for update in self.case.updates:
            places = [at for at, each in enumerate(things) if len(each) == 2 and each[0].end >= update[0]]
            things.insert(places[0] if places else len(things), update)
        cuts = sorted(rng.randrange(len(things) + 1) for _ in range(rng.randrange(7)))
        return [things[first:last] for first, last in zip([0, *cuts], [*cuts, len(things)])]

    # --- in one process or in workers ---

    def run(self) -> Rows:
        """All that was given and not withdrawn."""
        if "Spark" in self.features:
            return self.run_on_spark()
        engine, position = self.engine(), 0
        batches = self.coming(engine)
        carried = self.rng.randrange(len(batches)) if "before" in self.features else None
        for number, batch in enumerate(batches):
            if number == carried:
                engine = self.carried(engine)
            new: list[Update] = [each for each in batch if len(each) == 3]
            for update in new:
                try:
                    engine.updates([update])
                    self.learnt.append(update)
                except CepError as error:
                    if error.code != "late":
                        raise
            piece = [(position + at, each) for at, each in enumerate(batch) if len(each) == 2]
            position += len(batch)
            before = self.known.latest
            told = Counter(filter(None, (self.judged(at, change, before) for at, change in piece)))
            self.take(engine.push(self.tables(engine, piece)))
            assert Counter(row.code for row in engine.take_dead()) == told
            if "snapshots" in self.features and self.rng.random() < 0.5:
                engine = self.engine().restore(engine.snapshot())
        self.take(engine.close())
        return self.standing(self.net)

    def judged(self, position: int, change: Change, latest: int) -> str | None:
        """Take what comes, if it is not late; why it is a dead letter, if it is one."""
        return "late" if change[0].end <= self.final else self.known.take(position, change, latest)

    def carried(self, engine: Engine) -> Engine:
        """Another program, whose rules are the same but for one more, with the state of this."""
        state = PriorState(engine.snapshot())
        self.final = engine.watermark if self.withdraws else self.final
        self.case.files["rules.cep"] += "\nanother(K) <- a(K, 77)."
        self.program = self.compiled()
        return self.engine(state)

    def take(self, given: Frames) -> None:
        self.net.update(rows(given, 1))
        self.net.subtract(rows(given, -1))

    def tables(self, engine: Engine, changes: Sequence[tuple[int, Change]]) -> dict[str, pl.DataFrame]:
        by_type: dict[str, list[tuple[int, Event, int]]] = {}
        for position, (event, sign) in changes:
            by_type.setdefault(event.type, []).append((position, event, sign))
        made = {}
        for type, found in by_type.items():
            columns: dict[str, list[Any]] = {
                "start": [event.start for _, event, _ in found],
                "end": [event.end for _, event, _ in found],
                ARRIVAL: [position for position, _, _ in found],
            }
            if self.revises:
                columns[CHANGE] = [sign for *_, sign in found]
            for place, attribute in enumerate(engine.inputs[type].attributes[: len(found[0][1].args)]):
                columns[attribute.name] = [event.args[place] for _, event, _ in found]
            made[type] = pl.DataFrame(columns)
        return made

    # --- on Spark, whose operators run here ---

    def run_on_spark(self) -> Rows:
        """The same of a query."""
        from cep.spark.program import ProgramOptions, ShippedProgram
        from cep.spark.shuffle_blocks import END
        from cep.spark.source.reading import with_change
        from tests.spark_operators import Query

        engine = Engine(self.program, self.asked)
        pickled = None if self.compiling.knowledge is None else pickle.dumps(self.compiling.knowledge)
        options = ProgramOptions.of(self.compiling, pickled, replace(self.asked, changes=False))
        shipped = ShippedProgram.of(engine, self.text, self.name, options, self.rng.choice((1, 2, 5)))
        query = Query(shipped, self.folder, self.rng)
        query.lost = 0.5 if "snapshots" in self.features else 0.1
        position = watermark = 0
        behind = 0 if self.withdraws else self.length
        for batch in [*self.coming(engine), []]:
            until = watermark * 1000 - 1 if watermark > 0 else -(2**62)
            new: list[Update] = [each for each in batch if len(each) == 3]
            self.learnt += [update for update in new if update[0] > until - query.program.known]
            piece = [(position + at, each) for at, each in enumerate(batch) if len(each) == 2]
            position += len(batch)
            self.known.latest = until + behind
            for at, change in piece:
                self.known.take(at, change, until + behind)
                self.known.latest = until + behind  # all of a micro-batch are judged by the one watermark
            found = self.tables(engine, piece)
            if engine.revises:
                found = {event: with_change(table) for event, table in found.items()}
            found = as_records(found, query.program.records)  # type: ignore[assignment]
            assert not new or engine.changes is not None
            changes = [
                (update[0], engine.changes.loaded.change(*update[1:]).decode(), "", 0)  # type: ignore[union-attr]
                for update in new
            ]
            self.take(self.once(query.program.merged, query.micro_batch(found, watermark, changes)))
            latest = max([watermark * 1000 + behind, *(event.end for _, (event, _) in piece)])
            watermark = max(watermark, (latest - behind) // 1000)
        self.take(self.once(query.program.merged, query.micro_batch({}, END // 1000)))
        return self.standing(self.net)

    def once(self, merged: Collection[str], given: Frames) -> Frames:
        """What goes to the sink, where what several buckets made in a micro-batch is made one without revision."""
        if self.withdraws:
            return {name: table.drop(NUMBER, strict=False) for name, table in given.items()}
        places = (pl.lit(0).alias(ARRIVAL), pl.lit(0).alias(TIE))
        return {
            name: merged_identical([table.with_columns(places)]) if name in merged else table
            for name, table in given.items()
        }

    # --- what it must be ---

    def expected(self) -> Rows:
        """What one engine gives that takes in order what is there in the end."""
        asked = replace(self.asked, revise=None, final=False, lateness=None, remember=None)
        engine = Engine(self.program, asked)
        there = self.known.placed()
        engine.receive(self.tables(engine, [(position, (event, 1)) for position, event in there]))
        if self.learnt:
            engine.updates(sorted(self.learnt, key=lambda update: update[0]))
        return self.standing(
            rows({name: table.drop(CHANGE, strict=False) for name, table in engine.close().items()}, 1)
        )

    def standing(self, net: Rows) -> Rows:
        """What is there; of what began without an end, only what has not got one since."""
        found = +net
        if "serve" in self.features:
            ended = {unended(row) for row in found if ("end", None) not in row}
            left = {row for row in found if ("end", None) in row and unended(row) not in ended}
            found = Counter({row: count for row, count in found.items() if ("end", None) not in row})
            found.update(dict.fromkeys(left, 1))
        return found


def unended(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(each for each in row if not (isinstance(each, tuple) and each[0] in ("end", "bounds", "because")))


def rows(given: Frames, sign: int) -> Rows:
    """The rows of tables that come (or go), each with the names of its columns."""
    found: Rows = Counter()
    for name, table in given.items():
        if CHANGE in table.columns:
            table = table.filter(pl.col(CHANGE) == sign).drop(CHANGE)
        elif sign < 0:
            continue
        table = table.drop("@id", NUMBER, strict=False)
        for row in table.select(sorted(table.columns)).iter_rows(named=True):
            found[name, *row.items()] += 1
    return found
