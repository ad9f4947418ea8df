"""`cep explain` of answer streams: each atom has a derivation in the reduct, and each that is not there a reason."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from cep.compile import compile
from cep.engine import Engine
from cep.events import Event
from cep.explain.judging import Judge
from cep.explain.occurrences import Memory
from cep.explain.reducts import Reducts
from cep.explain.tick_reading import TickReading
from cep.language.dialects.lars.answer_set_rules import split
from tests.cli_runs import cep, here
from tests.lars_maker import Maker, program_text
from tests.long import seeds
from tests.test_lars_random import declarations

folder = pytest.fixture(autouse=True)(here)
TICK = 1_000_000

RUNWAYS = """\
event free(r: string). event wet(r: string).
used(R) :- free(R) in [3], not closed(R).
closed(R) :- free(R) in [3], not used(R).
some :- used(R).
:- free(R) in [3], not some.
:- used(R), wet(R) in [1].
"""
RECORDS = """\
{"type": "free", "time": 1, "r": "a"}
{"type": "free", "time": 2, "r": "b"}
{"type": "wet", "time": 3, "r": "a"}
{"type": "free", "time": 4, "r": "a"}
"""


def explained(*asked: str, program: str = RUNWAYS, records: str = RECORDS) -> str:
    Path("p.lars").write_text(program)
    Path("in.jsonl").write_text(records)
    return cep("explain", "p.lars", *asked, "-i", "in.jsonl").stdout


def test_an_atom_by_the_rules_and_what_they_deny() -> None:
    told = explained("some", "--at", "3")
    assert (
        told
        == """\
some over [1, 8)
  @db8e90c6083922cbd80dfb39b8020af0
  in the answer at 3 by line 4:  some :- used(R).
    R = "b"
    used(b)
      used("b") over [3, 6)
        in the answer at 3 by line 2:  used(R) :- free(R) in [3], not closed(R).
          R = "b"
          free(b) in [3]
            free("b") at 2  in.jsonl:2
          not closed(b)
