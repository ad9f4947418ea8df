"""Statements that connect the answer set solver with the fluents of a LARS program. They declare the solver's input,
its output and its predicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cep.core.errors import NOWHERE, Span
from cep.core.fluents import beside
from cep.events import Iri
from cep.language.dialects.lars.answer_set_options import AnswerSetOptions
from cep.language.dialects.lars.answer_set_rules import BEGUN, SplitProgram
from cep.language.dialects.lars.relations import Relations, at_ticks
from cep.language.syntax import ast
from cep.operators.answer_sets import AnswerSetFormula
from cep.operators.supports import FormulaAtom
from cep.plan.formula import Formula
from cep.rules.answer_set_rules import COUNTED, GIVEN_FIRST, AnswerSetTables
from cep.rules.terms import Constant, Expression, Variable

ASKS, GIVES = "what is asked", "what is given"
"""Names of the fluents that contain the solver's input and output."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The layout of several relations in one table: the types of the table's columns, and the columns that each
    relation uses."""

    types: tuple[str, ...]
    of: tuple[tuple[int, ...], ...]


def placed(relations: Sequence[Sequence[str]]) -> Placed:
    """Lay out relations in one table. `relations`: the column types of each relation.

    Relations share columns that have the same type. No relation uses a column twice.
    """
    types: list[str] = []
    placements = []
    for columns in relations:
        free = list(range(len(types)))
        own = []
        for type in columns:
            place = next((column for column in free if types[column] == type), None)
            if place is None:
                types.append(type)
                place = len(types) - 1
            else:
                free.remove(place)
            own.append(place)
        placements.append(tuple(own))
    return Placed(tuple(types), tuple(placements))


class AnswerSetStatements:
    """Builder of the statements for the solver.

    - `parts`: the program, split into rules for the engine and rules for the solver.
    - `types`: the argument types of all predicates, including the predicates of `parts.inputs`.
    - `inconsistent`: the name of the fluent that holds while the program has no answer stream.
    - `timeline`: a formula that holds from the first tick on.
    """

    def __init__(
        self,
        parts: SplitProgram,
        types: Mapping[str, Sequence[str]],
        relations: Relations,
        options: AnswerSetOptions,
        inconsistent: str,
        timeline: Formula,
    ) -> None:
        self.parts, self.options, self.inconsistent, self.timeline = parts, options, inconsistent, timeline
        self.relations = relations
        self.asked = placed([() if name == BEGUN else types[name] for name in parts.inputs])
        self.given = placed([types[name] for name in parts.names])
        self.tables = AnswerSetTables(self.asked.types, self.asked.of, self.given.types, self.given.of, relations.tick)

    @property
    def helpers(self) -> list[str]:
        return [ASKS, GIVES, *self.parts.inputs[1:]]

    @property
    def fluents(self) -> list[str]:
        pairs = zip(self.parts.names, self.parts.rules.derived, strict=True)
        return [fluent for name, predicate in pairs for fluent in (name, at_ticks(name))[: 1 + predicate.timed]]

    def statements(self) -> list[ast.Statement]:
        statements: list[ast.Statement] = [_declared(ASKS, ("int", *self.asked.types))]
        for number, name in enumerate(self.parts.inputs):
            if name != BEGUN and name not in self.relations.predicates:
                continue  # this input is never true
            own = [Variable(f"X{index}") for index in range(len(self.asked.of[number]))]
            formula = self.timeline if name == BEGUN else FormulaAtom(self.relations.now(name), tuple(own))
            places: list[Expression] = [_filler(type) for type in self.asked.types]
            for place, variable in zip(self.asked.of[number], own, strict=True):
                places[place] = variable
            statements.append(_rule(ASKS, (Constant(number, "int"), *places), formula))
        columns = ("int",) * GIVEN_FIRST + self.given.types
        asks = [f"A{index}" for index in range(1 + len(self.asked.types))]
        gives = [f"G{index}" for index in range(len(columns))]
        atom = FormulaAtom(ASKS, tuple(map(Variable, asks)))
        options = self.options
        answer_formula = AnswerSetFormula(
            atom, tuple(asks), tuple(gives), self.parts.rules, self.tables, options.every, options.seconds
        )
        statements += [_declared(GIVES, columns), _rule(GIVES, tuple(map(Variable, gives)), answer_formula)]
        count = Variable("Count") if options.every else Constant(0, "int")
        statements.append(_rule(self.inconsistent, (count,), self._given(COUNTED, count, (), ())))
        for number, predicate in enumerate(self.parts.rules.derived):
            statements += self._derived(number, predicate.timed)
        return statements

    def _derived(self, number: int, timed: bool) -> list[ast.Statement]:
        """Return the rules that extract a predicate from the solver's output.

        `timed`: True if the solver also derives atoms of the predicate that name their tick (`p(X) @ T`), besides atoms
        of the current tick. Both kinds are then extracted.
        """
        name, places = self.parts.names[number], self.given.of[number]
        own = tuple(Variable(f"X{index}") for index in range(len(places)))
        model = (Variable("Model"),) if self.options.every else ()
        statements: list[ast.Statement] = [
            _rule(name, (*own, *model), self._given(2 * number, Variable("_"), places, (*own, *model)))
        ]
        if timed:
            instant = Variable("At")
            formula = self._given(2 * number + 1, instant, places, (*own, *model))
            statements.append(_rule(at_ticks(name), (*own, instant, *model), formula))
        return statements

    def _given(
        self, number: int, tick: Expression, places: Sequence[int], variables: Sequence[Variable]
    ) -> FormulaAtom:
        arguments: list[Expression] = [Variable("_") for _ in range(GIVEN_FIRST + len(self.given.types))]
        arguments[:2] = [Constant(number, "int"), tick]
        for place, variable in zip(places, variables):
            arguments[GIVEN_FIRST + place] = variable
        if len(variables) > len(places):
            arguments[2] = variables[-1]
        named = [Variable(f"Any{index}") if term == Variable("_") else term for index, term in enumerate(arguments)]
        return FormulaAtom(GIVES, tuple(named))

    def attributes(self, attributes: Sequence[ast.AttributeTree]) -> tuple[ast.AttributeTree, ...]:
        """Return a predicate's attributes. If the user wants all answer streams, append an attribute for the number of
        the answer stream."""
        if not self.options.every:
            return tuple(attributes)
        return (*attributes, ast.AttributeTree(beside("model", [attribute.name for attribute in attributes]), "int"))


def _declared(name: str, types: Sequence[str]) -> ast.FluentDeclaration:
    return ast.FluentDeclaration(name, tuple(ast.AttributeTree(f"c{index}", type) for index, type in enumerate(types)))


def _rule(name: str, arguments: Sequence[Expression], formula: Formula, span: Span = NOWHERE) -> ast.WhileRule:
    return ast.WhileRule(name, tuple(arguments), None, (), formula, span, span)


def _filler(type: str) -> Constant:
    match type:
        case "string":
            return Constant("", "string")
        case "float":
            return Constant(0.0, "float")
        case "bool":
            return Constant(False, "bool")
        case "iri":
            return Constant(Iri("x:"), "iri")
        case "any":
            return Constant(0, "int")
        case _:
            return Constant(0, type)
