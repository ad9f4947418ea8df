"""A program with alerts is planned once: without their occurrences it is the plan of the program without them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from cep import compile as compiling
from cep.compile import compile
from cep.plan.alerts import without_alerts
from cep.plan.plan import plan

PROGRAMS = [
    """event reading(s: string, w: float) TIME time.
ALERT windy ON reading(S, W) WHERE W > 3 TITLE "{S}" FOR 1 h KEYED BY S.
strong(S, W) <- reading(S, W) WHERE W > 15.
ALERT storm ON storm(S) TITLE "{S}" FOR 1 h KEYED BY S.
storm(S) <- (strong(S, _) SEQ strong(S, _)) WITHIN 1 h.
storm(S) <- reading(S, W) WHERE W > 3.
calm(S) <- reading(S, W) UNLESS strong(S, _) WITHIN 2 h.
""",
    """event velocity(v: string, s: float) TIME time.
fluent moving(vessel: string).
ALERT moving ON moving(V) TITLE "{V}" FOR 1 h KEYED BY V.
initiate moving(V) <- velocity(V, S) WHERE S > 0.5.
terminate moving(V) <- velocity(V, S) WHERE S <= 0.5.
trip(V) <- moving(V).
""",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_plan_without_alerts_is_that_of_the_program_without_them(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Any] = []

    def noted(*given: Any) -> Any:
        planned.append(given)
        return plan(*given)

    monkeypatch.setattr(compiling, "plan", noted)
    found = compile(program)
    assert len(planned) == 1
    rules, *rest = planned[0]
    wanted = plan(without_alerts(rules), *rest)
    for field in fields(found.plan):
        if field.name != "warnings":
            assert getattr(found.plan, field.name) == getattr(wanted, field.name), field.name
    assert found.plan.warnings == compile(program, alerts=True).plan.warnings
    assert found.alerts == ()
    assert replace(found.plan, warnings=()) == replace(wanted, warnings=())
