"""Compilation of a program text to a plan that engines run. It reports all mistakes before the first event is read.

parse -> lower -> ask the knowledge -> close the static rules -> plan
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import polars as pl

from cep.core.collection import no_collection
from cep.core.errors import NOWHERE, CepError, CepErrors, Files, Span, Warning
from cep.core.literals import SECOND
from cep.core.schema import Schema
from cep.core.values import Pool
from cep.language.dialects.etalis import lower
from cep.language.dialects.lars.answer_set_options import AnswerSetOptions
from cep.language.files import joined
from cep.language.independent import independent, names_at
from cep.language.reading import dialects_of, parameters_of, read, together
from cep.language.static_predicates import declarations_of, predicates_of
from cep.language.syntax.ast import EventRule, FluentRule, PolicyStatement, Prefix, SyntaxTree, WhileRule
from cep.language.syntax.parser import parse
from cep.language.syntax.recovery import Recovery, SyntaxErrors
from cep.plan.advice import arrowed, parameters_meant, warned_of_parameters
from cep.plan.alerts import alerts_last
from cep.plan.algebra import Rules
from cep.plan.event_schemas import inputs_of, outputs_of
from cep.plan.plan import Plan, plan
from cep.plan.staged import alerts_left_out
from cep.rules.alert import Alert
from cep.rules.parameters import Parameters
from cep.rules.static.datalog import Statics, close
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import PolicyChoice, StaticRule, without_names
from cep.runtime import snapshot
from cep.runtime.knowledge_source import KnowledgeSource, ProgramKnowledge, ask, source_of
from cep.runtime.options import EngineKeywords, EngineOptions, UntimedEngineKeywords

if TYPE_CHECKING:
    from cep.language.link import Together


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """The options of compilation.

    - `facts`: {predicate: table}.
    - `knowledge`: the source that graph patterns query: a `cep.knowledge.graph.Knowledge`, or, if that module is
      imported, an rdflib graph or dataset.
    - `types`: the argument types of undeclared input events.
    - `policy`: the policy of rules that do not choose a policy themselves.
    - `alerts`: True to derive also the occurrences of ALERT statements, which are output as separate tables (see
      `cep.rules.alert`).
    - `dialect`: the dialect of the text; by default, the dialect of the file's suffix.
    - `tick`: the length of the dialect's time unit in microseconds.
    - `models`: the choice among several answer streams of a LARS program. With 1, the engine returns only the answer
      stream that is nearest to that of the previous tick. With 0, it returns all.
    - `solve_limit`: the time limit of the solver in microseconds.
    - `first`: the tick at which a LARS stream begins. If input arrives before this tick, the stream begins with the
      input.
    - `files`: the names of the text's files, each with the number of its first line.
    - `params`: the values of parameters.
    - `strict_types`: True if records that satisfy the WHEN of no event become dead letters. Otherwise they are only
      counted.
    - `distinct`: True if equal records are treated as one event.
    """

    facts: Mapping[str, pl.DataFrame] | None = None
    knowledge: KnowledgeSource | Iterable[Any] | None = None
    types: Mapping[str, tuple[str, ...]] | None = None
    policy: str | None = None
    alerts: bool = False
    dialect: str | None = None
    tick: int | None = None
    models: int | None = None
    solve_limit: int | None = None
    first: int | None = None
    files: Files = ()
    strict_types: bool = False
    distinct: bool = False
    params: Mapping[str, object] | None = None

    @property
    def answer_sets(self) -> AnswerSetOptions | None:
        """The options of the solver, or None if none are set. Raises CepError if an option is not valid."""
        if self.models is None and self.solve_limit is None and self.first is None:
            return None
        if self.models not in (None, 0, 1):
            raise CepError(
                f"models: {self.models} is not 0 or 1",
                hint="use 1 for the answer set nearest to the last one, or 0 for all answer sets",
                code="option",
            )
        seconds = None if self.solve_limit is None else self.solve_limit / SECOND
        return AnswerSetOptions(1 if self.models is None else self.models, seconds, self.first)


class FactlessCompileKeywords(TypedDict, total=False):
    """The keyword arguments of `compile` except `facts`. Functions that accept facts as tables of any data-frame
    library declare `facts` themselves."""

    knowledge: KnowledgeSource | Iterable[Any] | None
    types: Mapping[str, tuple[str, ...]] | None
    policy: str | None
    alerts: bool
    dialect: str | None
    tick: int | None
    models: int | None
    solve_limit: int | None
    first: int | None
    files: Files
    strict_types: bool
    distinct: bool
    params: Mapping[str, object] | None


class CompileKeywords(FactlessCompileKeywords, total=False):
    """The fields of `CompileOptions` as keyword arguments, for type checkers."""

    facts: Mapping[str, pl.DataFrame] | None


class ProgramKeywords(CompileKeywords, EngineKeywords, total=False):
    """The keyword arguments of `compile` and of an engine."""


class DataProgramKeywords(FactlessCompileKeywords, UntimedEngineKeywords, total=False):
    """The keyword arguments of `compile` and of an engine, except those that the functions of `cep.api` declare with
    another type, such as `facts` and `lateness`."""


COMPILED = frozenset(field.name for field in fields(CompileOptions))


def divided(options: Mapping[str, Any]) -> tuple[CompileOptions, EngineOptions]:
    """Divide keyword arguments into options of `compile` and of an engine. Raises TypeError for an unknown option."""
    own = {name: value for name, value in options.items() if name in COMPILED}
    return CompileOptions(**own), EngineOptions(**{name: options[name] for name in options.keys() - own.keys()})


@dataclass(frozen=True, slots=True)
class Written:
    """Information about a program's text.

    - `rules`: the number of rules.
    - `predicates`: the static predicates that conditions use.
    - `prefixes`: the IRI of each prefix.
    - `parameters`: the parameters and their values.
    - `dialect`, `tick`: the options with which the text was read.
    - `together`: the linked program, if the text consists of several files.
    """

    rules: int
    predicates: frozenset[str]
    prefixes: tuple[tuple[str, str], ...]
    parameters: Parameters
    dialect: str | None = None
    tick: int | None = None
    together: Together | None = None

    @classmethod
    def of(
        cls,
        tree: SyntaxTree,
        parameters: Parameters,
        dialect: str | None = None,
        tick: int | None = None,
        together: Together | None = None,
    ) -> Written:
        own = [statement for statement in tree.statements if getattr(statement, "name", None) not in tree.helpers]
        rules = sum(isinstance(statement, EventRule | FluentRule | WhileRule | StaticRule) for statement in own)
        prefixes = tuple(
            (statement.name, statement.iri) for statement in tree.statements if isinstance(statement, Prefix)
        )
        return cls(rules, frozenset(predicates_of(tree)), prefixes, parameters, dialect, tick, together)


@dataclass(frozen=True, slots=True)
class Binding:
    """The contents of static predicates. Their values are encoded with the codes of one engine's pool, so each engine
    has its own binding."""

    pool: Pool
    known: ProgramKnowledge
    statics: Statics


@dataclass(slots=True)
class CompiledProgram:
    """A compiled program, which any number of engines can run.

    - `plan`: the plan of all rules.
    - `rules`: the lowered rules, and the warnings about rules and alerts.
    - `alerts`: the ALERT statements whose occurrences are derived.
    - `fingerprint`: a hash of the program and of everything else on which an engine's state depends.
    - `written`: information about the program's text.
    """

    plan: Plan
    rules: Rules
    alerts: tuple[Alert, ...]
    fingerprint: str
    facts: Mapping[str, pl.DataFrame]
    knowledge: KnowledgeSource | None
    written: Written
    _statics: Rules
    _first: Binding | None

    def bind(self) -> Binding:
        """Return the contents of static predicates for one engine.

        The first call returns the contents that the compilation has computed. Later calls compute them again.
        """
        first, self._first = self._first, None
        return first or _bound(self._statics, self.facts, self.knowledge)

    @property
    def inputs(self) -> dict[str, Schema]:
        """The schemas of the input events. A record of an input fluent counts as an event at the record's start."""
        return inputs_of(self.plan)

    @property
    def outputs(self) -> dict[str, Schema]:
        """The schemas of the derived events."""
        return outputs_of(self.plan, [table for alert in self.alerts for table in alert.tables])

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """The warnings about the program, sorted by position in its text."""
        if self.knowledge is None:
            return self.plan.warnings
        known = (self._first or _bound(self._statics, self.facts, self.knowledge)).known
        return all_warnings(self.plan, self.knowledge, known)


