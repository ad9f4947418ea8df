"""Random programs most of whose rules join on one variable. They can run in buckets, with another key in each rule."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.condition_maker import Kind, Rule
from tests.program_maker import VALUES, Maker
from tests.programs import Program, drawn, finished, stream

KEY = "K"


@dataclass
class KeyedMaker(Maker):
    """Patterns in which most events carry the variable K, by an argument that differs from rule to rule; those of
    `small` never do."""

    place: int = 0
    small: set[str] = field(default_factory=set)

    def atom(self, pool: dict[str, str] | None = None) -> tuple[str, dict[str, str]]:
        if "point" in self.rule.allow and self.chance(3):
            return super().atom(pool)
        self.rule.leaves -= 1
        kind = self.pick(self.kinds)
        keyed = kind.types and kind.name not in self.small and self.chance(88) and (pool is None or KEY in pool)
        place = min(self.place, len(kind.types) - 1)
        bound: dict[str, str] = {}
        arguments = []
        for position, wanted in enumerate(kind.types):
            if keyed and position == place and wanted in ("int", "float"):
                bound.setdefault(KEY, wanted)
                arguments.append(KEY)
            else:
                arguments.append(self.argument(wanted, bound, pool))
        return f"{kind.name}({', '.join(arguments)})" if arguments else kind.name, bound

    def aggregate(self, text: str, bound: dict[str, str], *windows: Any) -> tuple[str, dict[str, str]]:
        made, kept = super().aggregate(text, bound, *windows)
        if KEY in bound and KEY not in kept and self.chance(85):
            made = f"{made[:-1]}{',' if ' BY ' in made[len(text) :] else ' BY'} {KEY})"
            kept = kept | {KEY: bound[KEY]}
        return made, kept

    def head(self, bound: dict[str, str], wanted: tuple[str, ...] | None, bounded: bool) -> tuple[str, tuple[str, ...]]:
        text, types = super().head(bound, wanted, bounded)
        if wanted is None and KEY in bound and self.chance(75):
            rest = text[1:-1]
            before = self.chance(60)
            if not rest:
                return f"({KEY})", (bound[KEY],)
            made = f"({KEY}, {rest})" if before else f"({rest}, {KEY})"
            return made, ((bound[KEY], *types) if before else (*types, bound[KEY]))
        return text, types


def keyed(random: Random, policies: bool = True) -> Program:
    """2 to 5 rules over two or three events of two arguments and a small one; some on what others derive, which may
    come from outside as well."""
    points = random.randrange(2) == 0
    inputs = [Kind(name, ("int", "int"), (False, False), False, False) for name in "abc"[: random.choice((2, 3))]]
    maker = KeyedMaker(random, list(inputs), policies=policies, small={"s"})
    small = Kind("s", ("int",), (False,), False, False)
    heads: list[Kind] = []
    for _ in range(random.choice((2, 3, 3, 4, 5))):
        maker.rule = Rule(allow=frozenset({"unless", "aggregate", "point"}), leaves=random.choice((2, 3, 3, 4)))
        maker.place = random.choice((0, 0, 1))
        maker.kinds = [*inputs, *heads, *heads, *([small] if random.randrange(3) == 0 else [])]
        if policies and maker.chance(30):
            maker.lines.append(f"policy {maker.choice({})}.")
        if heads and maker.chance(25):  # another rule for an event, perhaps a recursive one
            again = maker.pick(heads)
            if maker.chance(60):
                maker.kinds = [kind for kind in maker.kinds if kind not in heads]
            maker.statement(again.name, maker.pick((1, 2)), again.types, bounded=True)
        else:
            heads.append(maker.statement("efghi"[len(heads)], maker.pick((1, 2, 2)), None))
            if maker.chance(15) and set(heads[-1].types) <= set(VALUES):
                heads[-1] = replace(heads[-1], declared=True, optional=tuple(True for _ in heads[-1].types))
    outside = [*inputs, small, *(kind for kind in heads if kind.declared)]
    return finished(maker, outside, stream(random, outside, points, 16, maker.lines))


def keyed_programs(**options: Any) -> st.SearchStrategy[Program]:
    """Programs that split into stages. `policies`: may there be others than unrestricted."""
    return drawn(keyed, options)
