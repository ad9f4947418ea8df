"""Translation of LARS literals to formulas: literals over input and over derived predicates, in all kinds of
windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from cep.core.evaluation_ticks import WindowTicks
from cep.core.fluents import AT_TICKS, FIRST_TICK, TICK_NOW, UNCONSTRAINED
from cep.language.dialects.lars.ast import (
    AT,
    EVERY,
    NOW,
    LarsLiteral,
    LarsProgram,
    LarsRule,
    TimeWindow,
    TupleWindow,
)
from cep.language.dialects.lars.windows import longest
from cep.language.syntax import ast
from cep.operators.conjunction import And
from cep.operators.disjunction import Or
from cep.operators.grouping import AggregatedFormula
from cep.operators.last_atoms import LastAtomsFormula
from cep.operators.own_times import OwnTimesFormula
from cep.operators.supports import FormulaAtom
from cep.operators.temporal import MetricFormula, MetricInterval
from cep.operators.ticks import EachTickFormula
from cep.operators.where import RestrictedFormula
from cep.operators.windowed_event import WindowedFormula
from cep.plan.formula import Formula
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import AggregateResult, Call, Comparison, Condition, Constant, Expression, Predicate, Variable

BEGINS = "stream begins"
"""The name of an optional input event that says when a stream begins."""


class Relations:
    """The relations of a LARS program, as fluents.

    - `events`: the declarations of the input predicates.
    - `types`: the argument types of all predicates.
    - `asks_first`, `asks_clock`: True if the formulas use the auxiliary fluents FIRST_TICK and TICK_NOW.
    - `filled`: the lengths of windows for which the formulas use the auxiliary fluent `filled_name`, in ticks.
    """

    def __init__(
        self, program: LarsProgram, events: Mapping[str, ast.EventDeclaration], types: Mapping[str, Sequence[str]]
    ) -> None:
        self.program, self.events, self.types = program, events, types
        self.tick = program.tick
        self.arriving = [name for name in events if name not in program.derived_elsewhere]
        self.predicates = program.derived
        self.facts = {rule.head.predicate for rule in program.rules if rule.is_fact and rule.head is not None}
        self.facts |= {
            declaration.name for declaration in program.declarations if isinstance(declaration, FactDeclaration)
        }
        self.with_facts = self.facts & (self.predicates | events.keys())
        self.placed = {rule.head.predicate for rule in program.rules if rule.head is not None and rule.tick is not None}
        self.plainly = {
            rule.head.predicate for rule in program.rules if rule.head is not None and rule.tick is None and rule.body
        }
        self.known = self.predicates | self.facts | events.keys()
        self.column_names = self._column_names()
        self.constrained = any(rule.head is None for rule in program.rules)
        self.asks_first = self.asks_clock = False
        self.cycle: frozenset[str] = frozenset()
        """The predicates that are in a cycle with the current rule's predicate."""
        self.filled: dict[int, None] = {}
        self._numbers = count(1)

    def _column_names(self) -> dict[str, dict[int, str]]:
        columns: dict[str, dict[int, str]] = {}
        for rule in self.program.rules:
            if rule.head is not None and rule.head.predicate not in columns:
                columns[rule.head.predicate] = {
                    index: argument.name.lower()
                    for index, argument in enumerate(rule.head.arguments)
                    if isinstance(argument, Variable) and argument.name.strip("_")
                }
        return columns

    # --- names ---

    @property
    def derived(self) -> list[str]:
        """The fluents of the derived predicates."""
        names = [name for name in dict.fromkeys(self._heads()) if name in self.predicates]
        return [fluent for name in names for fluent in (name, *([at_ticks(name)] if name in self.placed else []))]

    def _heads(self) -> list[str]:
        return [rule.head.predicate for rule in self.program.rules if rule.head is not None]

    def now(self, name: str) -> str:
        """Return the name of the fluent for a predicate's atoms that are true now.

        The fluent contains the atoms before constraints are applied, so it also holds while a constraint is violated.
        """
        return f"{name}{UNCONSTRAINED}" if self.constrained else name

    def at(self, name: str) -> str:
        """Return the name of the fluent for those atoms of a predicate that rules derive for a certain tick."""
        return self.now(at_ticks(name))

    def facts_of(self, name: str) -> str:
        """Return the name under which the program's facts of the predicate `name` are stored as a static predicate."""
        return f"{name} fact" if name in self.with_facts else name

    def fresh(self, name: str) -> Variable:
        return Variable(f"{name}'{next(self._numbers)}")

    def plain(self, arguments: Sequence[Expression]) -> tuple[tuple[Expression, ...], list[Condition]]:
        """Replace calculated arguments by variables. Return the arguments, and the conditions that calculate these
        variables."""
        terms: list[Expression] = []
        conditions: list[Condition] = []
        for argument in arguments:
            if isinstance(argument, Call):
                own = self.fresh("value")
                conditions.append(Comparison("=", own, argument, argument.span))
                argument = own
            terms.append(argument)
        return tuple(terms), conditions

    def is_tick(self, rule: LarsRule, term: Expression) -> bool:
        """Return True if a term is certainly a tick of the stream: a variable that a positive literal of the rule's
        body names after the word `at`."""
        if not isinstance(term, Variable):
            return False
        return any(
            isinstance(element, LarsLiteral) and not element.negated and element.modality == AT and element.tick == term
            for element in rule.body
        )

    # --- literals ---

    def is_static(self, literal: LarsLiteral) -> bool:
        name = literal.atom.predicate
        return literal.modality == NOW and name in self.facts and name not in self.with_facts

    def literal(self, literal: LarsLiteral) -> tuple[Formula | None, list[Condition]]:
        """Return the formula of a literal without its `not`, and the conditions that calculate the tick after its `at`.

        The formula is None if the literal can never be true.
        """
        name = literal.atom.predicate
        if name not in self.predicates and name not in self.events:
            return None, []
        instant, conditions = self._at(literal)
        formula = self._derived(literal, instant) if name in self.predicates else self._input(literal, instant)
        return formula, conditions

    def _at(self, literal: LarsLiteral) -> tuple[Variable | None, list[Condition]]:
        """Return a variable for the tick after a literal's `at`, and the conditions that calculate this tick. If the
        literal has no `at`, the variable is None.

        The result is the program's own variable, unless that variable is also an argument of the atom. In that case, it
        is a fresh variable.
        """
        if literal.modality != AT:
            return None, []
        assert literal.tick is not None, "AT has a tick"
        if (
            isinstance(literal.tick, Variable)
            and literal.tick.name != "_"
            and literal.tick not in literal.atom.arguments
        ):
            return literal.tick, []
        own = self.fresh("tick")
        if literal.tick == Variable("_"):
            return own, []
        return own, [Comparison("=", own, literal.tick, literal.span)]

    def atom(self, literal: LarsLiteral, name: str | None = None, *more: Expression) -> FormulaAtom:
        """Return the atom of a literal.

        `name`: the fluent to use instead of the predicate. `more`: arguments that are appended to the atom's arguments.
        """
        own = literal.atom
        if name is None:
            name = self.now(own.predicate) if own.predicate in self.predicates else own.predicate
        return FormulaAtom(name, (*own.arguments, *more), span=own.span)

    def distinct(self, literal: LarsLiteral) -> LarsLiteral:
        """Replace each `_` of a literal by a fresh variable."""
        arguments = tuple(
            self.fresh("any") if argument == Variable("_") else argument for argument in literal.atom.arguments
        )
        return replace(literal, atom=replace(literal.atom, arguments=arguments))

    def window(self, literal: LarsLiteral, first: int = 0) -> WindowTicks:
        """Return the evaluation ticks at which the literal's window contains an atom, counted from the atom's tick.

        `first`: the first of these ticks.
        """
        if literal.modality == NOW:
            return WindowTicks(self.tick, 0, 0)
        match literal.window:
            case TimeWindow(ticks, step) if ticks < longest(self.tick):
                return WindowTicks(self.tick, first, ticks, step)
            case TimeWindow(_, step) if step > 1:
                return WindowTicks(self.tick, first, None, step)
            case _:
                return WindowTicks(self.tick, first, None)

    # --- inputs ---

    def _input(self, literal: LarsLiteral, instant: Variable | None) -> Formula:
        span = literal.span
        if isinstance(literal.window, TupleWindow):
            return self._tuples(literal, literal.window, instant)
        if literal.modality == EVERY:
            return self._every_input(self.distinct(literal))
        name = None if instant is None else instant.name
        windowed = WindowedFormula(self.atom(literal), self.window(literal), name, span)
        return self._or_fact(literal, windowed)

    def _or_fact(self, literal: LarsLiteral, formula: Formula) -> Formula:
        name = literal.atom.predicate
        if literal.modality != NOW or name not in self.with_facts:
            return formula
        literal = self.distinct(literal)
        fact = Predicate(self.facts_of(name), literal.atom.arguments, False, literal.span)
        fact_formula = RestrictedFormula(self.timeline(self.fresh("first")), (fact,), literal.span)
        return Or((formula, fact_formula), literal.span)

    def _every_input(self, literal: LarsLiteral) -> Formula:
        """Return the formula for □ over an input predicate.

        The formula is true if the atom arrived at every tick of the window. Ticks before the first tick of the stream
        do not count.
        """
        window, span = literal.window, literal.span
        assert isinstance(window, TimeWindow), "the other windows are elsewhere"
        if window.step > 1:
            own = self.fresh("tick")
            rows = WindowedFormula(self.atom(literal), self.window(literal), own.name, span)
            return self._all_of(literal, rows, self._points(literal))
        now = WindowedFormula(self.atom(literal), WindowTicks(self.tick), None, span)
        if not window.ticks:
            return now
        reach = MetricInterval(0, window.ticks * self.tick, "[]")
        long = MetricFormula("HISTORICALLY", (now,), reach, span)
        at_first = And((now, self.at_first()), (False, False), span)
        since = And((now, MetricFormula("SINCE", (now, at_first), reach, span)), (False, False), span)
        return Or((long, since), span)

    # --- windows of tuples ---

    def _tuples(self, literal: LarsLiteral, window: TupleWindow, instant: Variable | None) -> Formula:
        if literal.modality != EVERY:
            return self._last(self.distinct(literal), window, instant)
        return self._every_tuple(self.distinct(literal), window)

    def _last(
        self, literal: LarsLiteral, window: TupleWindow, instant: Variable | None, oldest: bool = False
    ) -> Formula:
        """Return the formula that is true for the atoms in a window of tuples.

        `oldest`: True for a formula that is true only for the oldest atom of the window, and only while the window is
        full.
        """
        names = self.arriving if window.by is None else [literal.atom.predicate]
        arrivals = self._arrivals(names)
        by: tuple[int, ...] = ()
        if window.by is not None:
            by = tuple(literal.atom.arguments.index(Variable(name)) for name in dict.fromkeys(window.by))
        name = None if instant is None else instant.name
        return LastAtomsFormula(self.atom(literal), arrivals, window.atoms, by, self.tick, name, oldest, literal.span)

    def _every_tuple(self, literal: LarsLiteral, window: TupleWindow) -> Formula:
        """Return the formula for □ over a window of tuples.

        The formula is true if the atom is true now, and the window contains the atom at every tick since the window's
        oldest atom. Before the window is full, it must contain the atom at every tick since the first tick of the
        stream.
        """
        span = literal.span
        own, number, oldest, first = (self.fresh(name) for name in ("tick", "number", "oldest", "first"))
        keys = window.by or ()
        now = OwnTimesFormula(self._last(literal, window, own), own.name, WindowTicks(self.tick), span)
        inner = self.fresh("tick")
        rows = self._last(literal, window, inner)
        here = And((now, self._counted(literal, rows, number)), (False, False), span)
        full = self._full(literal, window, oldest, keys)
        filled = RestrictedFormula(And((here, full), (False, False), span), (self._spans(number, own, oldest),), span)
        since_first = RestrictedFormula(
            And((here, self.timeline(first)), (False, False), span), (self._spans(number, own, first),), span
        )
        not_full = And((since_first, self._full(literal, window, self.fresh("oldest"), keys)), (False, True), span)
        return Or((filled, not_full), span)

    def _full(self, literal: LarsLiteral, window: TupleWindow, oldest: Variable, keys: Sequence[str]) -> Formula:
        """Return the formula that is true while a window of tuples is full. The formula binds `oldest` to the tick of
        the window's oldest atom.

        The window counts all input atoms. If the window has `by`, it counts only atoms that have the literal's
        predicate and the same values of the variables `keys`.
        """
        if window.by is None:
            arrivals = self._arrivals(self.arriving)
            return LastAtomsFormula(None, arrivals, window.atoms, (), self.tick, oldest.name, True, literal.span)
        arguments = tuple(
            argument if isinstance(argument, Variable) and argument.name in keys else self.fresh("any")
            for argument in literal.atom.arguments
        )
        asked = replace(literal, atom=replace(literal.atom, arguments=arguments))
        return self._last(asked, window, oldest, True)

    def _arrivals(self, names: Sequence[str]) -> tuple[FormulaAtom, ...]:
        return tuple(
            FormulaAtom(name, tuple(self.fresh("any") for _ in self.events[name].attributes))
            for name in names
            if name != BEGINS
        )

    @staticmethod
    def _spans(number: Variable, last: Variable, first: Expression) -> Comparison:
        return Comparison("=", number, Call("+", (Call("-", (last, first)), Constant(1, "int"))))

    def _counted(self, literal: LarsLiteral, rows: Formula, number: Variable) -> Formula:
        by = tuple(dict.fromkeys(argument for argument in literal.atom.arguments if isinstance(argument, Variable)))
        return AggregatedFormula(rows, (AggregateResult(number.name, "count", None),), by, literal.span)

    # --- derived predicates ---

    def _derived(self, literal: LarsLiteral, instant: Variable | None) -> Formula:
        name, span = literal.atom.predicate, literal.span
        if literal.modality == NOW:
            return self._or_fact(literal, self.atom(literal))
        window = literal.window
        stepped = isinstance(window, TimeWindow) and window.step > 1
        if literal.modality == EVERY:
            return self._every_derived(self.distinct(literal), stepped)
        literal = self.distinct(literal)
        own = instant or self.fresh("tick")
        if instant is None and not stepped:  # true at some earlier tick, or now
            parts: list[Formula] = []
            if name in self.placed:
                placed = self.atom(literal, self.at(name), own)
                parts.append(OwnTimesFormula(placed, own.name, self.window(literal), span))
            parts.append(self.atom(literal))
            return parts[0] if len(parts) == 1 else Or(tuple(parts), span)
        rows = self._rows(literal, own)
        if window is None and not stepped:
            return rows
        return OwnTimesFormula(rows, own.name, self.window(literal), span)

    def _rows(self, literal: LarsLiteral, instant: Variable) -> Formula:
        """Return the formula that is true for each tick up to the current one at which the literal's atom was true. The
        formula binds `instant` to that tick."""
        name = literal.atom.predicate
        parts: list[Formula] = []
        if name in self.placed:
            parts.append(self.atom(literal, self.at(name), instant))
        if name in self.cycle:  # a recursive predicate is joined with the ticks, which are not recursive
            self.asks_clock = True
            clock = FormulaAtom(TICK_NOW, (instant,), span=literal.span)
            parts.append(And((self.atom(literal), clock), (False, False), literal.span))
        elif name in self.plainly:
            parts.append(EachTickFormula(self.atom(literal), instant.name, self.tick, literal.span))
        return parts[0] if len(parts) == 1 else Or(tuple(parts), literal.span)

    def _every_derived(self, literal: LarsLiteral, stepped: bool) -> Formula:
        """Return the formula for □ over a derived predicate. It is true if the literal's atom is true now and was true
        at all earlier ticks of the window.

        `stepped`: True if the window has a step.
        """
        span, name = literal.span, literal.atom.predicate
        window = literal.window
        assert isinstance(window, TimeWindow), "windows of tuples hold what comes in"
        own = self.fresh("tick")
        if stepped:
            rows = OwnTimesFormula(self._rows(literal, own), own.name, self.window(literal), span)
            return self._all_of(literal, rows, self._points(literal))
        now = self.atom(literal)
        if not window.ticks:
            return now
        at_first = And((now, self.at_first()), (False, False), span)
        if name not in self.placed:
            return at_first
        placed = self.atom(literal, self.at(name), own)
        before = OwnTimesFormula(placed, own.name, self.window(literal, 1), span)
        number = self.fresh("number")
        self.filled[window.ticks] = None
        self.asks_first = True
        filled = FormulaAtom(filled_name(window.ticks), (number,), span=span)
        parts = (now, self._counted(literal, before, number), filled)
        return Or((And(parts, (False, False, False), span), at_first), span)

    def _all_of(self, literal: LarsLiteral, rows: Formula, points: tuple[Formula, Variable]) -> Formula:
        formula, number = points
        return And((self._counted(literal, rows, number), formula), (False, False), literal.span)

    def _points(self, literal: LarsLiteral) -> tuple[Formula, Variable]:
        """Return a formula, and the variable that it binds to the number of ticks in a window with a step."""
        window, span = literal.window, literal.span
        assert isinstance(window, TimeWindow), "the other windows are elsewhere"
        own, number, first, last = (self.fresh(name) for name in ("tick", "number", "first", "last"))
        step = Constant(window.step, "int")
        begins = Call("max", (first, Call("-", (last, Constant(window.ticks, "int")))))
        conditions = (
            Comparison("=", last, Call("*", (Call("//", (own, step)), step))),
            Comparison(">=", last, first),
            self._spans(number, last, begins),
        )
        ticks = EachTickFormula(self.timeline(first), own.name, self.tick, span)
        return RestrictedFormula(ticks, conditions, span), number

    # --- the timeline ---

    def timeline(self, first: Variable) -> Formula:
        self.asks_first = True
        return FormulaAtom(FIRST_TICK, (first,))

    def at_first(self) -> Formula:
        first = self.fresh("first")
        return OwnTimesFormula(self.timeline(first), first.name, WindowTicks(self.tick))


def at_ticks(name: str) -> str:
    """Return the name of the fluent for atoms that rules derive for a certain tick."""
    return f"{name}{AT_TICKS}"


def predicate_of(name: str) -> str:
    """Return the name of the predicate to which a fluent belongs."""
    return name.removesuffix(AT_TICKS)


def filled_name(ticks: int) -> str:
    """Return the name of the fluent that counts the past ticks in a window of `ticks` ticks."""
    return f"ticks before now of {ticks}"
