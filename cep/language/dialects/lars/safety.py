"""Checks of a LARS program: variables that get no value, and inconsistent uses of predicates.

A positive atom gives a value to its variables, and to a variable after its `at`. A positive graph pattern gives a value
to its variables. An equation such as `S = T + 1` gives S a value if T has one.
"""

from __future__ import annotations

from collections.abc import Iterator

from cep.core.errors import CepError, CepErrors, Mistakes, Source, Span
from cep.core.suggest import did_you_mean
from cep.core.time import FARTHEST
from cep.language.dialects.lars.ast import (
    LarsAtom,
    LarsLiteral,
    LarsProgram,
    LarsRule,
    TimeWindow,
    TupleWindow,
)
from cep.language.dialects.lars.printer import print_argument, print_expression
from cep.language.syntax import ast
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import Call, Comparison, Constant, Expression, Graph, Variable, expression_variables

BINDS = "bind it in an atom that is not negated, or with `{0} = ...`"


def refuse_unsafe(program: LarsProgram, source: Source) -> None:
    """Check a program. Raises CepError with all mistakes."""
    errors, derived = Mistakes(), program.derived
    for rule in program.rules:
        _RuleChecker(rule, derived | program.derived_elsewhere, FARTHEST // program.tick, source, errors).check()
    for error in _misfits(program, source):
        errors.append(error)
    if errors:
        raise CepErrors(errors)


def bound(rule: LarsRule) -> frozenset[str]:
    """Return the variables of a rule that have a value when its body is true."""
    names = {name for element in rule.body for name in _binds(element)}
    equations = [element for element in rule.body if isinstance(element, Comparison) and element.operator == "="]
    while True:
        before = len(names)
        for equation in equations:
            for side, other in ((equation.left, equation.right), (equation.right, equation.left)):
                if isinstance(side, Variable) and side.name != "_" and names.issuperset(expression_variables(other)):
                    names.add(side.name)
        if len(names) == before:
            return frozenset(names)


def _binds(literal: LarsLiteral | Comparison | Graph) -> list[str]:
    if isinstance(literal, Graph):
        return [] if literal.negated else list(literal.variables)
    if isinstance(literal, Comparison) or literal.negated:
        return []
    places = [*literal.atom.arguments, *([] if literal.tick is None else [literal.tick])]
    return [place.name for place in places if isinstance(place, Variable) and place.name != "_"]


def variables_of(expression: Expression) -> Iterator[Variable]:
    """Yield each variable of an expression, with its span. `_` counts as a variable."""
    match expression:
        case Variable():
            yield expression
        case Call(_, arguments):
            for argument in arguments:
                yield from variables_of(argument)


class _RuleChecker:
    """Checker of one rule. `farthest`: the last tick that a stream can have."""

    def __init__(
        self, rule: LarsRule, derived: frozenset[str], farthest: int, source: Source, errors: Mistakes
    ) -> None:
        self.rule = rule
        self.source = source
        self.errors = errors
        self.farthest = farthest
        self.derived = derived
        self.bound = bound(rule)
        self.unbound: dict[str, tuple[Span, str]] = {}

    def error(self, message: str, span: Span, hint: str, code: str = "unsafe") -> None:
        self.errors.append(CepError(message, self.source, span, hint, code))

    def check(self) -> None:
        self.head()
        for element in self.rule.body:
            if isinstance(element, LarsLiteral):
                self.literal(element)
            elif isinstance(element, Comparison):
                self.comparison(element)
            else:
                for name in element.variables:
                    hint = (
                        f"a negated pattern does not bind variables: {BINDS.format(name)}, or write `?{name.lower()}`"
                    )
                    self.use(Variable(name, element.span), hint)
        self.complain()

    def use(self, variable: Variable, hint: str) -> None:
        name = variable.name
        if name not in self.bound:
            self.unbound.setdefault(name, (variable.span, hint))

    def complain(self) -> None:
        """Report the variables of the rule that have no value.

        A variable is not reported if it is calculated from other variables that have no value. But if every variable
        without a value is calculated from another one, all are reported.
        """
        follows = {name for element in self.rule.body if isinstance(element, Comparison) for name in _defined(element)}
        roots = [name for name in self.unbound if name not in follows] or list(self.unbound)
        for name in roots:
            span, hint = self.unbound[name]
            if name == "_":
                self.error("`_` has no value", span, "`_` stands for any value of an atom; give it a name")
                continue
            equations = [element for element in self.rule.body if isinstance(element, Comparison)]
            turned = next((text for equation in equations if (text := solved(equation, name, self.bound))), None)
            near = did_you_mean(name, self.bound)
            self.error(f"`{name}` has no value", span, f"`{turned}` gives it one" if turned else near or hint)

    # --- the head ---

    def head(self) -> None:
        head, instant = self.rule.head, self.rule.tick
        if head is None:
            return
        hint = "a fact may contain only constants: `car(1).`"
        for argument in (*head.arguments, *([] if instant is None else [instant])):
            for variable in variables_of(argument):
                self.use(variable, hint if not self.rule.body else BINDS.format(variable.name))
        if instant is not None:
            self.tick(instant)

    # --- the body ---

    def literal(self, literal: LarsLiteral) -> None:
        atom, window = literal.atom, literal.window
        for argument in atom.arguments:
            if literal.negated and isinstance(argument, Variable) and argument.name != "_":
                any_value = f"write `_` for any value; otherwise {BINDS.format(argument.name)}"
                self.use(argument, f"`not` does not bind variables: {any_value}")
        if literal.tick is not None:
            self.tick(literal.tick)
            for variable in variables_of(literal.tick):
                if variable is literal.tick and (variable.name == "_" or not literal.negated):
                    continue
                why = "`not` needs a known tick" if variable is literal.tick else "arithmetic does not bind it"
                self.use(variable, f"{why}: {BINDS.format(variable.name)}")
        if isinstance(window, TupleWindow):
            self.tuple_window(atom, window)
        elif isinstance(window, TimeWindow) and (window.ticks < 0 or window.step < 1):
            self.error("a window always looks back, so its length has no sign", window.span, "`[10]`", "window")
        elif isinstance(window, TimeWindow) and max(window.ticks, window.step) > self.farthest:
            hint = f"the longest window has {self.farthest} ticks; for all of time use `[inf]`"
            self.error("this window is too long", window.span, hint, "window")

    def tuple_window(self, atom: LarsAtom, window: TupleWindow) -> None:
        if atom.predicate in self.derived:
            hint = (
                f"use a window of time, `{atom.predicate} [10]`; or put the window in the rules of `{atom.predicate}`"
            )
            message = f"`{atom.predicate}` is derived, and a window of tuples can contain only input"
            self.error(message, window.span, hint, "window")
        if window.atoms < 1:
            self.error(
                "a window of tuples must contain at least one atom", window.span, "the shortest is `[1 #]`", "window"
            )
        names = [argument.name for argument in atom.arguments if isinstance(argument, Variable)]
        for name in window.by or ():
            if name not in names:
                hint = did_you_mean(name, names) or f"`{atom.predicate}(X, Y) [5 #] by X`"
                self.error(f"`{name}` is not an argument of `{atom.predicate}` here", window.span, hint, "window")

    def comparison(self, comparison: Comparison) -> None:
        for side in (comparison.left, comparison.right):
            for variable in variables_of(side):
                self.use(variable, BINDS.format(variable.name))

    def tick(self, term: Expression) -> None:
        """Report `term` if it is a constant that is not a whole number, or a tick beyond the end of time."""
        if not isinstance(term, Constant):
            return
        if term.type != "int":
            text = print_argument(term)
            hint = "a tick is a number (`a at 5`) or a time (`a at 2013-02-08T18:00:00Z`)"
            if term.type == "string" and text.isidentifier():
                hint = f"a variable begins with a capital letter: `{text[0].upper()}{text[1:]}`; {hint}"
            self.error(f"`{text}` is not a tick", term.span, hint, "type")
        elif isinstance(term.value, int) and abs(term.value) > self.farthest:
            self.error("this tick is too large", term.span, f"the last tick is {self.farthest}", "type")


def _defined(comparison: Comparison) -> list[str]:
    """Return the variables that an equation calculates. Such a variable is alone on one side, and the other side
    contains variables."""
    if comparison.operator != "=":
        return []
    sides = ((comparison.left, comparison.right), (comparison.right, comparison.left))
    return [side.name for side, other in sides if isinstance(side, Variable) and expression_variables(other)]


def solved(comparison: Comparison, name: str, known: frozenset[str]) -> str | None:
    """Solve an equation such as `S = T + 1` for `name`, and return the text `T = S - 1`.

    Return None if another variable is not in `known`, or the equation has another form.
    """
    if comparison.operator != "=":
        return None
    for result, call in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
        if not isinstance(call, Call) or call.function not in ("+", "-"):
            continue
        first, second = call.arguments
        for unknown, other in ((first, second), (second, first)):
            if unknown != Variable(name) or not known.issuperset(
                (*expression_variables(result), *expression_variables(other))
            ):
                continue
            if call.function == "+":
                value = Call("-", (result, other))
            else:
                value = Call("+", (result, other)) if unknown is first else Call("-", (other, result))
            return f"{name} = {print_expression(value)}"
    return None


# --- predicates ---


def atoms(program: LarsProgram) -> Iterator[tuple[LarsAtom, LarsLiteral | None]]:
    """Yield all atoms of a program. With each atom of a body, yield its literal; with each head, None. A head comes
    before its body."""
    for rule in program.rules:
        if rule.head is not None:
            yield rule.head, None
        for element in rule.body:
            if isinstance(element, LarsLiteral):
                yield element.atom, element


def _misfits(program: LarsProgram, source: Source) -> Iterator[CepError]:
    """Yield errors for wrong numbers of arguments, unknown predicates, and predicates that are defined in two ways that
    exclude each other."""
    declared = {
        declaration.name: declaration
        for declaration in program.declarations
        if isinstance(declaration, ast.EventDeclaration)
    }
    fact_tables = {
        declaration.name: declaration
        for declaration in program.declarations
        if isinstance(declaration, FactDeclaration)
    }
    derived = program.derived
    facts = {rule.head.predicate for rule in program.rules if rule.is_fact and rule.head is not None}
    arities = {name: (len(declaration.attributes), declaration.span) for name, declaration in fact_tables.items()}
    arities |= {name: (len(declaration.attributes), declaration.span) for name, declaration in declared.items()}
    known = derived | facts | declared.keys() | fact_tables.keys()
    complained: set[str] = set()
    for atom, literal in atoms(program):
        name, arity = atom.predicate, len(atom.arguments)
        first = arities.setdefault(name, (arity, atom.span))
        if first[0] != arity:
            message = f"`{name}` has {_arguments(first[0])} at {source.spot(first[1])}, but {arity} here"
            yield CepError(
                message, source, atom.span, "a predicate has the same number of arguments everywhere", "arity"
            )
        if literal is None and name in complained:
            continue
        if literal is None and name in derived and (name in declared or name in fact_tables):
            complained.add(name)
            what = "an input event" if name in declared else "a fact"
            hint = f"use another name for the derived atom, `{name}_derived`, or remove the declaration"
            yield CepError(f"`{name}` is declared as {what}, and derived here", source, atom.span, hint, "predicate")
        elif literal is not None and name in derived and name in facts and literal.window is not None:
            hint = f"use another name for the facts, and add a rule: `{name} :- {name}_always.`"
            message = f"`{name}` is derived by rules and defined by facts, and windows contain no facts"
            yield CepError(message, source, literal.span, hint, "predicate")
        elif literal is not None and declared and name not in known:
            hint = did_you_mean(name, known) or f"declare input events: `event {name}(...).`"
            yield CepError(f"unknown predicate `{name}`", source, atom.span, hint, "predicate")


def _arguments(number: int) -> str:
    return f"{number} argument{'' if number == 1 else 's'}"
