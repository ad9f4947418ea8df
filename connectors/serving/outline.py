"""The program as the live page shows it: its text, the position of each rule, and the operators that each rule uses."""

from __future__ import annotations

from typing import Any, get_args

from cep.connectors.alerts.lifecycle import Action, AlertState
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.service import Service
from cep.connectors.serving.gazette import SubjectColumns
from cep.core.errors import NOWHERE
from cep.engine import Engine
from cep.plan.goal_names import labels, rules
from cep.plan.plan import Plan
from cep.plan.render import Rendering
from cep.plan.thresholds import thresholds
from cep.rules.keywords import SPELLINGS


def outline(service: Service, vocabulary: EventVocabulary) -> dict[str, Any]:
    """Return the program as JSON for the live page.

    - `rules`: the author's rules. Each has its first and last line, its derived event, the node whose rows are counted
      (`node`), and the nodes that it needs (`goals`). Nodes have the same names as in `cep plan`.
    - `iri`: the IRIs of events and attributes.
    - `base`: the prefix of the IRIs of events and attributes for which the program declares no IRI.
    - `alerts`: the ALERT statements, each with its `severities`. `lasts` is True for an alert on a fluent. Durations
      are in microseconds: `after` (how long an alert is pending), `rises` (the time until each further severity) and
      `repeat` (the time between reminders; 0: none).
    - `changes`: the words for changes of alerts.
    - `parameters`: the names, values and defaults of parameters.
    - `words`: the keywords of the language.
    - `thresholds`: the constants with which rules compare attributes. Each has the events and alerts (`alert NAME`)
      that depend on it (see `cep.plan.thresholds`).
    """
    plan = service.engine.plan
    told = {alert.table for alert in service.engine.alerts}
    written = Rendering(plan.nodes, plan.names, plan.heads, plan.schemas, plan.source)
    written.labels |= labels(plan)
    goals = {
        str(number): {"text": written.goal(number) if number in written.labels else written.text(number).text}
        for number, node in enumerate(plan.nodes)
        if node.properties().kind is not None
    }
    return {
        "words": SPELLINGS,
        "name": service.name,
        "text": service.text,
        "goals": goals,
        "rules": [_rule(plan, number) for number in range(len(plan.heads)) if plan.rules.rules[number].span != NOWHERE],
        "events": [
            {
                "name": name,
                "derived": name in service.outputs,
                "attributes": [
                    {"name": attribute.name, "type": attribute.type, "iri": vocabulary.property(schema, number)}
                    for number, attribute in enumerate(schema.attributes)
                ],
                "subject": SubjectColumns.of(schema).subject,
                "iri": vocabulary.type(schema),
            }
            for name, schema in {**service.inputs, **service.outputs}.items()
        ],
        "alerts": [
            {
                "name": alert.name,
                "event": alert.event,
                "severities": [alert.severity, *(severity for severity, _ in alert.escalations)],
                "rises": [after for _, after in alert.escalations],
                "repeat": alert.repeat,
                "after": alert.after,
                "lasts": alert.ends is not None,
            }
            for alert in service.engine.alerts
            if not alert.hidden
        ],
        "changes": [word for word in (*get_args(AlertState), "withdrawn", *get_args(Action)) if word],
        "parameters": parameter_values(service.engine),
        "thresholds": [
            {
                "event": threshold.event,
                "attribute": threshold.attribute,
                "operator": threshold.operator,
                "value": threshold.value,
                "aggregate": threshold.aggregate,
                "line": threshold.line,
                "leads": [name for name in threshold.leads if name in service.outputs or name in told],
            }
            for threshold in thresholds(plan.rules)
        ],
        "lineage": service.engine.explain,
        "base": vocabulary.base,
    }


def parameter_values(engine: Engine) -> list[dict[str, str]]:
    """Return the parameters of a program, each with its current value and its default."""
    return [
        {
            "name": parameter.name,
            "value": parameter.written(parameter.value.value),
            "default": parameter.written(parameter.default.value),
        }
        for parameter in engine.written.parameters
    ]


def _rule(plan: Plan, number: int) -> dict[str, Any]:
    head, span = plan.heads[number], plan.rules.rules[number].span
    needed = [
        str(node)
        for node, users in enumerate(plan.users)
        if number in users and plan.nodes[node].properties().kind is not None
    ]
    return {
        "name": rules(plan, [number]),
        "event": head.event,
        "line": span.line,
        "end": span.end_line,
        "node": str(head.child),
        "scan": plan.nodes[head.child].properties().event is not None,
        "goals": needed,
    }
