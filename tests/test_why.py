"""Why an event is there, and why it is not: checked by running the rules again, and against the reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cep.command import app
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.explain.absence import absence, fixed_of
from cep.explain.derivation import DerivationNode, derivation
from cep.explain.judging import Judge
from cep.explain.occurrences import Memory, Occurrence, same
from cep.explain.question import EventQuestion, interval, read_question
from cep.operators.aggregate import Window
from cep.operators.event import Atom
from cep.operators.pair import Pair
from cep.plan.algebra import Rule
from cep.plan.pattern import patterns
from cep.rules.terms import Variable
from connectors.why.text import Explainer, why
from knowledge.graph import Knowledge
from knowledge.provenance import Provenance
from tests import reference
from tests.cases_format import known
from tests.programs import Program, iterations, programs, recursions, windows
from tests.test_equivalence import examples, start

EVER = 2**62
HOUR = 3_600_000_000


def remembered(program: Program) -> Engine:
    engine = start(program, remember=EVER)
    engine.push([event for event in program.events if event.type in engine.inputs])
    engine.close()
    return engine


def everything(memory: Memory) -> list[Occurrence]:
    engine = memory.engine
    return [one for name in engine.outputs for one in memory.find(name, {}, -EVER, EVER) if not memory.is_input(one)]


def event(one: Occurrence) -> Event:
    return Event(one.event, one.args, one.start, one.end)


def nodes(node: DerivationNode) -> list[tuple[DerivationNode, list[Occurrence]]]:
    """All of a tree, each with what its rule was given: its parts, and the one it goes on from."""
    found: list[tuple[DerivationNode, list[Occurrence]]] = []
    for one, before in zip([node, *node.chain], [*node.chain, None]):
        earlier = [] if before is None else [before.occurrence]
        found.append((one, [*(part.occurrence for part in one.parts), *earlier]))
        found += [each for part in one.parts for each in nodes(part)]
    return found


def alone(engine: Engine, rule: Rule) -> str:
    """The program with this one rule of its event rules."""
    lines = engine.plan.source.text.split("\n")
    for other in engine.plan.rules.rules:
        if other is not rule:
            span = other.span
            for number in range(span.line, span.end_line + 1):
                first = span.column - 1 if number == span.line else 0
                last = span.end_column - 1 if number == span.end_line else len(lines[number - 1])
                line = lines[number - 1]
                lines[number - 1] = line[:first] + " " * (last - first) + line[last:]
    return "\n".join(lines)


def again(engine: Engine, node: DerivationNode, parts: list[Occurrence]) -> list[Event]:
    """What the rule of a node gives for its constituents alone."""
    assert node.rule is not None
    types = {name: tuple(a.type for a in engine.plan.schemas[name].attributes) for name in _read(node.rule)}
    alone_ = Engine.from_text(alone(engine, node.rule), types=types, remember=EVER, lateness=None)
    alone_.push([event(one) for one in parts])
    alone_.close()
    return [event(one) for one in Memory(alone_).find(node.occurrence.event, {}, -EVER, EVER)]


def _read(rule: Rule) -> list[str]:
    return [pattern.event for pattern in patterns(rule.body) if isinstance(pattern, Atom)]


def check_why(program: Program) -> None:
    engine = remembered(program)
    memory = Memory(engine)
    made = everything(memory)
    for one in made[:: max(1, len(made) // 6)]:
        tree = derivation(memory, Judge(engine, most=None), one)
        records = {each.occurrence.order for each, _ in nodes(tree) if each.record}
        assert records <= {record.order for record in memory.records(one.name)}, "a tree holds more than it comes from"
        for node, parts in nodes(tree):
            if node.rule is None:
                assert node.record or node.again, f"no rule gives {node.occurrence}"
            elif not node.left_out and not _chosen(node.rule):
                found = again(engine, node, parts)
                assert any(_equal(each, event(node.occurrence)) for each in found), f"{node.occurrence} of {found}"


def _chosen(rule: Rule) -> bool:
    """Whether a window counts pairs that a policy chose: of fewer events it may choose others."""
    windows = [part for part in patterns(rule.body) if isinstance(part, Window)]
    pairs = [each for window in windows for each in patterns(window.pattern) if isinstance(each, Pair)]
    return any(pair.policy.name != "unrestricted" for pair in pairs)


def _equal(one: Event, other: Event) -> bool:
    pairs = zip(one.args, other.args)
    alike = all((a is None and b is None) or same(a, b) for a, b in pairs)
    return alike and (one.start, one.end) == (other.start, other.end)


@examples(60)
@given(programs(knowledge=False))
def test_rules_give_an_event_again_for_what_why_names(program: Program) -> None:
    check_why(program)


@examples(40)
@given(st.one_of(windows(), iterations(), recursions()))
def test_also_in_windows_and_recursions(program: Program) -> None:
    check_why(program)


@examples(60)
@given(programs(policies=False, aggregates=False, knowledge=False), st.integers(0, 8), st.data())
def test_an_event_is_absent_for_a_reason_where_the_reference_has_none(
    program: Program, second: int, data: st.DataObject
) -> None:
    engine = remembered(program)
    memory, judge = Memory(engine), Judge(engine)
    expected = reference.detect(program.text, program.events)
    name = data.draw(st.sampled_from(sorted(engine.outputs)))
    known = [one for one in expected if one.type == name]
    fixed = {}
    if known and known[0].args and known[0].args[0] is not None and data.draw(st.booleans()):
        fixed = {0: data.draw(st.sampled_from(known)).args[0]}
        fixed = {place: value for place, value in fixed.items() if value is not None}
    time = second * 1_000_000
    found = absence(memory, judge, EventQuestion(name, fixed, time, time))
    there = [
        one
        for one in expected
        if one.type == name and one.start <= time <= one.end and all(same(one.args[i], v) for i, v in fixed.items())
    ]
    assert {event(one) for one in found.found if not memory.is_input(one)} == set(there)
    if found.found:
        return
    assert [each.rule for each in found.refusals] == [r for r in engine.plan.rules.rules if r.event == name]
    for refusal in found.refusals:
        failure = refusal.failure
        assert failure.kind != "policy", "without a policy all that holds is there"
        assert failure.kind != "condition" or not any(each.holds for each in failure.judged)
        if failure.kind == "missing" and isinstance(failure.pattern, Atom):
            want = fixed_of(failure.pattern, failure.values)
            every = [*program.events, *expected]
            assert not [
                one
                for one in every
                if one.type == failure.pattern.event
                and refusal.since <= one.end <= time
                and all(same(one.args[i], value) for i, value in want.items())
                and _repeats(failure.pattern, one)
            ], "what is said to be missing is there"


def _repeats(atom: Atom, one: Event) -> bool:
    """A variable that stands twice has one value."""
    pairs = [(a, v) for a, v in zip(atom.arguments, one.args) if isinstance(a, Variable) and a.name != "_"]
    return all(same(v, w) for a, v in pairs for b, w in pairs if a == b)


# --- told ---

BLIZZARD = Path("demos/blizzard/blizzard.cep").read_text(encoding="utf-8")
KITCHEN = """
@prefix : <http://example.org/kitchen#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:DairyFridge rdfs:subClassOf :Fridge .
:f1 a :DairyFridge ; :name "milk" ; :limit 7 .
"""
FRIDGE = """
PREFIX k: <http://example.org/kitchen#>
event reading(fridge: string, temp: float) TIME time.
limit(F, L) :- { ?f a k:Fridge ; k:name ?F ; k:limit ?L }.
warm: warm(F, T) <- reading(F, T) WHERE limit(F, L), T > L.
rising(F) <- reading(F, A) SEQ reading(F, B) WHERE B > A WITHIN 15 min.
silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN 30 min.
steep(F) <- NOT(warm(F, _)).[reading(F, A), reading(F, B)] WHERE B > A + 5.
"""
READINGS = """time,fridge,temp
2024-05-01 08:00,milk,4
2024-05-01 08:10,milk,8
2024-05-01 08:20,milk,6
2024-05-01 08:50,milk,12
"""


def cep(folder: Path, *arguments: str, status: int = 0) -> str:
    files = {"fridge.cep": FRIDGE, "fridge.csv": READINGS, "kitchen.ttl": KITCHEN}
    for name, text in files.items():
        (folder / name).write_text(text)
    options = ["--input", "reading=fridge.csv", "--knowledge", "kitchen.ttl"]
    with chdir(folder):
        result = CliRunner().invoke(app, ["explain", "fridge.cep", *arguments, *options])
    assert result.exit_code == status, result.output
    return result.output


def test_a_chain_of_readings_is_told_down_to_the_input() -> None:
    engine = Engine.from_text(BLIZZARD, remember=EVER)
    engine.push([Event("reading", ("EWR", 20.0, 1.0, 30.0), hour * HOUR, hour * HOUR) for hour in range(5)])
    engine.close()
    last = read_question("warning(EWR)", engine).found(Memory(engine))[-1]
    tree = Explainer(engine, calendar=False).why(last)
    assert tree == why(engine, "warning", tree["id"]) | {"start": 0, "end": 14400} | {"parts": tree["parts"]}
    assert (tree["text"], tree["rule"]["line"], tree["variables"]) == ('warning("EWR", 5)', 15, {"S": "EWR", "C": 5})
    assert [each["told"] for each in tree["conditions"]] == ["5 >= 4", "4 h >= 3 h"]
    (settling,) = tree["parts"]
    assert [each["arguments"]["readings"] for each in settling["chain"]] == [4, 3, 2, 1]
    assert [each["parts"][0]["end"] for each in settling["chain"]] == [10800, 7200, 3600, 0]
    short = Explainer(engine, calendar=False).why(last, most=4)
    assert [each["text"] for each in short["parts"][0]["chain"]] == ['settling("EWR", 4)']
    assert short["parts"][0]["left_out"] == 1


def test_what_an_engine_has_forgotten_it_does_not_tell() -> None:
    engine = Engine.from_text("high(X) <- a(X) WHERE X > 3. top(X) <- high(X) WHERE X > 5.", remember=6 * HOUR)
    for hour in range(48):
        engine.history._look_at = 0  # as if there were much
        engine.push([Event("a", (hour % 10,), hour * HOUR, hour * HOUR)])
    engine.close()
    memory = Memory(engine)
    assert [one.end // HOUR for one in read_question("top", engine).found(memory)] == [46, 47]
    assert [one.end // HOUR for one in read_question("a", engine).found(memory)] == [41, 42, 43, 44, 45, 46, 47]
    tree = derivation(memory, Judge(engine), read_question("top(7)", engine).found(memory)[-1])
    assert [(one.occurrence.event, one.record) for one, _ in nodes(tree)] == [
        ("top", False), ("high", False), ("a", True)
    ]  # fmt: skip


def test_knowledge_is_told_with_its_proof(tmp_path: Path) -> None:
    text = cep(tmp_path, "warm(milk, 8)")
    assert (
        text
        == f"""\
