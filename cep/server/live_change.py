"""Replace the program of a running server.

The new program is checked and tested, and its new rules process the earlier input. Then it replaces the running program
at a watermark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, time_ns
from typing import Any

import polars as pl

from cep.app.durations import refuse
from cep.app.knowledge_updates import KnowledgeUpdates, knowledge_updates
from cep.app.program_thread import ProgramThread
from cep.app.terminal import warnings_of
from cep.connectors.alerts.handling_tables import Recorded, RecordedAction
from cep.connectors.alerts.text import JsonValue
from cep.connectors.journal import Handover
from cep.connectors.rdf.derivations import Derivations
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.service import Service
from cep.connectors.serving.outline import parameter_values
from cep.connectors.serving.programs import ChangeRefused, version_time
from cep.connectors.serving.versions import Version, files_hash
from cep.connectors.why.text import Explainer
from cep.core.errors import CepError, reason_of
from cep.core.schema import Schema
from cep.core.time import BEGINNING
from cep.engine import Engine
from cep.knowledge.provenance import Provenance
from cep.knowledge.report import prefixes
from cep.runtime.prior_state import PriorState
from cep.server.options import ServeOptions
from cep.server.program import ServedProgram, program_source
from cep.server.routes import unreached_warning
from cep.server.shadow import Shadow, forget_texts, keep_texts
from cep.server.warming import Warmed, warm
from cep.succession import Successor, cuts_between
from cep.testing.report import failure_lines
from cep.testing.rule_files import SUFFIX, read_test_file
from cep.testing.runs import Programs
from cep.testing.session import Session

_WRITTEN = 30.0  # seconds in which the store has to write what was derived
_EXPLAINING = 2.0  # seconds in which differences of a shadow are explained, and the program waits
_BEHIND = "nothing has changed"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An engine of a new program that is ready to replace the running program.

    - `texts`: the texts of the new program, by file.
    - `text`: all these texts, joined to one.
    - `warmed`: the result of processing the earlier input with the new rules.
    - `tests`: the number of passed tests.
    - `warnings`: the compiler's warnings.
    """

    texts: Mapping[str, str]
    text: str
    engine: Engine
    warmed: Warmed
    tests: int
    warnings: list[str]


