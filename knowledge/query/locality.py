"""Locality of a graph pattern: each answer depends only on triples that are reachable from the value of one variable.

This variable is called the key. The pattern is split into blocks of triple patterns. Each block is stored with the
triple patterns in the rest of the pattern that join it to the key. If every block is joined to the key, the answers for
a value of the key depend only on the triples that the blocks reach from this value. So after a change, the pattern is
evaluated only for the values from which a changed triple is reachable.

A group or a UNION is joined with the rest of the pattern row by row. Therefore any variable of the rest may join its
blocks to the key. The blocks of an OPTIONAL, a MINUS or an EXISTS may use only variables that are bound in every row. A
variable that is unbound in a row would not restrict the answers of the block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cep.knowledge.query.group_patterns import GroupElement, elements, nested_groups
from cep.knowledge.query.sparql import ConstantTerm, basic

Slots = tuple[str | ConstantTerm, str | ConstantTerm, str | ConstantTerm]

_MOST = 16  # the maximum number of ways through UNIONs


@dataclass(frozen=True, slots=True)
class PatternBlock:
    """A block of triple patterns of a pattern.

    - `own`: the triple patterns of the block.
    - `around`: the triple patterns in the rest of the pattern that join the block to the key.
    - `key`: the variable that is the key.
    """

    around: tuple[Slots, ...]
    own: tuple[Slots, ...]
    key: str


@dataclass(frozen=True, slots=True)
class Locality:
    """The key and the blocks of a pattern. Every answer to the pattern binds the key."""

    key: str
    blocks: tuple[PatternBlock, ...]


def locality(text: str, prefixes: Mapping[str, str]) -> Locality | None:
    """Return the key and the blocks of a valid pattern. Return None if its answers may depend on all triples.

    The result is None if the pattern contains a path, GRAPH or a subquery, or if some triple patterns share no variable
    that is always bound.
    """
    try:
        for key in _candidates(text, prefixes):
            reader = _Blocks(prefixes)
            try:
                reader.group(text, [_Way((), key, frozenset([key]))], frozenset())
            except _NotJoined:
                continue
            return Locality(key, tuple(dict.fromkeys(reader.blocks)))
    except _Unbounded:
        pass
    return None


class _Unbounded(Exception):
    """The error for a pattern for which no variable can be the key, because its answers may depend on any triple."""


class _NotJoined(Exception):
    """The error for a block that is not joined to the chosen key, so that another variable must be tried as the key."""


@dataclass(frozen=True, slots=True)
class _Way:
    """The triple patterns that are joined with a block, for one choice of an alternative in each preceding UNION.

    Only the variables in `visible` may join the block. All others are renamed to names that no pattern contains.
    """

    patterns: tuple[Slots, ...]
    key: str
    visible: frozenset[str]


def _candidates(text: str, prefixes: Mapping[str, str]) -> list[str]:
    """Return the variables that may be the key: those in triples outside of nested groups, most frequent first."""
    triple_parts = [part for part in elements(text) if part.kind == "triples"]
    slots = [name for triple in _triples(text, triple_parts, prefixes, 0) for name in set(_names([triple]))]
    counted = Counter(name for name in slots if not name.startswith(("[", "_")))
    everywhere = Counter(name for part in elements(text) for name in part.variables)
    return sorted(counted, key=lambda name: (-everywhere[name], -counted[name], slots.index(name)))


def _triples(text: str, some: Sequence[GroupElement], prefixes: Mapping[str, str], number: int) -> tuple[Slots, ...]:
    patterns = basic("{ " + " . ".join(text[part.start : part.end] for part in some) + " }", prefixes)
    if patterns is None:
        raise _Unbounded
    # Blank nodes in brackets are numbered per text.
    named = [[f"{s}{number}" if isinstance(s, str) and s[0] == "[" else s for s in row.slots] for row in patterns]
    return tuple((s, p, o) for s, p, o in named)


def _names(patterns: Iterable[Slots]) -> list[str]:
    return [slot for pattern in patterns for slot in pattern if isinstance(slot, str)]


class _Blocks:
    """The blocks of a pattern, collected for one choice of the key."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self.prefixes = prefixes
        self.blocks: list[PatternBlock] = []
        self.made = 0

    def group(self, text: str, ways: list[_Way], outside: frozenset[str]) -> tuple[list[_Way], frozenset[str]]:
        """Add the blocks of a group in braces.

        - `ways`: the triple patterns before the group, once for each choice of UNION alternatives.
        - `outside`: variables outside of the group that the group's FILTERs may use.

        Return the triple patterns up to the end of the group, in the same form as `ways`, and the variables that the
        group always binds.
        """
        bound: frozenset[str] = frozenset()
        parts, position = elements(text), 0
        tests: list[GroupElement] = []
        while position < len(parts):
            part, position = parts[position], position + 1
            match part.kind:
                case "triples":
                    some = [part]
                    while position < len(parts) and parts[position].kind in ("triples", "filter"):
                        (some if parts[position].kind == "triples" else tests).append(parts[position])
                        position += 1
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
                        self.group(text[nested_group.start : nested_group.end], ways, frozenset())
                        for nested_group in nested_groups(text, part)
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
        for nested_group in nested_groups(text, part):
            self.group(text[nested_group.start : nested_group.end], [self._hidden(way, bound) for way in ways], outside)

    def _joined(self, way: _Way, own: tuple[Slots, ...]) -> _Way:
        """Add the triple patterns `own` as a block. Return a copy of `way` that also contains these patterns.

        Raises _NotJoined if some of these patterns are not connected to the key.
        """
        reached, left = {way.key}, [*way.patterns, *own]
        while near := [pattern for pattern in left if not reached.isdisjoint(_names([pattern]))]:
            reached.update(_names(near))
            left = [pattern for pattern in left if pattern not in near]
        if any(pattern in own for pattern in left):
            raise _NotJoined
        self.blocks.append(PatternBlock(way.patterns, own, way.key))
        return _Way((*way.patterns, *own), way.key, way.visible | set(_names(own)))

    def _hidden(self, way: _Way, visible: frozenset[str]) -> _Way:
        self.made += 1

        def name(slot: str | ConstantTerm) -> str | ConstantTerm:
            return slot if not isinstance(slot, str) or slot in visible else f"{slot}~{self.made}"

        patterns = tuple((name(s), name(p), name(o)) for s, p, o in way.patterns)
        key = name(way.key)
        assert isinstance(key, str), "a variable stays one"
        return _Way(patterns, key, visible)
