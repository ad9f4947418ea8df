"""The ontologies: each is documented, contradicts nothing, and entails what its README says."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import owlrl
import pyoxigraph as ox
import pytest
from rdflib import OWL, RDF, RDFS, Graph, Namespace, URIRef

from cep.core.errors import CepError
from cep.engine import detect
from cep.events import Event
from cep.knowledge.graph import Knowledge
from cep.language.syntax.parser import parse

FOLDER = Path(__file__).parent.parent / "ontologies"
FILES = sorted(FOLDER.glob("*.ttl"))
OWN = ("weather", "sensors", "time", "places", "provenance")
DCTERMS = Namespace("http://purl.org/dc/terms/")
TIME = Namespace("http://www.w3.org/2006/time#")
SEMCEP = Namespace("urn:semcep:")
ERRORS = Namespace("http://www.daml.org/2002/03/agents/agent-ont#")
PREFIXES = {
    "": "http://example.org/",
    "geo": "http://www.opengis.net/ont/geosparql#",
    "gn": "http://www.geonames.org/ontology#",
    "om-owl": "http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#",
    "owl": str(OWL),
    "prov": "http://www.w3.org/ns/prov#",
    "rdfs": str(RDFS),
    "semcep": str(SEMCEP),
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "time": str(TIME),
    "wgs84": "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "wt": "http://knoesis.wright.edu/ssw/ont/weather.owl#",
}
named = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


@cache
def ontology(*names: str) -> Graph:
    graph = Graph()
    for name in names:
        graph.parse(FOLDER / f"{name}.ttl")
    return graph


def turtle(text: str, place: str = "") -> Graph:
    """What a text says; of things in a place of their own, which no other text speaks of."""
    prefixes = "".join(f"@prefix {name}: <{iri}{'' if name else place}> .\n" for name, iri in PREFIXES.items())
    return Graph().parse(data=prefixes + text, format="turtle")


def closed(graph: Graph) -> Graph:
    """The closure by the reference."""
    whole = Graph() + graph
    owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(whole)
    return whole


def contradictions(graph: Graph) -> list[str]:
    return [str(text) for text in closed(graph).objects(None, ERRORS.error)]


# --- each file ---


@named
def test_each_file_is_read_by_all_and_says_what_it_is(file: Path) -> None:
    graph = Graph().parse(file)
    assert len({(quad.subject, quad.predicate, quad.object) for quad in ox.parse(path=str(file))}) == len(graph)
    (about,) = graph.subjects(RDF.type, OWL.Ontology)
    for property in (DCTERMS.title, RDFS.comment, OWL.versionInfo, DCTERMS.license):
        assert graph.value(about, property), f"{file.name} has no {property}"
    assert file.read_text(encoding="utf-8").startswith("# "), "a file begins with what it is for"


@named
def test_each_word_that_a_file_declares_has_a_label_and_a_comment(file: Path) -> None:
    graph = Graph().parse(file)
    for kind in (OWL.Class, OWL.ObjectProperty, OWL.DatatypeProperty, OWL.AnnotationProperty):
        for word in graph.subjects(RDF.type, kind):
            if isinstance(word, URIRef):
                assert graph.value(word, RDFS.label), word
                assert graph.value(word, RDFS.comment), word


@named
def test_each_file_is_listed_in_the_readme(file: Path) -> None:
    assert f"`{file.name}`" in (FOLDER / "README.md").read_text(encoding="utf-8")


@named
def test_no_file_contradicts_itself(file: Path) -> None:
    assert contradictions(Graph().parse(file)) == []
    Knowledge.load(file, reasoning="owlrl")


def test_all_files_together_contradict_nothing() -> None:
    whole = Graph()
    for file in FILES:
        whole.parse(file)
    assert contradictions(whole) == []
    Knowledge.load(FOLDER, reasoning="owlrl")


# --- what they entail ---

ENTAILED = [
    ("weather", ":b a wt:Blizzard .", ":b a wt:SnowStorm, wt:WinterStorm, wt:WeatherObservation, sosa:Observation ."),
    ("weather", ":o a wt:Diablo .", ":o a wt:WindObservation, wt:WeatherObservation ."),
    ("weather", ":o a wt:Sundowner .", ":o a wt:WindObservation ."),
    ("weather", ":o sosa:observedProperty wt:_WindGust .", ":o a wt:WindGustObservation, wt:WindObservation ."),
    ("weather", ":o a wt:VisibilityObservation .", ":o sosa:observedProperty wt:_Visibility ."),
    ("weather sensors", ":o om-owl:observedProperty wt:_WindSpeed .", ":o a wt:WindSpeedObservation ."),
    ("sensors", ":s sosa:hosts :a .", ":a sosa:isHostedBy :s ."),
    ("sensors", ":a sosa:isHostedBy :s .", ":s sosa:hosts :a ."),
    ("sensors", ":a sosa:observes :p .", ":p sosa:isObservedBy :a . :a sosa:forProperty :p ."),
    ("sensors", ":p a sosa:ObservableProperty . :a a sosa:Sensor .", ":p a sosa:Property . :a a sosa:System ."),
    ("sensors", ":s sosa:inDeployment :d . :d sosa:deployedSystem :a .", ":s sosa:hosts :a . :a sosa:isHostedBy :s ."),
    ("sensors", ":o sosa:madeBySensor :a . :a sosa:implements :m .", ":o sosa:usedProcedure :m ."),
    (
        "sensors",
        ":o a sosa:Observation ; sosa:madeBySensor :a ; sosa:observedProperty :p .",
        ":a a sosa:Sensor ; sosa:madeObservation :o . :p a sosa:ObservableProperty . :o sosa:madeBySystem :a .",
    ),
    (
        "sensors",
        ":o sosa:hasFeatureOfInterest :x . :x sosa:isSampleOf :y .",
        ":o sosa:hasUltimateFeatureOfInterest :y .",
    ),
    ("sensors", ":a ssn:hasSubSystem :b ; a ssn:System .", ":b sosa:isSubSystemOf :a . :a a sosa:System ."),
    (
        "sensors",
        ":s a om-owl:System ; om-owl:processLocation [ wgs84:lat 37.6 ; wgs84:long -122.3 ; wgs84:alt 10 ] .",
        ":s a sosa:System ; wgs84:lat 37.6 ; wgs84:long -122.3 ; wgs84:alt 10 .",
    ),
    (
        "sensors places",
        ":s om-owl:hasLocatedNearRel [ om-owl:hasLocation :t ] .",
        ":s gn:nearby :t . :t gn:nearby :s .",
    ),
    (
        "time",
        ":a time:intervalBefore :b . :b time:intervalBefore :c .",
        ":a time:before :c . :c time:intervalAfter :a .",
    ),
    ("time", ":a time:intervalDuring :b .", ":a time:intervalIn :b . :b time:intervalContains :a ."),
    ("time", ":a time:intervalEquals :b .", ":b time:intervalEquals :a ."),
    ("time", ":a time:intervalBefore :b .", ":b time:intervalDisjoint :a . :a a time:ProperInterval, time:Interval ."),
    ("time", ":a time:hasEnd :i . :i time:before :j .", ":j time:after :i . :i a time:Instant ."),
    (
        "places",
        ":newark gn:parentADM2 :essex . :essex gn:parentADM1 :jersey . :jersey gn:parentCountry :us .",
        ":newark gn:parentFeature :us, :jersey, :essex .",
    ),
    ("places", ":a gn:nearby :b . :c gn:neighbour :d .", ":b gn:nearby :a . :d gn:neighbour :c ."),
    ("places", ":a a gn:Feature .", ":a a geo:Feature, geo:SpatialObject ."),
    ("places", ':a semcep:iata "EWR" .', ':a skos:notation "EWR" .'),
    ("places", ":a geo:sfWithin :b . :c geo:sfContains :b .", ":a geo:sfWithin :c ."),
    ("places", ":a geo:hasDefaultGeometry :g .", ":a geo:hasGeometry :g . :g a geo:Geometry ."),
    ("provenance", ":a prov:hadPrimarySource :b .", ":b prov:influenced :a . :a a prov:Entity ."),
    ("provenance sensors", ":o sosa:hasResult :r .", ":r prov:wasGeneratedBy :o . :o a prov:Activity ."),
    ("provenance sensors", ":o sosa:madeBySensor :a .", ":o prov:wasAssociatedWith :a . :a a prov:Agent ."),
]


@cache
def entailed(names: str) -> tuple[Graph, Graph, Knowledge]:
    """All that is said of these ontologies below, the texts each in a place of its own; what follows, which takes the
    reference half a second; and the knowledge."""
    given = Graph() + ontology(*names.split())
    for number, (those, data, _) in enumerate(ENTAILED):
        given += turtle(data, f"{number}/") if those == names else []
    return given, closed(given), Knowledge.of(given, reasoning="owlrl")


@pytest.mark.xdist_group("ontologies")  # what follows is found once
@pytest.mark.parametrize(
    "number", range(len(ENTAILED)), ids=lambda number: " ".join(ENTAILED[number][:2]).split("  ")[0][:60]
)
def test_what_follows(number: int) -> None:
    names, data, expected = ENTAILED[number]
    given, follows, knowledge = entailed(names)
    wanted = set(turtle(expected, f"{number}/"))
    assert set(turtle(data, f"{number}/")) and not wanted & set(given), "what is expected is not simply said"
    assert wanted <= set(follows), "it follows by the reference"
    missing = [triple for triple in wanted if not knowledge.query(f"ASK {{ {' '.join(t.n3() for t in triple)} }}")]
    assert missing == []


CONTRADICTORY = [
    ("time", ":a time:intervalBefore :b . :a a time:Instant ."),
    ("places", ":a a gn:Feature, geo:Geometry ."),
    ("provenance sensors", ":o a sosa:Observation, sosa:Platform ."),
    ("provenance sensors", ":o a sosa:Observation ; prov:wasDerivedFrom :p ."),
]


@pytest.mark.parametrize("names, data", CONTRADICTORY, ids=lambda text: text)
def test_what_contradicts(names: str, data: str) -> None:
    given = ontology(*names.split()) + turtle(data)
    assert contradictions(given)
    with pytest.raises(CepError, match="inconsistent"):
        Knowledge.of(given, reasoning="owlrl")


def test_old_words_hold_in_new_ones_and_not_the_other_way_round() -> None:
    old, new = (next(iter(turtle(f":a {prefix}:implements :m ."))) for prefix in ("ssn", "sosa"))
    assert new in closed(ontology("sensors") + turtle(":a ssn:implements :m ."))
    assert old not in closed(ontology("sensors") + turtle(":a sosa:implements :m ."))


# --- time and the language ---

RELATIONS = {
    "Before": lambda a, b, c, d: b < c,
    "After": lambda a, b, c, d: d < a,
    "Meets": lambda a, b, c, d: b == c,
    "MetBy": lambda a, b, c, d: d == a,
    "Overlaps": lambda a, b, c, d: a < c < b < d,
    "OverlappedBy": lambda a, b, c, d: c < a < d < b,
    "Starts": lambda a, b, c, d: a == c and b < d,
    "StartedBy": lambda a, b, c, d: a == c and d < b,
    "During": lambda a, b, c, d: c < a and b < d,
    "Contains": lambda a, b, c, d: a < c and d < b,
    "Finishes": lambda a, b, c, d: c < a and b == d,
    "FinishedBy": lambda a, b, c, d: a < c and b == d,
    "Equals": lambda a, b, c, d: (a, b) == (c, d),
}
SPANS = [(a, b) for a in range(4) for b in range(a + 1, 4)]
PAIRS = [(left, right) for left in SPANS for right in SPANS]
holds = pytest.mark.parametrize("name", RELATIONS)


def interval(span: tuple[int, int]) -> URIRef:
    return URIRef(f"http://example.org/{span[0]}-{span[1]}")


def test_the_thirteen_relations_are_there_with_their_inverses() -> None:
    graph, inverses = ontology("time"), set()
    for name in RELATIONS:
        assert (TIME[f"interval{name}"], RDF.type, OWL.ObjectProperty) in graph
    for one, other in graph.subject_objects(OWL.inverseOf):
        inverses.add(frozenset((str(one).removeprefix(f"{TIME}interval"), str(other).removeprefix(f"{TIME}interval"))))
    pairs = [("Before", "After"), ("Meets", "MetBy"), ("Overlaps", "OverlappedBy"), ("Starts", "StartedBy")]
    pairs += [("During", "Contains"), ("Finishes", "FinishedBy")]
    assert {frozenset(pair) for pair in pairs} <= inverses


def test_what_the_ontology_infers_of_intervals_is_true_of_them() -> None:
    said = Graph() + ontology("time")
    for name in ("Before", "Meets", "Overlaps", "Starts", "During", "Finishes", "Equals"):
        for left, right in PAIRS:
            if RELATIONS[name](*left, *right):
                said.add((interval(left), TIME[f"interval{name}"], interval(right)))
    follows = closed(said)
    for name, relation in RELATIONS.items():
        found = {pair for pair in PAIRS if (interval(pair[0]), TIME[f"interval{name}"], interval(pair[1])) in follows}
        assert found == {pair for pair in PAIRS if relation(*pair[0], *pair[1])}, name


@holds
def test_the_operator_of_a_relation_pairs_just_what_has_it(name: str) -> None:
    words, property = ontology("time"), TIME[f"interval{name}"]
    operator, wider = words.value(property, SEMCEP.operator), words.value(property, SEMCEP.widerOperator)
    assert (operator is None) != (wider is None), "one of the two is said"
    pattern = re.sub(r"\b([LR])\b", r"span(\1)", str(operator or wider)).replace("span(L)", "left(L)")
    program = f"pair(L, R) <- {pattern.replace('span(R)', 'right(R)')}."
    parse(program)
    events = [Event(side, (f"{a}-{b}",), a, b) for side in ("left", "right") for a, b in SPANS]
    paired = {event.args for event in detect(program, events)}
    related = {(f"{l[0]}-{l[1]}", f"{r[0]}-{r[1]}") for l, r in PAIRS if RELATIONS[name](*l, *r)}  # noqa: E741
    assert paired == related if operator is not None else paired > related
