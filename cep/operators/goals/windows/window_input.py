"""The input of the kernel `advance`: the numbers of a window goal, and its arrays in groups.

A kernel takes a NamedTuple of arrays as one argument and unpacks it at no cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cep.core.relation import Table
from cep.operators.goals.contract import Ints

LAST_EVENTS, LAST_TIME, EVERY, EACH, SESSION = range(5)


class EnteringRows(NamedTuple):
    """Occurrences that come: `table` are their times, order and identity; `values` has a row a result, the bits of its
    argument, `ranks` what it is sorted by. `slots`: the group of each; `opens` and `dues`: of EACH and SESSION, when
    the window of each begins and is over.
    """

    table: Table
    values: Ints
    ranks: Ints
    slots: Ints
    opens: Ints
    dues: Ints


class WindowNumbers(NamedTuple):
    """The form of the windows, their length in events or microseconds, EVERY's step, whether rows are kept, and how
    many results are sorted."""

    form: int
    length: int
    step: int
    keeps: bool
    sorts: int


class ResultKinds(NamedTuple):
    """The functions (`partial`, `wide_partial`), a number for each that takes one, and room for a partial result."""

    kinds: Ints
    parameters: NDArray[np.float64]
    scratch: Ints


class WindowArrays(NamedTuple):
    """Rows in windows, groups, trees, what goes on from step to step (`window_group`), and the groups' keys."""

    store: Ints
    groups: Ints
    nodes: Ints
    state: Ints
    keys: Ints
