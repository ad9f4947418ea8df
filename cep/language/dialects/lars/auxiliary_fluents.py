"""Auxiliary fluents for lowering a LARS program: the timeline, its ticks, and the number of ticks in a window."""

from __future__ import annotations

from cep.core.evaluation_ticks import WindowTicks
from cep.core.fluents import FIRST_TICK, TICK_NOW
from cep.language.dialects.lars.relations import Relations, filled_name, predicate_of
from cep.language.syntax import ast
from cep.operators.own_times import OwnTimesFormula
from cep.operators.supports import FormulaAtom
from cep.operators.ticks import EachTickFormula, FirstTickFormula
from cep.operators.where import RestrictedFormula
from cep.rules.terms import Call, Comparison, Constant, Variable


def helping(relations: Relations, first: int | None = None) -> tuple[list[ast.Statement], list[str]]:
    """Return the statements that define the auxiliary fluents, and the names of these fluents.

    `first`: the tick at which the stream begins unless earlier input arrives.
    """
    statements: list[ast.Statement] = []
    number = ast.AttributeTree("number", "int")
    for name in relations.derived:
        if (predicate := predicate_of(name)) != name:
            statements.append(_at_now(relations, predicate))
    for count in relations.filled:
        statements.append(ast.FluentDeclaration(filled_name(count), (number,)))
        statements += _filled_rules(relations, count)
    names = [FIRST_TICK, TICK_NOW, *map(filled_name, relations.filled)]
    if relations.asks_clock:
        ticks = EachTickFormula(relations.timeline(Variable("First")), "At", relations.tick)
        statements.append(ast.FluentDeclaration(TICK_NOW, (number,)))
        statements.append(ast.WhileRule(TICK_NOW, (Variable("At"),), None, (), ticks))
    if relations.asks_first:
        instant = Variable("At")
        events = tuple(
            FormulaAtom(name, tuple(Variable("_") for _ in event.attributes))
            for name, event in relations.events.items()
        )
        formula = FirstTickFormula(events, instant.name, relations.tick, first)
        statements.append(ast.FluentDeclaration(FIRST_TICK, (number,)))
        statements.append(ast.WhileRule(FIRST_TICK, (instant,), None, (), formula))
    return statements, names


def _at_now(relations: Relations, name: str) -> ast.WhileRule:
    arguments = tuple(Variable(f"X{index + 1}") for index in range(len(relations.types[name])))
    instant = Variable("At")
    formula = FormulaAtom(relations.at(name), (*arguments, instant))
    return ast.WhileRule(
        relations.now(name), arguments, None, (), OwnTimesFormula(formula, instant.name, WindowTicks(relations.tick))
    )


def _filled_rules(relations: Relations, ticks: int) -> list[ast.Statement]:
    name, first, instant, number = filled_name(ticks), Variable("First"), Variable("At"), Variable("Number")
    opening = OwnTimesFormula(relations.timeline(first), first.name, WindowTicks(relations.tick, 1, ticks - 1))
    every_tick = EachTickFormula(opening, instant.name, relations.tick)
    condition = Comparison("=", number, Call("-", (instant, first)))
    statements: list[ast.Statement] = []
    if ticks > 1:
        statements.append(ast.WhileRule(name, (number,), None, (), RestrictedFormula(every_tick, (condition,))))
    whole = OwnTimesFormula(relations.timeline(first), first.name, WindowTicks(relations.tick, ticks, None))
    statements.append(ast.WhileRule(name, (Constant(ticks, "int"),), None, (), whole))
    return statements
