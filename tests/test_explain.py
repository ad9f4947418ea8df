"""What `cep plan` prints: two whole pages, and what holds of every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given

from cep.app.terminal import warnings_of
from cep.core.errors import CepError
from cep.engine import Engine
from cep.knowledge.graph import Knowledge
from cep.plan.explain import explain
from cep.plan.plan import Plan
from tests.cases_format import FOLDER, Case, known, read_case
from tests.long import examples
from tests.programs import Program, programs, recursions
from tests.test_equivalence import start

PREFIX = "PREFIX wt: <http://example.org/w#>\n"
BLIZZARD = """
event reading(station: string FROM origin, wind: float in 0..250 FROM wind_speed, visib: float, temp: float)
    TIME time_hour.
event settling(station: string, readings: int).

policy recent.

settling(S, 1) <- reading(S, W, V, T) WHERE W >= 15, V < 2, T <= 34.
settling(S, C + 1) <- (settling(S, C) SEQ reading(S, W, V, T) WHERE W >= 15, V < 2, T <= 34) WITHIN 6 h.
storm: warning(S, C) <- settling(S, C) WHERE C >= 4, duration() >= 3 h.
"""

BLIZZARD_PLAN = """\
blizzard.cep: 3 rules, 3 goals (1 join, 2 filters); 1 remembers

reads      reading(station: string FROM origin, wind: float in 0..250
             FROM wind_speed, visib: float, temp: float) TIME time_hour
derives    settling(station: string, readings: int)
           warning(s: string, c: int)
           (declared, so also read: settling)

1.  g1(S) <- reading(S, W, V, T) WHERE W >= 15, V < 2, T <= 34
                                                          # shared by lines 8, 9

2.  recursion of settling: compiled, one pass in order of arrival
    settling(S, 1) <- g1(S)                                             # line 8
    settling(S, C + 1) <- settling(S, C) SEQ g1(S) WITHIN 6 h           # line 9
      key        S
      policy     recent: the latest, among equal ends the longest
      remembers  settling(S, C)
      forgets    after 6 h, or when a newer one of the same S supersedes it

3.  warning(S, C) <- settling(S, C) WHERE C >= 4, duration() >= 3 h      # storm

stage 1    by key: reading by station
             storm, lines 8, 9
"""

HOUSE = """
event smoke(room: string, density: float).
event door(room: string, open: bool).
linked(hall, attic).
reach(X, Y) :- linked(X, Y).
reach(X, Z) :- reach(X, Y), linked(Y, Z).

fire(R) <- NOT(door(R, true)).[smoke(R, D), smoke(R, D2)] WITHIN 5 min WHERE D > 0.5, D2 > D.
spread(R, Q) <- (smoke(R, D) SEQ alarm(Q)) WHERE reach(R, Q), D > 0.5, not wet(Q).
unanswered(R) <- alarm(R) UNLESS door(R, _) WITHIN 90 s.
trouble(R) <- alarm(R) OR smoke(R, _) OR door(room: R, open: true).
thick(R, M) <- smoke(R, D) AGGREGATE M = max(D), N = count() OVER LAST 30 min BY R WHERE N >= 3.
rising(R, D3) <- ((smoke(R, D1) SEQ smoke(R, D2)) SEQ smoke(R, D3)) WITHIN 3 h POLICY chronological WHERE D2 > D1.
near(X, Y) <- hop(X, Y).
near(X, Z) <- near(X, Y) AND hop(Y, Z).
most(R) <- (smoke(R, D) AND smoke(Q, D2)) POLICY recent(by D) WHERE D > D2.
"""

HOUSE_PLAN = """\
house.cep: 9 rules, 13 goals (6 joins, 1 deadline, 1 window, 2 unions, 3
  filters); 8 remember, 3 of them for ever

reads      smoke(room: string, density: float)
           door(room: string, open: bool)
           alarm(arg1: any)
           hop(arg1: any, arg2: any)
derives    fire(r: string)
           spread(r: string, q: any)
           unanswered(r: any)
           trouble(r: any)
           thick(r: string, m: float)
           rising(r: string, d3: float)
           near(x: any, y: any)
           most(r: string)

