"""RTEC: event descriptions read and run, its records, its output, the same program in our own language."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from cep.api import Engine as PublicEngine
from cep.command import app
from cep.core.errors import CepError
from cep.engine import holds
from cep.events import Event, Held, Value
from cep.language.reading import converted, read
from cep.language.spelled_names import spelled
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program

SECOND = 1_000_000

LIFE = """\
% who is rich, and where
initiatedAt(rich(X)=true, T) :- happensAt(wins(X), T).
terminatedAt(rich(X)=true, T) :- happensAt(loses(X), T).
initiatedAt(location(X)=Y, T) :- happensAt(go_to(X, Y), T).

holdsFor(happy(X)=true, I) :-
    holdsFor(rich(X)=true, I1),
    holdsFor(location(X)=pub, I2),
    union_all([I1, I2], I).

grounding(rich(P)=true) :- person(P).
grounding(location(P)=W) :- person(P), place(W).
grounding(happy(P)=true) :- person(P).
person(chris).  place(home).  place(work).  place(pub).
index(go_to(_, Place), Place).
"""
DAY = [
    ("go_to", 1, "chris", "home"), ("go_to", 9, "chris", "work"), ("wins", 13, "chris"),
    ("go_to", 17, "chris", "pub"), ("loses", 19, "chris"), ("go_to", 21, "chris", "home"), ("wins", 22, "nobody"),
]  # fmt: skip


def happened(*rows: tuple[Value, ...]) -> list[Event]:
    """Events of (name, tick, arguments)."""
    made = []
    for name, tick, *arguments in rows:
        assert isinstance(tick, int)
        made.append(Event(str(name), tuple(arguments), tick * SECOND, tick * SECOND))
    return made


def ticks(each: Held) -> str:
    """An interval as RTEC writes it: the ticks [S, E)."""
    assert each.start is None or each.bounds[0] == "("
    start = "-inf" if each.start is None else f"{each.start // SECOND + 1}"
    return f"{start},{'inf' if each.end is None else each.end // SECOND + 1}"


def found(program: str, *rows: tuple[Value, ...], only: str) -> list[str]:
    """The intervals of a fluent, with its arguments and value."""
    every = holds(program, happened(*rows), dialect="rtec")
    return [f"{','.join(map(str, each.args))} {ticks(each)}" for each in every if each.type == only]


def mistakes(program: str) -> str:
    with pytest.raises(CepError) as refused:
        read(program, "x.prolog")
    return str(refused.value)


# --- what holds ---


def test_simple_and_statically_determined_fluents() -> None:
    assert found(LIFE, *DAY, only="rich") == ["chris,true 14,20"]
    assert found(LIFE, *DAY, only="happy") == ["chris,true 14,22"]
    assert found(LIFE, *DAY, only="location") == [
        "chris,home 2,10",
        "chris,home 22,inf",
        "chris,pub 18,22",
        "chris,work 10,18",
    ]


def test_without_a_grounding_everybody_counts() -> None:
    program = "\n".join(line for line in LIFE.splitlines() if not line.startswith("grounding"))
    assert found(program, *DAY, only="rich") == ["chris,true 14,20", "nobody,true 23,inf"]


def test_initially_holds_from_tick_0() -> None:
    program = LIFE + "initially(location(_)=home).\n"
    assert found(program, ("go_to", 4, "chris", "pub"), only="location") == ["chris,home 0,5", "chris,pub 5,inf"]


GAPS = """\
initiatedAt(gap(V)=nearPorts, T) :-
    happensAt(gap_start(V), T),
    holdsAt(withinArea(V, nearPorts)=true, T).
initiatedAt(gap(V)=farFromPorts, T) :-
    happensAt(gap_start(V), T),
    \\+ holdsAt(withinArea(V, nearPorts)=true, T).
