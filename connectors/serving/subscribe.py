"""`/sparql/subscribe`: a query whose result is sent again when it changes, as Server-Sent Events.

The first message, `answer`, is the whole result. Each later message, `change`, is {"added": [...], "removed": [...]},
with bindings in SPARQL's JSON format. The query is evaluated again soon after a change of the knowledge, and after an
event whose class or property the query names. After other events, it is evaluated less often. If the query names no
class or property of an event, every event has it evaluated soon.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace

from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse, StreamingResponse

from cep.connectors.rdf.history import StoreListener
from cep.connectors.rdf.question import Answer, QueryRefused, Question
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.serving.guard import client_of
from cep.connectors.serving.openapi import route_responses
from cep.connectors.serving.sparql import (
    QUERY_METHODS,
    REFUSALS,
    Malformed,
    SparqlOptions,
    check_federation,
    parameters,
    question_of,
    refusal_response,
)
from cep.core.schema import Schema
from cep.knowledge.query.sparql import tokens

MOST = 1 << 22
"""The maximum size in bytes of a watched query's result."""

_QUERIES = 100  # distinct queries that are watched
_BEHIND = 64  # messages that may wait for a client; a client that is further behind is disconnected
_ALIVE = 15.0  # seconds of silence after which a comment is sent
_TROUBLES = 3  # the number of consecutive failures that end a query
_NO_TABLE = "table"  # the code for a query that cannot be watched


@dataclass(frozen=True, slots=True)
class PollingRate:
    """The minimum number of seconds between two evaluations of a query.

    `soon`: the minimum after events whose class or property the query names. `later`: the minimum after other events.
    """

    soon: float = 0.5
    later: float = 10.0


@dataclass(slots=True)
class _Watched:
    """A watched query and its clients.

    - `names`: the events whose class or property the query names. It is None if it names none.
    - `first_answer`: a future that is done after the first evaluation.
    - `rows`: the rows of the current result, each as JSON.
    """

    question: Question
    names: frozenset[str] | None
    first_answer: asyncio.Future[None]
    clients: list[asyncio.Queue[str | None]] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    rows: Counter[str] = field(default_factory=Counter)
    due: asyncio.Event = field(default_factory=asyncio.Event)
    other: bool = False
    task: asyncio.Task[None] | None = None


class Subscriptions:
    """The watched queries. Each query is evaluated once for all clients that watch it."""

    def __init__(self, history: StoreListener, schemas: Mapping[str, Schema], pace: PollingRate) -> None:
        self._store, self._pace = history.store, pace
        self._iris = _iris(schemas, history.vocabulary)
        self._watched: dict[Question, _Watched] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False
        history.listen(self._notified)

    async def watch(self, question: Question) -> asyncio.Queue[str | None]:
        """Return a queue of messages for a new client. The first message is the current answer, and None marks the end.

        Raises QueryRefused if the query cannot be answered, or too many queries are watched.
        """
        self._loop = asyncio.get_running_loop()
        names = None
        if question not in self._watched:
            names = await asyncio.to_thread(events_named, question.text, dict(question.prefixes), self._iris)
        watched = self._watched.get(question)  # another client may have begun to watch it meanwhile
        if watched is None:
            if len(self._watched) >= _QUERIES:
                raise QueryRefused("busy", "too many different queries are watched")
            watched = self._watched[question] = _Watched(question, names, self._loop.create_future())
            watched.task = asyncio.create_task(self._keep(watched))
        queue: asyncio.Queue[str | None] = asyncio.Queue(_BEHIND)
        watched.clients.append(queue)
        if watched.first_answer.done():
            queue.put_nowait(_whole(watched))
        try:
            await asyncio.shield(watched.first_answer)
        except BaseException:
            self.leave(question, queue)
            raise
        return queue

    def leave(self, question: Question, queue: asyncio.Queue[str | None]) -> None:
        """Remove the client that reads this queue. If no other client watches the query, stop watching it."""
        watched = self._watched.get(question)
        if watched is not None and queue in watched.clients:
            watched.clients.remove(queue)
        if watched is not None and not watched.clients:
            assert watched.task is not None, "what is watched is kept up"
            watched.task.cancel()
            del self._watched[question]

    async def close(self) -> None:
        """Close the streams of all clients."""
        self.closed = True
        for watched in list(self._watched.values()):
            for queue in list(watched.clients):
                _end(queue)

    @property
    def clients(self) -> int:
        return sum(len(watched.clients) for watched in list(self._watched.values()))

    def _notified(self, events: Sequence[str] | None) -> None:
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # the loop is closing
                self._loop.call_soon_threadsafe(self._mark_due, None if events is None else frozenset(events))

    def _mark_due(self, events: Set[str] | None) -> None:
        for watched in self._watched.values():
            if watched.names is None or events is None or watched.names & events:
                watched.due.set()
            else:
                watched.other = True

    async def _keep(self, watched: _Watched) -> None:
        try:
            await self._ask(watched)
        except Exception as error:
            self._watched.pop(watched.question, None)
            watched.first_answer.set_exception(_refusal(error))
            return
        self._send(watched, _whole(watched))
        watched.first_answer.set_result(None)
        troubles = 0
        while troubles < _TROUBLES:
            with suppress(TimeoutError):
                await asyncio.wait_for(watched.due.wait(), self._pace.later)
            pause = self._pace.soon
            if watched.due.is_set() or watched.other:
                watched.due.clear()
                watched.other = False
                try:
                    change = await self._ask(watched)
                    troubles = 0
                except Exception as error:
                    refusal, pause = _refusal(error), self._pace.later
                    watched.due.set()  # evaluate even if nothing arrives, because the current answer is not known yet
                    troubles += refusal.code != "busy"  # only errors caused by the query count
                    change = _message("problem", _json({"code": refusal.code, "text": str(refusal)}))
                if change is not None:
                    self._send(watched, change)
            if troubles < _TROUBLES:
                await asyncio.sleep(pause)
        self._watched.pop(watched.question, None)
        for queue in watched.clients:
            _end(queue)

    async def _ask(self, watched: _Watched) -> str | None:
        """Evaluate the query again. Return the changes of its result as a message, or None if nothing has changed.

        A separate thread compares the results.
        """
        answer = await asyncio.wrap_future(self._store.ask(watched.question))
        watched.variables, watched.rows, change = await asyncio.to_thread(_compared, watched.rows, answer)
        return change

    def _send(self, watched: _Watched, message: str) -> None:
        for queue in list(watched.clients):
            if not _put(queue, message):
                watched.clients.remove(queue)
                _end(queue)


