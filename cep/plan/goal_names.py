"""Names of goals in `cep plan`: `g1`, `g2`, ... A goal that is the body of a single rule has no name."""

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
    """Return True if an author wrote the rule `number`. Other rules are generated to compute when a fluent holds."""
    fluent = plan.schemas[plan.heads[number].event].fluent
    return plan.rules.rules[number].span != NOWHERE and (fluent is None or fluent.part not in (HOLDS, EDGES))


def says_records(rule: Rule) -> bool:
    """Return True if a rule is generated and only copies the intervals of a fluent's input records to the fluent."""
    asked = list(events(rule.body))
    return rule.span == NOWHERE and len(asked) == 1 and asked[0].endswith(RECORDED)


def labels(plan: Plan) -> dict[int, str]:
    """Return the labels of the nodes that `cep plan` shows separately, in running order.

    A node that is only read by one rule is shown as the body of this rule. Scans are not shown.
    """
    readers = Counter(child for node in plan.nodes for child in node.parts)
    head_counts = Counter(head.child for head in plan.heads)
    letter = "goal" if any(re.fullmatch(r"g\d+", name) for name in plan.schemas) else "g"
    names: dict[int, str] = {}
    for group in plan.groups:
        for unit in units(group):
            inside = isinstance(unit, int) and readers[unit] == 0 and head_counts[unit] == 1
            if isinstance(unit, int) and not inside and plan.nodes[unit].properties().kind is not None:
                names[unit] = f"{letter}{len(names) + 1}"
    return names


def units(group: Group) -> list[PlanUnit]:
    """Return the units of a group (nodes and events) in the order in which they run."""
    return [unit for units, _ in group.slices for unit in units] if group.recursive else list(group.units)


def rules(plan: Plan, numbers: Iterable[int]) -> str:
    """Return a text that names rules by label or line. Generated rules are left out."""
    written = [plan.rules.rules[number] for number in numbers if is_written(plan, number)]
    names = [rule.label for rule in written if rule.label is not None]
    unnamed = list(dict.fromkeys(rule.span.line for rule in written if rule.label is None))
    if plan.source.files:
        return ", ".join([*names, *dict.fromkeys(map(plan.source.line_name, unnamed))])
    lines = list(map(str, unnamed))
    if lines:
        names.append(f"line{'s' if len(lines) > 1 else ''} {', '.join(lines)}")
    return ", ".join(names)
