"""What goals have done since the last report: rows, time, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass

from cep.plan.order import PlanUnit


@dataclass(frozen=True, slots=True)
class Count:
    """Of one unit of a plan: the rows it `made` and the nanoseconds that took, since the last time; `rows` that wait in
    it now, and their `bytes`. A recursion's time is that of the first of its nodes."""

    unit: PlanUnit
    made: int
    time: int
    rows: int
    bytes: int
