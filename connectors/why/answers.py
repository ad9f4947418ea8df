"""Explanations of atoms in answer streams as JSON. `cep.connectors.why.text` explains events.

An `answer` has the keys {time, rule, variables, conditions, literals}. A literal is {text, negated, parts, left_out},
where `parts` are nodes. A rule that does not derive the atom has the same keys as for events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cep.explain.nodes import AnswerNode, AnswerRefusal

if TYPE_CHECKING:
    from cep.connectors.why.text import Explainer

Json = dict[str, Any]


def answer(explainer: Explainer, node: AnswerNode) -> Json:
    """Return the rule that derives an atom, with its literals."""
    literals = []
    for each in node.literals:
        made: Json = {"text": each.text, "negated": each.negated, "parts": [explainer.node(one) for one in each.parts]}
        literals.append(made | ({"left_out": each.left_out} if each.left_out else {}))
    return {
        "time": explainer.time(node.time),
        "rule": {"name": None} | explainer.place(node.span),
        "variables": explainer.variables(node.bound),
        "conditions": [explainer.condition(each) for each in node.judged],
        "literals": literals,
    }


def refusal(explainer: Explainer, found: AnswerRefusal) -> Json:
    """Explain why a rule does not derive the atom."""
    failure: Json = {"kind": found.kind, "told": _told(explainer, found)}
    if found.lacking:
        failure["conditions"] = [explainer.condition(each) for each in found.lacking]
    if found.forbidden:
        failure["forbidden"] = [explainer.place(each) for each in found.forbidden]
    return {
        "rule": {"name": None} | explainer.place(found.span),
        "since": None,
        "failure": failure,
        "parts": [explainer.occurrence(each, False) for each in dict.fromkeys(found.parts)],
        "variables": explainer.variables(found.bound),
        "conditions": [explainer.condition(each) for each in found.judged],
    }


def _told(explainer: Explainer, found: AnswerRefusal) -> str:
    match found.kind:
        case "none":
            return "there is no answer then: constraints and what is denied leave none"
        case "head":
            return "it gives other atoms"
        case "missing":
            return f"{found.text} is not true"
        case "condition":
            return "this does not hold" if found.lacking else f"{found.text} is not true"
        case _:
            assert found.kind == "denied", "all kinds have a sentence"
            by = " and ".join(dict.fromkeys(explainer.occurrence_text(each) for each in found.against))
            return f"{found.text} is true, by {by}" if by else f"{found.text} is true"
