"""Defined fluents in use: in patterns, in conditions, over the knowledge, in commands; what is warned of."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
from typer.testing import CliRunner

from cep import command
from cep.engine import Engine, holds
from cep.events import Event, Held
from tests.cases_format import known

S = 1_000_000
BASE = """event tick(p: string, x: int) TIME time.
event off(p: string) TIME time.
fluent on(p: string).
initiate on(P) <- tick(P, X).
terminate on(P) <- off(P).
fluent h(p: string).
"""
EVENTS = [
    Event("tick", ("a", 1), 1 * S, 1 * S),
    Event("off", ("a",), 2 * S, 2 * S),
    Event("tick", ("a", 2), 3 * S, 3 * S),
    Event("off", ("a",), 8 * S, 8 * S),
    Event("tick", ("b", 2), 8 * S, 8 * S),
]


def run(program: str, events: list[Event] = EVENTS) -> dict[str, list[tuple]]:
    """The rows of all that is derived, with times in seconds."""
    engine = Engine.from_text(BASE + program)
    engine.receive(events)
    seconds = (pl.col("start") / S, pl.col("end") / S)
    return {name: table.with_columns(*seconds).rows() for name, table in engine.close().items()}


def test_a_condition_sees_what_holds_from_the_instant_itself_on() -> None:
    found = run("""h(P) WHILE ONCE[0, 1 s) tick(P, _).
at_tick(P) <- tick(P, _) WHERE h(P).
at_off(P) <- off(P) WHERE h(P).
not_off(P) <- off(P) WHERE not h(P).""")
    assert found["at_tick"] == [(1, 1, "a"), (3, 3, "a"), (8, 8, "b")]
    assert "at_off" not in found
    assert found["not_off"] == [(2, 2, "a"), (8, 8, "a")]


def test_a_condition_sees_the_last_instant() -> None:
    found = run("h(P) WHILE ONCE[0, 1 s] tick(P, _). at_off(P) <- off(P) WHERE h(P).")
    assert found["at_off"] == [(2, 2, "a")]


def test_maximal_intervals_are_occurrences_with_a_beginning_and_an_end() -> None:
    found = run("""h(P) WHILE ONCE[0, 2 s] tick(P, _).
whole(P, D) <- h(P) WHERE D = duration().
began(P) <- BEGIN OF h(P).
ended(P) <- END OF h(P).
after(P) <- h(P) SEQ off(P).""")
    assert found["whole"] == [(1, 5, "a", 4 * S), (8, 10, "b", 2 * S)]
    assert found["began"] == [(1, 1, "a"), (8, 8, "b")]
    assert found["ended"] == [(5, 5, "a"), (10, 10, "b")]
    assert found["after"] == [(1, 8, "a")]


def test_the_long_intervals_of_a_lasting_are_occurrences_when_they_end() -> None:
    engine = Engine.from_text(BASE + "h(P) WHILE on(P) LASTING >= 5 s. long(P, D) <- h(P) WHERE D = duration().")
    engine.push(EVENTS[:4])
    found = engine.advance(8 * S)
    assert found["long"].rows() == [(3 * S, 8 * S, "a", 5 * S)]
    assert "long" not in run("h(P) WHILE on(P) LASTING > 5 s. long(P) <- h(P).")
    engine.receive([Event("off", ("a",), 9 * S, 9 * S)])
    assert "what lasts in h" not in engine.close(), "what it asks is nothing of its own"


def test_values_and_several_rules() -> None:
    program = (
        BASE
        + """fluent level(p: string) = x: int.
level(P) = X WHILE ONCE[0, 2 s] tick(P, X).
level(P) = 2 WHILE on(P) AND NOT tick(P, 2).
h(P) WHILE level(P) = 2."""
    )
    assert [each for each in holds(program, EVENTS) if each.type == "level"] == [
        Held("level", ("a", 1), 1 * S, 3 * S, "[]"),
        Held("level", ("a", 2), 1 * S, 2 * S, "(]"),
        Held("level", ("a", 2), 3 * S, 8 * S, "[]"),
        Held("level", ("b", 2), 8 * S, None, "[)"),
    ]


def test_a_where_asks_what_is_known_and_binds() -> None:
    found = run("fluent k(p: string, y: int). h(P) WHILE on(P). k(P, Y) WHILE tick(P, X) WHERE linked(X, Y), Y > 2."
                "linked(1, 2). linked(1, 3). linked(2, 5).")  # fmt: skip
    assert found["k"] == [(1, 1, "a", 3, "[]"), (3, 3, "a", 5, "[]"), (8, 8, "b", 5, "[]")]


def test_what_a_formula_asks_the_knowledge_may_change() -> None:
    program = "PREFIX x: <http://x/>\n" + BASE + "h(P) WHILE on(P) WHERE { ?S x:name ?P }."
    engine = Engine.from_text(program, knowledge=known('@prefix x: <http://x/> . x:a x:name "a" .'))
    engine.receive(EVENTS)
    assert engine.close()["h"].rows() == [(1 * S, 2 * S, "a", "(]"), (3 * S, 8 * S, "a", "(]")]
    engine = Engine.from_text(program, knowledge=known('@prefix x: <http://x/> . x:a x:name "a" .'))
    engine.update(4 * S, remove='<http://x/a> <http://x/name> "a" .')
    engine.receive(EVENTS)
    assert engine.close()["h"].rows() == [(1 * S, 2 * S, "a", "(]"), (3 * S, 4 * S, "a", "()")]


def test_a_mode_is_the_value_that_is_there_most_often_the_least_of_several() -> None:
    program = """event has(who: string, what: string, x: float) TIME time.
