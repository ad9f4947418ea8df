"""The plan of a single stage. It contains the nodes that the rules of the stage need. The results of other stages are
inputs of this plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cep.core.schema import Schema
from cep.plan.alerts import alert_tables, without_alerts
from cep.plan.dependencies import Dependencies
from cep.plan.equal import equal_records
from cep.plan.order import order
from cep.plan.partition import Stage, partition
from cep.plan.plan import Plan
from cep.rules.alert import Alert


def staged(plan: Plan, number: int) -> Plan:
    """Return the plan of one stage. `number`: the number of the stage, from 1.

    All types are those of the plan of the whole program. Events of other stages are read without checks, because
    declared ranges and missing values only concern records from outside. Raises ValueError if there is no such stage.
    """
    stages = partition(plan)
    if not 0 < number <= len(stages):
        raise ValueError(f"a program of {len(stages)} stages has no stage {number}")
    return _part(plan, stages[number - 1])


def alerts_alone(plan: Plan, alerts: Sequence[Alert]) -> Plan:
    """Return a plan that contains only the rules that derive alerts from events. These rules keep no state."""
    dependencies, tables = Dependencies(plan), {table for alert in alerts for table in alert.tables}
    rules = tuple(number for number, head in enumerate(plan.heads) if head.event in tables)
    read = frozenset[str]().union(*(dependencies.reads[rule] for rule in rules))
    derived = frozenset(plan.derived) - tables
    stage = Stage(
        0,
        False,
        rules,
        dict.fromkeys(sorted(read | derived), "single"),
        read - derived,
        tuple(sorted(tables)),
        frozenset(),
        (),
    )
    return _part(plan, stage)


def alerts_left_out(plan: Plan) -> Plan:
    """Return the plan without the nodes that derive alerts. These are the last nodes of a plan (`alerts_last`)."""
    rules = without_alerts(plan.rules)
    own = range(len(rules.rules))
    users = [frozenset(rule for rule in user if rule in own) for user in plan.users]
    count = sum(map(bool, users))
    assert all(users[:count]), "what alerts alone need comes last"
    nodes, heads, spans = plan.nodes[:count], plan.heads[: len(own)], plan.spans[:count]
    groups, errors = order(nodes, heads, spans, plan.source)
    assert not errors, "a part of a program in order is in order"
    schemas = {name: schema for name, schema in plan.schemas.items() if name not in alert_tables(plan.rules)}
    return replace(
        plan,
        rules=rules,
        nodes=nodes,
        names=plan.names[:count],
        spans=spans,
        users=tuple(users[:count]),
        columns=plan.columns[:count],
        points=plan.points[:count],
        heads=heads,
        arguments=plan.arguments[: len(own)],
        schemas=schemas,
        inputs=plan.inputs & schemas.keys(),
        groups=groups,
    )


def _part(plan: Plan, stage: Stage) -> Plan:
    numbers = needed(plan, stage)
    place = {old: new for new, old in enumerate(numbers)}
    rule = {old: new for new, old in enumerate(stage.rules)}
    nodes = tuple(plan.nodes[old].moved(place) for old in numbers)
    heads = tuple(replace(plan.heads[old], child=place[plan.heads[old].child]) for old in stage.rules)
    spans = tuple(plan.spans[old] for old in numbers)
    groups, errors = order(nodes, heads, spans, plan.source)
    assert not errors, "a part of a program in order is in order"
    return Plan(
        replace(plan.rules, rules=tuple(plan.rules.rules[old] for old in stage.rules)),
        nodes,
        tuple(plan.names[old] for old in numbers),
        spans,
        tuple(frozenset(rule[user] for user in plan.users[old] if user in rule) for old in numbers),
        tuple(plan.columns[old] for old in numbers),
        tuple(plan.points[old] for old in numbers),
        heads,
        tuple(plan.arguments[old] for old in stage.rules),
        {name: _taken(schema, stage) for name, schema in plan.schemas.items()},
        frozenset(stage.inputs),
        groups,
        (),
        plan.source,
        tuple(numbers),
        handed=frozenset(stage.inputs) - stage.outside,
        several=equal_records(plan).several,
    )


def needed(plan: Plan, stage: Stage) -> list[int]:
    """Return the numbers of the nodes that a stage runs. In the stage's own plan, the number of a node is its position
    in the result."""
    dependencies = Dependencies(plan)
    return sorted({node for rule in stage.rules for node in dependencies.nodes[rule]})


def _taken(schema: Schema, stage: Stage) -> Schema:
    if schema.name not in stage.inputs or schema.name in stage.outside:
        return schema
    attributes = tuple(replace(a, optional=True, low=None, high=None) for a in schema.attributes)
    return replace(schema, attributes=attributes, point=False)
