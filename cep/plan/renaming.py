"""Lowered patterns under other names of their variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cep.plan import algebra
from cep.rules.terms import PolicyChoice, Variable, condition_variables, rename_condition, rename_expression


def names_in(pattern: algebra.Pattern) -> set[str]:
    """The names of all variables of a pattern."""
    match pattern:
        case algebra.Atom():
            return {a.name for a in pattern.arguments if isinstance(a, Variable)}
        case algebra.Point():
            return set()
        case algebra.Pair():
            inner = [pattern.left, pattern.right, *([] if pattern.absent is None else [pattern.absent])]
        case algebra.Either():
            inner = [pattern.left, pattern.right]
        case algebra.Unless():
            inner = [pattern.left, pattern.absent]
        case algebra.Repeat():
            inner = [pattern.chain]
        case algebra.Window():
            names = {v.name for v in pattern.by} | {r.variable for r in pattern.results}
            return names | names_in(pattern.pattern)
        case algebra.Given():
            names = {n for c in pattern.conditions for n in condition_variables(c)}
            return names | names_in(pattern.pattern)
    return {name for p in inner for name in names_in(p)}


def renamed(pattern: algebra.Pattern, names: Mapping[str, str]) -> algebra.Pattern:
    """The pattern with its variables renamed."""

    def variable(v: Variable) -> Variable:
        return Variable(names.get(v.name, v.name), v.span)

    def choice(policy: PolicyChoice) -> PolicyChoice:
        return replace(policy, by=names.get(policy.by, policy.by)) if policy.by else policy

    def chained(chain: algebra.Pattern, links: Sequence[algebra.Pattern]) -> algebra.Pattern:
        # Of the links as they are renamed, not of itself: TIMES in TIMES would be renamed twice as often at each level.
        pairs: list[algebra.Pair] = []
        for _ in links[1:]:
            assert isinstance(chain, algebra.Pair), "a chain has a pair for each link but the first"
            pairs.append(chain)
            chain = chain.left
        made = links[0]
        for pair, link in zip(reversed(pairs), links[1:]):
            made = replace(pair, left=made, right=link, policy=choice(pair.policy))
        return made

    def go(p: algebra.Pattern) -> algebra.Pattern:
        match p:
            case algebra.Atom():
                return replace(p, arguments=tuple(variable(a) if isinstance(a, Variable) else a for a in p.arguments))
            case algebra.Point():
                return p
            case algebra.Pair():
                return replace(
                    p,
                    left=go(p.left),
                    right=go(p.right),
                    absent=None if p.absent is None else go(p.absent),
                    policy=choice(p.policy),
                )
            case algebra.Either():
                return replace(p, left=go(p.left), right=go(p.right))
            case algebra.Unless():
                return replace(p, left=go(p.left), absent=go(p.absent))
            case algebra.Repeat():
                links = tuple(go(link) for link in p.links)
                return replace(p, links=links, chain=chained(p.chain, links))
            case algebra.Window():
                return replace(
                    p,
                    pattern=go(p.pattern),
                    by=tuple(variable(v) for v in p.by),
                    results=tuple(
                        replace(
                            r,
                            variable=names.get(r.variable, r.variable),
                            argument=None if r.argument is None else rename_expression(r.argument, names),
                        )
                        for r in p.results
                    ),
                )
            case algebra.Given():
                return replace(
                    p, pattern=go(p.pattern), conditions=tuple(rename_condition(c, names) for c in p.conditions)
                )

    return go(pattern)