fluent owns(who: string, what: string). fluent mostly(what: string). fluent weighs(who: string, x: float).
fluent weight(x: float).
initiate owns(W, T) <- has(W, T, X) WHERE X > 0. terminate owns(W, T) <- has(W, T, X) WHERE X < 0.
initiate weighs(W, X) <- has(W, T, X).
mostly(T) WHILE owns(_, S) AGGREGATE T = mode(S).
weight(X) WHILE weighs(_, Y) AGGREGATE X = mode(Y)."""
    told = [("a", "pear", 2.5), ("b", "fig", -0.5), ("b", "fig", 2.5), ("c", "fig", 7.0), ("d", "apple", 7.0),
            ("e", "apple", 1.0), ("b", "fig", -2.0), ("d", "apple", -1.0), ("c", "fig", -1.0)]  # fmt: skip
    events = [Event("has", each, n, n) for n, each in enumerate(told, 1)]
    for cut in (1, 4, 9):
        engine = Engine.from_text(program, lateness=0)
        tables = [engine.push(events[n : n + cut]) for n in range(0, 9, cut)]
        engine = Engine.from_text(program, lateness=0).restore(engine.snapshot())
        engine.forget()
        tables.append(engine.close())
        rows = [row for table in tables if "mostly" in table for row in table["mostly"].rows()]
        assert rows == [(1, 3, "pear", "(]"), (3, 6, "fig", "(]"), (6, None, "apple", "()")]
        rows = [row[:3] for table in tables if "weight" in table for row in table["weight"].rows()]
        assert rows == [(1, 2, 2.5), (2, 3, -0.5), (3, 9, 2.5), (9, None, -1.0)]


def test_attributes_have_any_names() -> None:
    """Also those of the columns that tables of fluents have besides."""
    program = """event has(what: string, rule: int) TIME time. fluent f(what: string, rule: int).
fluent g(rule: string).
initiate f(W, R) <- has(W, R). terminate f(W, R) <- has(W, N) WHERE R = N + 1.
g(W) WHILE f(W, _).
fluent r(what: string) START s END e. fluent q(what: string). q(W) WHILE r(W) OR g(W)."""
    engine = Engine.from_text(program, changes=True, lateness=0)
    found = engine.push([Event("has", ("a", 1), 1, 1), Event("has", ("a", 0), 4, 4)])
    assert found["g"].rows() == [("begins", 1, "a", "(")]
    assert found["q"].columns == ["@edge", "time", "what", "bounds"]
    whole = Engine.from_text(program, lateness=None)
    whole.receive([Event("has", ("a", 1), 1, 1)])
    assert whole.close()["f"].columns == ["start", "end", "what", "rule", "bounds"]


def test_what_never_forgets_is_warned_of() -> None:
    engine = Engine.from_text(
        BASE + "h(P) WHILE ONCE off(P). h(P) WHILE EVENTUALLY off(P). h(P) WHILE on(P) SINCE on(P)."
    )
    assert [each.message for each in engine.warnings] == [
        "this ONCE never forgets: it keeps all that has held for ever",
        "this EVENTUALLY is known only at the end of the input",
    ]


def test_little_is_kept_however_much_comes() -> None:
    """Signals every millisecond: what is left of them are a few intervals."""
    engine = Engine.from_text(
        "event signal() TIME time. fluent f(). f() WHILE HISTORICALLY[0, 2 s] ONCE[0, 2 s] signal()."
    )
    for first in range(0, 20_000, 1_000):
        at = pl.Series([(first + i) * 1_000 for i in range(1_000)])
        engine.push({"signal": pl.DataFrame({"time": at})})
        assert engine._machine.size[0] < 20
    assert engine.close()["f"].rows() == [(2 * S, 19_999_000 + 2 * S, "[]")]


def test_commands(tmp_path: Path) -> None:
    rules, records = tmp_path / "p.cep", tmp_path / "in.jsonl"
    rules.write_text(BASE + "h(P) WHILE on(P) AND NOT ONCE[0, 1 s] tick(P, _).\n")
    lines = [
        {"type": e.type, "time": e.end // S, "p": e.args[0], **({"x": e.args[1]} if e.args[1:] else {})} for e in EVENTS
    ]
    records.write_text("".join(json.dumps(line) + "\n" for line in lines))
    checked = CliRunner().invoke(command.app, ["check", str(rules)])
    assert checked.exit_code == 0, checked.output
    ran = CliRunner().invoke(command.app, ["run", str(rules), "--input", str(records)])
    given = [json.loads(line) for line in ran.output.splitlines() if line.startswith("{")]
    assert [each for each in given if each["type"] == "h"] == [
        {"type": "h", "start": 4, "end": 8, "p": "a", "bounds": "(]"},
        {"type": "h", "start": 9, "end": None, "p": "b", "bounds": "()"},
    ]
