"""The range of times and durations: what lies beyond is refused, what lies at its ends is right."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cep.app.durations import duration
from cep.command import app
from cep.connectors.records.times import of_duration
from cep.core.errors import CepError
from cep.core.literals import say_duration, write_duration
from cep.core.time import FARTHEST
from cep.engine import Engine, detect
from cep.events import Event
from tests import reference

EVENTS = "event a(v: int). event b(v: int). "
DAY = 86_400_000_000
LONGEST = FARTHEST // DAY
BEYOND = [
    "x(C) <- a(V) AGGREGATE C = count() OVER LAST 106751991 d.",
    "x(V) <- a(V) UNLESS b(V) WITHIN 53375996 d.",
    f"x(V) <- a(V) UNLESS b(V) WITHIN {LONGEST + 1} d.",
    "x(V) <- a(V) SEQ b(V) WITHIN P99999999W.",
    "x(V) <- (a(V) SEQ b(V)).9999999999999.",
    "x(V) <- a(V) WHERE duration() < 106751991 d.",
    "x(V) <- a(V) WHERE end() < 99999999999999.",
    "x(V) <- a(V) WHERE start() > -99999999999999.",
    "x(V) <- a(V) WHERE 1e20 > duration().",
    "x(V) <- a(V) WHERE max(end(), 99999999999999) = start().",
    "x(V) <- -9223372036854.",
    "x(V) <- 1152921504607.",
    "x(V) <- 1e300.",
    "x(V) <- a(V). event c(d: duration in ..106751991 d).",
    'x(V) <- a(V). ALERT w ON x(v: V) TITLE "" FOR 106751991 d KEYED BY V.',
]


@pytest.mark.parametrize("rule", BEYOND)
def test_what_is_beyond_the_range_is_refused_where_it_stands(rule: str) -> None:
    with pytest.raises(CepError) as caught:
        Engine.from_text(EVENTS + rule)
    assert caught.value.message == "this is more than 36 thousand years"
    assert caught.value.hint is not None and f"at most `{LONGEST} d`" in caught.value.hint
    assert caught.value.span is not None and caught.value.span.column > len(EVENTS)


@pytest.mark.parametrize("text", ["53375996d", "P9999999W", "1152921504607", "9" * 40])
def test_options_have_the_same_range(text: str) -> None:
    with pytest.raises(CepError, match="more than 36 thousand years"):
        duration(text, "--lateness")
    assert duration(f"{LONGEST}d", "--lateness") == LONGEST * DAY
    with pytest.raises(ValueError, match="lateness"):
        Engine.from_text("x(V) <- a(V).", lateness=2**60 + 1)


def test_times_of_the_input_beyond_it_are_dead() -> None:
    engine = Engine.from_text(EVENTS + "x(V) <- a(V).", lateness=FARTHEST)
    ends = [-(2**63), 2**63 - 1, -(2**62), 2**62, FARTHEST + 1, -FARTHEST - 1, FARTHEST, -FARTHEST]
    first = engine.push({"a": pl.DataFrame({"start": ends, "end": ends, "v": range(8)})})
    engine.push([Event("a", (8,), -(2**70), 2**70)])
    assert [out["x"]["v"].to_list() for out in (first, engine.close())] == [[7], [6]]
    dead = engine.take_dead()
    assert [one.row for one in dead] == [0, 1, 2, 3, 4, 5, 0]
    assert {(one.code, one.reason) for one in dead} == {
        ("time", "has a time that is out of range: beyond 36 thousand years from 1970")
    }


@pytest.mark.parametrize("value", [-(2**63), -9223372036854775808.0])
def test_the_least_integer_of_64_bits_is_refused_for_what_it_stands_for(value: float) -> None:
    table = pl.DataFrame({"time": [0, 1], "v": [-(2**63), 1 - 2**63]})
    with pytest.raises(ValueError, match=r"`v` is -2\*\*63, which stands for a missing value: integers begin at -92"):
        detect(EVENTS + "x(V) <- a(V).", [Event("a", (value,), 0, 0)])
    engine = Engine.from_text(EVENTS + "x(V) <- a(V).")
    engine.push({"a": table})
    assert engine.close()["x"]["v"].to_list() == [1 - 2**63]
    assert ["-2**63" in one.reason for one in engine.take_dead()] == [True]


@pytest.mark.parametrize("value", [2**63, 1e30, -(10**40)])
def test_an_integer_of_more_than_64_bits_is_called_so(value: float) -> None:
    with pytest.raises(ValueError, match="`v` needs more than 64 bits"):
        detect(EVENTS + "x(V) <- a(V).", [Event("a", (value,), 0, 0)])
    with pytest.raises(ValueError, match="`v` is not a whole number"):
        detect(EVENTS + "x(V) <- a(V).", [Event("a", (1.5,), 0, 0)])


TIMES = st.sampled_from([-FARTHEST, -FARTHEST + 1, -1, 0, 1, FARTHEST - 1, FARTHEST])
LENGTHS = st.sampled_from(["0 s", "0.001 ms", "1 d", f"{LONGEST - 1} d", f"{LONGEST} d", "1152921504606.846976 s"])
RULES = st.sampled_from(
    [
        "x(V) <- a(V) SEQ b(W) WITHIN {0}.",
        "x(V) <- a(V) AND b(W) WITHIN {0}.",
        "x(V) <- a(V) PAR b(W) WITHIN {0}.",
        "x(V) <- a(V) DURING b(W) WITHIN {0}.",
        "policy recent. x(V) <- a(V) SEQ b(W) WITHIN {0}.",
        "policy chronological. x(V) <- a(V) AND b(W) WITHIN {0}.",
        "x(V) <- NOT(a(V)).[b(V), a(W)] WITHIN {0}.",
        "x(V) <- a(V) UNLESS b(V) WITHIN {0}.",
        "x(V) <- (a(V) UNLESS b(V) WITHIN {0}) SEQ b(W) WITHIN {1}.",
        "x(V) <- (a(V) UNLESS b(V) WITHIN {0}) UNLESS b(W) WITHIN {1}.",
        "x(0) <- 1152921504606 UNLESS b(_) WITHIN {0}. x(V) <- -1152921504606 SEQ a(V) WITHIN {1}.",
        "y(V) <- a(V) UNLESS b(V) WITHIN {0}. x(C) <- y(V) AGGREGATE C = count(), S = sum(V) OVER LAST {1}.",
        "x(C) <- a(V) AGGREGATE C = count() OVER LAST 1 h. x(C) <- a(V) AGGREGATE C = max(V) OVER LAST 0.001 ms BY V.",
        "x(V) <- a(V). x(V + 1) <- x(V) SEQ b(W) WITHIN {0} WHERE V < 9.",
        "x(D) <- a(V) WHERE D = duration() + {0}. y(T) <- a(V) WHERE T = end() + {0} * 3 + {1} * 4.",
        "x(V) <- a(V) WHERE duration() <= {0}, end() + {1} > start() - {0}.",
    ]
)


@given(RULES, LENGTHS, LENGTHS, st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), TIMES, TIMES), max_size=5))
def test_at_the_ends_of_the_range_the_engine_is_right(
    rule: str, one: str, other: str, given_: list[tuple[str, int, int, int]]
) -> None:
    program = EVENTS + rule.format(one, other).replace("LAST 0 s", "LAST 1 s")
    events = [Event(name, (v,), min(s, e), max(s, e)) for name, v, s, e in dict.fromkeys(given_)]
    assert detect(program, events) == reference.detect(program, events)


@pytest.mark.parametrize(
    "rules",
    [
        "x(V) <- (((a(V) UNLESS b(V) WITHIN {0} d) UNLESS b(V) WITHIN {0} d) UNLESS b(V) WITHIN {0} d)"
        " UNLESS b(V) WITHIN {0} d.",
        "x(V) <- a(V). x(V) <- x(V) UNLESS b(V) WITHIN {0} d.",
    ],
)
def test_a_deadline_behind_the_end_of_time_is_told(rules: str) -> None:
    with pytest.raises(CepError, match="a deadline lies beyond the end of time"):
        detect(EVENTS + rules.format(LONGEST), [Event("a", (1,), FARTHEST, FARTHEST)])


def test_a_long_chain_at_one_instant_comes_to_its_end() -> None:
    rules = "n(V) <- a(V). n(V + 1) <- n(V) WHERE V < 30000."
    assert len(detect(EVENTS + rules, [Event("a", (0,), 0, 0)])) == 30_001


def test_the_limit_of_an_instant_is_the_option(tmp_path_factory: pytest.TempPathFactory) -> None:
    rules, data = tmp_path_factory.mktemp("limit") / "chain.cep", tmp_path_factory.mktemp("limit") / "a.csv"
    rules.write_text("event a(v: int).\nn(V) <- a(V).\nn(V + 1) <- n(V) WHERE V < 500.\n")
    data.write_text("time,v\n1,0\n")
    for limit, status in (("500", 2), ("501", 0)):
        found = CliRunner().invoke(app, ["run", str(rules), "-i", f"a={data}", "--max-derivations", limit])
        assert found.exit_code == status, found.output
        assert ("501 occurrences in 501 rounds" in found.output) == bool(status)


def test_the_limit_of_deadlines_in_a_row_is_a_tenth_of_it() -> None:
    rules = "n(V) <- a(V). n(V + 1) <- n(V) UNLESS b(V) WITHIN 1 s WHERE V < 500."
    for limit, ends in ((490, False), (5010, True)):
        engine = Engine.from_text(EVENTS + rules, lateness=None, max_derivations=limit)
        engine.push([Event("a", (0,), 0, 0)])
        if ends:
            assert engine.close()["n"].height == 501
            continue
        with pytest.raises(CepError, match="deadlines in a row"):
            engine.close()


@pytest.mark.parametrize(
    ("ticks", "text"),
    [
        (0, "0 s"),
        (1, "0.001 ms"),
        (1_500, "1.5 ms"),
        (1_500_000, "1.5 s"),
        (90_000_000, "1 min 30 s"),
        (2_000_000_001, "33 min 20.000001 s"),
        (3_600_000_001, "1 h 0.000001 s"),
        (-5_400_000_000, "-1 h 30 min"),
        (26 * 3_600_000_000, "1 d 2 h"),
        (FARTHEST, "13343998 d 21 h 30 min 6.846976 s"),
    ],
)
def test_people_read_durations_as_they_say_them(ticks: int, text: str) -> None:
    assert say_duration(ticks) == text
    assert write_duration(ticks).count(" ") == 1


@pytest.mark.parametrize("text", ["P99999999W", "9223372036855 s", "-9223372036855 s", "P15250284WT1451225S"])
def test_a_duration_of_a_record_beyond_64_bits_is_called_so(text: str) -> None:
    with pytest.raises(ValueError, match=f"^`{text}` does not fit in 64 bits of microseconds$"):
        of_duration(text)
    assert of_duration("-PT9223372036854.775807S") == -(2**63) + 1
    for wrong in ("P1.2.3D", "PT", "3 weeks"):
        with pytest.raises(ValueError, match="is not a valid duration"):
            of_duration(wrong)
