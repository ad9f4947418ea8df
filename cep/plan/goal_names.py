"""Names of goals: `g1`, `g2`, ... for separate goals, else the one rule whose body they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from cep.core.errors import NOWHERE
from cep.core.fluents import EDGES, HOLDS, RECORDED
from cep.plan.algebra import Rule
from cep.plan.order import Group, PlanUnit
from cep.plan.pattern import events
from cep.plan.plan import Plan


def is_written(plan: Plan, number: int) -> bool:
    """Return True if an author wrote a rule, and False if it only makes of what rules say of a fluent when it holds."""
    fluent = plan.schemas[plan.heads[number].event].fluent
    return plan.rules.rules[number].span != NOWHERE and (fluent is None or fluent.part not in (HOLDS, EDGES))


def says_records(rule: Rule) -> bool:
    """Return True if a rule only says that a fluent holds where its records say so."""
    asked = list(events(rule.body))
    return rule.span == NOWHERE and len(asked) == 1 and asked[0].endswith(RECORDED)


def labels(plan: Plan) -> dict[int, str]:
    """The names of the nodes that stand by themselves in `cep plan`, in the order in which they run there.

    A node that one rule alone reads is shown as that rule's body, a scan not at all.
    """
    readers = Counter(child for node in plan.nodes for child in node.parts)
    made = Counter(head.child for head in plan.heads)
    letter = "goal" if any(re.fullmatch(r"g\d+", name) for name in plan.schemas) else "g"
    found: dict[int, str] = {}
    for group in plan.groups:
        for unit in units(group):
            inside = isinstance(unit, int) and readers[unit] == 0 and made[unit] == 1
            if isinstance(unit, int) and not inside and plan.nodes[unit].properties().kind is not None:
                found[unit] = f"{letter}{len(found) + 1}"
    return found


def units(group: Group) -> list[PlanUnit]:
    """The units of a group in the order in which they run."""
    return [unit for units, _ in group.slices for unit in units] if group.recursive else list(group.units)


def rules(plan: Plan, numbers: Iterable[int]) -> str:
    """Rules by label or line, but those that nobody wrote."""
    written = [plan.rules.rules[number] for number in numbers if is_written(plan, number)]
    names = [rule.label for rule in written if rule.label is not None]
    unnamed = list(dict.fromkeys(rule.span.line for rule in written if rule.label is None))
    if plan.source.files:
        return ", ".join([*names, *dict.fromkeys(map(plan.source.line_name, unnamed))])
    lines = list(map(str, unnamed))
    if lines:
        names.append(f"line{'s' if len(lines) > 1 else ''} {', '.join(lines)}")
    return ", ".join(names)
