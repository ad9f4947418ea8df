"""Events that replace `happensAt(end(F=V), T)` in clauses on which the fluent F itself depends.

F=V ends at T if it holds until T, and at T a clause terminates it or initiates another value of F. A rule cannot use
the end of a fluent that depends on the rule's own head. It can use an event that happens when the fluent ends, because
the conditions of this event only test earlier times. A deadline cannot be expressed as such an event. So the ends of
fluents that have a deadline are not replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

from cep.language.dialects.rtec.description import EventDescription, flat, fluent
from cep.language.dialects.rtec.signatures import EDGES, Signatures
from cep.language.dialects.rtec.terms import Compound, Term
from cep.language.syntax import ast
from cep.rules.terms import Call, Comparison, Condition, Expression, Variable, fluent_variables


class CircularEnds:
    """The events that replace the ends of fluents on a cycle of fluents.

    `used`: the names of the fluents whose ends have been replaced so far.
    """

    def __init__(self, description: EventDescription, known: Signatures) -> None:
        self.source, self.known = description.source, known
        self.deadlines = {flat(self.source, deadline.before.term)[0] for deadline in description.deadlines}
        self.used: dict[str, None] = {}
        self._needs: dict[str, set[str]] = {}
        for clause in description.clauses:
            head = clause.event if clause.fluent is None else clause.fluent.term
            if head is not None:
                own = self._needs.setdefault(flat(self.source, head)[0], set())
                own.update(name for condition in clause.body for name in self._asked(condition))

    def _asked(self, term: Term) -> list[str]:
        """Return the names of the events and fluents that a condition uses."""
        if not isinstance(term, Compound):
            return []
        if term.name == "\\+":
            return self._asked(term.arguments[0])
        if term.name not in ("happensAt", "holdsAt", "holdsFor") or not isinstance(term.arguments[0], Compound):
            return []
        asked = term.arguments[0]
        if term.name == "happensAt" and asked.name in EDGES and len(asked.arguments) == 1:
            (inner,) = asked.arguments
            asked = fluent(self.source, inner).term
        elif term.name != "happensAt":
            asked = fluent(self.source, asked).term
        return [flat(self.source, asked)[0]]

    def event(self, name: str, head: str) -> str | None:
        """Return the event that replaces the end of the fluent `name` in a clause whose head is `head`.

        Return None if the clause can use the end itself, or if the fluent has a deadline.
        """
        if name in self.deadlines or name not in self.known.simple or not self._reaches(name, head):
            return None
        self.used[name] = None
        return self.ended(name)

    def ended(self, name: str) -> str:
        ended_name = f"ended_{name}"
        while ended_name in self.known.kinds:
            ended_name += "_"
        return ended_name

    def _reaches(self, name: str, head: str) -> bool:
        seen, waiting = {name}, [name]
        while waiting:
            for other in self._needs.get(waiting.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return head in seen

    def helpers(self, rules: Sequence[ast.Statement]) -> list[ast.EventRule]:
        """Return the rules that derive the replacement events.

        `rules`: the translated rules of the program. The result contains one rule for each of them that initiates or
        terminates a fluent whose end is replaced.
        """
        helpers = []
        for rule in rules:
            if not isinstance(rule, ast.FluentRule) or rule.name not in self.used or rule.body is None:
                continue
            inner = rule.body.pattern if isinstance(rule.body, ast.Where) else rule.body
            assert rule.value is not None, "every fluent of RTEC has a value"
            if not isinstance(inner, ast.TimePoint):  # nothing ends when time begins
                helpers.append(self._rule(rule, rule.value))
        return helpers

    def _rule(self, rule: ast.FluentRule, value: Expression) -> ast.EventRule:
        body, span = rule.body, rule.head_span
        assert body is not None, "it has one"
        name, own = "Before", {*body.variables(), *fluent_variables(rule.arguments, value)}
        while name in own:
            name += "_"
        held: Expression = Variable(name, span)
        if rule.verb == "terminate" and not (isinstance(value, Variable) and value.name == "_"):
            held = value
        asked: list[Condition] = [Comparison("=", Call(rule.name, rule.arguments, span), held, span)]
        if rule.verb == "initiate":
            asked.append(Comparison("!=", held, value, span))
        inner, conditions = (body.pattern, body.conditions) if isinstance(body, ast.Where) else (body, ())
        pattern = ast.Where(inner, (*conditions, *asked), inner.span)
        return ast.EventRule(self.ended(rule.name), (*rule.arguments, held), pattern, None, rule.span, span)
