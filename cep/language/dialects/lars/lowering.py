"""Lowering of LARS programs to defined fluents. A fluent holds while an atom is true at the evaluation tick.

Each tick is an interval of time (see `cep.core.evaluation_ticks`). For a derived predicate `b`, the fluent `b` holds
while `b` is true now. The fluent `b at` has one more column, a tick, and holds while `b` is true at that tick. A
literal that applies a window to input holds during the ticks whose window contains the atom. A rule becomes a join of
these fluents. A literal under `not` is subtracted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from cep.core.errors import Mistakes, Source, Span
from cep.core.fluents import INCONSISTENT, beside
from cep.language.dialects.lars.answer_set_options import AnswerSetOptions
from cep.language.dialects.lars.answer_set_rules import SplitProgram, split
from cep.language.dialects.lars.answer_set_statements import AnswerSetStatements
from cep.language.dialects.lars.ast import NOW, LarsLiteral, LarsProgram, LarsRule
from cep.language.dialects.lars.auxiliary_fluents import helping
from cep.language.dialects.lars.column_types import column_types, given_types, variable_types
from cep.language.dialects.lars.components import components
from cep.language.dialects.lars.relations import Relations, predicate_of
from cep.language.fluents import RESERVED
from cep.language.syntax import ast
from cep.operators.conjunction import And
from cep.operators.supports import FormulaAtom
from cep.operators.where import RestrictedFormula
from cep.plan.formula import Formula
from cep.plan.types import UNKNOWN
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import (
    Comparison,
    Condition,
    Constant,
    Graph,
    Predicate,
    StaticRule,
    Variable,
    condition_variables,
    expression_variables,
)


def lowered(program: LarsProgram, source: Source, options: AnswerSetOptions | None = None) -> ast.SyntaxTree:
    """Lower a program to a tree of fluents. Undefined predicates are permitted. Raises CepError with all mistakes."""
    return _Lowering(program, source, options or AnswerSetOptions()).tree()


class _Lowering:
    def __init__(self, program: LarsProgram, source: Source, options: AnswerSetOptions) -> None:
        self.source = source
        self.errors = Mistakes()
        self.events = {
            declaration.name: declaration
            for declaration in program.declarations
            if isinstance(declaration, ast.EventDeclaration)
        }
        input_types = given_types(program)
        self.written = program
        self.program = living(program, self.events)
        self.types = column_types(self.program, input_types)
        self.first = options.first
        self.relations = Relations(self.program, self.events, self.types)
        self.made: list[ast.WhileRule] = []
        self.answer_sets: AnswerSetStatements | None = None
        parts = split(self.program, lambda rule: variable_types(rule, self.types))
        if parts is not None:
            self._set_apart(parts, input_types, options)

    def _set_apart(
        self, parts: SplitProgram, input_types: Mapping[str, Sequence[str | None]], options: AnswerSetOptions
    ) -> None:
        """Prepare to lower a program that has cycles through negation.

        The engine runs the part without such cycles, and the solver finds the answer sets of the other part.
        """
        whole = self.relations
        self.program = living(parts.rest, self.events)
        self.types |= {
            name: types for name, types in column_types(parts.rest, input_types).items() if name not in self.types
        }
        self.relations = Relations(self.program, self.events, self.types)
        self.relations.column_names |= whole.column_names
        self.relations.constrained = True
        timeline = self.relations.timeline(self.relations.fresh("first"))
        for name in (*parts.inputs, *parts.names):  # columns of the solver's tables need a type
            self.types[name] = tuple(
                "any" if column_type == UNKNOWN else column_type for column_type in self.types.get(name, ())
            )
        self.answer_sets = AnswerSetStatements(parts, self.types, self.relations, options, INCONSISTENT, timeline)

    def tree(self) -> ast.SyntaxTree:
        facts = [StaticRule(self.relations.facts_of(rule.head.predicate), rule.head.arguments, (), rule.span)
                 for rule in self.program.rules if rule.is_fact and rule.head is not None]  # fmt: skip
        for component in components(self.program):
            self.relations.cycle = frozenset(component.predicates) if component.recursive else frozenset()
            for rule in component.rules:
                if not rule.is_fact:
                    self.rule(rule)
        derived = [self.declared(name) for name in self.relations.derived]
        solved: list[ast.Statement] = []
        if self.answer_sets is not None:
            solved = [*self.answer_sets.statements(), *map(self.solved, self.answer_sets.fluents)]
        helps, helpers = helping(self.relations, self.first)
        if self.answer_sets is not None:
            helpers += self.answer_sets.helpers
        if self.relations.constrained:
            derived.append(ast.FluentDeclaration(INCONSISTENT, (ast.AttributeTree("models", "int"),)))
            asked = () if self.answer_sets is None else self.answer_sets.parts.inputs
            for declaration in list(derived[:-1]):
                if declaration.name in asked:  # only the solver uses it
                    derived[derived.index(declaration)] = replace(
                        declaration, name=self.relations.now(declaration.name)
                    )
                    helpers.append(self.relations.now(declaration.name))
                    continue
                own = self.relations.now(declaration.name)
                derived.append(replace(declaration, name=own))
                helpers.append(own)
                self.made.append(self.allowed(declaration.name, len(declaration.attributes)))
        statements = (
            *map(self.instants, self.own_declarations()), *facts, *derived, *self.made, *helps, *solved
        )  # fmt: skip
        return ast.SyntaxTree(statements, self.source, (), frozenset(helpers))

    def own_declarations(self) -> list[ast.Statement]:
        """Return the declarations whose names no other file declares or derives."""
        elsewhere = self.written.elsewhere
        return [
            declaration
            for declaration in self.written.declarations
            if getattr(declaration, "name", None) not in elsewhere
        ]

    def instants(self, statement: ast.Statement) -> ast.Statement:
        """Add a time column to an event declaration that names neither a time nor a start column, so that the event is
        instantaneous. Return other statements unchanged."""
        if isinstance(statement, ast.EventDeclaration) and (statement.time, statement.start) == (None, None):
            return replace(statement, time="time")
        return statement

    def declared(self, name: str) -> ast.FluentDeclaration:
        return ast.FluentDeclaration(name, self.attributes(name))

    def solved(self, name: str) -> ast.FluentDeclaration:
        assert self.answer_sets is not None, "there are some"
        return ast.FluentDeclaration(name, self.answer_sets.attributes(self.attributes(name)))

    def attributes(self, name: str) -> tuple[ast.AttributeTree, ...]:
        predicate = predicate_of(name)
        types = self.types.get(predicate, ())
        columns: list[str] = []
        for index in range(len(types)):
            wanted = self.relations.column_names.get(predicate, {}).get(index, f"arg{index + 1}")
            if wanted in columns or wanted in RESERVED:
                wanted = f"arg{index + 1}"
            columns.append(wanted)
        attributes = [ast.AttributeTree(column, type) for column, type in zip(columns, types)]
        if name != predicate:
            attributes.append(ast.AttributeTree(beside("at", columns), "int"))
        return tuple(attributes)

    def allowed(self, name: str, width: int) -> ast.WhileRule:
        """Return the rule for a fluent that is part of the output: the fluent holds while its atom is true and no
        constraint is violated. `width`: the number of arguments."""
        arguments = tuple(Variable(f"X{index + 1}") for index in range(width))
        broken = FormulaAtom(INCONSISTENT, (Constant(0, "int"),))
        formula = And((FormulaAtom(self.relations.now(name), arguments), broken), (False, True))
        return ast.WhileRule(name, arguments, None, (), formula)

    # --- rules ---

    def rule(self, rule: LarsRule) -> None:
        body = self.body(rule)
        if body is None:
            return
        head_span = rule.span if rule.head is None else rule.head.span
        if rule.head is None:
            none = Constant(0, "int", rule.span)
            self.made.append(ast.WhileRule(INCONSISTENT, (none,), None, (), body, rule.span, head_span))
            return
        name = rule.head.predicate
        arguments, conditions = self.relations.plain(rule.head.arguments)
        if rule.tick is None:
            own = self.relations.facts_of(name)
            if name in self.relations.with_facts:
                conditions = [*conditions, Predicate(own, arguments, True, rule.span)]
        else:
            (instant,), more = self.relations.plain((rule.tick,))
            conditions += more
            if not self.relations.is_tick(rule, rule.tick):
                first = self.relations.fresh("first")
                body = And((body, self.relations.timeline(first)), (False, False), rule.span)
                conditions.append(Comparison(">=", instant, first, rule.span))
            arguments = (*arguments, instant)
        name = self.relations.now(name) if rule.tick is None else self.relations.at(name)
        if conditions:
            body = RestrictedFormula(body, tuple(conditions), rule.span)
        self.made.append(ast.WhileRule(name, arguments, None, (), body, rule.span, head_span))

    def body(self, rule: LarsRule) -> Formula | None:
        """Return the formula of a rule's body. Return None if the body can never be true."""
        positive: list[Formula] = []
        negative: list[Formula] = []
        conditions: list[Condition] = []
        for element in rule.body:
            if isinstance(element, Comparison):
                conditions.append(element)
            elif isinstance(element, Graph):
                names = tuple(Variable(name, element.span) for name in element.variables)
                conditions.append(Predicate(element.text, names, element.negated, element.span, element))
            elif self.relations.is_static(element):
                conditions.append(
                    Predicate(element.atom.predicate, element.atom.arguments, element.negated, element.span)
                )
            else:
                formula, more = self.relations.literal(element)
                if formula is None:
                    if not element.negated:
                        return None
                    continue
                conditions += more
                (negative if element.negated else positive).append(formula)
        lowered = joined(positive or [self.relations.timeline(self.relations.fresh("first"))], conditions, rule.span)
        if negative:
            lowered = And((lowered, *negative), (False, *(True for _ in negative)), rule.span)
        return lowered


