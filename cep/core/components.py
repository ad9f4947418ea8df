"""Strongly connected components of a graph: groups of nodes that depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def components(nodes: Iterable[T], needs: Callable[[T], Iterable[T]]) -> list[list[T]]:
    """Return the strongly connected components of a graph, dependencies first.

    `needs`: a function that returns the nodes on which a node depends. Nodes that are not in `nodes` are ignored. As
    far as dependencies permit, the result has the order of `nodes`. The algorithm is Tarjan's (1972), without
    recursion.
    """
    position = {node: i for i, node in enumerate(nodes)}
    number: dict[T, int] = {}
    low: dict[T, int] = {}
    stack: list[T] = []
    on_stack: set[T] = set()
    ordered: list[list[T]] = []
    for root in position:
        if root in number:
            continue
        work = [(root, iter([n for n in needs(root) if n in position]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in number:
                    number[other] = low[other] = len(number)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter([n for n in needs(other) if n in position])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component: list[T] = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    ordered.append(sorted(component, key=position.__getitem__))
    return ordered
