"""What an engine is and holds, as others see it; and how it is put together from a compiled program."""

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
    """The parts of a program that nothing has come to yet."""
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

    def machine_of(plan: Plan) -> Machine:
        lineage = None if history is None else history.lineage
        builder = GoalBuilder(plan, bound.statics.relations, bound.pool, lineage, changes)
        return Machine(plan, builder, options.fast_recursion, options.max_derivations)

    machine = machine_of(plan)
    if remember is not None and options.stage is None:
        machine.give_transitions()
    parts = EngineParts(plan, bound.pool, machine, buffer, history, changes)
    keyed = sorted(name for name in program.plan.inputs if plan.schemas[name].key is not None)
    keyed = [] if options.corrected or options.stage == 0 else keyed
    if options.revise is not None or keyed:
        window = _window(options)
        if options.stage:
            stage = partition(program.plan)[options.stage - 1]
            window = replace(window, handed=frozenset(stage.inputs) - stage.outside)
        parts.revision = Revision(plan, machine, window, machine_of, bound.pool, changes, history)
    return parts


def _window(options: EngineOptions) -> RevisionWindow:
    """How long results are revised; without `revise` a record of an event with a KEY replaces one that still waits.

    What is exactly `revise` older than the watermark is taken: the last that is final ends a microsecond before that.
    """
    lateness = options.lateness or 0
    if options.revise is None:
        return RevisionWindow(0, lateness + 1, True)
    if options.final:
        return RevisionWindow(0, lateness + options.revise + 1, True)
    return RevisionWindow(options.revise + 1, lateness, False)


