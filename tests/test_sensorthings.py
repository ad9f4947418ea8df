"""SensorThings: single observations, pages, data arrays, and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cep.connectors.brokers.messages import Inbox, Messages
from cep.connectors.inputs import inputs
from cep.connectors.records.times import of_iso
from tests.sensor_packs import SECOND, rows, schemas

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
        "start of phenomenonTime: `x` is not an ISO 8601 time",
        "an observation is a JSON object, but this is a list",
    ]
    page = '{"value": [{"components": ["id"], "dataArray": 7}]}'
    _, dead = rows(tmp_path, "event reading(result: float) FORMAT sensorthings.", page)
    assert dead == [(1, "`dataArray` has to be a list, but it is a number")]


@pytest.mark.parametrize(
    ("observation", "times", "reason"),
    [
        ('{"result": 1, "resultTime": "2010-12-23T10:20:00Z"}', "", "no time: `phenomenonTime` is missing; `TIME resu"),
        ('{"result": 1, "phenomenonTime": 5}', "", "phenomenonTime: a number is not a time"),
        (
            '{"result": 1, "phenomenonTime": "2010-12-23T10:20:00Z/2010"}',
            "",
            "end of phenomenonTime: `2010` is a form of ISO 8601 that is not supported, a year",
        ),
        ('{"result": 1, "phenomenonTime": "2010/2011"}', " TIME phenomenonTime", "phenomenonTime is an interval, but"),
        ('{"result": "x", "phenomenonTime": "2010-12-23"}', "", "result: expected float, found a string"),
        ('{"result": 1, "result": 2, "phenomenonTime": "2010-12-23"}', "", "the key `result` appears twice"),
        ("5", "", "an observation is a JSON object, but this is a number"),
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
    known = schemas("event reading(result: float, stream: string FROM topic[1]) FORMAT sensorthings.")
    (one,) = inputs(["mqtt://h/v1.1/+/Observations"], known)
    assert one.format == "sensorthings"
    page = b'{"value": [' + OBSERVATION.encode() + b", " + OBSERVATION.encode() + b"]}"
    payloads = [OBSERVATION.encode(), b"", b"{", page]
    topics = [f"v1.1/Datastreams({n})/Observations" for n in range(4)]
    batch = Inbox(one, known).batch(Messages(topics, [5, 6, 7, 8], payloads, topics=topics), 0)
    assert batch.tables["reading"]["stream"].to_list() == ["Datastreams(0)", "Datastreams(3)", "Datastreams(3)"]
    assert [(dead.line, dead.code, dead.file) for dead in batch.dead] == [(7, "json", topics[2])]
    assert batch.origin("reading", 2)[:2] == (topics[3], 8)