terminatedAt(gap(V)=_, T) :- happensAt(gap_end(V), T).
initiatedAt(withinArea(V, A)=true, T) :- happensAt(entersArea(V, Id), T), areaType(Id, A).
terminatedAt(withinArea(V, A)=true, T) :- happensAt(leavesArea(V, Id), T), areaType(Id, A).
terminatedAt(withinArea(V, _)=true, T) :- happensAt(gap_start(V), T).
areaType(a1, nearPorts).
areaType(a2, fishing).
"""


def test_conditions_look_strictly_back() -> None:
    """The gap at 9 is near ports, though the same event ends being there."""
    rows = [("entersArea", 5, "v", "a1"), ("gap_start", 9, "v"), ("gap_end", 12, "v"), ("gap_start", 20, "v")]
    assert found(GAPS, *rows, only="gap") == ["v,farFromPorts 21,inf", "v,nearPorts 10,13"]
    assert found(GAPS, *rows, only="withinArea") == ["v,nearPorts,true 6,10"]


def test_what_happens_and_does_not_happen_at_one_time() -> None:
    program = """
    initiatedAt(alone(X)=true, T) :- happensAt(come(X), T), \\+ happensAt(come(friend), T).
    initiatedAt(both(X)=true, T) :- happensAt(come(X), T), happensAt(ring(X, N), T), N > 1.
    initiatedAt(other(X)=true, T) :- happensAt(come(X), T), \\+ happensAt(ring(_, _), T).
    """
    rows = [("come", 1, "a"), ("come", 4, "b"), ("come", 4, "friend"), ("ring", 4, "b", 2.0), ("ring", 1, "a", 1.0)]
    assert found(program, *rows, only="alone") == ["a,true 2,inf"]
    assert found(program, *rows, only="both") == ["b,true 5,inf"]
    assert found(program, *rows, ("come", 7, "c"), only="other") == ["c,true 8,inf"]


QUOTES = """\
initiatedAt(quote(M,C)=true, T) :- happensAt(present_quote(M,C,_Price), T).
initiatedAt(quote(M,C)=false, T) :- happensAt(accept_quote(C,M), T).
fi(quote(M,C)=true, quote(M,C)=false, 5).
initiatedAt(contract(M,C)=true, T) :-
    happensAt(accept_quote(C,M), T),
    holdsAt(quote(M,C)=true, T),
    \\+ holdsAt(suspended(C,consumer)=true, T).
