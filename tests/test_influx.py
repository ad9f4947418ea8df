"""InfluxDB's line protocol: its documentation's examples, random lines, and what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.connectors.brokers.messages import Inbox, Messages
from cep.connectors.files import read
from cep.connectors.formats.influx import PointReader
from cep.connectors.formats.influx_points import read_point, record, timed
from cep.connectors.inputs import inputs
from cep.connectors.records.records import Record
from cep.connectors.records.values import Unreadable
from cep.core.errors import CepError
from tests.long import examples
from tests.sensor_packs import SECOND, everything, rows, schemas

HOME = "event home(room: string, temp: float, hum: float, co: int) FORMAT influx"
GET_STARTED = r"""home,room=Living\ Room temp=21.1,hum=35.9,co=0i 1641024000
home,room=Kitchen temp=21.0,hum=35.9,co=0i 1641024000
home,room=Living\ Room temp=21.4,hum=35.9,co=0i 1641027600
"""


def test_influx_the_sample_of_its_documentation(tmp_path: Path) -> None:
    found, dead = rows(tmp_path, HOME + '(precision: "s").', GET_STARTED, "home.lp")
    at = 1_641_024_000 * SECOND
    assert not dead
    assert found == [
        (at, at, "Living Room", 21.1, 35.9, 0),
        (at, at, "Kitchen", 21.0, 35.9, 0),
        (at + 3600 * SECOND, at + 3600 * SECOND, "Living Room", 21.4, 35.9, 0),
    ]
    found, dead = rows(tmp_path, HOME.replace(" FORMAT influx", " TIME time FORMAT epoch s."), GET_STARTED, "home.line")
    assert len(found) == 3 and found[0][0] == at


ELEMENTS = r"""
# This is a comment
myMeasurement,tag1=value1,tag2=value2 fieldKey="fieldValue" 1556813561098000000
myMeasurement fieldKey=12485903 1556813561098000000
myMeasurement fieldKey=1i 1556813561098000000
myMeasurement fieldKey=1u 1556813561098000000
myMeasurement fieldKey=true 1556813561098000000
myMeasurement fieldKey=-1.234456e+78 1556813561098000000
  myMeasurement fieldKey="Launch \\ \"this, here = there\" 🚀"  1556813561098000001
