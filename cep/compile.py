"""From program text to a plan that engines run: all that is found out before the first event, mistakes included.

parse -> lower -> ask the knowledge -> close the static rules -> plan
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from cep.core.errors import CepError, CepErrors
from cep.core.values import Pool
from cep.language.dialects.etalis import lower
from cep.language.pieces import with_pieces
from cep.language.reading import dialect_of, read
from cep.language.syntax.ast import PolicyStatement, SyntaxTree
from cep.language.syntax.parser import parse
from cep.plan.advice import arrowed
from cep.plan.alerts import without_alerts
from cep.plan.algebra import Rules
from cep.plan.lint.empty import by_order, empty
from cep.plan.plan import Plan, plan
from cep.rules.alert import Alert
from cep.rules.static.datalog import Statics, close
from cep.rules.terms import PolicyChoice
from cep.runtime import snapshot
from cep.runtime.knowledge_source import KnowledgeSource, ProgramKnowledge, ask, source_of

COMPILED = ("facts", "knowledge", "types", "policy", "alerts", "dialect", "tick")
"""The options of `compile`; all others are those of an engine."""


@dataclass(frozen=True, slots=True)
class Binding:
    """What static predicates hold, as codes of one pool of values: an engine has one of its own."""

    pool: Pool
    known: ProgramKnowledge
    statics: Statics


@dataclass(slots=True)
class CompiledProgram:
    """A program that engines can run, as many as there are to be.

    `plan`: of all its rules; `rules`: these as they were lowered, `warnings` and those of alerts included; `alerts`:
    the ALERT statements whose occurrences are made; `fingerprint`: of the program with all that its state depends on;
    `tree`: what was read.
    """

    plan: Plan
    rules: Rules
    alerts: tuple[Alert, ...]
    fingerprint: str
    facts: Mapping[str, pl.DataFrame]
    knowledge: KnowledgeSource | None
    tree: SyntaxTree
    _statics: Rules
    _first: Binding | None

    def bind(self) -> Binding:
        """What the static predicates hold, for one engine: what was found while compiling, and found anew after it."""
        first, self._first = self._first, None
        return first or _bound(self._statics, self.facts, self.knowledge)


def compile(
    text: str,
    name: str = "<program>",
    *,
    facts: Mapping[str, pl.DataFrame] | None = None,
    knowledge: KnowledgeSource | Iterable[Any] | None = None,
    types: Mapping[str, tuple[str, ...]] | None = None,
    policy: str | None = None,
    alerts: bool = False,
    dialect: str | None = None,
    tick: int | None = None,
) -> CompiledProgram:
    """A program text as a plan. Raises CepError with all its mistakes.

    `name`: for messages; `facts`: {predicate: table}; `knowledge`: what graph patterns ask, a
    `knowledge.graph.Knowledge`, or an rdflib graph or dataset, as it is; `types`: of undeclared
    input events; `policy`: of rules that name none; `alerts`: make the occurrences of ALERT statements too, which go
    out as tables of their own (`cep.rules.alert`); `dialect`: that of the text, by default what the suffix of `name`
    says; `tick`: microseconds of the number 1 in a dialect.
    """
    tables, source = facts or {}, source_of(knowledge)
    choice = policy_choice(policy)
    tree = read(text, name, dialect, tick)
    whole = with_pieces(tree, tree.incoming, tree.records) if tree.incoming else tree
    every = lower(whole, choice, types or {}, tables)
    pool = Pool()
    known = ask(every, source, tables, pool)
    rules = replace(every, errors=(*every.errors, *known.errors))
    try:
        statics = _closed(rules, tables, pool, known)
        planned = plan(rules, statics.relations, pool, frozenset(types or ()))
        planned = replace(planned, warnings=(*planned.warnings, *empty(rules, tables), *by_order(rules, tables)))
        run = rules
        if rules.alerts and not alerts:  # checked, and not made
            run = without_alerts(rules)
            warnings = planned.warnings
            planned = replace(plan(run, statics.relations, pool, frozenset(types or ())), warnings=warnings)
    except CepError as error:
        raise CepErrors(_all(rules, known, error)) from None
    written = dialect_of(name, dialect)
    fingerprint = snapshot.program_fingerprint(
        text if written is None else f"{written} {tick}\0{text}",
        policy,
        types,
        tables,
        None if source is None else source.fingerprint,
    )
    made = rules.alerts if alerts else ()
    return CompiledProgram(
        planned,
        run,
        made,
        fingerprint,
        tables,
        source,
        replace(tree, helpers=whole.helpers),
        every,
        Binding(pool, known, statics),
    )


def _bound(rules: Rules, facts: Mapping[str, pl.DataFrame], knowledge: KnowledgeSource | None) -> Binding:
    pool = Pool()
    known = ask(rules, knowledge, facts, pool)
    return Binding(pool, known, _closed(rules, facts, pool, known))


def _closed(rules: Rules, facts: Mapping[str, pl.DataFrame], pool: Pool, known: ProgramKnowledge) -> Statics:
    given = known.relations(rules)
    return close(rules.statics, facts, pool, rules.source, given=given, declared=rules.declared)


def _all(rules: Rules, known: ProgramKnowledge, error: CepError) -> list[CepError]:
    """Every mistake once: of the rules, of what they ask, and of the plan."""
    found = error.errors if isinstance(error, CepErrors) else (error,)
    if known.errors:  # without what was asked no type is known
        found = tuple(each for each in found if each.code != "type")
    found = tuple(
        arrowed(each, rules.statics, rules.schemas, rules.source) if each.code == "unknown" else each for each in found
    )
    before = set(map(id, rules.errors))
    return [*rules.errors, *(each for each in found if id(each) not in before)]


def policy_choice(text: str | None, what: str = "policy") -> PolicyChoice | None:
    """A policy by its name. CepError: `what` names none."""
    if text is None:
        return None
    try:
        statement = parse(f"policy {text}.", "<policy>").statements[0]
    except CepError as error:
        raise CepError(f"{what}: {error.message}", hint=error.hint, code="option") from None
    assert isinstance(statement, PolicyStatement), "the keyword says so"
    return statement.choice
