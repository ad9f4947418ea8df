"""The SPARQL endpoint, asked by real clients: SPARQLWrapper, curl, and the cases of the W3C's protocol tests."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import httpx
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from SPARQLWrapper import CSV, JSON, N3, POST, TURTLE, XML, SPARQLWrapper
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from cep.connectors.rdf.federation import refuse_federation
from cep.connectors.rdf.question import QueryRefused
from cep.connectors.serving.guard import Guard, Limits
from cep.connectors.serving.negotiation import negotiated
from cep.connectors.serving.people import People, Person, Role, cookie_value
from tests import sparql_served
from tests.serving import Served, served
from tests.sparql_served import K

fridges = pytest.fixture(scope="module")(sparql_served.fridges)


pytestmark = pytest.mark.xdist_group("sparql")  # what they share is made once
JOINED = (
    K + "SELECT ?fridge ?t { ?e a k:Warming ; k:name ?name ; time:hasEnd/time:inXSDDateTimeStamp ?t . "
    "?fridge a k:Fridge ; k:name ?name } ORDER BY ?t ?name"
)
NEAR = (
    K + "PREFIX wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#> "
    "SELECT DISTINCT ?shop { ?e a k:Warming ; k:name ?name . "
    "?f k:name ?name ; wgs84:lat ?a ; wgs84:long ?b . ?s a k:Shop ; k:name ?shop ; wgs84:lat ?c ; wgs84:long ?d "
    "FILTER(<urn:semcep:distance>(?a, ?b, ?c, ?d) < 20000) }"
)
ENDLESS = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?o ?p }"


def test_sparqlwrapper_joins_events_with_what_is_known(fridges: Served) -> None:
    client = SPARQLWrapper(fridges.url + "/sparql")
    client.setQuery(JOINED)
    client.setReturnFormat(JSON)
    rows = [(r["fridge"]["value"][-2:], r["t"]["value"]) for r in client.query().convert()["results"]["bindings"]]
    assert rows == [("f2", "2024-05-01T08:10:00Z"), ("f1", "2024-05-01T08:10:00Z"), ("f1", "2024-05-01T08:20:00Z")]
    client.setReturnFormat(XML)
    assert len(client.query().convert().getElementsByTagName("result")) == 3
    client.setMethod(POST)
    client.setReturnFormat(CSV)
    assert client.query().convert().decode().splitlines()[0] == "fridge,t"
    client.setQuery(K + "CONSTRUCT { ?e k:name ?n } { ?e a k:Warming ; k:name ?n }")
    for format in (TURTLE, N3):
        client.setReturnFormat(format)
        assert client.query().convert()
    client.setQuery("SELECT * { ?x a }")
    with pytest.raises(QueryBadFormed, match="a term is expected here"):
        client.query()


def test_curl_finds_what_is_near_an_event(fridges: Served) -> None:
    def curl(*more: str) -> str:
        command = ["curl", "-sS", "-m", "120", fridges.url + "/sparql", *more]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    found = curl("--data-urlencode", f"query={NEAR}", "-H", "Accept: text/csv")
    assert sorted(found.splitlines()) == ["near the fish", "near the milk", "shop"]
    names = "PREFIX geof: <http://www.opengis.net/def/function/geosparql/> "
    metres = (
        names
        + """PREFIX geo: <http://www.opengis.net/ont/geosparql#>
        SELECT (geof:distance("POINT(0 0)"^^geo:wktLiteral, "POINT(0 1)"^^geo:wktLiteral,
                              <http://www.opengis.net/def/uom/OGC/1.0/metre>) AS ?m)
               (<urn:semcep:distance>(0, 0, 1, 0) AS ?n) {}"""
    )
    row = json.loads(curl("--data-urlencode", f"query={metres}"))["results"]["bindings"][0]
    assert abs(float(row["m"]["value"]) - float(row["n"]["value"])) < 1000 and row["n"]["value"].startswith("110574.38")


FORM, DIRECT = "application/x-www-form-urlencoded", "application/sparql-query"
OK = [  # the names are those of the W3C's tests of the protocol
    ("query_get", "GET", {"query": "ASK {}"}, None, None),
    ("query_post_form", "POST", {}, FORM, "query=ASK%20%7B%7D"),
    ("query_post_direct", "POST", {}, DIRECT, "ASK {}"),
    ("query_post_direct, charset", "POST", {}, DIRECT + "; charset=utf-8", "ASK {}"),
]  # fmt: skip
BAD = [
    ("bad_multiple_queries", "GET", "query=ASK%20%7B%7D&query=SELECT%20%2A%20%7B%7D", None, b"", 400),
    ("bad_multiple_queries, form", "POST", "", FORM, b"query=ASK%20%7B%7D&query=ASK%20%7B%7D", 400),
    ("bad_query_method", "PUT", "query=ASK%20%7B%7D", None, b"", 405),
    ("bad_query_missing_form_type", "POST", "", None, b"query=ASK%20%7B%7D", 400),
    ("bad_query_missing_direct_type", "POST", "", None, b"ASK {}", 400),
    ("bad_query_wrong_media_type", "POST", "", "text/plain", b"ASK {}", 415),
    ("bad_query_non_utf8", "POST", "", DIRECT + "; charset=UTF-16", "ASK {}".encode("utf-16"), 415),
    ("bad_query_non_utf8, bytes", "POST", "", DIRECT, b"ASK { ?s ?p '\xff' }", 400),
    ("bad_query_syntax", "GET", "query=ASK%20%7B", None, b"", 400),
    ("no query", "POST", "", FORM, b"x=1", 400),
    ("two queries", "POST", "query=ASK%20%7B%7D", DIRECT, b"ASK {}", 400),
    ("bad_update_get", "GET", "update=CLEAR%20ALL", None, b"", 400),
    ("update_post_form", "POST", "", FORM, b"update=CLEAR%20ALL", 403),
    ("update_post_direct", "POST", "", "application/sparql-update", b"CLEAR ALL", 403),
    ("an update as a query", "POST", "", DIRECT, b"DELETE WHERE { ?s ?p ?o }", 400),
    ("no graph", "GET", "query=ASK%20%7B%7D&default-graph-uri=%3C%3E", None, b"", 400),
    ("many parameters", "GET", "a=1&" * 300, None, b"", 400),
]


def test_the_protocol(fridges: Served) -> None:
    """https://www.w3.org/2009/sparql/docs/tests/data-sparql11/protocol/"""
    url = fridges.url + "/sparql"
    with httpx.Client() as client:
        for name, method, parameters, kind, body in OK:
            headers = {} if kind is None else {"Content-Type": kind}
            found = client.request(method, url, params=parameters, headers=headers, content=body)
            assert (found.status_code, found.json()["boolean"]) == (200, True), name
        for name, method, parameters, kind, content, status in BAD:
            headers = {} if kind is None else {"Content-Type": kind}
            found = client.request(method, f"{url}?{parameters}", headers=headers, content=content)
            assert found.status_code == status and found.text.strip(), (name, found.status_code, found.text)
        head = client.head(url, params={"query": "ASK {}"})
        assert head.status_code == 200 and not head.content


def test_the_data_set_of_a_request(fridges: Served) -> None:
    """Graphs named by the request are all there is, whatever the query says after FROM."""
    url, kitchen = fridges.url + "/sparql", "http://example.org/other"
    where = "ASK { ?s ?p ?o }", "ASK { GRAPH ?g { ?s ?p ?o } }", f"ASK FROM <{kitchen}> {{ ?s ?p ?o }}"
    for more, wanted in (
        ([], [True, False, False]),
        ([("default-graph-uri", kitchen)], [False, False, False]),
        ([("named-graph-uri", kitchen)], [False, False, False]),
    ):
        for query, answer in zip(where, wanted):
            for send in (lambda pairs: httpx.get(url, params=pairs), lambda pairs: httpx.post(url, data=dict(pairs))):
                assert send([("query", query), *more]).json()["boolean"] is answer, (query, more)


def test_answers_come_in_the_form_that_is_asked_for(fridges: Served) -> None:
    url = fridges.url + "/sparql"
    table, triples = K + "SELECT ?e { ?e a k:Warming }", K + "CONSTRUCT WHERE { ?e a k:Warming }"
    for query, accept, kind in (
        (table, None, "application/sparql-results+json"),
        (table, "*/*", "application/sparql-results+json"),
        (table, "text/html, application/xml;q=0.9, */*;q=0.1", "application/sparql-results+xml"),
        (table, "text/csv;q=0.3, text/tab-separated-values", "text/tab-separated-values; charset=utf-8"),
        ("ASK {}", "application/sparql-results+xml", "application/sparql-results+xml"),
        (triples, None, "text/turtle; charset=utf-8"),
        (triples, "application/n-triples", "application/n-triples"),
        (triples, "application/rdf+xml;q=1, text/turtle;q=0", "application/rdf+xml"),
        (triples, "application/ld+json", "application/ld+json"),
    ):
        found = httpx.get(url, params={"query": query}, headers={} if accept is None else {"Accept": accept})
        assert (found.status_code, found.headers["content-type"]) == (200, kind), (query, accept)
    assert httpx.get(url, params={"query": table}, headers={"Accept": "image/png"}).status_code == 406
    description = httpx.get(url, headers={"Accept": "application/n-triples"}).text
    assert f"<{url}> <http://www.w3.org/ns/sparql-service-description#endpoint> <{url}> ." in description


def test_no_query_reaches_out_writes_or_stays(fridges: Served) -> None:
    url = fridges.url + "/sparql"
    hidden = "SELECT * { FILTER(?x<:y)SERVICE?v#>\n{ ?s ?p ?o } }"
    for query in ("SELECT * { SERVICE <http://127.0.0.1:1/> {} }", "ASK { \\u0053ERVICE SILENT ?x {} }", hidden):
        found = httpx.post(url, data={"query": query})
        assert found.status_code == 403 and "SERVICE" in found.text, query
    fine = "PREFIX service: <http://x/service?a> "
    fine += "SELECT ('SERVICE' AS ?service) { ?s service:service ?o } # service"
    assert httpx.post(url, data={"query": fine}).status_code == 200
    for query in ("SELECT * FROM <file:///etc/passwd> { ?s ?p ?o }", "ASK FROM <http://127.0.0.1:1/> { ?s ?p ?o }"):
        found = httpx.post(url, data={"query": query}).json()
        assert not found.get("boolean") and not found.get("results", {}).get("bindings")
    deep = httpx.post(url, data={"query": "SELECT * " + "{" * 50_000})
    assert deep.status_code == 400 and "brackets" in deep.text
    large = httpx.post(url, data={"query": "SELECT * { ?a ?b ?c . ?d ?e ?f }"})
    assert large.status_code == 400 and "LIMIT" in large.text


def test_a_query_without_an_end_is_ended(tmp_path: Path) -> None:
    with served(tmp_path, seconds=2.0) as one:
        one.push((0, "milk", 8.2), (50, "milk", 4.2))
        one.close()
        found = httpx.post(one.url + "/sparql", data={"query": ENDLESS})
        assert found.status_code == 503 and "longer than 2 s" in found.text and found.headers["retry-after"]
        for _ in range(50):  # the same time is all that this one has
            after = httpx.post(one.url + "/sparql", data={"query": JOINED})
            if after.status_code == 200:
                break
        assert len(after.json()["results"]["bindings"]) == 1


@given(st.text("SERVICEservice \n#<>'\"\\?:.){}(x@_", max_size=60))
def test_what_asks_another_endpoint_is_seen(text: str) -> None:
    """Where Oxigraph finds a SERVICE, so does the endpoint: a query that is let through never tries to reach out."""
    query = f"SELECT * {{ {text} }}"
    try:
        refuse_federation(query, {})
    except QueryRefused:
        return
    try:
        list(ox.Store().query(query))  # type: ignore[arg-type]
    except SyntaxError:
        pass
    except (RuntimeError, OSError) as error:
        assert "service" not in str(error).lower() and "http" not in str(error).lower(), query


def test_accept_is_read_whatever_it_says() -> None:
    known = {"text/csv": "csv", "text/turtle": "ttl"}
    for accept, format in (
        ("text/*;q=0.5, text/turtle", "ttl"), ("text/turtle;q=0.1, */*", "csv"), ("text/csv;q=x", "none"),
        ("", "csv"), (";;;,,q=1", "none"), ("text/turtle;q=2", "none"), ("TEXT/TURTLE", "ttl"),
    ):  # fmt: skip
        assert negotiated(Headers({"accept": accept}), known, "none") == format, accept


def test_only_who_may_asks_and_not_too_much(tmp_path_factory: pytest.TempPathFactory) -> None:
    token = "a-secret-of-the-house"
    limits = Limits(People({Person("ann", Role.VIEWER): token}), rate=20, body=2000, hosts=frozenset(("127.0.0.1",)))
    with served(tmp_path_factory.mktemp("guarded"), limits) as one, httpx.Client(base_url=one.url) as client:
        ask = {"query": "ASK {}"}
        assert client.get("/health").status_code == client.get("/ready").status_code == 200
        value = cookie_value(token)
        assert token not in value and value != cookie_value("another")
        for headers in (
            {}, {"Authorization": "Bearer wrong"}, {"Authorization": token}, {"Cookie": "semcep=wrong"},
            {"Cookie": f"semcep={token}"}, {"Authorization": f"Bearer {value}"},
        ):  # fmt: skip
            refused = client.get("/sparql", params=ask, headers=headers)
            assert refused.status_code == 401 and "Bearer" in refused.headers["www-authenticate"]
        good = {"Authorization": f"Bearer {token}"}
        assert client.get("/sparql", params=ask, headers=good).status_code == 200
        assert client.get("/sparql", params=ask, headers={**good, "Host": "rebound.example"}).status_code == 421
        cookie = client.get("/sparql", params={**ask, "access_token": token})
        assert cookie.status_code == 200 and "HttpOnly" in cookie.headers["set-cookie"]
        assert "Secure" not in cookie.headers["set-cookie"]
        assert token not in cookie.headers["set-cookie"] and "SameSite=Lax" in cookie.headers["set-cookie"]
        assert client.get("/sparql", params=ask).status_code == 200, "the cookie lets in"
        client.cookies.clear()
        for path, method in (("/health", "GET"), ("/ready", "GET"), ("/sparql", "OPTIONS"), ("/sparql", "GET")):
            stranger = client.request(method, path, params={"access_token": "wrong"})
            assert "set-cookie" not in stranger.headers, "who does not know the token gets no cookie"
        proxy = {"X-Forwarded-Proto": "https"}
        page = client.get("/", params={"access_token": token}, headers=proxy)
        assert (page.status_code, str(page.next_request.url)) == (303, f"{one.url}/")
        assert page.headers["set-cookie"].endswith("; Secure") and token not in page.headers["location"]
        client.cookies.clear()
        long = b"#" * 3000
        kind = {"Content-Type": DIRECT}
        assert client.post("/sparql", content=long, headers={**good, **kind}).status_code == 413
        assert client.post("/sparql", content=iter([long]), headers={**good, **kind}).status_code == 413
        preflight = {"Origin": "http://page.example", "Access-Control-Request-Method": "GET"}
        allowed = client.options("/sparql", headers=preflight)
        assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == "http://page.example"
        other = client.options("/sparql", headers={**preflight, "Origin": "http://evil.example"})
        assert "access-control-allow-origin" not in other.headers


def test_a_client_asks_so_often_and_others_as_before() -> None:
    guard = Guard(PlainTextResponse("fine"), Limits(rate=0.01))

    async def statuses(client: str, path: str) -> list[int]:
        transport = httpx.ASGITransport(guard, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as asking:
            return [(await asking.get(path)).status_code for _ in range(3)]

    guard.limits = Limits(rate=1e-6)
    assert asyncio.run(statuses("1.1.1.1", "/sparql")) == [429] * 3
    guard.limits = Limits(rate=1.0)
    assert asyncio.run(statuses("2.2.2.2", "/sparql"))[:2] == [200, 200]
    assert asyncio.run(statuses("1.1.1.1", "/health")) == [200] * 3
