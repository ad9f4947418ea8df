"""What is wrong with formulas is said where it is written, with what to write instead; and they are printed as read."""

from __future__ import annotations

import pytest

from cep.core.errors import CepError
from cep.engine import Engine
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program

BASE = """event tick(p: string, x: int) TIME time.
event off(p: string) TIME time.
event trip(p: string) START begun END done.
fluent on(p: string).
fluent at(p: string) = place: string.
initiate on(P) <- tick(P, X).
terminate on(P) <- off(P).
initiate at(P) = home <- off(P).
fluent h(p: string).
"""

MISTAKES = [
    # how they are read
    ("h(P) WHILE on(P) AND off(P) OR tick(P, _).", "AND beside OR", "parentheses"),
    ("h(P) WHILE on(P) OR off(P) AND tick(P, _).", "AND beside OR", "parentheses"),
    ("h(P) WHILE on(P) SINCE off(P) SINCE off(P).", "`SINCE` beside `SINCE`", "parentheses"),
    ("h(P) WHILE on(P) SINCE off(P) UNTIL off(P).", "`UNTIL` beside `SINCE`", "parentheses"),
    ("h(P) WHILE ONCE(2 s, 2 s] off(P).", "nothing lies in `(2 s, 2 s]`", "`[2 s, 2 s]`"),
    ("h(P) WHILE ONCE[3 s, 2 s] off(P).", "the interval ends before it begins", "put the shorter time first"),
    ("h(P) WHILE ONCE[-1 s, 2 s] off(P).", "a time cannot be negative here", "EVENTUALLY, ALWAYS and UNTIL ahead"),
    ("h(P) WHILE ONCE[inf, inf) off(P).", "this reaches infinitely far", "ONCE[0, 10 min]"),
    ("h(P) WHILE ONCE[2 s] off(P).", "expected `,`", "ONCE[0, 10 min]"),
    (
        "h(P) WHILE NOT on(P).",
        "nothing binds the variables of a NOT that begins a formula",
        "slow(V) AND NOT anchored(V)",
    ),
    ("h(P) WHILE on(P) OR NOT off(P).", "nothing binds the variables of an `OR NOT`", "`OR (q AND NOT r)`"),
    ("h(P) WHILE ONCE NOT on(P).", "NOT can stand only directly after an AND", "ONCE (p(X) AND NOT q(X))"),
    (
        "h(P) WHILE tick(P, X) WHERE X > 1 AND on(P).",
        "`WHERE` applies to everything on its left",
        "(.. WHERE ..) AND ..",
    ),
    (
        "h(P) WHILE on(P) LASTING >= 1 s AND off(P).",
        "`LASTING` applies to everything on its left",
        "(.. LASTING ..) AND ..",
    ),
    ("h(P) WHILE on(P) LASTING 3 s.", "expected `>=` or `>`", "LASTING >= 3"),
    ("h(P) WHILE on(P) LASTING < 3 s.", "expected `>=` or `>`", "p AND NOT (p LASTING >= 10 min)"),
    ("h(P) WHILE on(P) LASTING >= 0 s.", "this is always true: everything that holds lasts 0 s", "LASTING >= 10 min"),
    ("ONCE[0, 1 s] h(P) WHILE on(P).", "a head cannot contain `ONCE`", "ALWAYS[0, 3 s]"),
    ("h(P) WHILE BEGIN OF on(P).", "`BEGIN OF` can be used only in event patterns", "started(V) <- BEGIN OF"),
    ("h(P) WHILE (on(P) AND off(P)) WITHIN 3 s.", "WITHIN limits the duration of one event", "LASTING"),
    ("h(P) WHILE tick(P, X) AGGREGATE N = count() OVER LAST 3 s.", "has no window", "ONCE[0, 10 min]"),
    ("h(P) WHILE on(P)", "", "`.`"),
    ("h(P) WHILE on(P)).", "", "no opening bracket"),
    # what they speak of
    ("h(P) WHILE on(P, P).", "fluent `on` is `on(p: string)`, but here it has 2 arguments", ""),
    ("h(P) WHILE at(P).", "fluent `at` has a value", "at(..) = Place"),
    ("h(P) WHILE on(P) = 3.", "fluent `on` has no value", ""),
    ("h(P) WHILE on(P) WITHIN 3 s.", "`on` is a fluent, and WITHIN bounds an event", "LASTING"),
    ("h(P) WHILE trip(P).", "a formula cannot contain an event that is not an instant", "WITHIN 1 h"),
    ("h(P) WHILE tick(P, X + 1).", "only variables and constants", "WHERE X = ..."),
    ("h(P + 1) WHILE on(P).", "a head can contain only variables and constants", "WHERE X = .."),
    ("h(_) WHILE on(P).", "`_` has no value in a head", ""),
    ("h(P) WHILE tick(P, X) AND tick(_, X) AND tick(X, P).", "never joins", ""),
    ("h(P) = 3 WHILE on(P).", "fluent `h` has no value", ""),
    ("off(P) WHILE on(P).", "`off` is an event: there is no fluent of that name", ""),
    ("initiate h(P) <- off(P). h(P) WHILE on(P).", "`h` is defined by WHILE", "WHILE g(X) OR h(X)"),
    ("h(P) ENDS AFTER 3 s. h(P) WHILE on(P).", "`h` is defined by WHILE", "WHILE g(X) OR h(X)"),
    ("h(P) WHILE on(P) WHERE at(P) = home.", "the fluent `at` cannot be used as a value or a function here", ""),
    ("h(P) WHILE on(P) WHERE duration() > 3 s.", "a formula has no start and no end", "LASTING"),
    # variables without a value
    ("h(P) WHILE on(Q).", "`P` of the head is not bound by the formula", "WHERE X = .."),
    ("h(P) WHILE on(Q) AND NOT on(P).", "`P` has no value: in these ANDs it occurs only under NOT", "AND NOT q(P)"),
    ("h(P) WHILE on(P) AND (off(P) AND NOT tick(P, X)) AND tick(P, X).", "`X` has no value", "parentheses end a chain"),
    ("h(P) WHILE on(P) OR off(Q).", "both sides of an OR must bind the same variables: this one lacks `Q`", "`_`"),
    ("h(P) WHILE tick(P, X) SINCE on(P).", "`X` is on the left of SINCE, but not on its right", "some(X) WHILE"),
    ("h(P) WHILE tick(P, _) SINCE on(P).", "`_` is on the left of SINCE, but not on its right", "some(X) WHILE"),
    ("h(P) WHILE on(P) WHERE X > 3.", "`X` is not bound", ""),
    ("h(P) WHILE tick(P, X) AGGREGATE N = count() BY X.", "`P` of the head has no value", ""),
    ("h(P) WHILE tick(P, X) AGGREGATE N = sum(Y) BY P.", "`Y` is not bound by the aggregated formula", ""),
    ("h(P) WHILE tick(P, X) AGGREGATE X = sum(X) BY P.", "`X` has a value already", "a new variable"),
    (
        "h(P) WHILE tick(P, X) AGGREGATE N = last(X) BY P.",
        "`last` needs values in the order of time",
        "`max(X)`, or `mode(X)`",
    ),
    (
        "h(P) WHILE tick(P, X) AGGREGATE N = first(X) BY P.",
        "`first` needs values in the order",
        "`min(X)`, or `mode(X)`, the most frequent val",
    ),
    (
        "h(P) WHILE tick(P, X) AGGREGATE N = slope(X) BY P.",
        "`slope` describes how values change over time, but this aggregate is over",
        "use a rule of events with a window: `.. AGGREGATE N = slope(X) OVER LAST 1 h`",
    ),
    (
        "h(P) WHILE tick(P, X) AGGREGATE N = ewma(X, 5 s).",
        "`ewma` describes how values change over time",
        "ewma(X, 5 s) OVER",
    ),
    # themselves, and what is known late
    ("c(P) <- off(P) WHERE not h(P). h(P) WHILE on(P) AND c(P).", "not (a fluent) depends on its own", "ONCE[1 s, 1"),
    ("h(P) WHILE on(P) AND NOT ONCE(0, 1 s] h(P).", "NOT must know all of it at the same time", "ONCE[1 s, 1 s] h("),
    ("fluent n(n: int). n(N) WHILE h(_) AGGREGATE N = count(). h(P) WHILE on(P) AND n(_).", "AGGREGATE must", "ONCE"),
    (
        "h(P) WHILE ONCE[1 s, 1 s] h(P) OR EVENTUALLY[1 s, 1 s] h(P).",
        "through EVENTUALLY, on its own future",
        "only ahead",
    ),
    ("h(P) WHILE ona(P).", "`ona` is not declared: there is no fluent and no event", "did you mean `on`?"),
    ("h(P) WHILE ONCE[0, 1 s] zzz(P).", "`zzz` is not declared", "`event zzz(..) TIME t.`"),
    ("h(P) WHILE on(P) AND NOT h(P).", "`h` depends on itself, but NOT must know all of it", "to other fluents"),
    ("h(P) WHILE on(P) OR (h(P) LASTING >= 1 s).", "and LASTING is known late", "HISTORICALLY[0, d] p"),
    (
        "HISTORICALLY[0, 1 s] h(P) WHILE ONCE h(P) AND on(P).",
        "through HISTORICALLY in the head, on its own future",
        "only ahead",
    ),
    ("h(P) WHILE EVENTUALLY[0, 2 s] on(P). c(P) <- off(P) WHERE h(P).", "is known only 2 s later", "`ONCE`"),
    ("h(P) WHILE ALWAYS on(P). c(P) <- h(P).", "is known only at the end of the input", "`HISTORICALLY`"),
    (
        "h(P) WHILE on(P) LASTING >= 3 s. c(P) <- off(P) WHERE not h(P).",
        "is known only 3 s later",
        "HISTORICALLY[0, 3 s]",
    ),
    ("h(P) WHILE on(P) LASTING >= 3 s. c(P) <- END OF h(P).", "is known only 3 s later", "HISTORICALLY[0, 3 s]"),
    ("HISTORICALLY[0, 2 s] h(P) WHILE on(P). c(P) <- h(P).", "is known only 2 s later", "`ONCE`"),
    ("h(P) WHILE (trip(P) WITHIN 5 s). c(P) <- h(P).", "is known only 5 s later", "`trip` is known only when it ends"),
    ("h(P) WHILE g(P). fluent g(p: string). g(P) WHILE EVENTUALLY[0, 2 s] on(P). c(P) <- h(P).", "2 s later", "`ONCE`"),
]


