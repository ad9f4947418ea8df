"""Records: what one line means, and every way it can be unreadable."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.connectors.records.numbers import GOOD, read_iso, read_seconds
from cep.connectors.records.records import Record, read_fields
from cep.connectors.records.times import FAR, FIRST, LAST, iso, of_duration, of_iso, scaled, seconds_text
from cep.connectors.records.values import Unreadable
from tests.record_lines import LOOSE, POINT, SCHEMAS, SENSOR, fast, read_line


def line(text: str) -> Record:
    return read_line(text.encode(), SCHEMAS)


def test_the_records_of_the_language_page() -> None:
    sensor = line('{"type": "sensor", "time": "2013-02-08T18:00:00Z", "id": "KJFK", "wind": 31.1, "visib": 0.12}')
    assert sensor == Record("sensor", 1360346400_000000, 1360346400_000000, ("KJFK", 31.1, *[None] * 5))
    assert line('{"type": "a", "time": 4, "args": [1, "x"]}') == Record("a", 4_000000, 4_000000, (1, "x"))
    assert line('{"type": "s", "from": 2, "to": 7.5, "args": [1]}') == Record("s", 2_000000, 7_500000, (1,))
    assert line('{"type": "a", "start": 2, "end": 7.5, "args": [1, true]}').end == 7_500000
    assert line('{"at": 1, "value": 3, "type": "p", "other": {"x": [1, {}]}}') == Record(
        "p", 1_000000, 1_000000, (3.0,)
    )


UNREADABLE = [
    ("json", '{"type": "p", "at": 1', "bad JSON at character 22"),
    ("json", "nonsense", "bad JSON at character 1"),
    ("json", '{"type": "p", "at": 1} {}', "extra data"),
    ("time", '{"type": "p", "at": NaN, "value": 1}', "no time: `at` is missing"),
    ("json", '{"type": "p", "at": 1, "value": Inf}', "bad JSON"),
    ("json", '{"type": "p", "at": 1, "value": 01}', "bad JSON"),
    ("json", '{"type": "p", "at": 1, "value": 1, "value": 2}', "the key `value` appears twice"),
    ("json", '{"type": null, "type": "p", "at": 1, "value": 2}', "the key `type` appears twice"),
    ("json", '{"x": ' + "[" * 100_000, "nested too deeply"),
    ("json", '{"x": ' + "1" * 5000 + "}", "4300 digits"),
    ("object", "[1]", "this is a list"),
    ("object", "3.5", "this is a number"),
    ("type", '{"at": 1, "value": 1}', "the field `type` is missing"),
    ("type", '{"type": "sensr"}', "no event of the program is called `sensr` (did you mean `sensor`?)"),
    ("type", '{"type": 3}', "`type` has to be a string, but it is a number"),
    ("time", '{"type": "p", "value": 1}', "`at` is missing"),
    ("time", '{"type": "p", "at": null, "value": 1}', "`at` is missing"),
    ("time", '{"type": "p", "time": 1, "value": 1}', "`at` is missing"),
    ("time", '{"type": "p", "at": "NaN", "value": 1}', "`NaN` is not an ISO 8601 time"),
    ("time", '{"type": "p", "at": "12", "value": 1}', "`12` is not an ISO 8601 time"),
    ("time", '{"type": "p", "at": true, "value": 1}', "a boolean is not a time"),
    ("time", '{"type": "p", "at": [1], "value": 1}', "a list is not a time"),
    ("time", '{"type": "p", "at": "2013-02-30", "value": 1}', "not a time of the calendar"),
    ("time", '{"type": "p", "at": "2013-02-08T24:01Z", "value": 1}', "not a time of the calendar"),
    ("time", '{"type": "p", "at": "0001-01-01T00:00+01:00", "value": 1}', "not a time of the calendar"),
    ("time", '{"type": "p", "at": 1e25, "value": 1}', "`1e25` is not a time of the years 1 to 9999: seconds since"),
    ("time", '{"type": "p", "at": -1e11, "value": 1}', "not a time of the years 1 to 9999"),
    ("time", '{"type": "p", "at": 253402300800, "value": 1}', "not a time of the years 1 to 9999"),
    ("time", '{"type": "p", "at": 7258118400.000001, "value": 1}', "is beyond the year 2200: seconds since 1970 are"),
    ("time", '{"type": "p", "at": 7258118401, "value": 1}', "milliseconds; they are declared `FORMAT epoch ms`"),
    ("time", '{"type": "p", "at": 1714554000000, "value": 1}', "`1714554000000` is not a time of the years 1 to 9999"),
    ("time", '{"type": "p", "at": 1714554000000, "value": 1}', "expected, this looks like milliseconds"),
    ("time", '{"type": "a", "start": 1, "end": 1714554000000000, "args": [1, 2]}', "looks like microseconds"),
    ("time", '{"type": "a", "start": 1714554000000000000, "end": 1, "args": [1, 2]}', "looks like nanoseconds"),
    ("time", '{"type": "p", "at": 1e999999999999999999999, "value": 1}', "not a finite number"),
    ("time", '{"type": "s", "from": 1, "v": 1}', "`to` is missing"),
    ("time", '{"type": "a", "end": 1, "args": [1, 2]}', "`start` is missing"),
    ("time", '{"type": "a", "time": 1, "start": 1, "end": 1, "args": [1, 2]}', "both give the time"),
    ("args", '{"type": "a", "time": 1, "args": [1]}', "`args` holds 1 values, but a has 2 attributes"),
    ("args", '{"type": "a", "time": 1, "args": null}', "`args` has to be a list, but it is null"),
    ("args", '{"type": "a", "time": 1, "args": [1, 2], "arg1": 1}', "`args` and `arg1` both give values"),
    (
        "args",
        '{"type": "a", "time": 1, "x": 3, "of": [1], "y": 2.5, "z": true, "w": null}',
        "a is not declared, so its values come as `args` or as `arg1` to `arg2`; declare it to have them by name: "
        "`event a(x: int, x2: int) TIME time.`",
    ),
    ("args", '{"type": "a", "time": 1, "x": 3.5, "y": "b", "of": []}', "`event a(x: float, y: string) TIME time.`"),
    ("args", '{"type": "a", "start": 1, "end": 2, "s": true, "Y": 1}', "by name: `event a(x: int, x2: int).`"),
    ("args", '{"type": "a", "time": 1, "arg1": 3}', "a is not declared"),
    ("args", '{"type": "a", "time": 1}', "a is not declared"),
    (
        "ill-typed",
        '{"type": "p", "at": 1, "value": "1"}',
        "v: expected float, found a string `1`; write a number without quotes, or declare it `v: float QUOTED`",
    ),
    ("ill-typed", '{"type": "p", "at": 1, "value": true}', "v: expected float, found a boolean"),
    ("ill-typed", '{"type": "p", "at": 1, "value": 1e999}', "is too large for a float"),
    ("ill-typed", '{"type": "s", "from": 1, "to": 1, "v": 3.5}', "v: expected int, found `3.5`; declare numbers with"),
    ("ill-typed", '{"type": "s", "from": 1, "to": 1, "v": 1e-9999999}', "v: expected int"),
    ("ill-typed", '{"type": "s", "from": 1, "to": 1, "v": false}', "found a boolean"),
    (
        "ill-typed",
        '{"type": "s", "from": 1, "to": 1, "v": -9223372036854775808}',
        "stands for a missing value",
    ),
    ("ill-typed", '{"type": "s", "from": 1, "to": 1, "v": 1e99999999}', "does not fit in 64 bits"),
    ("ill-typed", '{"type": "a", "time": 1, "args": [[], 1]}', "arg1: expected a value, found a list"),
    ("ill-typed", '{"type": "sensor", "time": 1, "id": 7}', "id: expected string, found a number"),
    ("ill-typed", '{"type": "sensor", "time": 1, "id": "\\ud800"}', "half a surrogate pair"),
    ("ill-typed", '{"type": "sensor", "time": 1, "id": "x", "wet": 2}', "wet: expected bool (`true` `false`, `yes`"),
    ("ill-typed", '{"type": "sensor", "time": 1, "id": "x", "place": "a b"}', "place: `a b` is not an IRI"),
    ("ill-typed", '{"type": "sensor", "time": 1, "id": "x", "seen": "now"}', "seen: `now` is not an ISO 8601 time"),
    ("ill-typed", '{"type": "sensor", "time": 1, "id": "x", "seen": 1714554000000}', "this looks like milliseconds"),
    (
        "ill-typed",
        '{"type": "sensor", "time": 1, "id": "x", "lasting": "P1Y"}',
        "lasting: `P1Y` is not a valid duration",
    ),
]


@pytest.mark.parametrize(("code", "text", "reason"), UNREADABLE, ids=[text[:60] for _, text, _ in UNREADABLE])
def test_an_unreadable_record_says_why(code: str, text: str, reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        line(text)
    assert caught.value.code == code
    assert reason in caught.value.reason
    tables, dead, _ = fast(text.encode())
    assert not tables
    assert [(record.code, record.reason, record.line) for record in dead] == [(code, caught.value.reason, 1)]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("time,sensor,value", "; this looks like the header of a table: `--format csv`"),
        ('"Datum";"Zeit";"Temp. (C)"', "; this looks like the header of a table: `--format csv`"),
        ("ts\tid\tv", "; this looks like the header of a table: `--format tsv`"),
        ("2024-05-01,a,3", ""),
        ("value", ""),
        ("true, {1}", ""),
    ],
)
def test_a_table_that_is_read_as_json_is_told(text: str, remedy: str) -> None:
    with pytest.raises(Unreadable) as caught:
        line(text)
    assert caught.value.reason.partition(";")[2] == remedy.removeprefix(";")


def test_an_undeclared_event_comes_by_its_own_names() -> None:
    for values in ('"arg2": null, "arg1": 1, "x": 2', '"args": [1, null], "x": 2'):
        text = f'{{"type": "a", "time": 4, {values}}}'
        assert line(text) == Record("a", 4_000000, 4_000000, (1, None))
        assert fast(text.encode())[1:] == ([], [(0, line(text))])


def test_times_of_the_calendar_only() -> None:
    for seconds_of, end in (
        ("-62135596800", FIRST),
        ("7258118400", FAR * 1_000_000),
        ('"9999-12-31T23:59:59.999999"', LAST),
    ):
        assert line(f'{{"type": "p", "at": {seconds_of}, "value": 1}}').end == end
        assert fast(f'{{"type": "p", "at": {seconds_of}, "value": 1}}'.encode())[2][0][1].end == end
    assert line('{"type": "sensor", "time": 1, "id": "x", "lasting": 1714554000000}').values[-1] == 1714554000000_000000


def test_bytes_that_are_no_text_are_unreadable() -> None:
    with pytest.raises(Unreadable, match="byte 2 of the line is not UTF-8"):
        read_line(b"a\xff", SCHEMAS)


def test_a_bound_input_needs_no_type_and_has_its_own() -> None:
    record = b'{"at": 1, "value": 2, "type": %s}'
    expected = Record("p", 1_000000, 1_000000, (2.0,))
    assert read_line(b'{"at": 1, "value": 2}', SCHEMAS, "p", bound=True) == expected
    assert read_line(record % b'"METAR"', SCHEMAS, "p", bound=True) == expected
    assert read_line(record % b"7", SCHEMAS, "p", bound=True) == expected
    assert read_line(b'{"at": 1, "value": 2}', {"p": POINT}, "p") == expected
    for text, bound, code in ((b'"a"', True, "type"), (b'"METAR"', False, "type")):
        with pytest.raises(Unreadable) as caught:
            read_line(record % text, SCHEMAS, "p", bound)
        assert caught.value.code == code


def test_text_fields() -> None:
    fields = {"time": " 2013-02-08 18:00:00.5+01:00 ", "id": " x", "wind": " 3 ", "count": "3.0", "wet": "TRUE"}
    fields |= {"place": "NA", "seen": "1.5", "lasting": "PT3H"}
    expected = Record(
        "sensor", 1360342800_500000, 1360342800_500000, (" x", 3.0, 3, True, None, 1_500000, 10800_000000)
    )
    assert read_fields(fields, SENSOR) == expected
    loose = {"time": "1e3", "arg1": "007", "arg2": "7"}
    assert read_fields(loose, LOOSE) == Record("a", 1000_000000, 1000_000000, ("007", 7))
    for key, text in (
        ("wind", "nan"),
        ("wind", "1_000"),
        ("wind", "1,5"),
        ("count", "3.5"),
        ("wet", "2"),
        ("seen", "x"),
    ):
        with pytest.raises(Unreadable) as caught:
            read_fields(fields | {key: text}, SENSOR)
        assert caught.value.code == "ill-typed"


@pytest.mark.parametrize(
    ("text", "ticks"),
    [
        ("1970-01-01", 0),
        ("2013-02-08T18:00:00Z", 1360346400_000000),
        ("2013-02-08 18:00:00", 1360346400_000000),
        ("2013-02-08T19:30+01:30", 1360346400_000000),
        ("2013-02-08t13:00:00.25-0500", 1360346400_250000),
        ("1969-12-31T23:59:59.9999995Z", 0),
        ("1969-12-31T23:59:59.9999985Z", -2),
        ("2000-02-29T00:00:00.0000005Z", 951782400_000000),
        ("0001-01-01", FIRST),
        ("9999-12-31T23:59:59.999999Z", LAST),
        ("2013-02-08T18:00:00,25Z", 1360346400_250000),
        ("2013-02-07T24:00", 1360281600_000000),
        ("2013-02-07T24:00:00,000+01:00", 1360278000_000000),
    ],
)
def test_iso_times(text: str, ticks: int) -> None:
    assert of_iso(text) == ticks
    assert read_iso(np.frombuffer(text.encode(), np.uint8), 0, len(text))[:2] == (ticks, GOOD)


@pytest.mark.parametrize("text", ["2024-W18-3", "2024-W18-3T08:00:00,5Z", "2020-W53-7T24:00+02:00", "2024-W54-1"])
def test_week_dates_are_left_to_the_library(text: str) -> None:
    assert read_iso(np.frombuffer(text.encode(), np.uint8), 0, len(text))[1] != GOOD
    day, _, clock = text.partition("T")
    try:
        ordinary = date.fromisoformat(day).isoformat()
    except ValueError:
        with pytest.raises(ValueError, match="is not a time of the calendar"):
            of_iso(text)
    else:
        assert of_iso(text) == of_iso(ordinary + ("T" + clock if clock else ""))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("08:00:00,5Z", "a time of day: the day is missing"),
        ("2024-05", "a month without a day"),
        ("2024-W18", "a week without a day: add the day, `2024-W18-3`"),
        ("2024-122T08:00Z", 'a day of the year: declare it with `%j`, as in `FORMAT "%Y-%j"`'),
        ("2024-05-01T08", 'an hour without minutes: declare it, as in `FORMAT "%Y-%m-%dT%H"`'),
        ("2024-05-01T08:00,5", "decimals of hours or minutes"),
        ("2024-12-31T23:59:60Z", "a leap second"),
        ("2024-05-01/2024-05-02", "an interval"),
        ("2024-05-01T08:00Z/PT1H", "an interval"),
        ("PT1H", "a duration"),
        ("20240501T080000,5Z", "the basic form"),
        ("2024W183", "the basic form"),
        ("+12024-05-01", "a year of more than four digits"),
    ],
)
def test_iso_8601_that_is_not_read_is_not_said_to_be_none(text: str, what: str) -> None:
    with pytest.raises(ValueError, match="is a form of ISO 8601 that is not supported") as caught:
        of_iso(text)
    assert what in str(caught.value)


@given(st.integers(FIRST, LAST), st.integers(-(2**63) + 1, 2**63 - 1))
def test_times_come_back(ticks: int, far: int) -> None:
    assert of_iso(iso(ticks)) == ticks
    assert scaled(seconds_text(far)) == far


@given(st.from_regex(r"\A-?[0-9]{1,12}(\.[0-9]{1,12})?\Z"))
def test_decimals_of_seconds_round_half_to_even(text: str) -> None:
    exact = round(Fraction(text) * 1_000_000)
    assert scaled(text) == exact
    assert read_seconds(np.frombuffer(text.encode(), np.uint8), 0, len(text), 46) == (exact, GOOD)


DAY = r"[12][0-9]{3}-[01][0-9]-[0-3][0-9]"
CLOCK = r"([0-2][0-9]:[0-5][0-9](:[0-6][0-9])?([.,][0-9]{0,9})?|24:0[01](:0[01]([.,]0{0,7}[0-9]?)?)?)"
ZONE = r"(Z|[+-][0-2][0-9](:?[0-6][0-9])?)"


@given(st.from_regex(rf"\A{DAY}([T ]{CLOCK}{ZONE}?)?\Z"))
def test_the_compiled_calendar_is_the_library_s(text: str) -> None:
    ticks, state, _ = read_iso(np.frombuffer(text.encode(), np.uint8), 0, len(text))
    try:
        expected = of_iso(text)
    except ValueError:
        assert state != GOOD
    else:
        assert (ticks, state) == (expected, GOOD)


def test_durations() -> None:
    words = {"500 ms": 500_000, "30 s": 30_000_000, "1.5min": 90_000_000, "3 h": 10800_000000, "2 d": 172800_000000}
    periods = {"PT3H": 10800_000000, "P1DT0.5S": 86400_500000, "-PT1M": -60_000000, "P1W": 604800_000000}
    assert {text: of_duration(text) for text in words | periods} == words | periods
    for text in ("", "P", "PT", "P1Y", "P1M", "1 week", "PT1.2.3S", "1e3 s"):
        with pytest.raises(ValueError, match=r"n(o|ot) "):
            of_duration(text)