1.  g1(R, D) <- smoke(R, D) WHERE D > 0.5                 # shared by lines 8, 9

2.  g2(Q) <- alarm(Q) WHERE not wet(Q)                              # for line 9
      asks       wet

3.  g3(R) <- alarm(R) OR smoke(R, _)                               # for line 11

4.  g4(R, M, N) <- smoke(R, D)
        AGGREGATE M = max(D), N = count() OVER LAST 30 min BY R    # for line 12
      group      R
      remembers  smoke(R, D) in the window
      forgets    after 30 min

5.  g5(R) <- smoke(R, D1) SEQ smoke(R, D2) WITHIN 3 h WHERE D2 > D1
                                                                   # for line 13
      key        R
      index      D2 > D1
      policy     chronological: the oldest that the WHERE allows, among equal
                   ends the shortest; both are then used up
      remembers  smoke(R, D1)
      forgets    after 3 h, or when it is paired

6.  recursion of near: instant by instant, inside each in rounds until nothing
    is new
    near(X, Y) <- hop(X, Y)                                            # line 14
    near(X, Z) <- near(X, Y) AND hop(Y, Z)                             # line 15
      key        Y
      policy     unrestricted: every pair
      remembers  near(X, Y) and hop(Y, Z)
      forgets    never

7.  fire(R) <- NOT(door(R, true)).[g1(R, D), smoke(R, D2)] WITHIN 5 min
        WHERE D2 > D                                                    # line 8
      key        R
      index      D2 > D
      absent     door(R, true) of the same R
      policy     unrestricted: every pair
      remembers  g1(R, D) and door(R, true)
      forgets    after 5 min

8.  spread(R, Q) <- g1(R, _) SEQ g2(Q) WHERE reach(R, Q)                # line 9
      key        none: every pair is tried
      row by row reach(R, Q)
      warning    each new row is tried with all kept rows: add WITHIN, or a
                   shared variable
      policy     unrestricted: every pair
      remembers  g1(R, _)
      forgets    never
      asks       reach

9.  unanswered(R) <- alarm(R) UNLESS door(R, _) WITHIN 90 s            # line 10
      key        R
      remembers  alarm(R)
      forgets    after 1 min 30 s, or when door(R, _) comes

10. trouble(R) <- g3(R) OR door(R, true)                               # line 11

11. thick(R, M) <- g4(R, M, N) WHERE N >= 3                            # line 12

12. rising(R, D3) <- g5(R) SEQ smoke(R, D3) WITHIN 3 h                 # line 13
      key        R
      policy     chronological: the oldest, among equal ends the shortest; both
                   are then used up
      remembers  g5(R)
      forgets    after 3 h, or when it is paired

13. most(R) <- smoke(R, D) AND smoke(Q, D2) WHERE D > D2               # line 16
      key        none: every pair is tried
      policy     recent: the latest, among equal ends the one of the greatest D;
                   the WHERE tests only that pair
      remembers  smoke(R, D) and smoke(Q, D2)
      forgets    never

static     linked/2: 1 fact
           reach/2: 2 rules
           wet/1: 2 facts

stage 1    by key: alarm by arg1, door by room, smoke by room
             lines 8, 10, 11, 12, 13
stage 2    in one place: alarm, hop, smoke
             line 9: no variable is on both sides of `smoke(R, D) SEQ alarm(Q)`:
               every pair is tried
             line 15: `near(X, Y) AND hop(Y, Z)` joins on Y, but its left side
               is divided by X
             line 16: no variable is on both sides of `smoke(R, D) AND smoke(Q,
               D2)`: every pair is tried
             also line 14