"""
    )
    first = json.loads(explained("some", "--at", "1", "--format", "json"))[0]["answer"]
    assert (first["time"], first["variables"], first["rule"]["line"]) == (1, {"R": "a"}, 4)
    (used,) = first["literals"]
    free, closed = used["parts"][0]["answer"]["literals"]
    assert (free["text"], free["parts"][0]["record"]["line"]) == ("free(a) in [3]", 1)
    assert closed == {"text": "not closed(a)", "negated": True, "parts": []}


def test_why_not() -> None:
    told = explained("--not", "used(a)", "--at", "3")
    assert "but closed(a) is true\n" in told
    assert "if it held instead, line 6 would be violated:  :- used(R), wet(R) in [1]." in told
    assert "line 6" not in explained("--not", "used(b)", "--at", "2")
    assert "but free(c) in [3] is not true" in explained("--not", "used(c)", "--at", "2")
    assert "but used(R) is not true" in explained("--not", "some", "--at", "9")


def test_why_not_names_no_rule_that_nobody_wrote() -> None:
    """`high` now is `high at` now, which is no line of the program; what is missing twice is said once."""
    Path("high.lars").write_text(
        "event a(v: int).\nhigh at T :- a(V) at T in [3], 18 <= V.\nlong :- high always in [3].\n"
    )
    Path("a.jsonl").write_text('{"type": "a", "time": 0, "v": 20}\n{"type": "a", "time": 5, "v": 21}\n')
    told = cep("explain", "high.lars", "--not", "long", "--at", "4", "--input", "a.jsonl").stdout
    assert told.count("high does not hold at 4\n") == 1 and "line 1:" not in told


def test_a_tick_without_an_answer() -> None:
    program = "event a(). event b().\np :- a in [2], not q.\nq :- a in [2], not p.\n:- b.\n"
    records = '{"type": "a", "time": 1}\n{"type": "b", "time": 2}\n'
    told = explained("--not", "p", "--at", "2", program=program, records=records)
    assert told.count("but there is no answer then") == 1


EVERY = """\
event a(x: int). event b(x: int).
p(X) :- a(X) in [3], not q(X), X > 0.
q(X) :- a(X) in [3], not p(X).
r(X) at T :- p(X), b(X) at T in [5], not q(X) in [2].
s(X) :- r(X) always in [1], p(X).
t :- u. u :- t. u :- p(1).
k(X) :- b(X) in [1 #] by X, p(Y), Y = X + 0, not b(7) always in [2].
:- q(X), X = 1.
"""
INPUT = "".join(
    json.dumps({"type": name, "time": time, "x": value}) + "\n"
    for name, time, value in (("a", 1, 1), ("b", 1, 1), ("b", 2, 1), ("a", 2, 2))
)


def test_windows_ticks_and_circles_without_a_ground() -> None:
    def told(atom: str) -> str:
        return explained(atom, "--at", "2", program=EVERY, records=INPUT)

    assert told("s(1)").count("in the answer at 2 by line 4:  r(X) at T") == 2, "at each tick of the window"
    assert "by line 6:  u :- p(1).\n" in told("u"), "not by `t`, which is there because of it"
    assert "by line 6:  t :- u.\n" in told("t")
    assert "    b(1) in [1 #] by X\n      b(1) at 2  in.jsonl:3\n" in told("k(1)")
    assert "    Y = X + 0:  1\n" in told("k(1)") and "    not b(7) always in [2]\n" in told("k(1)")
    why_not = explained("--not", "q(2)", "--at", "2", program=EVERY, records=INPUT)
    assert "there is a(2) at 2\n" in why_not and "but p(2) is true" in why_not


def test_all_answers_have_their_own_derivations() -> None:
    Path("p.lars").write_text(RUNWAYS)
    Path("in.jsonl").write_text(RECORDS)

    def told(*asked: str) -> str:
        return cep("explain", "p.lars", *asked, "--at", "2", "--models", "all", "-i", "in.jsonl").stdout

    assert "free(b) in [3]\n" in told("used(b, 1)") and "not closed(b)" in told("used(b, 1)")
    assert "not used(a)" in told("closed(a, 1)")
    assert "but closed(a) is true" in told("--not", "used(a, 1)")
    assert "not closed(a)" in told("used(a, 2)")


@pytest.mark.parametrize("seed", seeds(12))
def test_answers_are_what_their_reducts_derive(seed: int) -> None:
    """Of random programs: the atoms of each answer, and no others."""
    for number in range(seed * 4, (seed + 1) * 4):
        maker = Maker(Random(5_000 + number), cyclic=True)
        program = maker.program()
        text = declarations(maker) + program_text(program)
        if split(program) is None:
            continue
        engine = Engine(compile(text, dialect="lars"), lateness=None, remember=2**62)
        stream = maker.stream(5)
        engine.receive([
            Event(name, values, TICK * tick, TICK * tick) for tick, atoms in stream for name, values in atoms
        ])  # fmt: skip
        engine.close()
        memory, judge = Memory(engine), Judge(engine, most=None)
        reducts = Reducts.of(memory, judge)
        if reducts is None or not engine.inputs:
            continue
        facts = {rule.head.predicate for rule in reducts.program.rules if rule.is_fact and rule.head is not None}
        arrived = TickReading(memory, judge, reducts.program, reducts.solved, stream[-1][0]).arrived
        for tick in range(arrived[0].tick if arrived else 1, stream[-1][0] + 1):
            if not reducts.has_answer(tick):
                continue
            reading = TickReading(memory, judge, reducts.program, reducts.solved, tick)
            found = reducts._derived(tick, None)
            derived = {key for key in found if key[0] not in facts}
            answer = {each.key for each in reading.answer() if each.predicate not in facts}
            assert derived == answer, (number, tick, text, stream)
            order = list(found)
            for place, (_, step) in enumerate(found.items()):
                needs = {
                    each.key for _, atoms in step.body.literals for each in atoms if each.predicate in reducts.solved
                }
                assert needs <= {*order[:place]}, (number, tick, text)


PUT = """\
event a(x: int). event b(x: int).
r(X) at S :- a(X) at T in [3], S = T + 2.
p(X) at T :- a(X) at T in [3], not q(X) at T in [3].
q(X) at T :- b(X) at T in [3], not p(X) at T in [3].
"""
PUT_INPUT = "".join(
    json.dumps({"type": name, "time": time, "x": value}) + "\n"
    for name, time, value in (("a", 1, 1), ("b", 1, 1), ("a", 4, 2))
)


def test_an_atom_put_at_a_tick_is_asked_as_it_is_written() -> None:
    def told(*asked: str) -> str:
        return explained(*asked, program=PUT, records=PUT_INPUT)

    by_rule = told("r(1) at 3")
    assert by_rule.startswith("r at(1, 3) over [1, 5)\n") and "      a(1) at 1  in.jsonl:1\n" in by_rule
    assert told("r at(1, 3)") == told("r at 3") == by_rule
    assert told("r(2) at").startswith("r at(2, 6) over [4, 8)\n")
    assert "1 earlier event of this kind" in told("r at")
    solved = told("p(1) at 1", "--at", "2")
    assert "in the answer at 2 by line 3:  p(X) at T" in solved and "    not q(1) at 1 in [3]\n" in solved
    assert told("--not", "r(2) at 6", "--at", "3").endswith("the next after: a(2) at 4\n")


def test_a_question_about_a_tick_that_cannot_be() -> None:
    for asked, message in (
        ("s at 3", "there is no event or fluent `s at`"),
        ("r(1) at 3 4", "`3 4` is not a tick"),
        ("r(1, 2) at 3", "`r at` has 1 argument before its tick"),
        ("r(1, 2, 3) at 3", "`r at` has 2 arguments, but 3 here"),
    ):
        Path("p.lars").write_text(PUT)
        Path("in.jsonl").write_text(PUT_INPUT)
        told = cep("explain", "p.lars", asked, "-i", "in.jsonl")
        assert told.exit_code == 2 and message in told.stderr, told.stderr


def test_an_event_of_rules_that_is_no_more_than_a_beginning_or_an_end() -> None:
    """What LARS derives is known when its tick is over, and so are its beginnings and ends."""
    Path("r.cep").write_text(
        "event seen(r: string) TIME time.\nfirst(R) <- BEGIN OF jam(R).\n"
        "last(R) <- END OF jam(R).\nwhole(R) <- jam(R).\n"
    )
    Path("j.lars").write_text("jam(R) :- seen(R) in [2].\n")
    Path("in.jsonl").write_text('{"type": "seen", "time": 2.2, "r": "a"}\n')
    for event, line, part in (
        ("first", 2, 'BEGIN OF jam("a") from 2 to 2.999999'),
        ("last", 3, 'END OF jam("a") from 5 to 5.999999'),
        ("whole", 4, 'jam("a") over [2, 5)'),
    ):
        told = cep("explain", "r.cep", "j.lars", f"{event}(a)", "--input", "in.jsonl").stdout
        assert f"r.cep:{line}:  {event}(R) <- " in told and f"\n  {part}\n" in told and "j.lars:1:  jam(R)" in told, (
            told
        )