def all_warnings(plan: Plan, knowledge: KnowledgeSource, known: ProgramKnowledge) -> tuple[Warning, ...]:
    """Return the warnings about a plan and about its queries to the knowledge, sorted by position in the text."""
    silent = (knowledge.why_no_answers(pattern, plan.source, plan.schemas) for pattern in known.silent)
    return tuple(sorted((*plan.warnings, *silent, *known.mingled), key=lambda warning: warning.span or NOWHERE))


@dataclass(frozen=True, slots=True)
class ReadProgram:
    """A program that was parsed but not compiled.

    - `name`: the program's name in messages.
    - `dialect`, `tick`: the options with which it was read.
    - `together`: the linked program of several files, or None.
    """

    text: str
    name: str
    dialect: str | None
    tick: int | None
    tree: SyntaxTree
    parameters: Parameters = field(default_factory=Parameters)
    together: Together | None = None

    @classmethod
    def of(cls, text: str, name: str, options: CompileOptions) -> ReadProgram:
        """Parse a program. Raises CepError if the text is not a valid program."""
        dialect, tick, files = options.dialect, options.tick, options.files
        recovery = Recovery()
        parameters = parameters_of(text, name, files, dialect, options.params, recovery)
        try:
            if files:
                every = together(text, name, files, dialect, tick, options.answer_sets, parameters, recovery)
                return cls(text, name, dialect, tick, every.tree({}), parameters, every)
            tree = read(text, name, dialect, tick, options.answer_sets, parameters, recovery)
        except SyntaxErrors:
            raise
        except CepError as error:
            raise parameters_meant(error, parameters.by_name) from None
        return cls(text, name, dialect, tick, tree, parameters)

    @property
    def predicates(self) -> frozenset[str]:
        """The static predicates that the program uses or declares. The caller may provide facts for them."""
        return frozenset(predicates_of(self.tree)) | declarations_of(self.tree).keys()

    def compiled(self, options: CompileOptions) -> CompiledProgram:
        """Compile the program. Raises CepError if it has mistakes."""
        try:
            return _compiled(self, options)
        except CepError as error:
            raise parameters_meant(error, self.parameters.by_name) from None


