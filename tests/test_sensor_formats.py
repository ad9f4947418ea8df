"""SenML, SensorThings and InfluxDB's line protocol: the examples of their standards, random records, what is wrong."""

from __future__ import annotations

import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.engine import Engine
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program
from connectors.addresses import address
from connectors.batch import Batch, DeadLetter
from connectors.files import read, replay
from connectors.influx import PointReader
from connectors.inputs import Input, inputs
from connectors.messages import Inbox, Messages
from connectors.points import read_point, record, timed
from connectors.records import Record
from connectors.times import of_iso
from connectors.values import Unreadable
from tests.long import examples

SECOND = 1_000_000


def schemas(*declarations: str) -> dict[str, Schema]:
    names = [text.split("(")[0].removeprefix("event ") for text in declarations]
    firsts = [text.split("(")[1].split(":")[0] for text in declarations]
    rules = [f"found{i}(X) <- {name}({first}: X)." for i, (name, first) in enumerate(zip(names, firsts))]
    engine = Engine.from_text("\n".join([*declarations, *rules]))
    return {name: engine.plan.schemas[name] for name in names}


def everything(batches: list[Batch]) -> tuple[dict[str, pl.DataFrame], list[DeadLetter]]:
    found: dict[str, list[pl.DataFrame]] = {}
    for batch in batches:
        for name, table in batch.tables.items():
            found.setdefault(name, []).append(table)
    return {name: pl.concat(parts) for name, parts in found.items()}, [one for batch in batches for one in batch.dead]


def rows(
    folder: Path, declaration: str, text: str, name: str = "data.json", format: str | None = None
) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
    """(start, end and values of each event; line and reason of each dead letter) of a file of this text."""
    (folder / name).write_text(text)
    known = schemas(declaration)
    tables, dead = everything(list(read([str(folder / name)], known, format=format)))
    (found,) = (list(tables.values()) or [pl.DataFrame({"@order": []})])[:1]
    return found.drop("@order").rows(), [(one.line, one.reason) for one in dead]


# --- SenML: RFC 8428, 5.1 ---

SENML = "event temp(n: string, u: string?, v: float?, vs: string?, vb: bool?, vd: string?) FORMAT senml."
NOW = SENML.replace("senml.", 'senml(now: "2010-06-08T18:01:16Z").')
AT = of_iso("2010-06-08T18:01:16Z")

HUMIDITY = """[
 {"bn":"urn:dev:ow:10e2073a01080063","bt":1.320067464e+09,
  "bu":"%RH","v":20},
 {"u":"lon","v":24.30621},
 {"u":"lat","v":60.07965},
 {"t":60,"v":20.3},
 {"u":"lon","t":60,"v":24.30622},
 {"u":"%EL","t":150,"v":98},
 {"t":180,"v":21.2}
]"""
RESOLVED = """[
 {"n":"urn:dev:ow:10e2073a01080063","u":"%RH","t":1.320067464e+09,"v":20},
 {"n":"urn:dev:ow:10e2073a01080063","u":"lon","t":1.320067464e+09,"v":24.30621},
 {"n":"urn:dev:ow:10e2073a01080063","u":"lat","t":1.320067464e+09,"v":60.07965},
 {"n":"urn:dev:ow:10e2073a01080063","u":"%RH","t":1.320067524e+09,"v":20.3},
 {"n":"urn:dev:ow:10e2073a01080063","u":"lon","t":1.320067524e+09,"v":24.30622},
 {"n":"urn:dev:ow:10e2073a01080063","u":"%EL","t":1.320067614e+09,"v":98},
 {"n":"urn:dev:ow:10e2073a01080063","u":"%RH","t":1.320067644e+09,"v":21.2}
]"""


def test_senml_single_datapoint(tmp_path: Path) -> None:
    pack = '[{"n":"urn:dev:ow:10e2073a01080063","u":"Cel","v":23.1}]'
    found, dead = rows(tmp_path, NOW, pack)
    assert found == [(AT, AT, "urn:dev:ow:10e2073a01080063", "Cel", 23.1, None, None, None)] and not dead
    found, ((line, reason),) = rows(tmp_path, SENML, pack)
    assert not found and line == 1
    assert reason.startswith("the time is now, and no clock is read: a base time `bt` in the pack says when that is")


