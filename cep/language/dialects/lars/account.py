"""The summary of a LARS program for `cep check`: its components, and its cycles through negation."""

from __future__ import annotations

from cep.core.errors import Source, Span, render
from cep.language.dialects.lars.ast import LarsProgram
from cep.language.dialects.lars.components import Cycle, components
from cep.language.dialects.lars.safety import atoms
from cep.language.syntax.ast import EventDeclaration
from cep.rules.static.typed_facts import FactDeclaration

LONGEST = 4
"""The maximum number of rules that are shown to explain a cycle."""


def circles(program: LarsProgram, source: Source) -> list[str]:
    """Return one text for each component that is not stratified. The text explains why."""
    return [told(component.cyclic, source) for component in components(program) if component.cyclic is not None]


def counted(program: LarsProgram) -> list[str]:
    """Return how many rules and components the program has, and how many components are recursive or not stratified.

    Each count is a text, such as `3 rules`. A component that is not stratified does not count as recursive. The last
    two counts are left out if they are 0.
    """
    groups = [component for component in components(program) if component.predicates]
    cyclic = sum(component.cyclic is not None for component in groups)
    recursive = sum(component.recursive and component.cyclic is None for component in groups)
    parts = [_number(len(program.rules), "rule"), _number(len(groups), "component")]
    parts += [f"{recursive} recursive"] if recursive else []
    return parts + ([f"{cyclic} not stratified"] if cyclic else [])


def comes_in(program: LarsProgram) -> list[str]:
    """Return the undeclared input predicates: predicates in rule bodies that no rule, fact or declaration defines.

    If the program declares events, return an empty list.
    """
    if any(isinstance(declaration, EventDeclaration) for declaration in program.declarations):
        return []
    facts = {rule.head.predicate for rule in program.rules if rule.is_fact and rule.head is not None}
    facts |= {declaration.name for declaration in program.declarations if isinstance(declaration, FactDeclaration)}
    asked = dict.fromkeys(atom.predicate for atom, literal in atoms(program) if literal is not None)
    derived = program.derived
    return [name for name in asked if name not in facts and name not in derived]


def excerpt(source: Source, span: Span, longest: int = 100) -> str:
    """Return the text of a span on one line, cut to about `longest` characters."""
    lines = [source.line(number) for number in range(span.line, span.end_line + 1)]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    text = " ".join(" ".join(lines).split())
    return text if len(text) <= longest else f"{text[:longest].rpartition(' ')[0]} ..."


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def told(cycle: Cycle, source: Source) -> str:
    """Explain why a component is not stratified. List the rules of the cycle with their places and texts."""
    first = cycle.literals[0]
    asked = f"`{excerpt(source, first.span)}`"
    names = [f"`{name}`" for name in cycle.predicates[:LONGEST]]
    more = len(cycle.predicates) - LONGEST
    listed = " and ".join(names) if len(names) == 2 else ", ".join(names)
    goes = "depends on itself" if len(names) == 1 else "go in a circle"
    who = f"{listed}{', ...' if more > 0 else ''} {goes}"
    models = "there may be none, one or several models" if first.negated else "the solver finds its one model"
    rules = [f"{source.spot(rule.span)} `{excerpt(source, rule.span)}`" for rule in cycle.rules[:LONGEST]]
    message = f"{who} through {asked}: {models}"
    begin = "the rule is" if len(rules) == 1 else "the rules are"
    hint = f"{begin} {', '.join(rules)}{f' and {more} more' if more > 0 else ''}"
    return render(message, source, first.span, hint)
