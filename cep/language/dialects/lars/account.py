"""What `cep check` says of a LARS program: how many components it has, and which go round through negation."""

from __future__ import annotations

from cep.core.errors import Source, render
from cep.language.dialects.lars.ast import LarsProgram
from cep.language.dialects.lars.components import Cycle, components
from cep.language.dialects.lars.printer import print_literal, print_rule

LONGEST = 4
"""Rules of a cycle that are shown."""


def account(program: LarsProgram, source: Source) -> tuple[str, ...]:
    """A text for each component that is no stratified one, with its place; then how many there are of each kind."""
    found = [each for each in components(program) if each.predicates]
    cyclic = [each.cyclic for each in found if each.cyclic is not None]
    recursive = sum(each.recursive and each.cyclic is None for each in found)
    parts = [f"{len(found)} component{'' if len(found) == 1 else 's'}"]
    parts += [f"{recursive} recursive"] if recursive else []
    parts += [f"{len(cyclic)} not stratified, run as answer set programs"] if cyclic else []
    return (*(told(each, program, source) for each in cyclic), ", ".join(parts))


def told(cycle: Cycle, program: LarsProgram, source: Source) -> str:
    """Why a component is not stratified: each rule of the cycle, with what it asks of the next."""
    first = cycle.literals[0]
    asked = f"`{print_literal(first, program.tick)}`"
    names = [f"`{name}`" for name in cycle.predicates[:LONGEST]]
    more = len(cycle.predicates) - LONGEST
    listed = " and ".join(names) if len(names) == 2 else ", ".join(names)
    goes = "depends on itself" if len(names) == 1 else "go in a circle"
    who = f"{listed}{', ...' if more > 0 else ''} {goes}"
    models = "there may be none, one or several models" if first.negated else "the solver finds its one model"
    rules = [
        f"{each.span.line}:{each.span.column} `{print_rule(each, program.tick)}`" for each in cycle.rules[:LONGEST]
    ]
    message = f"{who} through {asked}: {models}"
    hint = f"the rules are {', '.join(rules)}{f' and {more} more' if more > 0 else ''}"
    return render(message, source, first.span, hint)