def test_senml_multiple_datapoints(tmp_path: Path) -> None:
    pack = """[
     {"bn":"urn:dev:ow:10e2073a0108006:","bt":1.276020076001e+09,
      "bu":"A","bver":5,
      "n":"voltage","u":"V","v":120.1},
     {"n":"current","t":-5,"v":1.2},
     {"n":"current","t":-4,"v":1.3},
     {"n":"current","v":1.7}
    ]"""
    found, dead = rows(tmp_path, SENML, pack)
    at = AT + 1000
    assert not dead
    assert [(start, n.rpartition(":")[2], u, v) for start, _, n, u, v, *_ in found] == [
        (at, "voltage", "V", 120.1),
        (at - 5 * SECOND, "current", "A", 1.2),
        (at - 4 * SECOND, "current", "A", 1.3),
        (at, "current", "A", 1.7),
    ]
    pack = '[{"bn":"urn:dev:ow:1:","n":"voltage","u":"V","v":120.1},{"n":"current","u":"A","t":-5,"v":1.2}]'
    found, _ = rows(tmp_path, NOW, pack)
    assert [row[0] for row in found] == [AT, AT - 5 * SECOND]


def test_senml_a_pack_means_what_its_resolved_form_means(tmp_path: Path) -> None:
    packed, dead = rows(tmp_path, SENML, HUMIDITY)
    assert packed == rows(tmp_path, SENML, RESOLVED)[0] and len(packed) == 7 and not dead
    assert packed == rows(tmp_path, SENML.replace(" FORMAT senml", ""), HUMIDITY, "data.senml")[0]
    assert packed == rows(tmp_path, SENML.replace(" FORMAT senml", " TIME t"), HUMIDITY, "x", "senml")[0]


def test_senml_values_of_several_types_and_resources(tmp_path: Path) -> None:
    pack = """[
     {"bn":"urn:dev:ow:10e2073a01080063:","n":"temp","u":"Cel","v":23.1},
     {"n":"label","vs":"Machine Room"},
     {"n":"open","vb":false},
     {"n":"nfc-reader","vd":"aGkgCg"}
    ]"""
    found, dead = rows(tmp_path, NOW, pack)
    assert not dead
    assert [row[4:] for row in found] == [
        (23.1, None, None, None),
        (None, "Machine Room", None, None),
        (None, None, False, None),
        (None, None, None, "aGkgCg"),
    ]
    pack = """[
     {"bn":"2001:db8::2/","bt":1.320078429e+09,"n":"temperature","u":"Cel","v":25.2},
     {"n":"humidity","u":"%RH","v":30},
     {"bn":"2001:db8::1/","n":"temperature","u":"Cel","v":12.3},
     {"n":"humidity","u":"%RH","v":67}
    ]"""
    found, _ = rows(tmp_path, SENML, pack)
    assert [row[2] for row in found] == [
        f"2001:db8::{n}/{what}" for n in (2, 1) for what in ("temperature", "humidity")
    ]
    assert {row[0] for row in found} == {1_320_078_429 * SECOND}


def test_senml_a_record_may_only_say_what_holds_for_others(tmp_path: Path) -> None:
    pack = """[
     {"bn":"urn:dev:ow:10e2073a01080063:"},
     {"n":"temp","u":"Cel","v":23.1},
     {"n":"heat","u":"/","v":1},
     {"n":"fan","u":"/","v":0}
    ]"""
    found, dead = rows(tmp_path, NOW, pack)
    assert [(row[2].rpartition(":")[2], row[4]) for row in found] == [("temp", 23.1), ("heat", 1.0), ("fan", 0.0)]
    assert not dead


