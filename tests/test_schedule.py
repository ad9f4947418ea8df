"""What runs in a step: what something comes to, and what time has come for."""

from __future__ import annotations

import pytest

from cep.engine import Engine
from cep.events import Event
from cep.operators.event import Scan
from cep.runtime.machine_part import SingleGoal

SECOND = 1_000_000


def rules(many: int) -> str:
    return "".join(f"d{n}(X) <- a{n}(X) SEQ b{n}(X) WITHIN 1 min.\ne{n}(X) <- d{n}(X).\n" for n in range(many))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The units that run."""
    found: list[object] = []
    run = SingleGoal.run

    def watched(self: SingleGoal, *given: object) -> bool:
        found.append(self.unit)
        return run(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(SingleGoal, "run", watched)
    return found


def test_a_step_costs_by_what_comes_not_by_the_rules(ran: list[object]) -> None:
    counts = []
    for many in (2, 60):
        types = {f"{name}{n}": ("int",) for n in range(many) for name in "ab"}
        engine = Engine.from_text(rules(many), types=types, lateness=0)
        ran.clear()
        engine.push([Event("a1", (1,), 0, 0), Event("b1", (1,), SECOND, SECOND)])
        assert list(engine.advance(2 * SECOND)) == ["d1", "e1"]
        counts.append(len(ran))
    assert counts[0] == counts[1]


def test_time_wakes_what_waits(ran: list[object]) -> None:
    text = "late(X) <- a(X) UNLESS b(X) WITHIN 10 s.\nother(X) <- c(X) UNLESS d(X) WITHIN 20 s."
    types = dict.fromkeys("abcd", ("int",))
    engine = Engine.from_text(text, types=types, lateness=0)
    engine.push([Event("a", (1,), 0, 0), Event("c", (2,), 0, 0)])
    engine.advance(SECOND)
    ran.clear()
    assert not engine.advance(9 * SECOND)
    assert not ran
    restored = Engine.from_text(text, types=types, lateness=0).restore(engine.snapshot())
    for each in (engine, restored):
        assert each.advance(11 * SECOND)["late"]["x"].to_list() == [1]
        assert "late" not in each.advance(25 * SECOND)


def test_what_is_given_back_to_goals_is_seen_in_its_time() -> None:
    """A time that a goal has only after a restore."""
    types = dict.fromkeys("ab", ("int",))
    engine = Engine.from_text("late(X) <- a(X) UNLESS b(X) WITHIN 10 s.", types=types, lateness=0)
    engine.push([Event("b", (1,), 0, 0)])
    empty = engine.snapshot()
    engine.push([Event("a", (1,), SECOND, SECOND)])
    engine.advance(2 * SECOND)
    waiting = engine.snapshot()
    engine.restore(empty)
    assert not engine.advance(5 * SECOND)
    engine.restore(waiting)
    assert engine.advance(12 * SECOND)["late"].height == 1


def test_what_gives_its_input_as_it_is_does_not_run(ran: list[object]) -> None:
    """The event is read in its place, and counted in it, too; one of certain arguments runs."""
    text = "p(X) <- a(X) SEQ b(X) WITHIN 1 min.\nq(X) <- a(X) SEQ b(7) WITHIN 1 min."
    engine = Engine.from_text(text, types=dict.fromkeys("ab", ("int",)), lateness=0)
    events = [Event("a", (7,), 0, 0), Event("a", (8,), 1, 1), Event("b", (7,), SECOND, SECOND)]
    engine.push(events)
    assert {name: table["x"].to_list() for name, table in engine.advance(2 * SECOND).items()} == {"p": [7], "q": [7, 8]}
    scans = {number: node for number, node in enumerate(engine.plan.nodes) if isinstance(node, Scan)}
    passing = {number for number, node in scans.items() if not node.constants}
    assert len(passing) == 2 and not passing & set(ran) and set(scans) - passing <= set(ran)
    counted = {count.unit: count.produced for count in engine.take_counts()}
    assert all(counted[number] == counted[node.event] for number, node in scans.items() if number in passing)
