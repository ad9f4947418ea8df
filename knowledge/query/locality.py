"""Locality of a graph pattern: each answer depends on the triples found from the binding of one variable, its key.

A pattern is taken apart into blocks of triples, each with the triples around it by which it is joined to the key. If
each block is joined to it, the answers with one key depend on no triple but those that the blocks find from it. So a
change only makes those keys be asked again from which a changed triple is found, and of what is found from them alone.

Where what is around a block only narrows it row by row (a group, a UNION), all of its variables join the block. A block
of an OPTIONAL, a MINUS or a test whether something exists is joined only by variables that are bound beside it in any
case: what else is known of a row does not decide whether such a block has an answer for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cep.knowledge.query.group_patterns import GroupElement, elements, nested_groups
from cep.knowledge.query.sparql import ConstantTerm, basic

Slots = tuple[str | ConstantTerm, str | ConstantTerm, str | ConstantTerm]

_MOST = 16  # ways through UNIONs


@dataclass(frozen=True, slots=True)
class PatternBlock:
    """Triple patterns `own`, which are joined by those `around` them to the variable `key`."""

    around: tuple[Slots, ...]
    own: tuple[Slots, ...]
    key: str


@dataclass(frozen=True, slots=True)
class Locality:
    """A variable that every answer binds, and the blocks of the pattern."""

    key: str
    blocks: tuple[PatternBlock, ...]


def locality(text: str, prefixes: Mapping[str, str]) -> Locality | None:
    """Describe which triples the answers of a well-formed pattern depend on, or return None if they may depend on all:
    for a path, GRAPH, a subquery, or triples that share no variable that is always bound.
    """
    try:
        for key in _candidates(text, prefixes):
            found = _Blocks(prefixes)
            try:
                found.group(text, [_Way((), key, frozenset([key]))], frozenset())
            except _NotJoined:
                continue
            return Locality(key, tuple(dict.fromkeys(found.blocks)))
    except _Unbounded:
        pass
    return None


class _Unbounded(Exception):
    """Raised if answers may depend on any triple, whatever the key."""


class _NotJoined(Exception):
    """Raised if answers may depend on any triple with this key."""


@dataclass(frozen=True, slots=True)
class _Way:
    """The triple patterns around a block, for one choice of alternatives in the UNIONs before it. Variables that are
    not visible get names that no pattern can use.
    """

    patterns: tuple[Slots, ...]
    key: str
    visible: frozenset[str]


def _candidates(text: str, prefixes: Mapping[str, str]) -> list[str]:
    """The variables of triples at the top, those that stand in the most triples first."""
    found = [part for part in elements(text) if part.kind == "triples"]
    slots = [name for each in _triples(text, found, prefixes, 0) for name in set(_names([each]))]
    counted = Counter(name for name in slots if not name.startswith(("[", "_")))
    everywhere = Counter(name for part in elements(text) for name in part.variables)
    return sorted(counted, key=lambda name: (-everywhere[name], -counted[name], slots.index(name)))


def _triples(text: str, some: Sequence[GroupElement], prefixes: Mapping[str, str], number: int) -> tuple[Slots, ...]:
    found = basic("{ " + " . ".join(text[part.start : part.end] for part in some) + " }", prefixes)
    if found is None:
        raise _Unbounded
    # A blank node in brackets is numbered within one text.
    named = [[f"{s}{number}" if isinstance(s, str) and s[0] == "[" else s for s in each.slots] for each in found]
    return tuple((s, p, o) for s, p, o in named)


def _names(patterns: Iterable[Slots]) -> list[str]:
    return [slot for pattern in patterns for slot in pattern if isinstance(slot, str)]


class _Blocks:
    """The blocks of a pattern, for one key."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self.prefixes = prefixes
        self.blocks: list[PatternBlock] = []
        self.made = 0

    def group(self, text: str, ways: list[_Way], outside: frozenset[str]) -> tuple[list[_Way], frozenset[str]]:
        """Take a group in braces, joined by some ways; gives the ways behind it and the variables that it binds in any
        case. `outside`: variables around the group that its FILTERs see."""
        bound: frozenset[str] = frozenset()
        found, at = elements(text), 0
        tests: list[GroupElement] = []
        while at < len(found):
            part, at = found[at], at + 1
            match part.kind:
                case "triples":
                    some = [part]
                    while at < len(found) and found[at].kind in ("triples", "filter"):
                        (some if found[at].kind == "triples" else tests).append(found[at])
                        at += 1
                    self.made += 1
                    own = _triples(text, some, self.prefixes, self.made)
                    ways = [self._joined(way, own) for way in ways]
                    bound |= set(_names(own))
                case "filter":
                    tests.append(part)
                case "optional":
                    self._inner(text, part, ways, bound, bound)
                case "minus" | "bind":
                    self._inner(text, part, ways, bound, frozenset())
                case "group":
                    branches = [
                        self.group(text[each.start : each.end], ways, frozenset()) for each in nested_groups(text, part)
                    ]
                    ways = [way for branch, _ in branches for way in branch]
                    bound |= frozenset.intersection(*(certain for _, certain in branches))
                    if len(ways) > _MOST:
                        raise _Unbounded
                case "values":
                    pass
                case _:
                    raise _Unbounded
        for part in tests:
            self._inner(text, part, ways, bound | outside, frozenset())
        return ways, bound

    def _inner(
        self, text: str, part: GroupElement, ways: Sequence[_Way], bound: frozenset[str], outside: frozenset[str]
    ) -> None:
        for each in nested_groups(text, part):
            self.group(text[each.start : each.end], [self._hidden(way, bound) for way in ways], outside)

    def _joined(self, way: _Way, own: tuple[Slots, ...]) -> _Way:
        """A way with triple patterns, which are a block."""
        reached, left = {way.key}, [*way.patterns, *own]
        while near := [pattern for pattern in left if not reached.isdisjoint(_names([pattern]))]:
            reached.update(_names(near))
            left = [pattern for pattern in left if pattern not in near]
        if any(pattern in own for pattern in left):
            raise _NotJoined
        self.blocks.append(PatternBlock(way.patterns, own, way.key))
        return _Way((*way.patterns, *own), way.key, way.visible | set(_names(own)))

    def _hidden(self, way: _Way, visible: frozenset[str]) -> _Way:
        """A way of which only these variables join what comes."""
        self.made += 1

        def name(slot: str | ConstantTerm) -> str | ConstantTerm:
            return slot if not isinstance(slot, str) or slot in visible else f"{slot}~{self.made}"

        patterns = tuple((name(s), name(p), name(o)) for s, p, o in way.patterns)
        key = name(way.key)
        assert isinstance(key, str), "a variable stays one"
        return _Way(patterns, key, visible)
