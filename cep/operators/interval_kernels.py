"""What a relation asks of two intervals, and the interval of the pair."""

from __future__ import annotations

from cep.core.kernels import njit

RELATIONS = {"SEQ": 0, "AND": 1, "PAR": 2, "EQUALS": 3, "MEETS": 4, "DURING": 5, "STARTS": 6, "FINISHES": 7}
SEQ, AND, PAR, EQUALS, MEETS, DURING, STARTS, FINISHES = range(8)


@njit(cache=True, inline="always")
def relates(relation, a, b, c, d):  # type: ignore[no-untyped-def]
    """Whether the relation holds between L = [a, b] and R = [c, d] (language reference, table of patterns)."""
    if relation == SEQ:
        return b < c
    if relation == AND:
        return True
    if relation == PAR:
        return max(a, c) < min(b, d)
    if relation == EQUALS:
        return a == c and b == d
    if relation == MEETS:
        return b == c
    if relation == DURING:
        return c < a and b < d
    if relation == STARTS:
        return a == c and b < d
    return b == d and c < a


@njit(cache=True, inline="always")
def begins(relation, a, c):  # type: ignore[no-untyped-def]
    """The start of the pair's interval; its end is the later of the two ends."""
    if relation == AND or relation == PAR:
        return min(a, c)
    if relation == DURING or relation == FINISHES:
        return c
    return a
