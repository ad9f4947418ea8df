"""Why a fluent holds, and why it does not: against what holds, over random programs; and the words of both."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.why.lines import refusals
from cep.connectors.why.text import Explainer
from cep.core.interval_sets import INFINITE
from cep.engine import Engine
from cep.explain.absence import absence
from cep.explain.derivation import derivation
from cep.explain.fluents import FluentFacts
from cep.explain.formulas import FormulaReader, set_of, when_of
from cep.explain.judging import Judge
from cep.explain.nodes import DerivationNode, FormulaNode
from cep.explain.occurrences import Memory, Occurrence
from cep.explain.question import EventQuestion
from tests.formula_maker import FEATURES
from tests.long import seeds
from tests.test_formulas import random_case
from tests.why_checks import check_gap

EVER = 2**62


def remembered(program: str, events: list[Any]) -> Engine:
    engine = Engine.from_text(program, lateness=None, remember=EVER)
    engine.receive([event for event in events if event.type in engine.inputs])
    engine.close()
    return engine


def held(memory: Memory) -> list[Occurrence]:
    names = [name for name, schema in memory.engine.outputs.items() if schema.fluent is not None]
    return [one for name in names for one in memory.find(name, {}, -EVER, EVER)]


@pytest.mark.parametrize("seed", seeds(60))
def test_formulas_read_again_hold_when_the_engine_says(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng, FEATURES, 3, 2)
    engine = remembered(case.program, case.events)
    memory, judge = Memory(engine), Judge(engine, most=None)
    facts, reader = FluentFacts(memory), FormulaReader(memory, judge)
    for name, schema in engine.outputs.items():
        if schema.fluent is None or not schema.fluent.defined:
            continue
        found: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for rule in facts.rules_of(name):
            for extent in reader.extents(rule.body, {}):
                args = tuple(judge.value(each, extent.bound)[0] for each in rule.arguments[: len(schema.attributes)])
                found.setdefault(args, []).extend(extent.when)
        expected: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for one in memory.find(name, {}, -EVER, EVER):
            expected.setdefault(one.args, []).append(one.codes)
        assert {args: when_of(set_of(when)) for args, when in found.items() if when} == {
            args: tuple(sorted(when)) for args, when in expected.items()
        }, name


@pytest.mark.parametrize("seed", seeds(40))
def test_every_interval_has_a_tree_and_every_gap_a_reason(seed: int) -> None:
    rng = random.Random(1000 + seed)
    case = random_case(rng, FEATURES, 3, 2)
    engine = remembered(case.program, case.events)
    memory, judge = Memory(engine), Judge(engine)
    explainer = Explainer(engine, times="seconds")
    every = held(memory)
    for one in rng.sample(every, min(6, len(every))):
        node = derivation(memory, judge, one, 100, 4)
        check(memory, node)
        json.dumps(explainer.why(one, 100, 4))
        other = min(
            (each for each in every if each.event == one.event and each.args == one.args), key=lambda e: e.start
        )
        if other.start > -EVER + 1:
            before = other.start - rng.randint(1, 3)
            found = absence(memory, judge, EventQuestion(one.event, dict(enumerate(one.args)), before, before))
            assert not found.occurrences and found.after == other
            for refusal in found.refusals:
                assert refusal.gaps or refusal.failure.kind != "formula", refusal.rule.span
            json.dumps(explainer.why_not(found.wanted))


@pytest.mark.parametrize("seed", seeds(60))
def test_what_is_said_of_a_gap_is_so(seed: int) -> None:
    rng = random.Random(f"gaps {seed}")
    engine = remembered((case := random_case(rng, FEATURES, 3, 2)).program, case.events)
    memory, judge = Memory(engine), Judge(engine, most=None)
    explainer, reader = Explainer(engine, times="seconds"), FormulaReader(memory, judge)
    for name, schema in engine.outputs.items():
        if schema.fluent is None or not schema.fluent.defined:
            continue
        for _ in range(6):
            at = rng.randint(-1, 42)
            values = {
                place: rng.choice("pqr") if each.type == "string" else rng.randint(0, 2)
                for place, each in enumerate(schema.attributes)
                if rng.random() < 0.8
            }
            wanted = EventQuestion(name, values, at, at)
            found = absence(memory, judge, wanted)
            for gap in (gap for refusal in found.refusals for gap in refusal.gaps):
                check_gap(explainer, reader, gap)
            kinds = {refusal.failure.kind for refusal in found.refusals}
            assert not kinds & {"policy", "whole"}, case.program
            text = "\n".join(refusals(explainer.why_not(wanted)))
            assert not re.search(r" recorded\b|(records|times|transitions) of |\w'", text), text


@pytest.mark.parametrize(
    ("word", "at", "lines"),
    [
        ("q", 6, ["from 2 to 6", "from just after 3 to just after 5", "it holds over [3, 3]"]),
        ("r", 5, ['s("a") holds at no time from just after 3 to just before 5', "it holds over [3, 3]"]),
        ("u", 3.5, ['s("a") does not hold at all times from just after 3 to just before 3.5', "just after 3"]),
        ("v", 5, ['s("a") does not hold at all times from the beginning to 5', 'there is no s("a") at the beginning']),
        ("w", 4, ['s("a") does not hold at 3.5']),
        ("x", 2, ['s("a") holds at no time from just after 3 to the end', "it holds over [3, 3]"]),
    ],
)
def test_bounds_of_a_gap_are_told_as_they_are(tmp_path: Path, word: str, at: float, lines: Sequence[str]) -> None:
    (tmp_path / "p.cep").write_text(
        "event s(x: string) TIME t.\n" + "".join(f"fluent {each}(x: string).\n" for each in "qruvwx")
        + "q(X) WHILE HISTORICALLY[0, 4 s] ONCE[0, 2 s] s(X).\nr(X) WHILE ONCE(0, 2 s) s(X).\n"
        "u(X) WHILE s(X) SINCE(0 s, 3 s] s(X).\nv(X) WHILE HISTORICALLY[0, inf) s(X).\n"
        "w(X) WHILE ONCE[500 ms, 500 ms] s(X).\nx(X) WHILE EVENTUALLY(1 s, inf) s(X).\n"
    )  # fmt: skip
    (tmp_path / "in.jsonl").write_text('{"type": "s", "t": 1, "x": "a"}\n{"type": "s", "t": 3, "x": "a"}\n')
    text = explained(tmp_path, "@/p.cep", "--not", f"{word}(a)", "--at", str(at), "-i", "@/in.jsonl")
    assert all(line in text for line in lines), text


def check(memory: Memory, node: DerivationNode) -> None:
    """What is in a tree belongs there."""
    one = node.occurrence
    fluent = memory.schemas[one.event].fluent
    if node.record or node.again or fluent is None or not one.bounds or node.left_out:
        return
    if fluent.defined:
        covered = set_of([each for part in node.formulas for each in part.when])
        first, last = one.codes
        assert any(a <= first and last <= b for a, b in when_of(covered)), (one, node.formulas)
        for part in node.formulas:
            inside(memory, part)
        return
    assert node.began is not None and node.began.how != "forgotten", one
    assert (node.ended is None) == (one.codes[1] == INFINITE)
    assert node.ended is None or node.ended.how != "forgotten", one


def inside(memory: Memory, node: FormulaNode) -> None:
    for part in node.parts:
        inside(memory, part) if isinstance(part, FormulaNode) else check(memory, part)


def explained(folder: Path, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["explain", *(a.replace("@/", f"{folder}/") for a in arguments)])
    assert result.exit_code == code, result.output
    return result.output.replace(f"{folder}/", "")


STATUS = """event quote(m: string) TIME time.
event done(m: string) TIME time.
event ping(m: string) TIME time.
fluent status(m: string) = state: string.
fluent near(a: string, b: string) START s END e.
fluent busy(n: int).
fluent known(m: string).
initially status(z) = old.
initiate status(M) = proposed <- quote(M).
initiate status(M) = ready <- done(M).
status(M) = proposed BECOMES void AFTER 10 s RENEWED.
status(M) = void ENDS AFTER 5 s.
busy(N) WHILE (status(_) = proposed OR near(_, _)) AND (near(A, B) AGGREGATE N = count()) WHERE N >= 2.
known(M) WHILE quote(M) OR ping(M).
offer(M) <- ping(M) WHERE status(M) = proposed, not known(M).
sold(M) <- ping(M) WHERE status(M) = ready.
"""
RECORDS = [
    {"type": "quote", "m": "x", "time": 1}, {"type": "near", "a": "p", "b": "q", "s": 2, "e": None},
    {"type": "near", "a": "p", "b": "r", "s": 4, "e": 30, "bounds": "[)"}, {"type": "quote", "m": "x", "time": 6},
    {"type": "near", "a": "p", "b": "q", "s": 2, "e": 20}, {"type": "ping", "m": "x", "time": 21},
    {"type": "quote", "m": "y", "time": 40}, {"type": "done", "m": "y", "time": 43},
    {"type": "ping", "m": "y", "time": 44},
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("why")
    (made / "p.cep").write_text(STATUS)
    (made / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in RECORDS))
    (made / "f.dmtl").write_text("Flag(X,Z) :- Monit(X,Z), Boxminus[0,4]Diamondminus[0,2]Signal(Z)\n")
    (made / "f.facts").write_text("Monit(a,z)@[0,20]\nSignal(z)@1\nSignal(z)@3\nSignal(z)@[4,6)\n")
    (made / "r.prolog").write_text(
        "initiatedAt(rich(X)=true, T) :- happensAt(win(X), T).\n"
        "initiatedAt(location(X)=Y, T) :- happensAt(go_to(X,Y), T).\n"
        "holdsFor(happy(X)=true, I) :- holdsFor(rich(X)=true, I1), holdsFor(location(X)=pub, I2), "
        "union_all([I1,I2], I).\n"
    )
    (made / "r.csv").write_text("win|9|9|ann\ngo_to|3|3|ann|pub\ngo_to|6|6|ann|home\n")
    return made


GIVEN = ("-i", "@/in.jsonl")


def test_values_begin_and_end_by_rules_deadlines_and_each_other(folder: Path) -> None:
    text = explained(folder, "@/p.cep", "status(x) = proposed", *GIVEN)
    assert 'status("x") = "proposed" over (1, 16]' in text
    assert "it ended at 16, 10 s after 6: line 11" in text and 'quote("x") at 6  in.jsonl:4' in text
    text = explained(folder, "@/p.cep", "status(x) = void", *GIVEN)
    assert "it began at 16, 10 s after 6: line 11" in text and "it ended at 21, 5 s after 16: line 12" in text
    text = explained(folder, "@/p.cep", "status(y) = proposed", *GIVEN)
    assert "it ended at 43, as another value began" in text and 'done("y") at 43' in text
    text = explained(folder, "@/p.cep", "status(y) = ready", *GIVEN)
    assert 'status("y") = "ready" from 43 on' in text and "nothing has ended it since" in text
    text = explained(folder, "@/p.cep", "status(z)", *GIVEN)
    assert "it held from before all time" in text and "line 8:  initially status(z) = old." in text


def test_aggregates_records_and_conditions_of_formulas_and_of_event_rules(folder: Path) -> None:
    text = explained(folder, "@/p.cep", "busy(2)", *GIVEN)
    assert "busy(2) over [4, 20]" in text and "N >= 2:  2 >= 2" in text
    assert 'near("p", "q") over [2, 20]' in text and "in.jsonl:5" in text, "the record that closes it"
    text = explained(folder, "@/p.cep", "sold(y)", *GIVEN)
    assert 'status("y") = "ready" from 43 on' in text and "line 10:  initiate status(M) = ready" in text
    text = explained(folder, "@/p.cep", "--not", "busy(2)", "--at", "25", *GIVEN)
    assert "but its formula does not hold at 25" in text
    text = explained(folder, "@/p.cep", "--not", "offer(x)", "--at", "21", *GIVEN)
    assert 'but status("x") = "proposed" does not hold at 21' in text
    text = explained(folder, "@/p.cep", "--not", "status(y) = ready", "--at", "43", *GIVEN)
    assert "all conditions hold at 43: the fluent holds from just after that" in text
    assert "status(x) = proposed holds" not in explained(folder, "@/p.cep", "--not", "near(p, q)", "--at", "21", *GIVEN)
    there = explained(folder, "@/p.cep", "--not", "near(p, q)", "--at", "20", *GIVEN, code=1)
    assert 'near("p", "q") holds at 20:' in there


def test_what_begins_with_an_event_that_lasts_is_no_choice_of_a_policy(tmp_path: Path) -> None:
    (tmp_path / "p.cep").write_text(
        "event a(k: string) TIME t.\nevent b(k: string) TIME t.\nfluent g(k: string).\n"
        "initiate g(K) <- a(K) SEQ b(K).\nterminate g(K) <- b(K) SEQ b(K).\n"
    )
    records = [{"type": kind, "t": at, "k": "x"} for kind, at in (("a", 1), ("b", 3), ("b", 5))]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, records)))
    text = explained(tmp_path, "@/p.cep", "--not", "g(x)", "--at", "3", "-i", "@/in.jsonl")
    assert "all conditions hold at 3: the fluent holds from just after that" in text and "policy" not in text
    text = explained(tmp_path, "@/p.cep", "--not", "g(x)", "--at", "6", "-i", "@/in.jsonl")
    assert "it ended at 5" in text and "policy" not in text


def test_records_of_what_formulas_define_are_told_as_records(tmp_path: Path) -> None:
    (tmp_path / "p.dmtl").write_text("Q(X) :- Boxminus[0,4]Diamondminus[0,2]S(X)\n")
    (tmp_path / "in.facts").write_text("S(a)@1\nS(a)@3\nQ(a)@[8,9)\n")
    text = explained(tmp_path, "@/p.dmtl", "Q(a)", "-i", "@/in.facts", "--events", "2")
    assert "in.facts:3" in text and "recorded" not in text
    text = explained(tmp_path, "@/p.dmtl", "--not", "Q(a)", "--at", "10", "-i", "@/in.facts")
    assert 'no record says that Q("a") holds at 10' in text and "recorded" not in text
    (tmp_path / "p.dmtl").write_text("Q(X) :- Boxplus[0,2]S(X)\n")
    page = CliRunner().invoke(app, ["plan", f"{tmp_path}/p.dmtl"]).output
    assert 'Q(x: string) START start END end FORMAT facts(tick: "1 s")' in page and "\n1.  g1(X) <-" in page
    assert page.count("Q(X) WHILE") == page.count(" WHILE ") == 1 and "recorded" not in page, page


def test_what_is_asked_wrongly(folder: Path) -> None:
    for asked, told in [
        ("status(x, y, z)", "`status` has 2 arguments, but 3 here"),
        ("near(p, q) = 3", "`near` has no value"),
        ("statu(x)", "there is no event or fluent `statu`"),
    ]:
        assert told in explained(folder, "@/p.cep", asked, *GIVEN, code=2)


def test_dialects_are_asked_as_they_are_written(folder: Path) -> None:
    text = explained(folder, "@/f.dmtl", "Flag(a, z)", "-i", "@/f.facts")
    assert "line 1:  Flag(X,Z) :- Monit(X,Z), Boxminus[0,4]Diamondminus[0,2]Signal(Z)" in text
    assert "Boxminus[0,4]Diamondminus[0,2]Signal(Z) over [5," in text and "f.facts:4" in text
    text = explained(folder, "@/f.dmtl", "--not", "Flag(a, z)", "--at", "4", "-i", "@/f.facts")
    assert "does not hold at all times from 0 to 4" in " ".join(text.split())
    given = ("-i", "@/r.csv", "--input-format", "rtec")
    text = explained(folder, "@/r.prolog", "happy(ann) = true", *given)
    assert "line 1:  initiatedAt(rich(X)=true, T)" in text and 'win("ann") at 9' in text
    text = explained(folder, "@/r.prolog", "--not", "location(ann) = pub", "--at", "7", *given)
    assert "it ended at 6, as another value began" in text


def test_as_json_and_as_provenance(folder: Path) -> None:
    (told,) = json.loads(explained(folder, "@/p.cep", "busy(2)", *GIVEN, "--format", "json"))
    (formula,) = told["formulas"]
    assert (told["start"], told["end"], told["bounds"]) == (4, 20, "[]") and formula["rule"]["line"] == 13
    assert formula["variables"]["N"] == 2 and formula["conditions"][0]["told"] == "2 >= 2"
    answer = json.loads(explained(folder, "@/p.cep", "--not", "offer(x)", "--at", "21", *GIVEN, "--format", "json"))
    (refusal,) = answer["rules"]
    assert refusal["failure"]["kind"] == "unheld" and refusal["ended"]["how"] == "deadline"
    lines = explained(folder, "@/p.cep", "status(y) = proposed", *GIVEN, "--format", "prov").splitlines()
    derived = [line for line in lines if "prov#wasDerivedFrom" in line and "urn:semcep:reading" in line]
    assert len(derived) == 2, "the quote and what ended it"


def test_a_fluent_was_generated_by_what_began_and_ended_it(folder: Path) -> None:
    lines = explained(folder, "@/p.cep", "status(y) = proposed", *GIVEN, "--format", "prov").splitlines()
    labels = [
        line.split('"', 1)[1].rsplit('"', 1)[0] for line in lines if "urn:semcep:rule/" in line and "label" in line
    ]
    assert labels == ["initiate status(M) = proposed <- quote(M).", "initiate status(M) = ready <- done(M)."]
    lines = explained(folder, "@/p.cep", "known(x)", *GIVEN, "--format", "prov").splitlines()
    assert sum("known(M) WHILE quote(M) OR ping(M)." in line for line in lines) == 1
    assert sum("prov#wasDerivedFrom" in line for line in lines) == 1 and any("urn:semcep:reading" in e for e in lines)


def test_why_a_value_that_another_becomes_is_not_there(folder: Path) -> None:
    def asked(what: str, at: str) -> str:
        return " ".join(explained(folder, "@/p.cep", "--not", what, "--at", at, *GIVEN).split())

    rule = "line 11: status(M) = proposed BECOMES void AFTER 10 s RENEWED. but "
    waits = 'status("x") = "proposed" becomes the requested value at 16, 10 s after 6'
    assert rule + waits in asked("status(x) = void", "12")
    never = asked("status(x) = void", "0")
    assert rule + 'status("x") = "proposed" did not hold before' in never
    assert never.count('line 9: initiate status(M) = proposed <- quote(M). but there is no quote("x")') == 1
    assert 'status("y") = "proposed" would become the requested value at 50, 10 s after 40' in asked(
        "status(y) = void", "42"
    )
    ended = 'status("y") = "proposed" ended before its deadline at 50 it ended at 43, as another value began'
    assert rule + ended in asked("status(y) = void", "45")
    answer = json.loads(explained(folder, "@/p.cep", "--not", "status(x) = void", "--at", "12", *GIVEN, "--format",
                                  "json"))  # fmt: skip
    assert [rule["failure"]["kind"] for rule in answer["rules"]] == ["head", "head", "head", "waits"]
