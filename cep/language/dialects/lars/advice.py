"""Warnings about a LARS program: code that is valid but probably not intended, or that makes the engine store input
without a time limit."""

from __future__ import annotations

from collections.abc import Iterator

from cep.core.errors import Source, Warning
from cep.core.suggest import SURE, nearest
from cep.language.dialects.lars.account import excerpt
from cep.language.dialects.lars.ast import AT, LarsLiteral, LarsProgram, LarsRule, TimeWindow, TupleWindow
from cep.language.dialects.lars.components import Component, components
from cep.language.dialects.lars.safety import atoms
from cep.language.dialects.lars.windows import longest
from cep.language.syntax import ast
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import Call, Comparison, Expression, Graph, Variable, expression_variables

COMPARED = {"leq": "<=", "lt": "<", "geq": ">=", "gt": ">", "eq": "=", "neq": "!="}
"""The operator that replaces each comparison predicate of older files."""
CALCULATED = {"plus": "+", "minus": "-", "times": "*", "sum": "+"}


def advice(program: LarsProgram, source: Source) -> tuple[Warning, ...]:
    """Return all warnings, sorted by position."""
    warnings = [*_kept(program, source), *_windows(program, source), *_names(program, source), *_ahead(program, source)]
    return tuple(sorted(warnings, key=lambda warning: (warning.span is None, warning.span, warning.message)))


def _literals(program: LarsProgram) -> Iterator[LarsLiteral]:
    for _, literal in atoms(program):
        if literal is not None:
            yield literal


def _given(program: LarsProgram) -> frozenset[str]:
    events = {declaration.name for declaration in program.declarations if isinstance(declaration, ast.EventDeclaration)}
    facts = {declaration.name for declaration in program.declarations if isinstance(declaration, FactDeclaration)}
    facts |= {rule.head.predicate for rule in program.rules if rule.head is not None and rule.is_fact}
    return frozenset(facts - events - program.derived)


def _kept(program: LarsProgram, source: Source) -> Iterator[Warning]:
    """Warn of each literal for which the engine must store input without a time limit.

    Such a literal reaches back over the whole input, or has a window `[n #] by X`, which keeps n atoms for each value
    of X.
    """
    derived = program.derived
    for literal in _literals(program):
        name, window = literal.atom.predicate, literal.window
        if name in derived:
            continue
        endless = (window is None and literal.modality == AT) or (
            isinstance(window, TimeWindow) and window.ticks >= longest(program.tick)
        )
        text = excerpt(source, literal.span)
        if endless:
            hint = f"a window says how far back: `{name}{' at T' if literal.modality == AT else ''} in [10 min]`"
            yield Warning(f"`{text}` never expires: each `{name}` is kept for ever", source, literal.span, hint, "kept")
        elif isinstance(window, TupleWindow) and window.by:
            values = " and ".join(f"`{by}`" for by in window.by)
            message = f"`{text}` never expires: the last {window.atoms} atoms of each {values} are kept for ever"
            yield Warning(message, source, literal.span, "this does no harm if there are only a few", "kept")


def _windows(program: LarsProgram, source: Source) -> Iterator[Warning]:
    inputs = _given(program)
    for literal in _literals(program):
        name, window = literal.atom.predicate, literal.window
        if isinstance(window, TimeWindow) and window.ticks == 0 and window.step == 1 and literal.modality != AT:
            yield Warning("this window contains only the present tick", source, window.span,
                          f"`{name}` means the same; `[1]` also contains the tick before", "window")  # fmt: skip
        if name in inputs and (window is not None or literal.modality == AT):
            truth = "always" if literal.negated else "never"
            message = f"`{name}` is defined by facts, and windows contain no facts: this is {truth} true"
            yield Warning(message, source, literal.span, f"leave out the window: `{name}`", "window")


