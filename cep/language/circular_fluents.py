"""A check that refuses fluents whose beginnings or ends depend on themselves."""

from __future__ import annotations

from collections.abc import Sequence

from cep.core.components import components
from cep.core.fluents import EDGES
from cep.language.fluents import Fluents
from cep.operators.event import Atom
from cep.plan.algebra import Rule
from cep.plan.pattern import events, patterns
from cep.rules.terms import Constant


def refuse_circular(fluents: Fluents, rules: Sequence[Rule]) -> None:
    """Report an error for each rule that reads the beginnings or ends of a fluent and derives an event on which the
    same fluent depends."""
    needs: dict[str, list[str]] = {}
    for rule in rules:
        needs.setdefault(rule.event, []).extend(events(rule.body))
    cycle: dict[str, int] = {}
    for number, component in enumerate(components(list(needs), lambda event: needs.get(str(event), []))):
        cycle |= dict.fromkeys(map(str, component), number)
    for rule in rules:
        for pattern in patterns(rule.body) if rule.event not in fluents.declared else ():
            if not isinstance(pattern, Atom) or pattern.arguments[-1:] == () or pattern.event == rule.event:
                continue
            schema, last = fluents.schemas.get(pattern.event), pattern.arguments[-1]
            fluent = None if schema is None else schema.fluent
            if fluent is None or fluent.part != EDGES or not isinstance(last, Constant):
                continue
            if cycle.get(pattern.event) == cycle.get(rule.event):
                message = f"the beginnings and ends of `{fluent.name}` depend on themselves"
                hint = f"ask in a WHERE whether it holds instead: `.. WHERE {fluent.name}(..)`"
                fluents.error(message, pattern.span, hint, "recursion")
