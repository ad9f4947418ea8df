"""What a user has already: rdflib graphs as knowledge, and rule sets as classes of owlrl."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from owlrl import DeductiveClosure, OWLRL_Extension, OWLRL_Semantics, RDFS_Semantics
from rdflib import BNode, ConjunctiveGraph, Dataset, Graph, Namespace, URIRef
from rdflib.namespace import OWL, RDF
from rdflib.term import Node
from typer.testing import CliRunner, Result

from cep.command import app
from cep.core.errors import CepError
from cep.engine import Engine, detect
from cep.events import Event, Iri
from cep.knowledge.graph import Knowledge
from tests.closures import HEADER

EX = Namespace("http://example.org/")
TURTLE = """\
:Fridge rdfs:subClassOf :Appliance .
:f1 a :Fridge ; :above :f2 .
:f2 :above :f3 .
"""
PROGRAM = """\
PREFIX ex: <http://example.org/>
event reading(fridge: iri, temp: float) TIME time.
seen(F) <- reading(F, T) WHERE { ?F a ex:Fridge }.
higher(F, G) <- reading(F, T) WHERE { ?F ex:above ?G }.
"""
READING = Event("reading", (Iri(EX.f1), 8.0), 0, 0)


class Above(OWLRL_Semantics):  # type: ignore[misc]
    """What is above is transitive, which no axiom says; nothing is above itself."""

    def rules(self, t: tuple[Node, Node, Node], cycle_num: int) -> None:
        super().rules(t, cycle_num)
        s, p, o = t
        if p == EX.above:
            for further in self.graph.objects(o, EX.above):
                self.store_triple((s, EX.above, further))
            if s == o:
                self.add_error(f"{s} is above itself")


class Witness(RDFS_Semantics):  # type: ignore[misc]
    """Every fridge has a door, of which nothing else is known."""

    def post_process(self) -> None:
        for fridge in list(self.graph.subjects(RDF.type, EX.Fridge)):
            self.store_triple((fridge, EX.door, BNode()))


def graph(turtle: str = TURTLE) -> Graph:
    return Graph().parse(data=HEADER + turtle, format="turtle")


def pairs(events: list[Event]) -> list[tuple[str, ...]]:
    return [(event.type, *(str(each).rpartition("/")[2] for each in event.args)) for event in events]


def higher(engine: Engine, events: list[Event]) -> list[tuple[int, str]]:
    """When, and what is above."""
    tables = [engine.push(events), engine.close()]
    rows = [row for out in tables if "higher" in out for row in out["higher"].rows()]
    return [(start, str(last).rpartition("/")[2]) for start, *_, last in rows]


# --- graphs ---


def test_an_engine_takes_a_graph_of_rdflib() -> None:
    assert pairs(detect(PROGRAM, [READING], knowledge=graph())) == [("higher", "f1", "f2"), ("seen", "f1")]


def test_a_graph_is_what_knowledge_of_it_is() -> None:
    given, made = (Engine.from_text(PROGRAM, knowledge=k) for k in (graph(), Knowledge.of(graph())))
    assert given.program == made.program


@pytest.mark.parametrize("kind", [Dataset, ConjunctiveGraph])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_engine_takes_named_graphs(kind: type[Dataset]) -> None:
    dataset = kind()
    for i, triple in enumerate(graph()):
        dataset.get_context(URIRef(f"urn:g{i}")).add(triple)
    program = PROGRAM + "stored(G) <- reading(F, T) WHERE { GRAPH ?G { ex:f2 ex:above ?H } }.\n"
    found = pairs(detect(program, [READING], knowledge=dataset))
    assert {name for name, *_ in found} == {"higher", "seen", "stored"}


def test_triples_do_as_well() -> None:
    assert detect(PROGRAM, [READING], knowledge=list(graph())) == detect(PROGRAM, [READING], knowledge=graph())


def test_an_engine_with_a_graph_takes_changes_of_it() -> None:
    engine = Engine.from_text(PROGRAM, knowledge=graph())
    engine.update(5, remove=graph(":f1 :above :f2 ."), add=graph(":f1 :above :f9 ."))
    rows = higher(engine, [READING, Event("reading", (Iri(EX.f1), 8.0), 10, 10)])
    assert rows == [(0, "f2"), (10, "f9")]


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(CepError, match=r"triples cannot be read from str\nhint: use an rdflib graph, .*Knowledge.load"):
        Engine.from_text(PROGRAM, knowledge="stations.ttl")


# --- rule sets ---


def test_the_closure_is_what_the_class_computes() -> None:
    for rules in (Above, OWLRL_Extension, RDFS_Semantics):
        expected = graph()
        DeductiveClosure(rules).expand(expected)
        rdf = {t for t in expected if isinstance(t[1], URIRef) and isinstance(t[0], URIRef | BNode)}
        assert set(Knowledge.of(graph(), rules).rdflib()) == rdf


def test_rules_of_ones_own_decide_what_a_program_derives() -> None:
    found = detect(PROGRAM, [READING], knowledge=Knowledge.of(graph(), Above))
    assert pairs(found) == [("higher", "f1", "f2"), ("higher", "f1", "f3"), ("seen", "f1")]


def test_a_change_closes_all_anew() -> None:
    known = Knowledge.of(graph(), Above)
    for fork in (known.fork(), known.fork(apart=True)):
        fork.apply(fork.change(":f3 :above :f4 .".replace(":", "@prefix : <http://example.org/> . :", 1), None))
        fork.apply(fork.change(None, graph(":f1 :above :f2 .")))
        fork.forget(always=True)
        changed = graph(TURTLE.replace("; :above :f2 .", ".") + ":f3 :above :f4 .")
        assert set(fork.rdflib()) == set(Knowledge.of(changed, Above).rdflib())
        assert (EX.f2, EX.above, EX.f4) in fork.rdflib() and (EX.f1, EX.above, EX.f3) not in fork.rdflib()
    assert (EX.f1, EX.above, EX.f3) in known.rdflib()


def test_events_are_judged_by_the_closure_of_their_time() -> None:
    engine = Engine.from_text(PROGRAM, knowledge=Knowledge.of(graph(), Above))
    engine.update(5, remove=graph(":f2 :above :f3 ."))
    rows = higher(engine, [READING, Event("reading", (Iri(EX.f1), 8.0), 10, 10)])
    assert rows == [(0, "f2"), (0, "f3"), (10, "f2")]


def test_a_contradiction_that_a_class_finds_is_told() -> None:
    known = Knowledge.of(graph(), Above)
    circle = graph(":f3 :above :f1 .")
    with pytest.raises(CepError) as caught:
        known.apply(known.change(circle))
    assert caught.value.code == "inconsistent"
    assert str(caught.value).startswith(
        "the knowledge is inconsistent by tests.test_own_rules:Above:\n  http://example"
    )
    assert (EX.f3, EX.above, EX.f1) not in known.rdflib()


def test_blank_nodes_that_a_class_makes_have_the_same_labels_each_time() -> None:
    first, second = (Knowledge.of(graph(), Witness) for _ in range(2))
    assert set(first.rdflib()) == set(second.rdflib()) and first.fingerprint == second.fingerprint
    assert len(list(first.rdflib().objects(EX.f1, EX.door))) == 1


def test_the_fingerprint_says_what_the_class_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Knowledge.of(graph(), Above).fingerprint
    assert before == Knowledge.of(graph(), Above).fingerprint != Knowledge.of(graph(), "owlrl").fingerprint
    monkeypatch.setattr(Above, "rules", OWLRL_Semantics.rules)
    assert Knowledge.of(graph(), Above).fingerprint != before


def test_knowledge_with_rules_of_ones_own_goes_to_other_processes() -> None:
    known = pickle.loads(pickle.dumps(Knowledge.of(graph(), Above)))
    known.apply(known.change(graph(":f3 :above :f4 .")))
    assert (EX.f1, EX.above, EX.f4) in known.rdflib()


# --- the command line ---

MINE = """\
from owlrl import RDFS_Semantics
from rdflib.namespace import OWL

