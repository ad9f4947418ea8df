"""Defined fluents, lowered: `head WHILE formula` to rules over tables of changes (`cep.core.fluents`).

A formula keeps of its variables those that something around it needs: `ONCE p(X, Y)` for an X alone holds whatever Y
is, and is kept for X alone. Below what asks of one value throughout (HISTORICALLY, LASTING, AGGREGATE) all are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from cep.core.errors import Span
from cep.core.fluents import FOREVER, GIVEN
from cep.core.interval_sets import reach
from cep.core.literals import say_duration, write_duration
from cep.core.suggest import did_you_mean
from cep.language.asking import Asking
from cep.language.fluents import Fluents, edges, told
from cep.language.syntax import ast
from cep.operators.conjunction import Together
from cep.operators.either import Either
from cep.operators.event import Atom
from cep.operators.grouped import Grouped
from cep.operators.holding import KIND
from cep.operators.supported import Defined, Happening, Onto
from cep.operators.temporal import Temporal
from cep.operators.where import Given
from cep.plan.algebra import Rule
from cep.plan.order import components
from cep.plan.pattern import Pattern, events, variables
from cep.rules.formulas import (
    FUTURE,
    Aggregated,
    Alternatives,
    Conjunction,
    Formula,
    Lasting,
    Plain,
    Restricted,
    Timed,
    Within,
    formula_variables,
    parts,
    plain,
)
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Constant,
    Expression,
    Predicate,
    Variable,
    condition_variables,
    each_condition,
    expression_variables,
)

Names = frozenset[str]
_IN_ORDER = ("first", "last", "mode", "slope", "rate", "ewma")
_HEADS = {"ALWAYS": "ONCE", "HISTORICALLY": "EVENTUALLY"}
"""What a head's operator makes of its formula: `ALWAYS[a, b] p WHILE q` is `p WHILE ONCE[a, b] q`."""


