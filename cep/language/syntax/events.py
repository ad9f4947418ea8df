"""Search for the events in a pattern of the syntax tree."""

from __future__ import annotations

from cep.language.syntax import ast


def events(pattern: ast.PatternTree) -> list[ast.EventPattern]:
    """Return all events of a pattern in order. Negated events are included."""
    match pattern:
        case ast.EventPattern():
            return [pattern]
        case ast.TimePoint():
            return []
        case ast.Binary():
            return events(pattern.left) + events(pattern.right)
        case ast.Not():
            return events(pattern.absent) + events(pattern.left) + events(pattern.right)
        case ast.UnlessTree():
            return events(pattern.left) + events(pattern.absent)
        case _:
            return events(pattern.pattern)
