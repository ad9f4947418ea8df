"""Rules over DataFrames of an existing Spark session: `cep.spark.Rules`.

```python
rules = Rules.from_file("rules.cep")
found = rules.detect({"reading": spark.read.table("readings")})
found["warning"].show()
```

The session is not changed. docs/pyspark.md shows how to apply rules to a table, and how to write the
results to a table.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from warnings import warn

from cep.compile import CompiledProgram, CompileOptions, FactlessCompileKeywords, one_text
from cep.connectors.ahead_limits import AHEAD
from cep.connectors.records.records import closest
from cep.core.errors import CepError, Warning
from cep.engine import Engine
from cep.plan.dependencies import Dependencies
from cep.plan.ties import Ties, UnorderedTies
from cep.programs import Duration, compiled_program, program_text, refuse_order, ticks_of
from cep.runtime.options import EngineOptions
from cep.spark.frame_events import Events
from cep.spark.grouped import derived
from cep.spark.parameters import parameters_named
from cep.spark.program import PlannedRules, ProgramOptions, ShippedProgram
from cep.spark.resuming import BUCKETS
from cep.spark.source.data_frames import Provided, frame_input
from cep.spark.source.file_list import SPECS
from cep.spark.source.knowledge_changes import change_rows
from cep.spark.streams import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cep.core.schema import Schema

Order = Mapping[str, str | Sequence[str]]
"""The columns by which rows that have the same time are ordered, by event."""


class Rules:
    """A program that runs over DataFrames of an existing Spark session."""

    def __init__(self, program: CompiledProgram, text: str, name: str, options: CompileOptions) -> None:
        self._program, self._text, self._name, self._options = program, text, name, options

    @classmethod
    @parameters_named()
    def from_file(
        cls,
        path: str | Path | Sequence[str | Path],
        *,
        facts: Mapping[str, Any] | None = None,
        **options: Unpack[FactlessCompileKeywords],
    ) -> Rules:
        """Read rules from one file or several. `facts`: {predicate: table of any library}.

        `knowledge`, `params`, `policy` and the other options are the same as for `cep.compile.compile`. Raises CepError
        if the program or an option is invalid.
        """
        paths = [Path(file_name) for file_name in ([path] if isinstance(path, str | Path) else path)]
        text, name = program_text(paths[0] if len(paths) == 1 else paths)
        return cls.from_text(text, name, facts=facts, **options)

    @classmethod
    @parameters_named()
    def from_text(
        cls,
        text: str | Mapping[str, str],
        name: str = "<program>",
        *,
        facts: Mapping[str, Any] | None = None,
        **options: Unpack[FactlessCompileKeywords],
    ) -> Rules:
        """Compile rules from a text, or from a mapping of file names to texts. The options are those of `from_file`."""
        whole, called, compiling = one_text(text, name, CompileOptions(**options))
        program = compiled_program(whole, called, facts, compiling)
        return cls(program, whole, called, replace(compiling, facts=program.facts, knowledge=None))

    @cached_property
    def _engine(self) -> Engine:
        return Engine(self._program, lateness=None)

    @property
    def inputs(self) -> dict[str, Schema]:
        """The schemas of the input events, by name."""
        return self._engine.inputs

    @property
    def outputs(self) -> dict[str, Schema]:
        """The schemas of the derived events, by name."""
        return self._engine.outputs

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """Warnings for the author of the rules, sorted by position."""
        return self._engine.warnings

    @parameters_named()
    def detect(
        self,
        frames: Mapping[str, DataFrame],
        *,
        order: Order | None = None,
        changes: DataFrame | None = None,
        buckets: int = BUCKETS,
    ) -> Events:
        """Return everything that the rules derive from static DataFrames, whose rows may have any order.

        - `frames`: the DataFrame of each input event.
        - `order`: for each event, the columns by which rows with the same time are ordered: `{"reading": ["partition",
          "offset"]}`. By default, they are ordered by a hash of the row, which is the same in each run. Rows of several
          events with the same time are in the order of `frames`.
        - `changes`: changes of the knowledge, one per row. At `time`, the triples of `remove` are removed, and then the
          triples of `add` are added (RDF as text, or null).
        - `buckets`: the number of parts to which keys are distributed. Each part runs as one task. The number does not
          change the results.

        Nothing is computed before a result is used. Raises CepError if a column is missing or its type does not fit.
        """
        program = self._shipped(self._engine, EngineOptions(lateness=None), buckets)
        session, inputs = self._read(program, frames, order or {}, False, None, changes)
        return Events(*derived(session, program, inputs))

    @parameters_named()
    def over(
        self,
        frames: Mapping[str, DataFrame],
        *,
        order: Order | None = None,
        changes: DataFrame | None = None,
        lateness: Duration = "0 s",
        revise: Duration | None = None,
        final: bool = False,
        idle: Duration | None = None,
        ahead: Duration | None = timedelta(microseconds=AHEAD),
        buckets: int | None = None,
    ) -> Stream:
        """Return a stream of the rules over streaming DataFrames. Nothing runs before the stream is started.

        - `frames`: the DataFrame of each input event.
        - `order`, `changes`: the same as for `detect`. A change whose time the watermark has passed is a dead letter.
        - `lateness`: how far out of order rows may arrive. Rows that are further out of order are dead letters.
        - `revise`: if it is given, results are output at once and corrected later. A late row, or the withdrawal of a
          row (column `@change`), corrects results if the row is older than the watermark by at most this duration.
        - `final`: True to output only final results.
        - `idle`: the time without rows after which the watermark advances by the clock.
        - `ahead`: the time by which rows may be ahead of the clock. Rows that are further ahead are dead letters. If it
          is None, there is no limit.
        - `buckets`: the same as for `detect`. By default, the number of tasks that run at once.

        Raises CepError if a column is missing or its type does not fit, or if the program cannot run on endless input.
        """
        window = None if revise is None else ticks_of(revise, "revise")
        planned = self.planned(EngineOptions(lateness=None, revise=window, final=final), ticks_of(lateness))
        limit = None if ahead is None else ticks_of(ahead, "ahead")
        session, inputs = self._read(planned.program, frames, order or {}, True, limit, changes)
        return Stream(session, planned, tuple(inputs), None if idle is None else ticks_of(idle, "idle"), buckets)

    def planned(
        self, running: EngineOptions, lateness: int | None, buckets: int = 1, changes: bool = False
    ) -> PlannedRules:
        """Return the rules in the form in which a query runs them. Raises CepError if they cannot run on endless input.

        `lateness`: how far out of order records may arrive, in microseconds. If it is None, no record is late before
        the end of the input. `changes`: True to write the beginnings and ends of fluents.
        """
        engine = Engine(self._program, replace(running, changes=changes))
        engine.refuse_endless("the state between micro-batches on Spark")
        if running.revise is not None:
            lateness = (lateness or 0) + running.revise * running.final
        return PlannedRules(engine, self._shipped(engine, running, buckets), lateness)

    def _shipped(self, engine: Engine, running: EngineOptions, buckets: int) -> ShippedProgram:
        known = None if self._program.knowledge is None else pickle.dumps(self._program.knowledge)
        options = ProgramOptions.of(self._options, known, running)
        return ShippedProgram.of(engine, self._text, self._name, options, buckets)

    def _read(
        self,
        program: ShippedProgram,
        frames: Mapping[str, DataFrame],
        order: Order,
        streaming: bool,
        ahead: int | None,
        changes: DataFrame | None,
    ) -> tuple[SparkSession, list[Provided]]:
        """Check DataFrames. Return the session to which they belong, and a reader for each DataFrame.

        Raises CepError if a DataFrame does not fit the program.
        """
        refuse_order(program.inputs)
        for names, what in ((frames, "data"), (order, "order")):
            for name in names:
                if name not in program.inputs:
                    message = f"{what}: no pattern of the program uses an input event `{name}`"
                    near, hint = closest(name, list(program.inputs)), f"input events are {_listed(program.inputs)}"
                    raise CepError(f"{message}{near}", hint=hint, code="input")
        if len(frames) + (changes is not None) > SPECS:
            message = f"data: {len(frames)} DataFrames are too many: the limit is {SPECS}, and `changes` counts as one"
            raise CepError(
                message, hint="combine several with `union`, and tell their events apart with WHEN", code="input"
            )
        if not frames:
            raise CepError("data: no DataFrame", hint=f"input events are {_listed(program.inputs)}", code="input")
        inputs = list[Provided]()
        for place, (name, frame) in enumerate(frames.items()):
            label = f'data["{name}"]'
            _check_streaming(label, frame, streaming)
            columns = order.get(name, ())
            columns = [columns] if isinstance(columns, str) else list(columns)
            inputs.append(frame_input(label, frame, program.read[name], place, columns, ahead))
        if changes is not None:
            if self._engine.changes is None:
                hint = "use `Rules.from_file(..., knowledge=...)`"
                raise CepError("changes: the rules have no knowledge that could change", hint=hint, code="knowledge")
            _check_streaming("changes", changes, streaming)
            inputs.append(change_rows(changes, len(frames)))
        self._warn_of_ties(frozenset(name for name in frames if not order.get(name)))
        return next(iter(frames.values())).sparkSession, inputs

    def _warn_of_ties(self, unordered: Iterable[str]) -> None:
        """Warn if the results depend on the order of rows that have the same time, and no columns define this order.

        `unordered`: the events for which the user has named no such columns.
        """
        plan = self._program.plan
        inputs = dict.fromkeys(plan.inputs, False)
        ties = Ties(Dependencies(plan))
        goals = UnorderedTies(ties, range(len(plan.heads)), inputs, frozenset(unordered), None).goals
        events = sorted(frozenset[str]().union(*goals.values()))
        if events:
            example = f'order={{"{events[0]}": [...]}}'
            message = f"the results depend on the order of rows of {_listed(events)} with the same time"
            warn(
                f"{message}, but no `order` defines it, so a hash of each row decides; name columns with `{example}`",
                stacklevel=5,
            )


def _check_streaming(label: str, frame: DataFrame, streaming: bool) -> None:
    if frame.isStreaming != streaming:
        ways = {True: ("is a stream", "`rules.over`"), False: ("is not a stream", "`rules.detect`")}
        is_one, way = ways[frame.isStreaming]
        raise CepError(f"{label}: the DataFrame {is_one}", hint=f"use {way}", code="input")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
