"""Merging of the statements of several files, so that each name is declared once."""

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
    """The statements of one file in our own language, or of all files of another dialect.

    `weak`: True if the declarations are inferred from rules. Then declarations of other files replace them.
    """

    tree: ast.SyntaxTree
    weak: bool = False


class MergedFiles:
    """The statements of several trees, merged so that each name is declared once."""

    def __init__(self, source: Source, trees: Sequence[FileTree], lars: LarsProgram | None) -> None:
        self.source, self.trees = source, trees
        self.errors = Mistakes()
        self.rules_of = [
            {statement.name for statement in tree.tree.statements if isinstance(statement, RULES)} for tree in trees
        ]
        self.chosen: dict[str, tuple[int, Declaration]] = {}
        self.derived = frozenset[str]() if lars is None else lars.derived
        self.asked = {} if lars is None else {
            asked.name: instants(asked) for asked in lars.declarations if isinstance(asked, DECLARATIONS)
        }  # fmt: skip

    def tree(self) -> ast.SyntaxTree:
        for number, file_tree in enumerate(self.trees):
            for statement in file_tree.tree.statements:
                if isinstance(statement, DECLARATIONS):
                    self.declare(number, statement)
        statements: list[ast.Statement] = []
        seen: set[str] = set()
        policies = False
        for number, file_tree in enumerate(self.trees):
            if policies:
                statements.append(ast.PolicyStatement(None))  # a policy applies only to its own file
            policies = any(isinstance(statement, ast.PolicyStatement) for statement in file_tree.tree.statements)
            for statement in file_tree.tree.statements:
                if isinstance(statement, DECLARATIONS):
                    if self.chosen.get(statement.name, (None,))[0] != number or statement.name in seen:
                        continue
                    seen.add(statement.name)
                statements.append(statement)
        if self.errors:
            raise CepErrors(self.errors)
        impossible = tuple(statement for tree in self.trees for statement in tree.tree.impossible)
        helpers = frozenset[str]().union(*(tree.tree.helpers for tree in self.trees))
        return ast.SyntaxTree(tuple(statements), self.source, impossible, helpers)

    def declare(self, number: int, declaration: Declaration) -> None:
        """Record a declaration. If the same name has an earlier declaration, choose one of the two. Report an error if
        they contradict each other.

        `number`: the index of the tree that contains the declaration.
        """
        name, weak = declaration.name, self.trees[number].weak
        elsewhere = name in self.derived or any(
            name in rules for other, rules in enumerate(self.rules_of) if other != number
        )
        if weak and elsewhere and name not in self.rules_of[number]:
            return
        asked = self.asked.get(name)
        if type(asked) is type(declaration) and asked is not None and not weak and asked != declaration:
            self.twice(declaration, asked)
        before = self.chosen.get(name)
        if before is None:
            self.chosen[name] = number, declaration
            return
        other, known = before
        if other == number or weak or declaration == known:
            return  # duplicates in one file are reported later
        if self.trees[other].weak:
            self.chosen[name] = number, declaration
        else:
            self.twice(declaration, known)

    def twice(self, declaration: Declaration, other: Declaration) -> None:
        self.errors.append(_otherwise(self.source, declaration, other))


def one_program(source: Source, parts: Sequence[LarsProgram], tick: int) -> LarsProgram:
    """Merge LARS files into one program. If several files contain the same declaration, the program contains it once.

    Raises CepError if files declare a name differently.
    """
    known: dict[str, tuple[int, Declaration]] = {}
    declarations: list[ast.Statement] = []
    errors = Mistakes()
    for number, part in enumerate(parts):
        for declared in part.declarations:
            if isinstance(declared, DECLARATIONS):
                file, before = known.setdefault(declared.name, (number, declared))
                if file != number:
                    if declared != before:
                        errors.append(_otherwise(source, declared, before))
                    continue
            declarations.append(declared)
    if errors:
        raise CepErrors(errors)
    return LarsProgram(tuple(rule for part in parts for rule in part.rules), tuple(declarations), tick)


def _otherwise(source: Source, declaration: Declaration, other: Declaration) -> CepError:
    message = f"`{declaration.name}` is declared differently at {source.spot(other.span)}"
    hint = "remove one of the two: a declaration applies to all files of a program"
    return CepError(message, source, declaration.span, hint, "name")


def instants(statement: Declaration) -> Declaration:
    """Add a time column to an event declaration that names neither a time nor a start column: events are instantaneous
    as in LARS. Return other declarations unchanged."""
    if not isinstance(statement, ast.EventDeclaration):
        return statement
    plain = (statement.time, statement.start) == (None, None)
    return replace(statement, time="time") if plain else statement
