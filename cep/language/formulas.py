"""Lowering of defined fluents. `head WHILE formula` becomes rules over tables of changes (see `cep.core.fluents`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from cep.core.components import components
from cep.core.errors import Span
from cep.core.fluents import FOREVER, GIVEN, LASTS
from cep.core.suggest import did_you_mean
from cep.language.fluents import Fluents, transitions
from cep.language.formula_lowering import FormulaLowering
from cep.language.knowledge_patterns import KnowledgePatterns
from cep.language.lateness import Lateness, whole
from cep.language.recorded_fluents import edges
from cep.language.syntax import ast
from cep.operators.event import Atom
from cep.operators.holding import KIND
from cep.operators.supports import ExtentPattern, FormulaAtom, ProjectionPattern, formula_atoms
from cep.operators.temporal import ahead_of_heads
from cep.operators.where import SelectPattern
from cep.plan.algebra import Rule
from cep.plan.formula import Formula, asked_now, formula_variables, formulas
from cep.plan.pattern import DelayedPattern, Pattern, variables
from cep.rules.terms import (
    Call,
    Comparison,
    Constant,
    Expression,
    Variable,
)


class Formulas:
    """The WHILE rules of a program. `atom`: a function that lowers an event pattern and reports the mistakes in it."""

    def __init__(
        self,
        program: ast.SyntaxTree,
        fluents: Fluents,
        known: KnowledgePatterns,
        atom: Callable[[ast.EventPattern, int | None], Atom],
    ) -> None:
        self.fluents, self.atom, self.error = fluents, atom, fluents.error
        self.rules: dict[str, list[ast.WhileRule]] = {}
        for statement in program.statements:
            if isinstance(statement, ast.WhileRule) and statement.name in fluents.declared:
                self.rules.setdefault(statement.name, []).append(statement)
        self.numbers = {id(rule): n for rules in self.rules.values() for n, rule in enumerate(rules)}
        self.made = {statement.name for statement in program.statements if isinstance(statement, ast.EventRule)}
        self.fresh = 0
        self.whole_of: dict[str, None] = {}
        self.lateness = fluents.late = Lateness(self.rules, fluents.declared, fluents.error, program.answered)
        self.cycles: dict[str, frozenset[str]] = {}
        self.now: dict[str, frozenset[str]] = {}
        self.lagging: set[str] = set()
        self.recursive = self.lateness.recursive = self._recursive()
        self.lowering = FormulaLowering(fluents, known, self.lateness)
        for name in self.rules:
            late = 0 if self.lateness.late(name) >= FOREVER else self.lateness.late(name)
            for table in (name, transitions(name), edges(name)):
                schema = fluents.schemas[table]
                assert schema.fluent is not None, "it is a fluent's"
                fluents.schemas[table] = replace(schema, fluent=replace(schema.fluent, late=late))

    def _recursive(self) -> set[str]:
        """Check recursive fluents. Return the fluents whose recursion is not permitted.

        For each recursive fluent, `cycles` then contains the fluents of its cycle, and `now` contains the fluents that
        it uses without a delay. `lagging` contains the fluents whose cycle contains NOT or AGGREGATE.
        """
        refused: set[str] = set()

        def needs(name: object) -> list[str]:
            rules = self.rules.get(str(name), [])
            return [
                formula_atom.name
                for rule in rules
                for formula_atom in formula_atoms(rule.formula)
                if formula_atom.name in self.rules
            ]

        for component in components(list(self.rules), needs):
            if len(component) == 1 and str(component[0]) not in needs(component[0]):
                continue
            names = list(map(str, component))
            cycle = frozenset(names)
            before = len(self.fluents.errors)
            rules = [rule for name in names for rule in self.rules[name]]
            ahead = [reach for rule in rules for reach in self.looks_ahead(rule, cycle)]
            asked = [formula for rule in rules for formula in formulas(rule.formula)]
            whole = [part for formula in asked for part in formula.asks_whole() if _names(part[0]) & cycle]
            if ahead and not self.one_way(rules, cycle, ahead[0], whole):
                pass
            elif whole:
                self.lagging |= cycle
                self.at_once(names, cycle)
            else:
                self.now |= dict.fromkeys(cycle, cycle)
            self.cycles |= dict.fromkeys(cycle, cycle)
            if len(self.fluents.errors) > before:
                refused |= cycle
            else:
                self.lateness.of_cycle(cycle, bool(ahead))
        return refused

    def at_once(self, names: list[str], cycle: frozenset[str]) -> None:
        """Record which fluents of a cycle depend on each other without a delay. The cycle contains NOT or AGGREGATE.

        Report an error for a NOT or AGGREGATE whose operand depends on the operator's own current result.
        """

        def now(name: object) -> list[str]:
            rules = [_shifted(whole(rule), cycle) for rule in self.rules[str(name)]]
            asked = {n for rule in rules for formula in asked_now(rule) for n in _names(formula, True)}
            return [name for name in names if name in asked]

        for component in components(names, now):
            if len(component) == 1 and component[0] not in now(component[0]):
                continue
            inside = frozenset(map(str, component))
            self.now |= dict.fromkeys(inside, inside)
            for rule in (rule for name in map(str, component) for rule in self.rules[name]):
                for formula in asked_now(_shifted(whole(rule), cycle)):
                    for part, word, span in formula.asks_whole():
                        if _names(part, True) & inside:
                            known = next(name for name in names if name in _names(part, True) & inside)
                            self.error(
                                f"`{rule.name}` depends on itself, but {word} must know all of it at the same time",
                                span,
                                f"apply {word} to other fluents, or to its past: `ONCE[1 s, 1 s] {known}(..)`",
                                "recursion",
                            )

    def looks_ahead(self, rule: ast.WhileRule, cycle: frozenset[str]) -> Iterator[tuple[str, Span]]:
        """Yield the word and the span of each operator in a rule that looks ahead to a fluent of the cycle. Report
        operators that cannot be part of a cycle."""

        def through(formula: Formula) -> bool:
            return bool(_names(formula) & cycle)

        if not through(rule.formula):
            return
        for word, _ in ahead_of_heads(box.operator for box in rule.boxes):
            yield f"{word} in the head", rule.head_span
        for part in filter(through, formulas(rule.formula)):
            if (operator := part.ahead()) is not None:
                yield operator, part.span
            for message, span, hint in part.against_recursion(through):
                self.error(f"`{rule.name}` depends on itself, and {message}", span, hint, "recursion")

    def one_way(
        self,
        rules: Sequence[ast.WhileRule],
        cycle: frozenset[str],
        ahead: tuple[str, Span],
        asks_whole: Sequence[tuple[Formula, str, Span]],
    ) -> bool:
        """Return True if all operators of a cycle look ahead and none looks back. Otherwise report an error and return
        False.

        Also report an error for each operator, such as NOT, that needs the complete result of the cycle.

        - `ahead`: the word and the span of an operator that looks ahead.
        - `asks_whole`: the operators that need a complete result, each as its operand, word and span.
        """
        word, span = ahead
        name = rules[0].name
        for _, whole_word, place in asks_whole:
            self.error(
                f"`{name}` depends, through {word}, on its own future, so {whole_word} cannot be applied to it",
                place,
                f"apply {whole_word} to other fluents, or to its past: `ONCE[1 s, 1 s] {name}(..)`",
                "recursion",
            )
        for rule in rules:
            parts = [formula for formula in formulas(whole(rule)) if _names(formula) & cycle]
            if any(part.back() is not None for part in parts):
                self.error(
                    f"`{name}` depends on its own past and, through {word}, on its own future",
                    span,
                    "a cycle can look only back or only ahead; look the other way only at fluents that do not "
                    f"depend on `{name}`",
                    "recursion",
                )
                return False
        return not asks_whole

    # --- rules ---

    def rule(self, statement: ast.WhileRule, number: int | None = None) -> Rule | None:
        """Lower a statement to a rule. Return None after a mistake. `number`: the statement's position among the rules
        of its fluent."""
        if statement.name in self.recursive:
            return None
        before = len(self.fluents.errors)
        heads: tuple[Expression, ...] = (*statement.arguments, *([] if statement.value is None else [statement.value]))
        wanted: dict[str, None] = {}
        for head in heads:
            if isinstance(head, Call):
                self.error(
                    "a head can contain only variables and constants",
                    head.span,
                    "use a variable here, and `WHERE X = ...`",
                )
            elif isinstance(head, Variable):
                if head.name == "_":
                    self.error("`_` has no value in a head", head.span, "use a variable of the formula, or a constant")
                wanted[head.name] = None
        formula = self.resolved(statement.formula)
        if len(self.fluents.errors) > before or formula is None:
            return None
        keep = frozenset(wanted)
        formula = formula.spread()
        known = formula.bound()
        formula = whole(replace(statement, formula=formula))
        cycle, now = (mapping.get(statement.name, frozenset()) for mapping in (self.cycles, self.now))
        if lagging := statement.name in self.lagging:
            formula = _shifted(formula, cycle)
        body = self.lowering.of_rule(formula, keep, cycle, now, self.lateness.late(statement.name), lagging)
        if len(self.fluents.errors) == before:
            for head in heads:
                if isinstance(head, Variable) and head.name not in known:
                    self.unbound(head, formula)
        if len(self.fluents.errors) > before:
            return None
        late = self.lateness.late(statement.name)
        delay = 0 if number is not None or late >= FOREVER else late
        if isinstance(body, DelayedPattern) and variables(body) == keep | {KIND}:
            body = body.known_later(delay)
        elif variables(body) != keep | {KIND} or delay:
            body = ProjectionPattern(
                body, tuple(sorted(keep)), self.lowering.late_of(formula), delay, None, statement.span
            )
        place = Constant(self.numbers[id(statement)] if number is None else number, "int")
        arguments: tuple[Expression, ...] = (*heads, Variable(KIND), place)
        return Rule(transitions(statement.name), arguments, body, None, statement.span, statement.head_span)

    def extents(self) -> list[Rule]:
        """Return the two rules of each fluent. One computes the fluent's beginnings and ends from changes, and the
        other merges them into maximal intervals."""
        rules = []
        for name in self.rules:
            span = self.fluents.declared[name].span
            names = tuple(f"{attribute.name}'" for attribute in self.fluents.schemas[transitions(name)].attributes)
            own = tuple(map(Variable, names[:-1]))
            late = self.lateness.late(name)
            if name in self.cycles and late >= FOREVER:  # the inputs of the cycle have waited (`FormulaLowering.waits`)
                late = 0
            body = ExtentPattern(transitions(name), names, late, None, span)
            rules.append(Rule(edges(name), own, body, None, span, span))
            atom = Atom(edges(name), (*own[:-1], Constant(GIVEN, "int")), None, span)
            rules.append(Rule(name, own[:-1], atom, None, span, span))
        return [*rules, *(rule for name in self.whole_of for rule in self.long_of(name))]

    def long_of(self, name: str) -> list[Rule]:
        """Return the rules of an auxiliary fluent for a fluent that LASTING defines. The fluent `name` holds in those
        intervals of the auxiliary fluent that are long enough.

        The auxiliary fluent is not part of the output.
        """
        own, rule = _inner(name), self.rules[name][0]
        for of in (transitions, edges):
            schema = self.fluents.schemas[of(name)]
            assert schema.fluent is not None, "it is a fluent's"
            self.fluents.schemas[of(own)] = replace(
                schema, name=of(own), fluent=replace(schema.fluent, name=own, late=0)
            )
        long = rule.formula.long()
        assert long is not None, "that is seen before"
        lowered = self.rule(replace(rule, name=own, formula=long[0]), 0)
        names = tuple(f"{attribute.name}'" for attribute in self.fluents.schemas[transitions(own)].attributes)
        body = ExtentPattern(transitions(own), names, 0, None, rule.span)
        extent = Rule(edges(own), tuple(map(Variable, names[:-1])), body, None, rule.span, rule.span)
        return [] if lowered is None else [lowered, extent]

    def occurrence(self, atom: Atom, written: ast.EventPattern) -> Pattern:
        """Return the pattern for a fluent in an event pattern.

        If LASTING defines the fluent, the pattern reads the auxiliary fluent of `long_of` and selects its long
        intervals. These are known in time for event rules, but the intervals of the fluent itself are not.
        """
        name = written.name
        if name not in self.rules or name in self.recursive or self.lateness.in_time(name):
            return atom
        if written.edge is not None or not self.lateness.whole(name):
            self.lateness.refuse(name, written.span)
            return atom
        long = self.rules[name][0].formula.long()
        assert long is not None, "that is seen before"
        self.whole_of[name] = None
        lasts = Comparison(">=", Call("duration", ()), Constant(long[1], "duration"))
        return SelectPattern(replace(atom, event=edges(_inner(name))), (lasts,), atom.within, atom.span)

    # --- names ---

    def resolved(self, formula: Formula) -> Formula | None:
        """Replace the named arguments of a formula by positional ones, and each `_` by a fresh variable. Return None
        after a mistake."""
        if isinstance(formula, FormulaAtom):
            return self.named(formula)
        parts = [self.resolved(part) for part in formula.inside()]
        resolved = tuple(part for part in parts if part is not None)
        return formula.over(resolved) if len(resolved) == len(parts) else None

    def named(self, formula: FormulaAtom) -> FormulaAtom | None:
        before = len(self.fluents.errors)
        fluent = formula.name in self.fluents.declared
        if fluent and formula.within is not None:
            self.error(
                f"`{formula.name}` is a fluent, and WITHIN bounds an event",
                formula.span,
                "use LASTING for how long it holds: `moving(V) LASTING >= 10 min`",
            )
            return None
        written = ast.EventPattern(formula.name, formula.arguments, formula.names, formula.span, formula.value)
        atom = self.atom(written, None)
        schema = self.fluents.schemas.get(formula.name)
        if len(self.fluents.errors) > before or schema is None or not self.right(atom, fluent):
            return None
        if not fluent and not schema.declared and formula.name not in self.made and formula.within is None:
            self.unknown(formula)
            return None
        arguments: list[Expression] = []
        for argument in atom.arguments[:-1] if fluent else atom.arguments:
            if isinstance(argument, Variable) and argument.name == "_":
                self.fresh += 1
                argument = Variable(f"_'{self.fresh}", argument.span)
            arguments.append(argument)
        return FormulaAtom(formula.name, tuple(arguments), None, None, formula.within, formula.span)

    def unknown(self, formula: FormulaAtom) -> None:
        """Report a name that is neither a fluent nor an event."""
        declared = [name for name, schema in self.fluents.schemas.items() if schema.declared and schema.fluent is None]
        name = formula.name
        self.error(
            f"`{name}` is not declared: there is no fluent and no event of that name",
            formula.span,
            did_you_mean(name, [*self.fluents.declared, *declared, *self.made])
            or f"`fluent {name}(..).` declares one, `event {name}(..) TIME t.` an event of instants",
        )

    def right(self, atom: Atom, fluent: bool) -> bool:
        """Return True if a lowered event pattern has all arguments of its event. A pattern that has a mistake may lack
        some of them."""
        schema = self.fluents.schemas[atom.event]
        return len(atom.arguments) == len(schema.attributes)

    def unbound(self, variable: Variable, formula: Formula) -> None:
        """Report a head variable to which the formula gives no value."""
        name = variable.name
        if name in formula_variables(formula):
            self.error(
                f"`{name}` of the head has no value: it occurs only under NOT, in one side of an OR, or in "
                "what is aggregated",
                variable.span,
                "add a fluent that binds it: `.. AND p(X)`",
                "unsafe",
            )
        else:
            self.error(
                f"`{name}` of the head is not bound by the formula",
                variable.span,
                "name it in the formula, or bind it: `WHERE X = ...`",
                "unsafe",
            )


def _names(formula: Formula, now: bool = False) -> frozenset[str]:
    """Return the fluents and events that a formula uses. `now`: True to return only those that the formula uses without
    a delay."""
    parts = asked_now(formula) if now else formulas(formula)
    return frozenset(part.name for part in parts if isinstance(part, FormulaAtom))


def _shifted(formula: Formula, cycle: frozenset[str]) -> Formula:
    """Return an equivalent formula in which the fluents of `cycle` occur only inside operators that shift time (see
    `Formula.shifted`)."""
    inside = tuple(_shifted(part, cycle) for part in formula.inside())
    rebuilt = formula.over(inside) if inside else formula
    return rebuilt.shifted(lambda part: bool(_names(part) & cycle))


def _inner(name: str) -> str:
    return f"{LASTS}{name}"
