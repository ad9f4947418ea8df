"""Rules over triples. The terms of a rule are ids, or prefixed names before they are replaced by ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

HAS = -2
"""A pseudo-predicate: the list (subject) has the member (object)."""
TWICE = -3
"""A pseudo-predicate: the list (subject) has the member (object) at two positions."""
VALUE = -4
"""A pseudo-predicate: the object is the literal that represents the value of the subject.

Such facts exist only for values that occur in several forms.
"""

_VERBS: dict[str, str | int] = {"a": "rdf:type", "has": HAS, "holds": HAS, "twice": TWICE, "value": VALUE}

RuleTerm = str | int
"""A term of a rule: a variable (`?x`), the id of a term, or a name or number that is replaced by an id later."""


@dataclass(frozen=True)
class RuleAtom:
    """A triple pattern of a rule.

    - `asks`: True if the atom binds no variables. It is only tested when all its variables are bound.
    - `every`: True if the object is a list, and the triple must exist for each member of the list.
    """

    s: RuleTerm
    p: RuleTerm
    o: RuleTerm
    asks: bool = False
    every: bool = False

    @cached_property
    def slots(self) -> tuple[RuleTerm, RuleTerm, RuleTerm]:
        return self.s, self.p, self.o

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(slot for slot in self.slots if isinstance(slot, str)))

    def with_slots(self, change: Callable[[RuleTerm], RuleTerm]) -> RuleAtom:
        return RuleAtom(change(self.s), change(self.p), change(self.o), self.asks, self.every)


@dataclass(frozen=True)
class TripleRule:
    """A rule: if the body holds and the two terms of each pair in `differ` are different, then the head holds.

    If the head is None, the body describes a contradiction. In `differ`, the first term of each pair is a variable.
    `name`: the rule's name in the W3C's tables.
    """

    name: str
    body: tuple[RuleAtom, ...]
    head: RuleAtom | None
    differ: tuple[tuple[str, RuleTerm], ...] = ()

    @cached_property
    def twins(self) -> tuple[str, str] | None:
        """The variables y and z of a head `?y owl:sameAs ?z`, if exchanging them does not change the body (as in
        prp-fp). Otherwise None.

        For given values of the other variables, such a rule makes all values of y equal. So it is not necessary to
        derive every pair of these values.
        """
        if self.head is None or not (isinstance(self.head.s, str) and isinstance(self.head.o, str)):
            return None
        y, z = self.head.s, self.head.o
        turned = {atom.with_slots(lambda slot: z if slot == y else y if slot == z else slot) for atom in self.body}
        together = any(y in atom.variables and z in atom.variables for atom in self.body)
        return (y, z) if y != z and turned == set(self.body) and not together else None

    def with_slots(self, change: Callable[[RuleTerm], RuleTerm]) -> TripleRule:
        """Return the rule with `change` applied to each of its terms."""
        head = None if self.head is None else self.head.with_slots(change)
        differ = tuple((name, change(slot)) for name, slot in self.differ)
        return TripleRule(self.name, tuple(atom.with_slots(change) for atom in self.body), head, differ)

    @property
    def number(self) -> str | None:
        """The text of the number that is an object in the body, such as the 1 of a maximum cardinality, or None."""
        return next((atom.o for atom in self.body if isinstance(atom.o, str) and atom.o.isdigit()), None)


@cache
def rules_of(table: str) -> tuple[TripleRule, ...]:
    """Parse a table of rules: `name  atom . atom . ?x != ?y -> head`. A head is an atom or `false`.

    A line that begins with a space continues the previous line. Terms of the result are names and numbers, not ids.
    """
    rules = []
    for line in filter(None, table.replace("\n ", " ").splitlines()):
        name, rest = line.split(maxsplit=1)
        body, _, head = rest.partition("->")
        parts = [part.split() for part in body.split(" . ") if part.strip()]
        atoms = tuple(_atom(words) for words in parts if words[1] != "!=")
        differ = tuple((words[0], words[2]) for words in parts if words[1] == "!=")
        rules.append(TripleRule(name, atoms, None if head.strip() == "false" else _atom(head.split()), differ))
    return tuple(rules)


def _atom(words: list[str]) -> RuleAtom:
    every = "every" in words
    s, p, o = (word for word in words if word != "every")
    return RuleAtom(s, _VERBS.get(p, p), o, asks=every or p == "holds", every=every)
