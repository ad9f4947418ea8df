"""Walking lowered patterns: what is inside them, which variables and conditions they hold."""

from __future__ import annotations

from cep.plan.algebra import Atom, Either, Given, Pair, Pattern, Point, Repeat, Unless, Window
from cep.plan.names import used_variables
from cep.rules.terms import Variable


def parts(pattern: Pattern) -> list[Pattern]:
    """The patterns directly inside one that occur; of a TIMES the first."""
    match pattern:
        case Pair(_, left, right) | Either(left, right):
            return [left, right]
        case Unless(left):
            return [left]
        case Repeat(links, _):
            return [links[0]]
        case Window() | Given():
            return [pattern.pattern]
        case Atom() | Point():
            return []


def absent(pattern: Pattern) -> list[Pattern]:
    """What a pattern negates directly."""
    match pattern:
        case Pair(absent=negated) if negated is not None:
            return [negated]
        case Unless():
            return [pattern.absent]
        case _:
            return []


def patterns(pattern: Pattern) -> list[Pattern]:
    """A pattern and all inside it, as written."""
    return [pattern, *(each for part in [*parts(pattern), *absent(pattern)] for each in patterns(part))]


def atoms(pattern: Pattern) -> list[Atom]:
    """All event patterns of a pattern, what is negated included."""
    return [each for each in patterns(pattern) if isinstance(each, Atom)]


def mentioned(pattern: Pattern) -> list[Variable]:
    """Every variable of a pattern as often as it is written, but the anonymous; those of policies left out."""
    found: list[Variable] = []
    for each in patterns(pattern):
        match each:
            case Atom():
                found += used_variables(each.arguments)
            case Given():
                found += used_variables(each.conditions)
            case Window():
                found += used_variables(r.argument for r in each.results if r.argument is not None)
                found += each.by
                found += [Variable(result.variable, result.span) for result in each.results]
            case _:
                pass
    return found
