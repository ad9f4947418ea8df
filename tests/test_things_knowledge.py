"""`cep knowledge fetch`: what a SensorThings service says of its Things and Datastreams is knowledge for WHERE."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.knowledge.things import things_to_rdf
from tests.things_server import ROOT, ThingsServer, things_server

PROGRAM = """
PREFIX sosa: <http://www.w3.org/ns/sosa/>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX dct: <http://purl.org/dc/terms/>
PREFIX schema: <https://schema.org/>
PREFIX thing: <urn:semcep:thing/>
PREFIX geo: <http://www.opengis.net/ont/geosparql#>
PREFIX wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#>
event level(level: float FROM result, stream: int FROM datastream).
high(Place, Property, Unit, Level, Km) <- level(Level, Stream) WHERE {
    ?d a sosa:ObservationCollection ; dct:identifier ?Stream ; schema:unitText ?Unit ;
       sosa:observedProperty ?p ; sosa:hasFeatureOfInterest ?thing .
    ?p rdfs:label ?Property . ?thing rdfs:label ?Place ; thing:limit ?Limit ; geo:hasGeometry ?g .
    ?g wgs84:lat ?Lat ; wgs84:long ?Long } , Level > Limit, Km = distance(Lat, Long, 52.0, 8.0) / 1000.