def test_senml_long_names_sums_and_base_values(tmp_path: Path) -> None:
    declaration = "event meter(name: string, value: float, total: float? FROM sum, unit: string?) FORMAT senml."
    pack = '[{"bn":"m/","bt":1320078429,"bv":0.1,"bs":100,"bu":"J","n":"1","v":0.2,"s":5},{"n":"2","t":0.5,"s":6}]'
    found, dead = rows(tmp_path, declaration, pack)
    at = 1_320_078_429 * SECOND
    assert not dead
    assert found == [(at, at, "m/1", 0.3, 105.0, "J"), (at + 500_000, at + 500_000, "m/2", 0.1, 106.0, "J")]
    pack = '[{"n":"a","t":1320078429,"vs":"x"},{"n":"a","t":1320078429,"vs":"y"}]'
    found, _ = rows(tmp_path, "event word(name: string, value: string) FORMAT senml.", pack)
    assert [row[2:] for row in found] == [("a", "x"), ("a", "y")]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ('{"n":"a","v":"1"}', "`v` is a number, this is a string"),
        ('{"n":"a","vb":1}', "`vb` is a boolean, this is a number"),
        ('{"n":"a","v":1,"vs":"x"}', "a record has one value, this has `v` and `vs`"),
        ('{"n":"a"}', "the record has no value: one of `v`, `vs`, `vb`, `vd`, or the sum `s`"),
        ('{"v":1}', "the record has no name: `n`, or `bn` in a record before it"),
        ('{"n":"a b","v":1}', "`a b` is no name: letters, digits and `-:./_`, the first a letter or a digit"),
        ("[1]", "a record of SenML is a JSON object, this is a list"),
        ('{"n":"a","v":1,"t":1e99}', "`t`: `1e99` is too large to be added"),
        ('{"n":"a","v":1e999}', "v: `1e999` is beyond the floats"),
    ],
)
def test_senml_a_record_that_is_wrong_does_not_harm_others(tmp_path: Path, record: str, reason: str) -> None:
    pack = f'[\n{{"bt":1320078429}},\n{{"n":"x","v":1}},\n{record},\n{{"n":"y","v":2}}\n]'
    found, dead = rows(tmp_path, SENML, pack)
    assert [row[2] for row in found] == ["x", "y"]
    assert dead == [(4, reason)]


@pytest.mark.parametrize(
    ("pack", "reason"),
    [
        ('[{"bn":1,"n":"a","v":1}]', "the pack cannot be used: `bn` is a string, this is a number"),
        ('[{"bt":"x","n":"a","v":1}]', "the pack cannot be used: `bt` is a number, this is a string"),
        ('[{"bver":11,"n":"a","v":1}]', "the pack cannot be used: it is of version 11 of SenML, and 10 is the latest"),
        ('[{"bver":0,"n":"a","v":1}]', "the pack cannot be used: the version `bver` is no positive integer"),
        ('[{"n":"a","v":1},{"n":"b","v":1,"x_":1}]', "the pack cannot be used: the field `x_` has to be understood"),
        ('[{"n":"a","n":"b","v":1}]', "the key `n` is there twice"),
        ('[{"n":"a","v":1}', "bad JSON at character 17: expecting ',' or ']'"),
        ('[{"n":"a","v":NaN}]', "NaN is no JSON value"),
        ('[{"n":"a","v":1}] x', "bad JSON at character 19: extra data"),
        ("7", "a document is a list of records, or an object, this is a number"),
    ],
)
def test_senml_a_pack_that_is_wrong_does_not_harm_others(tmp_path: Path, pack: str, reason: str) -> None:
    good = '[{"n":"good","t":1320078429,"v":1}]'
    found, dead = rows(tmp_path, SENML, f"{good}\n\n{pack}\n{good}\n")
    assert len(found) == 2
    ((line, why),) = dead
    assert line == 3 and why.startswith(reason)


def test_senml_a_dead_letter_holds_the_record_alone(tmp_path: Path) -> None:
    (tmp_path / "a.senml").write_text('[\n {"n":"a","vs":"äöü€𝄞","t":1320078429},\n {"n":"é","v":1}\n]\n')
    batches = list(read([str(tmp_path / "a.senml")], schemas(SENML)))
    ((dead,), (batch,)) = everything(batches)[1], batches
    assert (dead.line, dead.text) == (3, '{"n":"é","v":1}')
    assert batch.origin("temp", 0)[1:] == (2, '{"n":"a","vs":"äöü€𝄞","t":1320078429}')
    (replayed,) = replay([str(tmp_path / "a.senml")], schemas(SENML))
    assert replayed.origin("temp", 0)[1:] == (2, '{"n":"a","vs":"äöü€𝄞","t":1320078429}')


def test_senml_text_that_is_no_utf8(tmp_path: Path) -> None:
    good = b'[{"n":"a","vs":"\xc3\xa4","t":1320078429}]\n'
    (tmp_path / "a.senml").write_bytes(good + b'[{"n":"a","vs":"\xe4","t":1320078429}]\n' + good)
    tables, dead = everything(list(read([str(tmp_path / "a.senml")], schemas(SENML))))
    assert tables["temp"].height == 2
    assert [(one.line, one.code) for one in dead] == [(2, "utf-8")]


