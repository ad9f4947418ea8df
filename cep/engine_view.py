"""The read-only interface of an engine, and the assembly of an engine from a compiled program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import polars as pl

from cep.compile import CompiledProgram, Written, all_warnings
from cep.core.errors import CepError, Warning
from cep.core.fluents import EDGES, TRANSITIONS
from cep.core.relation import Table, concat
from cep.core.schema import Schema
from cep.core.time import BEGINNING
from cep.core.values import Pool
from cep.operators.build import GoalBuilder
from cep.plan.event_schemas import inputs_of
from cep.plan.input_horizon import InputHorizon
from cep.plan.order import PlanUnit
from cep.plan.partition import partition
from cep.plan.plan import Plan
from cep.plan.staged import alerts_alone, staged
from cep.rules.alert import Alert
from cep.rules.conditions.relations import Relation, RelationInfo
from cep.rules.terms import Graph
from cep.runtime import prior_state
from cep.runtime.buckets import KeyShares
from cep.runtime.decode import frames
from cep.runtime.fingerprint import Fingerprints
from cep.runtime.history import OccurrenceHistory, StageHistory
from cep.runtime.key_clocks import KeyClocks
from cep.runtime.knowledge_changes import KnowledgeChanges
from cep.runtime.machine import Machine
from cep.runtime.memory import keep_freed
from cep.runtime.options import EngineOptions
from cep.runtime.output import EngineOutput
from cep.runtime.partial_matches import (
    Key,
    PartialMatches,
    RankedMatches,
    StagePart,
    partial_matches,
    ranked_matches,
)
from cep.runtime.parts import EngineParts
from cep.runtime.reorder_buffer import ReorderBuffer
from cep.runtime.revision.revision import Revision
from cep.runtime.revision.row_window import RowChanges
from cep.runtime.revision.window_segment import RevisionWindow
from cep.runtime.run_stats import Count, RevisionStats


def assemble(program: CompiledProgram, options: EngineOptions) -> EngineParts:
    """Create the parts of a new engine, which has not received any input."""
    keep_freed()
    bound, plan, remember = program.bind(), program.plan, options.remember
    if options.stage is not None:
        plan = staged(plan, options.stage) if options.stage else alerts_alone(plan, program.alerts)
    if options.changes or options.begins:
        plan = replace(plan, changes=options.changes, begins=options.begins)
    for table in bound.statics.stored.values():
        for codes in table.codes():
            bound.pool.pin(codes)
    history = None
    if options.explain or remember is not None:
        history = OccurrenceHistory(remember)
        if options.stage:
            stage = partition(program.plan)[options.stage - 1]
            kinds = {name: schema.fluent for name, schema in plan.schemas.items()}
            hidden = frozenset(n for n, kind in kinds.items() if kind is not None and kind.part in (EDGES, TRANSITIONS))
            history = StageHistory(remember, frozenset(stage.inputs) - stage.outside, hidden, stage.rules)
    changes = None
    if program.knowledge is not None:
        rules, facts = program.rules, program.facts
        changes = KnowledgeChanges(rules, program.knowledge, bound.known, bound.statics, facts, bound.pool)
        if remember is not None:
            changes.remember(remember)
    clocks = None
    if options.lateness_by is not None and options.lateness is not None:
        clocks = KeyClocks(
            options.lateness_by, options.lateness, {name: plan.schemas[name] for name in sorted(plan.inputs)}
        )
    buffer = ReorderBuffer(options.lateness, options.until, options.start, clocks)
    if options.stage:
        buffer.of_input = BEGINNING

    keyed = sorted(name for name in program.plan.inputs if plan.schemas[name].key is not None)
    keyed = [] if options.corrected or options.stage == 0 else keyed
    revises = options.revise is not None or bool(keyed)

    def machine_of(plan: Plan) -> Machine:
        lineage = None if history is None else history.lineage
        builder = GoalBuilder(plan, bound.statics.relations, bound.pool, lineage, changes)
        families = not (revises or lineage)
        return Machine(plan, builder, options.fast_recursion, options.max_derivations, families)

    machine = machine_of(plan)
    if remember is not None and options.stage is None:
        machine.give_transitions()
    parts = EngineParts(plan, bound.pool, machine, buffer, history, changes)
    if revises:
        window = _window(options)
        if options.stage:
            stage = partition(program.plan)[options.stage - 1]
            window = replace(window, handed=frozenset(stage.inputs) - stage.outside)
        parts.revision = Revision(plan, machine, window, machine_of, bound.pool, changes, history)
    return parts


def _window(options: EngineOptions) -> RevisionWindow:
    """Return the window in which records may revise earlier records.

    A row that ends exactly `revise` before the watermark is still accepted. So results are final only if they end
    earlier than such a row, by at least one microsecond. Without `revise`, a record can only replace a record that has
    the same KEY and is still in the reorder buffer.
    """
    lateness = options.lateness or 0
    if options.revise is None:
        return RevisionWindow(0, lateness + 1, True)
    if options.final:
        return RevisionWindow(0, lateness + options.revise + 1, True)
    return RevisionWindow(options.revise + 1, lateness, False)


class EngineView:
    """The read-only interface of an engine.

    - `plan`: the plan that the engine runs.
    - `program`: a hash of the program and of everything else on which the engine's state depends.
    - `alerts`: the alerts that the engine derives.
    - `stage`: the engine's stage of the program, or None for the whole program.
    - `pool`: the values of strings and IRIs.
    - `relations`: the static predicates.
    - `history`: the remembered occurrences and their lineage, or None.
    - `changes`: the history of the knowledge, or None.
    - `written`: information about the program's text.
    """

    def __init__(self, program: CompiledProgram, stage: int | None, parts: EngineParts) -> None:
        self.plan: Plan = parts.plan
        self.program: str = program.fingerprint + ("" if stage is None else f" stage {stage}")
        self.alerts: tuple[Alert, ...] = program.alerts
        self.stage = stage
        self.pool: Pool = parts.pool
        self.relations: Mapping[str, Relation] = parts.machine.builder.relations
        self.history: OccurrenceHistory | None = parts.history
        self.changes: KnowledgeChanges | None = parts.changes
        self._parts, self._machine, self._buffer = parts, parts.machine, parts.buffer
        self._whole: Plan = program.plan
        self.written: Written = program.written
        tables = frozenset(table for alert in program.alerts for table in alert.tables)
        self._output = EngineOutput(parts.plan, parts.pool, tables, parts.lineage)
        self._loaded = None if program.knowledge is None else program.knowledge.fingerprint
        self._fingerprints = Fingerprints(program.plan, program.facts, self._loaded)

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """The warnings about the program, sorted by position in its text."""
        if self.changes is None:
            return self.plan.warnings
        return all_warnings(self.plan, self.changes.loaded, self.changes.known)

    @property
    def answers(self) -> dict[str, RelationInfo]:
        """The statistics of each query to the knowledge. Keys are the names in `plan.rules.asked`."""
        if self.changes is None:
            return {}
        asked, loaded, now = self.plan.rules.asked, self.changes.loaded, self.watermark
        follows = {name: not isinstance(query, Graph) or loaded.by_difference(query) for name, query in asked.items()}
        return {
            name: RelationInfo(t.count_at(now), t.types, follows[name]) for name, t in self.changes.known.tables.items()
        }

    @cached_property
    def inputs(self) -> dict[str, Schema]:
        """The schemas of the input events. A record of an input fluent counts as an event at the record's start."""
        return inputs_of(self.plan)

    @property
    def outputs(self) -> dict[str, Schema]:
        """The schemas of the derived events."""
        return self._output.schemas

    @property
    def shown(self) -> dict[str, Schema]:
        """The schemas of the events that the engine may output.

        After a change of the program, these include the events of the former program.
        """
        return self.outputs

    @property
    def revises(self) -> bool:
        """True if input records may withdraw or correct earlier records."""
        return self._parts.revision is not None

    @property
    def withdraws(self) -> bool:
        """True if results may be withdrawn later."""
        return self._parts.revision is not None and not self._parts.revision.window.final

    @property
    def revision_stats(self) -> RevisionStats | None:
        """Statistics of revision since the engine was created, or None if results are never withdrawn."""
        return self._parts.revision.stats if self._parts.revision is not None and self.withdraws else None

    @property
    def late_rows(self) -> dict[str, int]:
        """Return the number of late rows of each event type. A late row was added or removed after the watermark had
        passed its end, but still within the window of revision."""
        return {} if self._parts.revision is None else dict(self._parts.revision.late_rows)

    def refuse_endless(self, place: str) -> None:
        """Raise CepError if the program has results that are known only at the end of the input.

        `place`: a description of the current run for the message, which says that the input of this run never ends.
        """
        for node, span in zip(self.plan.nodes, self.plan.spans):
            if reason := node.known_at_end():
                message, hint = reason
                raise CepError(f"{message}: {place} has none", self.plan.source, span, hint, "endless")
        for number in self._looking_ahead():
            word, span = self.plan.nodes[number].properties().word, self.plan.spans[number]
            message = (
                f"this {word} lies on a cycle, whose results are known only at the end of the input: {place} has none"
            )
            hint = "run it over files: `cep run` with --from and --until; or write a cycle that looks back"
            raise CepError(message, self.plan.source, span, hint, "endless")

    def refuse_boundless(self, start: int | None, until: int | None) -> None:
        """Raise CepError if a fluent depends on its own future and `start` or `until` is missing.

        Without a `start` and an `until`, the fluent might depend on times that are further and further away.
        """
        for number in self._looking_ahead() if start is None or until is None else ():
            word, span = self.plan.nodes[number].properties().word, self.plan.spans[number]
            message = f"this {word} lies on a cycle that may go back in time for ever"
            hint = "say for which times you want results: `--from 2013-02-09T03:00 --until 2013-02-10`, in Python "
            raise CepError(message, self.plan.source, span, hint + "`start` and `until`", "endless")

    def _looking_ahead(self) -> list[int]:
        units = [unit for group in self.plan.groups if group.recursive for unit in group.units]
        return [unit for unit in units if isinstance(unit, int) and self.plan.nodes[unit].looks_ahead()]

    @property
    def unending(self) -> frozenset[int]:
        """Return the numbers of the plan's nodes that might derive results without end, as cycles among formulas do.

        At the end of the input, these nodes stop at the latest time in the input. An engine of a stage does not know
        this time, so the caller must pass it to `reached_in_input`.
        """
        numbers = {number for number, node in enumerate(self.plan.nodes) if node.unending()}
        for group in self.plan.groups:
            nodes = [unit for unit in group.units if isinstance(unit, int)]
            own = [self.plan.nodes[unit] for unit in nodes]
            settles = group.recursive and any(node.settles() for node in own)
            if settles and any(node.timed() for node in own):
                numbers.update(nodes)
        return frozenset(numbers)

    @property
    def beginning(self) -> frozenset[int]:
        """The numbers of the plan's nodes whose state depends on the first time of the input: NOT and AGGREGATE of
        formulas on cycles.

        An engine of a stage does not know this time, so the caller must pass it to `begun_in_input`.
        """
        units: set[int] = set()
        for group in self.plan.groups:
            nodes = [unit for unit in group.units if isinstance(unit, int)]
            own = {unit: self.plan.nodes[unit].properties() for unit in nodes}
            if not group.recursive or not any(self.plan.nodes[unit].settles() for unit in nodes):
                continue
            for unit, node in own.items():
                whole = node.kind == "formula" and (node.negated is not None or node.needs_instant is not None)
                if whole and set(self.plan.nodes[unit].parts[node.negated or 0 :]) & own.keys():
                    units.add(unit)
        return frozenset(units)

    def refuse_beginning(self, place: str, hint: str = "`cep run` and `cep serve` can run it in one process") -> None:
        """Raise CepError if the program has a cycle through NOT or AGGREGATE of formulas. Such a cycle depends on the
        first time of the input.

        - `place`: a description of the current run for the message, which says that this run does not know the first
          time.
        - `hint`: how the program can run instead, for the message.
        """
        for unit in sorted(self.beginning):
            word = self.plan.nodes[unit].properties().word
            message = f"this {word} lies on a cycle, which begins with the first event: {place} has no first event"
            raise CepError(message, self.plan.source, self.plan.spans[unit], hint, "endless")

    def open_intervals(self) -> dict[str, list[Table]]:
        """Return the fluents' intervals that are open at the watermark, by fluent, in the engine's own table format."""
        return self._machine.open(ended=False)

    def held_now(self) -> dict[str, pl.DataFrame]:
        """Return the open intervals of derived fluents, in the same format as the results of `push`."""
        held = {name: tables for name, tables in self.open_intervals().items() if name in self.outputs}
        tables = frames(held, self.plan.schemas, self.pool)
        if self.history is None:
            return tables
        lineage = {name: self.history.because(concat(t), self.plan.schemas, self.pool) for name, t in held.items()}
        return {name: table.with_columns(lineage[name]) for name, table in tables.items()}

    def partial_matches(self, event: str, key: Key | None = None, limit: int = 100) -> PartialMatches:
        """Return the partial matches of a derived event's rules at the watermark, the most complete first.

        - `key`: return only the matches that have these values or may still get them. The names are attributes of the
          event or variables of its rules.
        - `limit`: the greatest number of matches to list. Further matches are only counted.

        The engine does not change. Raises CepError if the event or a name is unknown, or if partial matches are not
        available (docs/limits.md).
        """
        return partial_matches(self.plan, self._machine.goals_by_unit(), self.pool, self.watermark, event, key, limit)

    def ranked_matches(self, event: str, key: Key, limit: int, part: StagePart) -> RankedMatches:
        """Return the partial matches in an engine of one stage.

        The caller merges the results of all stages, and has already checked the arguments.
        """
        goals = self._machine.goals_by_unit()
        return ranked_matches(self.plan, goals, self.pool, self.watermark, event, key, limit, part)

    @property
    def watermark(self) -> int:
        """The watermark in microseconds: the engine rejects events that end at or before it."""
        return self._buffer.watermark

    def take_merged(self) -> Counter[str]:
        """Return, for each event type, how many records were merged with an equal record since the last call."""
        return self._parts.take_merged()

    def follow_input(self, follow: Callable[[str, RowChanges], None]) -> None:
        """Call `follow` with the added and removed rows of each input event from now on. Only for engines whose input
        is revised."""
        if self._parts.revision is not None:
            self._parts.revision.followers.append(follow)

    @property
    def stable(self) -> int:
        """The time in microseconds up to which results are final."""
        return self.watermark if self._parts.revision is None else self._parts.revision.stable

    @property
    def reached(self) -> int:
        """The time to which the input received so far allows the watermark to move."""
        revision = self._parts.revision
        return self._buffer.reached() if revision is None else revision.reached(self._buffer)

    @property
    def latest(self) -> int:
        """The latest end of an event received so far, in microseconds; -2**62 if none was received."""
        return self._buffer.latest

    @property
    def moving(self) -> int:
        """The time that the watermark follows. Without `lateness_by`, this is `latest`. With `lateness_by`, the engine
        computes it from the clocks of all keys."""
        return self._buffer.moving

    @property
    def state_rows(self) -> int:
        """The number of rows in the state: in operators, in the reorder buffer, and in the window of revision."""
        window = 0 if self._parts.revision is None else self._parts.revision.size[0]
        return self._machine.size[0] + self._buffer.waiting_rows + window

    @property
    def state_bytes(self) -> int:
        """The size of the state in bytes: operators, waiting rows, values and lineage."""
        waiting = self._buffer.waiting_bytes
        history = 0 if self.history is None else self.history.nbytes
        waiting += 0 if self._parts.revision is None else self._parts.revision.size[1]
        return self._machine.size[1] + waiting + self.pool.nbytes + history

    def named(self) -> dict[PlanUnit, str]:
        """Return a fingerprint for each operator and event type (see `cep.plan.identity`).

        If operators of two engines have the same fingerprint, their states are equal after equal input. The two engines
        may run different programs.
        """
        return self._fingerprints.units(self.plan, self._machine)

    def meanings(self, known: bool = False) -> dict[str, str]:
        """Return a fingerprint for each derived event type and alert. The fingerprint is a hash of the rules,
        declarations and facts on which the event depends.

        A change of the text's layout or of other rules does not change the fingerprint. `known`: True to include the
        knowledge that the rules query.
        """
        return self._fingerprints.events(known)

    @cached_property
    def _meanings(self) -> dict[str, str]:
        return self.meanings()

    def goals(self, rules: Collection[int] | None = None) -> dict[str, frozenset[str]]:
        """Return the rules that have state, each with the fingerprints of its stateful operators.

        A rule is named by its line and its event: `line 3: warning`.

        `rules`: the numbers of the rules to include, or None for all.
        """
        return prior_state.rules_with(self.plan, self.named(), rules)

    def input_horizons(self) -> dict[str, InputHorizon]:
        """Return how much past input each rule depends on. Keys are the rule names of `goals`.

        If several rules have the same name, the longest horizon is returned.
        """
        horizons: dict[str, InputHorizon] = {}
        for number, horizon in enumerate(InputHorizon.of_rules(self.plan)):
            other = horizons.setdefault(prior_state.rule_name(self.plan, number), horizon)
            if other is not horizon:
                both = InputHorizon(max(other.length, horizon.length), other.bounded and horizon.bounded)
                horizons[prior_state.rule_name(self.plan, number)] = both
        return horizons

    # --- for engines with workers (`cep.workers`); without workers, results are complete when a call returns ---

    def stop(self) -> None:
        """Stop the worker processes. This kind of engine has none."""

    def run_ahead(self, calls: int) -> None:
        """Allow results of a call to be returned by one of the next `calls` calls. This engine returns all at once."""

    def outstanding(self) -> dict[str, pl.DataFrame]:
        """Return the results of earlier calls that have not been returned yet."""
        return {}

    def take_counts(self) -> list[Count]:
        """Return the statistics of each operator since the last call, and the size of its state."""
        return self._machine.take_counts()

    def take_key_shares(self) -> Sequence[KeyShares]:
        """Return the keys that had many rows since the last call. A single engine does not distribute rows by key, so
        it returns an empty sequence."""
        return ()

    @property
    def chained(self) -> tuple[str, ...]:
        """The recursive events for which the engine uses a specialized compiled kernel."""
        return self._machine.compiled

    @property
    def position(self) -> int:
        """The number of input events received so far."""
        return self._parts.position

    @property
    def _state(self) -> str:
        return self.program + (" alerts" if self.alerts else "")

    def _goals(self) -> list[str]:
        named = self.named()
        return [named[unit] for unit, _ in self._machine.goals()]
