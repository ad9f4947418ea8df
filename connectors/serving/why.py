"""`/why/{id}` and `/why-not`: why an event was derived, or why not. The engine is read between two batches."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import PlainTextResponse, Response

from cep.connectors.rdf.question import Question
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import TIME, EventVocabulary
from cep.connectors.records.times import ISO, SECONDS, iso, of_duration, of_iso
from cep.connectors.serving.fair_lock import FairLock
from cep.connectors.serving.negotiation import negotiated
from cep.connectors.serving.openapi import route_responses
from cep.connectors.serving.scene import Scene
from cep.connectors.why import revised
from cep.connectors.why.lines import refusals, tree, withdrawn
from cep.connectors.why.live_revisions import LiveRevisions
from cep.connectors.why.origins import Origins
from cep.connectors.why.prov import provenance
from cep.connectors.why.text import Explainer, by_id
from cep.core.errors import CepError
from cep.core.literals import say_duration
from cep.engine import Engine
from cep.explain.derivation import DEEPEST, MOST
from cep.explain.judging import SupportingTriples
from cep.explain.occurrences import Occurrence
from cep.explain.question import UNIT, read_question

FORMS: Mapping[str, str] = {
    "application/json": "json",
    "text/plain": "text",
    "application/n-triples": "prov",
    "text/turtle": "prov",
}
"""For each media type, the name of the same format in `cep explain --format`. N-Triples are also valid Turtle."""

TYPES = {"json": "application/json", "text": "text/plain; charset=utf-8", "prov": "application/n-triples"}
FARTHEST, LARGEST = 100, 2_000
"""The maximum depth of a tree, and its maximum number of events."""
WAITING = 16
"""The maximum number of questions that wait for an answer."""

Form = Literal["json", "text", "prov"]
JsonAnswer = Awaitable[dict[str, Any]]
Plain = Mapping[str, Callable[[Mapping[str, Any], "Questions"], str]]
Ended = Callable[[str], tuple[str | None, int | None] | None]
"""A function that returns the event type and the end of the event that has an `@id`. It returns None for an unknown id.

