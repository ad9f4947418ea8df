"""Program text in, running engine out: the whole pipeline on one page. Read this first.

parse -> lower -> plan -> build -> (push -> admit -> sort -> step -> events)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from cep.core.errors import NOWHERE, CepError, CepErrors, Warning
from cep.core.literals import FARTHEST
from cep.core.relation import FIRST, Table, concat, slice_until
from cep.core.schema import ARRIVAL, Schema
from cep.core.time import Frontier
from cep.core.values import Pool
from cep.events import Event, types_of
from cep.language.dialects.etalis import lower
from cep.language.syntax.ast import PolicyStatement
from cep.language.syntax.parser import parse
from cep.operators.build import Builder
from cep.operators.contract import demand, from_arrow, to_arrow
from cep.plan.advice import arrowed
from cep.plan.alerts import without_alerts
from cep.plan.order import Unit
from cep.plan.plan import Plan, plan
from cep.plan.staged import staged, telling
from cep.rules.datalog import close
from cep.rules.terms import Graph, PolicyChoice
from cep.runtime import encode, prior_state, snapshot
from cep.runtime.atomic_step import wholly
from cep.runtime.counts import Count
from cep.runtime.decode import frames, places, to_events
from cep.runtime.encode import RefusedRow
from cep.runtime.fingerprint import Fingerprints
from cep.runtime.history import History
from cep.runtime.knowledge_changes import KnowledgeChanges
from cep.runtime.knowledge_source import KnowledgeSource, RelationInfo, ask, source_of
from cep.runtime.machine import Machine
from cep.runtime.memory import keep_freed
from cep.runtime.prior_state import PriorState, State
from cep.runtime.reorder_buffer import BEGINNING, END_OF_TIME, ReorderBuffer
from cep.runtime.state_by_key import KeyedStage, Keys, StateByKey

Frames = dict[str, pl.DataFrame]
Batch = Mapping[str, pl.DataFrame] | Iterable[Event]


class Engine:
    """A program, running. Batches go in by `push`, time by `advance`, the end of the input by `close`; each gives
    the new derived events, {type: table} with Int64 `start` and `end` (microseconds UTC, closed interval) and a column
    an attribute.

    Where an exception ends one of them in the middle (Ctrl-C, a lack of memory, the limit of derivations), the engine
    is `broken`: it takes, gives and saves nothing any more, and the last snapshot is what to go on from.
    """

    def __init__(
        self,
        text: str,
        name: str = "<program>",
        *,
        facts: Mapping[str, pl.DataFrame] | None = None,
        knowledge: KnowledgeSource | Iterable[Any] | None = None,
        types: Mapping[str, tuple[str, ...]] | None = None,
        policy: str | None = None,
        lateness: int | None = 0,
        explain: bool = False,
        remember: int | None = None,
        fast_recursion: bool = True,
        max_derivations: int = 1_000_000,
        stage: int | None = None,
        before: PriorState | None = None,
        alerts: bool = False,
    ) -> None:
        if lateness is not None and not 0 <= lateness <= FARTHEST:
            raise ValueError("lateness is 0 to 2**60 microseconds; None: only `advance` moves the time")
        choice = _policy(policy)
        keep_freed()
        tables = facts or {}
        knowledge = source_of(knowledge)
        loaded = None if knowledge is None else knowledge.fingerprint
        self.program = snapshot.fingerprint(text, policy, types, tables, loaded)
        self.pool = Pool()
        state = None if before is None else State.of(before)
        if state is not None and state.values is not None:
            self.pool.load(state.values)  # codes of the state stay as they are; what the program names joins them
        program = parse(text, name)
        rules = lower(program, choice, types or {}, tables)
        known = ask(rules, knowledge, tables, self.pool)
        rules = replace(rules, errors=(*rules.errors, *known.errors))
        try:
            statics = close(rules.statics, tables, self.pool, rules.source, given=known.relations(rules))
            self.plan: Plan = plan(rules, statics.relations, self.pool, frozenset(types or ()))
            self.alerts = rules.alerts if alerts else ()
            if rules.alerts and not alerts:  # checked, and not made
                warnings, rules = self.plan.warnings, without_alerts(rules)
                planned = plan(rules, statics.relations, self.pool, frozenset(types or ()))
                self.plan = replace(planned, warnings=warnings)
        except CepError as error:
            found = error.errors if isinstance(error, CepErrors) else (error,)
            if known.errors:  # without what was asked no type is known
                found = tuple(each for each in found if each.code != "type")
            found = tuple(
                arrowed(each, rules.statics, rules.schemas, rules.source) if each.code == "unknown" else each
                for each in found
            )
            told = set(map(id, rules.errors))
            raise CepErrors([*rules.errors, *(each for each in found if id(each) not in told)]) from None
        self.stage = stage
        self._loaded = loaded
        self._meant = Fingerprints(self.plan, tables, loaded)
        if stage is not None:
            self.program += f" stage {stage}"
            self.plan = staged(self.plan, stage) if stage else telling(self.plan, self.alerts)
        for table in statics.stored.values():
            for codes in table.codes():
                self.pool.pin(codes)
        self.changes = (
            None if knowledge is None else KnowledgeChanges(rules, knowledge, known, statics, tables, self.pool)
        )
        self.explain = explain
        self.history = None if not explain and remember is None else History(remember)
        if self.changes is not None and remember is not None:
            self.changes.remember(remember)
        lineage = None if self.history is None else self.history.lineage
        builder = Builder(self.plan, statics.relations, self.pool, lineage)
        self.machine = Machine(self.plan, builder, fast_recursion, max_derivations)
        self.clock = ReorderBuffer(lateness)
        self.position = 0
        self.broken = False
        self.dead: list[RefusedRow] = []
        self._sweep_at = 1 << 16
        self._keyed: StateByKey | None = None
        with snapshot.restoring():
            self.carried: dict[str, bool] = {} if state is None else self._carry(state)

    @classmethod
    def from_text(cls, text: str, **options: object) -> Engine:
        """An engine for a program text. Raises CepError.

        Options: `name` (for messages), `facts` ({predicate: table}), `knowledge` (what graph patterns ask: a
        `knowledge.graph.Knowledge`, or an rdflib graph or dataset, as it is), `types` (of undeclared input events),
        `policy`, `lateness` (microseconds; None: only `advance` moves the watermark), `explain` (lineage), `remember`
        (for `cep.explain`: keep what ended in the last so many microseconds, and what led to it), `max_derivations`;
        `stage`: of the stages of `cep.plan.partition` run this one alone, from 1
        (`cep.runtime.buckets` says how its rows come and go), 0: the ALERT statements alone, over what was derived;
        `before`: the state of another program, of which it takes over that of the goals that mean the same (`carried`:
        of which rules); `alerts`: make the occurrences of ALERT statements too, which go out as tables of their own
        (`cep.rules.alert`).
        """
        return cls(text, **options)  # type: ignore[arg-type]

    @classmethod
    def from_file(cls, path: str | Path, **options: object) -> Engine:
        """The same for a file, whose name the messages quote."""
        options.setdefault("name", str(path))
        return cls(Path(path).read_text(encoding="utf-8"), **options)  # type: ignore[arg-type]

    # --- what it is ---

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """What the author should know, by position."""
        if self.changes is None:
            return self.plan.warnings
        silent = [self.changes.loaded.why_no_answers(each, self.plan.source) for each in self.changes.known.silent]
        told = (*self.plan.warnings, *silent, *self.changes.known.mingled)
        return tuple(sorted(told, key=lambda warning: warning.span or NOWHERE))

    @property
    def answers(self) -> dict[str, RelationInfo]:
        """What answers there are to what is asked of the knowledge, by the names of `plan.rules.asked`."""
        if self.changes is None:
            return {}
        asked, loaded = self.plan.rules.asked, self.changes.loaded
        follows = {name: not isinstance(each, Graph) or loaded.by_difference(each) for name, each in asked.items()}
        return {name: RelationInfo(t.count, t.types, follows[name]) for name, t in self.changes.known.tables.items()}

    @property
    def inputs(self) -> dict[str, Schema]:
        """The events that it reads."""
        return {name: schema for name, schema in self.plan.schemas.items() if name in self.plan.inputs}

    @property
    def outputs(self) -> dict[str, Schema]:
        """The events that it derives."""
        told = {alert.table for alert in self.alerts}
        return {name: self.plan.schemas[name] for name in self.plan.derived if name not in told}

    @property
    def watermark(self) -> int:
        """Nothing that ends at or before it (microseconds) is taken any more."""
        return self.clock.watermark

    @property
    def reached(self) -> int:
        """The watermark that what has been received allows."""
        return self.clock.reached()

    @property
    def latest(self) -> int:
        """The largest end seen (microseconds); -2**62 before any."""
        return self.clock.latest

    @property
    def state_rows(self) -> int:
        """Occurrences that wait in goals or for the watermark."""
        return self.machine.size[0] + self.clock.held

    @property
    def state_bytes(self) -> int:
        """Bytes of what goals hold, of what waits for the watermark, of values and of lineage."""
        waiting = sum(table.nbytes for tables in self.clock.waiting.values() for table in tables)
        history = 0 if self.history is None else self.history.nbytes
        return self.machine.size[1] + waiting + self.pool.nbytes + history

    def named(self) -> dict[Unit, str]:
        """Names of goals and events by what they mean (`cep.plan.identity`): those of equal names, in whatever program,
        have equal states after equal input."""
        return self._meant.units(self.plan, self.machine)

    def meanings(self, known: bool = False) -> dict[str, str]:
        """A name for what each derived event and alert means: of the rules, declarations and facts that it goes back
        to. Neither layout, other rules nor the knowledge change it; `known`: the knowledge does where it is asked."""
        return self._meant.events(known)

    def goals(self, rules: Collection[int] | None = None) -> dict[str, frozenset[str]]:
        """The rules that remember something, as `line 3: warning`, with the names of their goals that do: all of them,
        or those of these numbers."""
        return prior_state.rules_with(self.plan, self.named(), rules)

    # --- running ---

    def push(self, batch: Batch) -> Frames:
        """Take a batch, {type: table} or events, sorted or not; gives what it completes.

        A table has Int64 `start` and `end` (or `time`), a column an attribute, and may have `@order`, each row's
        position in the input. Rows that do not fit go to `take_dead`. Raises CepError for an unknown type or a
        missing column.
        """
        self.receive(batch)
        return self._run(self.clock.reached())

    @wholly(refuses=True)
    def receive(self, batch: Batch) -> None:
        """Take a batch as `push` does and complete nothing: `advance(reached)` goes on."""
        admitted: dict[str, encode.Admitted] = {}
        first = position = self.position
        if isinstance(batch, Mapping):
            ordered = any(ARRIVAL in frame.columns for frame in batch.values())
            if ordered and not all(ARRIVAL in frame.columns for frame in batch.values()):
                raise CepError("either all tables of a push have a column `@order` or none", code="column")
            for name, frame in batch.items():
                admitted[name] = encode.admit(frame, self._schema(name), self.pool, position)
                position += frame.height
        else:
            ordered = False
            by_type: dict[str, list[tuple[int, Event]]] = {}
            for place, event in enumerate(batch):
                by_type.setdefault(event.type, []).append((place, event))
            for name, events in by_type.items():
                admitted[name] = encode.admit_events(events, self._schema(name), self.pool, first)
                position += len(events)
        self.position = position
        tables = {name: one.table for name, one in admitted.items()}
        for one in admitted.values():
            self.dead += one.dead
        for name, mask in encode.late(tables, self.clock.watermark, self.clock.lateness, ordered).items():
            if mask.any():
                refused = admitted[name].rows[mask]
                self.dead += [
                    RefusedRow(name, int(row), "late", "is late: the watermark has passed it") for row in refused
                ]
                tables[name] = np.ascontiguousarray(tables[name][:, ~mask])
        self.clock.receive(tables)

    @wholly(refuses=True)
    def update(self, time: int, add: object = (), remove: object = ()) -> None:
        """From `time` on (microseconds) the knowledge is without the triples `remove`, and then with `add`.

        Occurrences that end at or after `time` are judged by it. Updates may come in any order; of one time, each goes
        on from the one before. Raises CepError, and changes nothing, where the watermark has passed `time`, and where
        the types of what is asked would change.
        """
        self._update([(time, add, remove)])

    @wholly(refuses=True)
    def updates(self, changes: Iterable[tuple[int, object, object]]) -> None:
        """Take many updates at once, each (time, add, remove) as `update` does, which is much faster than one by one.

        Raises CepError, and changes nothing, where one of them cannot be.
        """
        self._update(list(changes))

    def _update(self, changes: list[tuple[int, Any, Any]]) -> None:
        if self.changes is None:
            raise CepError(
                "there is no knowledge that could change", hint="Engine(..., knowledge=...)", code="knowledge"
            )
        for time, _, _ in changes:
            if not BEGINNING < time < END_OF_TIME:
                raise ValueError("an update has a time in microseconds, within 2**62")
            if time <= self.clock.watermark:
                hint = "updates come before the events of their time, or within the lateness"
                raise CepError("the update is late: the watermark has passed it", hint=hint, code="late")
        made = [(time, self.changes.loaded.change(add, remove)) for time, add, remove in changes]
        if len(made) == 1:
            self.changes.add(*made[0])
        elif made:
            self.changes.add_all(made)

    def advance(self, watermark: int) -> Frames:
        """No event that ends at or before `watermark` (microseconds) will come any more; gives what that completes."""
        return self._run(max(min(int(watermark), END_OF_TIME), self.clock.watermark))

    def close(self) -> Frames:
        """The end of the input: every deadline passes, every time point comes."""
        return self._run(END_OF_TIME)

    @wholly()
    def forget(self) -> None:
        """Keep nothing that no later event can need. Steps leave some of it until there is more."""
        self.machine.evict(Frontier.at(self.clock.watermark))

    def take_dead(self) -> list[RefusedRow]:
        """The rows refused since the last call: (type, row in its pushed table or sequence, code, reason)."""
        dead, self.dead = self.dead, []
        return dead

    def take_counts(self) -> list[Count]:
        """What each goal has done since the last call, and what it holds."""
        return self.machine.take_counts()

    @wholly()
    def snapshot(self) -> bytes:
        """The whole state, to go on from later: `Engine.from_text(program).restore(blob)`."""
        values = self.pool.dump().to_arrow().combine_chunks().to_batches()
        header: dict[str, object] = {
            "explain": self.history is not None,
            "position": self.position,
            "watermark": self.clock.watermark,
            "latest": self.clock.latest,
            "values": len(values),
            "knowledge": self._loaded,
            "waiting": {name: [a.type for a in self.plan.schemas[name].attributes] for name in self.clock.waiting},
        }
        states = self.machine.snapshot()
        header["goals"] = prior_state.shortened(self._order(), states)
        batches = [*values, to_arrow(self.clock.snapshot()), *states]
        if self.changes is not None:
            batches.append(self.changes.snapshot())
        if self.history is not None:
            batches += self.history.snapshot(self.machine.names())
        return snapshot.save(header, batches, self._state)

    def goes_on(self, blob: bytes) -> bool:
        """Whether a snapshot is of this program, so that `restore` takes it. Raises CepError where it is damaged."""
        return snapshot.program_of(blob) == self._state

    def restore(self, blob: bytes) -> Engine:
        """Take on a snapshot of the same program; gives the engine itself. Raises CepError where it is another
        program's, or damaged; the engine is then not to be used any more."""
        with snapshot.restoring():
            header, batches = snapshot.load(blob, self._state)
            if header["explain"] != (self.history is not None):
                raise CepError(
                    "the snapshot was made with another `explain`", hint="the same option on both", code="snapshot"
                )
            self._take_on(header, batches)
        return self

    @wholly()
    def _take_on(self, header: Mapping[str, Any], batches: list[pa.RecordBatch]) -> None:
        if header["values"]:
            self.pool.load(pl.from_arrow(pa.Table.from_batches(batches[: header["values"]])))  # type: ignore[arg-type]
        batches = batches[header["values"] :]
        if self.history is not None:
            *batches, records, lineage = batches
            self.history.restore(records, lineage)
        if self.changes is not None:
            self.changes.restore(batches.pop())
        self.clock.restore(from_arrow(batches[0]), header["watermark"], header["latest"])
        self.machine.restore(batches[1:])
        self.position = header["position"]
        self._checked()

    def _checked(self) -> None:
        """What was restored fits the program, and holds together. Raises CepError where it does not."""
        self.clock.fits({name: FIRST + len(schema.attributes) for name, schema in self.inputs.items()})
        demand(isinstance(self.position, int) and self.position >= 0)
        for codes in [*self.machine.coded(), *self.clock.codes(self._coded())]:
            demand(self.pool.holds(codes))
        if self.history is not None:
            self.history.fits(self.plan.schemas, self.machine.names())

    def _carry(self, state: State) -> dict[str, bool]:
        """Go on where another program was; gives of each rule that remembers whether it goes on as it was."""
        if self.history is not None:
            raise CepError("lineage cannot be carried over", hint="an engine without `explain`", code="snapshot")
        header = state.header
        self.clock.restore(state.waits(self.inputs), header["watermark"], header["latest"])
        taken = self.machine.carry(self._order(), state.goals, self.clock.watermark)
        if self.changes is not None and state.changes is not None and header["knowledge"] == self._loaded:
            self.changes.restore(state.changes)
        self.position = header["position"]
        self._checked()
        return {rule: goals <= taken for rule, goals in self.goals().items()}

    def extract(self, keys: Keys) -> bytes:
        """Take out all that is held of these keys, each the values of the arguments by which the program runs
        (`cep plan`), or of a share of them; what belongs to every key is copied. Gives it as `replace` takes it.
        Raises CepError where the program or stage does not run by key, and with lineage."""
        held = self._by_key()
        return self._extract(held, keys)

    def replace(self, keys: Keys, state: bytes) -> None:
        """Put what `extract` gave, of an engine of the same program and stage at the same watermark, in the place of
        all that is held of these keys; an engine that has met nothing takes on the watermark, too. Raises CepError."""
        held = self._by_key()
        with snapshot.restoring():
            self._replace(held, keys, *held.read(state))

    @wholly()
    def _extract(self, held: StateByKey, keys: Keys) -> bytes:
        return held.extract(keys, self.position)

    @wholly()
    def _replace(self, held: StateByKey, keys: Keys, header: Mapping[str, Any], batches: list[pa.RecordBatch]) -> None:
        held.replace(keys, header, batches)
        self.position = max(self.position, header["position"])
        self._checked()

    def _by_key(self) -> StateByKey:
        if self.history is not None:
            raise CepError("lineage is not kept by key", hint="an engine without `explain`", code="snapshot")
        if self._keyed is None:
            stage = KeyedStage(self._meant.plan, self.stage)
            self._keyed = StateByKey(stage, self.plan, self.machine, self.clock, self.pool, self._state + " by key")
        return self._keyed

    @property
    def _state(self) -> str:
        """What a snapshot is of."""
        return self.program + (" alerts" if self.alerts else "")

    def _order(self) -> list[str]:
        named = self.named()
        return [named[unit] for unit, _ in self.machine.goals()]

    @wholly()
    def _run(self, watermark: int) -> Frames:
        released = self.clock.release(watermark)
        if self.history is not None:
            self.history.took(released)
        made = self._step(released, watermark)
        out = frames(made, self.plan.schemas, self.pool)
        if self.stage:
            out = {name: table.with_columns(places(concat(made[name]))) for name, table in out.items()}
        if self.history is not None:
            self.history.made(made)
            for name, tables in made.items() if self.explain else ():
                out[name] = out[name].with_columns(self.history.told(name, concat(tables), self.plan, self.pool))
        self._forget()
        return out

    def _step(self, released: dict[str, Table], watermark: int) -> dict[str, list[Table]]:
        """What the input up to `watermark` leads to, cut where the knowledge changes."""
        if self.changes is None or not (times := self.changes.due(watermark)):
            return self.machine.step(released, Frontier.at(watermark))
        if self.changes.over is not None:
            with self.changes.as_they_come():
                found = self.machine.step(released, Frontier.at(watermark))
            self.changes.reach(times[-1])
            return found
        made: dict[str, list[Table]] = {}
        done = dict.fromkeys(released, 0)
        for time in [*times, None]:
            until = watermark if time is None else time - 1
            stops = {name: slice_until(table, until) for name, table in released.items()}
            piece = {name: table[:, done[name] : stops[name]] for name, table in released.items()}
            for name, tables in self.machine.step(piece, Frontier.at(until)).items():
                made.setdefault(name, []).extend(tables)
            if time is not None:
                self.changes.reach(time)
            done = stops
        return made

    def _schema(self, name: str) -> Schema:
        schema = self.plan.schemas.get(name)
        if schema is None or name not in self.plan.inputs:
            known = ", ".join(f"`{n}`" for n in sorted(self.plan.inputs)) or "none"
            hint = f"declare `event {name}(...)` to read it as well as derive it" if schema else f"it reads {known}"
            raise CepError(f"the program does not read an event `{name}`", hint=hint, code="unknown")
        return schema

    def _forget(self) -> None:
        """Drop history that nothing waiting goes back to, and values that nothing holds, when there is twice as
        much as after the last time."""
        if self.history is not None:
            self.history.forget(self.machine.names, min(self.clock.watermark, self.clock.latest))
        if self.pool.size > self._sweep_at:
            coded = self._coded()
            whole = () if self.history is None else self.history.tables()
            held = [t[row] for name, tables in whole for t in tables for row in coded[name]]
            known = [] if self.changes is None else self.changes.codes()
            self.pool.sweep([*self.machine.codes(), *self.clock.codes(coded), *held, *known])
            self._sweep_at = max(1 << 16, 2 * self.pool.size)

    def _coded(self) -> dict[str, list[int]]:
        """Which rows of each event's tables are pool codes."""
        return {
            name: [FIRST + i for i, a in enumerate(s.attributes) if a.type in ("string", "iri", "any")]
            for name, s in self.plan.schemas.items()
        }


