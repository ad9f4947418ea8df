"""`cep infer` of dirty files: a few bad values are told, and what it declares reads all other records."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.language.syntax.ast import EventDeclaration
from cep.language.syntax.parser import parse
from tests.cli_runs import cep
from tests.long import examples


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(name: str, text: str) -> str:
    Path(name).write_text(text)
    result = cep("infer", name)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def lines_read(name: str, declared: str) -> int:
    """How many records of a file become events of what was declared."""
    (one,) = [each for each in parse(declared).statements if isinstance(each, EventDeclaration)]
    attributes = ", ".join(f"{each.name}: V{place}" for place, each in enumerate(one.attributes))
    Path("p.cep").write_text(
        f"{declared}\nall(N) <- {one.name}({attributes}) AGGREGATE N = count() OVER LAST 1 EVENTS.\n"
    )
    result = cep("run", "p.cep", "--input", f"{one.name}={name}")
    assert result.exit_code == 0, result.stderr
    return result.stdout.count("\n")


FORMS: dict[str, Callable[[int], str]] = {
    "iso": lambda n: f"2024-05-{n // 24 + 1:02d}T{n % 24:02d}:00:00Z",
    "german": lambda n: f"{n // 24 + 1:02d}.05.2024 {n % 24:02d}:30",
    "american": lambda n: f"05/{n // 24 + 1:02d}/2024 {(n % 12) or 12}:15 {'AM' if n % 24 < 12 else 'PM'}",
    "number": lambda n: str(1_714_550_400 + 3_600 * n),
}
BAD = ["", "error", "2024-99-99T99:99:99Z", "?!", "#REF!", "31.02.2024 08:00", "x" * 30]


@examples(20)
@given(st.data())
def test_what_is_declared_reads_all_records_but_the_bad_ones(data: st.DataObject) -> None:
    random = Random(data.draw(st.integers(0, 10**6)))
    form, kind = FORMS[data.draw(st.sampled_from(list(FORMS)))], data.draw(st.sampled_from(["csv", "jsonl"]))
    count = data.draw(st.integers(100, 400))
    bad = random.sample(range(1, count), data.draw(st.integers(0, count // 50)))
    rows = [[form(n), f"s{n % 3}", f"{n / 8}", str(n)] for n in range(count)]
    for row in bad:
        rows[row][random.choice((0, 2, 3))] = random.choice(BAD[1:])
    if kind == "csv":
        text = "time,sensor,level,count\n" + "".join(",".join(row) + "\n" for row in rows)
    else:
        keys = ("time", "sensor", "level", "count")
        plain = [
            [int(row[0]) if row[0].isdigit() else row[0], row[1], *(_number(each) for each in row[2:])] for row in rows
        ]
        text = "".join(json.dumps(dict(zip(keys, row))) + "\n" for row in plain)
    declared = printed(f"data.{kind}", text)
    (one,) = [each for each in parse(declared).statements if isinstance(each, EventDeclaration)]
    types = {each.name: each.type for each in one.attributes}
    assert one.time == "time" and types["level"] == "float" and types["count"] == "int", declared
    assert lines_read(f"data.{kind}", declared) >= count - len(bad)


def test_of_two_orders_of_day_and_month_the_one_that_reads_more_records_is_declared() -> None:
    """Only the last of 289 records has a day above 12, and one record is bad."""
    american = FORMS["american"]
    text = "time,level\n" + "".join(f"{'?!' if n == 100 else american(n)},{n}\n" for n in range(289))
    declared = printed("data.csv", text)
    assert '"%m/%d/%Y %I:%M %p"' in declared and lines_read("data.csv", declared) == 288


def _number(text: str) -> object:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text


def test_bad_values_are_told_with_their_number() -> None:
    rows = [f"2024-05-01T{n // 60:02d}:{n % 60:02d}:00Z,{n}.5" for n in range(100)]
    rows[3], rows[7] = "oops,3.5", rows[7].replace("7.5", "seven")
    text = printed("d.csv", "time,v\n" + "\n".join(rows) + "\n")
    assert '% of `time`, 99 of 100 are times: the other ("oops") becomes a dead letter' in text
    assert '% 0.5 to 99.5; 99 of 100 are numbers: the other ("seven") becomes' in text


def test_a_number_in_quotes_is_never_a_missing_mark() -> None:
    lines = [{"t": 1_714_550_400 + n, "v": f"{n}.5" if n % 5 == 0 else n} for n in range(20)]
    text = printed("d.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert "v: float QUOTED" in text and "MISSING" not in text and "4 of 20 are in quotes" in text
    assert lines_read("d.jsonl", text) == 20


def test_a_midnight_of_24_keeps_the_time_of_day() -> None:
    text = printed("d.csv", "Datum;Zeit;v\n01.05.2024;23:00;1\n01.05.2024;24:00;2\n02.05.2024;01:00;3\n")
    assert 'TIME Datum, Zeit FORMAT "%d.%m.%Y %H:%M"' in text
    assert lines_read("d.csv", text) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sep=;\nt;v\n2024-05-01;1\n2024-05-02;2\n", 'csv(separator: ";", skip: "1")'),
        ("2024-05-01,1,a\n2024-05-02,2,b\n", 'csv(columns: "c1, c2, c3")'),
        ("// t; v\n2024-05-01;1\n2024-05-02;2\n", 'csv(separator: ";", comment: "//", columns: "t, v")'),
        ("t,v\nUTC,m/s\n2024-05-01,1\n2024-05-02,2\n", 'csv(units: "1")'),
        ("A report\n\nt,v\n2024-05-01,1\n2024-05-02,2\n2024-05-03,2\n", 'csv(skip: "2")'),
    ],
)
def test_layouts_of_tables_are_found(text: str, expected: str) -> None:
    declared = printed("d.csv", text)
    assert f"FORMAT {expected}" in declared, declared
    assert lines_read("d.csv", declared) == text.count("2024-")


def test_events_in_one_stream_are_told_apart() -> None:
    by_field = [{"t": n, "kind": "a", "x": n} if n % 2 else {"t": n, "kind": "b", "y": {"z": "q"}} for n in range(8)]
    text = printed("d.jsonl", "".join(json.dumps(line) + "\n" for line in by_field))
    assert 'WHEN kind = "a"' in text and 'WHEN kind = "b"' in text and text.count("\nevent ") == 2
    by_object = [{"t": n, "up": {"x": n}} if n % 2 else {"t": n, "down": {"y": n}} for n in range(8)]
    text = printed("e.jsonl", "".join(json.dumps(line) + "\n" for line in by_object))
    assert "WHEN up EXISTS" in text and "WHEN down EXISTS" in text
    alike = [{"t": n, "kind": "ab"[n % 2], "x": n} for n in range(8)]
    assert "WHEN" not in printed("f.jsonl", "".join(json.dumps(line) + "\n" for line in alike))


MIXED = """time,kind,user,ok,path,status
2024-05-01T08:00:00Z,login,ann,true,,
2024-05-01T08:00:01Z,request,,,/a,200
2024-05-01T08:00:02Z,login,bob,false,,
2024-05-01T08:00:03Z,request,,,/b,404
"""


def test_events_in_one_table_are_told_apart(tmp_path: Path) -> None:
    text = printed("d.csv", MIXED)
    assert text.count("\nevent ") + text.startswith("event ") == 2
    logins, requests = (part for part in text.split("\n\n") if "event" in part)
    assert 'TIME time WHEN kind = "login".' in logins and "user: string" in logins and "path" not in logins
    assert 'TIME time WHEN kind = "request".' in requests and "status: int" in requests and "ok" not in requests
    file = tmp_path / "d.parquet"
    pl.read_csv(io.StringIO(MIXED)).write_parquet(file)
    result = cep("infer", str(file))
    assert result.stdout == text, result.stderr


@pytest.mark.parametrize("nothing", ["-", "NA", "null", "n/a", "None"])
def test_texts_that_stand_for_nothing_tell_no_events_apart(nothing: str) -> None:
    """They are no values of the others' columns, nor of the field that says which event a record is."""
    text = printed("d.csv", MIXED.replace(",,", f",{nothing},").replace(",\n", f",{nothing}\n"))
    assert text == printed("e.csv", MIXED).replace("e.csv", "d.csv")
    table = pl.read_csv(io.StringIO(MIXED)).with_columns(pl.all().cast(pl.String).fill_null(nothing))
    text = printed("d.jsonl", table.write_ndjson())
    assert "path" not in text.split("\n\n")[0] and text.count("WHEN") == 2
    odd = "".join(f"2024-05-01T09:00:{n:02d}Z,{nothing},,,,\n" for n in range(2))
    many = MIXED + "".join(f"2024-05-01T08:01:{n:02d}Z,login,ann,true,,\n" for n in range(60))
    assert printed("f.csv", many + odd[: len(odd) // 2]).count("WHEN") == 2


@pytest.mark.parametrize(
    "text",
    [
        "time,station,temp,gust\n2024-05-01,A,1,\n2024-05-02,B,2,7\n2024-05-03,A,1,\n2024-05-04,B,2,8\n",
        "time,ok,a,b\n2024-05-01,yes,1,\n2024-05-02,no,,7\n2024-05-03,yes,1,\n2024-05-04,no,,8\n",
        "time,code,a,b\n2024-05-01,1,1,\n2024-05-02,2,,7\n2024-05-03,1,1,\n2024-05-04,2,,8\n",
        "time,kind,a,b\n2024-05-01,On,1,\n2024-05-02,on,,7\n2024-05-03,On,1,\n2024-05-04,on,,8\n",
    ],
    ids=["a column of one station", "yes and no", "numbers", "names that differ in case"],
)
def test_a_table_of_one_event_stays_whole(text: str) -> None:
    assert "WHEN" not in printed("d.csv", text)


def test_units_stand_below_columns_that_are_mostly_empty() -> None:
    text = printed("d.csv", "t,a,b\n,m,s\n2024-05-01,1,\n2024-05-02,,2\n2024-05-03,,\n2024-05-04,3,\n2024-05-05,,4\n")
    assert 'FORMAT csv(units: "1")' in text and "a: int?" in text and "b: int?" in text
    assert lines_read("d.csv", text) == 5


def test_numbers_that_all_stand_in_quotes_are_noted() -> None:
    for value, note in (("2.5", "`float QUOTED`"), ("25", "`int QUOTED`"), ("025", ""), ("x", "")):
        text = printed("d.jsonl", json.dumps({"time": 1714550400, "v": value}) + "\n")
        assert "v: string" in text and (note in text if note else "QUOTED" not in text)


def test_few_numbers_in_a_list_are_read_by_their_places() -> None:
    lines = [{"time": 1714550400 + n, "at": {"coordinates": [8.5, 47.3][n:]}} for n in range(2)]
    text = printed("d.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert 'coordinates_0: float FROM "at.coordinates[0]"' in text
    assert 'coordinates_1: float? FROM "at.coordinates[1]"' in text
    assert lines_read("d.jsonl", text) == 2
    text = printed("e.jsonl", json.dumps({"time": 1714550400, "list": [{"v": 1, "p": [1, 2, 3, 4]}]}) + "\n")
    assert '`FROM "list[].p[0]"` is its first element' in " ".join(text.replace("%", "").split())


def test_few_numbers_in_a_list_of_parquet_are_read_by_their_places() -> None:
    at = [[8.5, 47.3], [8.5], None]
    rows = {
        "time": [1714550400 + n for n in range(3)],
        "at": at,
        "axes": pl.Series([[1, 2, 3]] * 3, dtype=pl.Array(pl.Int64, 3)),
        "place": [{"kind": "p", "coordinates": each} for each in at],
        "many": [[1, 2, 3, 4], None, []],
    }
    pl.DataFrame(rows).write_parquet("d.parquet")
    text = cep("infer", "d.parquet").stdout
    for source, type in (
        ("at[0]", "float?"),
        ("at[1]", "float?"),
        ("axes[2]", "int"),
        ("place.coordinates[1]", "float?"),
    ):
        assert f'{type} FROM "{source}"' in text
    assert '`FROM "many[]"` makes an event of each element' in " ".join(text.replace("%", "").split())
    assert lines_read("d.parquet", text) == 3
    features = [[{"n": 1, "at": [1.0, 2.0]}, {"n": 2, "at": [3.0, 4.0]}]] * 2
    pl.DataFrame({"time": [1714550400, 1714550401], "features": features}).write_parquet("e.parquet")
    text = cep("infer", "e.parquet").stdout
    assert 'at_0: float FROM "features[].at[0]"' in text
    assert lines_read("e.parquet", text) == 2, "those of one record are one instant"


def test_a_log_of_zeek_is_known_by_its_first_lines() -> None:
    text = printed("conn.log", "#separator \\x09\n#fields\tts\tuid\n#types\ttime\tstring\n1714550400.5\tCa1\n")
    assert "event conn(" in text and ") TIME ts FORMAT zeek." in text


@pytest.mark.parametrize("header", ["day,0,1,2", "day,,0,", "day,0,0,"])
def test_a_header_of_numbers_is_one_above_dates(header: str) -> None:
    text = printed("d.csv", header + "\n2024-05-01,4,5,6\n2024-05-02,,5,\n2024-05-03,,5,6\n")
    assert "csv(columns" not in text and "TIME day" in text
    assert lines_read("d.csv", text) == 3


def test_a_quoted_number_keeps_its_optional_ones() -> None:
    lines = [{"t": 1_714_550_400 + n, **({"code": "7" if n == 9 else 7} if n % 3 == 0 else {})} for n in range(60)]
    text = printed("m.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert "code: int? QUOTED" in text
    assert lines_read("m.jsonl", text) == 60


def test_a_column_most_of_which_are_times_is_told() -> None:
    rows = [f"{n % 28 + 1:02d}.05.2024 08:00,{n}" if n % 20 else f"n{n},{n}" for n in range(100)]
    text = " ".join(printed("d.csv", "t,v\n" + "\n".join(rows) + "\n").replace("\n%", "").split())
    assert '95 of 100 of `t` are times: `TIME t FORMAT "%d.%m.%Y %H:%M"` reads those' in text


def test_a_name_with_a_dot_is_read_beside_an_object() -> None:
    lines = [{"time": 1_714_550_400 + n, "a.b": n, "a": {"b": "t"}} for n in range(20)]
    text = printed("d.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert 'b: int FROM "a.b"' in text and "no path" not in text and "it is in the object `a`" in text
    assert lines_read("d.jsonl", text) == 20


def test_standard_input_is_read() -> None:
    lines = "".join(json.dumps({"time": 1_714_550_400 + n, "v": n}) + "\n" for n in range(20))
    found = cep("infer", "-", "--event", "reading", input=lines)
    assert found.exit_code == 0 and "event reading(" in found.stdout and "v: int" in found.stdout
    unsaid = cep("infer", "-", input="t,v\n1,2\n")
    assert unsaid.exit_code == 2 and "-: the format is not known" in unsaid.stderr and "--format" in unsaid.stderr
    table = cep("infer", "-", "--format", "csv", input="time,v\n2024-05-01,2\n")
    assert table.exit_code == 0 and "v: int" in table.stdout


def test_comments_on_times_agree_with_the_run() -> None:
    times: list[object] = [f"2024-05-01T{8 + n // 60:02d}:{n % 60:02d}:00Z" for n in range(120)]
    times[7] = 1_714_540_000
    lines = "".join(json.dumps({"ts": time, "v": n}) + "\n" for n, time in enumerate(times))
    text = printed("d.jsonl", lines)
    assert "of `ts`, 1 is a number, seconds since 1970" in text and "dead letter" not in text
    assert lines_read("d.jsonl", text) == 120
    numbers: list[object] = [1_714_550_400 + n for n in range(120)]
    numbers[7] = "bad"
    lines = "".join(json.dumps({"time": time, "v": n}) + "\n" for n, time in enumerate(numbers))
    text = printed("e.jsonl", lines)
    assert "dead letter" in text and "missing one" not in text and lines_read("e.jsonl", text) == 119


def test_intervals_of_the_doubled_hour_are_told() -> None:
    hours = ["01:00", "01:30", "02:00", "02:30", "02:00", "02:30", "03:00", "03:30"]
    rows = "".join(f"27.10.2024 {a};27.10.2024 {b};{n}\n" for n, (a, b) in enumerate(zip(hours, hours[1:])))
    text = " ".join(printed("p.csv", "von;bis;kwh\n" + rows).replace("\n%", "").split())
    assert '1 interval ends before it begins, as where clocks are set back: ZONE "Europe/Zurich" FOLD order' in text
    lines = "".join(json.dumps({"p": f"2024-10-27T{a}/PT30M", "v": 1}) + "\n" for a in hours)
    text = printed("q.jsonl", lines)
    assert text.count("are read as UTC") == 1 and "START p END p" in text


def reads_each_once(name: str, text: str, count: int) -> None:
    """The events that `cep infer` printed are all records of the file, each of one event."""
    rules = []
    for event in (each for each in parse(text).statements if isinstance(each, EventDeclaration)):
        rules.append(f"\nseen_{event.name}(V) <- {event.name}(V{', _' * (len(event.attributes) - 1)}).")
    Path("all.cep").write_text(text + "".join(rules))
    result = cep("run", "all.cep", "--input", name, "--strict", "--strict-types")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("seen_") == count, result.stdout


def test_events_are_told_apart_by_a_field_of_an_object() -> None:
    own = ({"x": 1}, {"y": "q"}, {"inner": {"z": 1.5}})
    lines = [{"t": 1714550400 + n, "event": {"kind": "abc"[n % 3]}, **own[n % 3]} for n in range(9)]
    text = printed("d.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    for kind in "abc":
        assert f'WHEN "event.kind" = "{kind}"' in text
    assert 'z: float FROM "inner.z"' in text.split("event c(")[1] and "z" not in text.split("event b(")[0]
    reads_each_once("d.jsonl", text, 9)
    dotted = [{"t": 1714550400 + n, "event.kind": "abc"[n % 3], **own[n % 3]} for n in range(9)]
    text = printed("e.jsonl", "".join(json.dumps(line) + "\n" for line in dotted))
    assert 'WHEN "event.kind" = "c"' in text
    reads_each_once("e.jsonl", text, 9)


def test_events_are_told_apart_by_the_fields_under_one_key() -> None:
    """Fields that stand beside another tell nothing more; an address says which device it was, and no event."""
    kinds = ({"temp": 1, "battery": 3}, {"state": "ON"}, {"temp": 2})
    lines = [{"t": 1714550400 + n, "topic": f"zone/{n % 2}", "payload": kinds[n % 3]} for n in range(12)]
    text = printed("d.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert 'WHEN "payload.temp" EXISTS' in text and 'WHEN "payload.state" EXISTS' in text
    assert text.count("WHEN") == 2 and 'battery: int? FROM "payload.battery"' in text
    reads_each_once("d.jsonl", text, 12)
    nulls = [{"t": 1714550400 + n, "payload": {"x": [n, None][n % 2], "y": [None, "q"][n % 2]}} for n in range(8)]
    text = printed("f.jsonl", "".join(json.dumps(line) + "\n" for line in nulls))
    assert text.count("WHEN") == 2
    reads_each_once("f.jsonl", text, 8)
    words = [{"t": 1714550400 + n, "payload": {"x": [n, "NA"][n % 2], "y": ["NA", "q"][n % 2]}} for n in range(8)]
    assert "WHEN" not in printed("g.jsonl", "".join(json.dumps(line) + "\n" for line in words))
    plain = [{"t": 1714550400 + n, "payload": [{"temp": 1, "wind": 2}, {"temp": 1}][n % 2]} for n in range(8)]
    assert "WHEN" not in printed("e.jsonl", "".join(json.dumps(line) + "\n" for line in plain))


def test_events_in_structs_of_parquet_are_told_apart() -> None:
    rows = {
        "t": [1714550400 + n for n in range(6)],
        "event": [{"kind": "ab"[n % 2]} for n in range(6)],
        "x": [1, None] * 3,
        "y": [None, "q"] * 3,
    }
    pl.DataFrame(rows).write_parquet("d.parquet")
    text = cep("infer", "d.parquet").stdout
    assert 'WHEN "event.kind" = "a"' in text and 'WHEN "event.kind" = "b"' in text
    reads_each_once("d.parquet", text, 6)


def test_a_column_of_parquet_is_read_before_the_field_of_a_struct_of_the_same_path() -> None:
    """The note shows the values that are read."""
    struct = [{"b": 5, "c.d": 7, 'e"': 8}, {"b": 6, "c.d": 8, 'e"': 9}]
    pl.DataFrame({"time": [1714550400, 1714550401], "a": struct, "a.b": [1, 2]}).write_parquet("d.parquet")
    text = cep("infer", "d.parquet").stdout
    remarks = " ".join(text.replace("%", "").split())
    assert 'b: int FROM "a.b",         % 1 to 2' in text and 'c_d: int FROM "a.\\"c.d\\""' in text
    assert "`a.b` is left out: it is in the struct `a`, but a column is called `a.b`, too" in remarks
    assert '`a.e"` is left out: no path leads to a name that is empty, or has quotes or brackets' in remarks
    assert lines_read("d.parquet", text) == 2


@pytest.mark.parametrize(
    ("between", "start", "end", "pattern"),
    [
        (" - ", "27.10.2024 0{}:00", "27.10.2024 0{}:00", ' FORMAT "%d.%m.%Y %H:%M"'),
        (" to ", "2024-10-27T0{}:00Z", "2024-10-27T0{}:00Z", ""),
    ],
)
def test_intervals_in_one_column_are_named(between: str, start: str, end: str, pattern: str) -> None:
    rows = "".join(f"{start.format(n)}{between}{end.format(n + 1)},5{n}\n" for n in range(5))
    remarks = " ".join(printed("d.csv", "MTU,price\n" + rows).replace("%  ", "").split())
    assert "`MTU` has intervals, the start and the end in one column" in remarks
    assert f'cut it at the "{between.strip()}" between blanks, then `START .. END ..{pattern}` reads them' in remarks
    parted = "start,end,price\n" + rows.replace(between, ",")
    text = printed("e.csv", parted)
    assert f"START start END end{pattern}" in text
    words = "".join(f"a{n} - b{n},5{n}\n" for n in range(5))
    assert "intervals" not in printed("f.csv", "MTU,price\n" + words)


@pytest.mark.parametrize(
    ("text", "command", "columns"),
    [
        ("#YY  MM DD hh WDIR\n#yr  mo dy hr degT\n2024 05 01 00  70\n2024 05 01 01 170\n", "tr -s ' ' ','", 5),
        ("time  v\n2024-05-01  1,5\n2024-05-02  2\n2024-05-03  3\n", "tr -s ' ' ';'", 2),
        ("      time   v\n2024-05-01 100\n2024-05-02  20\n", "awk '{$1=$1}1' OFS=','", 2),
    ],
    ids=["names in a comment", "decimal commas", "aligned to the right"],
)
def test_columns_apart_by_blanks_are_named(text: str, command: str, columns: int) -> None:
    remarks = " ".join(printed("d.csv", text).replace("%  ", "").split())
    assert f"separated by blanks, so they are read as one: `{command}` makes them {columns}" in remarks
    made = subprocess.run(shlex.split(command), input=text, capture_output=True, text=True, check=True).stdout
    fixed = printed("e.csv", made)
    assert " TIME " in fixed and "blanks" not in fixed and lines_read("e.csv", fixed) == text.count("2024")


@pytest.mark.parametrize(
    "text",
    [
        "date time\n2024-05-01 08:00:00\n2024-05-02 09:00:00\n",
        "who\nann 1\nbob 2\n",
        "first name\nann lee\nbob ray\n",
        "a b,c\n1 2,3\n4 5,6\n",
    ],
)
def test_blanks_within_a_column_are_no_separators(text: str) -> None:
    assert "separated by blanks" not in printed("d.csv", text)
