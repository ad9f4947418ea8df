"""Calendar functions against `datetime` and `zoneinfo`, and what is said of wrong zones, units and times of day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.values import MISSING, Pool
from cep.core.zones import names, zone
from cep.engine import Engine, detect
from cep.events import Event
from cep.rules.expressions.calendar import BEGIN, OF_LOCAL, implementation
from tests.long import examples

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = datetime(3, 1, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)
ZONES = (
    "Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo",
    "Africa/Casablanca", "Pacific/Apia", "America/Havana", "Asia/Tehran", "Europe/Dublin",
    "Antarctica/Troll", "UTC", "Etc/GMT+12",
)  # fmt: skip

PARTS = {
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
    "day": lambda t: t.day,
    "weekday": lambda t: t.isoweekday(),
    "month": lambda t: t.month,
    "year": lambda t: t.year,
    "day_of_year": lambda t: t.timetuple().tm_yday,
    "week": lambda t: t.isocalendar().week,
    "local_time": lambda t: ((t.hour * 60 + t.minute) * 60 + t.second) * SECOND + t.microsecond,
}


def ticks_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def near_changes(name: str) -> st.SearchStrategy[datetime]:
    """Times beside the changes of a zone, and any."""
    changes = [int(at) for at in zone(name).instants[1:]]
    within = [at for at in changes if ticks_of(FIRST) < at < ticks_of(LAST)]
    anywhere = st.integers(ticks_of(FIRST), ticks_of(LAST))
    near = st.sampled_from(within) if within else anywhere
    shifts = st.integers(-4 * 3600 * SECOND, 4 * 3600 * SECOND) | st.sampled_from([-1, 0, 1])
    return (anywhere | st.builds(int.__add__, near, shifts)).map(lambda at: EPOCH + timedelta(microseconds=at))


@examples(300)
@given(st.data(), st.sampled_from(ZONES))
def test_parts_of_local_times(data: st.DataObject, name: str) -> None:
    moments = data.draw(st.lists(near_changes(name), min_size=1, max_size=20))
    pool = Pool()
    code = np.int64(pool.code(name))
    times = np.array([ticks_of(moment) for moment in moments], np.int64)
    local = [moment.astimezone(ZoneInfo(name)) for moment in moments]
    assert set(PARTS) == set(OF_LOCAL)
    for function, part in PARTS.items():
        assert implementation(function, pool)(times, code).tolist() == [part(each) for each in local], function
        in_utc = implementation(function, pool)(times)
        assert in_utc.tolist() == [part(moment) for moment in moments], function


def begun(unit: str, local: datetime) -> datetime:
    """When a unit began on the clock of a local time."""
    local = local.replace(microsecond=0)
    if unit in ("minute", "hour", "day"):
        local = local.replace(second=0)
    if unit in ("hour", "day"):
        local = local.replace(minute=0)
    if unit in ("day", "week", "month", "quarter", "year"):
        local = local.replace(hour=0, minute=0, second=0)
    if unit == "week":
        local -= timedelta(days=local.isoweekday() - 1)
    if unit in ("month", "quarter", "year"):
        month = {"month": local.month, "quarter": (local.month - 1) // 3 * 3 + 1, "year": 1}[unit]
        local = local.replace(month=month, day=1)
    return local


@examples(200)
@given(st.data(), st.sampled_from(ZONES))
def test_units_begin_where_the_clocks_say_so(data: st.DataObject, name: str) -> None:
    moments = data.draw(st.lists(near_changes(name), min_size=1, max_size=12))
    pool, info = Pool(), ZoneInfo(name)
    times = np.array([ticks_of(moment) for moment in moments], np.int64)
    for unit in BEGIN:
        found = implementation("date_trunc", pool)(np.int64(pool.code(unit)), times, np.int64(pool.code(name)))
        for moment, at in zip(moments, found.tolist()):
            local = moment.astimezone(info)
            wanted = begun(unit, local.replace(tzinfo=None))
            began = EPOCH + timedelta(microseconds=at)
            assert began <= moment or unit in ("second", "minute", "hour"), (unit, moment)
            shown = began.astimezone(info).replace(tzinfo=None)
            before = (began - timedelta(microseconds=1)).astimezone(info).replace(tzinfo=None)
            assert shown == wanted or before < wanted < shown, (unit, moment, began)  # or the clocks skip it
            assert unit in ("second", "minute", "hour") or before.date() < wanted.date(), (unit, moment, began)


@examples(100)
@given(st.lists(st.tuples(st.integers(-(2**50), 2**50), st.sampled_from([*ZONES, "Nowhere/Atall", None])), min_size=1))
def test_each_row_has_a_zone_of_its_own(rows: list[tuple[int, str | None]]) -> None:
    pool = Pool()
    times = np.array([at for at, _ in rows], np.int64)
    codes = np.array([MISSING if name is None else pool.code(name) for _, name in rows], np.int64)
    found = implementation("hour", pool)(times, codes).tolist()
    alone = [
        MISSING if name is None else int(implementation("hour", pool)(np.array([at]), np.int64(pool.code(name)))[0])
        for at, name in rows
    ]
    assert found == alone
    assert all((hour == MISSING) == (name not in names()) for hour, (_, name) in zip(found, rows))


def test_far_times_and_missing_ones() -> None:
    pool = Pool()
    far = np.array([MISSING, 2**63 - 1, -(2**63) + 1, 36_000 * 31_556_952 * SECOND, -36_000 * 31_556_952 * SECOND])
    assert implementation("year", pool)(far).tolist() == [MISSING, MISSING, MISSING, 37_970, -34_030]
    assert implementation("year", pool)(far, np.int64(pool.code("Asia/Tehran"))).tolist()[3:] == [37_970, -34_030]


def test_in_rules() -> None:
    program = """
        event reading(station: string, at: time, where: string?).
        night(S) <- reading(station: S)
            WHERE T = local_time(end(), "Europe/Zurich"), (T >= time("22:00") or T < time("06:00")).
        weekend(S, weekday(T, Z)) <- reading(S, T, Z) WHERE weekday(T, Z) in [6, 7].
        begun(S, date_trunc("day", T, Z)) <- reading(S, T, Z).
        noon(S) <- reading(S, T, _) WHERE local_time(T, "America/New_York") between time("12:00") and time("13:00").
    """
    at = ticks_of(datetime(2024, 3, 30, 23, 30, tzinfo=UTC))  # a Sunday, half past midnight, in Zurich
    noon = ticks_of(datetime(2024, 7, 1, 16, 15, tzinfo=UTC))
    rows = [(at, ("k", at, "Europe/Zurich")), (at, ("l", at, None)), (noon, ("m", noon, "America/New_York"))]
    found = {(each.type, each.args) for each in detect(program, [Event("reading", row, end, end) for end, row in rows])}
    sunday = ticks_of(datetime(2024, 3, 30, 23, tzinfo=UTC))
    monday = ticks_of(datetime(2024, 7, 1, 4, tzinfo=UTC))
    assert found == {
        ("night", ("k",)), ("night", ("l",)), ("weekend", ("k", 7)), ("begun", ("k", sunday)), ("begun", ("l", None)),
        ("begun", ("m", monday)), ("noon", ("m",)),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "message", "hint"),
    [
        ('hour(T, "Europe/Zürich") = 1', "there is no time zone `Europe/Zürich`", "`Europe/Zurich`"),
        ('hour(T, "zurich") = 1', "there is no time zone `zurich`", "did you mean `Europe/Zurich`?"),
        ('hour(T, "CEST") = 1', "there is no time zone `CEST`", "Europe/Berlin"),
        ('date_trunc("hours", T) = T', "`hours` is not a unit of the calendar", "did you mean `hour`?"),
        ("date_trunc(S, T) = T", "`date_trunc` needs a constant as this argument", 'date_trunc("hour", T)'),
        ('local_time(T, "UTC") < time("25:00")', "`25:00` is not a time of day", "`22:00`"),
        ('T < time("22:00")', "`<` cannot compare the time `T` and a duration", "`local_time(T, "),
        ("hour(S) = 1", "`hour` takes a time, not the string `S`", "`at: time`"),
        ("local_time(T) > 3 h", "`local_time` takes 2 arguments, not 1", "in a zone"),
        ('extract(S, "(a)", 2) = "x"', "there is no group 2: the regular expression has 1 group", "0 is all"),
        ('extract(S, "(a") = "x"', "this is not a regular expression", "like"),
        ("extract(S, S) = S", "`extract` needs a constant as this argument", "pump"),
        ('split(S, "", 1) = "x"', "the separator is empty", "split(S"),
        ('split(S, ",", 0) = "x"', "parts are counted from 1", "-1"),
        ('format("{} {}", S) = S', "the text has places for 2 values, but 1 follows", "`{}`"),
        ('format("{x}", S) = S', "`{x}` names a value, but values are used in their order", "`{}`"),
        ('format("{:.1f}", S) = S', "`{:.1f}` is not a way to write a text", "decimals"),
        ('format("{", S) = S', "the braces of this text do not match", "a brace itself"),
    ],
)
def test_mistakes(condition: str, message: str, hint: str) -> None:
    program = f"event a(s: string, t: time).\ne(S) <- a(S, T) WHERE {condition}."
    with pytest.raises(CepError) as caught:
        Engine.from_text(program)
    error = caught.value.errors[0] if hasattr(caught.value, "errors") else caught.value
    assert message in error.message
    assert error.span is not None and error.span.line == 2
    assert hint in (error.hint or "")


def test_nothing_is_between_evening_and_morning() -> None:
    condition = 'local_time(T, "UTC") between time("22:00") and time("06:00")'
    with pytest.raises(CepError, match='nothing is between time\\("22:00"\\) and time\\("06:00"\\)') as caught:
        Engine.from_text(f"event a(t: time).\ne <- a(T) WHERE {condition}.")
    assert '>= time("22:00") or ' in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2024-05-01 8:00", "2024-05-01T08:00"),
        ("2024-W18-3", "2024-05-01T00:00:00Z"),
        ("2024-05-01 08:00:00,5", "2024-05-01T08:00:00.5Z"),
    ],
)
def test_a_time_in_quotes_is_proposed_as_rules_have_it(text: str, written: str) -> None:
    def program(time: str) -> str:
        return f"event e(t: time) TIME a.\no() <- e(T) WHERE T > {time}.\n"

    with pytest.raises(CepError) as caught:
        Engine.from_text(program(f'"{text}"'))
    assert caught.value.hint == f"write `{written}`, without quotes"
    Engine.from_text(program(written))
