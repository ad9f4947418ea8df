"""Explanations of atoms in answer streams as JSON. `cep.connectors.why.text` explains events.

An `answer` has the keys {time, rule, variables, conditions, literals}. A literal has the keys {text, negated, parts,
left_out}; its `parts` are nodes. A rule that does not derive the atom has the same description as a rule that does not
derive an event (see `cep.connectors.why.text`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cep.explain.nodes import AnswerNode, AnswerRefusal

if TYPE_CHECKING:
    from cep.connectors.why.text import Explainer

Json = dict[str, Any]


def answer(explainer: Explainer, node: AnswerNode) -> Json:
    """Return the rule that derives an atom, and the literals of the rule, as JSON."""
    literals = []
    for literal in node.literals:
        shown: Json = {
            "text": literal.text,
            "negated": literal.negated,
            "parts": [explainer.node(part) for part in literal.parts],
        }
        literals.append(shown | ({"left_out": literal.left_out} if literal.left_out else {}))
    return {
        "time": explainer.time(node.time),
        "rule": {"name": None} | explainer.place(node.span),
        "variables": explainer.variables(node.bound),
        "conditions": [explainer.condition(condition) for condition in node.judged],
        "literals": literals,
    }


def refusal(explainer: Explainer, refused: AnswerRefusal) -> Json:
    """Explain why a rule does not derive the atom."""
    failure: Json = {"kind": refused.kind, "told": _told(explainer, refused)}
    if refused.lacking:
        failure["conditions"] = [explainer.condition(condition) for condition in refused.lacking]
    if refused.forbidden:
        failure["forbidden"] = [explainer.place(constraint) for constraint in refused.forbidden]
    return {
        "rule": {"name": None} | explainer.place(refused.span),
        "since": None,
        "failure": failure,
        "parts": [explainer.occurrence(part, False) for part in dict.fromkeys(refused.parts)],
        "variables": explainer.variables(refused.bound),
        "conditions": [explainer.condition(condition) for condition in refused.judged],
    }


def _told(explainer: Explainer, refused: AnswerRefusal) -> str:
    match refused.kind:
        case "none":
            return "there is no answer then: constraints and negated atoms exclude all"
        case "head":
            return "it derives other atoms"
        case "missing":
            return f"{refused.text} is not true"
        case "condition":
            return "this does not hold" if refused.lacking else f"{refused.text} is not true"
        case _:
            assert refused.kind == "denied", "all kinds have a sentence"
            by = " and ".join(dict.fromkeys(explainer.occurrence_text(occurrence) for occurrence in refused.against))
            return f"{refused.text} is true, by {by}" if by else f"{refused.text} is true"
