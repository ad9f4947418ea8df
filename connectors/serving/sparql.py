"""`/sparql`: a read-only SPARQL 1.1 endpoint. It queries the knowledge and the derived events."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from cep.connectors.rdf.federation import REFUSED
from cep.connectors.rdf.question import QueryRefused, Question
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import DISTANCE
from cep.connectors.serving.guard import client_of
from cep.connectors.serving.negotiation import negotiated
from cep.connectors.serving.openapi import query_parameter, route_responses
from cep.core.logs import Log
from cep.knowledge.query.sparql import tokens
from cep.knowledge.query.validation import no_query, too_large

TABLES: Mapping[str, str] = {
    "application/sparql-results+json": "json",
    "application/json": "json",
    "application/sparql-results+xml": "xml",
    "application/xml": "xml",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/xml": "xml",
}
"""The result formats of SELECT and ASK queries, by media type."""

GRAPHS: Mapping[str, str] = {
    "text/turtle": "ttl",
    "application/n-triples": "nt",
    "application/ld+json": "jsonld",
    "application/rdf+xml": "rdf",
    "application/x-turtle": "ttl",
}
"""The formats of triples, by media type."""

STATUS = {"syntax": 400, "large": 400, "service": 403, "gone": 499, "slow": 503, "busy": 503, "failed": 500}
_TYPES = {
    "json": "application/sparql-results+json",
    "xml": "application/sparql-results+xml",
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "ttl": "text/turtle",
    "nt": "application/n-triples",
    "jsonld": "application/ld+json",
    "rdf": "application/rdf+xml",
}
T = TypeVar("T")
_SHOWN = 10_000  # characters of a query that are logged
_FORM, _DIRECT = "application/x-www-form-urlencoded", "application/sparql-query"

_QUERY, _EXAMPLE = (
    "The SPARQL query.",
    "SELECT * { ?subject ?property ?object } LIMIT 10",
)
_GRAPHS = [
    query_parameter(
        "default-graph-uri",
        "A graph of the default graph.",
        "urn:example:graph",
        several=True,
    ),
    query_parameter(
        "named-graph-uri", "A graph that the query may name in `GRAPH`.", "urn:example:graph", several=True
    ),
]
_BODY = {
    "content": {
        _FORM: {
            "schema": {
                "type": "object",
                "properties": {"query": {"type": "string", "minLength": 1, "example": _EXAMPLE}},
                "required": ["query"],
            }
        },
        _DIRECT: {"schema": {"type": "string", "minLength": 1, "example": _EXAMPLE}},
    },
    "required": True,
}
QUERY_METHODS: Mapping[str, dict[str, Any]] = {
    "GET": {"parameters": [query_parameter("query", _QUERY, _EXAMPLE), *_GRAPHS]},
    "POST": {"requestBody": _BODY, "parameters": _GRAPHS},
}
"""The parameters and request body of a query in OpenAPI, by HTTP method."""
REFUSALS: Mapping[str, Any] = {
    "_400": "The query is not valid, or its answer is too large. The text says what is wrong, and where.",
    "_403": "The request is an update, or the query contains `SERVICE`. This endpoint only reads its own data.",
    "_503": "The query took too long, or too many queries wait. `Retry-After` says when to try again.",
}


@dataclass(frozen=True, slots=True)
class SparqlOptions:
    """Options of the endpoint.

    - The limits are seconds per query, bytes per response, and characters per query.
    - `prefixes`: the prefixes that a query may use without a declaration.
    - `shown`: True if the log shows the text of queries.
    """

    seconds: float = 10.0
    bytes: int = 1 << 26
    prefixes: Mapping[str, str] | None = None
    shown: bool = False
    characters: int = 1 << 16


class Malformed(Exception):
    """Raised if a request does not follow the SPARQL protocol. `status`: the HTTP status of the response."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def router(store: StoreProcess, options: SparqlOptions, log: Log | None = None) -> APIRouter:
    """Return the routes of `/sparql`. `log`: a function that is called for each request with the response's status, its
    duration in seconds and its size in bytes."""
    routes = APIRouter(tags=["queries"], default_response_class=Response)

    async def endpoint(request: Request) -> Response:
        """Answer a SPARQL 1.1 query over the knowledge and the derived events.

        The endpoint implements the query operation of the SPARQL 1.1 Protocol. It is read-only. A GET without a query
        returns the service description.
        """
        began = perf_counter()
        questions: list[Question] = []
        response = await _answered(request, store, options, questions)
        if log is not None:
            seconds = round(perf_counter() - began, 4)
            shown = {"query": questions[0].text[:_SHOWN]} if options.shown and questions else {}
            log("query", None, status=response.status_code, seconds=seconds, bytes=len(response.body), **shown)
        return response

    responses = route_responses(*TABLES, *GRAPHS, **REFUSALS, _500="The store failed.")
    for method, more in QUERY_METHODS.items():
        routes.add_api_route("/sparql", endpoint, methods=[method], openapi_extra=more, responses=responses)
    return routes


