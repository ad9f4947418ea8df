"""DatalogMTL: its syntax read, its programs run, facts as input, the same program in our own language."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.core.errors import CepError, CepErrors
from cep.engine import holds
from cep.events import Event, Held
from cep.language.reading import converted, read
from cep.language.spelled_names import spelled
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program

SECOND = 1_000_000

MONITORING = """\
# nodes that monitor a signal flag it when it came often enough
Often(Z) :- Diamondminus[0,2]Signal(Z)
Steady(Z) :- Boxminus[0,4]Often(Z)
Flag(X,Z) :- Monit(X,Z), Steady(Z)     % as in the paper, in normal form
"""
SHORT_STOP = """\
SpeedNonZero(X) :- NotOnMap(X)
ShortStop(X) :- SpeedNonZero(X), Boxminus[1]SpeedZero(X), Boxminus[2]SpeedNonZero(X)
ShortStop(X) :- SpeedNonZero(X), Boxminus[1]SpeedZero(X), Boxminus[2]SpeedZero(X), Boxminus[3]SpeedNonZero(X)
"""


def fact(name: str, *args: str, at: float, to: float | None = None) -> Event:
    end = at if to is None else to
    return Event(name, args, round(at * SECOND), round(end * SECOND))


def held(program: str, *facts: Event, only: str, **options: int) -> list[tuple[object, ...]]:
    """What holds of a predicate: its arguments, then its interval in seconds."""
    return [shown(each) for each in holds(program, facts, dialect="datalogmtl", **options) if each.type == only]


def shown(each: Held) -> tuple[object, ...]:
    start = "-inf" if each.start is None else f"{each.start / SECOND:g}"
    end = "inf" if each.end is None else f"{each.end / SECOND:g}"
    return (*each.args, f"{each.bounds[0]}{start},{end}{each.bounds[1]}")


def mistakes(program: str) -> str:
    with pytest.raises(CepError) as refused:
        read(program, "p.dmtl")
    return str(refused.value)


# --- running ---


def test_example_8_of_the_paper() -> None:
    """P(s1)@[97,100] was known before; Signal at 100 makes it last, and Flag follows at 101."""
    facts = [
        fact("Signal", "s1", at=96.3),
        fact("Often", "s1", at=97, to=100),
        fact("Signal", "s1", at=98),
        fact("Signal", "s1", at=100),
        fact("Monit", "n", "s1", at=101),
    ]
    assert held(MONITORING, *facts, only="Often") == [("s1", "[96.3,102]")]
    assert held(MONITORING, *facts, only="Steady") == [("s1", "[100.3,102]")]
    assert held(MONITORING, *facts, only="Flag") == [("n", "s1", "[101,101]")]


def test_example_1_of_the_paper() -> None:
    """Who is told of a signal by a neighbour that flags it monitors it, too, and flags it in turn."""
    program = """
    Flag(X,Z) :- Monit(X,Z), Boxminus[0,4]Diamondminus[0,2]Signal(Z)
    Boxplus[0,3]Monit(X,Z) :- Flag(Y,Z), Connect(X,Y)
    """
    facts = [
        *(fact("Signal", "s1", at=at) for at in (0, 1.5, 3, 5)),
        fact("Monit", "n", "s1", at=0, to=5),
        fact("Connect", "m", "n", at=0, to=6),
        fact("Connect", "k", "m", at=4.5, to=10),
    ]
    assert held(program, *facts, only="Flag") == [("k", "s1", "[4.5,7]"), ("m", "s1", "[4,7]"), ("n", "s1", "[4,5]")]
    assert held(program, *facts, only="Monit") == [
        ("k", "s1", "[4.5,10]"), ("m", "s1", "[4,8]"), ("n", "s1", "[0,5]"),
    ]  # fmt: skip


def test_a_recursion_that_never_ends_goes_on_to_the_end_of_the_input() -> None:
    program = "Tick(X) :- Start(X)\nTick(X) :- Diamondminus[2,2]Tick(X)\nLit(X) :- Diamondminus[0,1]Tick(X)"
    facts = [fact("Start", "x", at=0), fact("Start", "y", at=5)]
    assert held(program, *facts, only="Tick") == [
        ("x", "[0,0]"), ("x", "[2,2]"), ("x", "[4,4]"), ("y", "[5,5]"),
    ]  # fmt: skip
    assert held(program, *facts, only="Lit") == [("x", "[0,1]"), ("x", "[2,3]"), ("x", "[4,5]"), ("y", "[5,6]")]


def test_short_stops() -> None:
    """A stop of one and of two seconds; v2 is on no map in between, which counts as moving; v3 stands for good."""
    facts = [
        *(fact("SpeedNonZero", "v1", at=at) for at in (0, 3, 5)),
        *(fact("SpeedZero", "v1", at=at) for at in (1, 2, 4)),
        fact("NotOnMap", "v2", at=0),
        fact("SpeedZero", "v2", at=1),
        fact("NotOnMap", "v2", at=2),
        *(fact("SpeedZero", "v3", at=at) for at in range(8)),
    ]
    found = held(SHORT_STOP, *facts, only="ShortStop")
    assert found == [("v1", "[3,3]"), ("v1", "[5,5]"), ("v2", "[2,2]")]


@pytest.mark.parametrize(
    ("body", "interval"),
    [
        ("Diamondminus[1,2]A(X)", "[11,22]"),
        ("Boxminus[1,2]A(X)", "[12,21]"),
        ("Diamondplus[1,2]A(X)", "[8,19]"),
        ("Boxplus[1,2]A(X)", "[9,18]"),
        ("SOMETIME[-2,-1]A(X)", "[11,22]"),
        ("ALWAYS[-2,-1]A(X)", "[12,21]"),
        ("SOMETIME[1,2]A(X)", "[8,19]"),
        ("ALWAYS[-2,1]A(X)", "[12,19]"),
        ("SOMETIME[-2,1]A(X)", "[9,22]"),
        ("Diamondminus(1,2)A(X)", "(11,22)"),
        ("Boxminus(1,2)A(X)", "[12,21]"),
        ("Diamondminus[3/2,1.5]A(X)", "[11.5,21.5]"),
        ("Diamondminus[0,inf)A(X)", "[10,inf)"),
        ("Top Since[1,2]A(X)", "[11,22]"),
        ("A(X) Since[0,5]B(X)", "[15,20]"),
        ("A(X) Until[0,5]B(X)", "[10,15]"),
        ("A(X) Since[2,3]Top, A(X)", "[12,20]"),
        ("A(X), Boxminus[0,1](A(X), not B(X))", None),
        ("A(X), Top", "[10,20]"),
    ],
)
def test_operators(body: str, interval: str | None) -> None:
    """A holds from 10 to 20 and B at 15, of one thing."""
    facts = fact("A", "a", at=10, to=20), fact("B", "a", at=15)
    found = held(f"P(X) :- {body}", *facts, only="P")
    assert found == ([("a", interval)] if interval else [("a", "[11,15)"), ("a", "(16,20]")])


def test_facts_and_rules_feed_one_predicate() -> None:
    facts = fact("A", "a", at=1, to=3), fact("A", "a", at=2, to=5), fact("P", "a", at=5, to=7), fact("P", "b", at=1)
    assert held("P(X) :- A(X)", *facts, only="P") == [("a", "[1,7]"), ("b", "[1,1]")]


def test_what_always_and_what_never_holds() -> None:
    program = "P(a) :- Top\nQ(X) :- A(X), Bottom\nR(X) :- A(X), not Bottom"
    assert held(program, fact("A", "b", at=1), only="P") == [("a", "(-inf,inf)")]
    assert held(program, fact("A", "b", at=1), only="Q") == []
    assert held(program, fact("A", "b", at=1), only="R") == [("b", "[1,1]")]
    assert held(program, fact("A", "b", at=1), only="Top") == []


def test_an_inconsistency_names_its_rule() -> None:
    program = "P(X) :- A(X)\nBottom :- P(X), B(X)\nBottom :- B(X), C(X)\n"
    assert held(program, fact("A", "a", at=1, to=3), fact("B", "b", at=2), only="P") == [("a", "[1,3]")]
    with pytest.raises(CepError) as refused:
        holds(program, [fact("A", "a", at=1, to=3), fact("B", "a", at=2, to=2.5)], dialect="datalogmtl")
    text = str(refused.value)
    assert "<program>:2:1: the input contradicts this rule" in text
    assert "X = a at [1970-01-01T00:00:02Z, 1970-01-01T00:00:02.5Z]" in text


def test_a_tick_is_as_long_as_is_said() -> None:
    found = holds("P(X) :- Diamondminus[1,2]A(X)", [Event("A", ("a",), 0, 0)], dialect="datalogmtl", tick=1000)
    assert [(each.start, each.end) for each in found if each.type == "P"] == [(1000, 2000)]


# --- in our own words ---


@pytest.mark.parametrize("program", [MONITORING, SHORT_STOP])
def test_the_converted_program_reads_as_it_was_meant(program: str) -> None:
    tree = read(program, "p.dmtl")
    text = converted(program, "p.dmtl")
    assert print_program(parse(text)) == text == print_program(spelled(tree))


def test_the_converted_program_means_the_same() -> None:
    text = converted(MONITORING, "p.dmtl")
    times = (0, 1.5, 3, 5)
    own = [fact("Signal", "s1", at=at) for at in times] + [fact("Monit", "n", "s1", at=2, to=6)]
    came = [replace(each, type=each.type.lower()) for each in own]
    here = [shown(each) for each in holds(text, came) if each.type == "flag"]
    assert here == held(MONITORING, *own, only="Flag") == [("n", "s1", "[4,6]")]


def test_names_that_are_keywords_here() -> None:
    text = converted("Event(Not) :- Or(Not), event(Not)\n", "p.dmtl")
    assert print_program(parse(text)) == text
    assert "event_(Not_) WHILE or_(Not_) AND event__(Not_)." in text


# --- mistakes ---


@pytest.mark.parametrize(
    ("program", "where", "what"),
    [
        ("P(X) :- Diamondminus[2,1]A(X)", "1:21", "ends before it begins"),
        ("P(X) :- Diamondminus[2,2)A(X)", "1:21", "this interval is empty"),
        ("P(X) :- Diamondminus[-1,2]A(X)", "1:22", "SOMETIME and ALWAYS have signs"),
        ("P(Y) :- A(X)", "1:3", "`Y` has no value"),
        ("P(X) :- not A(X)", "1:3", "`X` has no value"),
        ("Diamondplus[0,1]P(X) :- A(X)", "1:1", "a head cannot contain `Diamondplus`"),
        ("P(X) Since[0,1]Q(X) :- A(X)", "1:6", "a head cannot contain `Since`"),
        ("P(X) :- A(X)\nA(X) :- P(X,X)", "2:9", "`P` has 1 arguments at 1:1, but 2 here"),
        ("P(X) :- A(X), ", "1:14", "an atom"),
        ("P(a)@3", "1:5", "put facts in a file of their own"),
        ("P(X) :- A(f(X))", "1:11", "is a term with arguments"),
        ("P(X) :- Boxminus[0,0.0000005]A(X)", "1:20", "--tick 1min"),
        ("P(X) :- A(X) Since[0,1]B(X) Since[0,1]C(X)", "1:29", "parentheses"),
        ("P(X) :- A(X) Since(0,1)Top", "1:9", "and an open interval is not supported"),
        ("P(X) :- A(X), !B(X)", "1:15", "negation is written `not B(X)`"),
        ("P(X) :- A(X), X > 3", "1:17", "in our own language, which has WHERE"),
        ("P(X) :- A(X) or B(X)", "1:14", "write a rule for each of the two"),
        ("P(X) :- A(X) and B(X)", "1:14", "put `,` between the atoms"),
        ("P(X) :- Once[0,1]A(X)", "1:13", "`Once` is not an operator here: `Diamondminus[0,2]`"),
        ("P(X) :- historically[0,1]A(X)", "1:21", "`historically` is not an operator here: `Boxminus[0,2]`"),
        ("P(X) :- Next A(X)", "1:14", "`Next` is not an operator here: `Diamondplus[1,1]` is one tick later"),
        ("P(X) :- A(X) Release[0,1] B(X)", "1:14", "`Release` is not an operator here"),
        ("P(X) :- A(X)@3", "1:13", "in a rule use an operator: `Diamondminus[3,3]B(X)`"),
        ("P(X) :- A(X), Boxminus[0,1]not B(X)", "1:28", "`not Boxminus[0,1]B(X)`"),
    ],
)
def test_mistakes_have_a_place_and_a_hint(program: str, where: str, what: str) -> None:
    text = mistakes(program)
    assert f"p.dmtl:{where}: " in text
    assert what in text
    assert "hint: " in text


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(CepErrors) as refused:
        read("P(X) :- \nQ(X :- A(X)\nR(X) :- A(X)", "p.dmtl")
    assert len(refused.value.errors) == 2


# --- from files ---


def ran(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    return done.exit_code, done.stdout, done.stderr


def test_a_program_and_facts_from_files(tmp_path: Path) -> None:
    program, facts, dead = tmp_path / "p.dmtl", tmp_path / "in.facts", tmp_path / "dead.jsonl"
    program.write_text(MONITORING)
    facts.write_text(
        "# what came\nSignal(s1)@0\nSignal(s1)@1.5\nSignal(s1)@[3,7/2)\nSignal(s1)@5.\n"
        'Monit(n,"s1")@[0,inf)\nSignal(s1)@(7,6]\nSgnal(s1)@7\nSignal(s1)@0.00000001\nSignal(s1\n'
    )
    code, out, _ = ran("run", program, "--input", facts, "--only", "Flag", "--dead-letter", dead)
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {"type": "Flag", "start": 4, "end": 7, "x": "n", "z": "s1", "bounds": "[]"}
    ]
    reasons = dead.read_text()
    assert "`(7,6]` ends before it begins" in reasons
    assert "did you mean `Signal`?" in reasons or "`Signal`" in reasons
    assert "--tick" in reasons
    assert "this is not a fact" in reasons


def test_ends_of_facts_are_open_or_closed_as_written(tmp_path: Path) -> None:
    program, facts = tmp_path / "p.dmtl", tmp_path / "in.facts"
    program.write_text("P(X) :- A(X)\n")
    facts.write_text("A(a)@[0,1)\nA(a)@(1,2]\nA(b)@(0,1]\nA(b)@(1,2)\nA(c)@(3,4)\nA(c)@[4,5]\n")
    code, out, _ = ran("run", program, "--input", facts, "--only", "P", "--tick", "1ms")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    found = {(row["x"], row["bounds"], row["start"], row["end"]) for row in rows}
    assert found == {
        ("a", "[)", 0, 1),
        ("a", "(]", 1, 2),
        ("b", "()", 0, 2),
        ("c", "(]", 3, 5),
    }


@pytest.mark.parametrize("options", [(), ("--changes",)])
def test_an_inconsistency_ends_a_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    program, facts = tmp_path / "p.dmtl", tmp_path / "in.facts"
    program.write_text("Bottom :- A(X), B(X)\n")
    facts.write_text("A(a)@[0,3)\nB(a)@2\n")
    code, _, err = ran("run", program, "--input", facts, *options)
    assert code == 2
    assert "p.dmtl:1:1: the input contradicts this rule: its body holds with X = a at 1970-01-01T00:00:02Z" in err


def test_dialects_are_chosen_by_suffix_or_option(tmp_path: Path) -> None:
    program = tmp_path / "rules.txt"
    program.write_text("P(X) :- A(X)\n")
    assert ran("check", program)[0] == 2
    code, out, _ = ran("check", program, "--dialect", "datalogmtl")
    assert code == 0
    assert "1 rule, 2 event types" in out
    code, _, err = ran("check", program, "--dialect", "datalogmtal")
    assert code == 2
    assert "did you mean `datalogmtl`?" in err or "`datalogmtl`" in err
    own = tmp_path / "own.cep"
    own.write_text("a(X) <- b(X).\n")
    assert "--tick: times of this program have units" in ran("check", own, "--tick", "1ms")[2]


def test_convert_prints_our_language(tmp_path: Path) -> None:
    program = tmp_path / "p.dmtl"
    program.write_text(MONITORING)
    code, out, _ = ran("convert", program, "--tick", "1min")
    assert code == 0
    assert "steady(Z) WHILE HISTORICALLY[0 s, 4 min] often(Z)." in out
    assert "flag(X, Z) WHILE monit(X, Z) AND steady(Z)." in out
