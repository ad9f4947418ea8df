"""The state of the live page, in bounded memory: the newest derived events, the state of each station, and the row
counts of the program's operators.

Changes of this state are numbered from 1. A client states the number of the last change that it has received, and then
receives the later changes.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import polars as pl

from cep.connectors.alerts.text import clean, json_value
from cep.connectors.records.late_input import Told
from cep.connectors.service import Round, Service
from cep.connectors.serving.gazette import Gazette, SubjectColumns, subject_ends
from cep.connectors.serving.readings import Readings
from cep.connectors.serving.withdrawn_events import WithdrawnEvents, subjects
from cep.core.identity import ID
from cep.core.schema import Schema
from cep.core.time import BEGINNING, END_OF_TIME
from cep.plan.order import PlanUnit
from cep.rules.expressions.geodesy import LatLong

EVENTS = 20_000
"""The maximum number of derived events that are kept. If there are more, the oldest are dropped."""
STATIONS = 20_000
"""The maximum number of stations that are shown. Subjects beyond this number are only counted."""

MISSED = 3
"""A station counts as without data if no record arrives within MISSED times the usual gap between its records."""

_BECAUSE = "because"


@dataclass(slots=True)
class Station:
    """A subject whose coordinates are known.

    - `last_record`: the end of the latest input record about the subject.
    - `last_event`: the end of the latest derived event about the subject.
    - `holding`: the fluents that hold for the subject now; the keys are the ids of their intervals.
    - `gap`: an upper estimate of the usual time between two records about the subject; 0 if unknown.
    - `awaited`: True if the scene watches for missing records.
    - `missing`: True if the station's next record is overdue.
    """

    key: str
    name: str
    point: LatLong
    number: int = 0
    last_record: int = BEGINNING
    last_event: int = BEGINNING
    event: str = ""
    holding: dict[str, str] = field(default_factory=dict)
    gap: int = 0
    awaited: bool = False
    missing: bool = False

    @property
    def overdue(self) -> int:
        """The time at which the next record is overdue."""
        return self.last_record + MISSED * self.gap

    @property
    def state(self) -> str:
        """The state that the page displays.

        - `missing`: the next record is overdue.
        - `event`: the latest record is not newer than the latest derived event.
        - `quiet`: the latest record is newer than the latest derived event.
        - `silent`: there has been neither a record nor an event.
        """
        if self.missing:
            return "missing"
        if self.last_event == self.last_record == BEGINNING:
            return "silent"
        return "event" if self.last_event >= self.last_record else "quiet"

    def shown(self) -> dict[str, Any]:
        lat, long = self.point
        document = {
            "key": self.key,
            "name": self.name,
            "lat": lat,
            "long": long,
            "state": self.state,
            "event": self.event,
        }
        if self.missing:
            document["last"] = self.last_record
        return document | ({"holds": list(dict.fromkeys(self.holding.values()))} if self.holding else {})


class Scene:
    """The state of the live page. It listens to a service, and any thread may read it."""

    def __init__(self, service: Service, gazette: Gazette | None = None) -> None:
        self.service = service
        self.gazette = gazette or Gazette()
        self.lock = threading.Lock()
        self.closed = False
        self.number = 0
        self.events: deque[tuple[int, str, bytes]] = deque(maxlen=EVENTS)
        self.stations: OrderedDict[str, Station] = OrderedDict()
        self.unplaced: set[str] = set()
        self.made: dict[PlanUnit, int] = {}
        self.rows: dict[PlanUnit, int] = {}
        self.derived: dict[str, int] = dict.fromkeys(service.outputs, 0)
        self._open: dict[str, set[str]] = {}  # ids of open intervals, by fluent
        self.lost: tuple[str, ...] = ()  # lost sources
        self.reached: int | None = None  # the watermark; at the end of the input it has no bound
        self._schemas: dict[str, Schema] = {**service.inputs, **service.outputs}
        self._subject_columns = {name: SubjectColumns.of(schema) for name, schema in self._schemas.items()}
        self._iris = {
            name: [attribute.name for attribute in schema.attributes if attribute.type == "iri"]
            for name, schema in self._schemas.items()
        }
        self._gone = 0
        self.withdrawn, self._revised = WithdrawnEvents(), service.engine.withdraws
        # strings and tuples only, which garbage collection does not have to search
        self._ids: dict[str, tuple[int, str, bytes, str | None]] = {}
        self.readings = Readings(service.inputs, self._subject_columns)
        self._due: list[tuple[int, str]] = []  # times at which awaited stations are overdue, or once were
        self._waiting: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}
        for thing, key in self.gazette.stations.items():
            self._station(key, thing)
        service.listen(self.take)

    def begin(self, held: Mapping[str, pl.DataFrame]) -> None:
        """Add the fluents that held when an earlier run of the program was stopped."""
        with self.lock:
            self._latest(held, "last_event")
            self._add(held)

    def go_on(self, before: Scene) -> None:
        """Copy the state of the page from the previous program's scene, which must have no listeners any more."""
        with self.lock, before.lock:
            self.number, self._gone = before.number + 1, before._gone
            self.events, self._ids, self.withdrawn = before.events, before._ids, before.withdrawn
            self.stations, self.unplaced, self._due = before.stations, before.unplaced, before._due
            self.lost, self.reached = before.lost, before.reached

    # --- in the engine's thread ---

    def take(self, step_round: Round) -> None:
        self.readings.take(step_round.inputs)
        with self.lock:
            self._latest(step_round.inputs, "last_record")
            again = (
                {id for table in step_round.derived.values() for id in table[ID].to_list()}
                if step_round.withdrawn
                else set()
            )
            self._withdraw(step_round.withdrawn, step_round.late, again)
            self._latest(step_round.derived, "last_event")
            self._add(step_round.derived)
            if abs(step_round.watermark) <= 2**60:
                self.reached = step_round.watermark
                self._miss(step_round.watermark)
            self.rows = {count.unit: count.rows for count in step_round.counts}
            for count in step_round.counts:
                self.made[count.unit] = self.made.get(count.unit, 0) + count.produced
        self._ring()

    def _latest(self, tables: Mapping[str, pl.DataFrame], field: str) -> None:
        """Update the stations of all subjects in `tables`: the latest end of events or records, and the coordinates.

        `field`: the field of Station that stores this end. If several events about a subject have the same end, the
        page shows the last of these events.
        """
        known = {name: table for name, table in tables.items() if self._subject_columns[name].subject and table.height}
        if not known:
            return
        names = list(known)
        for subject, end, event, lat, long in subject_ends(known, self._subject_columns).iter_rows():
            point = None if lat is None else (lat, long)
            station = self._station(subject, None, point)
            if station is None:
                continue
            before = station.state, station.point, station.event
            station.point = point or station.point
            if field == "last_record":
                self._heard(station, end)
            setattr(station, field, max(getattr(station, field), end))
            if field == "last_event" and station.last_event == end:
                station.event = names[event]
            if before != (station.state, station.point, station.event):
                self._changed(station)

    def _heard(self, station: Station, end: int) -> None:
        if station.last_record != BEGINNING and end > station.last_record:
            station.gap = max(end - station.last_record, station.gap * 99 // 100)
            if not station.awaited:
                station.awaited = True
                heapq.heappush(self._due, (end + MISSED * station.gap, station.key))
        station.missing = False

    def _miss(self, now: int) -> None:
        while self._due and self._due[0][0] < now:
            station = self.stations[heapq.heappop(self._due)[1]]
            if station.overdue >= now:
                heapq.heappush(self._due, (station.overdue, station.key))
            else:
                station.awaited, station.missing = False, True
                self._changed(station)

    def _station(self, key: str, thing: str | None = None, point: LatLong | None = None) -> Station | None:
        if (known := self.stations.get(key)) is not None:
            return known
        if key in self.unplaced and point is None:
            return None
        thing = thing or self.gazette.thing(key)
        point = point or (self.gazette.points[thing] if thing is not None else None)
        if point is None or len(self.stations) >= STATIONS:
            if len(self.unplaced) < STATIONS:
                self.unplaced.add(key)
            return None
        station = Station(key, self.gazette.names.get(thing or "", key), point)
        self.stations[key] = station
        self._changed(station)
        return station

    def _changed(self, station: Station) -> None:
        self.number += 1
        station.number = self.number
        self.stations.move_to_end(station.key)

    def _add(self, derived: Mapping[str, pl.DataFrame]) -> None:
        """Add derived events, sorted by time. If there are too many events, drop the oldest."""
        rows: list[tuple[int, int, str, pl.DataFrame, int]] = []
        for name, table in derived.items():
            began = 0
            if self._schemas[name].fluent is not None:
                began = table["end"].null_count()
                held = self._open.setdefault(name, set())
                held.update(table.filter(pl.col("end").is_null())[ID].to_list())
                held.difference_update(table.filter(pl.col("end").is_not_null())[ID].to_list())
            self.derived[name] = self.derived.get(name, 0) + table.height - began
            few = table
            if table.height > EVENTS:
                few = table.sort("end", nulls_last=True, maintain_order=True).tail(EVENTS)
            for row, (end, start) in enumerate(zip(few["end"].to_list(), few["start"].to_list(), strict=True)):
                begun, over = BEGINNING if start is None else start, END_OF_TIME if end is None else end
                rows.append((over, begun, name, few, row))
        rows.sort(key=lambda row: row[:3])
        for *_, name, table, row in rows[-EVENTS:]:
            values = table.row(row, named=True)
            id, because = values[ID], values.get(_BECAUSE)
            document = self._document(name, values)
            if self._schemas[name].fluent is not None:
                document["holds"] = True
                self._holds(name, document)
            if places := [place for column in self._iris[name] if (place := self._place(values[column])) is not None]:
                document["places"] = places
            self.number += 1
            if len(self.events) == EVENTS:
                self._gone, gone, _ = self.events[0]
                if self._ids[gone][0] == self._gone:
                    text = self._ids.pop(gone)[2]
                    if self._revised:
                        self.withdrawn.dropped(gone, json.loads(text)["key"])
            text = json.dumps(document, separators=(",", ":")).encode()
            self.events.append((self.number, id, text))
            self._ids[id] = self.number, name, text, because
            if self._revised:
                self.withdrawn.came(document)

    def _withdraw(self, tables: Mapping[str, pl.DataFrame], why: Told, again: Set[str]) -> None:
        """Remove withdrawn events, and update the stations of their subjects.

        `why`: a function that describes the cause of the revision. `again`: the ids of events that the same step
        derives again with another end or other sources. These events do not count as withdrawn.
        """
        gone = {id for table in tables.values() for id in table[ID].to_list()}
        if not gone:
            return
        self.events = deque((event for event in self.events if event[1] not in gone), maxlen=EVENTS)
        reason = clean(why()) if gone - again else ""
        for name, table in tables.items():
            fluent = self._schemas[name].fluent is not None
            self._open.get(name, set()).difference_update(table[ID].to_list())
            self.derived[name] -= table.height - (table["end"].null_count() if fluent else 0)
            for row in table.tail(EVENTS).iter_rows(named=True):
                self._ids.pop(row[ID], None)
                document = self._document(name, row)
                if fluent:
                    self._over(document)
                if row[ID] in again:
                    self.withdrawn.dropped(row[ID], document["key"])
                    continue
                self.number += 1
                self.withdrawn.withdraw(self.number, document | {"why": reason}, self.reached)
        for key in subjects(tables, lambda name: self._subject_columns[name].subject):
            station = self.stations.get(key)
            if station is not None:
                before = station.state, station.event
                station.last_event, station.event = self.withdrawn.latest(key)
                if before != (station.state, station.event):
                    self._changed(station)

    def _document(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a derived event as JSON for the page. `values`: the event's row."""
        subject = self._subject_columns[name].subject
        about = None if subject is None else values.get(subject)
        return {
            "id": values[ID],
            "type": name,
            "start": values["start"],
            "end": values["end"],
            "key": None if about is None else str(about),
            "values": {
                attribute.name: json_value(values[attribute.name], attribute.type)
                for attribute in self._schemas[name].attributes
            },
        }

    def _holds(self, name: str, document: Mapping[str, Any]) -> None:
        station = self.stations.get(document["key"] or "")
        if station is None:
            return
        before = list(station.holding.values())
        if document["end"] is None:
            station.holding[document["id"]] = name
        else:
            station.holding.pop(document["id"], None)
        if before != list(station.holding.values()):
            self._changed(station)

    def _over(self, document: Mapping[str, Any]) -> None:
        station = self.stations.get(document["key"] or "")
        if station is not None and station.holding.pop(document["id"], None) is not None:
            self._changed(station)

    def _place(self, iri: object) -> dict[str, Any] | None:
        point = self.gazette.points.get(str(iri))
        if point is None or str(iri) in self.gazette.stations:
            return None
        return {"iri": str(iri), "name": self.gazette.names.get(str(iri), str(iri)), "lat": point[0], "long": point[1]}

    def without(self, lost: Sequence[str]) -> None:
        """Set the names of the sources that are lost now."""
        self.lost = tuple(lost)
        self._ring()

    # --- in any thread ---

    def behind(self, number: int, most: int) -> tuple[int, list[bytes], list[dict[str, Any]]] | None:
        """Return the changes whose numbers are greater than `number`. The result consists of the number of the last of
        these changes, the new events, and the changed stations.

        At most `most` events are returned, oldest first. Return None if some of the events are no longer kept, or if no
        change has the number `number` yet.
        """
        with self.lock:
            if not max(self._gone, self.withdrawn.gone) <= number <= self.number:
                return None
            events, stations = [], []
            for event_number, _, text in reversed(self.events):
                if event_number <= number:
                    break
                events.append((event_number, text))
            for station in reversed(self.stations.values()):
                if station.number <= number:
                    break
                stations.append(station)
            events.reverse()
            reached = events[most - 1][0] if len(events) > most else self.number
            few = [station.shown() for station in reversed(stations) if station.number <= reached]
            return reached, [text for _, text in events[:most]], few

    def newest(self, most: int) -> tuple[int, list[bytes], list[dict[str, Any]]]:
        """Return the number of the latest change, the `most` newest events (oldest first), and all stations."""
        with self.lock:
            events = [text for _, _, text in islice(reversed(self.events), most)]
            return self.number, events[::-1], [station.shown() for station in self.stations.values()]

    def withdrawn_since(self, time: int) -> list[dict[str, Any]]:
        """Return the events that existed when the watermark was `time` and were withdrawn later. The event that was
        withdrawn first comes first."""
        with self.lock:
            texts = self.withdrawn.documents()
        withdrawn = []
        for document in map(json.loads, texts):
            end = document["start"] if document["end"] is None or document.get("holds") else document["end"]
            if (end is None or end <= time) and (document["withdrawn"] is None or document["withdrawn"] > time):
                withdrawn.append(document)
        return withdrawn

    def taken_back(self, number: int, reached: int) -> list[bytes]:
        """Return the events that were withdrawn by the changes after `number`, up to and including `reached`.

        The oldest withdrawal comes first.
        """
        with self.lock:
            return self.withdrawn.behind(number, reached)

    def event(self, id: str) -> dict[str, Any] | None:
        """Return an event that is kept or was withdrawn recently. Return None if the id is unknown.

        The member `because` of the event is its lineage, or None if the lineage is unknown.
        """
        with self.lock:
            entry = self._ids.get(id)
            gone = self.withdrawn.document(id) if entry is None else None
        if entry is None:
            return None if gone is None else {**gone, "because": None}
        _, _, text, because = entry
        return {**json.loads(text), "because": None if because is None else json.loads(because)}

    def summary(self) -> dict[str, Any]:
        """Return the counters that show the progress of the run."""
        last = self.service.last
        with self.lock:
            return {
                "rounds": 0 if last is None else last.number,
                "records": 0 if last is None else last.records,
                "dead": 0 if last is None else last.dead,
                "watermark": self.reached,
                "ended": self.service.ended,
                "lost": list(self.lost),
                "ahead": self.service.stats.dead["ahead"],
                "derived": dict(self.derived),
                "holding": sum(map(len, self._open.values())),
                "withdrawn": self.withdrawn.counts.total(),
                "made": {str(unit): count for unit, count in self.made.items()},
                "waiting": {str(unit): rows for unit, rows in self.rows.items() if rows},
                "unplaced": len(self.unplaced),
            }

    def bell(self) -> asyncio.Event:
        """Return an asyncio event of the current loop. The scene sets this event when its state changes."""
        with self.lock:
            return self._waiting.setdefault(asyncio.get_running_loop(), asyncio.Event())

    def close(self) -> None:
        """Close the streams of all clients."""
        self.closed = True
        self._ring()

    def _ring(self) -> None:
        with self.lock:
            waiting, self._waiting = self._waiting, {}
        for loop, bell in waiting.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(bell.set)