def compile(
    text: str | Mapping[str, str], name: str = "<program>", **options: Unpack[CompileKeywords]
) -> CompiledProgram:
    """Compile a program text, or the texts of several files by name. Raises CepError, which lists all mistakes.

    `name`: the program's name in messages. The other arguments are the fields of `CompileOptions`.
    """
    return compiled(*one_text(text, name, CompileOptions(**options)))


def one_text(text: str | Mapping[str, str], name: str, options: CompileOptions) -> tuple[str, str, CompileOptions]:
    """Return the text, name and options of a program. Several files are concatenated.

    Raises CepError if the program has no file.
    """
    if isinstance(text, str):
        return text, name, options
    if not text:
        hint = '`{"rules.cep": ..., "policies.lars": ...}`'
        raise CepError("a program needs at least one file", hint=hint, code="input")
    joined_text, called, files = joined(text.items())
    return joined_text, called, replace(options, files=files)


@no_collection()
def compiled(text: str, name: str, options: CompileOptions) -> CompiledProgram:
    """Compile a program text. Raises CepError, which lists all mistakes."""
    try:
        program = ReadProgram.of(text, name, options)
    except SyntaxErrors as broken:
        raise CepErrors([*broken.errors, *_mistakes(broken.tree, broken.names, options)]) from None
    return program.compiled(options)