def test_senml_packs_one_after_the_other_and_in_small_pieces(tmp_path: Path) -> None:
    lines = "\n".join(f'[{{"bn":"d{i}","bt":{1_320_000_000 + i},"v":{i}}},{{"t":1,"v":0}}]' for i in range(200))
    (tmp_path / "a.senml").write_text(lines + "\n" + HUMIDITY.replace("\n", " "))
    (tmp_path / "b.senml").write_text(HUMIDITY + "\n" + HUMIDITY)
    for name, count in (("a.senml", 407), ("b.senml", 14)):
        for chunk in (1 << 24, 300):
            tables, dead = everything(list(read([str(tmp_path / name)], schemas(SENML), chunk=chunk)))
            assert tables["temp"].height == count and not dead
            assert tables["temp"]["@order"].to_list() == list(range(count))


def test_senml_an_event_asks_for_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(CepError, match="temp: a record of SenML has no `heat`") as refused:
        list(read([str(tmp_path / "a.json")], schemas("event temp(n: string, heat: float) FORMAT senml.")))
    assert refused.value.hint is not None and "value: float FROM v" in refused.value.hint
    engine = Engine.from_text("f(X) <- temp(X).")
    with pytest.raises(CepError, match="temp is not declared, so nothing says what its values are in senml"):
        list(read([str(tmp_path / "a.json")], {"temp": engine.plan.schemas["temp"]}, format="senml"))


numbers = st.one_of(
    st.integers(-(10**9), 10**9), st.decimals(-1000, 1000, allow_nan=False, allow_infinity=False, places=3)
)


@examples(60)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"n": st.sampled_from(["", "a", "b/c"])},
            optional={
                "bn": st.sampled_from(["dev:", "x"]),
                "bt": st.integers(10**9, 2 * 10**9),
                "bu": st.sampled_from(["Cel", "V"]),
                "bv": numbers,
                "u": st.sampled_from(["A", "%RH"]),
                "t": numbers.map(lambda n: n if abs(n) < 10**6 else 1),
                "v": numbers,
                "vs": st.text(max_size=3),
            },
        ),
        max_size=6,
    )
)
def test_senml_random_packs_against_a_plain_reading(pack: list[dict[str, Any]]) -> None:
    base: dict[str, Any] = {}
    wanted, wrong = [], 0
    for one in pack:
        base |= {key: value for key, value in one.items() if key.startswith("b")}
        own = {key: value for key, value in one.items() if not key.startswith("b")}
        name, time = base.get("bn", "") + own["n"], base.get("bt", 0) + own.get("t", 0)
        values = [own[key] for key in ("v", "vs") if key in own] or ([0] if "bv" in base else [])
        if len(values) != 1 or not name or time < 2**28:
            wrong += 1
            continue
        value = values[0] if isinstance(values[0], str) else None
        number = None if value is not None else float(Decimal(values[0]) + Decimal(base.get("bv", 0)))
        wanted.append((int(time * SECOND), name, own.get("u", base.get("bu")), number, value))
    payload = json.dumps([{k: _json(v) for k, v in one.items()} for one in pack]).encode()
    payload = re.sub(rb'"@([^"]*)@"', rb"\1", payload)
    inbox = Inbox(Input("kafka://h/t", "senml", "temp", True), schemas(SENML))
    batch = inbox.batch(Messages(["t"], [7], [payload]), 0)
    table = batch.tables.get("temp")
    found = [] if table is None else table.select("start", "n", "u", "v", "vs").rows()
    assert found == wanted and len(batch.dead) == wrong
    assert all(one.line == 7 for one in batch.dead)


def _json(value: Any) -> Any:
    return f"@{value}@" if isinstance(value, Decimal) else value


# --- SensorThings ---

OBSERVATION = """{
  "@iot.id": 1,
  "@iot.selfLink": "http://example.org/v1.0/Observations(1)",
  "FeatureOfInterest@iot.navigationLink": "Observations(1)/FeatureOfInterest",
  "Datastream@iot.navigationLink":"Observations(1)/Datastream",
  "phenomenonTime": "2014-12-31T11:59:59.00+08:00",
  "resultTime": "2014-12-31T11:59:59.00+08:00",
  "result": 70.4
}"""
ONE = of_iso("2014-12-31T03:59:59Z")