warm("milk", 8) at 2024-05-01T08:10:00Z
  {text.split()[4]}
  line 5:  warm: warm(F, T) <- reading(F, T) WHERE limit(F, L), T > L.
    F = "milk", T = 8, L = 7
    limit(F, L):  F = "milk", L = 7
      {{ ?f a k:Fridge ; k:name ?F ; k:limit ?L }}:  F = "milk", L = 7
        k:f1 a k:Fridge   cax-sco
          k:DairyFridge rdfs:subClassOf k:Fridge   asserted
          k:f1 a k:DairyFridge   asserted
        k:f1 k:name "milk"
        k:f1 k:limit 7
    T > L:  8 > 7
  reading("milk", 8) at 2024-05-01T08:10:00Z  fridge.csv:3
"""
    )
    assert cep(tmp_path, text.split()[4]) == text, "by its id"
    (answer,) = json.loads(cep(tmp_path, "warm(milk, 8)", "--format", "json"))
    assert answer["parts"][0]["record"]["line"] == 3 and "@" + answer["id"] == text.split()[4]
    facts = answer["conditions"][0]["because"][0]["triples"]
    assert [step["rule"] for step in facts[0]["steps"]] == ["cax-sco", "asserted", "asserted"]
    assert facts[0]["steps"][0]["from"] == [step["triple"] for step in facts[0]["steps"][1:]]
    assert facts[1]["steps"][0]["triple"][1:] == ["<http://example.org/kitchen#name>", '"milk"']

    prov = ox.Store()
    prov.load(cep(tmp_path, "warm(f: milk, t: 8)", "--format", "prov"), ox.RdfFormat.N_TRIPLES)
    query = """PREFIX prov: <http://www.w3.org/ns/prov#>
        PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> SELECT * {
        ?event prov:wasGeneratedBy/prov:used ?used
        OPTIONAL { ?used rdf:subject ?s ; rdf:predicate ?p ; rdf:object ?o }
        OPTIONAL { ?used prov:wasDerivedFrom/rdf:predicate ?from } } ORDER BY ?p ?from"""
    found = prov.query(query)
    assert isinstance(found, ox.QuerySolutions)
    rows = [[row[name] and row[name].value.rsplit("#", 1)[-1] for name in ("p", "o", "from")] for row in found]
    assert rows == [
        [None, None, None],  # the reading
        ["limit", "7", None],
        ["name", "milk", None],
        ["type", "Fridge", "type"],
        ["type", "Fridge", "subClassOf"],
    ]


def test_what_was_known_then_is_told(tmp_path: Path) -> None:
    engine = Engine.from_text(
        FRIDGE + "twice(F) <- warm(F, _) SEQ (reading(F, T) WHERE limit(F, L), T > L).",
        knowledge=Knowledge.load([_written(tmp_path / "kitchen.ttl", KITCHEN)], "owlrl"),
        remember=EVER,
    )
    used = Provenance(engine.changes.loaded)  # type: ignore[union-attr, arg-type]
    prefix = "PREFIX k: <http://example.org/kitchen#> "
    minute = 60_000_000
    for at, old, new in ((15, 7, 9), (25, 9, 11), (35, 11, 20)):
        engine.update(at * minute, f"{prefix}k:f1 k:limit {new} .", f"{prefix}k:f1 k:limit {old} .")
    degrees = {0: 4.0, 10: 8.0, 20: 10.0, 30: 12.0, 40: 12.0}
    engine.push([Event("reading", ("milk", each), at * minute, at * minute) for at, each in degrees.items()])
    engine.close()
    asked = Explainer(engine, used, calendar=False)

    def limits(answer: dict[str, Any]) -> list[str]:
        facts = [fact for c in answer.get("conditions", ()) for b in c.get("because", ()) for fact in b["triples"]]
        mine = [fact["triple"] for fact in facts if "limit" in fact["triple"]]
        return mine + [each for part in answer.get("parts", ()) for each in limits(part)]

    memory = Memory(engine)
    warm = [asked.why(one) for one in read_question("warm(milk)", engine).found(memory)]
    assert [(one["end"], one["variables"]["L"]) for one in warm] == [(600, 7), (1200, 9), (1800, 11)]
    assert [limits(one)[0].split()[-1] for one in warm] == ["7", "9", "11"]
    (pair, *_) = [asked.why(one) for one in read_question("twice(milk)", engine, "1200").found(memory)]
    assert sorted(each.split()[-1] for each in limits(pair)) == ["7", "9"], "each part by what was known when it came"
    refused = asked.why_not(read_question("warm(milk)", engine, "2400"), 60_000_000)
    assert refused["rules"][0]["failure"]["conditions"][0]["told"] == "12 > 20"
    before = asked.why_not(read_question("warm(milk)", engine, "0"), 60_000_000)
    assert before["rules"][0]["failure"]["conditions"][0]["told"] == "4 > 7"
    again = asked.why_not(read_question("warm(milk)", engine, "2400"), 60_000_000)
    assert again == refused, "what is known now is what it was"

    (tmp_path / "changes.trig").write_text(
        """@prefix prov: <http://www.w3.org/ns/prov#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
        @prefix : <http://example.org/kitchen#> .
        <urn:new> prov:generatedAtTime "2024-05-01T08:15:00Z"^^xsd:dateTime .
        <urn:old> prov:invalidatedAtTime "2024-05-01T08:15:00Z"^^xsd:dateTime .
        <urn:new> { :f1 :limit 20 } <urn:old> { :f1 :limit 7 }"""
    )
    changed = "--knowledge-updates", "changes.trig"
    assert "k:f1 k:limit 7\n" in cep(tmp_path, "warm(milk)", *changed)
    assert "T > L:  12 > 20" in cep(tmp_path, "--not", "warm(milk)", "--at", "2024-05-01T08:50", *changed)


LIMITS = """
PREFIX k: <http://example.org/kitchen#>
event r(f: string, t: int).
limit(F, L) :- { ?f k:name ?F ; k:limit ?L }.
high(F, T) <- r(F, T) WHERE limit(F, L), T > L.
pair(F, G) <- (high(F, _) SEQ r(G, T)) WHERE limit(G, L), T < L.
whole(F, L) <- (r(F, S) SEQ r(F, T)) WHERE { ?f k:name ?F ; k:limit ?L }, T >= S.
later(F, L) <- (r(F, _) UNLESS high(_, _) WITHIN 2 s) WHERE limit(F, L).
most(F, M) <- r(F, T) AGGREGATE M = max(T) OVER LAST 3 s BY F WHERE limit(F, L), M > L.
"""


@examples(12)
@given(
    st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 5)), min_size=1, max_size=8),
    st.dictionaries(st.integers(1, 8), st.tuples(st.sampled_from("xy"), st.integers(0, 4)), max_size=5),
)
def test_every_event_is_explained_by_what_was_known_then(
    readings: list[tuple[str, int]], changes: dict[int, tuple[str, int]]
) -> None:
    prefix = "PREFIX k: <http://example.org/kitchen#> "
    limits = {"x": 1, "y": 3}
    loaded = known(prefix + " ".join(f'k:{f} k:name "{f}" ; k:limit {n} .' for f, n in limits.items()))
    engine = Engine.from_text(LIMITS, knowledge=loaded, remember=EVER)
    for second, (name, limit) in sorted(changes.items()):
        engine.update(
            second * 1_000_000, f"{prefix}k:{name} k:limit {limit} .", f"{prefix}k:{name} k:limit {limits[name]} ."
        )
        limits[name] = limit
    engine.push([Event("r", one, n * 1_000_000, n * 1_000_000) for n, one in enumerate(readings)])
    engine.close()
    memory = Memory(engine)
    asked = Explainer(engine, Provenance(loaded), calendar=False)
    for one in everything(memory):
        answer = asked.why(one)
        assert "rule" in answer, answer["text"]
        if one.event == "whole":
            every = [fact for condition in answer["conditions"] for fact in condition.get("triples", ())]
            (fact,) = [each for each in every if "limit" in each["triple"]]
            assert fact["triple"].endswith(f"k:limit {one.args[1]}")


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_why_not_names_what_failed(tmp_path: Path) -> None:
    def answer(asked: str, at: str, *more: str) -> str:
        return cep(tmp_path, "--not", asked, "--at", f"2024-05-01T{at}", *more)

    assert "but `T > L` does not hold\n      T > L:  6 > 7" in answer("warm(milk)", "08:20")
    assert 'but there is no reading("beer", _) since 2024-04-30T08:20:00Z' in answer("warm(beer)", "08:20")
    assert "but WITHIN 15 min is exceeded by 15 min" in answer("rising(milk)", "08:50", "--back", "35min")
    assert 'but reading("milk", 8) came, at 2024-05-01T08:10:00Z' in answer("silent(milk)", "08:15")
    assert "silent" in cep(tmp_path, "--not", "silent(milk)", "--at", "2024-05-01T08:25", status=1), "it is there"
    told_ = json.loads(answer("rising(milk)", "08:50", "--back", "35min", "--format", "json"))
    assert [(rule["failure"]["kind"], rule["failure"]["by"]) for rule in told_["rules"]] == [("deadline", 900.0)]


@pytest.fixture
def nearest(tmp_path: Path) -> Callable[..., str]:
    def answer(rules: str, asked: str, at: str, **inputs: str) -> str:
        _written(tmp_path / "n.cep", rules)
        for name, times in inputs.items():
            rows = "".join(f"2024-05-01T{time},x\n" for time in times.split())
            _written(tmp_path / f"{name}.csv", "time,s\n" + rows)
        options = [part for name in inputs for part in ("-i", f"{name}={name}.csv")]
        with chdir(tmp_path):
            result = CliRunner().invoke(app, ["explain", "n.cep", "--not", asked, "--at", f"2024-05-01T{at}", *options])
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    return answer


def test_the_nearest_attempt_gives_what_was_asked_for(nearest: Callable[..., str]) -> None:
    rules = "event w(s: string) TIME time. hears(a, x). hears(b, x). "
    rules += "heard(A, S, T) <- w(S) WHERE hears(A, S), T = end()."
    over = nearest(rules, "heard(b)", "08:00", w="00:00 05:00")
    assert 'there is w("x") at 2024-05-01T05:00:00Z' in over and 'A = "b"' in over
    assert over.endswith("but it was over 3 h before the time asked for; all else holds")
    assert 'but `hears(A, S)` does not hold hears(A, S): A = "c"' in nearest(rules, "heard(c)", "08:00", w="05:00")
    other = nearest(rules, "heard(b, x, 2024-05-01T06:00:00Z)", "08:00", w="05:00")
    assert "but `T = end()` does not hold" in other
    chain = "event a(s: string) TIME time. k(S, 1) <- a(S). k(S, N + 1) <- k(S, N) SEQ a(S)."
    assert 'there is k("x", 3) from' in nearest(chain, "k(x, 4)", "08:00", a="00:00 05:00 07:00")
    assert nearest(chain, "k(x, 9)", "08:00", a="00:00 05:00 07:00").endswith('but it gives k("x", 3)')


@pytest.mark.parametrize(
    ("rule", "at", "a", "b", "answer"),
    [
        ("SEQ b(S) WITHIN 1 h", "04:30", "00:00 02:00", "01:00:00.000001 03:30", "is exceeded by 30 min"),
        ("SEQ b(S) WITHIN 1 h", "05:00", "00:00 03:00", "01:00:00.000001 04:33:20.000001", "by 33 min 20.000001 s"),
        ("SEQ b(S) WITHIN 1 h", "05:00", "00:00 00:10 00:59", "03:00", "exceeded by 1 h 1 min"),
        ("SEQ b(S) WITHIN 1 h", "08:00", "05:00 07:00", "07:30", "over 30 min before the time asked for"),
        ("SEQ b(S) WHERE duration() < 1 h", "08:00", "05:00 07:00", "07:30", "over 30 min before the time asked for"),
        ("SEQ b(S) WHERE duration() < 1 h", "07:30", "05:00 06:00", "07:30", "1 h 30 min < 1 h"),
        ("EQUALS b(S)", "09:00", "05:00 07:00", "05:01 08:30", "at 2024-05-01T07:00:00Z there is b"),
        ("UNLESS b(S) WITHIN 1 h", "04:30", "00:00", "04:00", "over 3 h 30 min before"),
        ("UNLESS b(S) WITHIN 1 h", "05:30", "05:00", "05:20", 'b("x") came, at 2024-05-01T05:20:00Z'),
    ],
)
def test_the_nearest_attempt_missed_by_least(
    nearest: Callable[..., str], rule: str, at: str, a: str, b: str, answer: str
) -> None:
    events = "event a(s: string) TIME time. event b(s: string) TIME time. "
    assert answer in nearest(f"{events}e(S) <- a(S) {rule}.", "e(x)", at, a=a, b=b)


def test_absence_between_two_and_a_time_point_are_told_likewise(nearest: Callable[..., str]) -> None:
    events = "event a(s: string) TIME time. event b(s: string) TIME time. "
    between = nearest(events + "e(S) <- NOT(b(S)).[a(S), a(S)].", "e(x)", "07:00", a="00:00 07:00", b="03:00")
    assert between.endswith('but b("x") came, at 2024-05-01T03:00:00Z')
    twice = "e(S) <- NOT(b(S)).[a(S), a(S)] WITHIN 1 h."
    both = nearest(events + twice, "e(x)", "07:00", a="00:00 05:00 07:00", b="03:00")
    assert "at 2024-05-01T05:00:00Z" in both and both.endswith("is exceeded by 1 h")
    point = "e <- 2024-05-01T07:00:00Z UNLESS a(_) WITHIN 1 h."
    assert nearest(events + point, "e", "04:30", a="00:00", b="").endswith("its time comes 2 h 30 min later")
    assert nearest(events + point, "e", "09:30", a="00:00", b="").endswith(
        "over 1 h 30 min before the time asked for; all else holds"
    )
    count = "e(S, N) <- a(S) AGGREGATE N = count() OVER LAST 1 h BY S WHERE N > 2."
    for asked in ("e(x)", "e(x, 3)"):
        few = nearest(events + count, asked, "02:30", a="00:00 02:20 02:30", b="")
        assert few.endswith("but `N > 2` does not hold N > 2: 2 > 2")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("warm(milk", "is no event"),
        ("worm(milk)", "there is no event `worm`"),
        ("warm(milk, 8, 9)", "`warm` has 2 arguments, here 3"),
        ("warm(milk, hot)", "`t` is of type float, `hot` is not"),
        ("warm(name: milk)", "`warm` has no attribute `name`"),
        ("a(1) SEQ b(2)", "is no event"),
    ],
)
def test_what_is_no_event_is_refused(asked: str, message: str) -> None:
    engine = Engine.from_text(
        "event a(t: int). warm(F, T) <- r(F, T) WHERE T > 1.0.", remember=EVER, types={"r": ("string", "float")}
    )
    with pytest.raises(CepError) as error:
        read_question(asked, engine)
    assert message in error.value.message


def test_times_are_read() -> None:
    assert interval("10") == (10_000_000, 10_000_000)
    assert interval("1970-01-01T00:00:01Z/2.5") == (1_000_000, 2_500_000)
    assert read_question("a(_, X1)", Engine.from_text("b <- a(X, Y)."), "1/2") == EventQuestion(
        "a", {1: "X1"}, 1_000_000, 2_000_000
    )
    for wrong in ("tomorrow", "2/1"):
        with pytest.raises(CepError):
            interval(wrong)
