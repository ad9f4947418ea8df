"""The goal of the most common recursive rule, `x <- start. x <- x SEQ a`, which one sequential kernel evaluates.

 x(K, f(X, A)) <- x(K, X) SEQ a(K, A) WHERE ...

A derived occurrence is stored immediately, and can find further partners. It ends when its occurrence of `a` ends, and
can only be paired with an `a` that starts later. So one pass in order of arrival reaches the fixpoint. The reference
implementation is `cep.runtime.instants`, which evaluates instant by instant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cep.core.relation import IDENTITY, Table, concat, contiguous, empty, rows
from cep.core.time import Frontier
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Ints
from cep.operators.goals.lineage import Lineage, numbers
from cep.operators.goals.pairs import pairing
from cep.operators.goals.pairs.bytecode import Code, stack_cells
from cep.operators.goals.pairs.join import NO_CODE, NOTHING, JoinGoal
from cep.operators.goals.pairs.join_spec import JoinSpec
from cep.operators.goals.pairs.pairing import SideRows
from cep.operators.goals.store import NAME, more_chains, rows_table

if TYPE_CHECKING:
    pass


class LinearRecursion(JoinGoal):
    """The goal of a linear recursion. It outputs all new occurrences of the recursive event.

    The first input contains the occurrences that the event's other rules derive. The second input contains the
    occurrences of `a` in the rule `x <- x SEQ a`. `head`: for each argument of the head, the bytecode that computes it.
    Arguments that are in the join key stay unchanged. `rule`: the rule's number in the plan.
    """

    def __init__(
        self,
        spec: JoinSpec,
        head: Sequence[tuple[Code, Code]],
        lineage: Lineage | None = None,
        rule: int = 0,
    ) -> None:
        super().__init__(replace(spec, test=None), lineage)
        self.rule = rule
        assert spec.relation == "SEQ", "what recursion makes must wait for something later"
        self.numbers[pairing.S_FEEDBACK] = 1
        self.feeds = True
        self.code, self.literals = (NO_CODE, NOTHING) if spec.stack is None else spec.stack
        codes: list[Code] = []
        literals: list[Ints] = []
        ends: list[int] = []
        for code, values in head:
            moved = code.copy()
            moved[moved[:, 0] == 4, 1] += sum(len(v) for v in literals)
            codes.append(moved)
            literals.append(values)
            ends.append(sum(len(c) for c in codes))
        self.head = np.concatenate(codes) if codes else NO_CODE
        self.head_literals = np.concatenate(literals) if literals else NOTHING
        self.head_ends = np.array(ends, np.int64)
        current, new, _, key = self.scratch
        self.scratch = (current, new, np.empty(max(map(stack_cells, (self.code, *codes))), np.int64), key)

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        base, right = map(contiguous, inputs)
        width = self.spec.left_width
        if not rows(base) and not rows(right):
            return empty(width)
        left_slots = self.keys.slots(base, self.left_key)
        right_slots = self.keys.slots(right, self.right_key, insert=False)
        self.chains = more_chains(self.chains, self.keys.count)
        several = NOTHING
        if self.spec.policy != "unrestricted" and rows(base):  # policies choose among equal rows by arrival
            several = numbers(base, self.lineage)
        arrivals = SideRows(base, left_slots, several), SideRows(right, right_slots, NOTHING)
        pairs = self._paired(*arrivals, SideRows(empty(0), NOTHING, NOTHING))
        if len(pairs) == 0:
            return base
        derived: Table = rows_table(self.hot, self.cold, pairs[:, 3], width)
        if self.lineage is not None:
            # Name all rows before linking them, because a left side may have been derived in this step.
            names = self.lineage.name(derived)
            self.cold[pairs[:, 3], NAME] = names
            self.lineage.link(names, self.cold[pairs[:, 0], NAME])
            self.lineage.link(names, right[IDENTITY, pairs[:, 1]])
            self.lineage.follow(names, np.full(len(names), self.rule))
        return by_arrival(concat([base, derived])) if rows(base) else by_arrival(derived)

    def _in_order(self) -> bool:
        return False
