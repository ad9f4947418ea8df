"""A goal that declares `in_time` only outputs rows that end after its previous step, and not after this step."""

from __future__ import annotations

import inspect
import random
from collections.abc import Mapping

import pytest

from cep.core.relation import END, Table, rows
from cep.core.time import BEGINNING, Frontier
from cep.engine import Engine
from cep.events import Event
from cep.operators.goals.state_tables import DeclaredState
from cep.plan.order import PlanUnit
from cep.runtime.machine import Machine
from tests.programs import iteration, program, window
from tests.revising_programs import revising_program

PROGRAMS = 40
"""The number of random programs of each kind."""


def declared(kind: type) -> set[type]:
    """Return the goals below a class that declare `in_time`."""
    below = set[type]().union(*map(declared, kind.__subclasses__()))
    own = not inspect.isabstract(kind) and kind.in_time  # type: ignore[attr-defined]
    return below | {kind} if own else below


def test_results_end_in_the_step_that_outputs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: dict[Machine, int] = {}
    seen = set[type]()
    run = Machine._slice

    def checked(machine: Machine, inputs: Mapping[str, Table], frontier: Frontier) -> dict[PlanUnit, Table]:
        outputs, since = run(machine, inputs, frontier), reached.get(machine, BEGINNING)
        reached[machine] = frontier.watermark
        early = set[PlanUnit]()
        for part in machine.parts:
            goals = [goal for _, goal in part.goals_by_unit()]
            if not all(goal.in_time for goal in goals) or not early.isdisjoint(part.takes.units):
                early.update(part.gives)
                continue
            for unit in part.gives:
                ends = outputs[unit][END]
                assert bool(((ends > since) & (ends <= frontier.watermark)).all()), (unit, goals)
                seen.update(type(goal) for goal in goals if rows(outputs[unit]))
        return outputs

    monkeypatch.setattr(Machine, "_slice", checked)
    for seed in range(PROGRAMS):
        rng = random.Random(seed)
        drawn = [make(rng) for make in (program, window, iteration)]
        cases = [(case.text, case.events) for case in drawn]
        ends = sorted(rng.choices(range(60), k=30))
        events = [Event(rng.choice("ab"), (rng.choice("pqr"), rng.randint(0, 2)), end, end) for end in ends]
        for text, stream in [*cases, (revising_program(rng), tuple(events))]:
            engine = Engine.from_text(text)
            for event in sorted(stream, key=lambda event: event.end):
                engine.push([event])
            engine.close()
    assert seen >= declared(DeclaredState), "the programs have results of every goal that declares `in_time`"