def _names(program: LarsProgram, source: Source) -> Iterator[Warning]:
    """Warn of undeclared predicates whose names nearly equal the name of a known predicate."""
    if any(isinstance(declaration, ast.EventDeclaration) for declaration in program.declarations):
        return
    known = program.derived | _given(program)
    warned: set[str] = set()
    for literal in _literals(program):
        name = literal.atom.predicate
        if name in known or name in warned:
            continue
        warned.add(name)
        mark = COMPARED.get(name) or CALCULATED.get(name)
        if mark is not None and len(literal.atom.arguments) in (2, 3):
            hint = f"`18 {mark} V`" if name in COMPARED else f"`Z = X {mark} Y`"
            yield Warning(
                f"`{name}` is read from the input, and has no other meaning", source, literal.span, hint, "name"
            )
        elif near := nearest(name, known, SURE):
            message = f"`{name}` is read from the input, because no rule derives it"
            yield Warning(message, source, literal.span, f"did you mean `{near}`?", "name")


def _ahead(program: LarsProgram, source: Source) -> Iterator[Warning]:
    """Warn of each recursive rule that can derive ever more atoms: at ever later ticks, or with ever new values."""
    for component in components(program):
        if not component.recursive:
            continue
        for rule in component.rules:
            if rule.tick is not None and _moves(rule, rule.tick) and not _bounded(rule, rule.tick):
                assert rule.head is not None, "what is put somewhere is a head"
                message = f"`{rule.head.predicate}` may be derived for ever later ticks: it depends on itself"
                hint = "add a bound: `b at S :- b at T, S = T + 1, S < 100.`"
                yield Warning(message, source, rule.head.span, hint, "ahead")
            elif rule.head is not None and any(_grows(rule, argument, component) for argument in rule.head.arguments):
                message = f"`{rule.head.predicate}` may be derived with ever new values: it depends on itself"
                hint = "add a bound: `b(X + 1) :- b(X), X < 100.`"
                yield Warning(message, source, rule.head.span, hint, "ahead")


def _grows(rule: LarsRule, argument: Expression, component: Component) -> bool:
    """Return True if a head argument can take ever new values: it is calculated from values that the component itself
    derives, and no comparison limits it."""
    if not _moves(rule, argument) or _bounded(rule, argument):
        return False
    own: set[str] = set()
    external: set[str] = set()  # variables of graphs and of predicates outside the component
    for element in rule.body:
        if isinstance(element, LarsLiteral) and not element.negated:
            names = own if element.atom.predicate in component.predicates else external
            names.update(name for argument in element.atom.arguments for name in expression_variables(argument))
        elif isinstance(element, Graph) and not element.negated:
            external.update(element.variables)
    if external.intersection(expression_variables(argument)) and isinstance(argument, Variable):
        return False
    return bool(own & _origins(rule, argument) - external)


def _origins(rule: LarsRule, calculated: Expression) -> set[str]:
    names = set(expression_variables(calculated))
    for element in rule.body:
        if (
            isinstance(element, Comparison)
            and element.operator == "="
            and names & set(expression_variables(element.left))
        ):
            names |= set(expression_variables(element.right))
    return names


def _moves(rule: LarsRule, instant: Expression) -> bool:
    """Return True if an expression is a calculation, or a variable that an equation of the rule's body calculates."""
    if isinstance(instant, Call):
        return True
    return isinstance(instant, Variable) and any(
        isinstance(element, Comparison)
        and element.operator == "="
        and any(
            side == instant and isinstance(other, Call)
            for side, other in ((element.left, element.right), (element.right, element.left))
        )
        for element in rule.body
    )


def _bounded(rule: LarsRule, instant: Expression) -> bool:
    names = _origins(rule, instant)
    for element in rule.body:
        if isinstance(element, Comparison) and element.operator in ("<", "<=", ">", ">="):
            if names & {*expression_variables(element.left), *expression_variables(element.right)}:
                return True
        elif isinstance(element, LarsLiteral) and not element.negated and element.window is not None:
            inside = [] if element.tick is None else expression_variables(element.tick)
            if names.intersection(inside):
                return True
    return False
