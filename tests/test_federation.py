"""No query asks another endpoint: none that hides `SERVICE` is let through, and the process that asks opens no socket.
And no text, however hostile, takes more than its share of the server's time."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import pyoxigraph as ox
import pytest

from cep.connectors.rdf.federation import refuse_federation
from cep.connectors.rdf.question import QueryRefused, Question
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.knowledge.query.sparql import tokens
from tests.listening import Listener
from tests.serving import served

ASKED = "SERVICE SILENT <URL> { ?a ?b ?c }"
HIDDEN = (
    f"SELECT * {{ {ASKED} }}",
    "SELECT * { sErViCe<URL>{ ?a ?b ?c } }",
    f'SELECT * {{ BIND("\\u0022 # " AS ?x) {ASKED} }}',
    f"SELECT * {{ BIND('\\u0027 # ' AS ?x) {ASKED} }}",
    f'SELECT * {{ BIND("\\\\\\u0022 # " AS ?x) {ASKED} }}',
    f'SELECT * {{ BIND("\\U00000022 # " AS ?x) {ASKED} }}',
    f'SELECT * {{ BIND("\\u005C" AS ?x) {ASKED} BIND("# " AS ?y) }}',
    f'SELECT * {{ BIND("\\u005Cu0022 # " AS ?x) {ASKED} }}',
    f"SELECT * {{ # \\u000A\n {ASKED} }}",
    "PREFIX p:<URL> SELECT * { SERVICEp:x{ ?a ?b ?c } }",
    "PREFIX p:<URL> PREFIX SERVICEp:<http://a/> SELECT * { SERVICEp:x{ ?a ?b ?c } }",
    "PREFIX p:<URL> SELECT * { SERVICESILENTp:x{ ?a ?b ?c } }",
    "PREFIX :<URL> SELECT * { SERVICE:x{ ?a ?b ?c } }",
    "SELECT * { {}UNION{SERVICESILENT<URL>{ ?a ?b ?c }} }",
    "SELECT * { ?s <a:flag> trueSERVICE<URL>{ ?a ?b ?c } }",
    "SELECT * { ?s ?p ?o FILTER(1<2)SERVICE<URL>{?a ?b ?c}FILTER(2>1) }",
    "PREFIX x:<http://a:> SELECT * { ?s <a:end> x:SERVICE<URL>{ ?a ?b ?c } }",  # http://a:SERVICE is not an IRI
)
FINE = (
    "PREFIX service: <http://x/service?a> SELECT ('SERVICE' AS ?service) { ?s service:service ?o } # service",
    "PREFIX ex: <http://x/> ASK { ?s a ex:CustomerService ; <http://x/service> 'a\\u0022 # service'@en-service }",
    "SELECT ?service ?Service ?SERVICE { ?service ?Service ?SERVICE . GRAPH <http://x/service> { ?s ?p ?o } }",
)
HOSTILE = ("a.", '"\\', "!", "{}")
BYPASSED = """
import sys
from cep.connectors.rdf import federation, store_worker
federation.refuse_federation = lambda text, prefixes: None
store_worker.main(*sys.argv[1:])
"""


@pytest.fixture
def listener() -> Iterator[Listener]:
    one = Listener()
    yield one
    one.close()


def test_service_is_found_wherever_it_hides(listener: Listener) -> None:
    store = ox.Store()
    store.update("INSERT DATA { <a:a> <a:flag> true ; <a:end> <http://a:> }")
    for query in HIDDEN:
        text, before = query.replace("URL", listener.url), listener.come
        with suppress(OSError):
            list(store.query(text))  # type: ignore[arg-type]
        assert listener.come > before, f"Oxigraph asks elsewhere: {text}"
        before = listener.come
        with pytest.raises(QueryRefused, match="does not query other endpoints") as refused:
            refuse_federation(text, {"x": "http://x/"})
        assert refused.value.code == "service" and listener.come == before
    for query in FINE:
        refuse_federation(query, {"service": "http://x/", "ex": "http://x/"})
    with pytest.raises(QueryRefused, match="does not query other endpoints"):
        refuse_federation("ASK { \\u0053ERVICE SILENT ?x {} }", {})
    with pytest.raises(QueryRefused) as slip:
        refuse_federation("SELECT ?service { ?service a }", {})
    assert slip.value.code == "syntax"


def test_the_server_refuses_it(tmp_path: Path, listener: Listener) -> None:
    with served(tmp_path) as one, httpx.Client(timeout=120.0) as client:
        one.push((0, "milk", 8.2), (50, "milk", 4.2))
        one.close()
        for query in HIDDEN:
            text = query.replace("URL", listener.url)
            for path in ("/sparql", "/sparql/subscribe"):
                found = client.post(one.url + path, data={"query": text})
                assert found.status_code == 403 and "SERVICE" in found.text, (path, text)
        assert not listener.come
        for query in FINE:
            assert client.post(one.url + "/sparql", data={"query": query}).status_code == 200, query
        for text in HOSTILE:
            query = ("SELECT * { ?s ?p ?o } " + text * (1 << 16))[: 1 << 16]
            assert client.post(one.url + "/sparql", data={"query": query}).status_code < 500, text
            large = client.post(
                one.url + "/sparql", content=query + " ", headers={"content-type": "application/sparql-query"}
            )
            assert large.status_code == 413 and "more than 65536 characters" in large.text
        assert client.get(one.url + "/sparql", params={"query": "ASK { ?s ?p ?o }"}).json()["boolean"] is True


def test_what_gets_through_reaches_nobody(tmp_path: Path, listener: Listener) -> None:
    """The process itself, without the check: it answers over the socket that it has, and opens no other."""
    if sys.platform != "linux":
        return
    here, there = socket.socketpair()
    command = [
        sys.executable,
        "-c",
        BYPASSED,
        str(there.fileno()),
        str(tmp_path / "store"),
        EventVocabulary().base,
        "0",
    ]
    with subprocess.Popen(command, pass_fds=[there.fileno()], cwd=Path(__file__).parents[1]) as process:
        there.close()
        connection = Connection(here.detach())

        def next_event() -> tuple[int, str, object]:
            assert connection.poll(120.0)
            return connection.recv()  # type: ignore[no-any-return]

        try:
            assert connection.poll(120.0) and connection.recv() == ""
            answers = []
            for number, query in enumerate(HIDDEN):
                text = query.replace("URL", listener.url)
                question = Question(text, seconds=60.0)
                connection.send((number, ("ask", question), 60.0))
                answers.append(next_event()[1:])
            assert ("refused", ("failed", "Permission denied (os error 13)")) in answers
            assert any(kind == "done" for kind, _ in answers), "SILENT: no answer is one"
            connection.send((-1, ("ask", Question("ASK {}")), 60.0))
            assert next_event()[:2] == (-1, "done")
        finally:
            process.kill()
            connection.close()
    assert not listener.come


def test_any_text_is_read_in_time_that_grows_with_it() -> None:
    """Where each letter was tried again from the one before, these took minutes and more."""
    for text in ("a.", '"\\', "'''\\"):
        long = text * (1 << 16)
        found = tokens(long)
        assert "".join(token.text for token in found) == long