"""

PROGRAMS = [case for path in sorted(FOLDER.rglob("*.case")) if "error" not in (case := read_case(path)).sections]


def test_the_blizzard() -> None:
    plan = Engine.from_text(BLIZZARD, name="blizzard.cep").plan
    assert explain(plan, {"settling"}) == BLIZZARD_PLAN.rstrip("\n")


def test_every_kind_of_goal() -> None:
    plan = Engine.from_text(HOUSE + "wet(attic). wet(cellar).\n", name="house.cep").plan
    assert explain(plan, ()) == HOUSE_PLAN.rstrip("\n")


def test_what_stages_take_of_each_other() -> None:
    page = explain(
        Engine.from_text(
            """rise(S, T) <- reading(S, T, V) SEQ reading(S, T, W) WHERE W > V.
            hit(S, A) <- reading(S, _, V) SEQ alarm(A).
            alert <- tick.
            alert <- hit(S, A) AND hit(S, B) WHERE A != B.
            many(A, N) <- hit(S, A) AGGREGATE N = count() OVER LAST 1 h BY A.
            all(N) <- many(_, _) AGGREGATE N = count() OVER LAST 5 EVENTS."""
        ).plan
    )
    assert page[page.index("stage 1") :].split("\n") == [
        "stage 1    by key: alarm to every bucket, reading by arg1, tick evenly",
        "             lines 1, 2, 3, 4",
        "stage 2    by key: hit of stage 1 by a",
        "             line 5",
        "stage 3    in one place: many of stage 2",
        "             line 6: `many(_, _) AGGREGATE N = count() OVER LAST 5 EVENTS` has",
        "               no BY: one window for all",
    ]


def test_a_recursion_is_run_in_one_of_three_ways() -> None:
    plan = Engine.from_text(BLIZZARD).plan
    assert "recursion of settling: instant by instant\n" in explain(plan, ())
    assert "recursion of settling: its results wait for something later\n" in explain(plan)


def test_an_event_of_the_name_of_a_goal() -> None:
    page = explain(Engine.from_text("e(X) <- (g1(X) SEQ b(X)) SEQ c(X) WITHIN 1 h.").plan)
    assert "goal1(X) <- g1(X) SEQ b(X) WITHIN 1 h" in page
    assert "e(X) <- goal1(X) SEQ c(X) WITHIN 1 h" in page


def test_what_is_asked_of_the_knowledge_is_shown_as_it_was_written() -> None:
    text = """PREFIX wt: <http://example.org/w#>
        e(S, H) <- a(S) WHERE { ?x wt:code ?S ;  # a station
                                   wt:height ?H }, not { ?x wt:code ?S ; wt:near ?N }, triple(_, wt:code, S)."""
    page = explain(Engine.from_text(text, knowledge=known("")).plan)
    assert "{ ?x wt:code ?S ; wt:height ?H }" in " ".join(page.split())
    assert "not { ?x wt:code ?S ; wt:near ?N }, triple(_, <http://example.org/w#code>, S)" in " ".join(page.split())
    assert "asks       the knowledge\n" in page + "\n"


def test_alerts_are_shown_and_belong_to_no_stage() -> None:
    text = """event reading(station: string, temp: float) TIME time.
        warm(S) <- reading(S, T) WHERE T > 20.
        ALERT cold ON reading(station: S, temp: T) WHERE T < 0 SEVERITY "Minor" TITLE "Cold at {S}" FOR 2 h KEYED BY S.
        ALERT all ON reading(temp: T) WHERE T < 0, T > -9 TITLE "{T}" FOR 30 min."""
    engine = Engine.from_text(text, name="x.cep", alerts=True)
    page = explain(engine.plan)
    fits(page)
    assert (
        page.startswith("x.cep: 1 rule, 2 alerts, 3 goals (3 filters)\n") and "derives    warm(s: string)\n\n" in page
    )
    assert (
        """
2.  ALERT cold ON reading(S, T) WHERE T < 0                             # line 3
      sends      Minor alerts, for 2 h, one for each station; by `cep serve`