def router(subscriptions: Subscriptions, options: SparqlOptions) -> APIRouter:
    routes = APIRouter(tags=["queries"], default_response_class=Response)

    async def subscribe(request: Request) -> Response:
        """Watch a SELECT query.

        The stream of Server-Sent Events begins with the whole result (`answer`). Each `change` then has the rows that
        were added and removed.
        """
        try:
            pairs = await parameters(request)
            most = min(MOST, options.bytes)
            question = replace(
                question_of(pairs or (), options), table="json", bytes=most, client=client_of(request.scope)
            )
            await asyncio.to_thread(check_federation, question.text)
            queue = await subscriptions.watch(question)
        except Malformed as error:
            return PlainTextResponse(f"{error}\n", error.status)
        except QueryRefused as error:
            if error.code == _NO_TABLE:
                return PlainTextResponse(f"{error}\n", 400)
            return await asyncio.to_thread(refusal_response, error, question)

        async def messages() -> AsyncIterator[str]:
            try:
                while True:
                    try:
                        message = await asyncio.wait_for(queue.get(), _ALIVE)
                    except TimeoutError:
                        yield ": still here\n\n"
                        continue
                    if message is None:
                        return
                    yield message
            finally:
                subscriptions.leave(question, queue)

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(messages(), media_type="text/event-stream", headers=headers)

    responses = route_responses("text/event-stream", **REFUSALS, _500="The store failed.")
    for method, more in QUERY_METHODS.items():
        routes.add_api_route("/sparql/subscribe", subscribe, methods=[method], openapi_extra=more, responses=responses)
    return routes


def events_named(query: str, prefixes: Mapping[str, str], iris: Mapping[str, str]) -> frozenset[str] | None:
    """Return the events whose classes or properties a query names, or None if it names none.

    `prefixes`: prefixes that the query need not declare. `iris`: the event of each IRI of a class or property.
    """
    known, names, declared = dict(prefixes), set(), ""
    for token in tokens(query):
        if token.kind == "word":
            declared = ""
        if token.kind == "name" and token.text.endswith(":"):
            declared = token.text
            continue
        if token.kind == "iri":
            iri = token.text[1:-1]
            if declared:
                known[declared[:-1]] = iri
        elif token.kind == "name":
            prefix, _, local = token.text.partition(":")
            iri = known.get(prefix, "") + re.sub(r"\\(.)", r"\1", local)
        else:
            declared = ""
            continue
        declared = ""
        if iri in iris:
            names.add(iris[iri])
    return frozenset(names) or None


def _iris(schemas: Mapping[str, Schema], vocabulary: EventVocabulary) -> dict[str, str]:
    names = {}
    for name, schema in schemas.items():
        names[vocabulary.type(schema)] = name
        names |= {vocabulary.property(schema, number): name for number in range(len(schema.attributes))}
    return names


def _compared(before: Counter[str], answer: Answer) -> tuple[list[str], Counter[str], str | None]:
    """Compare the new result of a query with its previous rows. Return the result's variables, its rows, and the
    difference as a message. The message is None if there is no difference.

    Raises QueryRefused if the query is not a SELECT.
    """
    document = json.loads(answer.body) if answer.format == "json" else {}
    if "results" not in document:
        raise QueryRefused(_NO_TABLE, "only a SELECT can be watched")
    rows = Counter(json.dumps(row, sort_keys=True, ensure_ascii=False) for row in document["results"]["bindings"])
    added, removed = rows - before, before - rows
    change = f'{{"added": {_list(added)}, "removed": {_list(removed)}}}'
    return document["head"]["vars"], rows, _message("change", change) if added or removed else None


def _refusal(error: Exception) -> QueryRefused:
    return error if isinstance(error, QueryRefused) else QueryRefused("failed", f"{type(error).__name__}: {error}")


def _whole(watched: _Watched) -> str:
    head = _json({"vars": watched.variables})
    return _message("answer", f'{{"head": {head}, "results": {{"bindings": {_list(watched.rows)}}}}}')


def _list(rows: Counter[str]) -> str:
    return "[" + ", ".join(rows.elements()) + "]"


def _message(kind: str, text: str) -> str:
    return f"event: {kind}\ndata: {text}\n\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _end(queue: asyncio.Queue[str | None]) -> None:
    """Put the end marker into a queue. If the queue is full, first drop all its messages."""
    if not _put(queue, None):
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


def _put(queue: asyncio.Queue[str | None], message: str | None) -> bool:
    try:
        queue.put_nowait(message)
    except asyncio.QueueFull:
        return False
    return True