class Formulas:
    """The WHILE rules of a program. `atom` lowers an event pattern and reports its mistakes."""

    def __init__(
        self,
        program: ast.SyntaxTree,
        fluents: Fluents,
        asking: Asking,
        atom: Callable[[ast.EventPattern, int | None], Atom],
    ) -> None:
        self.fluents, self.asking, self.atom = fluents, asking, atom
        self.rules: dict[str, list[ast.WhileRule]] = {}
        for statement in program.statements:
            if isinstance(statement, ast.WhileRule) and statement.name in fluents.declared:
                self.rules.setdefault(statement.name, []).append(statement)
        self.numbers = {id(each): n for rules in self.rules.values() for n, each in enumerate(rules)}
        self.lates: dict[str, int] = {}
        self.fresh = 0
        self.recursive = self._recursive()
        self.whole_of: dict[str, None] = {}
        fluents.late = self
        for name in self.rules:
            late = 0 if self.late(name) >= FOREVER else self.late(name)
            for table in (name, told(name), edges(name)):
                schema = fluents.schemas[table]
                assert schema.fluent is not None, "it is a fluent's"
                fluents.schemas[table] = replace(schema, fluent=replace(schema.fluent, late=late))

    def error(self, message: str, span: Span, hint: str | None = None, code: str = "fluent") -> None:
        self.fluents.error(message, span, hint, code)

    def _recursive(self) -> set[str]:
        """The fluents that formulas define by themselves, each refused."""
        found: set[str] = set()

        def needs(name: object) -> list[str]:
            rules = self.rules.get(str(name), [])
            return [each.name for rule in rules for each in plain(rule.formula) if each.name in self.rules]

        for component in components(list(self.rules), needs):
            if len(component) > 1 or str(component[0]) in needs(component[0]):
                found |= set(map(str, component))
                self.cycle(self.rules[str(component[0])][0])
        return found

    def cycle(self, rule: ast.WhileRule) -> None:
        """Refuse a fluent that is defined by itself."""
        self.error(
            f"`{rule.name}` is defined by itself, and recursion among formulas does not run yet",
            rule.head_span,
            "events begin and end a fluent by what held just before: `initiate f(X) <- e(X) WHERE g(X).`",
            "recursion",
        )

    def cyclic(self, rules: Sequence[Rule]) -> None:
        """Refuse formulas on a cycle through event rules."""
        needs: dict[str, list[str]] = {}
        for rule in rules:
            needs.setdefault(rule.event, []).extend(events(rule.body))
        for component in components(list(needs), lambda event: needs.get(str(event), [])):
            for name, own in self.rules.items():
                if len(component) > 1 and told(name) in component:
                    self.cycle(own[0])
                    return

    # --- rules ---

    def rule(self, statement: ast.WhileRule, number: int | None = None) -> Rule | None:
        """What a statement says, as a rule of this number among those of its fluent; None: something is wrong."""
        if statement.name in self.recursive:
            return None
        before = len(self.fluents.errors)
        heads: tuple[Expression, ...] = (*statement.arguments, *([] if statement.value is None else [statement.value]))
        wanted: dict[str, None] = {}
        for each in heads:
            if isinstance(each, Call):
                self.error("a head holds variables and constants", each.span, "a variable here, and `WHERE X = ..`")
            elif isinstance(each, Variable):
                if each.name == "_":
                    self.error("`_` has no value in a head", each.span, "a variable of the formula, or a constant")
                wanted[each.name] = None
        formula = self.resolved(statement.formula)
        if len(self.fluents.errors) > before or formula is None:
            return None
        keep = frozenset(wanted)
        bound = self.bound(formula)
        for box in reversed(statement.boxes):
            formula = Timed(_HEADS[box.operator], (formula,), box.within, statement.span)
        body = self.lowered(formula, keep, keep)
        if len(self.fluents.errors) == before:
            for each in heads:
                if isinstance(each, Variable) and each.name not in bound:
                    self.unbound(each, formula)
        if len(self.fluents.errors) > before:
            return None
        late = self.late(statement.name)
        delay = 0 if number is not None or late >= FOREVER else late
        if variables(body) != keep | {KIND} or delay:
            body = Onto(body, tuple(sorted(keep)), self.late_of(formula), delay, None, statement.span)
        place = Constant(self.numbers[id(statement)] if number is None else number, "int")
        arguments: tuple[Expression, ...] = (*heads, Variable(KIND), place)
        return Rule(told(statement.name), arguments, body, None, statement.span, statement.head_span)

    def extents(self) -> list[Rule]:
        """The rules that make of what is said of each fluent when it begins and ends, and of that its intervals."""
        made = []
        for name in self.rules:
            span = self.fluents.declared[name].span
            names = tuple(f"{each.name}'" for each in self.fluents.schemas[told(name)].attributes)
            own = tuple(map(Variable, names[:-1]))
            body = Defined(told(name), names, self.late(name), None, span)
            made.append(Rule(edges(name), own, body, None, span, span))
            atom = Atom(edges(name), (*own[:-1], Constant(GIVEN, "int")), None, span)
            made.append(Rule(name, own[:-1], atom, None, span, span))
        return [*made, *(each for name in self.whole_of for each in self.asked_by_lasting(name))]

    def asked_by_lasting(self, name: str) -> list[Rule]:
        """What the LASTING of a fluent asks, as a fluent of its own that nothing gives out."""
        own, rule = _inner(name), self.rules[name][0]
        for of in (told, edges):
            schema = self.fluents.schemas[of(name)]
            assert schema.fluent is not None, "it is a fluent's"
            self.fluents.schemas[of(own)] = replace(
                schema, name=of(own), fluent=replace(schema.fluent, name=own, late=0)
            )
        assert isinstance(rule.formula, Lasting), "that is seen before"
        made = self.rule(replace(rule, name=own, formula=rule.formula.formula), 0)
        names = tuple(f"{each.name}'" for each in self.fluents.schemas[told(own)].attributes)
        body = Defined(told(own), names, 0, None, rule.span)
        extent = Rule(edges(own), tuple(map(Variable, names[:-1])), body, None, rule.span, rule.span)
        return [] if made is None else [made, extent]

    # --- how late things are known ---

    def late(self, name: str) -> int:
        """How late a fluent is given, in microseconds."""
        if name not in self.lates:
            self.lates[name] = 0  # on a cycle, which is refused
            found = [0]
            for rule in self.rules.get(name, ()):
                ahead = [_high(box.within) for box in rule.boxes if box.operator == "HISTORICALLY"]
                found.append(min(FOREVER, self.late_of(rule.formula) + sum(ahead)))
            self.lates[name] = max(found)
        return self.lates[name]

    def late_of(self, formula: Formula) -> int:
        """The same of a formula."""
        if isinstance(formula, Plain):
            return self.late(formula.name) if formula.name in self.fluents.declared else formula.within or 0
        inner = max(self.late_of(part) for part in parts(formula))
        match formula:
            case Timed("UNTIL", (left, right), within) if self.bound(left) != self.bound(right):
                return min(FOREVER, inner + 2 * _high(within))  # `ever` looks ahead, too
            case Timed(operator, _, within) if operator in FUTURE:
                return min(FOREVER, inner + _high(within))
            case Lasting(_, least, strictly):
                return inner + least + strictly
            case _:
                return inner

    def refuse(self, name: str, span: Span) -> None:
        """Refuse an event rule that asks a fluent which is decided late."""
        if name in self.recursive or not self.late(name):
            return
        hint = "what looks back is known in time"
        for each in self.everything(name):
            if isinstance(each, Timed) and each.operator in FUTURE:
                hint = f"`{each.operator}` looks ahead; `{FUTURE[each.operator]}` looks back as far"
            elif isinstance(each, Lasting):
                hint = (
                    f"LASTING is known at the end alone; `HISTORICALLY[0, {write_duration(each.least)}] p` holds "
                    "when p has held so long"
                )
            elif isinstance(each, Plain) and each.within:
                hint = f"`{each.name}` is known when it ends: `BEGIN OF` a fluent, or an event of its beginning"
        after = "at the end of the input" if self.late(name) >= FOREVER else f"{say_duration(self.late(name))} later"
        self.error(f"whether `{name}` holds is known {after} only, and events do not wait for it", span, hint, "late")

    def everything(self, name: str) -> Iterator[Formula]:
        """All formulas of the rules of a fluent, and of the fluents that they speak of."""
        stack: list[Formula] = []
        for rule in self.rules.get(name, ()):
            stack.append(rule.formula)
            stack += [Timed("EVENTUALLY", (), box.within) for box in rule.boxes if box.operator == "HISTORICALLY"]
        while stack:
            each = stack.pop()
            yield each
            if isinstance(each, Plain):
                stack += [rule.formula for rule in self.rules.get(each.name, ())]
            stack += parts(each)

    def whole(self, name: str) -> bool:
        """Whether a fluent's maximal intervals are known when they end: it is not late, or a LASTING over what is not
        and whose variables are all in the head. Then its occurrences are those of what it asks, the long ones."""
        if name in self.recursive or not self.late(name):
            return not self.late(name)
        rules = self.rules[name]
        if len(rules) != 1 or rules[0].boxes or not isinstance(rules[0].formula, Lasting):
            return False
        rule, inner = rules[0], rules[0].formula
        heads = [*rule.arguments, *([] if rule.value is None else [rule.value])]
        names = {each.name for each in heads if isinstance(each, Variable)}
        return not self.late_of(inner.formula) and "_" not in self.bound(inner) and names == self.bound(inner)

    def occurrence(self, atom: Atom, written: ast.EventPattern) -> Pattern:
        """A fluent in an event pattern as it is lowered: of a LASTING what it asks, where that lasts long enough."""
        name = written.name
        if name not in self.rules or name in self.recursive or not self.late(name):
            return atom
        if written.edge is not None or not self.whole(name):
            self.refuse(name, written.span)
            return atom
        lasting = self.rules[name][0].formula
        assert isinstance(lasting, Lasting), "that is seen before"
        self.whole_of[name] = None
        long = Comparison(">=", Call("duration", ()), Constant(lasting.least + lasting.strictly, "duration"))
        return Given(replace(atom, event=edges(_inner(name))), (long,), atom.within, atom.span)

    # --- names ---

    def resolved(self, formula: Formula) -> Formula | None:
        """The formula with all arguments in order, `_` a variable of its own each time; None: something is wrong."""
        match formula:
            case Plain():
                return self.named(formula)
            case Conjunction() | Alternatives() | Timed():
                found = [self.resolved(part) for part in formula.parts]
                made = tuple(each for each in found if each is not None)
                return replace(formula, parts=made) if len(made) == len(found) else None
            case _:
                inner = self.resolved(formula.formula)
                return None if inner is None else replace(formula, formula=inner)

    def named(self, formula: Plain) -> Plain | None:
        before = len(self.fluents.errors)
        fluent = formula.name in self.fluents.declared
        if fluent and formula.within is not None:
            self.error(
                f"`{formula.name}` is a fluent, and WITHIN bounds an event",
                formula.span,
                "how long it holds is said by LASTING: `moving(V) LASTING >= 10 min`",
            )
            return None
        written = ast.EventPattern(formula.name, formula.arguments, formula.names, formula.span, formula.value)
        atom = self.atom(written, None)
        schema = self.fluents.schemas.get(formula.name)
        if len(self.fluents.errors) > before or schema is None or not self.right(atom, fluent):
            return None
        arguments: list[Expression] = []
        for each in atom.arguments[:-1] if fluent else atom.arguments:
            if isinstance(each, Variable) and each.name == "_":
                self.fresh += 1
                each = Variable(f"_'{self.fresh}", each.span)
            arguments.append(each)
        return Plain(formula.name, tuple(arguments), None, None, formula.within, formula.span)

    def right(self, atom: Atom, fluent: bool) -> bool:
        """Whether an event pattern was lowered: with its mistakes it has no arguments."""
        schema = self.fluents.schemas[atom.event]
        return len(atom.arguments) == len(schema.attributes)

    def bound(self, formula: Formula) -> Names:
        """The variables that a formula has values for."""
        match formula:
            case Plain(_, arguments):
                return frozenset(each.name for each in arguments if isinstance(each, Variable))
            case Conjunction(inner, negated):
                return frozenset().union(*(self.bound(p) for p, no in zip(inner, negated, strict=True) if not no))
            case Alternatives(inner):
                return frozenset.intersection(*map(self.bound, inner))
            case Timed(_, inner):
                return self.bound(inner[-1])
            case Lasting(inner):
                return self.bound(inner)
            case Restricted(inner, conditions):
                return self.bound(inner) | _asked(conditions)
            case Aggregated(_, results, by):
                return frozenset((*(v.name for v in by), *(r.variable for r in results)))

    def unbound(self, variable: Variable, formula: Formula) -> None:
        """Refuse a variable of the head that nothing binds."""
        name = variable.name
        if name in formula_variables(formula):
            self.error(
                f"`{name}` of the head has no value: it occurs only under NOT, in one side of an OR, or in "
                "what is aggregated",
                variable.span,
                "a fluent that holds of it: `.. AND p(X)`",
                "unsafe",
            )
        else:
            self.error(
                f"`{name}` of the head is not bound by the formula",
                variable.span,
                "name it in the formula, or bind it: `WHERE X = ..`",
                "unsafe",
            )

    # --- formulas ---

    def lowered(self, formula: Formula, keep: Names, outside: Names) -> Pattern:
        """The formula as a pattern that binds of its variables those to `keep`. `outside`: the names used around it."""
        match formula:
            case Plain():
                return self.plain(formula, keep)
            case Conjunction():
                return self.conjunction(formula, keep, outside)
            case Alternatives():
                return self.alternatives(formula, keep, outside)
            case Timed():
                return self.timed(formula, keep, outside)
            case Lasting(inner, least, strictly, span):
                body = self.lowered(inner, self.bound(inner), outside)
                made = Temporal("LASTING", body, None, None, least + strictly, (self.late_of(inner),), None, span)
                return self.onto(made, keep, formula)
            case Restricted():
                return self.restricted(formula, keep, outside)
            case Aggregated():
                return self.aggregated(formula, keep, outside)

    def onto(self, pattern: Pattern, keep: Names, formula: Formula) -> Pattern:
        """The pattern with these variables alone."""
        mine = variables(pattern) - {KIND}
        if mine <= keep:
            return pattern
        return Onto(pattern, tuple(sorted(mine & keep)), self.late_of(formula), 0, None, formula.span)

    def plain(self, formula: Plain, keep: Names) -> Pattern:
        arguments = formula.arguments
        values = tuple(each for each in arguments if isinstance(each, Variable | Constant))
        if formula.name not in self.fluents.declared:
            atom = Atom(formula.name, values, None, formula.span)
            names = tuple(sorted(self.bound(formula) & keep))
            return Happening(atom, names, formula.within, None, formula.span)
        atom = Atom(edges(formula.name), (*values, Variable(KIND, formula.span)), None, formula.span)
        return self.onto(atom, keep, formula)

    def conjunction(self, formula: Conjunction, keep: Names, outside: Names) -> Pattern:
        positive = [part for part, no in zip(formula.parts, formula.negated, strict=True) if not no]
        absent = [part for part, no in zip(formula.parts, formula.negated, strict=True) if no]
        bound = [self.bound(part) for part in positive]
        every = self.bound(formula)
        speaks = [frozenset(formula_variables(part)) for part in absent]
        for part, names in zip(absent, speaks, strict=True):
            self.safe(part, names - every, outside)
        asked = keep.union(*speaks)
        made: Pattern | None = None
        late, done = 0, frozenset[str]()
        rest = list(range(len(positive)))
        while rest:
            following = next((n for n in rest if made is not None and bound[n] & done), rest[0])
            rest.remove(following)
            others = asked.union(*(bound[n] for n in range(len(positive)) if n != following))
            right = self.lowered(positive[following], bound[following] & others, outside | others)
            its = self.late_of(positive[following])
            made = right if made is None else Together(made, right, False, (late, its), None, formula.span)
            late, done = max(late, its), done | bound[following]
        assert made is not None, "the first part is not negated"
        for part in absent:
            right = self.lowered(part, self.bound(part) & every, outside | every)
            its = self.late_of(part)
            made = Together(made, right, True, (late, its), None, formula.span)
            late = max(late, its)
        return self.onto(made, keep, formula)

    def safe(self, absent: Formula, loose: Names, outside: Names) -> None:
        """Refuse variables of what is absent that something around the conjunction speaks of, and it does not bind."""
        for name in sorted(loose & outside):
            self.error(
                f"`{name}` has no value: in these ANDs it occurs under NOT alone",
                absent.span,
                f"`{name}` in what holds: `p({name}) AND NOT q({name})`; parentheses close a chain of ANDs",
                "unsafe",
            )

    def alternatives(self, formula: Alternatives, keep: Names, outside: Names) -> Pattern:
        mine = [frozenset(name for name in self.bound(part) if "'" not in name) for part in formula.parts]
        every = frozenset[str]().union(*mine)
        for part, names in zip(formula.parts, mine, strict=True):
            if names != every:
                missing = ", ".join(f"`{name}`" for name in sorted(every - names))
                self.error(
                    f"both sides of an OR bind the same variables: this one lacks {missing}",
                    part.span,
                    "`_` for what only one side has, or two rules of the same fluent",
                    "unsafe",
                )
        own = every & keep
        found = [self.lowered(part, own, outside) for part in formula.parts]
        lates = [self.late_of(part) for part in formula.parts]
        made = found[0]
        for right in found[1:]:
            made = Either(made, right, None, formula.span)
        return Onto(made, tuple(sorted(own)), max(lates), 0, None, formula.span)

    def timed(self, formula: Timed, keep: Names, outside: Names) -> Pattern:
        operator, within, span = formula.operator, formula.within, formula.span
        by = reach(within.low, within.high, within.bounds)
        right = formula.parts[-1]
        its = self.late_of(right)
        if len(formula.parts) == 1:
            own = self.bound(right)
            own = own & keep if operator in ("ONCE", "EVENTUALLY") else own
            body = self.lowered(right, own, outside)
            return self.onto(Temporal(operator, body, None, by, 0, (its,), None, span), keep, formula)
        left = formula.parts[0]
        mine, theirs = self.bound(left), self.bound(right)
        for name in sorted(mine - theirs):
            shown = "_" if "'" in name else name
            self.error(
                f"`{shown}` of the left of {operator} does not occur on its right",
                left.span,
                f"all variables of the left occur on the right; `p(X, _)` is a fluent of its own: `some(X) WHILE "
                f"p(X, _).`, and `some(X) {operator} q(X)`",
                "unsafe",
            )
        if mine - theirs:
            return self.lowered(right, keep, outside)
        body = self.lowered(right, theirs & (keep | mine), outside | mine)
        held = self.lowered(left, mine, outside | theirs)
        if variables(held) != variables(body):
            # the left is asked of each tuple of the right, of all that ever hold there
            ever = self.ever(right, theirs & (keep | mine), outside | mine, operator, within)
            late = max(self.late_of(left), self.late_of(ever[1]))
            held = Together(held, ever[0], False, (self.late_of(left), self.late_of(ever[1])), None, left.span)
            if variables(held) != variables(body):
                held = Onto(held, tuple(sorted(variables(body) - {KIND})), late, 0, None, left.span)
        else:
            late = self.late_of(left)
        return self.onto(Temporal(operator, held, body, by, 0, (late, its), None, span), keep, formula)

    def ever(
        self, right: Formula, keep: Names, outside: Names, operator: str, within: Within
    ) -> tuple[Pattern, Formula]:
        """While a tuple of the right of SINCE or UNTIL may matter to its left."""
        again = Timed("EVENTUALLY" if operator == "UNTIL" else "ONCE", (right,), Within(0, within.high, _whole(within)))
        again = replace(again, span=right.span)
        return self.lowered(again, keep, outside), again

    def aggregated(self, formula: Aggregated, keep: Names, outside: Names) -> Pattern:
        inner = self.bound(formula.formula)
        known = sorted(name for name in inner if "'" not in name)
        for result in formula.results:
            if result.function in _IN_ORDER:
                self.error(
                    f"`{result.function}` goes by the order of time, and what holds at one time has none",
                    result.span,
                    "`count`, `sum`, `avg`, `min`, `max`, `stddev`, `median` or `percentile`",
                )
            if result.variable in inner or [each.variable for each in formula.results].count(result.variable) > 1:
                self.error(f"`{result.variable}` has a value already", result.span, "a new variable for each result")
            for name in [] if result.argument is None else expression_variables(result.argument):
                if name not in inner:
                    self.error(
                        f"`{name}` is not bound by the aggregated formula",
                        result.span,
                        did_you_mean(name, known) or f"it binds {', '.join(known) or 'nothing'}",
                        "unsafe",
                    )
        for each in formula.by:
            if each.name not in inner:
                self.error(
                    f"`{each.name}` is not bound by the aggregated formula",
                    each.span,
                    did_you_mean(each.name, known) or f"it binds {', '.join(known) or 'nothing'}",
                    "unsafe",
                )
        body = self.lowered(formula.formula, inner, outside | inner)
        late = self.late_of(formula.formula)
        return self.onto(Grouped(body, formula.results, formula.by, late, None, formula.span), keep, formula)

    def restricted(self, formula: Restricted, keep: Names, outside: Names) -> Pattern:
        asked = _asked(formula.conditions)
        uses = dict.fromkeys(asked, 2)
        conditions = tuple(self.asking.condition(each, uses) for each in formula.conditions)
        for each in conditions:
            self.fluents.elsewhere(each)
            if any(_times(side) for one in each_condition([each]) for side in _sides(one)):
                self.error(
                    "a formula has no start and no end: it holds at single times",
                    each.span,
                    "how long it holds is said by LASTING, how long ago by ONCE",
                )
        inner = formula.formula
        body = self.lowered(inner, self.bound(inner) & (keep | asked), outside | asked)
        return self.onto(Given(body, conditions, None, formula.span), keep, formula)


def _asked(conditions: Sequence[Condition]) -> Names:
    return frozenset(name for each in conditions for name in condition_variables(each) if name != "_")


def _sides(condition: Comparison | Predicate) -> Sequence[Expression]:
    return condition.arguments if isinstance(condition, Predicate) else (condition.left, condition.right)


def _times(expression: Expression) -> bool:
    if not isinstance(expression, Call):
        return False
    if expression.function in ("start", "end", "duration") and not expression.arguments:
        return True
    return any(map(_times, expression.arguments))


def _inner(name: str) -> str:
    """The fluent that the LASTING of another asks."""
    return f"what lasts in {name}"


def _high(within: Within) -> int:
    return FOREVER if within.high is None else within.high


def _whole(within: Within) -> str:
    """The bounds of `[0, high]` that reach as far."""
    return "[" + within.bounds[1]
