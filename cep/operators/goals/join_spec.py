"""A join with everything resolved to columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cep.core.relation import Table
from cep.operators.goals.bytecode import Code


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A join with everything resolved to columns.

    `left_key`, `right_key`: argument columns, already of one representation. `absent_key`: columns of the absent side;
    `absent_from`: for each, (0, left column) or (1, right column). `within` None: unbounded. `point`: every right side
    is an instant. `gap`: of a `SEQ[g, h]`. `by`: columns of `recent(by V)`, -1 for none. `stack`: what decides, as
    bytecode; `test`: the same on tables, where the machine cannot run it, or where the choice comes first.
    """

    relation: str
    policy: str
    tie: str
    within: int | None
    point: bool
    left_width: int
    right_width: int
    left_key: tuple[int, ...]
    right_key: tuple[int, ...]
    take_left: tuple[int, ...]
    take_right: tuple[int, ...]
    left_codes: tuple[int, ...]
    right_codes: tuple[int, ...]
    absent_key: tuple[int, ...] = ()
    absent_from: tuple[tuple[int, int], ...] = ()
    absent: bool = False
    by: tuple[int, int] = (-1, -1)
    by_float: bool = False
    gap: tuple[int, int] | None = None
    stack: tuple[Code, Code] | None = None
    test: Callable[[Table], NDArray[np.bool_]] | None = None
