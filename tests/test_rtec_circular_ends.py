"""The ends of fluents on a cycle, as in net contracts: events of what ends them."""

from __future__ import annotations

import random

import pytest

from cep.core.errors import CepErrors
from cep.engine import Engine, holds
from cep.events import Event
from cep.language.dialects.rtec.circular_ends import CircularEnds
from cep.language.reading import converted
from tests.long import seeds
from tests.test_rtec import found, happened, ticks

NET = """\
initiatedAt(quote(M,C)=true, T) :- happensAt(present(M,C), T).
terminatedAt(quote(M,C)=true, T) :- happensAt(accept(C,M), T).
initiatedAt(contract(M,C)=open, T) :-
    happensAt(accept(C,M), T), holdsAt(quote(M,C)=true, T), \\+ holdsAt(suspended(M)=true, T).
initiatedAt(contract(M,C)=paid, T) :- happensAt(pay(C,M), T), holdsAt(contract(M,C)=open, T).
terminatedAt(contract(M,C)=_, T) :- happensAt(send(M,C), T).
initiatedAt(suspended(M)=true, T) :- happensAt(end(contract(M,C)=open), T), \\+ holdsAt(trusted(C)=true, T).
terminatedAt(suspended(M)=true, T) :- happensAt(release(M), T).
initiatedAt(trusted(C)=true, T) :- happensAt(end(contract(M,C)=paid), T).
"""


def net(rows: list[tuple]) -> dict[str, set[tuple[int, tuple[str, ...]]]]:
    """When each fluent began, by hand: tick by tick, all asked of what held before."""
    quote, contract, suspended, trusted = set(), {}, set(), set()
    began: dict[str, set[tuple[int, tuple[str, ...]]]] = {name: set() for name in ("contract", "suspended", "trusted")}
    for time in sorted({row[1] for row in rows}):
        now = {row[0]: [r[2:] for r in rows if r[1] == time and r[0] == row[0]] for row in rows if row[1] == time}
        values: dict[tuple[str, str], set[str]] = {}
        for c, m in now.get("accept", []):
            if (m, c) in quote and m not in suspended:
                values.setdefault((m, c), set()).add("open")
        for c, m in now.get("pay", []):
            if contract.get((m, c)) == "open":
                values.setdefault((m, c), set()).add("paid")
        sent = set(now.get("send", []))
        ended = [
            (key, value) for key, value in contract.items() if key in sent or (key in values and values[key] != {value})
        ]
        suspends = {m for (m, c), value in ended if value == "open" and c not in trusted}
        trusts = {c for (m, c), value in ended if value == "paid"}
        for key, _ in ended:
            del contract[key]
        for key, found_values in values.items():
            if key not in sent and len(found_values) == 1 and key not in contract:
                (contract[key],) = found_values
                began["contract"].add((time, (*key, contract[key])))
        for m in suspends - {m for (m,) in now.get("release", [])} - suspended:
            suspended.add(m)
            began["suspended"].add((time, (m, "true")))
        suspended -= {m for (m,) in now.get("release", [])}
        for c in trusts - trusted:
            trusted.add(c)
            began["trusted"].add((time, (c, "true")))
        quote -= {(m, c) for c, m in now.get("accept", [])}
        quote |= {key for key in now.get("present", []) if (key[1], key[0]) not in now.get("accept", [])}
    return began


@pytest.mark.parametrize("seed", seeds(24))
def test_a_net_contract(seed: int) -> None:
    rng = random.Random(f"net {seed}")
    rows: list[tuple] = []
    for time in range(1, 40):
        for name in rng.sample(
            ("present", "accept", "pay", "send", "release", "present", "accept"), rng.choice((0, 1, 1, 2))
        ):
            m, c = rng.choice("mn"), rng.choice("cd")
            rows.append(
                (name, time, *((m,) if name == "release" else (m, c) if name in ("present", "send") else (c, m)))
            )
    rows = list(dict.fromkeys(rows))
    wanted = net(rows)
    for program, options in ((NET, {"dialect": "rtec"}), (converted(NET, "x.prolog"), {})):
        held = holds(program, happened(*rows), **options)
        for name, began in wanted.items():
            mine = {
                (each.start // 1_000_000, each.args) for each in held if each.type == name and each.start is not None
            }
            assert mine == began, (name, rows, program)


@pytest.mark.parametrize("seed", seeds(24))
def test_ends_as_events_are_the_ends_of_occurrences(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On no cycle either way gives the same."""
    rng = random.Random(f"ends {seed}")
    lines = []
    for _ in range(rng.randint(2, 5)):
        value = rng.choice(("v", "w", "Y"))
        event = "change(X, Y)" if value == "Y" else f"{rng.choice(('a', 'b'))}(X)"
        condition = rng.choice(("", ", holdsAt(g(X)=true, T)", ", \\+ holdsAt(g(X)=true, T)"))
        lines.append(f"initiatedAt(f(X)={value}, T) :- happensAt({event}, T){condition}.")
    for _ in range(rng.randint(0, 3)):
        value = rng.choice(("v", "w", "_"))
        lines.append(f"terminatedAt(f(X)={value}, T) :- happensAt({rng.choice(('a', 'b', 'c'))}(X), T).")
    lines += ["initiatedAt(g(X)=true, T) :- happensAt(c(X), T).", "terminatedAt(g(X)=true, T) :- happensAt(b(X), T)."]
    lines += ["happensAt(gone(X, V), T) :- happensAt(end(f(X)=V), T)."]
    program = "\n".join(lines)
    rows = [(rng.choice(("a", "b", "c")), time, rng.choice("pq")) for time in rng.choices(range(30), k=20)]
    rows += [("change", time, rng.choice("pq"), rng.choice("vwu")) for time in rng.choices(range(30), k=10)]
    known = set(Engine.from_text(program, dialect="rtec").inputs)
    events = [each for each in happened(*dict.fromkeys(rows)) if each.type in known]

    def gone() -> list[tuple]:
        engine = Engine.from_text(program, dialect="rtec", lateness=None)
        engine.receive(events)
        made = engine.close()
        return sorted(made["gone"].rows()) if "gone" in made else []

    expected = gone()
    monkeypatch.setattr(CircularEnds, "_reaches", lambda self, name, head: True)
    assert gone() == expected, program


def test_an_end_by_a_deadline_on_a_cycle_is_refused() -> None:
    program = NET + "fi(contract(M,C)=open, contract(M,C)=void, 5).\n"
    with pytest.raises(CepErrors, match="the beginnings and ends of `contract` depend on themselves"):
        Engine.from_text(program, dialect="rtec", name="x.prolog")


def test_intervals_of_a_net_contract() -> None:
    rows = [("present", 1, "m", "c"), ("accept", 2, "c", "m"), ("pay", 5, "c", "m"), ("send", 7, "m", "c")]
    assert found(NET, *rows, only="contract") == ["m,c,open 3,6", "m,c,paid 6,8"]
    assert found(NET, *rows, only="suspended") == ["m,true 6,inf"]
    assert found(NET, *rows, only="trusted") == ["c,true 8,inf"]
    assert all(ticks(each) for each in holds(NET, [Event("present", ("m", "c"), 1_000_000, 1_000_000)], dialect="rtec"))
