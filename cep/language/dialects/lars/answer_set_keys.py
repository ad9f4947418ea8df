"""Which columns keep the rules of an answer set program apart: what derives atoms of one key asks no others.

Where every rule has one variable at that column of all it derives and asks of what is derived, the rules say of each
value by itself what follows, and an answer set of all is one of each value (Lifschitz, Turner, *Splitting a logic
program*, 1994).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cep.language.dialects.lars.ast import EVERY, LarsAtom, LarsLiteral
from cep.rules.answer_set_rules import AnswerSetKeys
from cep.rules.terms import Variable

Places = Mapping[str, int]
"""The key column of each derived predicate."""


@dataclass(frozen=True, slots=True)
class KeyedRule:
    """A rule's head and its literals over derived predicates; `inputs`: the variables of its other relations, by
    number."""

    head: LarsAtom | None
    asked: tuple[LarsLiteral, ...]
    inputs: Mapping[int, tuple[str, ...]]
    denied: frozenset[int]

    @property
    def atoms(self) -> list[LarsAtom]:
        return [*([] if self.head is None else [self.head]), *(each.atom for each in self.asked)]

    def variable(self, places: Places) -> str | None:
        """The one variable that stands at these columns of all its atoms."""
        first, *others = (_name(atom, places[atom.predicate]) for atom in self.atoms)
        return first if all(name == first for name in others) else None

    def bound(self, names: Sequence[str]) -> bool:
        """Return True if relations that are dealt out by all these names, or derived atoms, bind each of them."""
        dealt = [known for number, known in self.inputs.items() if number not in self.denied and set(names) <= {*known}]
        derived = [each.atom for each in self.asked if not each.negated and each.modality != EVERY]
        known = {name for each in dealt for name in each}
        known |= {each.name for atom in derived for each in atom.arguments if isinstance(each, Variable)}
        return known.issuperset(names)


def keys_of(rules: Sequence[KeyedRule], predicates: Sequence[str], inputs: int) -> AnswerSetKeys | None:
    """The columns, of all derived predicates and of so many inputs; None: there are none."""
    singles = list(_singles(rules, predicates))
    for places in (singles, *([one] for one in singles)):
        if places and (made := _joint(rules, predicates, inputs, places)) is not None:
            return made
    return None


def _singles(rules: Sequence[KeyedRule], predicates: Sequence[str]) -> Iterator[Places]:
    """One for each column of the first predicate that can be a key by itself."""
    arity = {atom.predicate: len(atom.arguments) for rule in rules for atom in rule.atoms}
    for column in range(arity.get(predicates[0], 0)):
        places = _spread(rules, {predicates[0]: column})
        for name in predicates:
            if places is not None and name not in places:
                tried = (_spread(rules, {**places, name: at}) for at in range(arity.get(name, 0)))
                places = next((each for each in tried if each is not None), None)
        if places is not None:
            yield places


def _spread(rules: Sequence[KeyedRule], places: dict[str, int]) -> dict[str, int] | None:
    """The columns of all that rules bring together with these; None: they do not fit."""
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
                columns = [at for at in range(len(atom.arguments)) if _name(atom, at) == name]
                if not columns:
                    return None
                places.setdefault(atom.predicate, columns[0])
                if places[atom.predicate] not in columns:
                    return None
    return places


def _name(atom: LarsAtom, column: int) -> str | None:
    """The variable there."""
    term = atom.arguments[column]
    return term.name if isinstance(term, Variable) and term.name != "_" else None


def _joint(
    rules: Sequence[KeyedRule], predicates: Sequence[str], inputs: int, places: Sequence[Places]
) -> AnswerSetKeys | None:
    dealt: list[tuple[int, ...] | None] = [None] * inputs
    for rule in rules:
        if not rule.atoms:
            continue
        names = [rule.variable(each) for each in places]
        sure = [name for name in names if name is not None]
        if len(sure) < len(names) or not rule.bound(sure):
            return None
        for number, known in rule.inputs.items():
            if set(sure) <= {*known}:
                dealt[number] = tuple(map(known.index, sure))
    return AnswerSetKeys(tuple(tuple(each[name] for each in places) for name in predicates), tuple(dealt))
