"""Lowering of the event language (ETALIS) from the syntax tree to the plan's algebra.

- Named arguments become positional arguments.
- A policy or a WITHIN applies to the operators inside it, so it is passed down to them.
- Every event gets names for its attributes.
- CNOT becomes NOT, and TIMES becomes a chain of SEQ.
- Each condition on background knowledge becomes a predicate for the table that contains its answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from cep.core.errors import CepError, Source, Span
from cep.core.schema import Schema
from cep.core.suggest import did_you_mean
from cep.language.alerts import Alerting, alert_variables, alerting, inhibited, on_fluent, since_ever, watching
from cep.language.circular_fluents import refuse_circular
from cep.language.formulas import Formulas
from cep.language.heads import placed
from cep.language.knowledge_patterns import KnowledgePatterns
from cep.language.recorded_fluents import records_apart
from cep.language.schemas import Schemas, argument_count
from cep.language.syntax import ast
from cep.language.syntax.patterns import Times
from cep.operators.event import Atom
from cep.operators.pair import Pair
from cep.operators.times import Repeat
from cep.operators.where import SelectPattern
from cep.plan.algebra import Rule, Rules
from cep.plan.pattern import Pattern, names_in, size
from cep.rules.alert import Alert
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import (
    Call,
    Constant,
    Expression,
    PolicyChoice,
    StaticRule,
    Variable,
    condition_variables,
    fluent_variables,
)

# Each repetition becomes a goal of its own.
MOST_TIMES = 100
MOST_REPEATED = 20_000
"""The maximum number of events in a pattern, counted after each TIMES has been expanded."""
UNRESTRICTED = PolicyChoice("unrestricted")

_EDGES = {
    **dict.fromkeys(("begin", "begins", "start", "starts", "entered"), "BEGIN"),
    **dict.fromkeys(("end", "ends", "stop", "stops", "left"), "END"),
}
"""Words of other languages that mean the beginning or the end of a fluent."""


def lower(
    program: ast.SyntaxTree,
    policy: PolicyChoice | None,
    types: Mapping[str, tuple[str, ...]],
    tables: Collection[str] = (),
) -> Rules:
    """Lower a program. The result's `errors` contain the mistakes, and rules that have mistakes are omitted.

    - `policy`: the consumption policy of patterns that name none. None means unrestricted.
    - `types`: for undeclared input events, the argument types as far as they are known.
    - `tables`: the names of predicates whose rows come from outside the program.
    """
    return _Lowering(program, types, tables).lowered(policy or UNRESTRICTED)


class _Lowering:
    def __init__(self, program: ast.SyntaxTree, types: Mapping[str, tuple[str, ...]], tables: Collection[str]) -> None:
        self.program = program = records_apart(program)
        self.source: Source = program.source
        self.known = KnowledgePatterns.of(program, tables)
        named = Schemas(program, types)
        self.schemas, self.errors, self.fluents = named.found, named.errors, named.fluents
        self.formulas = Formulas(program, self.fluents, self.known, self.atom)
        # The rules that cannot be lowered, and a flag for the current rule.
        self.bad = named.flawed
        self.flawed = False
        self.fresh = 0

    def lowered(self, policy: PolicyChoice) -> Rules:
        default = policy
        rules: list[Rule] = []
        statics: list[StaticRule] = []
        alerts: dict[str, Alerting] = {}
        declared: dict[str, FactDeclaration] = {}
        for statement in self.program.statements:
            match statement:
                case ast.PolicyStatement(choice):
                    policy = choice or default
                case FactDeclaration():
                    if statement.name in declared:
                        self.error(f"`fact {statement.name}` is declared twice", statement.span)
                    declared[statement.name] = statement
                case StaticRule():
                    statics.append(self.known.static(statement))
                case ast.EventRule():
                    outside = _counted(statement)
                    self.flawed = id(statement) in self.bad
                    body = self.pattern(statement.body, policy, None, outside)
                    if self.flawed:
                        continue
                    rules.append(
                        Rule(
                            statement.name,
                            placed(statement, self.schemas[statement.name]),
                            body,
                            statement.label,
                            statement.span,
                            statement.head_span,
                        )
                    )
                case ast.FluentRule():
                    self.flawed = id(statement) in self.bad
                    rule = self.fluent_rule(statement, policy)
                    rules += [] if self.flawed or rule is None else [rule]
                case ast.WhileRule():
                    self.flawed = id(statement) in self.bad
                    rule = None if self.flawed else self.formulas.rule(statement)
                    rules += [] if self.flawed or rule is None else [rule]
                case ast.AlertStatement():
                    alert = self.alert(statement, alerts)
                    if alert is not None:
                        rules += alert.rules
                        alerts.setdefault(statement.name, alert)
                case _:
                    pass
        told = self.inhibitions(alerts, rules)
        rules += self.fluents.inertia()
        rules += self.formulas.extents()
        refuse_circular(self.fluents, rules)
        self.errors += self.fluents.errors
        return Rules(
            self.schemas,
            tuple(rules),
            tuple(statics),
            self.source,
            tuple(self.errors),
            self.known.asked,
            tuple(told),
            declared,
            self.program.helpers,
            dict(self.program.impossible),
        )

    def error(self, message: str, span: Span, hint: str | None = None, code: str = "name") -> None:
        self.flawed = True
        self.errors.append(CepError(message, self.source, span, hint, code))

    def fluent_rule(self, statement: ast.FluentRule, policy: PolicyChoice) -> Rule | None:
        """Return the rule that initiates or terminates a fluent, or None after a mistake."""
        outside = Counter(fluent_variables(statement.arguments, statement.value))
        if statement.body is None:
            outside.update(name for condition in statement.conditions for name in condition_variables(condition))
            conditions = tuple(self.known.condition(condition, outside) for condition in statement.conditions)
            for condition in conditions:
                self.fluents.elsewhere(condition)
            return None if self.flawed else self.fluents.initially(statement, conditions)
        outside.update(statement.body.variables())
        body = self.pattern(statement.body, policy, None, outside)
        return None if self.flawed else self.fluents.rule(statement, body)

    # --- patterns ---

    def pattern(
        self, pattern: ast.PatternTree, policy: PolicyChoice, within: int | None, outside: Mapping[str, int]
    ) -> Pattern:
        match pattern:
            case ast.EventPattern():
                return self.formulas.occurrence(self.atom(pattern, within), pattern)
            case ast.Within(inner, duration, _):
                return self.pattern(inner, policy, duration if within is None else min(within, duration), outside)
            case ast.Policy(inner, choice, _):
                return self.pattern(inner, choice, within, outside)
            case ast.Where(inner, conditions, span):
                lowered = tuple(self.known.condition(condition, outside) for condition in conditions)
                body = self.pattern(inner, policy, within, outside)
                selection = self.fluents.given(body, lowered, within, span)
                self.flawed = self.flawed or selection is None
                return SelectPattern(body, lowered, within, span) if selection is None else selection
            case Times():
                return self.times(pattern, policy, within, outside)
        parts = [self.pattern(part, policy, within, outside) for part in pattern.parts()]
        if isinstance(pattern, ast.Binary) and pattern.operator == "CNOT":
            return self.cnot(parts[0], parts[1], pattern.span)
        return pattern.lowered(parts, policy, within)

    def cnot(self, left: Pattern, absent: Pattern, span: Span) -> Pattern:
        if isinstance(left, Pair) and left.relation == "SEQ" and left.absent is None:
            return replace(left, absent=absent, span=span)
        self.error(
            "CNOT can stand only after a SEQ: it excludes an event between the two",
            left.span,
            "e.g. `(a(X) SEQ b(X)) CNOT c(X)`, the same as `NOT(c(X)).[a(X), b(X)]`",
            "cnot",
        )
        return left

    def times(self, times: Times, policy: PolicyChoice, within: int | None, outside: Mapping[str, int]) -> Pattern:
        if times.count > MOST_TIMES:
            self.error(
                f"TIMES must be at most {MOST_TIMES}",
                times.span,
                f"count them: `... AGGREGATE N = count() OVER LAST {times.count} EVENTS WHERE N = {times.count}`",
                "times",
            )
            return self.pattern(times.pattern, policy, within, outside)
        inside = Counter(times.pattern.variables())
        local = {name for name, count in inside.items() if outside.get(name, 0) <= count}
        first = self.pattern(times.pattern, policy, within, outside)
        if times.count * size(first) > MOST_REPEATED:
            self.error(
                f"this TIMES makes a pattern of more than {MOST_REPEATED:,} events",
                times.span,
                "derive the repeated part as an event in a rule of its own",
                "times",
            )
            return first
        # An inner TIMES may have created names, which are local, too.
        local |= {name for name in names_in(first) if "'" in name}
        links = [first]
        for _ in range(times.count - 1):
            self.fresh += 1
            names = {name: f"{name}'{self.fresh}" for name in local}
            links.append(first.renamed(names))
        chain = links[0]
        for link in links[1:]:
            chain = Pair("SEQ", chain, link, policy, within, None, times.span)
        return Repeat(tuple(links), chain, within, times.span)

    def atom(self, atom: ast.EventPattern, within: int | None) -> Atom:
        schema = self.schemas.get(atom.name)
        arguments: tuple[Expression, ...] = atom.arguments
        if schema is None:
            self.flawed = True  # unknown names were reported before
            return Atom(atom.name, (), within, atom.span)
        fluent = atom.name in self.fluents.declared
        if not fluent and (atom.value is not None or atom.edge is not None):
            self.error(
                f"`{atom.name}` is an event, but only a fluent has a value, a beginning and an end",
                atom.span,
                f"`fluent {atom.name}(..).` declares one" if atom.edge else "ask for the value in a WHERE",
            )
            return Atom(atom.name, (), within, atom.span)
        if fluent:
            own = len(atom.arguments) if atom.names is None else len(self.fluents.declared[atom.name].attributes)
            before = len(self.fluents.errors)
            self.fluents.fits(atom.name, own, atom.value, atom.span)
            if len(self.fluents.errors) > before:
                self.flawed = True
                return Atom(atom.name, (), within, atom.span)
            value = () if atom.value is None else (atom.value,)
            arguments = (*arguments, *value)
        if atom.names is not None:
            positions = {a.name: i for i, a in enumerate(schema.attributes)}
            bound_names: set[str] = set()
            placed: list[Expression] = [Variable("_", atom.span) for _ in schema.attributes]
            for name, argument in zip(atom.names, atom.arguments, strict=True):
                if name not in positions:
                    hint = did_you_mean(name, positions) or _attributes(schema)
                    self.error(f"event `{atom.name}` has no attribute `{name}`", argument.span, hint)
                elif name in bound_names:
                    self.error(f"attribute `{name}` is written twice", argument.span)
                else:
                    placed[positions[name]] = argument
                bound_names.add(name)
            arguments = (*placed[: len(placed) - len(value)], *value) if fluent else tuple(placed)
        elif len(arguments) != len(schema.attributes):
            self.error(
                f"event `{atom.name}` has {argument_count(len(schema.attributes))}, but {len(arguments)} here",
                atom.span,
                _attributes(schema) if schema.attributes else f"an event without attributes is written `{atom.name}`",
                "arity",
            )
            return Atom(atom.name, (), within, atom.span)
        plain: list[Variable | Constant] = []
        for argument in arguments:
            if isinstance(argument, Call):
                hint = f"use a variable here, and put the arithmetic in a WHERE: `{atom.name}(X) WHERE X = ...`"
                if (edge := _EDGES.get(atom.name)) is not None and argument.function in self.fluents.declared:
                    hint = f"for the beginning or end of a fluent, write `{edge} OF {argument.function}(...)`"
                message = "an event pattern can contain only variables and constants"
                self.error(message, argument.span, hint, "pattern")
                argument = Variable("_", argument.span)
            plain.append(argument)
        lowered = Atom(atom.name, tuple(plain), within, atom.span)
        return self.fluents.atom(atom, lowered) if fluent else lowered

    def inhibitions(self, alerts: Mapping[str, Alerting], rules: list[Rule]) -> list[Alert]:
        """Add to each alert the alert that its INHIBITED BY clause names, and return all alerts.

        The result includes hidden alerts on fluents. Their rules are appended to `rules`.
        """
        by_name = {name: alerting.alert for name, alerting in alerts.items()}
        written = [statement for statement in self.program.statements if isinstance(statement, ast.AlertStatement)]
        by: dict[str, str] = {}
        for statement in written:
            pattern = statement.inhibitor
            if pattern is None or statement.name not in alerts:
                continue
            watched = self.inhibitor(statement, pattern, alerts, frozenset(alert.name for alert in written))
            if watched is None:
                continue
            if watched.alert.hidden:
                rules += watched.rules
                by_name[watched.alert.name] = watched.alert
            else:
                by[statement.name] = pattern.name
                circle = [statement.name]
                while circle[-1] in by and by[circle[-1]] not in circle:
                    circle.append(by[circle[-1]])
                if by.get(circle[-1]) == statement.name:
                    names = ", ".join(f"`{name}`" for name in (*circle, statement.name))
                    self.error(f"alerts inhibit each other in a circle: {names}", pattern.span, "remove one of them")
                    continue
            by_name[statement.name], errors = inhibited(statement, alerts[statement.name], watched, self.source)
            self.errors += errors
        return list(by_name.values())

    def inhibitor(
        self,
        statement: ast.AlertStatement,
        pattern: ast.EventPattern,
        alerts: Mapping[str, Alerting],
        written: frozenset[str],
    ) -> Alerting | None:
        """Return the alert that the INHIBITED BY clause of `statement` names, or None after a mistake. If `pattern`
        names a fluent, the result is a hidden alert."""
        name = pattern.name
        alert, fluent = name in written, name in self.fluents.declared
        if alert and fluent:
            self.error(
                f"`{name}` is an alert and a fluent", pattern.span, "rename one of them, because either could be meant"
            )
        elif alert and (pattern.value is not None or pattern.edge is not None):
            self.error(
                "an alert has no value to compare", pattern.span, f"leave out the value: `INHIBITED BY {name}(..)`"
            )
        elif alert:
            return alerts.get(name)  # None if its own statement has mistakes
        elif fluent and pattern.edge is None:
            watched = self.alert(watching(statement), {})
            return None if watched is None else since_ever(replace(watched, alert=replace(watched.alert, hidden=True)))
        else:
            hint = (
                did_you_mean(name, [*written, *self.fluents.declared])
                or "only an alert or a fluent can inhibit an alert"
            )
            self.error(f"there is no alert or fluent `{name}`", pattern.span, hint)
        return None

    def alert(self, statement: ast.AlertStatement, known: Collection[str]) -> Alerting | None:
        self.flawed = False
        event = statement.event.name
        if statement.name in known:
            self.error(f"alert `{statement.name}` is declared twice", statement.name_span, "rename one of them")
        if event not in self.schemas:
            hint = did_you_mean(event, self.schemas) or "an alert needs an event that is declared or derived"
            self.error(f"there is no event `{event}`", statement.event.span, hint)
            return None
        fluent = event in self.fluents.declared and statement.event.edge is None
        event_pattern = replace(statement.event, edge="BEGIN") if fluent else statement.event
        atom = self.atom(event_pattern, None)
        uses = Counter([*statement.event.variables(), *alert_variables(statement)])
        conditions = tuple(self.known.condition(condition, uses) for condition in statement.conditions)
        assert isinstance(atom, Atom), "an event was written"
        if self.flawed:
            return None
        making = on_fluent if fluent else alerting
        lowered, errors = making(statement, atom, conditions, self.schemas[event], self.source)
        self.errors += errors
        self.schemas |= {schema.name: schema for schema in (lowered.schema, lowered.ends) if schema is not None}
        return None if errors else lowered


def _attributes(schema: Schema) -> str:
    inner = ", ".join(a.name if a.type in ("any", "unknown") else f"{a.name}: {a.type}" for a in schema.attributes)
    return f"it is `{schema.name}({inner})`"


def _counted(rule: ast.EventRule) -> Counter[str]:
    return Counter(fluent_variables(rule.arguments, None) + rule.body.variables())
