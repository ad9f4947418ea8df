"""Mistakes of a program that is being written, as `cep check` says them, and what was understood of it last.

A program is one file, or those that a test file beside it names together, with the knowledge, the facts and the
dialect that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING

from cep.app.lars_check import LarsCheck
from cep.app.opening import ProgramSource
from cep.app.terminal import facts_of, knowledge_of, undeclared
from cep.core.errors import NOWHERE, CepError, CepErrors, Span, Warning

if TYPE_CHECKING:
    from cep.core.schema import Schema
    from cep.knowledge.graph import Knowledge
    from cep.rules.parameters import Parameter

TextOf = Callable[[Path], str]
"""Gives the text of a file as it is being written."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake or a warning. `severity`: error, warning or note; `path`: the file; `span`: its place there."""

    severity: str
    message: str
    hint: str | None
    code: str
    path: Path
    span: Span


@dataclass(frozen=True, slots=True)
class Setup:
    """The files of a program and what it is compiled with. `test_file`: the one that says so."""

    files: tuple[Path, ...]
    knowledge: tuple[str, ...] = ()
    reasoning: str | None = None
    facts: tuple[str, ...] = ()
    dialect: str | None = None
    tick: int | None = None
    params: Mapping[str, object] = field(default_factory=dict)
    test_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Understood:
    """A program as far as it is known: its events with types, its parameters, and what it asks."""

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    known: Knowledge | None = None
    findings: tuple[Finding, ...] = ()


class Checker:
    """Checks programs. `knowledge`: files that every program knows, besides those that test files name."""

    def __init__(self, knowledge: Sequence[str] = (), reasoning: str | None = None) -> None:
        self.knowledge = tuple(knowledge)
        self.reasoning = reasoning
        self._known: dict[tuple[object, ...], Knowledge | None] = {}
        self._last: dict[tuple[Path, ...], Understood] = {}

    def setup(self, path: Path) -> Setup:
        """The program that a file belongs to."""
        from cep.connectors.records.times import of_duration
        from cep.testing.rule_files import SUFFIX, read_test_file

        for test_file in sorted(path.parent.glob(f"*{SUFFIX}")):
            try:
                found = read_test_file(test_file)
                files = tuple(Path(normpath(found.beside(each))) for each in found.programs)
                if path not in files:
                    continue
                return Setup(
                    files,
                    (*self.knowledge, *(str(found.beside(each)) for each in found.knowledge)),
                    self.reasoning if found.reasoning is None else found.reasoning.word("a kind"),
                    tuple(f"{name}={found.beside(value)}" for name, (_, value) in found.facts.items()),
                    None if found.dialect is None else found.dialect.word("a dialect"),
                    None if found.tick is None else of_duration(found.tick.text or ""),
                    {name: value.scalar for name, (_, value) in found.params.items()},
                    test_file,
                )
            except (CepError, OSError, ValueError):
                continue  # a test file that is being written
        return Setup((path,), self.knowledge, self.reasoning)

    def check(self, setup: Setup, text_of: TextOf) -> Understood:
        """Check a program; where it is wrong, what was understood before stays."""
        from cep.compile import ReadProgram

        before = self._last.get(setup.files, Understood())
        texts: list[tuple[str, str]] = []
        try:
            texts = [(str(path), text_of(path)) for path in setup.files]
            found = self._check(setup, texts)
        except CepError as error:
            parameters = before.parameters
            try:
                source = self._source(setup, texts)
                parameters = tuple(ReadProgram.of(source.text, source.name, source.options).parameters)
            except CepError:
                pass
            known = before.known if error.code == "graph" else self._known.get(self._key(setup), before.known)
            found = replace(before, known=known, parameters=parameters, findings=_findings(error, setup))
        self._last[setup.files] = found
        return found

    def _source(self, setup: Setup, texts: Sequence[tuple[str, str]]) -> ProgramSource:
        found = ProgramSource.of(texts)
        options = replace(found.options, dialect=setup.dialect, tick=setup.tick, params=setup.params or None)
        return replace(found, options=options)

    def _check(self, setup: Setup, texts: Sequence[tuple[str, str]]) -> Understood:
        name = ", ".join(name for name, _ in texts)
        source = self._source(setup, texts)
        lars = LarsCheck.of(source)
        facts = facts_of(setup.facts, source.text, source.name, source.options)
        program, warnings = source.knowing(facts, self.known(setup)).checked(name)
        if lars is not None:
            warnings = tuple(lars.warnings(warnings))
        schemas = {**program.plan.schemas, **program.inputs, **program.outputs}
        findings = [_told(each, setup) for each in warnings]
        for note in undeclared(program.inputs):
            findings.append(Finding("note", note, None, "undeclared", setup.files[0], NOWHERE))
        return Understood(schemas, tuple(program.written.parameters), self.known(setup), tuple(findings))

    def known(self, setup: Setup) -> Knowledge | None:
        """The knowledge of a program, loaded again when a file has changed. CepError: it cannot be loaded."""
        key = self._key(setup)
        if key not in self._known:
            self._known = {key: knowledge_of(setup.knowledge, setup.reasoning)}
        return self._known[key]

    def _key(self, setup: Setup) -> tuple[object, ...]:
        return setup.knowledge, setup.reasoning, tuple(map(_changed, setup.knowledge))


def _changed(name: str) -> int:
    try:
        return Path(name).stat().st_mtime_ns
    except OSError:  # a register, or a pattern
        return 0


def _findings(error: CepError, setup: Setup) -> tuple[Finding, ...]:
    return tuple(_told(each, setup) for each in (error.errors if isinstance(error, CepErrors) else (error,)))


def _told(told: CepError | Warning, setup: Setup) -> Finding:
    """A mistake or a warning at its place in its file; without a place at the beginning of the first."""
    path, span = setup.files[0], told.span or NOWHERE
    if told.span is not None and told.source is not None:
        name, line = told.source.place(told.span.line)
        path = next((each for each in setup.files if str(each) == name), path)
        before = told.span.line - line
        span = Span(line, span.column, span.end_line - before, span.end_column)
    severity = "error" if isinstance(told, CepError) else "warning"
    return Finding(severity, told.message, told.hint, told.code, path, span)