def _compiled(program: ReadProgram, options: CompileOptions) -> CompiledProgram:
    tree = program.tree
    try:
        if program.together is not None and program.together.untyped:
            source = source_of(options.knowledge)
            tree = program.together.typed(lambda part: _types(part, options, source))
        return compiled_rules(program, tree, lowered(tree, options), options)
    except _PartlyChecked as error:
        more = _mistakes(tree, names_at(tree, error.first), options)
        known = {(error.message, error.span) for error in error.errors}
        raise CepErrors(
            [*error.errors, *(mistake for mistake in more if (mistake.message, mistake.span) not in known)]
        ) from None


def declared_facts(
    text: str, name: str, options: CompileOptions
) -> tuple[Mapping[str, FactDeclaration], frozenset[str]]:
    """Return the facts that a program declares, and the names that occur in statements that cannot be parsed.

    This function ignores syntax errors, which `compile` reports. Raises CepError for other mistakes.
    """
    try:
        return declarations_of(ReadProgram.of(text, name, options).tree), frozenset()
    except SyntaxErrors as broken:
        return declarations_of(broken.tree), broken.names


class _PartlyChecked(CepErrors):
    """The mistakes of a program that was not checked completely. `first`: those that prevented further checks."""

    def __init__(self, errors: list[CepError], first: Sequence[CepError]) -> None:
        super().__init__(errors)
        self.first = first


def _mistakes(tree: SyntaxTree, names: Collection[str], options: CompileOptions) -> list[CepError]:
    """Return the mistakes of the statements that do not depend on any of `names`."""
    if tree.helpers or tree.impossible or tree.answered:  # a dialect's statements differ from the written ones
        return []
    mistakes: dict[tuple[str, Span | None], CepError] = {}
    while names:
        facts = {name: table for name, table in (options.facts or {}).items() if name not in names}
        tree, names, options = independent(tree, names), (), replace(options, facts=facts)
        try:
            _planned(lowered(tree, options), options, source_of(options.knowledge))
        except CepError as error:
            for mistake in error.errors if isinstance(error, CepErrors) else (error,):
                mistakes.setdefault((mistake.message, mistake.span), mistake)
            names = names_at(tree, error.first) if isinstance(error, _PartlyChecked) else ()
    return list(mistakes.values())


def lowered(tree: SyntaxTree, options: CompileOptions) -> Rules:
    """Return the lowered rules of a syntax tree. The result's `errors` contain the mistakes that lowering has found."""
    return lower(tree, policy_choice(options.policy), options.types or {}, options.facts or {})


def compiled_rules(program: ReadProgram, tree: SyntaxTree, every: Rules, options: CompileOptions) -> CompiledProgram:
    """Compile lowered rules. Raises CepError if they have mistakes.

    `every`: the lowered rules. `program`, `tree`: the program and the syntax tree from which the rules were lowered.
    """
    tables, source = options.facts or {}, source_of(options.knowledge)
    parameters = program.parameters.by_name
    if parameters:
        every = without_names(every)
    rules, planned, bound = _planned(every, options, source)
    warnings = (*warned_of_parameters(planned.warnings, parameters), *program.parameters.warnings())
    planned = replace(planned, warnings=warnings)
    if rules.alerts and not options.alerts:  # alerts are checked, but not created
        planned = alerts_left_out(planned)
    if options.strict_types or options.distinct:
        strict, distinct = options.strict_types, options.distinct
        schemas = {
            name: replace(schema, strict=strict, distinct=schema.distinct or distinct)
            for name, schema in planned.schemas.items()
        }
        keyed = sorted(name for name in planned.inputs if schemas[name].key is not None) if distinct else []
        warnings = (*planned.warnings, *map(_undistinct, keyed))
        planned = replace(planned, schemas=schemas, warnings=warnings)
    return CompiledProgram(
        planned,
        planned.rules,
        rules.alerts if options.alerts else (),
        _fingerprint(program, options, source),
        tables,
        source,
        Written.of(tree, program.parameters, program.dialect, program.tick, program.together),
        every,
        bound,
    )


def _undistinct(event: str) -> Warning:
    return Warning(
        f"`{event}` has a KEY, so `distinct` does not change it",
        hint="records with the same key and time correct each other: the last one counts",
    )