def test_sensorthings_one_observation(tmp_path: Path) -> None:
    declaration = "event reading(result: float, id: int, datastream: int?) FORMAT sensorthings."
    assert rows(tmp_path, declaration, OBSERVATION) == ([(ONE, ONE, 70.4, 1, None)], [])
    named = 'event reading(level: float FROM result, id: string FROM "@iot.id") TIME resultTime FORMAT sensorthings.'
    found, dead = rows(tmp_path, named, OBSERVATION)
    assert not found and "expected string, found a number" in dead[0][1]
    named = 'event reading(level: float FROM result, id: int FROM "@iot.id") TIME resultTime FORMAT sensorthings.'
    assert rows(tmp_path, named, OBSERVATION) == ([(ONE, ONE, 70.4, 1)], [])


def test_sensorthings_pages_intervals_and_what_is_expanded(tmp_path: Path) -> None:
    page = """{
      "@iot.count": 84,
      "value": [
        {"@iot.id": 1, "phenomenonTime": "2010-12-23T10:20:00.000Z/2010-12-23T11:20:00.000Z", "resultTime": null,
         "result": 5, "Datastream": {"@iot.id": 7, "name": "oven \\u2103", "phenomenonTime": "a/b",
         "ObservedProperty": {"name": "DewPoint Temperature"}}, "FeatureOfInterest": {"@iot.id": "x"}},
        {"@iot.id": 2, "phenomenonTime": "2010-12-23T10:21:00.000Z", "result": 65,
         "Datastream@iot.navigationLink": "http://example.org/v1.0/Datastreams(8)", "parameters": {"value": [1]}}
      ],
      "@iot.nextLink": "http://example.org/v1.0/Observations?$skip=2"
    }"""
    declaration = (
        "event reading(result: float, datastream: string, sensor: string? FROM Datastream.name,"
        " what: string? FROM Datastream.ObservedProperty.name, place: string? FROM feature,"
        ' same: int? FROM "Datastream.@iot.id") FORMAT sensorthings.'
    )
    first, second = of_iso("2010-12-23T10:20:00Z"), of_iso("2010-12-23T10:21:00Z")
    found, dead = rows(tmp_path, declaration, page)
    assert not dead
    assert found == [
        (first, first + 3600 * SECOND, 5.0, "7", "oven ℃", "DewPoint Temperature", "x", 7),
        (second, second, 65.0, "8", None, None, None, None),
    ]
    assert rows(tmp_path, declaration, json.dumps(json.loads(page)))[0] == found  # on one line
    assert rows(tmp_path, declaration, json.dumps(json.loads(page)["value"]))[0] == found  # a bare list


def test_sensorthings_data_arrays(tmp_path: Path) -> None:
    array = """[
      {"Datastream": {"@iot.id": 1}, "components": ["phenomenonTime", "result", "FeatureOfInterest/id"],
       "dataArray@iot.count": 2,
       "dataArray": [["2010-12-23T10:20:00-0700", 20.5, 1], ["2010-12-23T10:21:00-0700", 30, 1], ["x", 1, 1], [1]]},
      {"Datastream": {"@iot.id": 2}, "components": ["phenomenonTime", "result"],
       "dataArray": [["2010-12-23T10:20:00-0700", 65]]}
    ]"""
    found, dead = rows(tmp_path, "event reading(datastream: int, result: float) FORMAT sensorthings.", array)
    at = of_iso("2010-12-23T17:20:00Z")
    assert found == [(at, at, 1, 20.5), (at + 60 * SECOND,) * 2 + (1, 30.0), (at, at, 2, 65.0)]
    assert [reason for _, reason in dead] == [
        "start of phenomenonTime: `x` is no ISO 8601 time",
        "an observation is a JSON object, this is a list",
    ]
    page = '{"value": [{"components": ["id"], "dataArray": 7}]}'
    _, dead = rows(tmp_path, "event reading(result: float) FORMAT sensorthings.", page)
    assert dead == [(1, "`dataArray` is a list, this is a number")]