async def _answered(
    request: Request, store: StoreProcess, options: SparqlOptions, questions: list[Question]
) -> Response:
    """Answer a query, and append the query to `questions`."""
    try:
        pairs = await parameters(request)
        if pairs is None:
            format = negotiated(request.headers, GRAPHS)
            if not format:
                raise Malformed(406, f"the description of the service is {', '.join(GRAPHS)}")
            text = service_description(str(request.url.replace(query="")), format)
            return Response(text, media_type=_TYPES[format], headers={"Vary": "Accept"})
        question = question_of(pairs, options)
        questions.append(question)
        table, graph = formats(request.headers)
        client = client_of(request.scope)
        question = replace(question, table=table or "json", graph=graph or "ttl", client=client)
        await asyncio.to_thread(check_federation, question.text)
        answer = await await_answer(request, store.ask(question))
        if answer.format not in (table, graph):  # the kind of result depends on the query only
            kinds = TABLES if answer.format in TABLES.values() else GRAPHS
            raise Malformed(406, f"the answer of this query is {', '.join(kinds)}")
    except Malformed as error:
        return PlainTextResponse(f"{error}\n", error.status, {"Vary": "Accept"})
    except QueryRefused as error:
        return await asyncio.to_thread(refusal_response, error, question)
    return Response(answer.body, media_type=_TYPES[answer.format], headers={"Vary": "Accept"})


