"""What the kernel `pair` is given: the numbers of a goal, and its arrays in groups.

A tuple of arrays is one argument of a compiled kernel, which takes it apart at no cost; there it gets names.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cep.core.relation import Table
from cep.operators.goals.intrinsics import inside
from cep.operators.goals.pairs.interval_kernels import MOST_BOUNDS
from cep.operators.goals.store import NEXT, PREVIOUS

Ints = NDArray[np.int64]

POLICIES = {"unrestricted": 0, "recent": 1, "chronological": 2}
UNRESTRICTED, RECENT, CHRONOLOGICAL = range(3)
TIES = {"longest": 0, "shortest": 1, "by": 2}

# places in `spec`
(
    S_POLICY, S_TIE, S_WITHIN, S_POINT, S_STORE_RIGHT, S_ABSENCE, S_FEEDBACK,
    S_BY_LEFT, S_BY_RIGHT, S_BY_FLOAT, S_WIDTH_LEFT, S_WIDTH_RIGHT,
    S_SUPERSEDES, S_REACH_LEFT, S_REACH_RIGHT, S_LEAST_GAP, S_MOST_GAP, S_BOUNDS,
) = range(18)  # fmt: skip
SPEC = S_BOUNDS + 1 + 3 * MOST_BOUNDS

# places in `state`: rows taken of each input, rows in the stores, pairs made; and of an arrival whose partners were
# not all tried for want of room (A_RESUME: the next of them, else -1) what it was; of what is made at once whether it
# is in order
A_I, A_J, A_X, A_COUNT, A_ABSENT, A_MADE, A_RESUME, A_SIDE, A_ROW, A_MINE, A_FLOOR, A_IN_ORDER = range(12)
STATE = 12

# where the key of the absent event comes from: no absence, from the join key, the right side, the left side, both
NO_ABSENCE, ABSENT_COMMON, ABSENT_RIGHT, ABSENT_LEFT, ABSENT_BOTH = range(5)


class SideRows(NamedTuple):
    """The occurrences that come to a side, the slot of each one's key, and, where the side knows it, the slot of the
    key of what is to be absent; -1 for none."""

    table: Table
    slots: Ints
    absent: Ints


class Waiting(NamedTuple):
    """A store (`cep.operators.goals.store`): what the search reads of its rows, the rest of them, and the chains of
    its slots."""

    hot: Ints
    cold: Ints
    chains: Ints


class AbsentKey(NamedTuple):
    """The key of what is to be absent where only both sides know it: for each part a side (0: left, 1: right) and a
    column, the index (`places`) and the keys of `Keys`, and room for a key."""

    columns: Ints
    places: Ints
    keys: Ints
    key: Ints


class DecidingCode(NamedTuple):
    """A program that decides, its literals, and room: for its stack and for the arguments of the arrival."""

    code: Ints
    literals: Ints
    stack: Ints
    current: Ints


class HeadCode(NamedTuple):
    """What a recursive rule makes of a pair: programs, literals, where each argument's program ends, and room for the
    arguments."""

    code: Ints
    literals: Ints
    ends: Ints
    made: Ints


class TurnRow(NamedTuple):
    """The occurrence whose turn it is: its side (0: left, 1: right), its row in the table of that side, its slot, and
    its interval."""

    side: int
    row: int
    slot: int
    begin: int
    now: int


class PairSpec(NamedTuple):
    """The numbers of a goal: `spec`, read.

    `only_gap`: all that the relation says is how much later than the end of the left side the right one begins, so that
    the right one completes; `tested`: a condition decides in the kernel, `computes`: the arrival's arguments are read;
    `backward`: partners are tried from the latest end on, by the link `onward`; `longest`: of two that end together the
    longer one is taken.
    """

    policy: int
    within: int
    point: bool
    keeps_right: bool
    absence: int
    feedback: bool
    by_left: int
    by_right: int
    by_float: int
    width_left: int
    width_right: int
    supersedes: bool
    reach_left: int
    reach_right: int
    least_gap: int
    most_gap: int
    only_gap: bool
    tested: bool
    computes: bool
    backward: bool
    onward: int
    longest: bool


@inside
def read_spec(spec, code):  # type: ignore[no-untyped-def]
    """The numbers of a goal whose condition is `code`."""
    policy = spec[S_POLICY]
    tie = spec[S_TIE]
    feedback = spec[S_FEEDBACK] != 0
    tested = code.shape[0] > 0 and (policy == CHRONOLOGICAL or feedback)
    backward = policy == RECENT
    return PairSpec(
        policy,
        spec[S_WITHIN],
        spec[S_POINT] != 0,
        spec[S_STORE_RIGHT] != 0,
        spec[S_ABSENCE],
        feedback,
        spec[S_BY_LEFT] if tie == 2 else -1,
        spec[S_BY_RIGHT] if tie == 2 else -1,
        spec[S_BY_FLOAT],
        spec[S_WIDTH_LEFT],
        spec[S_WIDTH_RIGHT],
        spec[S_SUPERSEDES] != 0,
        spec[S_REACH_LEFT],
        spec[S_REACH_RIGHT],
        spec[S_LEAST_GAP],
        spec[S_MOST_GAP],
        spec[S_BOUNDS] == 1 and spec[S_BOUNDS + 1] == 0 and spec[S_STORE_RIGHT] == 0,
        tested,
        tested or feedback,
        backward,
        PREVIOUS if backward else NEXT,
        tie == 0 or (tie == 2 and backward),
    )
