"""Hints for comparisons whose sides have types that cannot be compared."""

from __future__ import annotations

from cep.core.literals import is_clock, write_duration, write_time
from cep.events import Iri
from cep.rules.expressions.spelling import respelling
from cep.rules.expressions.typed import TICKS
from cep.rules.terms import Call, Comparison, Constant, Expression, Variable


def shown(expression: Expression) -> str:
    """Return the text of a variable or a constant, and `...` for other expressions."""
    match expression:
        case Variable(name):
            return name
        case Constant(value, type):
            if isinstance(value, Iri):
                return f"<{value!s}>"
            if type in TICKS:
                return write_time(int(value)) if type == "time" else write_duration(int(value))
            return f'"{value}"' if type == "string" else str(value).lower() if type == "bool" else str(value)
    return "..."


def comparison_hint(comparison: Comparison, left: str, right: str) -> str | None:
    """Return a hint for a comparison whose sides cannot be compared. Return None if no hint fits. `left`, `right`: the
    types of the sides."""
    for side, other in ((comparison.left, right), (comparison.right, left)):
        if isinstance(side, Constant) and other == "duration" and is_clock(str(side.value)):
            return f'a time of day is `time("{side.value}")`'
        if isinstance(side, Constant) and (meant := respelling(side.value, other)):
            return meant
    sides = {left: comparison.left, right: comparison.right}
    if {left, right} == {"string", "iri"}:
        return f"`string({shown(sides['iri'])})` gives the text of an IRI; a constant IRI is `<...>` or `prefix:name`"
    if any(isinstance(side, Call) and side.function == "weekday" for side in sides.values()):
        return "a weekday is a number: Monday is 1, Sunday 7"
    if "string" in sides and ({"int", "float"} & set(sides)):
        return f"`float({shown(sides['string'])})` gives the number that is written in a text"
    if {left, right} == {"time", "duration"}:
        if any(isinstance(side, Call) and side.function == "time" for side in sides.values()):
            moment = shown(sides["time"])
            return f'the time of day of `{moment}` is `local_time({moment}, "Europe/Zurich")`'
        return "`end() - start()` is a duration; a time is `start()`, `end()` or ISO 8601"
    return None