"""


def test_influx_elements_of_line_protocol(tmp_path: Path) -> None:
    def column(type: str) -> list[Any]:
        declaration = f'event mine(x: {type} FROM fieldKey) FORMAT influx(measurement: "myMeasurement").'
        return [(row[0], row[2]) for row in rows(tmp_path, declaration, ELEMENTS, "a.lp")[0]]

    at = 1_556_813_561_098_000
    assert column("string") == [(at, "fieldValue"), (at, 'Launch \\ "this, here = there" 🚀')]
    assert column("float") == [(at, 12485903.0), (at, 1.0), (at, 1.0), (at, -1.234456e78)]
    assert column("int") == [(at, 12485903), (at, 1), (at, 1)]
    assert column("bool") == [(at, True), (at, True), (at, True)]


def test_influx_special_characters(tmp_path: Path) -> None:
    text = (
        r"my\ Measurement fieldKey=1 1000" + "\n"
        r"my\ Measurement,tag\ Key1=tag\ Value1,tag\,Key2=a\=b\,c\d fieldKey=100 2000" + "\n"
        r'my\ Measurement field\ key="a\b" 3000' + "\n"
    )
    declaration = (
        'event mine(x: float? FROM fieldKey, one: string? FROM "tag Key1", two: string? FROM "tag,Key2",'
        ' y: string? FROM "field key", m: string FROM measurement) FORMAT influx(measurement: "my Measurement").'
    )
    found, dead = rows(tmp_path, declaration, text, "a.lp")
    assert not dead
    assert [row[2:] for row in found] == [
        (1.0, None, None, None, "my Measurement"),
        (100.0, "tag Value1", "a=b,c\\d", None, "my Measurement"),
        (None, None, None, "a\\b", "my Measurement"),
    ]


def test_influx_the_measurement_chooses_the_event(tmp_path: Path) -> None:
    known = schemas(
        "event cpu(host: string, usage: float) FORMAT influx.",
        'event memory(host: string, used: int, n: int? FROM "tags.n") FORMAT influx(measurement: "mem").',
    )
    (tmp_path / "all.lp").write_text(
        "cpu,host=a usage=1 1000\nmem,host=b,n=7 used=5i,n=2i 2000\ndisk,host=a free=1 3000\nmem,host=c used=6 4000\n"
    )
    tables, dead = everything(list(read([str(tmp_path / "all.lp")], known)))
    assert tables["cpu"].rows() == [(1, 1, 0, "a", 1.0)]
    assert tables["memory"].rows() == [(2, 2, 1, "b", 5, 7), (4, 4, 3, "c", 6, None)]
    ((line, reason),) = [(one.line, one.reason) for one in dead]
    assert line == 3 and reason.startswith("no event of the program is called `disk`; add `FORMAT influx(measurement: ")
    tables, dead = everything(list(read([f"cpu={tmp_path / 'all.lp'}"], known)))
    assert tables["cpu"]["host"].to_list() == ["a", "a"] and [one.line for one in dead] == [2, 4]
    assert dead[0].reason == "the measurement is `mem`, but the input is bound to cpu"
    with pytest.raises(CepError, match="`a` and `b` both have the measurement `cpu`"):
        both = schemas(*(f'event {name}(x: int) FORMAT influx(measurement: "cpu").' for name in "ab"))
        list(read([str(tmp_path / "all.lp")], both))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "home,room=a temp=1",
            "the line has no timestamp, and the time of arrival is not used: if a field holds the time, name it with",
        ),
        ("home,room=a", "bad line protocol at character 12: no field"),
        ("home temp=1,", "bad line protocol at character 13: no field `key=value`"),
        ("home,room= temp=1 1", "bad line protocol at character 11: the tag `room` has no value"),
        ("home,room=a=b temp=1 1", "bad line protocol at character 11: the tag `room` has no value, or its value has"),
        ("home,room temp=1 1", "bad line protocol at character 6: no tag `key=value`"),
        ("home temp=x 1", "bad line protocol at character 11: the field `temp` has no value that can be read, `x`"),
        ("home temp=1ii 1", "bad line protocol at character 11: the field `temp`"),
        ("home temp=-1u 1", "bad line protocol at character 11: the field `temp`"),
        ("home temp= 1", "bad line protocol at character 11: the field `temp` has no value"),
        ('home temp="a 1', "bad line protocol at character 11: the quote of the field `temp` is not closed"),
        ('home temp="a"b 1', "bad line protocol at character 14: something follows the closing quote"),
        ("home temp=1 1.5", "bad line protocol at character 13: `1.5` is not a timestamp"),
        ("home temp=1,temp=2 1", "the key `temp` appears twice"),
        ("home,room=a,room=b temp=1 1", "the key `room` appears twice"),
        ("home,temp=2 temp=1 1", "`temp` has several meanings in this line: FROM"),
        ('home,room=a temp="warm" 1', "temp: expected float, found `warm`"),
        ("home temp=true 1", "temp: expected float, found a boolean"),
        (",room=a temp=1 1", "bad line protocol at character 1: a line begins with the name of a measurement"),
        ("home temp=1 99999999999999999999999", "time: "),
    ],
)
def test_influx_what_is_wrong(tmp_path: Path, line: str, reason: str) -> None:
    good = "home,room=a temp=1 1000"
    text = f"{good}\n# x\n{line}\n\n{good}\n"
    found, dead = rows(tmp_path, "event home(room: string?, temp: float) FORMAT influx.", text, "a.lp")
    assert len(found) == 2
    ((number, why),) = dead
    assert number == 3 and why.startswith(reason)


words = st.text("ab ,=\\\"'é#t1", min_size=1, max_size=4)


def _escaped(text: str, marks: str) -> str:
    return "".join("\\" + c if c in marks else c for c in text)


fields = st.one_of(
    st.text('a \\",=é', max_size=4).map(lambda text: '"' + _escaped(text, '"\\') + '"'),
    st.integers(-(2**40), 2**40).map(lambda n: f"{n}i"),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["t", "TRUE", "False", "F", "1.", ".5", "+2", "1e3", "1e", "tRue", "7u", "-7u", "0x1", "", "NaN"]),
)
lines = st.one_of(
    st.builds(
        lambda tags, values, time: (
            "m"
            + "".join(f",{key}={_escaped(value, ',= ')}" for key, value in tags)
            + " "
            + ",".join(f"{key}={value}" for key, value in values)
            + time
        ),
        st.lists(st.tuples(st.sampled_from(["tag", "both", r"x\ y", "measurement"]), words), max_size=3),
        st.lists(st.tuples(st.sampled_from(["i", "f", "s", "b", "both", "z"]), fields), min_size=1, max_size=4),
        st.sampled_from(["", " 1000", " -5", "  7000 ", " 1x", " 1500"]),
    ),
    st.text('m,=" \\1ai\t', max_size=12),
)
MIXED = schemas(
    "event m(tag: string?, i: int?, f: float?, s: string?, b: bool?, both: string?, part: string? FROM tags.both,"
    ' named: string? FROM "x y", which: string FROM measurement) FORMAT influx.'
)


@examples(150)
@given(st.lists(lines, max_size=8))
def test_influx_the_fast_reader_agrees_with_that_of_single_lines(texts: list[str]) -> None:
    data = "\n".join(texts).encode()
    known, wanted, wrong = timed(MIXED["m"]), [], []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip(b" \t\r") or line.lstrip(b" \t").startswith(b"#"):
            continue
        try:
            point = read_point(line)
            if point.measurement != "m":
                raise Unreadable("type", "")
            found = record(point, known, None)
        except Unreadable as reason:
            wrong.append((number, reason.code))
        else:
            wanted.append(Record("m", found.start, found.end, found.values))
    tables, dead, block = PointReader(MIXED, None, False).read("x", data, 0, 1, 0)
    rows = tables["m"].drop("@order").rows() if "m" in tables else []
    assert rows == [(one.start, one.end, *one.values) for one in wanted]
    assert [(one.line, one.code) for one in dead] == wrong
    assert block.count == len(wanted) + len(wrong)


def test_influx_messages_hold_many_lines() -> None:
    known = schemas("event cpu(host: string, usage: float, site: string FROM topic[0]) FORMAT influx.")
    (one,) = inputs(["mqtt://h/+/telegraf"], known)
    assert one.format == "influx"
    payloads = [b"cpu,host=a usage=1 1000\ncpu,host=b usage=2 1000\n", b"", b"cpu host=1\n# x\ncpu,host=c usage=3 1000"]
    topics = ["x/telegraf", "y/telegraf", "z/telegraf"]
    batch = Inbox(one, known).batch(Messages(topics, [1, 2, 3], payloads, topics=topics), 10)
    assert batch.tables["cpu"].select("host", "site").rows() == [("a", "x"), ("b", "x"), ("c", "z")]
    assert [(dead.line, dead.text) for dead in batch.dead] == [(3, "cpu host=1")]
    assert [batch.origin("cpu", row)[:2] for row in range(3)] == [(topics[0], 1), (topics[0], 1), (topics[2], 3)]
