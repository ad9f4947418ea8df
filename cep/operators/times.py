"""`p TIMES n`, a chain of SEQ. A variable that the rest of the rule uses has the same value in all repetitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.operators.pair import Pair
from cep.operators.where import decided
from cep.plan.binarise import Binariser, Component
from cep.plan.lint.ranges import Ranges, Searcher
from cep.plan.pattern import Pattern, PatternProperties, rechosen

if TYPE_CHECKING:
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher


@dataclass(frozen=True, slots=True)
class Repeat(Pattern):
    """`pattern TIMES count`. It has no node of its own.

    `links`: the copies of the pattern. The local variables have different names in each copy. `chain`: the pattern that
    connects the links by SEQ.
    """

    links: tuple[Pattern, ...]
    chain: Pattern
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties((self.links[0],), through=(self.chain,), copies=len(self.links), whole=self.chain)

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        links = tuple(link.renamed(names) for link in self.links)
        return replace(self, links=links, chain=_chained(self.chain, links, names))

    def decider(self) -> Pattern:
        return self.chain.decider()

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        if len(self.links) > 1 and isinstance(self.chain, Pair):
            return self.chain.paired(builder, components, False)
        node, places = self.chain.lower(builder, (), bounded)
        return decided(builder, node, places, components, self.span), places

    def ranges(self, searcher: Searcher) -> Ranges:
        return self.links[0].ranges(searcher)

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.chain, bound)


def _chained(chain: Pattern, links: Sequence[Pattern], names: Mapping[str, str]) -> Pattern:
    """Return the chain with its links replaced by `links`, in which variables are already renamed by `names`.

    Renaming the chain itself would take exponential time for nested TIMES.
    """
    pairs: list[Pair] = []
    for _ in links[1:]:
        assert isinstance(chain, Pair), "a chain has a pair for each link but the first"
        pairs.append(chain)
        chain = chain.left
    joined = links[0]
    for pair, link in zip(reversed(pairs), links[1:]):
        joined = replace(pair, left=joined, right=link, policy=rechosen(pair.policy, names))
    return joined