class LiveProgram:
    """The program of a server, and its versions.

    `begin`: the function that switches the server to another program. Its second argument contains the intervals that
    end because the previous program ends. The caller must hold the lock of the program's batches (`batches.lock`).
    """

    def __init__(
        self,
        options: ServeOptions,
        program: ServedProgram,
        run: ProgramThread,
        begin: Callable[[ServedProgram, Mapping[str, pl.DataFrame]], Service],
        record: Callable[[RecordedAction], None],
    ) -> None:
        """Store the arguments. `record`: a function that adds a person's action to the log of actions."""
        self._options, self._program, self._run, self._begin = options, program, run, begin
        self._record = record
        self._schemas: Mapping[str, Schema] = program.schemas
        self._routes = options.alerts.routing
        self._one = threading.Lock()
        self._shadow: Shadow | None = None

    # --- what runs ---

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the program's files."""
        return self._options.file_names

    def running(self) -> dict[str, Any]:
        """Return the running version of the program as JSON, with the texts of its files and with its parameters."""
        return {**self._full(self._program.version), "parameters": self._parameters(self._program.engine)}

    def _parameters(self, engine: Engine) -> list[dict[str, str]]:
        named = self._options.parameters.values
        return [
            value | {"source": "command line" if value["name"] in named else "program"}
            for value in parameter_values(engine)
        ]

    def _overriding(self, engine: Engine) -> list[str]:
        """Return warnings about the parameters on the command line.

        There is a warning for each parameter that the program does not have. There is also one for each parameter whose
        value in the program differs from the value on the command line.
        """
        parameters = engine.written.parameters.by_name
        warnings = []
        for name in self._options.parameters.values:
            if name not in parameters:
                warnings.append(f"`{name}` is set on the command line, but the program has no such parameter")
            elif (parameter := parameters[name]).value != parameter.default:
                value, default = (parameter.written(setting.value) for setting in (parameter.value, parameter.default))
                warnings.append(
                    f"`{name}` is {value}, as set on the command line: it overrides the program's own {default}"
                )
        return warnings

    def history(self) -> list[dict[str, Any]]:
        """Return all versions without their texts, newest first."""
        versions = self._program.versions
        if versions is None:
            return [self._listed(self._program.version)]
        saved = [versions.read(number) for number in reversed(versions.numbers())]
        return [
            self._listed(entry) for entry in saved if entry is not None and entry.number <= self._program.version.number
        ]

    def version(self, number: int) -> dict[str, Any]:
        """Return a version with its texts. Raises ChangeRefused if it does not exist."""
        return self._full(self._version(number))

    def _version(self, number: int) -> Version:
        current = self._program.version
        if number == current.number:
            return current
        versions = self._program.versions
        version = None if versions is None or number > current.number else versions.read(number)
        if version is None:
            raise ChangeRefused(404, f"there is no version {number}; `program/history` lists all versions")
        return version

    def _listed(self, version: Version) -> dict[str, Any]:
        restores = {} if version.restores is None else {"restores": version.restores}
        return {
            "version": version.number,
            "author": version.author,
            "time": version.time,
            "from": version_time(version.watermark),
            "seen": version_time(version.since),
            "running": version.number == self._program.version.number,
            **restores,
        }

    def _full(self, version: Version) -> dict[str, Any]:
        return {**self._listed(version), "files": dict(version.texts)}

    # --- another one ---

    def restore(self, number: int, author: str) -> dict[str, Any]:
        """Replace the program by an earlier version's texts. Raises ChangeRefused, with no effect, if that fails."""
        return self.change(self._version(number).texts, author, number)

    def change(self, texts: Mapping[str, str], author: str, restores: int | None = None) -> dict[str, Any]:
        """Replace the program by a program with these texts. Raises ChangeRefused, with no effect, if that fails.

        `restores`: the number of the earlier version that has these texts, or None. If the running program has the same
        texts already, no new version is created.
        """
        with self._alone():
            if texts == self._program.version.texts:
                self._refuse_unchangeable()
                engine = self._program.engine
                values = {"parameters": self._parameters(engine), "warnings": self._overriding(engine)}
                return {**self._listed(self._program.version), "same": True, **values}
            with self._prepared(texts) as new:
                return self._take_over(new, author, restores)

    # --- a shadow ---

    def begin_shadow(self, texts: Mapping[str, str], author: str) -> dict[str, Any]:
        """Run a shadow program on the same input. Raises ChangeRefused if it cannot run.

        `author`: the person who starts the shadow, or "" if the server itself restarts it. Then no action is recorded.
        """
        with self._alone():
            with self._prepared(texts) as new:
                warnings = new.warnings
                self._keep_shadow(texts)
                updates = self._updates(new.engine)
                shadow = Shadow(self._program.engine, new.engine, new.texts, updates)
                if author:
                    self._acted(author, "begin_shadow")
                self._shadow = self._run.follower = shadow
            since = version_time(self._shadow.since) or "the beginning"
            self._options.log("shadow", f"a shadow program runs from {since} on")
        return {**self.shadow(0, 0), "warnings": warnings}

    def check_shadow(self) -> None:
        """Raise CepError if the files of `--shadow` can never run as a shadow of this program."""
        self.check_changeable("--shadow")
        source = program_source(self._options, None, self._program.known, self._options.server.shadow, later=True)
        try:
            self._refuse_other_input(Engine(source.compiled(alerts=True), self._program.running))
        except ChangeRefused as error:
            raise refuse(f"--shadow: {error}") from None

    def check_changeable(self, option: str) -> None:
        """Raise CepError if this program can never change while it runs.

        `option`: the option that the error message names. It only works with a program that can change.
        """
        try:
            self._refuse_unchangeable()
        except ChangeRefused as error:
            if not error.busy:
                raise refuse(f"{option}: {error}") from None

    def shadow(self, first: int, told: int) -> dict[str, Any]:
        """Return the shadow as JSON, with the last differences between the two programs.

        - `first`: the number of differences to return, for each kind and event type.
        - `told`: the number of these differences that include their reasons.

        Raises ChangeRefused if no shadow runs.
        """
        with self._program.batches.lock:
            explain = self._explainers() if told and self._program.engine.explain else None
            return self._shadowing().shown(first, told, explain)

    def _explainers(self) -> Callable[[Engine], Explainer]:
        program, options = self._program, self._options
        known, until = program.known, monotonic() + min(_EXPLAINING, options.queries.query_seconds)
        facts = None if known is None else Provenance(known, prefixes(options.knowledge.files))

        def check() -> None:
            if monotonic() > until:
                raise TimeoutError

        return lambda engine: Explainer(engine, facts, program.origins.named, check_limit=check)

    def end_shadow(self, author: str) -> None:
        """Stop the shadow. Raises ChangeRefused if no shadow runs, or if the action cannot be logged."""
        self._forget_shadow(author, "end_shadow")

    def _forget_shadow(self, author: str, action: Recorded, **details: JsonValue) -> None:
        with self._program.batches.lock:
            self._shadowing()
            try:
                self._acted(author, action, **details)
            except CepError as error:
                raise ChangeRefused(409, f"{error.message}; the shadow runs on") from None
            self._shadow = self._run.follower = None
            forget_texts(self._program.folder)

    def _acted(self, author: str, action: Recorded, **details: JsonValue) -> None:
        now, watermark = time_ns() // 1000, self._program.engine.watermark
        self._record(RecordedAction(now, watermark, author, action, details=details))

    def promote(self, author: str) -> dict[str, Any]:
        """Replace the program by the shadow, and stop the shadow.

        Raises ChangeRefused if no shadow runs, or if it cannot take over.
        """
        taken = self.change(self._shadowing().texts, author)
        self._forget_shadow(author, "promote_shadow", version=taken["version"])
        return taken

    def _keep_shadow(self, texts: Mapping[str, str]) -> None:
        try:
            keep_texts(self._program.folder, texts)
        except OSError as error:
            raise ChangeRefused(409, f"the shadow cannot be saved: {reason_of(error)}; {_BEHIND}") from None

    def _shadowing(self) -> Shadow:
        if self._shadow is None:
            raise ChangeRefused(
                404, "there is no shadow program: start with `--shadow new.cep`, or PUT one to `shadow`"
            )
        return self._shadow

    # --- how it is done ---

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Allow only one change of the program at a time in a `with` block. Convert its CepError to ChangeRefused."""
        if not self._one.acquire(blocking=False):
            text = "the program is being changed by another request: try again when that is done"
            raise ChangeRefused(409, text, busy=True)
        try:
            yield
        except CepError as error:
            raise ChangeRefused(422 if error.source is not None else 409, self._in_names(str(error))) from None
        finally:
            self._one.release()

    def _updates(self, engine: Engine) -> KnowledgeUpdates:
        try:
            return knowledge_updates(engine, self._options.knowledge.updates, None)
        except CepError as error:
            text = f"--knowledge-updates: the new program cannot use the changes of the knowledge; {_BEHIND}\n"
            raise ChangeRefused(409, text + self._in_names(str(error))) from None

    def _in_names(self, text: str) -> str:
        """Remove the folders of the program's files from a text, because clients need not know these folders."""
        for path in self._options.rules:
            text = text.replace(str(path), path.name).replace(f"{path.resolve().parent}/", "")
        return text

    def _named(self, texts: Mapping[str, str]) -> dict[Path, str]:
        return dict(zip(self._options.rules, (texts[name] for name in self.names), strict=True))

    @contextmanager
    def _prepared(self, texts: Mapping[str, str]) -> Iterator[Prepared]:
        """Prepare an engine that can replace the running program. `texts`: the texts of the new program, by file.

        The running program is stopped until the block ends.
        """
        self._refuse_unchangeable()
        options, program = self._options, self._program
        assert program.journal is not None, "else it is refused"
        if isinstance(program.engine, Successor) and program.engine.former is not None:
            since = version_time(program.engine.since)
            until = version_time(program.engine.since + (program.running.revise or 0) + 1)
            text = f"the former program still corrects its results that end at or before {since}"
            raise ChangeRefused(409, f"{text}: try again when event time has reached {until}", busy=True)
        before, lock, held = program.engine, program.batches.lock, False
        named = self._named(texts)
        try:
            source = program_source(options, named, program.known, later=True)
            compiled = source.compiled(alerts=True)
            revised = program.running.revise is not None
            engine = Engine(compiled, replace(program.running, final=revised))
        except CepError as error:
            raise ChangeRefused(422, self._in_names(str(error))) from None
        if not engine.outputs and not engine.alerts:
            text = f"the new program has no rules and no alerts, so it would derive nothing; {_BEHIND}"
            raise ChangeRefused(422, f"{text}. To stop deriving, end the server")
        engine.refuse_endless("a live input")
        if engine.revises != program.engine.revises:
            with_key, without = ("new", "running") if engine.revises else ("running", "new")
            text = (
                f"the {with_key} program reads events with a KEY and the {without} one does not, so records are read "
            )
            raise ChangeRefused(
                409, f"{text}in another way; {_BEHIND}. End the server, and start it with the new program"
            )
        self._refuse_other_input(engine)
        if revised:
            self._refuse_other_results(engine)
        tests = self._tested({path.resolve(): text for path, text in named.items()})
        engine_warnings = warnings_of(engine, source.name, options.knowledge.predicates)
        warnings = [*(self._in_names(str(warning)) for warning in engine_warnings), *self._overriding(engine)]
        warnings += unreached_warning(options, self._routes, engine.alerts)
        for text in warnings:
            options.log("warning", text.splitlines()[0], "warning")

        def stop() -> int:
            nonlocal held
            lock.acquire()
            held = True
            return before.stable

        try:
            latest = before.latest - program.behind if before.latest > BEGINNING else BEGINNING
            warmed = warm(engine, program.journal, latest, self._updates(engine), stop)
            self._refuse_unchangeable()
            prior = PriorState(before.state_for_another(), warm=PriorState(warmed.state))
            after = (Successor if revised else Engine)(compiled, replace(program.running, before=prior))
            yield Prepared(dict(texts), source.text, after, warmed, tests, warnings)
        finally:
            if held:
                lock.release()

    def _take_over(self, new: Prepared, author: str, restores: int | None) -> dict[str, Any]:
        """Replace the program by a prepared engine, in one step that is either complete or undone after a crash."""
        options, program, run, after = self._options, self._program, self._run, new.engine
        journal, versions = program.journal, program.versions
        assert journal is not None and versions is not None, "else it is refused"
        before = program.engine
        number = max([program.version.number, *versions.numbers()]) + 1
        ended = {} if isinstance(after, Successor) else run.service.identified(self._ended(after))
        cuts, handover = self._handover(number, after, new.warmed, ended)
        if isinstance(after, Successor):
            handover = Handover(number, "", after.take_over(before, program.version.texts, cuts, new.warmed.open))
        version = Version(
            number,
            new.texts,
            author,
            datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            files_hash(options.files_texts()),
            before.watermark,
            new.warmed.since,
            cuts,
            restores,
        )
        self._written()
        blob = after.snapshot()
        try:
            versions.write(version)
            journal.save(blob, journal.point(before.latest), handover)
        except (CepError, OSError) as error:
            if journal.snapshot() == blob:  # the new snapshot was written, so the old program cannot continue
                run.fail(error)
                raise
            versions.remove(number)
            reason = reason_of(error) if isinstance(error, OSError) else error.message
            raise ChangeRefused(409, f"the new program cannot be saved: {reason}; {_BEHIND}") from None
        try:  # from here on, the new program is valid, even after a crash
            old, meant = before.meanings(), after.meanings()
            begun = {name: time for name, time in program.since.items() if meant.get(name) == old.get(name)}
            begun |= {name: before.watermark for name in after.outputs if meant[name] != old.get(name)}
            self._program = replace(program, text=new.text, engine=after, version=version, since=begun)
            run.adopt(after, self._begin(self._program, ended), handover.batch)
            self._acted(
                author, "change_program", version=number, **({} if restores is None else {"restores": restores})
            )
        except BaseException as error:
            run.fail(error)
            raise
        kept = [rule for rule, same in after.carried.items() if same]
        warmed = [rule for rule, same in after.carried.items() if not same]
        since = version_time(version.since)
        seen = f"rules that have read the input from {since} on" if since else "rules that have read no input"
        text = f"version {number} of {author} takes over at {version_time(version.watermark) or 'the beginning'}; "
        said = ("rules that keep their state", kept), (seen, warmed)
        text += "; ".join(f"{what}: {', '.join(rules)}" for what, rules in said if rules) or "no rule is new"
        options.log("program", text, version=number, author=author, kept=kept, warmed=warmed)
        # a fluent that only the new program has begins, and is not cut
        both = before.outputs.keys() & after.outputs.keys()
        cut = sorted(name for name in cuts if name in both and cuts[name] == version.watermark)
        taken = {"kept": kept, "warmed": warmed, "cut": cut, "tests": new.tests, "warnings": new.warnings}
        return {**self._listed(version), "same": False, "parameters": self._parameters(after), **taken}

    def _ended(self, after: Engine) -> dict[str, pl.DataFrame]:
        """Return the intervals of the fluents that the new program does not have, or derives differently. The intervals
        are returned with the current watermark as their end."""
        before = self._program.engine
        old, new, time = before.meanings(), after.meanings(), before.watermark
        return {
            name: table.with_columns(end=pl.lit(time, pl.Int64))
            for name, table in before.held_now().items()
            if new.get(name) != old.get(name)
        }

    def _handover(
        self, number: int, after: Engine, warmed: Warmed, ended: Mapping[str, pl.DataFrame]
    ) -> tuple[dict[str, int], Handover]:
        """Return the time from which each new fluent and alert table is written, and a record of the handover.

        New fluents, and new alerts on fluents, begin at the watermark.
        """
        before, service = self._program.engine, self._run.service
        time, cuts = before.watermark, cuts_between(before, after, service.cuts)
        new = cuts_between(before, after, {}).keys()
        begun = {name: table for name, table in after.held_now().items() if name in new}
        at_once = {"start": pl.lit(time, pl.Int64), "end": pl.lit(time, pl.Int64)}
        begun |= {name: table.with_columns(**at_once) for name, table in warmed.open.items() if name in new}
        derivations = Derivations(
            before.plan, service.meanings, EventVocabulary(self._options.retention.base), frozenset(service.outputs)
        )
        triples = derivations.events(ended, service.outputs) if ended else ""
        return cuts, Handover(number, triples, begun)

    def _written(self) -> None:
        futures = [write() for write in self._run.service.written]
        wait(futures, _WRITTEN)
        if not all(future.done() for future in futures):
            raise ChangeRefused(409, f"the store has not written the results within {_WRITTEN:g} s; {_BEHIND}")
        for future in futures:
            if (error := future.exception()) is not None:
                raise ChangeRefused(409, f"the results could not be written: {error}; {_BEHIND}")

    def _refuse_unchangeable(self) -> None:
        """Raise ChangeRefused if the program cannot change while it runs."""
        options, program, run = self._options, self._program, self._run
        restart = "end the server, and start it with the new program"
        if options.place.on_spark:
            raise ChangeRefused(
                409, "the program runs on Spark: restart the job there with --migrate, then restart this server"
            )
        if not program.live:
            raise ChangeRefused(
                409, f"the input is files, not a live source: {restart}, which derives everything from them again"
            )
        if (service := options.knowledge.service) is not None:
            why = f"its knowledge has the Things of {service}, which may change, and a new program would not know when"
            raise ChangeRefused(409, f"{why}: {restart}")
        if program.engine.withdraws and options.retention.explain:
            why = "with --revise and --explain the server can keep the origins of only one program"
            raise ChangeRefused(409, f"{why}: {restart}")
        if program.engine.withdraws and options.knowledge.updates:
            why = "with --revise the former program would still need the earlier knowledge, which is changed by "
            raise ChangeRefused(409, f"{why}--knowledge-updates: {restart}")
        if run.failed is not None or run.interrupt.signal:
            raise ChangeRefused(409, f"the program has ended: {run.failed or 'the server stops'}")
        if self._run.service.ended:
            raise ChangeRefused(409, f"the input has ended: {restart}")
        if program.journal is not None and not program.journal.whole:
            raise ChangeRefused(
                409, "the program is still reading the input from before its start: try again in a moment", busy=True
            )

    def _refuse_other_results(self, engine: Engine) -> None:
        """Raise ChangeRefused if the current program, which revises results, could not revise its own results correctly
        after the new program has taken over."""
        before = self._program.engine
        if self._program.running.lateness_by is not None and engine.inputs != before.inputs:
            text = (
                "with --revise and --lateness-by the new program must read the same events, because they move the time"
            )
            raise ChangeRefused(409, f"{text}; {_BEHIND}. End the server, and start it with the new program")
        again = f"{_BEHIND}. Give it another name, or end the server, and start it with the new program"
        for name in sorted(before.outputs.keys() & engine.outputs.keys()):
            schema, other = before.outputs[name], engine.outputs[name]
            if (schema.fluent is None, schema.attributes) != (other.fluent is None, other.attributes):
                text = f"with --revise `{name}` cannot have other attributes in the new program, because both programs"
                raise ChangeRefused(409, f"{text} would report it at the same time; {again}")

    def _refuse_other_input(self, engine: Engine) -> None:
        for name, schema in engine.inputs.items():
            if name not in self._schemas:
                text = f"the new program reads `{name}`, which the server does not read; {_BEHIND}. "
                raise ChangeRefused(409, f"{text}End the server, and start it with the new program")
            if self._schemas[name] != schema:
                text = f"the new program declares `{name}` differently, but its records are read as before; {_BEHIND}. "
                raise ChangeRefused(409, f"{text}End the server, and start it with the new program")

    def _tested(self, texts: Mapping[Path, str]) -> int:
        """Run the tests in the program's folders. Return their number. Raises ChangeRefused if a test fails."""
        session, number = Session(laws=(), programs=Programs(texts)), 0
        folders = dict.fromkeys(path.parent for path in texts)
        for path in (path_in_folder for folder in folders for path_in_folder in sorted(folder.glob(f"*{SUFFIX}"))):
            file = read_test_file(path)
            if not any(file.beside(program).resolve() in texts for program in file.programs):
                continue
            for test in file.tests:
                result = session.run(test)
                number += 1
                if not result.passed:
                    lines = self._in_names("\n".join(failure_lines(result)))
                    raise ChangeRefused(422, f"a test of the new program fails; {_BEHIND}\n{lines}")
        return number
