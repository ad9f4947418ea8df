"""Find the input events whose records must keep their order of arrival, so that the results stay the same."""

from __future__ import annotations

from cep.plan.plan import Plan


def ordered_inputs(plan: Plan) -> frozenset[str]:
    """Return the input events whose order of arrival may affect results, even if no record is late and records that end
    at the same time keep their order.

    A node that chooses among occurrences of the same interval may choose by the arrival of their last records. This
    order differs from the order of the records' ends if one occurrence completes only as time passes (`Node.by_time`).
    The result contains all inputs of such nodes, except inputs that are only negated.
    """
    properties = [node.properties() for node in plan.nodes]
    parts = [
        [part for place, part in enumerate(node.parts) if place != own.negated]
        for node, own in zip(plan.nodes, properties, strict=True)
    ]
    sources = {name: frozenset({name} if name in plan.inputs else ()) for name in plan.schemas}
    delayed_events: set[str] = set()
    while True:
        inputs: list[frozenset[str]] = []
        delayed: list[bool] = []
        for number, node in enumerate(plan.nodes):
            event = properties[number].event
            if event is not None:
                inputs.append(sources[event])
                delayed.append(event in delayed_events)
            else:
                inputs.append(frozenset[str]().union(*(inputs[part] for part in parts[number])))
                delayed.append(node.by_time() or any(delayed[part] for part in parts[number]))
        before = dict(sources), set(delayed_events)
        for head in plan.heads:
            sources[head.event] |= inputs[head.child]
            delayed_events.update([head.event] if delayed[head.child] else [])
        if (sources, delayed_events) == before:
            break
    choosing = [number for number, node in enumerate(plan.nodes) if node.by_order(plan.types(number))]
    affected = [number for number in choosing if any(delayed[part] for part in parts[number])]
    return frozenset[str]().union(*(inputs[number] for number in affected))
