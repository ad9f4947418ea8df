"""Evaluate conditions one by one for known values. Return their results, the variables that they bind, and the
knowledge on which they depend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cep.core.errors import CepError
from cep.core.interval_sets import INFINITE
from cep.core.relation import FIRST, Column, bits
from cep.engine import Engine
from cep.events import Value
from cep.explain.occurrences import encoded
from cep.plan.algebra import Triples
from cep.rules.conditions.binding_order import arrange
from cep.rules.conditions.conditions import Conditions, compile_conditions
from cep.rules.conditions.relations import Relation
from cep.rules.expressions.checking import check
from cep.rules.expressions.evaluate import compile_expression
from cep.rules.static.rule_predicate import enter
from cep.rules.terms import (
    Comparison,
    Condition,
    Disjunction,
    Expression,
    Graph,
    Predicate,
    Variable,
    condition_variables,
    expression_variables,
)
from cep.runtime.decode import values
from cep.runtime.knowledge_source import Fixed, KnowledgeSource

TypedValue = tuple[Value, str]
"""A value and its type."""
BoundValues = Mapping[str, TypedValue]
"""The values and types of variables, by the variable's name."""

MOST_ANSWERS = 64
"""The greatest number of answers to one condition that are considered for one occurrence. Further answers are
ignored."""
DEEPEST = 8
"""The greatest depth of an explanation of conditions. A condition is explained by the conditions of the static rule
that makes it true, and so on."""


Triple = tuple[str, str, str]
"""A triple of terms, written as in N-Triples."""