@pytest.mark.parametrize(
    ("observation", "times", "reason"),
    [
        ('{"result": 1, "resultTime": "2010-12-23T10:20:00Z"}', "", "no time: `phenomenonTime` is missing; `TIME resu"),
        ('{"result": 1, "phenomenonTime": 5}', "", "phenomenonTime: a number is no time"),
        ('{"result": 1, "phenomenonTime": "2010-12-23T10:20:00Z/2010"}', "", "end of phenomenonTime: `2010` is no ISO"),
        ('{"result": 1, "phenomenonTime": "2010/2011"}', " TIME phenomenonTime", "phenomenonTime is an interval, and"),
        ('{"result": "x", "phenomenonTime": "2010-12-23"}', "", "result: expected float, found a string"),
        ('{"result": 1, "result": 2, "phenomenonTime": "2010-12-23"}', "", "the key `result` is there twice"),
        ("5", "", "an observation is a JSON object, this is a number"),
    ],
)
def test_sensorthings_what_is_wrong(tmp_path: Path, observation: str, times: str, reason: str) -> None:
    good = '{"result": 1, "phenomenonTime": "2010-12-23T10:20:00Z"}'
    page = f'{{"value": [\n{good},\n{observation}\n,{good}\n]}}'
    found, dead = rows(tmp_path, f"event reading(result: float){times} FORMAT sensorthings.", page)
    assert len(found) == 2
    ((line, why),) = dead
    assert line == 3 and why.startswith(reason)


def test_sensorthings_messages_have_their_topic() -> None:
    known = schemas("event reading(result: float, stream: string FROM topic[2]) FORMAT sensorthings.")
    (one,) = inputs(["mqtt://h/v1.1/+/Observations"], known)
    assert one.format == "sensorthings"
    page = b'{"value": [' + OBSERVATION.encode() + b", " + OBSERVATION.encode() + b"]}"
    payloads = [OBSERVATION.encode(), b"", b"{", page]
    topics = [f"v1.1/Datastreams({n})/Observations" for n in range(4)]
    batch = Inbox(one, known).batch(Messages(topics, [5, 6, 7, 8], payloads, topics=topics), 0)
    assert batch.tables["reading"]["stream"].to_list() == ["Datastreams(0)", "Datastreams(3)", "Datastreams(3)"]
    assert [(dead.line, dead.code, dead.file) for dead in batch.dead] == [(7, "json", topics[2])]
    assert batch.origin("reading", 2)[:2] == (topics[3], 8)


# --- InfluxDB ---

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
    assert line == 3 and reason.startswith("no event of the program is called `disk`; `FORMAT influx(measurement: ")
    tables, dead = everything(list(read([f"cpu={tmp_path / 'all.lp'}"], known)))
    assert tables["cpu"]["host"].to_list() == ["a", "a"] and [one.line for one in dead] == [2, 4]
    assert dead[0].reason == "the measurement is `mem`, the input was bound to cpu"
    with pytest.raises(CepError, match="`a` and `b` are both of the measurement `cpu`"):
        both = schemas(*(f'event {name}(x: int) FORMAT influx(measurement: "cpu").' for name in "ab"))
        list(read([str(tmp_path / "all.lp")], both))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("home,room=a temp=1", "the line has no timestamp, and no clock is read: a time among its fields is named by"),
        ("home,room=a", "bad line protocol at character 12: no field"),
        ("home temp=1,", "bad line protocol at character 13: no field `key=value`"),
        ("home,room= temp=1 1", "bad line protocol at character 11: the tag `room` has no value"),
        ("home,room=a=b temp=1 1", "bad line protocol at character 11: the tag `room` has no value, or one in which"),
        ("home,room temp=1 1", "bad line protocol at character 6: no tag `key=value`"),
        ("home temp=x 1", "bad line protocol at character 11: the field `temp` has no value that can be read, `x`"),
        ("home temp=1ii 1", "bad line protocol at character 11: the field `temp`"),
        ("home temp=-1u 1", "bad line protocol at character 11: the field `temp`"),
        ("home temp= 1", "bad line protocol at character 11: the field `temp` has no value"),
        ('home temp="a 1', "bad line protocol at character 11: the quote of the field `temp` is not closed"),
        ('home temp="a"b 1', "bad line protocol at character 14: something follows the closing quote"),
        ("home temp=1 1.5", "bad line protocol at character 13: `1.5` is no timestamp"),
        ("home temp=1,temp=2 1", "the key `temp` is there twice"),
        ("home,room=a,room=b temp=1 1", "the key `room` is there twice"),
        ("home,temp=2 temp=1 1", "`temp` stands for several things in this line: FROM"),
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
    known = schemas("event cpu(host: string, usage: float, site: string FROM topic[1]) FORMAT influx.")
    (one,) = inputs(["mqtt://h/+/telegraf"], known)
    assert one.format == "influx"
    payloads = [b"cpu,host=a usage=1 1000\ncpu,host=b usage=2 1000\n", b"", b"cpu host=1\n# x\ncpu,host=c usage=3 1000"]
    topics = ["x/telegraf", "y/telegraf", "z/telegraf"]
    batch = Inbox(one, known).batch(Messages(topics, [1, 2, 3], payloads, topics=topics), 10)
    assert batch.tables["cpu"].select("host", "site").rows() == [("a", "x"), ("b", "x"), ("c", "z")]
    assert [(dead.line, dead.text) for dead in batch.dead] == [(3, "cpu host=1")]
    assert [batch.origin("cpu", row)[:2] for row in range(3)] == [(topics[0], 1), (topics[0], 1), (topics[2], 3)]