class Rules(RDFS_Semantics):
    def rules(self, t, cycle_num):
        super().rules(t, cycle_num)
        self.store_triple((t[0], OWL.sameAs, t[0]))

class Nothing:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    Path("fridges.ttl").write_text(HEADER + TURTLE, encoding="utf-8")
    Path("my_rules.py").write_text(MINE, encoding="utf-8")
    Path("broken_rules.py").write_text("import no_such_thing", encoding="utf-8")
    return tmp_path


def cep(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})


def test_rules_are_named_on_the_command_line(folder: Path) -> None:
    asked = ("-k", "fridges.ttl", "--reasoning", "my_rules:Rules")
    result = cep("knowledge", "explain", "<http://example.org/f1> a <http://example.org/Appliance>", *asked)
    assert (result.exit_code, result.stdout) == (0, ":f1 a :Appliance   my_rules:Rules\n")
    result = cep("knowledge", "query", f"ASK {{ <{EX.f1}> <{OWL.sameAs}> <{EX.f1}> }}", *asked)
    assert result.stdout == "yes\n"
    assert "inferred (my_rules:Rules)" in cep("knowledge", "stats", *asked).stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such:Rules", "`no_such:Rules`: there is no module `no_such`\nhint: use an installed module or a file"),
        ("my_rules:Rule", "`my_rules:Rule`: my_rules has no class `Rule`\nhint: did you mean `Rules`?"),
        ("my_rules:Nothing", "`my_rules:Nothing` is not a rule set of owlrl\nhint: a subclass of `owlrl.Closure.Core`"),
        ("broken_rules:Rules", "`broken_rules:Rules`: broken_rules imports `no_such_thing`, which is not installed"),
        ("owlr", "`owlr` is not a kind of reasoning\nhint: did you mean `owlrl`?"),
    ],
)
def test_names_that_are_no_rule_sets(folder: Path, name: str, message: str) -> None:
    result = cep("knowledge", "stats", "fridges.ttl", "--reasoning", name)
    assert result.exit_code == 2
    assert result.stderr.startswith(message), result.stderr
