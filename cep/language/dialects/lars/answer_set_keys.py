"""Keys of an answer set program. A key consists of one column per derived predicate, and splits the program into
independent programs.

In each rule, all derived atoms must have the same variable in their key columns. Then atoms that have different values
in the key column do not depend on each other. An answer set of the program is the union of one answer set per value.
Source: Lifschitz and Turner, *Splitting a logic program* (1994).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cep.language.dialects.lars.ast import EVERY, LarsAtom, LarsLiteral
from cep.rules.answer_set_rules import AnswerSetKeys
from cep.rules.terms import Variable

Places = Mapping[str, int]
"""A key: for each derived predicate, the position of its key column."""


@dataclass(frozen=True, slots=True)
class KeyedRule:
    """A rule that is reduced to its head and its literals over derived predicates.

    - `asked`: the literals over derived predicates.
    - `inputs`: for each input relation that the rule reads, the relation's number and its variables in the rule.
    - `denied`: the numbers of the relations that the rule negates.
    """

    head: LarsAtom | None
    asked: tuple[LarsLiteral, ...]
    inputs: Mapping[int, tuple[str, ...]]
    denied: frozenset[int]

    @property
    def atoms(self) -> list[LarsAtom]:
        return [*([] if self.head is None else [self.head]), *(literal.atom for literal in self.asked)]

    def variable(self, places: Places) -> str | None:
        """Return the variable that all derived atoms of the rule have in their key columns. Return None if the key
        columns contain different variables, or a constant."""
        first, *others = (_name(atom, places[atom.predicate]) for atom in self.atoms)
        return first if all(name == first for name in others) else None

    def bound(self, names: Sequence[str]) -> bool:
        """Return True if the body gives each variable of `names` a value. Two kinds of literals can do so: derived
        atoms that are neither negated nor inside □, and input relations that contain all of `names`."""
        dealt = [known for number, known in self.inputs.items() if number not in self.denied and set(names) <= {*known}]
        derived = [literal.atom for literal in self.asked if not literal.negated and literal.modality != EVERY]
        known = {name for names in dealt for name in names}
        known |= {argument.name for atom in derived for argument in atom.arguments if isinstance(argument, Variable)}
        return known.issuperset(names)


def keys_of(rules: Sequence[KeyedRule], predicates: Sequence[str], inputs: int) -> AnswerSetKeys | None:
    """Return the key columns of the derived predicates and of the input relations. Return None if the program cannot be
    split by a key.

    `inputs`: the number of input relations.
    """
    singles = list(_singles(rules, predicates))
    for places in (singles, *([single] for single in singles)):
        if places and (keys := _joint(rules, predicates, inputs, places)) is not None:
            return keys
    return None


def _singles(rules: Sequence[KeyedRule], predicates: Sequence[str]) -> Iterator[Places]:
    """Yield keys that have one column for every predicate. Yield at most one key for each column of the first
    predicate."""
    arity = {atom.predicate: len(atom.arguments) for rule in rules for atom in rule.atoms}
    for column in range(arity.get(predicates[0], 0)):
        places = _spread(rules, {predicates[0]: column})
        for name in predicates:
            if places is not None and name not in places:
                tried = (_spread(rules, {**places, name: column}) for column in range(arity.get(name, 0)))
                places = next((spread for spread in tried if spread is not None), None)
        if places is not None:
            yield places


def _spread(rules: Sequence[KeyedRule], places: dict[str, int]) -> dict[str, int] | None:
    """Extend a key to all predicates that share a rule with a predicate of the key. Return None if no column of such a
    predicate fits.

    `places`: the key columns chosen so far. This function adds to them.
    """
    before = -1
    while before < len(places):
        before = len(places)
        for rule in rules:
            known = {_name(atom, places[atom.predicate]) for atom in rule.atoms if atom.predicate in places}
            if not known:
                continue
            (name,) = known if len(known) == 1 else (None,)
            if name is None:
                return None
            for atom in rule.atoms:
                columns = [index for index in range(len(atom.arguments)) if _name(atom, index) == name]
                if not columns:
                    return None
                places.setdefault(atom.predicate, columns[0])
                if places[atom.predicate] not in columns:
                    return None
    return places


def _name(atom: LarsAtom, column: int) -> str | None:
    term = atom.arguments[column]
    return term.name if isinstance(term, Variable) and term.name != "_" else None


def _joint(
    rules: Sequence[KeyedRule], predicates: Sequence[str], inputs: int, places: Sequence[Places]
) -> AnswerSetKeys | None:
    dealt: list[tuple[int, ...] | None] = [None] * inputs
    for rule in rules:
        if not rule.atoms:
            continue
        names = [rule.variable(place) for place in places]
        sure = [name for name in names if name is not None]
        if len(sure) < len(names) or not rule.bound(sure):
            return None
        for number, known in rule.inputs.items():
            if set(sure) <= {*known}:
                dealt[number] = tuple(map(known.index, sure))
    return AnswerSetKeys(tuple(tuple(place[name] for place in places) for name in predicates), tuple(dealt))