"""
        in page
    )
    assert page.endswith("stage 1    by key: reading by station\n             line 2")
    held = (
        'fluent hot(station: string). initiate hot(S) <- warm(S). ALERT heat ON hot(station: S) TITLE "Hot" KEYED BY S'
    )
    for clause, expected in (("", "1 d"), (" FOR 3 h", "3 h")):
        shown = explain(Engine.from_text(f"{text} {held}{clause}.", alerts=True).plan)
        assert f"alerts, until it ends (receivers expect {expected}), one for each station;" in " ".join(
            shown.split()
        ), shown
    alone = Engine.from_text(text.replace("warm(S) <- reading(S, T) WHERE T > 20.", ""), alerts=True)
    assert "stage" not in explain(alone.plan) and warnings_of(alone, Path("x.cep")) == alone.warnings


FLUENTS = """event b(k: string) TIME t.
fluent q(k: string) START s END e.
fluent g(k: string).
fluent h(k: string) = v: int.
fluent d(k: string).
fluent e(k: string).
initiate g(K) <- b(K).
terminate g(K) <- b(K) WHERE h(K) = 1.
initiate h(K) = 1 <- b(K).
terminate h(K) = _ <- b(K) WHERE g(K).
q(K) WHILE ONCE(2 s, 3 s] b(K).
e(K) WHILE HISTORICALLY[0, 3 s) (h(K) = _).
d(K) WHILE q(K) AND NOT ONCE[2 s, inf) d(K) AND NOT (g(K) LASTING >= 4 s).
x(K) <- b(K) WHERE g(K).
"""


def test_fluents_have_the_names_of_their_author() -> None:
    page = explain(Engine.from_text(FLUENTS).plan)
    assert not re.search(r"_'|recorded|(records|times|transitions) of|@end|\(_\) <- ", page), page
    flat = re.sub(r" +# lines? [\d, ]+", "", page)
    for line in (
        "8 rules, ",
        "key        K, _\n",
        "after 3 s",
        "q(k: string) START s END e",
        "initiate g(K) <- b(K)",
        "terminate g(K) <- b(K) WHERE h(K) = 1",
        "initiate h(K) = 1 <- b(K)",
        "terminate h(K) = _ <- b(K) WHERE g(K)",
        "q(K) WHILE ONCE(2 s, 3 s] (",
        "ONCE[2 s, inf) (d(K))",
        "(g(K)) LASTING >= 4 s",
        "recursion of d: ",
        "b by k",
        "q by k",
    ):
        assert line in flat, (line, page)


UNBOUND = ["key none: every pair is tried"]
CONDITION_KEYS = """\
event a(k: int, x: int, s: string) TIME t.
event b(k: int, y: float, s: string) TIME t.
"""


@pytest.mark.parametrize(
    ("rule", "ways"),
    [
        ("a(K, X, _) SEQ b(K, Y, _) WHERE Y = X + 1, Y > 0", ["key K, Y = X + 1"]),
        ("a(_, X, S) AND b(_, Y, T) WHERE lower(S) = lower(T), X < Y", ["key lower(S) = lower(T)", "row by row X < Y"]),
        ("a(_, X, _) SEQ b(_, Y, _) WHERE X = Y POLICY chronological", ["key X = Y"]),
        ("a(_, X, _) SEQ b(_, Y, _) WHERE X = Y POLICY recent", ["key none: every pair is tried"]),
        ("a(K, X, _) SEQ b(K, Y, _) WHERE (X = Y or X > 9)", ["key K", "row by row (X = Y or X > 9)"]),
        ("a(K, X, _) SEQ b(K, Y, _) WHERE X = Y + K, X + Y = 2", ["key K", "row by row X = Y + K, X + Y = 2"]),
        ("a(I, X, _) SEQ b(J, Y, _) WHERE J > I + 9, Y > 0", ["key none", "index J > I + 9"]),
        ("a(I, X, _) SEQ b(J, Y, _) WHERE duration() > 9 s WITHIN 1 h", [*UNBOUND, "row by row duration() > 9 s"]),
        (
            "a(I, X, _) SEQ b(J, Y, _) WHERE I + J = 9",
            [*UNBOUND, "row by row I + J = 9", "warning each new row"],
        ),
    ],
)
def test_the_plan_tells_keys_indexes_and_conditions_of_single_pairs(rule: str, ways: list[str]) -> None:
    page = explain(Engine.from_text(f"{CONDITION_KEYS}o(X, Y) <- {rule}.").plan)
    found = re.findall(r"^ +((?:key|index|row by row) +.*|warning +each new row).*$", page, re.MULTILINE)
    assert [" ".join(each.split()) for each in found] == ways


def test_answers_are_counted() -> None:
    text = (
        PREFIX
        + """
        high(S) :- { ?x wt:code ?S ; wt:height 4 }.
        e(S) <- a(S) WHERE high(S), triple(_, wt:code, S), not { ?x wt:height 5 ; wt:code ?S ; wt:elevation 60 },
            { ?x wt:code ?S FILTER(?S = "A") }, not { ?x wt:height/wt:near 5 }."""
    )
    engine = Engine.from_text(text, knowledge=known(PREFIX + 'wt:a wt:code "A" ; wt:height 4 . wt:b wt:code "B" .'))
    page = explain(engine.plan, answers=engine.answers)
    listed = page[page.index("knowledge ") : page.index("\nstage")].rstrip().split("\n")
    assert [line.split() for line in listed] == [
        ["knowledge", "{", "?x", "wt:code", "?S", ";", "wt:height", "4", "}", "#", "1", "answer"],
        ["S:", "string;", "changes", "by", "difference"],
        ["triple(_,", "<http://example.org/w#code>,", "_)", "#", "2", "answers"],
        ["subject:", "iri,", "object:", "string;", "changes", "by", "difference"],
        ["{", "?x", "wt:height", "5", ";", "wt:code", "?S", ";", "wt:elevation", "60", "}", "#", "0", "answers"],
        ["S:", "any;", "changes", "by", "difference"],
        ["{", "?x", "wt:code", "?S", "FILTER(?S", "=", '"A")', "}", "#", "1", "answer"],
        ["S:", "string;", "changes", "by", "difference"],
        ["{", "?x", "wt:height/wt:near", "5", "}", "#", "0", "answers"],
        ["holds", "or", "not;", "evaluated", "again", "when", "the", "knowledge", "changes"],
    ]
    assert {len(line) for line in listed[::2]} == {80}


def test_every_rule_of_every_case_is_on_its_page() -> None:
    plans = [plan for case in PROGRAMS if (plan := planned(case)) is not None]
    assert len(plans) > 150
    for plan in plans:
        page = explain(plan)
        fits(page)
        for rule in plan.rules.rules:
            assert re.search(rf"# {rule.label}$|# line {rule.span.line}$", page, re.MULTILINE), page


@given(programs() | recursions())
@examples(60)
def test_any_program_has_a_page(program: Program) -> None:
    page = explain(start(program).plan)
    fits(page)
    assert page == explain(start(program).plan)


def planned(case: Case) -> Plan | None:
    """None where the types come with the events only."""
    try:
        knowledge = None if case.knowledge is None else known(case.knowledge)
        return Engine.from_text(case.program, policy=case.policy, knowledge=knowledge).plan
    except CepError:
        return None


def fits(page: str) -> None:
    for line in page.split("\n"):
        words = re.sub(r'"(?:[^"\\]|\\.)*"|<[^<> ]*>', lambda whole: whole[0].replace(" ", "_"), line).split()
        assert line == line.rstrip() and (len(line) <= 80 or len(words) == 1), "only what is whole may be wider"
    goals = re.sub(r'"(?:[^"\\]|\\.)*"|<[^<> ]*>', "", page[page.find("\n1.") :])
    assert not re.search(r"\b[vw]\d+\b", goals), page


DEMOS = Path(__file__).parent.parent / "demos"
KNOWLEDGE = {
    "areas": ["blizzard/stations.ttl"],
    "fire": ["fire/observations.ttl"],
    "heat": ["heat/areas.ttl", "blizzard/stations.ttl"],
}


@pytest.mark.parametrize("path", sorted(DEMOS.rglob("*.cep")), ids=lambda path: str(path.stem))
def test_the_demos_have_pages(path: Path) -> None:
    knowledge = Knowledge.load([DEMOS / file for file in KNOWLEDGE.get(path.stem, ())])
    engine = Engine.from_file(path, knowledge=knowledge)
    fits(explain(engine.plan, engine.chained, answers=engine.answers))