def living(program: LarsProgram, events: Collection[str]) -> LarsProgram:
    """Remove the rules whose body can never be true.

    Such a rule needs a predicate that is neither input nor derived, or it applies a window to facts. Facts are not part
    of the stream.
    """
    facts = {declaration.name for declaration in program.declarations if isinstance(declaration, FactDeclaration)}
    facts |= {rule.head.predicate for rule in program.rules if rule.is_fact and rule.head is not None}
    derived: set[str] = set()
    kept: dict[int, LarsRule] = {}

    def is_there(literal: LarsLiteral) -> bool:
        name = literal.atom.predicate
        return name in events or name in derived or (literal.modality == NOW and name in facts)

    while True:
        before = len(kept)
        for number, rule in enumerate(program.rules):
            positive = [element for element in rule.body if isinstance(element, LarsLiteral) and not element.negated]
            if number not in kept and all(map(is_there, positive)):
                kept[number] = rule
                if rule.head is not None and not rule.is_fact:
                    derived.add(rule.head.predicate)
        if len(kept) == before:
            return replace(program, rules=tuple(kept[number] for number in sorted(kept)))


def joined(parts: Sequence[Formula], conditions: Sequence[Condition], span: Span) -> Formula:
    """Return the conjunction of the formulas `parts` and the conditions.

    If a condition calculates the value of a variable, it comes before the formulas that read this variable.
    """
    waiting, rest = list(conditions), list(parts)
    formula = rest.pop(0)
    known = set(formula.bound())
    while True:
        ready = [condition for condition in waiting if condition_is_ready(condition, known, last=not rest)]
        if ready:
            formula = RestrictedFormula(formula, tuple(ready), span)
            waiting = [condition for condition in waiting if condition not in ready]
            known |= {name for condition in ready for name in condition_variables(condition)}
            continue
        if not rest:
            return RestrictedFormula(formula, tuple(waiting), span) if waiting else formula
        following = next((part for part in rest if part.bound() & known), rest[0])
        rest.remove(following)
        formula = And((formula, following), (False, False), span)
        known |= following.bound()


def condition_is_ready(condition: Condition, known: set[str], last: bool) -> bool:
    """Return True if a condition can be added to the formulas that have been joined so far.

    A comparison is ready when all its variables are in `known`. An equation is also ready if it calculates its only
    unknown variable. Other conditions are ready when all formulas have been joined (`last`).
    """
    if not isinstance(condition, Comparison):
        return last
    missing = [name for name in dict.fromkeys(condition_variables(condition)) if name not in known]
    if not missing:
        return True
    if condition.operator != "=" or len(missing) > 1:
        return False
    sides = ((condition.left, condition.right), (condition.right, condition.left))
    return any(
        isinstance(side, Variable) and side.name == missing[0] and missing[0] not in expression_variables(other)
        for side, other in sides
    )
