"""Merging of the statements of several files. Each name is declared once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cep.core.errors import CepError, CepErrors, Mistakes, Source
from cep.language.dialects.lars.ast import LarsProgram
from cep.language.syntax import ast
from cep.rules.static.typed_facts import FactDeclaration

RULES = (ast.EventRule, ast.FluentRule, ast.WhileRule)
DECLARATIONS = (ast.EventDeclaration, ast.FluentDeclaration, FactDeclaration)
Declaration = ast.EventDeclaration | ast.FluentDeclaration | FactDeclaration


@dataclass(frozen=True, slots=True)
class FileTree:
    """The statements of one file in our own language, or of all files of a dialect.

    `weak`: its declarations are inferred from its rules, so declarations of other files take precedence.
    """

    tree: ast.SyntaxTree
    weak: bool = False


class MergedFiles:
    """The statements of several trees, where each name is declared once."""

    def __init__(self, source: Source, trees: Sequence[FileTree], lars: LarsProgram | None) -> None:
        self.source, self.trees = source, trees
        self.errors = Mistakes()
        self.rules_of = [{each.name for each in one.tree.statements if isinstance(each, RULES)} for one in trees]
        self.chosen: dict[str, tuple[int, Declaration]] = {}
        self.derived = frozenset[str]() if lars is None else lars.derived
        self.asked = {} if lars is None else {
            each.name: instants(each) for each in lars.declarations if isinstance(each, DECLARATIONS)
        }  # fmt: skip

    def tree(self) -> ast.SyntaxTree:
        for number, one in enumerate(self.trees):
            for each in one.tree.statements:
                if isinstance(each, DECLARATIONS):
                    self.declare(number, each)
        statements: list[ast.Statement] = []
        seen: set[str] = set()
        policies = False
        for number, one in enumerate(self.trees):
            if policies:
                statements.append(ast.PolicyStatement(None))  # a policy applies only to its own file
            policies = any(isinstance(each, ast.PolicyStatement) for each in one.tree.statements)
            for each in one.tree.statements:
                if isinstance(each, DECLARATIONS):
                    if self.chosen.get(each.name, (None,))[0] != number or each.name in seen:
                        continue
                    seen.add(each.name)
                statements.append(each)
        if self.errors:
            raise CepErrors(self.errors)
        impossible = tuple(each for one in self.trees for each in one.tree.impossible)
        helpers = frozenset[str]().union(*(one.tree.helpers for one in self.trees))
        return ast.SyntaxTree(tuple(statements), self.source, impossible, helpers)

    def declare(self, number: int, each: Declaration) -> None:
        """Choose between a declaration and an earlier one of the same name. Report a contradiction. `number`: the
        tree's index."""
        name, weak = each.name, self.trees[number].weak
        elsewhere = name in self.derived or any(
            name in rules for other, rules in enumerate(self.rules_of) if other != number
        )
        if weak and elsewhere and name not in self.rules_of[number]:
            return
        asked = self.asked.get(name)
        if type(asked) is type(each) and asked is not None and not weak and asked != each:
            self.twice(each, asked)
        before = self.chosen.get(name)
        if before is None:
            self.chosen[name] = number, each
            return
        other, known = before
        if other == number or weak or each == known:
            return  # duplicates in one file are reported later
        if self.trees[other].weak:
            self.chosen[name] = number, each
        else:
            self.twice(each, known)

    def twice(self, each: Declaration, other: Declaration) -> None:
        self.errors.append(_otherwise(self.source, each, other))


def one_program(source: Source, parts: Sequence[LarsProgram], tick: int) -> LarsProgram:
    """Merge LARS files. A declaration that several of them repeat is kept once. Raises CepError."""
    known: dict[str, tuple[int, Declaration]] = {}
    declarations: list[ast.Statement] = []
    errors = Mistakes()
    for number, part in enumerate(parts):
        for each in part.declarations:
            if isinstance(each, DECLARATIONS):
                file, before = known.setdefault(each.name, (number, each))
                if file != number:
                    if each != before:
                        errors.append(_otherwise(source, each, before))
                    continue
            declarations.append(each)
    if errors:
        raise CepErrors(errors)
    return LarsProgram(tuple(rule for part in parts for rule in part.rules), tuple(declarations), tick)


def _otherwise(source: Source, each: Declaration, other: Declaration) -> CepError:
    message = f"`{each.name}` is declared differently at {source.spot(other.span)}"
    hint = "remove one of the two: a declaration applies to all files of a program"
    return CepError(message, source, each.span, hint, "name")


def instants(statement: Declaration) -> Declaration:
    """Make an event instantaneous, as in LARS, unless its declaration names its time columns."""
    if not isinstance(statement, ast.EventDeclaration):
        return statement
    plain = (statement.time, statement.start) == (None, None)
    return replace(statement, time="time") if plain else statement
