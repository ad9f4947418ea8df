"""Check programs in an editor, and report the same errors as `cep check`. The results of the last successful check
remain available.

A program is either one file, or all files that a test file in the same folder lists. The test file also names the
knowledge, the facts and the dialect.
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
"""A function that returns the current text of a file in the editor."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or warning of a program.

    - `severity`: error, warning or note.
    - `span`: the position in the file `path`.
    """

    severity: str
    message: str
    hint: str | None
    code: str
    path: Path
    span: Span


@dataclass(frozen=True, slots=True)
class Setup:
    """The files of a program and its compiler options. `test_file`: the test file that lists these files, or None."""

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
    """The results of a check: the events and their types, the parameters, the knowledge, and the findings."""

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    known: Knowledge | None = None
    findings: tuple[Finding, ...] = ()


class Checker:
    """A checker of programs.

    `knowledge`: files of knowledge that every program uses, in addition to the files that its test file names.
    """

    def __init__(self, knowledge: Sequence[str] = (), reasoning: str | None = None) -> None:
        self.knowledge = tuple(knowledge)
        self.reasoning = reasoning
        self._known: dict[tuple[object, ...], Knowledge | None] = {}
        self._last: dict[tuple[Path, ...], Understood] = {}

    def setup(self, path: Path) -> Setup:
        """Return the files and options of the program to which a file belongs."""
        from cep.connectors.records.times import of_duration
        from cep.testing.rule_files import SUFFIX, read_test_file

        for test_file in sorted(path.parent.glob(f"*{SUFFIX}")):
            try:
                tests = read_test_file(test_file)
                files = tuple(Path(normpath(tests.beside(program))) for program in tests.programs)
                if path not in files:
                    continue
                return Setup(
                    files,
                    (*self.knowledge, *(str(tests.beside(path)) for path in tests.knowledge)),
                    self.reasoning if tests.reasoning is None else tests.reasoning.word("a kind"),
                    tuple(f"{name}={tests.beside(value)}" for name, (_, value) in tests.facts.items()),
                    None if tests.dialect is None else tests.dialect.word("a dialect"),
                    None if tests.tick is None else of_duration(tests.tick.text or ""),
                    {name: value.scalar for name, (_, value) in tests.params.items()},
                    test_file,
                )
            except (CepError, OSError, ValueError):
                continue  # an unfinished test file
        return Setup((path,), self.knowledge, self.reasoning)

    def check(self, setup: Setup, text_of: TextOf) -> Understood:
        """Check a program. If it has errors, return the results of the last successful check, with the new findings."""
        from cep.compile import ReadProgram

        before = self._last.get(setup.files, Understood())
        texts: list[tuple[str, str]] = []
        try:
            texts = [(str(path), text_of(path)) for path in setup.files]
            understood = self._check(setup, texts)
        except CepError as error:
            parameters = before.parameters
            try:
                source = self._source(setup, texts)
                parameters = tuple(ReadProgram.of(source.text, source.name, source.options).parameters)
            except CepError:
                pass
            known = before.known if error.code == "graph" else self._known.get(self._key(setup), before.known)
            understood = replace(before, known=known, parameters=parameters, findings=_findings(error, setup))
        self._last[setup.files] = understood
        return understood

    def _source(self, setup: Setup, texts: Sequence[tuple[str, str]]) -> ProgramSource:
        source = ProgramSource.of(texts)
        options = replace(source.options, dialect=setup.dialect, tick=setup.tick, params=setup.params or None)
        return replace(source, options=options)

    def _check(self, setup: Setup, texts: Sequence[tuple[str, str]]) -> Understood:
        name = ", ".join(name for name, _ in texts)
        source = self._source(setup, texts)
        lars = LarsCheck.of(source)
        facts = facts_of(setup.facts, source.text, source.name, source.options)
        program, warnings = source.knowing(facts, self.known(setup)).checked(name)
        if lars is not None:
            warnings = tuple(lars.warnings(warnings))
        schemas = {**program.plan.schemas, **program.inputs, **program.outputs}
        findings = [_told(warning, setup) for warning in warnings]
        for note in undeclared(program.inputs):
            findings.append(Finding("note", note, None, "undeclared", setup.files[0], NOWHERE))
        return Understood(schemas, tuple(program.written.parameters), self.known(setup), tuple(findings))

    def known(self, setup: Setup) -> Knowledge | None:
        """Return the knowledge of a program. The knowledge is loaded again if one of its files has changed.

        Raises CepError if the knowledge cannot be loaded.
        """
        key = self._key(setup)
        if key not in self._known:
            self._known = {key: knowledge_of(setup.knowledge, setup.reasoning)}
        return self._known[key]

    def _key(self, setup: Setup) -> tuple[object, ...]:
        return setup.knowledge, setup.reasoning, tuple(map(_changed, setup.knowledge))


def _changed(name: str) -> int:
    try:
        return Path(name).stat().st_mtime_ns
    except OSError:  # the name of a register, or a pattern
        return 0


def _findings(error: CepError, setup: Setup) -> tuple[Finding, ...]:
    return tuple(_told(error, setup) for error in (error.errors if isinstance(error, CepErrors) else (error,)))


def _told(told: CepError | Warning, setup: Setup) -> Finding:
    path, span = setup.files[0], told.span or NOWHERE
    if told.span is not None and told.source is not None:
        name, line = told.source.place(told.span.line)
        path = next((file for file in setup.files if str(file) == name), path)
        before = told.span.line - line
        span = Span(line, span.column, span.end_line - before, span.end_column)
    severity = "error" if isinstance(told, CepError) else "warning"
    return Finding(severity, told.message, told.hint, told.code, path, span)