"""


def thing(id: int | str, name: str, limit: float, long: float) -> dict[str, Any]:
    place = {"type": "Point", "coordinates": [long, 52.0]}
    return {
        "@iot.id": id, "name": name, "description": "a \"gauge\"\n", "properties": {"limit": limit, "odd": [1]},
        "Locations": [{"@iot.id": id, "name": "there", "encodingType": "application/geo+json", "location": place}],
    }  # fmt: skip


def stream(id: int | str, of: int | str, definition: str = "http://example.org/level") -> dict[str, Any]:
    return {
        "@iot.id": id, "name": f"level {id}", "Thing": {"@iot.id": of},
        "unitOfMeasurement": {"name": "metre", "symbol": "m", "definition": "http://qudt.org/vocab/unit/M"},
        "Sensor": {"@iot.id": 3, "name": "float"},
        "ObservedProperty": {"@iot.id": 4, "name": "water level", "definition": definition},
    }  # fmt: skip


def fetched(place: str) -> Result:
    return CliRunner().invoke(app, ["knowledge", "fetch", place])


def test_rules_ask_for_names_places_units_and_properties(tmp_path: Path) -> None:
    served = ThingsServer()
    served.cap = 2
    served.entities = {
        "Things": [thing(n, f"gauge {n}", 3.0 + n, 8.0 + n) for n in (1, 2, 3)],
        "Datastreams": [stream(7, 1), stream(8, 2), stream(9, 3)],
    }
    for number, (datastream, result) in enumerate(((7, 4.5), (8, 4.5), (9, 7.5))):
        served.enter(number + 1, number, result, stream=datastream)
    rules, things = tmp_path / "levels.cep", tmp_path / "things.nt"
    rules.write_text(PROGRAM)
    with things_server(served):
        done = fetched(served.place)
        assert done.exit_code == 0, done.output
        things.write_text(done.stdout)
        words = ["run", str(rules), "--input", f"level={served.place}?until=now", "--knowledge", str(things)]
        run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    found = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert [(each["place"], each["property"], each["unit"], each["level"]) for each in found] == [
        ("gauge 1", "water level", "m", 4.5),
        ("gauge 3", "water level", "m", 7.5),
    ]
    assert [each["km"] for each in found] == [pytest.approx(68.7, abs=1), pytest.approx(206, abs=2)]
    assert {query.get("$expand") for query in served.asked} > {"Locations", "Thing($select=id),Sensor,ObservedProperty"}


def test_the_same_entities_are_the_same_text_in_any_order() -> None:
    entities = {"Things": [thing("it's", "a", 1, 2), thing(2, "b", 1, 2)], "Datastreams": [stream(7, "it's", "no iri")]}
    text = things_to_rdf("https://example.org/v1.1", entities)
    assert text == things_to_rdf("https://example.org/v1.1", {name: rows[::-1] for name, rows in entities.items()})
    assert "<https://example.org/v1.1/Things('it%27%27s')>" in text and "exactMatch" not in text
    assert '"POINT (2.0 52.0)"^^<http://www.opengis.net/ont/geosparql#wktLiteral>' in text
    assert "odd" not in text, "what is no single value is left out"


def test_each_result_of_a_multidatastream_is_described_as_a_datastream_is(tmp_path: Path) -> None:
    served = ThingsServer()
    several = {
        "@iot.id": 7, "name": "air", "Thing": {"@iot.id": 1}, "Sensor": {"@iot.id": 3, "name": "station"},
        "unitOfMeasurements": [{"name": "Celsius", "symbol": "°C"}, {"name": "percent", "symbol": "%"}],
        "ObservedProperties": [{"@iot.id": 5, "name": "temperature"}, {"@iot.id": 6, "name": "humidity"}],
    }  # fmt: skip
    served.entities = {
        "Things": [thing(1, "gauge 1", 3.0, 8.0)], "Datastreams": [stream(7, 1)], "MultiDatastreams": [several],
    }  # fmt: skip
    served.enter(1, 1, [31.5, 40], stream=None, multi=7)
    rules, things = tmp_path / "air.cep", tmp_path / "things.nt"
    rules.write_text("""
        PREFIX dct: <http://purl.org/dc/terms/>
        PREFIX schema: <https://schema.org/>
        event air(temp: float FROM result[0], humidity: float FROM result[1], stream: int FROM multidatastream).
        hot(Place, T, What, Unit) <- air(T, _, Stream) WHERE {
            ?m dct:identifier ?Stream ; dct:hasPart ?first .
            ?first schema:position 0 ; sosa:hasFeatureOfInterest/rdfs:label ?Place ; schema:unitText ?Unit ;
                   sosa:observedProperty/rdfs:label ?What }, T > 30.
    """)
    with things_server(served):
        things.write_text(fetched(served.place).stdout)
        words = ["run", str(rules), "-i", f"air={served.place}?until=now", "-k", str(things)]
        run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    (found,) = (json.loads(line) for line in run.stdout.splitlines())
    assert (found["place"], found["t"], found["what"], found["unit"]) == ("gauge 1", 31.5, "temperature", "°C")


def test_what_is_fetched_passes_the_check_of_stations(tmp_path: Path) -> None:
    """A Thing with a point and sensors is a station; one without a point, or far off the globe, is none, and no
    mistake."""
    rows = [thing(n, f"gauge {n}", 3.0, long) for n, long in ((1, 8.0), (2, 356_000.0), (3, 9.0))]
    rows[2]["Locations"] = []
    entities = {"Things": [*rows, thing(4, "idle", 1.0, 8.0)], "Datastreams": [stream(6 + n, n) for n in (1, 2, 3)]}
    things = tmp_path / "things.nt"
    things.write_text(things_to_rdf("https://example.org/v1.1", entities))
    done = CliRunner().invoke(app, ["check", "--knowledge", str(things)])
    assert done.exit_code == 0 and "no problems of its shape" in done.output, done.output
    query = "SELECT ?n { ?s a sosa:Platform ; rdfs:label ?n ; wgs84:lat ?lat ; sosa:hosts/sosa:observes/rdfs:label ?p }"
    done = CliRunner().invoke(app, ["knowledge", "query", query, "--knowledge", str(things), "--format", "csv"])
    assert done.stdout.split() == ["n", "gauge", "1"]


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]},
         "POLYGON ((0.0 0.0, 1.0 0.0, 1.0 1.0, 0.0 0.0))"),
        ({"type": "Feature", "geometry": {"type": "LineString", "coordinates": [[0, 0, 9], [1, 0, 9]]}},
         "LINESTRING (0.0 0.0, 1.0 0.0)"),
        ({"type": "Point", "coordinates": []}, None),
        ({"type": "Point", "coordinates": ["a", "b"]}, None),
        ("somewhere", None),
    ],
)  # fmt: skip
def test_places_are_well_known_text(location: object, text: str | None) -> None:
    one = thing(1, "a", 1, 2)
    one["Locations"][0]["location"] = location
    found = things_to_rdf("https://example.org/v1.1", {"Things": [one]})
    assert f'"{text}"' in found if text is not None else "asWKT" not in found


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("sensorthings+mqtt://127.0.0.1/v1.1", "only SensorThings over HTTP has Things"),
        (
            "sensorthings+http://127.0.0.1:PORT/FROST-Server/v1.1/Datastreams(7)",
            "this is the address of one entity, not of a service",
        ),
        ("sensorthings+http://127.0.0.1:PORT/FROST-Server/v1.0", "404"),
        ("sensorthings+http://127.0.0.1:PORT/FROST-Server/v1.1", "is not a page of entities"),
        ("sensorthings+http://127.0.0.1:PORT/FROST-Server/v1.1?by=id", "`by` is an option of an input, not of knowle"),
    ],
)
def test_services_that_are_refused(place: str, message: str) -> None:
    served = ThingsServer()
    if "v1.0" not in place:
        served.broken = lambda: (200, "application/json", b'{"value": [1]}')
    with things_server(served):
        done = fetched(place.replace("PORT", str(served.port)))
    assert done.exit_code == 2 and message in done.output and ROOT.split("/")[1] in f"{done.output}{ROOT}"