async def await_answer(request: Request, question_of: Future[T]) -> T:
    """Wait for the store's answer to a query. If the client disconnects, cancel the query and raise QueryRefused."""
    answer, gone = asyncio.wrap_future(question_of), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise QueryRefused("gone", "nobody waits for the answer")
        return answer.result()
    finally:
        answer.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def parameters(request: Request) -> list[tuple[str, str]] | None:
    """Return the parameters of a query. Return None if the request is for the service description.

    Raises Malformed if the request is neither a query nor a request for the service description.
    """
    in_address = _pairs(request.url.query.encode())
    if request.method == "GET":
        if any(key == "update" for key, _ in in_address):
            raise Malformed(400, "this endpoint is read only, so it refuses updates")
        return in_address if any(key == "query" for key, _ in in_address) else None
    kind, _, options = request.headers.get("content-type", "").partition(";")
    charset = re.search(r"charset=\"?([^\s\";]+)", options)
    if charset and charset[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise Malformed(415, f"queries are UTF-8, not {charset[1]}")
    body = await request.body()
    match kind.strip().lower():
        case "application/x-www-form-urlencoded":
            pairs = _pairs(body)
            if any(key == "update" for key, _ in pairs):
                raise Malformed(403, "this endpoint is read only")
            return pairs
        case "application/sparql-query":
            if any(key == "query" for key, _ in in_address):
                raise Malformed(400, "there are two queries: one in the body and one in the address")
            return [("query", _utf8(body)), *in_address]
        case "application/sparql-update":
            raise Malformed(403, "this endpoint is read only")
        case "":
            raise Malformed(400, f"the content type is missing: {_FORM} or {_DIRECT}")
        case other:
            raise Malformed(415, f"the content type is {_FORM} or {_DIRECT}, not `{other[:80]}`")


def question_of(pairs: Sequence[tuple[str, str]], options: SparqlOptions) -> Question:
    """Return the query that the parameters of a request describe.

    Raises Malformed if there is not exactly one query, the query is too long, or the IRI of a graph is not valid.
    """
    queries = [value for key, value in pairs if key == "query"]
    if len(queries) != 1:
        raise Malformed(400, "the query is missing" if not queries else "there is more than one query")
    if len(queries[0]) > options.characters:
        raise Malformed(413, f"the query has more than {options.characters} characters")
    default = tuple(value for key, value in pairs if key == "default-graph-uri")
    named = tuple(value for key, value in pairs if key == "named-graph-uri")
    for iri in (*default, *named):
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*", iri):
            raise Malformed(400, f"`{iri[:80]}` is not an IRI of a graph")
    return Question(
        queries[0],
        default=default if default or named else None,
        named=named if default or named else None,
        prefixes=tuple((options.prefixes or {}).items()),
        seconds=options.seconds,
        bytes=options.bytes,
    )


def check_federation(query: str) -> None:
    """Raise QueryRefused if a query obviously uses another endpoint, or would overflow a parser's stack.

    The store process refuses the less obvious uses of other endpoints.
    """
    query_tokens = tokens(query)
    if (large := too_large(query_tokens)) is not None:
        raise QueryRefused("large", f"the query has {large[1]}")
    for token in query_tokens:
        if token.kind == "word" and "service" in token.text.lower():
            raise QueryRefused("service", REFUSED)


def formats(headers: Headers) -> tuple[str, str]:
    """Return the preferred format for a table, and the preferred format for triples. An empty text means that the
    client accepts no format of this kind.

    Raises Malformed (406) if both are empty.
    """
    table, graph = negotiated(headers, TABLES), negotiated(headers, GRAPHS)
    if not table and not graph:
        raise Malformed(406, f"answers are {', '.join([*TABLES, *GRAPHS])}")
    return table, graph


def refusal_response(error: QueryRefused, question: Question) -> Response:
    text = str(error)
    if error.code == "syntax":
        text = str(no_query(text, question.text, dict(question.prefixes), "query"))
    more = {"Retry-After": "5"} if STATUS[error.code] == 503 else None
    return PlainTextResponse(f"{text}\n", STATUS[error.code], more)


def service_description(address: str, format: str) -> bytes:
    """Return the service description in RDF. `address`: the address of the endpoint."""
    import pyoxigraph as ox

    results = "".join(f", <http://www.w3.org/ns/formats/SPARQL_Results_{name}>" for name in ("XML", "CSV", "TSV"))
    graphs = "".join(f", <http://www.w3.org/ns/formats/{name}>" for name in ("N-Triples", "JSON-LD", "RDF_XML"))
    where = re.sub(r"[\x00-\x20<>\"{}|^`\\]", "", address)
    text = f"""@prefix sd: <http://www.w3.org/ns/sparql-service-description#> .
<{where}> a sd:Service ; sd:endpoint <{where}> ; sd:supportedLanguage sd:SPARQL11Query ;
  sd:resultFormat <http://www.w3.org/ns/formats/SPARQL_Results_JSON>{results},
    <http://www.w3.org/ns/formats/Turtle>{graphs} ;
  sd:extensionFunction <{DISTANCE}> ; sd:defaultDataset [ a sd:Dataset ; sd:defaultGraph [ a sd:Graph ] ] .
"""
    kinds = {"ttl": ox.RdfFormat.TURTLE, "nt": ox.RdfFormat.N_TRIPLES}
    kinds |= {"jsonld": ox.RdfFormat.JSON_LD, "rdf": ox.RdfFormat.RDF_XML}
    names = {"sd": "http://www.w3.org/ns/sparql-service-description#"} if format == "ttl" else None
    triples = (quad.triple for quad in ox.parse(text, ox.RdfFormat.TURTLE))
    serialized = ox.serialize(triples, format=kinds[format], prefixes=names)
    assert serialized is not None, "without an output the text is given"
    return serialized


def _pairs(text: bytes) -> list[tuple[str, str]]:
    try:
        pairs = parse_qsl(_utf8(text), keep_blank_values=True, max_num_fields=200, errors="strict")
    except UnicodeDecodeError:
        raise Malformed(400, "the request is not UTF-8") from None
    except ValueError:
        raise Malformed(400, "there are too many parameters") from None
    return pairs


def _utf8(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed(400, "the query is not UTF-8") from None