def detect(
    program: str,
    events: Iterable[Event],
    policy: str | None = None,
    facts: Mapping[str, pl.DataFrame] | None = None,
    knowledge: KnowledgeSource | Iterable[Any] | None = None,
) -> list[Event]:
    """All events that a program derives from these, sorted by (end, start, type, args). Types of undeclared events
    are those of the events given. Raises CepError; ValueError where an event does not fit its declaration.
    """
    given = list(events)
    engine = Engine(program, policy=policy, facts=facts, knowledge=knowledge, types=types_of(given), lateness=None)
    known = [event for event in given if event.type in engine.plan.inputs]
    engine.push(known) if known else None
    refused = engine.take_dead()
    if refused:
        event = known[refused[0].row]
        raise ValueError(f"event {event.type}{event.args} {refused[0].reason}")
    released = engine.clock.release(END_OF_TIME)
    made = engine.machine.step(released, Frontier.at(END_OF_TIME))
    return to_events(made, engine.plan.schemas, engine.pool)


def _policy(text: str | None) -> PolicyChoice | None:
    if text is None:
        return None
    try:
        statement = parse(f"policy {text}.", "<policy>").statements[0]
    except CepError as error:
        raise CepError(f"policy: {error.message}", hint=error.hint, code="option") from None
    assert isinstance(statement, PolicyStatement), "the keyword says so"
    return statement.choice