@pytest.mark.parametrize(("statement", "message", "hint"), MISTAKES)
def test_mistakes(statement: str, message: str, hint: str) -> None:
    with pytest.raises(CepError) as raised:
        Engine.from_text(BASE + statement)
    text = str(raised.value)
    assert message in text
    assert "^" in text
    assert not hint or hint in text.split("hint:", 1)[1]


def test_what_is_printed_is_read_back() -> None:
    text = """happy(P) WHILE rich(P) OR location(P) = "a b" OR (a(P) AND NOT b(p: P)).
flag(X, Z) WHILE monitors(X, Z) AND HISTORICALLY[0, 4 s] ONCE(0, 2 s] signal(Z).
ALWAYS[0, 3 s] HISTORICALLY(1 s, 3 s) monitors(X, Z) WHILE flag(Y, Z) WHERE linked(X, Y), X > 3.
crowded(A, N) WHILE in_area(V, A) AGGREGATE N = count(), M = percentile(V, 95) BY A WHERE N >= 3.
at(X) = v WHILE (e(X) WITHIN 3 s) SINCE(2 s, inf) (p(X) AND q(X)) AND NOT (r(X, _) LASTING > 3 min).
a WHILE (p SINCE q) UNTIL (ONCE (q OR r) LASTING >= 3 s).
"""
    program = parse(text)
    assert parse(print_program(program)) == program
    assert print_program(parse("a WHILE ONCE p SINCE[0, inf) q.")) == "a WHILE ONCE p SINCE q.\n"