def _planned(every: Rules, options: CompileOptions, source: KnowledgeSource | None) -> tuple[Rules, Plan, Binding]:
    """Plan lowered rules. Return the rules, the plan, and the contents of static predicates.

    The `errors` of the returned rules include the errors of queries to the knowledge. Raises CepError if the rules have
    mistakes.
    """
    tables, types = options.facts or {}, options.types
    pool = Pool()
    known = ask(every, source, tables, pool)
    rules = replace(every, errors=(*every.errors, *known.errors))
    checked = rules if options.alerts else alerts_last(rules)
    try:
        statics = _closed(rules, tables, pool, known)
    except CepError as error:
        errors = _all(rules, known, error)
        raise _PartlyChecked(errors, errors) from None
    try:
        planned = plan(checked, statics.relations, pool, frozenset(types or ()), tables)
    except CepError as error:
        raise _PartlyChecked(_all(rules, known, error), known.errors) from None
    return rules, planned, Binding(pool, known, statics)


def _types(tree: SyntaxTree, options: CompileOptions, source: KnowledgeSource | None) -> dict[str, list[str]]:
    _, planned, _ = _planned(lowered(tree, options), options, source)
    return {name: [attribute.type for attribute in schema.attributes] for name, schema in planned.schemas.items()}


FACTS = "records"
"""The form in which dialects receive facts. Earlier versions used pairs of events instead of records. The form is part
of fingerprints, so that the snapshots of those versions are rejected."""


def _fingerprint(program: ReadProgram, options: CompileOptions, source: KnowledgeSource | None) -> str:
    text, files = program.text, options.files
    written = dialects_of(program.name, program.dialect, files)
    says = "" if written == (None,) else f"{written[0]} {program.tick} {FACTS}\0"
    if files:
        said = " ".join(f"{first}:{digest}" for (_, first), digest in zip(files, written, strict=True))
        says = f"{said} {program.tick} {FACTS}\0"
    if program.parameters:
        says += f"parameters {program.parameters.text()}\0"
    if options.first is not None:
        says += f"first {options.first}\0"
    if options.distinct:
        says += "distinct\0"
    return snapshot.program_fingerprint(
        says + text,
        options.policy,
        options.types,
        options.facts or {},
        None if source is None else source.fingerprint,
    )


def _bound(rules: Rules, facts: Mapping[str, pl.DataFrame], knowledge: KnowledgeSource | None) -> Binding:
    pool = Pool()
    known = ask(rules, knowledge, facts, pool)
    return Binding(pool, known, _closed(rules, facts, pool, known))


def _closed(rules: Rules, facts: Mapping[str, pl.DataFrame], pool: Pool, known: ProgramKnowledge) -> Statics:
    relations = known.relations(rules)
    return close(rules.statics, facts, pool, rules.source, known=relations, declared=rules.declared)


def _all(rules: Rules, known: ProgramKnowledge, error: CepError) -> list[CepError]:
    mistakes = error.errors if isinstance(error, CepErrors) else (error,)
    if known.errors:  # after failed queries of the knowledge, types are unknown
        mistakes = tuple(mistake for mistake in mistakes if mistake.code != "type")
    mistakes = tuple(
        arrowed(mistake, rules.statics, rules.schemas, rules.source) if mistake.code == "unknown" else mistake
        for mistake in mistakes
    )
    before = set(map(id, rules.errors))
    return [*rules.errors, *(mistake for mistake in mistakes if id(mistake) not in before)]


def policy_choice(text: str | None, what: str = "policy") -> PolicyChoice | None:
    """Parse the name of a policy. Returns None if `text` is None, and raises CepError if no policy has this name.

    `what`: the name of the option in messages.
    """
    if text is None:
        return None
    try:
        statement = parse(f"policy {text}.", "<policy>").statements[0]
    except CepError as error:
        raise CepError(f"{what}: {error.message}", hint=error.hint, code="option") from None
    assert isinstance(statement, PolicyStatement), "the keyword says so"
    return statement.choice
