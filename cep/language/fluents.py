"""Lowering of simple fluents: rules that initiate and terminate them, and a rule for inertia.

A fluent `f` has three tables, which the plan treats like events:

- `transitions of f` has a row each time that a rule initiates or terminates a value.
- `times of f` has the beginnings and ends of f.
- `f` has the maximal intervals of f.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from cep.core.errors import CepError, Source, Span
from cep.core.fluents import (
    BEGINNING,
    BEGINS,
    EDGES,
    ENDED_ALL,
    ENDING,
    ENDS,
    HELD,
    HOLDS,
    INITIATED,
    SINCE_EVER,
    TERMINATED,
    TRANSITIONS,
    TRANSITIONS_OF,
    WHOLE,
    FluentTable,
    beside,
)
from cep.core.schema import Attribute, Schema
from cep.core.suggest import did_you_mean
from cep.language.held_at import WORD, HeldConditions
from cep.language.recorded_fluents import edges, is_recorded, rules_of_records, tables_of_records
from cep.language.syntax import ast
from cep.operators.event import Atom
from cep.operators.holding import ANY, KIND, HoldingPattern
from cep.operators.inertia import InertiaPattern
from cep.operators.ticks import Point
from cep.operators.where import SelectPattern
from cep.plan.algebra import Rule
from cep.plan.pattern import FluentDeadline, Pattern
from cep.plan.types import UNKNOWN
from cep.rules.expressions.spelling import respelling
from cep.rules.expressions.typed import TypedConstant, a, coerced
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Constant,
    Disjunction,
    Expression,
    Predicate,
    StaticRule,
    Variable,
    each_condition,
)

RESERVED = ("type", "start", "end", "bounds", "time", "args")
NEUTRAL: Mapping[str, int | float | str | bool] = {"string": "", "iri": "", "float": 0.0, "bool": False}


def transitions(name: str) -> str:
    """Return the name of the table that contains a fluent's transitions. If formulas define the fluent, this table
    contains the changes that the formulas derive."""
    return f"{TRANSITIONS_OF}{name}"


class Late(Protocol):
    """A check of the fluents that event rules use. It refuses a fluent whose value becomes known only after the rule
    needs it."""

    def refuse(self, name: str, span: Span) -> None:
        """Report the use of the fluent `name` in an event rule if its value is not known in time."""
        ...


class Fluents:
    """The fluents of a program.

    - `declared`: the declaration of each fluent.
    - `errors`: the mistakes in statements about fluents.
    - `flawed`: the `id` of each statement that has a mistake.
    """

    def __init__(
        self,
        program: ast.SyntaxTree,
        schemas: dict[str, Schema],
        schema_of: Callable[[ast.EventDeclaration], Schema],
    ) -> None:
        """Collect the fluents of a program and check the statements about them.

        `schema_of`: a function that returns the schema for the declaration of an event, or of a fluent's records.
        """
        self.source: Source = program.source
        self.schemas = schemas
        self.declared: dict[str, ast.FluentDeclaration] = {}
        self.errors: list[CepError] = []
        self.flawed: set[int] = set()
        self.deadlines: dict[str, list[FluentDeadline]] = {}
        self.initial: set[str] = set()
        self.late: Late | None = None
        statements = program.statements
        own = any(
            isinstance(statement, FactDeclaration | StaticRule) and statement.name == WORD for statement in statements
        )
        self.held = HeldConditions(self, own)
        self.derived = {statement.name for statement in statements if isinstance(statement, ast.EventRule)}
        self.defined = {statement.name for statement in statements if isinstance(statement, ast.WhileRule)}
        with_rules = {
            statement.name for statement in statements if isinstance(statement, ast.FluentRule | ast.WhileRule)
        }
        self.incoming = {
            statement.name
            for statement in statements
            if isinstance(statement, ast.FluentDeclaration)
            and (statement.name not in with_rules or is_recorded(statement))
        } - self.defined
        for statement in statements:
            if isinstance(statement, ast.FluentDeclaration):
                self.declare(statement, schema_of)
        for clause in statements:
            if isinstance(clause, ast.EventRule | ast.EventDeclaration) and clause.name in self.declared:
                span = clause.head_span if isinstance(clause, ast.EventRule) else clause.span
                self.error(
                    f"`{clause.name}` is a fluent, not an event", span, f"use `initiate {clause.name}(..) <- ..`"
                )
                self.flawed.add(id(clause))
            elif isinstance(clause, ast.WhileRule):
                self.check(clause, clause.head_span)
            elif isinstance(clause, ast.FluentRule | ast.DeadlineStatement) and clause.name in self.defined:
                span = clause.head_span if isinstance(clause, ast.FluentRule) else clause.span
                self.error(
                    f"`{clause.name}` is defined by WHILE, so events cannot begin or end it",
                    span,
                    "use two fluents, and a third that holds while either does: `f(X) WHILE g(X) OR h(X).`",
                )
                self.flawed.add(id(clause))
            elif isinstance(clause, ast.FluentRule):
                self.check(clause, clause.head_span)
                if clause.name in self.incoming:
                    message = f"`{clause.name}` is read from records, so events cannot begin or end it"
                    self.error(message, clause.head_span, "declare another fluent, without `START .. END ..`")
                    self.flawed.add(id(clause))
                if clause.verb == "initially":
                    self.initial.add(clause.name)
            elif isinstance(clause, ast.DeadlineStatement) and self.check(clause, clause.span):
                self.deadline(clause)

    def error(self, message: str, span: Span, hint: str | None = None, code: str = "fluent") -> None:
        self.errors.append(CepError(message, self.source, span, hint, code))

    # --- declarations ---

    def declare(self, statement: ast.FluentDeclaration, schema_of: Callable[[ast.EventDeclaration], Schema]) -> None:
        name, valued = statement.name, statement.value is not None
        if name in self.schemas or name in self.declared:
            self.error(f"`{name}` is declared twice", statement.span, "a fluent and an event cannot have the same name")
            return
        self.declared[name] = statement
        columns: dict[str, ast.AttributeTree] = {}
        for attribute in (*statement.attributes, *([statement.value] if statement.value else [])):
            if attribute.name in RESERVED:
                self.error(
                    f"`{attribute.name}` cannot be the name of an attribute: intervals use it",
                    attribute.span,
                    f"`{attribute.name}_`",
                )
            elif attribute.name in columns:
                self.error(f"`{attribute.name}` is declared twice", attribute.span, "each attribute has its own name")
            columns[attribute.name] = attribute
        attributes = tuple(
            Attribute(column.name, column.type, column.optional, iri=column.iri) for column in columns.values()
        )
        iri = None if statement.records is None else statement.records.iri
        if name in self.incoming and statement.records is not None:
            coming = schema_of(statement.records)
            self.schemas |= tables_of_records(name, coming, attributes, valued, statement.final)
            return
        kind, defined = Attribute(beside("what", columns), "int"), name in self.defined
        rule = (Attribute(beside("rule", columns), "int"),) if defined else ()
        for table, part, more in (
            (name, HOLDS, ()),
            (transitions(name), TRANSITIONS, (kind, *rule)),
            (edges(name), EDGES, (kind,)),
        ):
            of = FluentTable(part, name, valued, defined)
            known = all(attribute.type != UNKNOWN for attribute in attributes)  # otherwise the plan infers the types
            self.schemas[table] = Schema(table, (*attributes, *more), known, False, iri=iri, fluent=of)

    def written(self, name: str) -> str:
        declaration = self.declared[name]
        inner = ", ".join(f"{attribute.name}: {attribute.type}" for attribute in declaration.attributes)
        value = f" = {declaration.value.name}: {declaration.value.type}" if declaration.value else ""
        return f"`{name}({inner}){value}`"

    def check(self, statement: ast.FluentRule | ast.DeadlineStatement | ast.WhileRule, span: Span) -> bool:
        """Return True if a statement matches the declaration of its fluent. Otherwise report the mistake."""
        before = len(self.errors)
        self.fits(statement.name, len(statement.arguments), statement.value, span)
        if len(self.errors) > before:
            self.flawed.add(id(statement))
        return len(self.errors) == before

    def fits(self, name: str, arguments: int, value: Expression | None, span: Span) -> None:
        if name not in self.declared:
            what = "is an event" if name in self.schemas else "is not declared"
            hint = (
                did_you_mean(name, self.declared)
                or f"declare `fluent {name}(..).`, with a name and a type for each argument"
            )
            self.error(f"`{name}` {what}: there is no fluent of that name", span, hint)
            return
        declaration = self.declared[name]
        if arguments != len(declaration.attributes):
            self.error(f"fluent `{name}` is {self.written(name)}, but here it has {arguments} arguments", span,
                       "write the value after `=`" if declaration.value else None, "arity")  # fmt: skip
        elif value is None and declaration.value is not None:
            self.error(
                f"fluent `{name}` has a value", span, f"use `{name}(..) = {declaration.value.name.capitalize()}`"
            )
        elif value is not None and declaration.value is None:
            self.error(
                f"fluent `{name}` has no value: it holds or does not",
                span,
                f"ask for it with `{name}(..)` or `not {name}(..)`",
            )

    def deadline(self, statement: ast.DeadlineStatement) -> None:
        """Check the statement of a deadline and store it."""
        names = [
            argument.name for argument in statement.arguments if isinstance(argument, Variable) and argument.name != "_"
        ]
        if len(names) != len(statement.arguments) or len(set(names)) != len(names):
            message = "a deadline applies to all arguments of its fluent: use a different variable for each"
            self.error(message, statement.span, f"e.g. `{statement.name}(X) ENDS AFTER ..`")
            return
        value = self.constant(statement.name, statement.value)
        becomes = self.constant(statement.name, statement.becomes)
        if statement.becomes is not None and (becomes is None or self.declared[statement.name].value is None):
            if becomes is None or statement.value is None:
                message = "BECOMES needs a constant, the next value"
                self.error(message, statement.span, "`status(M) = proposed BECOMES void AFTER 10 min.`")
            return
        if statement.duration == 0:
            self.error("the time of a deadline must be longer than 0", statement.span, "use a longer time")
            return
        mine = self.deadlines.setdefault(statement.name, [])
        if any(value is None or deadline.value is None or deadline.value == value for deadline in mine):
            self.error(
                f"`{statement.name}` has a deadline for this value already",
                statement.span,
                "use one deadline for each value",
            )
            return
        mine.append(FluentDeadline(value, statement.duration, becomes, statement.renewed, statement.span))

    def constant(self, name: str, value: Expression | None) -> Constant | None:
        """Return the constant `value` to which a deadline of the fluent `name` applies. Return None if the deadline
        applies to any value.

        Report an error if the constant has the wrong type.
        """
        declared = self.declared[name].value
        if value is None or declared is None or (isinstance(value, Variable)):
            return None
        if not isinstance(value, Constant):
            self.error("the value of a deadline must be a constant, or a variable for any value", value.span)
            return None
        if coerced(TypedConstant(value.value, value.type), declared.type) is None:
            wrong = f"`{declared.name}` of `{name}` is {a(declared.type)}, this is {a(value.type)}"
            self.error(wrong, value.span, respelling(value.value, declared.type) or None, "type")
        return value

    # --- rules ---

    def rule(self, statement: ast.FluentRule, body: Pattern) -> Rule:
        """Return the rule of a statement that initiates or terminates a fluent."""
        arguments, what = list(statement.arguments), INITIATED
        if statement.verb == "terminate":
            what = TERMINATED
        if statement.value is not None:
            value = statement.value
            declared = self.declared[statement.name].value
            if what == TERMINATED and isinstance(value, Variable) and value.name == "_" and declared is not None:
                value, what = Constant(NEUTRAL.get(declared.type, 0), declared.type, value.span), ENDED_ALL
            arguments.append(value)
        arguments.append(Constant(what, "int"))
        return Rule(transitions(statement.name), tuple(arguments), body, None, statement.span, statement.head_span)

    def initially(self, statement: ast.FluentRule, conditions: tuple[Condition, ...]) -> Rule:
        """Return the rule for a fluent that `statement` initiates before the stream begins."""
        body: Pattern = Point(SINCE_EVER, None, statement.span)
        return self.rule(statement, SelectPattern(body, conditions, None, statement.span) if conditions else body)

    def inertia(self) -> list[Rule]:
        """Return the rules that compute each fluent's beginnings and ends from its transitions or records, and the
        rules that derive its maximal intervals from these."""
        rules = []
        for name, statement in self.declared.items():
            if name in self.incoming:
                rules += rules_of_records(name, self.schemas[name], statement.final, statement.span)
                continue
            valued = statement.value is not None
            if name in self.defined:
                continue
            names = tuple(f"{attribute.name}'" for attribute in self.schemas[transitions(name)].attributes)
            span = statement.span
            body = InertiaPattern(transitions(name), names, valued, tuple(self.deadlines.get(name, ())), None, span)
            every = tuple(map(Variable, names))
            rules.append(Rule(edges(name), every, body, None, span, span))
            for kind in (WHOLE, HELD) if name in self.initial else (WHOLE,):
                atom = Atom(edges(name), (*every[:-1], Constant(kind, "int")), None, span)
                rules.append(Rule(name, every[:-1], atom, None, span, span))
        return rules

    # --- patterns and conditions ---

    def atom(self, atom: ast.EventPattern, lowered: Atom) -> Atom:
        """Return the atom for a fluent in a pattern. The atom matches the fluent's maximal intervals, its beginnings or
        its ends."""
        kind = {None: WHOLE, "BEGIN": BEGINS, "END": ENDS}[atom.edge]
        if atom.name in self.defined or atom.name in self.incoming:
            kind = {None: WHOLE, "BEGIN": BEGINNING, "END": ENDING}[atom.edge]
        arguments = (*lowered.arguments, Constant(kind, "int"))
        return replace(lowered, event=edges(atom.name), arguments=arguments)

    def of(self, condition: Condition) -> tuple[str, tuple[Expression, ...], bool] | None:
        """Return the fluent that a condition tests, the fluent's arguments, and True if the test is negated. A fluent's
        value is its last argument.

        Return None if the condition tests no fluent.
        """
        match condition:
            case Predicate(name, arguments, negated, graph=None) if name in self.declared:
                self.fits(name, len(arguments), None, condition.span)
                return name, arguments, negated
            case Comparison("=", Call(name, arguments), value) if name in self.declared:
                self.fits(name, len(arguments), value, condition.span)
                return name, (*arguments, value), False
            case Comparison("=", value, Call(name, arguments)) if name in self.declared:
                self.fits(name, len(arguments), value, condition.span)
                return name, (*arguments, value), False
            case Comparison("!=", Call(name, arguments), value) if name in self.declared:
                self.fits(name, len(arguments), value, condition.span)
                return name, (*arguments, value), True
        self.elsewhere(condition)
        return None

    def elsewhere(self, condition: Condition) -> None:
        """Report each fluent in a condition that tests it in a way that is not possible, for instance inside an
        expression."""
        if self.held.refuse(condition):
            return
        for nested in each_condition([condition]):
            asked = [nested.name] if isinstance(nested, Predicate) else []
            sides = nested.arguments if isinstance(nested, Predicate) else (nested.left, nested.right)
            names = [*asked, *(name for side in sides for name in _calls(side))]
            for name in names:
                if name in self.declared:
                    value = self.declared[name].value
                    form = f"`{name}(..) = X`, and a condition on X beside it" if value else f"`{name}(..)`"
                    hint = f"use a separate condition, {form}, or a second rule for the alternative"
                    if isinstance(condition, Disjunction):
                        self.error(f"the fluent `{name}` cannot stand among alternatives", condition.span, hint)
                    else:
                        self.error(
                            f"the fluent `{name}` cannot be used as a value or a function here", condition.span, hint
                        )

    def given(
        self, pattern: Pattern, conditions: Sequence[Condition], within: int | None, span: Span
    ) -> Pattern | None:
        """Lower `pattern WHERE conditions`, where some conditions test fluents. Return None after a mistake.

        `within`: the maximum duration of a match in microseconds, or None.
        """
        before = len(self.errors)
        held = [asked_at for condition in conditions if (asked_at := self.held.of(condition)) is not None]
        conditions = [condition for condition in conditions if not self.held.is_one(condition)]
        asked = [(condition, self.of(condition)) for condition in conditions]
        if len(self.errors) > before:
            return None
        absent = [(fluent, condition) for condition, fluent in asked if fluent is not None and fluent[2]]
        rest = tuple(condition for condition, fluent in asked if fluent is None)
        for condition, fluent in asked:
            if fluent is not None and not fluent[2]:
                pattern = self.holds(pattern, fluent, condition.span)
        every = rest
        pattern, rest = self.held.before(
            pattern, [question for question in held if not question.fluent[2]], rest, within, span
        )
        if rest:
            pattern = SelectPattern(pattern, rest, within, span)
        for fluent, condition in absent:
            pattern = self.holds(pattern, fluent, condition.span)
        for question in held:
            pattern = self.held.at(pattern, question, every, within) if question.fluent[2] else pattern
        return pattern if len(self.errors) == before else None

    def holds(self, pattern: Pattern, asked: tuple[str, tuple[Expression, ...], bool], span: Span) -> Pattern:
        return HoldingPattern(pattern, self.asked_atom(asked, span), asked[2], None, span)

    def asked_atom(self, asked: tuple[str, tuple[Expression, ...], bool], span: Span) -> Atom:
        """Return an atom that matches the beginnings and ends of a fluent in a condition.

        `asked`: the fluent, its arguments, and True if the condition is negated.
        """
        name, arguments, _ = asked
        if self.late is not None:
            self.late.refuse(name, span)
        plain: list[Variable | Constant] = []
        for argument in arguments:
            if isinstance(argument, Call):
                hint = f"use a variable here, and put the arithmetic beside it: `{name}(X), X = ...`"
                self.error("the arguments of a fluent must be variables or constants", argument.span, hint)
            elif argument == Variable("_"):  # each `_` gets its own column, because its values tell apart what holds
                plain.append(Variable(f"{ANY}{len(plain)}", argument.span))
            else:
                plain.append(argument)
        return Atom(edges(name), (*plain, Variable(KIND, span)), None, span)

    def instant(self, event: str) -> bool:
        return event not in self.derived and event in self.schemas and self.schemas[event].point


def _calls(expression: Expression) -> list[str]:
    if not isinstance(expression, Call):
        return []
    return [expression.function, *(name for argument in expression.arguments for name in _calls(argument))]