The end is None if it is unknown, or if a fluent's interval is still open.
"""

_ID = re.compile(r"[0-9a-f]{32}")
_OBJECT = {"type": "object"}
_NO_STORE = {"Cache-Control": "no-store", "Vary": "Accept"}


class Unanswered(Exception):
    """Raised if a question has no answer. The message is the reason. `status`: the HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The maximum time in seconds for which a question may block the engine."""

    seconds: float

    def until(self) -> Callable[[], None]:
        """Return a function that raises Unanswered as soon as the time limit has passed."""
        end = time.monotonic() + self.seconds

        def still() -> None:
            if time.monotonic() > end:
                raise Unanswered(
                    503, f"the answer took longer than {self.seconds:g} s; request less with `depth` or `most`"
                )

        return still


class Questions:
    """Questions to an engine that was created with `remember`. A separate thread answers them one after the other.

    The thread reads the engine while it holds `lock`. After each answer, the thread waits for as long as it has held
    the lock. So the program can use the engine at least half of the time.

    - `ended`: a function that finds events by their `@id`.
    - `unit`: the unit of numeric times, as in `read_question`.
    - `since`: for some events, the time until which an earlier program of this server derived them.
    - `cuts`: for some fluents, the time before which their intervals are cut off.
    """

    def __init__(
        self,
        engine: Engine,
        lock: FairLock,
        ended: Ended,
        facts: SupportingTriples | None = None,
        origins: Origins | None = None,
        seconds: float = 10.0,
        vocabulary: EventVocabulary | None = None,
        revisions: LiveRevisions | None = None,
        unit: Fraction | None = UNIT,
        since: Mapping[str, int] | None = None,
        cuts: Mapping[str, int] | None = None,
    ) -> None:
        assert engine.history is not None and engine.history.remember is not None, "the engine remembers"
        self.engine, self.lock, self.ended = engine, lock, ended
        self.facts, self.origins, self.check_limit = facts, origins, TimeLimit(seconds)
        self.vocabulary, self.revisions = vocabulary or EventVocabulary(), revisions
        self.remember, self.unit = engine.history.remember, unit
        self.since, self.cuts = dict(since or {}), dict(cuts or {})
        self._thread = ThreadPoolExecutor(1, "why")
        self._waiting, self._next = 0, 0.0
        self._counting = threading.Lock()

    async def why(self, id: str, most: int, depth: int) -> dict[str, Any]:
        """Return the explanation of a derived event as a tree, or the changes of a withdrawn event.

        Raises Unanswered if the event is unknown, or its derivation is no longer remembered.
        """
        if self.revisions is not None and (changes := self.revisions.changes(id)) and not changes[-1].added:
            gone = await self._in_thread(lambda explainer: {"gone": revised.withdrawn(explainer, id)})
            if gone["gone"]:
                return {**gone["gone"][0], "withdrawn": True}
        event_and_end = await asyncio.to_thread(self.ended, id)
        if event_and_end is None:
            raise Unanswered(404, f"no derived event has the id `{id}`, or it is no longer kept")
        event, end = event_and_end

        def explain(explainer: Explainer) -> dict[str, Any]:
            try:
                occurrence = by_id(self.engine, id, event, end, self.cuts)
            except CepError:
                what = (
                    f"events that ended in the last {say_duration(self.remember)} and came since the server was started"
                )
                if self.since:
                    what += (
                        "; of events with changed rules, it knows only those that ended since this program took over"
                    )
                when = "" if end is None else f", which ended at {iso(end)}"
                gone = f"the server no longer knows what led to this event{when}; it knows this for {what}"
                raise Unanswered(410, f"{gone}: `--remember` sets how long") from None
            return {**explainer.why(occurrence, most, depth), "id": id}

        return await self._in_thread(explain)

    async def why_not(self, event: str, when: str, back: int | None) -> dict[str, Any]:
        """Explain for each rule why it did not derive an event.

        Raises Unanswered if there is no answer, and CepError if `event` or `when` is not valid.
        """

        def explain(explainer: Explainer) -> dict[str, Any]:
            question = read_question(event, self.engine, when, self.unit)
            begun = self.since.get(question.event)
            if begun is not None and question.until <= begun:
                text = f"the rules of `{question.event}` have changed: events until {iso(begun)} come from other rules"
                raise Unanswered(410, f"{text}; ask about a later time")
            answer = explainer.why_not(question, back)
            gone = [] if answer["exists"] else revised.withdrawn(explainer, question)
            return answer | {"withdrawn": gone} if gone else answer

        return await self._in_thread(explain)

    async def _in_thread(self, question: Callable[[Explainer], dict[str, Any]]) -> dict[str, Any]:
        with self._counting:
            if self._waiting >= WAITING:
                raise Unanswered(503, "too many questions are waiting")
            self._waiting += 1
        try:
            waiting = self._thread.submit(self._answered, question)
        except RuntimeError:  # another program has replaced this one since the request
            with self._counting:
                self._waiting -= 1
            raise Unanswered(503, "the program is being changed; ask again") from None
        return await asyncio.wrap_future(waiting)

    def _answered(self, question: Callable[[Explainer], dict[str, Any]]) -> dict[str, Any]:
        try:
            time.sleep(max(0.0, self._next - time.monotonic()))
            if not self.lock.acquire(self.check_limit.seconds):
                raise Unanswered(503, "the program is busy with a long batch; ask again")
            began = time.monotonic()
            try:
                # Numbers are seconds for clients.
                times = SECONDS if self.origins is not None and self.origins.times == SECONDS else ISO
                until, revisions = self.check_limit.until(), self.revisions
                return question(Explainer(self.engine, self.facts, self._origin, times, until, revisions))
            finally:
                self.lock.release()
                self._next = 2 * time.monotonic() - began
        finally:
            with self._counting:
                self._waiting -= 1

    def _origin(self, record: Occurrence) -> tuple[str, int] | None:
        """Return the file name and line of a record, without folders, which clients must not see."""
        return None if self.origins is None else self.origins.named(record)

    def close(self) -> None:
        """Refuse further questions. Questions that are already waiting are still answered."""
        self._thread.shutdown(wait=False)


def ended(scene: Scene, store: StoreProcess, vocabulary: EventVocabulary) -> Ended:
    """Return a function that finds an event by its id. It searches the newest events, and then the store."""

    def found(id: str) -> tuple[str | None, int | None] | None:
        if (event := scene.event(id)) is not None:
            return str(event["type"]), None if event["end"] is None else int(event["end"])
        subject = f"<{vocabulary.event(id)}>"
        query = f"SELECT ?end {{ {subject} a ?type OPTIONAL {{ {subject} <{TIME}hasEnd> ?end }} }}"
        answer = json.loads(store.ask(Question(query)).result().body)
        rows = answer["results"]["bindings"]  # an interval that still holds has no end
        stamps = [row["end"]["value"].removeprefix(vocabulary.instant()) for row in rows if "end" in row]
        return (None, of_iso(stamps[0]) if stamps else None) if rows else None

    return found


def router(questions: Questions | None) -> APIRouter:
    """Return the routes of `/why` and `/why-not`.

    `questions`: answers the questions. It is None if the server keeps no lineage; then every response says so.
    """
    routes = APIRouter(tags=["why"], default_response_class=Response)
    busy = "The answer takes too long, or too many requests wait; `Retry-After` says when to ask again."
    trees = route_responses(
        *FORMS,
        json=_OBJECT,
        _404="There is no such event.",
        _410="The origins of the event are no longer kept.",
        _503=busy,
    )
    absences = ("application/json", "text/plain")
    changed = "Other rules have derived the event at that time."
    wrong, unkept = "There is no such event or time.", "The server does not keep the origins of events."

    async def answered(
        request: Request, form: Form | None, ask: Callable[[Questions], JsonAnswer], plain: Plain
    ) -> Response:
        try:
            if questions is None:
                raise Unanswered(
                    404, "this server does not keep the origins of events: start it with `cep serve --explain`"
                )
            chosen = form or negotiated(request.headers, FORMS)
            if chosen not in plain:
                raise Unanswered(
                    406,
                    f"answers have the media types {', '.join(kind for kind, form in FORMS.items() if form in plain)}",
                )
            explained = await ask(questions)
            return Response(plain[chosen](explained, questions), media_type=TYPES[chosen], headers=_NO_STORE)
        except Unanswered as error:
            more = {"Retry-After": "5"} if error.status == 503 else {}
            return PlainTextResponse(f"{error}\n", error.status, _NO_STORE | more)
        except CepError as error:
            return PlainTextResponse(f"{str(error).removeprefix('--')}\n", 400, _NO_STORE)

    @routes.get("/why/{id}", responses=trees)
    async def why(
        request: Request,
        id: str,
        most: Annotated[int, Query(ge=1, le=LARGEST)] = MOST,
        depth: Annotated[int, Query(ge=1, le=FARTHEST)] = DEEPEST,
        format: Form | None = None,
    ) -> Response:
        """Return the explanation of a derived event as a tree, as `cep explain` does. For an event that was withdrawn,
        return its changes."""
        name = id.removeprefix("@")
        if not _ID.fullmatch(name):
            return PlainTextResponse("an `@id` has 32 hexadecimal digits\n", 404, _NO_STORE)
        return await answered(request, format, lambda ask: ask.why(name, most, depth), _TREES)

    @routes.get(
        "/why-not", responses=route_responses(*absences, json=_OBJECT, _400=wrong, _404=unkept, _410=changed, _503=busy)
    )
    async def why_not(
        request: Request,
        event: Annotated[str, Query(max_length=1_000)],
        at: Annotated[str, Query(max_length=100)],
        back: Annotated[str | None, Query(max_length=40)] = None,
        format: Form | None = None,
    ) -> Response:
        """Explain why there is no such event at a time, as `cep explain --not` does."""
        try:
            before = None if back is None else of_duration(back)
        except ValueError:
            text = f"back: `{back}` is not a valid duration; use e.g. `90 min`, `PT90M`\n"
            return PlainTextResponse(text, 400, _NO_STORE)
        return await answered(request, format, lambda ask: ask.why_not(event, at, before), _REFUSALS)

    return routes


def _json(explained: Mapping[str, Any], questions: Questions) -> str:
    return json.dumps(explained, ensure_ascii=False)


def _provenance(explained: Mapping[str, Any], questions: Questions) -> str:
    if "withdrawn" in explained:
        raise Unanswered(410, "this event was withdrawn, so it has no derivation; request JSON or text to learn why")
    return provenance(explained, questions.engine, questions.vocabulary)


def _refused(explained: Mapping[str, Any], questions: Questions) -> str:
    gone = [line for withdrawn_event in explained.get("withdrawn", ()) for line in (*withdrawn(withdrawn_event), "")]
    return "\n".join([*gone, *refusals(explained), ""])


_TREES: Plain = {
    "json": _json,
    "text": lambda explained, asked: "\n".join([*(withdrawn if "withdrawn" in explained else tree)(explained), ""]),
    "prov": _provenance,
}
_REFUSALS: Plain = {"json": _json, "text": _refused}