# --- which format an input has ---


def test_the_format_is_that_of_the_suffix_the_declaration_or_the_option(tmp_path: Path) -> None:
    for name in ("a.json", "a.lp", "a.csv", "a.txt", "a.senml", "a.line.gz"):
        (tmp_path / name).write_text("")
    kinds = {format: schemas(f"event e(n: string) FORMAT {format}.") for format in ("senml", "sensorthings", "influx")}
    plain = schemas("event e(n: string).")

    def formats(known: dict[str, Schema], *names: str) -> list[str]:
        return [one.format for one in inputs([str(tmp_path / name) for name in names], known)]

    assert formats(plain, "a.json", "a.lp", "a.csv", "a.senml", "a.line.gz") == [
        "jsonl",
        "influx",
        "csv",
        "senml",
        "influx",
    ]
    assert formats(kinds["senml"], "a.json", "a.csv", "a.txt") == ["senml", "csv", "senml"]
    assert formats(kinds["influx"], "a.json", "a.txt", "a.lp") == ["jsonl", "influx", "influx"]
    assert [inputs(["-"], known)[0].format for known in kinds.values()] == list(kinds)
    assert [inputs(["kafka://h/t"], known)[0].format for known in kinds.values()] == list(kinds)
    assert inputs(["tcp://h:1?format=influx"], plain)[0].format == "influx"
    assert inputs(["-"], plain, "sensorthings")[0].format == "sensorthings"
    with pytest.raises(CepError, match="`senmal` is no format") as refused:
        inputs(["-"], plain, "senmal")
    assert "sensorthings" in (refused.value.hint or "")
    assert address("tcp://h:1?format=influx").kind == "tcp"


def test_standard_input_line_by_line() -> None:
    known = schemas("event e(n: string, v: float) FORMAT senml.")
    text = b'[{"n":"a","t":1320078429,"v":1}]\n[{"n":"b","t":1320078429,"v":2}]\n'
    tables, dead = everything(list(read(["-"], known, stdin=io.BytesIO(text))))
    assert tables["e"]["n"].to_list() == ["a", "b"] and not dead


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("event e(n: string) FORMAT sensml.", "unknown format `sensml`"),
        ('event e(n: string) FORMAT influx(precision: "m").', "`m` is no precision"),
        ('event e(n: string) FORMAT influx(unit: "m").', "expected an option, found `unit`"),
        ('event e(n: string) FORMAT sensorthings(x: "m").', "sensorthings has no options"),
        ('event e(n: string) FORMAT senml(now: "today").', "`today` is no time"),
        ('event e(n: string) FORMAT influx(measurement: "").', "a measurement has a name"),
        ("event e(n: string) FORMAT influx FORMAT senml.", "a second format of the records"),
    ],
)
def test_a_format_is_declared_as_it_is(declaration: str, message: str) -> None:
    with pytest.raises(CepError) as refused:
        parse(declaration)
    assert refused.value.message.startswith(message)


def test_formats_are_printed_as_they_are_read() -> None:
    text = (
        "event a(n: string) FORMAT senml.\n"
        'event b(n: string) TIME t FORMAT senml(now: "2026-11-22T10:00:00Z").\n'
        "event c(result: float) FORMAT sensorthings.\n"
        'event d(x: int) FORMAT influx(measurement: "cpu", precision: "ms").'
    )
    printed = print_program(parse(text))
    assert print_program(parse(printed)) == printed
    assert printed.count("FORMAT senml") == 2 and "FORMAT sensorthings." in printed and '"cpu"' in printed
