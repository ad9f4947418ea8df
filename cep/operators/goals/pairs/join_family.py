"""Functions that combine the states of joins into the state of a family (see `cep.operators.goals.in_family`), and
divide it.

In a family's state, the last value of each key and of each stored row is the member.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cep.operators.goals.contract import Ints
from cep.operators.goals.store import GONE, HEADER, HOT, NEXT, SIDE, SLOT

if TYPE_CHECKING:
    from cep.operators.goals.pairs.join import JoinGoal


def gathered(goal: JoinGoal, members: Sequence[JoinGoal]) -> None:
    """Fill the state of a family's join with the states of its members."""
    empty, slots = goal.as_arrays(), 0
    parts: dict[str, list[Ints]] = {name: [array[:0]] for name, array in empty.items()}
    for number, member in enumerate(members):
        if not member.count:
            continue
        state, cold = member.as_arrays(), np.zeros((member.count, goal.cold.shape[1]), np.int64)
        cold[:, :-1] = state["cold"]
        cold[:, SLOT] += slots
        cold[np.arange(len(cold)), _places(goal, cold)] = number
        parts["hot"].append(state["hot"])
        parts["cold"].append(cold)
        parts["keys"].append(np.insert(state["keys"], state["keys"].shape[1], number, axis=1))
        slots += len(state["keys"])
    goal.become_arrays({name: np.concatenate(arrays) for name, arrays in parts.items()})


def divided(goal: JoinGoal, members: Sequence[JoinGoal]) -> None:
    """Divide the state of a family's join among its members."""
    state, numbers = goal.as_arrays(), np.arange(len(members) + 1)
    hot, cold, keys = state["hot"], state["cold"].copy(), state["keys"]
    owners = keys[:, -1][cold[:, SLOT]]
    cold[np.arange(len(cold)), _places(goal, cold)] = 0
    by_key, by_row = np.argsort(keys[:, -1], kind="stable"), np.argsort(owners, kind="stable")
    keys, hot, cold = keys[by_key], hot[by_row], cold[by_row]
    own_slots = np.empty(len(keys), np.int64)
    own_slots[by_key] = np.arange(len(keys))
    first_keys, first_rows = np.searchsorted(keys[:, -1], numbers), np.searchsorted(owners[by_row], numbers)
    cold[:, SLOT] = own_slots[cold[:, SLOT]] - first_keys[owners[by_row]]
    for number, member in enumerate(members):
        own_keys = slice(first_keys[number], first_keys[number + 1])
        own_rows = slice(first_rows[number], first_rows[number + 1])
        if member.count or own_rows.start < own_rows.stop:
            arrays = {"hot": hot[own_rows], "cold": cold[own_rows, :-1], "keys": keys[own_keys, :-1]}
            member.become_arrays({name: arrays.get(name, array[:0]).copy() for name, array in state.items()})


def sizes(goal: JoinGoal, members: Sequence[JoinGoal]) -> list[tuple[int, int]]:
    """Return, for each member of a family's join, the number of its waiting rows and their size in bytes."""
    cold, number, member = goal.cold[: goal.count], len(members), members[0]
    waiting = np.flatnonzero(goal.hot[: goal.count, NEXT] != GONE)
    owners = cold[waiting, _places(goal, cold)[waiting]]
    counts, keys = np.bincount(owners, minlength=number), np.bincount(goal.keys.known[:, -1], minlength=number)
    words = counts * (HOT + member.cold.shape[1]) + keys * (6 + len(member.spec.left_key))
    return list(zip(counts.tolist(), (8 * words).tolist(), strict=True))


def _places(goal: JoinGoal, cold: Ints) -> Ints:
    widths = np.array([goal.spec.left_width, goal.spec.right_width])
    places: Ints = HEADER + widths[cold[:, SIDE]] - 1
    return places