"""


def test_deadlines() -> None:
    """Presented at 2 and 4: without `p` it ends 5 after the first, with it 5 after the second."""
    rows = [("present_quote", 2, "m", "c", 1.0), ("present_quote", 4, "m", "c", 1.0), ("accept_quote", 8, "c", "m")]
    assert found(QUOTES, *rows, only="quote") == ["m,c,false 8,inf", "m,c,true 3,8"]
    assert found(QUOTES, *rows, only="contract") == []
    renewed = QUOTES + "p(quote(_M,_C)=true).\n"
    assert found(renewed, *rows, only="quote") == ["m,c,false 9,inf", "m,c,true 3,9"]
    assert found(renewed, *rows, only="contract") == ["m,c,true 9,inf"]
    older = QUOTES.replace("fi(", "maxDurationUE(")  # what came before `fi` and `p`
    assert found(older, *rows, only="quote") == ["m,c,false 9,inf", "m,c,true 3,9"]
    assert found(QUOTES.replace("fi(", "maxDuration("), *rows, only="quote") == found(QUOTES, *rows, only="quote")
    given = QUOTES.replace("false, 5)", "false, D) :- deadline(D)") + "deadline(3).\n"
    assert found(given, *rows, only="quote") == ["m,c,false 6,inf", "m,c,true 3,6"]


SHIPS = """\
initiatedAt(stopped(V)=true, T) :- happensAt(stop_start(V), T).
terminatedAt(stopped(V)=true, T) :- happensAt(stop_end(V), T).
initiatedAt(inArea(V,A)=true, T) :- happensAt(enters(V,A), T).
terminatedAt(inArea(V,A)=true, T) :- happensAt(leaves(V,A), T).
"""
TRIP = [
    ("stop_start", 10, "v"), ("stop_end", 30, "v"), ("enters", 5, "v", "port"), ("leaves", 12, "v", "port"),
    ("enters", 20, "v", "bay"), ("leaves", 24, "v", "bay"), ("stop_start", 40, "v"), ("stop_end", 42, "v"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("intersect_all([I1,I2], I)", ["11,13"]),
        ("union_all([I1,I2], I)", ["41,43", "6,31"]),
        ("union_all([I1,I2,I3], I)", ["41,43", "6,31"]),
        ("relative_complement_all(I1, [I2], I)", ["13,31", "41,43"]),
        ("relative_complement_all(I1, [I2,I3], I)", ["13,21", "25,31", "41,43"]),
        ("complement_all([I1,I2], I)", ["0,6", "31,41", "43,inf"]),
        ("union_all([I2,I3], I4), relative_complement_all(I1, [I4], I5), intDurGreater(I5, 2, I)", ["13,21", "25,31"]),
        ("limit(least, D), intDurGreater(I1, D, I)", ["11,31"]),
        ("intDurLess(I1, 20, I)", ["41,43"]),
        ("limit(least, D), intDurLess(I1, D, I)", ["41,43"]),
        ("findall((S,E), (member((S,E), I1), Diff is E-S, Diff > 2), I)", ["11,31"]),
        ("findall((S,E), (member((S,E), I1), E \\= inf, Diff is E-S, Diff >= 2), I)", ["11,31", "41,43"]),
        ("findall((S,E), (member((S,E), I1), Diff is E-S, Diff =< 2), I)", ["41,43"]),
        ("findall((S,E), (member((S,E), I1), E-S < 2), I)", []),
        ("union_all([I1,I2], I4), limit(least, D), findall((A,B), (member((A,B), I4), D < B-A), I)", ["6,31"]),
        ("ship(V), \\+ I2=[], intersect_all([I1,I3], I)", ["21,25"]),
    ],
)
def test_constructs_of_intervals(body: str, wanted: list[str]) -> None:
    """Stopped [11,31) and [41,43), in port [6,13), in the bay [21,25)."""
    program = (
        f"{SHIPS}ship(v).\nlimit(least, 10).\ngrounding(f(V)=true) :- ship(V).\n"
        "holdsFor(f(V)=true, I) :- holdsFor(stopped(V)=true, I1), holdsFor(inArea(V,port)=true, I2),\n"
        f"    holdsFor(inArea(V,bay)=true, I3), {body}.\n"
    )
    intervals = sorted(each.split()[1] for each in found(program, *TRIP, only="f"))
    assert intervals == sorted(wanted)
    own = holds(converted(program, "x.prolog"), happened(*TRIP))
    assert sorted(ticks(each) for each in own if each.type == "f") == sorted(wanted), "the same, converted"


def test_starts_and_ends_of_fluents_are_events() -> None:
    """They happen when the events happen that begin and end it."""
    program = f"""{SHIPS}
    holdsFor(quiet(V)=true, I) :- holdsFor(stopped(V)=true, I1), holdsFor(inArea(V,port)=true, I2),
        relative_complement_all(I1, [I2], I).
    initiatedAt(waiting(V)=yes, T) :- happensAt(start(stopped(V)=true), T).
    initiatedAt(waiting(V)=no, T) :- happensAt(end(stopped(V)=true), T).
    initiatedAt(seen(V)=true, T) :- happensAt(start(quiet(V)=true), T).
    """
    assert found(program, *TRIP, only="waiting") == ["v,no 31,41", "v,no 43,inf", "v,yes 11,31", "v,yes 41,43"]
    assert found(program, *TRIP, only="quiet") == ["v,true 13,31", "v,true 41,43"]
    assert found(program, *TRIP, only="seen") == ["v,true 13,inf"]


def test_events_of_rules_arithmetic_and_atemporal_rules() -> None:
    program = """
    happensAt(fast(V, K), T) :- happensAt(velocity(V, S), T), K is S * 1.8, speedy(V, Max), K >= Max.
    initiatedAt(moving(V)=Kind, T) :- happensAt(fast(V, _), T), (tug(V), Kind = tug ; \\+ tug(V), Kind = ship).
    speedy(V, Max) :- type(V, Type), limit(Type, Max), Max \\= 0.
    tug(V) :- type(V, tugboat).
    type(v1, tugboat). type(v2, tanker). limit(tugboat, 9). limit(tanker, 18).
    """
    rows = [("velocity", 1, "v1", 5.0), ("velocity", 2, "v2", 5.0), ("velocity", 3, "v2", 10.0)]
    assert found(program, *rows, only="moving") == ["v1,tug 2,inf", "v2,ship 4,inf"]


def test_cycles_of_simple_fluents() -> None:
    """Each hands on to the next: conditions look strictly back, so one step an instant."""
    program = """
    initiatedAt(light(X)=green, T) :- happensAt(step(X), T), holdsAt(light(X)=red, T).
    initiatedAt(light(X)=red, T) :- happensAt(step(X), T), holdsAt(light(X)=green, T).
    initiatedAt(light(X)=red, T) :- happensAt(on(X), T), \\+ holdsAt(light(X)=green, T).
    """
    rows = [("on", 1, "a"), ("step", 3, "a"), ("on", 4, "a"), ("step", 6, "a")]
    assert found(program, *rows, only="light") == ["a,green 4,7", "a,red 2,4", "a,red 7,inf"]


def test_terms_as_arguments_become_part_of_the_name() -> None:
    program = """
    initiatedAt(obl(pay(X))=true, T) :- happensAt(buy(X), T).
    initiatedAt(obl(send(X))=true, T) :- happensAt(sell(X), T).
    """
    assert found(program, ("buy", 1, "a"), ("sell", 2, "b"), only="obl_pay") == ["a,true 2,inf"]


# --- in our own words ---


@pytest.mark.parametrize("program", [LIFE, GAPS, QUOTES + "p(quote(_,_)=true).\n"])
def test_the_converted_description_reads_as_it_was_meant(program: str) -> None:
    tree = read(program, "x.prolog")
    text = converted(program, "x.prolog")
    assert print_program(parse(text)) == text == print_program(spelled(tree))


def test_the_converted_description_means_the_same() -> None:
    for program, rows, fluent in ((LIFE, DAY, "happy"), (GAPS, [("gap_start", 9, "v")], "gap")):
        own = holds(converted(program, "x.prolog"), happened(*rows))
        here = [f"{','.join(map(str, each.args))} {ticks(each)}" for each in own if each.type == fluent]
        assert here == found(program, *rows, only=fluent)
        assert here


def test_a_tick_is_as_long_as_is_said() -> None:
    text = converted(QUOTES, "x.prolog", tick=60 * SECOND)
    assert 'BECOMES "false" AFTER 5 min.' in text


# --- mistakes ---


@pytest.mark.parametrize(
    ("program", "where", "what"),
    [
        (
            "initiatedAt(a(X)=true, T) :- happensAt(e(X), T), findall(Y, p(Y), L).",
            "1:50",
            "`findall` is not supported",
        ),
        ("initiatedAt(a(X)=true, T) :- holdsAt(b(X)=true, T).", "1:1", "this rule has no event"),
        ("initiatedAt(a(X)=true, T) :- happensAt(e(X), T2).", "1:46", "another time than the head"),
        ("initiatedAt(a(X)=true, T) :- happensAt(e(X), T", "1:1", "this clause has no end"),
        ("initiatedAt(a(X), T) :- happensAt(e(X), T).", "1:13", "expected a fluent and its value"),
        ("initiatedAt(a(X)=true, T) :- happensAt(e(X T), T).", "1:44", "expected `,` or `)`"),
        ("initiatedAt(a(Y)=true, T) :- happensAt(e(X), T).", "1:15", "`Y` has no value"),
        ("initiatedAt(a(X)=true, T0, T, T1) :- happensAtIE(e(X), T).", "1:1", "output of RTEC's compiler"),
        (
            "initiatedAt(a(X)=true, T) :- happensAt(e(X), T), T > 3.",
            "1:50",
            "the time of an event cannot be used as a value",
        ),
        ("holdsFor(a(X)=true, I) :- holdsFor(b(X)=true, I1), union_all([I1,I2], I).", "1:66", "the intervals `I2`"),
        ("holdsFor(a(X)=true, I) :- holdsFor(b(X)=true, I1).", "1:1", "no condition of the body defines `I`"),
        ("holdsFor(a(X)=true, I) :- holdsFor(b(X)=true, I1), I1 = [], union_all([I1], I).", "1:52", "only at the end"),
        (
            "holdsFor(a(X)=true, I) :- holdsFor(b(X)=true, I1), allen(meets, I1, I1, I).",
            "1:52",
            "`allen` is not supported",
        ),
        (
            "holdsFor(a(X)=true, I) :- holdsFor(b(X)=true, I1), complement_all([I1], I).",
            "1:12",
            "`grounding(a(..)=..) :- ..`",
        ),
        ("initiatedAt(a(X)=1, T) :- happensAt(a(X), T).", "1:37", "`a` is a fluent elsewhere, but an event here"),
        ("initiatedAt(a(X)=true, T) :- happensAt(e(X)).", "1:30", "this is not how `happensAt` is written"),
        ("holdsFor(a(X)=true, I) :- holdsFor(b(X)=true), I = I.", "1:27", "this is not how `holdsFor` is written"),
        ("fi(a(X)=true, b(X)=true, 5).", "1:15", "a deadline cannot begin another fluent"),
    ],
)
def test_mistakes_have_a_place(program: str, where: str, what: str) -> None:
    text = mistakes(program)
    assert f"x.prolog:{where}: " in text, text
    assert what in text, text


def test_a_cycle_of_holds_for_is_named() -> None:
    text = mistakes(
        "holdsFor(a(X)=true, I) :- holdsFor(b(X)=true, I).\n"
        "holdsFor(b(X)=true, I) :- holdsFor(c(X)=true, I1), holdsFor(a(X)=true, I2), union_all([I1,I2], I).\n"
    )
    assert "x.prolog:2:52: holdsFor defines a fluent through itself: `a` -> `b` -> `a`" in text


# --- from files ---


def ran(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    return done.exit_code, done.stdout, done.stderr


RECORDS = """\
go_to|1|1|chris|home
go_to|9|9|chris|work
wins|13|13|chris
near|30|25|30|true|chris|ann
near|31|31|true|chris|bob
near|31|40|inf|true|chris|eve
near|31|30|30|true|chris|eve
go_to|x|x|chris|pub
flies|1|1|chris
go_to|17
"""


def test_records_of_rtec(tmp_path: Path) -> None:
    program, records, dead = tmp_path / "x.prolog", tmp_path / "in.csv", tmp_path / "dead.jsonl"
    program.write_text(LIFE + "holdsFor(met(X)=true, I) :- holdsFor(near(X,_)=true, I1), union_all([I1], I).\n")
    records.write_text(RECORDS)
    code, out, _ = ran("run", program, "--input", records, "--format", "rtec", "--dead-letter", dead)
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    met = [(row["start"], row["end"], row["bounds"]) for row in rows if row["type"] == "met"]
    assert met == [(24, 29, "(]"), (30, 31, "(]"), (39, None, "()")]
    reasons = dead.read_text()
    assert "the interval from 30 to 30 is empty" in reasons
    assert "`x` is not a number" in reasons
    assert "the program does not read `flies`" in reasons


def test_output_as_rtec_writes_it(tmp_path: Path) -> None:
    program, records = tmp_path / "x.prolog", tmp_path / "in.csv"
    program.write_text(LIFE)
    records.write_text("".join("|".join(map(str, (name, tick, tick, *rest))) + "\n" for name, tick, *rest in DAY))
    code, out, _ = ran("run", program, "-i", records, "--format", "rtec", "--output-format", "rtec")
    assert code == 0
    assert sorted(out.splitlines()) == [
        "holdsFor(happy(chris)=true, [(14,22)]).",
        "holdsFor(location(chris)=home, [(2,10)]).",
        "holdsFor(location(chris)=home, [(22,inf)]).",
        "holdsFor(location(chris)=pub, [(18,22)]).",
        "holdsFor(location(chris)=work, [(10,18)]).",
        "holdsFor(rich(chris)=true, [(14,20)]).",
    ]


def test_check_and_plan_know_descriptions(tmp_path: Path) -> None:
    program = tmp_path / "x.prolog"
    program.write_text(LIFE)
    code, out, _ = ran("check", program)
    assert code == 0
    assert "no errors" in out
    assert "location" in ran("plan", program)[1]
    program.write_text(LIFE + "holdsFor(a(X)=true, I) :- foo(I).\n")
    code, _, err = ran("check", program)
    assert code == 2
    assert "x.prolog" in err


def test_tables_of_facts_by_the_names_that_the_program_asks_for() -> None:
    text = "initiatedAt(rich(X)=true, T) :- happensAt(wins(X), T), lucky(X).\n"
    facts = {"lucky": pl.DataFrame({"who": ["ann"]})}
    assert PublicEngine.from_text(text, "x.prolog", facts=facts).inner.inputs.keys() == {"wins"}
    assert PublicEngine.from_text(text, dialect="rtec", facts=facts).inner.inputs.keys() == {"wins"}
    with pytest.raises(CepError, match="no condition of the program asks for `lucki`"):
        PublicEngine.from_text(text, "x.prolog", facts={"lucki": facts["lucky"]})
