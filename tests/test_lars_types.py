"""Types in LARS programs: those of what the background knowledge gives are found in it."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from cep.engine import Engine
from cep.events import Event
from cep.knowledge.graph import Knowledge
from cep.lars import answers

PLACES = """
PREFIX : <urn:places:>
:one :name "one" ; :height 12 . :two :name "two" ; :height 5 ; :above :one .
"""
ASKED = """
PREFIX : <urn:places:>
event seen(name: string) TIME time.
height(N, H) :- { ?p :name ?N ; :height ?H }.
place(P, N) :- { ?P :name ?N }.
"""


def given(program: str, *names: str, output: str) -> list[tuple]:
    """What is derived of a fluent, of names that are seen at ticks 0, 1, ..."""
    knowledge = Knowledge.of(ox.parse(PLACES, format=ox.RdfFormat.TURTLE))
    engine = Engine.from_text(program, dialect="lars", lateness=None, knowledge=knowledge)
    engine.receive([Event("seen", (name,), 1_000_000 * at, 1_000_000 * at) for at, name in enumerate(names)])
    table = engine.close()[output]
    return sorted(table.drop("start", "end", "bounds").rows())


@pytest.mark.parametrize(
    ("rules", "output", "expected"),
    [
        ("r(N, H) :- seen(N), height(N, H).", "r", [("one", 12), ("two", 5)]),
        ("r(H) :- seen(N), height(N, G), H = G * 2 + 1.", "r", [(11,), (25,)]),
        ("r(N) :- seen(N) in [1], height(N, H), H > 6.", "r", [("one",)]),
        ("r(N) at T :- seen(N) at T in [5]. r(M) at T :- seen(N) at T in [5], { [] :name ?N ; :above [ :name ?M ] }.",
         "r at", [("one", 0), ("one", 1), ("two", 1)]),
        ("r(P) :- seen(N), place(P, N), not height(N, 5).", "r", [("urn:places:one",)]),
        ("r(N, H) :- height(N, H), seen(N), not s(N, H). s(N, H) :- height(N, H), seen(N), not r(N, H).", "r",
         [("one", 12), ("two", 5)]),
    ],
)  # fmt: skip
def test_types_of_knowledge(rules: str, output: str, expected: list[tuple]) -> None:
    assert given(ASKED + rules, "one", "two", output=output) == expected


@pytest.mark.parametrize(
    ("program", "stream", "expected"),
    [
        ("r(X / 2) :- a(X).", "a(5)", "r(2)"),
        ("r(X / 2) :- a(X).", "a(5.0)", "r(2.5)"),
        ("r(X / Y) :- b(X, Y).", "b(7, 2)", "r(3)"),
        ("r(X / Y) :- b(X, Y).", "b(7.0, 2)", "r(3.5)"),
        ("r(X / 2.0) :- a(X).", "a(5)", "r(2.5)"),
        ("r(Z) :- a(X), Z = X / 2 + 1.", "a(-5)", "r(-2)"),
        ("p(X / 2) :- a(X), not q(X). q(X) :- a(X), not p(X / 2). :- q(X).", "a(3.0)", "p(1.5)"),
    ],
)
def test_division_is_whole_of_whole_numbers(program: str, stream: str, expected: str) -> None:
    ((_, (found,)),) = answers(program, [(0, [stream])])
    assert found == {expected}


def test_division_by_what_the_knowledge_gives() -> None:
    assert given(ASKED + "r(G) :- seen(N), height(N, H), G = H / 2.", "two", output="r") == [(2,)]