@dataclass(frozen=True, slots=True)
class ProofStep:
    """One step of a proof: a triple, the rule that infers the triple, and the premises of the rule.

    The rule is `asserted` if the triple was not inferred.
    """

    triple: Triple
    rule: str
    premises: tuple[Triple, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A triple of the knowledge in readable form.

    - `proof`: if the triple was inferred, its proof as text: one line per step, premises indented.
    - `steps`: the same proof as data. Its first step infers the triple itself, and each triple occurs only once.
    """

    triple: str
    proof: tuple[str, ...] = ()
    steps: tuple[ProofStep, ...] = ()


SupportingTriples = Callable[[Graph | Fixed, Mapping[str, Value], KnowledgeSource | None], list[Fact]]
"""A function that returns the triples on which an answer to a graph pattern depends.

Its last argument is the knowledge at the time of the answer. None means the initial knowledge.
"""


@dataclass(frozen=True, slots=True)
class Judged:
    """A condition with the values of its variables.

    - `sides`: the values of a comparison's two sides.
    - `within`: the conditions of the static rule that makes the condition true.
    - `facts`: the triples on which the condition depends.
    """

    condition: Condition
    holds: bool
    values: Mapping[str, Value]
    sides: tuple[TypedValue, TypedValue] | None = None
    within: tuple[Judged, ...] = ()
    facts: tuple[Fact, ...] = ()


@dataclass(slots=True)
class Case:
    """Values of variables for which conditions are evaluated.

    A condition that has several answers splits a case. `origin`: the index of the original case to which this case
    belongs.
    """

    origin: int
    bound: dict[str, TypedValue]
    judged: list[Judged] = field(default_factory=list)

    @property
    def failed(self) -> list[Judged]:
        return [judgement for judgement in self.judged if not judgement.holds]


class Judge:
    """An evaluator of conditions. A case is a set of known values; it is evaluated with the knowledge at the time
    `end()`.

    - `most`: the greatest number of answers to one condition that are considered for one case, or None for all.
    - `check_limit`: a function that is called regularly, and raises an error after the time limit.
    """

    def __init__(
        self,
        engine: Engine,
        facts: SupportingTriples | None = None,
        most: int | None = MOST_ANSWERS,
        check_limit: Callable[[], None] = lambda: None,
    ) -> None:
        self.engine = engine
        self.pool = engine.pool
        self.relations: Mapping[str, Relation] = engine.relations
        self.facts = facts
        self.most = most
        self.check_limit = check_limit
        self._changes = engine.changes if engine.changes is not None and engine.changes.past else None
        self._compiled: dict[tuple[Condition, tuple[tuple[str, str], ...]], Conditions] = {}

    def judge(self, conditions: Sequence[Condition], cases: Sequence[BoundValues]) -> list[Case]:
        """Evaluate conditions for each case.

        A condition that has several answers splits the case. If a condition should bind variables but has no answer,
        the evaluation of this case stops, because other conditions may need these variables. A false condition that
        binds no variables does not stop the evaluation.
        """
        outcomes: list[Case] = []
        alike: dict[tuple[tuple[str, str], ...], list[Case]] = {}
        for place, bound in enumerate(cases):  # the sides of an OR may bind a variable to values of other types
            types = tuple((name, type) for name, (_, type) in bound.items())
            alike.setdefault(types, []).append(Case(place, dict(bound)))
        for live in alike.values():
            outcomes += self._judged(conditions, live)
        return sorted(outcomes, key=lambda case: case.origin)

    def versions(self) -> list[tuple[int, int, BoundValues]]:
        """Return the periods during which the knowledge does not change.

        A period consists of its first and last time code (see `cep.core.interval_sets`), and a binding of `end()` to a
        time within the period.
        """
        if self._changes is None:
            return [(-INFINITE, INFINITE, {})]
        times = [change.time for change in self._changes.past]
        firsts = [-INFINITE, *(2 * time for time in times)]
        lasts = [*(2 * time - 1 for time in times), INFINITE]
        ends = [times[0] - 1, *times]
        return [(first, last, {"end()": (end, "time")}) for first, last, end in zip(firsts, lasts, ends)]

    def _judged(self, conditions: Sequence[Condition], live: list[Case]) -> list[Case]:
        done: list[Case] = []
        known = {name: type for name, (_, type) in live[0].bound.items()}
        for condition in arrange(conditions, known, self.relations, self.engine.plan.source):
            self.check_limit()
            live, ended = self._one(condition, live)
            done += ended
        return [*live, *done]

    def _end(self, bound: BoundValues) -> TypedValue:
        """Return the value of `end()` in a case. If the case has none, return the watermark, so that the current
        knowledge is used."""
        return bound.get("end()") or (self.engine.watermark, "time")

    def _one(self, condition: Condition, cases: list[Case]) -> tuple[list[Case], list[Case]]:
        if not cases:
            return [], []
        answer_lists = self._answers(condition, [case.bound for case in cases])
        live: list[Case] = []
        ended: list[Case] = []
        for case, answers in zip(cases, answer_lists):
            for extra in answers[: self.most]:
                bound = {**case.bound, **extra}
                live.append(Case(case.origin, bound, [*case.judged, self._judgement(condition, True, bound)]))
            if not answers:
                case.judged.append(self._judgement(condition, False, case.bound))
                binds = [name for name in condition_variables(condition) if name not in case.bound and name != "_"]
                negated = isinstance(condition, Predicate) and condition.negated
                (ended if binds and not negated else live).append(case)
        return live, ended

    def _answers(self, condition: Condition, cases: Sequence[BoundValues]) -> list[list[dict[str, TypedValue]]]:
        """Return the answers to a condition, one list per case. An answer consists of the variables that it binds.

        The list of a case is empty if the condition is false.
        """
        types = {name: type for name, (_, type) in cases[0].items()}
        compiled = self._ready(condition, types)
        columns = self.columns(cases, types)
        index, bindings = compiled.answers(columns, len(cases))
        decoded = {name: self.decoded(column, compiled.binds[name]) for name, column in bindings.items()}
        answers: list[list[dict[str, TypedValue]]] = [[] for _ in cases]
        for position, row in enumerate(index.tolist()):
            answers[row].append({name: (column[position], compiled.binds[name]) for name, column in decoded.items()})
        return answers

    def _ready(self, condition: Condition, types: Mapping[str, str]) -> Conditions:
        key = (condition, tuple(types.items()))
        if key not in self._compiled:
            source = self.engine.plan.source
            self._compiled[key] = compile_conditions([condition], types, self.relations, self.pool, source)
        return self._compiled[key]

    def columns(self, cases: Sequence[BoundValues], types: Mapping[str, str]) -> dict[str, Column]:
        """Encode the values of variables as columns of the engine, by variable. The columns have one row per case, and
        include the case's end."""
        columns: dict[str, Column] = {"end()": np.array([self._end(case)[0] for case in cases], np.int64)}
        for name, type in types.items():
            column = encoded([case[name][0] for case in cases], type, self.pool)
            assert column is not None, "values have the type of their variable"
            columns[name] = column
        return columns

    def decoded(self, column: Column, type: str) -> list[Value]:
        table = np.zeros((FIRST + 1, len(column)), np.int64)
        table[FIRST] = bits(column.astype(np.float64) if type == "float" else column.astype(np.int64))
        return values(table, 0, type, self.pool)

    def value(self, expression: Expression, bound: BoundValues) -> TypedValue:
        """Return the value of an expression whose variables are all bound."""
        types = {name: type for name, (_, type) in bound.items()}
        typed = check(expression, types, self.engine.plan.source)
        column = compile_expression(typed, self.pool)(self.columns([bound], types), 1)
        return self.decoded(column, typed.type)[0], typed.type

    # --- what is said of a condition ---

    def _judgement(self, condition: Condition, holds: bool, bound: BoundValues) -> Judged:
        names = [name for name in dict.fromkeys(condition_variables(condition)) if name in bound]
        return Judged(condition, holds, {name: bound[name][0] for name in names})

    def detailed(self, judged: Judged, bound: BoundValues, depth: int = 0) -> Judged:
        """Return a condition with details: the values of its sides, the static rule that makes it true, and the triples
        on which it depends."""
        condition = judged.condition
        if isinstance(condition, Comparison):
            known = all(name in bound for name in condition_variables(condition))
            if not known:
                return judged
            return replace(judged, sides=(self.value(condition.left, bound), self.value(condition.right, bound)))
        if isinstance(condition, Disjunction):
            return replace(judged, within=self._alternative(condition, judged.holds, bound, depth))
        if not judged.holds or condition.negated:
            return judged
        if condition.name in self.engine.plan.rules.asked:
            return replace(judged, facts=self._facts(condition, bound))
        return replace(judged, within=self._by_rule(condition, bound, depth))

    def _alternative(self, condition: Disjunction, holds: bool, bound: BoundValues, depth: int) -> tuple[Judged, ...]:
        failed: list[Judged] = []
        for inside in condition.alternatives:
            cases = self.judge(inside, [bound])
            held = next((case for case in cases if not case.failed), None)
            if held is not None and holds:
                return tuple(self.detailed(judgement, held.bound, depth) for judgement in held.judged)
            failed += [self.detailed(failure, case.bound, depth) for case in cases[:1] for failure in case.failed]
        return tuple(failed)

    def _facts(self, condition: Predicate, bound: BoundValues) -> tuple[Fact, ...]:
        asked = self.engine.plan.rules.asked[condition.name]
        if self.facts is None:
            return ()
        bindings: dict[str, Value] = {}
        known = None
        if self._changes is not None:
            known = self._changes.known_at(int(self._end(bound)[0] or 0))
        if isinstance(asked, Triples):
            terms = [self._known(argument, bound) for argument in condition.arguments]
            bindings = {str(i): term for i, term in enumerate(terms) if term is not None}
            return tuple(self.facts(asked.fixed, bindings, known))
        for name, argument in zip(asked.variables, condition.arguments):
            value = self._known(argument, bound)
            if value is not None:
                bindings[name] = value
        return tuple(self.facts(asked, bindings, known))

    def _known(self, argument: Expression, bound: BoundValues) -> Value:
        if any(name not in bound for name in expression_variables(argument)):
            return None
        return self.value(argument, bound)[0]

    def _by_rule(self, condition: Predicate, bound: BoundValues, depth: int) -> tuple[Judged, ...]:
        """Return the conditions of the static rule that makes the predicate `condition` true. If several rules do,
        return those of the first one in program order."""
        if depth >= DEEPEST:
            return ()
        arguments = {i: a for i, a in enumerate(condition.arguments) if not _free(a, bound)}
        for rule in self.engine.plan.rules.statics:
            if rule.name != condition.name or len(rule.arguments) != len(condition.arguments) or not rule.conditions:
                continue
            entry = enter(rule.arguments, list(arguments))
            bindings = {name: self.value(arguments[i], bound) for i, name in entry.names.items()}
            bindings["end()"] = self._end(bound)
            try:
                cases = self.judge([*entry.conditions, *rule.conditions], [bindings])
            except CepError:  # the rule cannot be called with these arguments
                continue
            for case in cases:
                if not case.failed:
                    own = [judgement for judgement in case.judged if judgement.condition in rule.conditions]
                    return tuple(self.detailed(judgement, case.bound, depth + 1) for judgement in own)
        return ()


def _free(argument: Expression, bound: BoundValues) -> bool:
    if isinstance(argument, Variable) and argument.name == "_":
        return True
    return any(name not in bound for name in expression_variables(argument))
