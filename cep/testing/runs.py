"""Run a program over the records of a test. A schedule determines how the records are passed to the engine. The results
of several runs can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cep.app.cli_options import DialectOptions, KnowledgeOptions
from cep.app.opening import ProgramSource
from cep.compile import CompiledProgram
from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.records.batch import DeadLetter
from cep.core.errors import CepError, Mistakes
from cep.core.literals import read_instant
from cep.core.time import BEGINNING
from cep.diff.alerts import alert_changes
from cep.diff.rows import DerivedRows, Row
from cep.engine import Engine
from cep.plan.event_schemas import inputs_of
from cep.runtime.encode import RefusedRow
from cep.runtime.options import EngineOptions
from cep.testing.records import Records, read_records
from cep.testing.rule_files import RuleTest, RuleTestFile
from cep.testing.yaml_tree import Value
from cep.workers.partitioned_engine import dealt_engine

END = "end"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The way in which a run passes the records of a test to the engine.

    - `order`: the positions of the records, in order of arrival.
    - `cuts`: the positions at which a new batch begins.
    - `restarts`: the positions at which the engine is restored from a snapshot.
    - `slack`: how far the watermark stays behind the latest record, in microseconds.
    - `workers`: the number of processes.
    """

    order: NDArray[np.int64]
    cuts: frozenset[int] = frozenset()
    restarts: frozenset[int] = frozenset()
    slack: int = 0
    workers: int = 1

    @classmethod
    def plain(cls, records: Records) -> Schedule:
        """Return a schedule that passes all records in one batch, in their own order."""
        return cls(np.arange(len(records), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a run: the derived rows by event, fluent and table of alerts, and the refused records."""

    rows: Mapping[str, Counter[Row]]
    dead: tuple[DeadLetter, ...]


@dataclass
class Prepared:
    """A test that is ready to run: its compiled program and its records.

    `until`: the time at which the run stops, or None to run to the end of the input.
    """

    test: RuleTest
    program: CompiledProgram
    source: ProgramSource
    records: Records
    until: int | None

    @cached_property
    def by_order(self) -> bool:
        """Return True if the results may depend on the order of records of the same time."""
        plan = self.program.plan
        return any(node.by_order(plan.types(number)) for number, node in enumerate(plan.nodes))

    @property
    def knowledge(self) -> tuple[str, ...]:
        """The files of knowledge that the test uses."""
        return tuple(map(_known(self.test.file), self.test.file.knowledge))

    @property
    def revise(self) -> int | None:
        return self.test.file.revise

    def engine(self, **options: Any) -> Engine:
        return Engine(self.program, self.options(**options))

    def reading(self, program: CompiledProgram) -> Prepared:
        """Return the same test for another program. The result only contains the records that this program reads."""
        other = replace(self, program=program)
        return replace(other, records=self.records.only(other.engine().inputs))

    def options(self, **options: Any) -> EngineOptions:
        """Return the options of an engine that runs the test. `options`: further options."""
        lateness = 0 if self.revise is not None else None
        return EngineOptions(lateness=lateness, revise=self.revise, **options)

    def run(self, schedule: Schedule | None = None, records: Records | None = None) -> Outcome:
        """Run the program over the records. `schedule`: the way to pass them. By default, all records are one batch."""
        records = self.records if records is None else records
        asked = schedule or Schedule.plain(records)
        engine, derived = self._dealt(asked.workers), DerivedRows()
        ends = records.ends[asked.order]
        edges = sorted({0, *asked.cuts, len(ends)}) if len(ends) else []
        remaining = np.minimum.accumulate(ends[::-1])[::-1] if len(ends) else ends
        dead = list(records.dead)
        try:
            for begin, stop in zip(edges, edges[1:]):
                if begin in asked.restarts:
                    engine = self.engine().restore(engine.snapshot())
                first = None if schedule is None else begin
                engine.receive(records.batch(asked.order[begin:stop], first), engine.revises)
                dead += [_dead(row) for row in engine.take_dead()]
                if engine.revises:
                    derived.add(engine.advance(engine.reached))
                elif stop < len(ends):
                    reached = int(ends[:stop].max()) - asked.slack
                    derived.add(engine.advance(min(reached, int(remaining[stop]) - 1)))
            derived.add(engine.close() if self.until is None else engine.advance(self.until))
            derived.hold(engine.held_now())
        finally:
            engine.stop()
        return Outcome(derived.rows(), tuple(dead))

    def _dealt(self, workers: int) -> Engine:
        if workers == 1:
            return self.engine()
        return dealt_engine(self.program, self.options(), workers, lambda text: None)

    def alerts(self, outcome: Outcome, until: int) -> list[AlertChange]:
        """Compute the changes of alerts that follow from the results of a run, up to the time `until`."""
        return alert_changes(self.engine(), self.program.alerts, outcome.rows, until)


def _dead(row: RefusedRow) -> DeadLetter:
    return DeadLetter(None, row.row, f"{row.type}: {row.reason}", row.code, event=row.type)


class Programs:
    """A cache of compiled programs of test files, by the values of their parameters.

    `texts`: texts that replace the contents of program files, by absolute path.
    """

    def __init__(self, texts: Mapping[Path, str] | None = None) -> None:
        self._texts = dict(texts or {})
        self._compiled: dict[tuple[Path, tuple[tuple[str, str], ...]], tuple[ProgramSource, CompiledProgram]] = {}

    def prepare(self, test: RuleTest, wrong: Mistakes | None = None) -> Prepared:
        """Compile the program of a test and read its records. Raises CepError if the program or a record is not valid.

        `wrong`: a list for mistakes in records. If it is not None, such mistakes are added to it instead of raised, and
        the returned test has no records.
        """
        values = tuple(sorted((name, value.word("a value")) for name, (_, value) in test.params.items()))
        key = test.file.path, values
        if key not in self._compiled:
            self._compiled[key] = _compiled(test, self._texts)
        source, program = self._compiled[key]
        records, until = Records.none(), None
        with nullcontext() if wrong is None else wrong.kept():
            records = read_records(test, inputs_of(program.plan), test.file.revise is not None)
            until = _until(test, records)
        return Prepared(test, program, source, records, until)


def _compiled(test: RuleTest, texts: Mapping[Path, str]) -> tuple[ProgramSource, CompiledProgram]:
    file = test.file
    try:
        source = _source(file, {name: _parameter(value) for name, (_, value) in test.params.items()}, texts)
        return source, source.compiled(alerts=True)
    except CepError as error:
        if error.source is not None or error.code != "option":
            raise
        for name, (key, _) in test.params.items():
            if f"`{name}`" in error.message:
                raise key.error(error.message, error.hint) from None
        raise


def _parameter(value: Value) -> object:
    """Return the value of a parameter as it is written. So `08:00` remains a time and `15 min` a duration."""
    return value.scalar if isinstance(value.scalar, bool) else value.word("the value of a parameter")


def _source(file: RuleTestFile, params: Mapping[str, object], texts: Mapping[Path, str]) -> ProgramSource:
    from cep.app.terminal import facts_of, knowledge_of
    from cep.compile import policy_choice

    policy = None if file.policy is None else file.policy.word("a policy")
    if file.policy is not None:
        file.policy.read(lambda text: policy_choice(text, "policy"), "a policy")
    dialect = DialectOptions(
        named=None if file.dialect is None else file.dialect.word("a dialect"),
        tick=None if file.tick is None else file.tick.word("a duration"),
    )
    facts = tuple(f"{name}={file.beside(value)}" for name, (_, value) in file.facts.items())
    reasoning = None if file.reasoning is None else file.reasoning.word("none, rdfs or owlrl")
    known = KnowledgeOptions(facts=facts, files=tuple(map(_known(file), file.knowledge)), reasoning=reasoning)
    paths = [file.beside(program) for program in file.programs]
    other = {path: texts[path.resolve()] for path in paths if path.resolve() in texts}
    program = ProgramSource.written(paths, dialect, policy, texts=other)
    program = replace(program, options=replace(program.options, params=params))
    tables = facts_of(known.facts, program.text, program.name, program.options)
    return program.knowing(tables, knowledge_of(known.files, known.reasoning))


def _known(file: RuleTestFile) -> Any:
    """Return a function that resolves the paths of knowledge files relative to the test file. The names of built-in
    registers are not changed."""

    def place(value: Value) -> str:
        path = file.beside(value)
        return str(path) if path.exists() or path.suffix or "*" in path.name else value.word("a file of knowledge")

    return place


def _until(test: RuleTest, records: Records) -> int | None:
    latest = int(records.ends.max()) if len(records) else BEGINNING
    if test.until is None:
        return latest
    if test.until.text == END:
        return None
    time = test.until.read(lambda text: read_instant(text, records.unit), "a time, or `end`")
    if time < latest:
        test.until.fail("`until` is before the last record", "leave the later records out, or name a later time")
    return time