class EngineView:
    """An engine as a value to look at.

    `plan`: what it runs; `program`: a name for that with all that its state depends on; `alerts`: those it makes;
    `stage`: of the program, None: it runs all of it. `pool`: the values of strings and IRIs; `relations`: what static
    predicates hold; `history`: what was taken and made, and `changes`: the knowledge as it changes, None where there
    are none; `written`: what is known of the program's text.
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
        """The warnings for the author of the program, by position."""
        if self.changes is None:
            return self.plan.warnings
        return all_warnings(self.plan, self.changes.loaded, self.changes.known)

    @property
    def answers(self) -> dict[str, RelationInfo]:
        """What answers there are to what is asked of the knowledge, by the names of `plan.rules.asked`."""
        if self.changes is None:
            return {}
        asked, loaded = self.plan.rules.asked, self.changes.loaded
        follows = {name: not isinstance(each, Graph) or loaded.by_difference(each) for name, each in asked.items()}
        return {name: RelationInfo(t.count, t.types, follows[name]) for name, t in self.changes.known.tables.items()}

    @cached_property
    def inputs(self) -> dict[str, Schema]:
        """The events that it reads, and as events of their starts the records of fluents."""
        return inputs_of(self.plan)

    @property
    def outputs(self) -> dict[str, Schema]:
        """The events that it derives."""
        return self._output.schemas

    @property
    def shown(self) -> dict[str, Schema]:
        """The events of which it gives rows; after a change of the program also those of the former one."""
        return self.outputs

    @property
    def revises(self) -> bool:
        """Whether records may withdraw others."""
        return self._parts.revision is not None

    @property
    def withdraws(self) -> bool:
        """Whether what is given may be withdrawn later."""
        return self._parts.revision is not None and not self._parts.revision.window.final

    @property
    def revision_stats(self) -> RevisionStats | None:
        """What revision has done since the engine was made; None where what is given is never withdrawn."""
        return self._parts.revision.stats if self._parts.revision is not None and self.withdraws else None

    @property
    def late_rows(self) -> dict[str, int]:
        """By event, how many rows came or went late within the window since the engine was made."""
        return {} if self._parts.revision is None else dict(self._parts.revision.late_rows)

    def refuse_endless(self, place: str) -> None:
        """CepError: what the program asks is known at the end of the input alone, to which this place never comes."""
        for node, span in zip(self.plan.nodes, self.plan.spans):
            if found := node.known_at_end():
                message, hint = found
                raise CepError(f"{message}: {place} has none", self.plan.source, span, hint, "endless")
        for number in self._looking_ahead():
            word, span = self.plan.nodes[number].properties().word, self.plan.spans[number]
            message = f"this {word} lies on a cycle, which is known at the end of the input alone: {place} has none"
            hint = "`cep run` finds it over files, between --from and --until; or a cycle that looks back"
            raise CepError(message, self.plan.source, span, hint, "endless")

    def refuse_boundless(self, start: int | None, until: int | None) -> None:
        """CepError: something is defined by itself through what comes later, which may go back for ever, and it is not
        said between which times it is asked."""
        for number in self._looking_ahead() if start is None or until is None else ():
            word, span = self.plan.nodes[number].properties().word, self.plan.spans[number]
            message = f"this {word} lies on a cycle, which goes back in time, perhaps for ever"
            hint = "say between which times it is asked: `--from 2013-02-09T03:00 --until 2013-02-10`, in Python "
            raise CepError(message, self.plan.source, span, hint + "`start` and `until`", "endless")

    def _looking_ahead(self) -> list[int]:
        """The nodes on cycles that look ahead."""
        units = [unit for group in self.plan.groups if group.recursive for unit in group.units]
        return [unit for unit in units if isinstance(unit, int) and self.plan.nodes[unit].looks_ahead()]

    @property
    def unending(self) -> frozenset[int]:
        """The nodes that may go on by themselves, as cycles among formulas may, at the end of the input to the latest
        time in it: engines of stages have to be told that (`reached_in_input`)."""
        found = {number for number, node in enumerate(self.plan.nodes) if node.unending()}
        for group in self.plan.groups:
            nodes = [unit for unit in group.units if isinstance(unit, int)]
            own = [self.plan.nodes[unit] for unit in nodes]
            settles = group.recursive and any(node.properties().settles for node in own)
            if settles and any(node.timed() for node in own):
                found.update(nodes)
        return frozenset(found)

    @property
    def beginning(self) -> frozenset[int]:
        """The nodes that begin with the input, NOT and AGGREGATE of formulas on cycles: engines of stages have to be
        told its first time (`begun_in_input`)."""
        found: set[int] = set()
        for group in self.plan.groups:
            nodes = [unit for unit in group.units if isinstance(unit, int)]
            own = {unit: self.plan.nodes[unit].properties() for unit in nodes}
            if not group.recursive or not any(one.settles for one in own.values()):
                continue
            for unit, each in own.items():
                whole = each.kind == "formula" and (each.negated is not None or each.needs_instant is not None)
                if whole and set(self.plan.nodes[unit].parts[each.negated or 0 :]) & own.keys():
                    found.add(unit)
        return frozenset(found)

    def refuse_beginning(self, place: str, hint: str = "`cep run` and `cep serve` run it in one process") -> None:
        """CepError: a cycle goes through NOT or AGGREGATE of formulas, which begins with the input, whose first time
        this place does not know. `hint`: where it is run."""
        for unit in sorted(self.beginning):
            word = self.plan.nodes[unit].properties().word
            message = f"this {word} lies on a cycle, which begins with the input: {place} knows no first"
            raise CepError(message, self.plan.source, self.plan.spans[unit], hint, "endless")

    def open_intervals(self) -> dict[str, list[Table]]:
        """What fluents hold at the watermark and nothing has ended yet, by fluent; the rows of goals."""
        return self._machine.open(ended=False)

    def held_now(self) -> dict[str, pl.DataFrame]:
        """The same as `push` gives what begins: of the fluents that it derives."""
        held = {name: tables for name, tables in self.open_intervals().items() if name in self.outputs}
        found = frames(held, self.plan.schemas, self.pool)
        if self.history is None:
            return found
        lineage = {name: self.history.because(concat(t), self.plan.schemas, self.pool) for name, t in held.items()}
        return {name: table.with_columns(lineage[name]) for name, table in found.items()}

    def partial_matches(self, event: str, key: Key | None = None, limit: int = 100) -> PartialMatches:
        """The occurrences that wait, at the watermark, for the rest of a rule of a derived event, those that lack least
        first. `key`: only those that have, or may still get, these values, by the names of attributes of the event or
        of variables of its rules. At most `limit` are listed, the others counted. Nothing changes by it.

        Raises CepError for an event or a name that is not there, and where they are not known (docs/limits.md).
        """
        return partial_matches(self.plan, self._machine.goals_by_unit(), self.pool, self.watermark, event, key, limit)

    def ranked_matches(self, event: str, key: Key, limit: int, part: StagePart) -> RankedMatches:
        """The same of an engine of a stage, to be merged with those of others; nothing is checked."""
        goals = self._machine.goals_by_unit()
        return ranked_matches(self.plan, goals, self.pool, self.watermark, event, key, limit, part)

    @property
    def watermark(self) -> int:
        """Nothing that ends at or before it (microseconds) is taken any more."""
        return self._buffer.watermark

    def take_merged(self) -> Counter[str]:
        """By event, how many records were one with an equal one since the last call."""
        return self._parts.take_merged()

    def follow_input(self, follow: Callable[[str, RowChanges], None]) -> None:
        """Tell what comes and goes of the input, of each event, where input is revised."""
        if self._parts.revision is not None:
            self._parts.revision.followers.append(follow)

    @property
    def stable(self) -> int:
        """Nothing that ends at or before it (microseconds) is ever withdrawn."""
        return self.watermark if self._parts.revision is None else self._parts.revision.stable

    @property
    def reached(self) -> int:
        """The watermark that what has been received allows."""
        revision = self._parts.revision
        return self._buffer.reached() if revision is None else revision.reached(self._buffer)

    @property
    def latest(self) -> int:
        """The largest end seen (microseconds); -2**62 before any."""
        return self._buffer.latest

    @property
    def moving(self) -> int:
        """The time that the watermark follows: `latest`, or where the clocks of keys are (`lateness_by`)."""
        return self._buffer.moving

    @property
    def state_rows(self) -> int:
        """Occurrences that wait in goals or for the watermark."""
        window = 0 if self._parts.revision is None else self._parts.revision.size[0]
        return self._machine.size[0] + self._buffer.waiting_rows + window

    @property
    def state_bytes(self) -> int:
        """Bytes of what goals hold, of what waits for the watermark, of values and of lineage."""
        waiting = sum(table.nbytes for tables in self._buffer.waiting.values() for table in tables)
        history = 0 if self.history is None else self.history.nbytes
        waiting += 0 if self._parts.revision is None else self._parts.revision.size[1]
        return self._machine.size[1] + waiting + self.pool.nbytes + history

    def named(self) -> dict[PlanUnit, str]:
        """Names of goals and events by what they mean (`cep.plan.identity`): those of equal names, in whatever program,
        have equal states after equal input."""
        return self._fingerprints.units(self.plan, self._machine)

    def meanings(self, known: bool = False) -> dict[str, str]:
        """A name for what each derived event and alert means: of the rules, declarations and facts that it goes back
        to. Neither layout, other rules nor the knowledge change it; `known`: the knowledge does where it is asked."""
        return self._fingerprints.events(known)

    @cached_property
    def _meanings(self) -> dict[str, str]:
        return self.meanings()

    def goals(self, rules: Collection[int] | None = None) -> dict[str, frozenset[str]]:
        """The rules that remember something, as `line 3: warning`, with the names of their goals that do: all of them,
        or those of these numbers."""
        return prior_state.rules_with(self.plan, self.named(), rules)

    def input_horizons(self) -> dict[str, InputHorizon]:
        """How much input the rules need to have seen, by their names as `goals` has them; the largest one of several
        with one name."""
        found: dict[str, InputHorizon] = {}
        for number, each in enumerate(InputHorizon.of_rules(self.plan)):
            other = found.setdefault(prior_state.rule_name(self.plan, number), each)
            if other is not each:
                both = InputHorizon(max(other.length, each.length), other.bounded and each.bounded)
                found[prior_state.rule_name(self.plan, number)] = both
        return found

    # --- of an engine with workers (`cep.workers`); one without them ends its steps before it gives anything ---

    def stop(self) -> None:
        """End what works for it beside this process."""

    def run_ahead(self, calls: int) -> None:
        """What a call completes may be given by one of the next so many."""

    def outstanding(self) -> dict[str, pl.DataFrame]:
        """What calls have begun and not given yet."""
        return {}

    def take_counts(self) -> list[Count]:
        """What each goal has done since the last call, and what it holds."""
        return self._machine.take_counts()

    def take_key_shares(self) -> Sequence[KeyShares]:
        """Which keys have many of the rows that were dealt since the last call; one engine deals none."""
        return ()

    @property
    def chained(self) -> tuple[str, ...]:
        """The recursive events that run in a kernel of their own."""
        return self._machine.compiled

    @property
    def position(self) -> int:
        """How many events have come."""
        return self._parts.position

    @property
    def _state(self) -> str:
        """What a snapshot is of."""
        return self.program + (" alerts" if self.alerts else "")

    def _goals(self) -> list[str]:
        """The names of the machine's goals."""
        named = self.named()
        return [named[unit] for unit, _ in self._machine.goals()]
