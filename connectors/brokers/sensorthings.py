"""A SensorThings service as an input. Its observations are requested page by page, at regular intervals.

The option `by` sets the order of the requested observations. With `by=id`, new observations that have old times are not
missed, because databases assign increasing ids to new rows. However, concurrent transactions may not commit in the
order of their ids. So the observations with the highest ids are requested again, and those that were received before
are dropped. If the order is by time, the observations that have the latest time are requested again.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from cep.connectors.addresses import Address
from cep.connectors.brokers.messages import Messages
from cep.connectors.brokers.sources import SourceLost
from cep.connectors.formats.packs import elements
from cep.connectors.records.times import iso, of_iso
from cep.connectors.records.values import Unreadable
from cep.core.errors import CepError, reason_of
from cep.core.http_reader import HttpFailure, JsonReader, Server

ORDERS = ("id", "resultTime", "phenomenonTime")
LOGIN = "SEMCEP_SENSORTHINGS"
"""The prefix of the environment variables that contain a login."""

AGAIN = 256
"""The number of observations with the highest ids that are requested again. Transactions may commit out of order."""

_LAST, _COUNT, _FLOOR, _ORDER = 0, -1, -2, -3  # keys in a position; keys from 1 on hold the latest known observations
_SETS = "Things", "Datastreams", "Observations"
_PAGES = 2  # the number of pages of observations that wait to be polled
_ID = "@iot.id"
_NEXT = re.compile(r'"@iot\.nextLink"\s*:\s*("(?:[^"\\]|\\.)*")')
_VALUE = "(),'/:$"
_SAFE = "%$&=()',/:;+!*@?~"

Item = tuple[bytes, int, dict[int, int]]
"""An observation: its text, its number, and the entries of the source's position that it changes."""


class ById:
    """A position in observations that are ordered by numeric id. The highest `AGAIN` ids are requested again."""

    def __init__(self, place: Mapping[int, int]) -> None:
        self.place = dict(place)
        self.begin_cycle()

    @property
    def filter(self) -> str | None:
        """The `$filter` that selects new observations, or None if all existing observations may be new."""
        return None if self._low is None else f"id gt {self._low}"

    def begin_cycle(self) -> None:
        """Start a cycle of requests. Its first request includes the `AGAIN` highest ids that were received before."""
        last = self.place.get(_LAST)
        self._low = None if last is None else max(last - AGAIN, self.place.get(_FLOOR, last - AGAIN))
        self._before = self._low

    def take(self, row: dict[str, Any]) -> dict[int, int] | None:
        """Add an observation to the position. Return the changed entries of the position, or None if the observation
        was received before.

        Raises ValueError if the service ignores the filter or the order.
        """
        number = _number(row)
        if self._low is not None and number <= self._low:
            raise ValueError(f"the service ignores `$filter={self.filter}`: it sends the id {number}")
        if self._before is not None and number <= self._before:
            raise ValueError(f"the service ignores `$orderby=id asc`: it sends the id {number} after {self._before}")
        self._before = number
        last = self.place.get(_LAST, number - 1)
        slot = 1 + number % AGAIN
        if number <= last and self.place.get(slot) == number:
            return None
        changed = {_LAST: max(last, number), slot: number}
        self.place |= changed
        return changed

    def go_on(self) -> None:
        """Continue the cycle after the last observation that was received. Later requests of the cycle return only
        observations that have a higher id."""
        self._low = self._before

    def skip(self, rows: list[dict[str, Any]]) -> None:
        """Set the position after all existing observations. `rows`: those with the highest ids, in descending order."""
        if rows:
            number = _number(rows[0])
            self.place |= {_LAST: number, _FLOOR: number}
            self.begin_cycle()


class ByTime:
    """A position in observations that are ordered by time. It has the same methods as `ById`.

    The observations that have the latest time are requested again.
    """

    def __init__(self, place: Mapping[int, int], key: str) -> None:
        self.place, self._key = dict(place), key
        self._known = {self.place[slot] for slot in range(1, self.place.get(_COUNT, 0) + 1)}

    @property
    def filter(self) -> str | None:
        last = self.place.get(_LAST)
        return None if last is None else f"{self._key} ge {iso(last)}"

    def begin_cycle(self) -> None:
        """Do nothing at the start of a cycle of requests: the filter already includes the latest time."""

    def take(self, row: dict[str, Any]) -> dict[int, int] | None:
        time, mark = self._time(row), _mark(row)
        last = self.place.get(_LAST)
        if last is not None and time < last:
            asked = f"`$filter={self._key} ge …` and `$orderby={self._key} asc`"
            raise ValueError(f"the service ignores {asked}: it sends {iso(time)} after {iso(last)}")
        if time != last:
            self._known.clear()
        if mark in self._known:
            return None
        self._known.add(mark)
        changed = {_LAST: time, _COUNT: len(self._known), len(self._known): mark}
        self.place |= changed
        return changed

    def skip(self, rows: list[dict[str, Any]]) -> None:
        latest = [row for row in rows if self._time(row) == self._time(rows[0])]
        for row in latest:
            self.take(row)

    def _time(self, row: dict[str, Any]) -> int:
        text = row.get(self._key)
        if not isinstance(text, str):
            other = "phenomenonTime" if self._key == "resultTime" else "resultTime"
            raise ValueError(f"an observation has no `{self._key}`, try `?by={other}`")
        if "/" in text:
            raise ValueError(
                f"`{self._key}` is an interval, `{text}`, and intervals have no order; try `?by=resultTime`"
            )
        return of_iso(text)


class Observations:
    """The observations of a service after a position. With `until=now`, later observations are not read."""

    lost = None

    def __init__(self, address: Address, place: Mapping[int, int]) -> None:
        """Prepare a source without requests. Raises CepError if an option is wrong."""
        self._address = address
        by = address.choice("by", ORDERS)
        order = ORDERS.index(by)
        if place.get(_ORDER, order) != order:
            hint = f"use `?by={ORDERS[place[_ORDER]]}`, or start afresh with another folder"
            raise address.refused(f"the observations were read by {ORDERS[place[_ORDER]]} so far", hint)
        self._by = by
        self._position: ById | ByTime = ById(place) if by == "id" else ByTime(place, by)
        self._every = address.number("every", 5, 0.1)
        self._top = int(address.number("page", 1000, 1))
        self._bounded = address.choice("until", ("ever", "now")) == "now"
        self._latest = address.choice("from", ("earliest", "latest")) == "latest" and not place
        self._fixed = {_ORDER: order}
        self._belongs: tuple[str, ...] = ()
        try:
            self._reader = JsonReader(server(address))
        except HttpFailure as failure:
            raise address.refused(failure.reason, failure.hint) from None
        self._there = threading.Condition()
        self._waiting: deque[Item] = deque()
        self._counted = 0
        self._error: Exception | None = None
        self._over = self._closed = False

    @classmethod
    def open(cls, address: Address, place: Mapping[int, int]) -> Observations:
        """Open a source, and wait until its service has answered. Raises CepError if it does not answer or refuses."""
        source = cls(address, place)
        try:
            source._start()
        except BaseException:
            source._reader.close()
            raise
        return source

    @property
    def place(self) -> Mapping[int, int]:
        """The position at which the source was opened."""
        return self._opened

    def poll(self, most: int, seconds: float) -> Messages | None:
        with self._there:
            self._there.wait_for(lambda: bool(self._waiting) or self._over or self._error is not None, seconds)
            items = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            self._there.notify_all()
            if not items and self._error is not None:
                raise self._error
            if not items and self._over:
                return None
        place: dict[int, int] = {}
        for _, _, changed in items:
            place |= changed
        numbers, payloads = [number for _, number, _ in items], [payload for payload, _, _ in items]
        return Messages([self._address.text] * len(items), numbers, payloads, place | self._fixed if items else place)

    def done(self) -> None:
        """Do nothing, because the service needs no acknowledgements."""

    def kept(self) -> None:
        """Do nothing, because the service needs no acknowledgements."""

    def close(self) -> None:
        with self._there:
            self._closed = True
            self._there.notify_all()

    def _start(self) -> None:
        """Send the first request, and start a thread that sends the further requests. Raises the errors of `open`."""
        try:
            if "expand" not in self._address.options:
                self._belongs = self._collections()
            if self._latest:
                rows, _, _ = self._page(self._query(None, f"{self._by} desc"))
                self._take(self._position.skip, rows)
                self._fixed |= {key: value for key, value in self._position.place.items() if key == _FLOOR}
            self._opened = {**self._position.place, **self._fixed} if self._position.place else {}
            self._position.begin_cycle()
            first = self._following(self._query(self._position.filter, f"{self._by} asc"))
        except HttpFailure as failure:
            raise self._failed(failure, first=True) from None
        threading.Thread(target=self._run, args=(first,), name="sensorthings", daemon=True).start()

    def _run(self, query: str | None) -> None:
        """Request page after page. After the last page, pause and start a new cycle, until the source is closed."""
        try:
            while True:
                while query is not None:
                    with self._there:
                        self._there.wait_for(lambda: self._closed or len(self._waiting) < _PAGES * self._top)
                        if self._closed:
                            return
                    query = self._following(query)
                with self._there:
                    if self._bounded:
                        self._over = True
                        self._there.notify_all()
                        return
                    if self._there.wait_for(lambda: self._closed, self._every):
                        return
                self._position.begin_cycle()
                query = self._query(self._position.filter, f"{self._by} asc")
        except HttpFailure as failure:
            self._fail(self._failed(failure, first=False))
        except Exception as error:
            self._fail(error)
        finally:
            self._reader.close()

    def _following(self, query: str) -> str | None:
        """Process a page of observations. Return the request for the next page, or None after the last page."""
        rows, texts, link = self._page(query)
        items: list[Item] = []
        for row, text in zip(rows, texts):
            changed = self._take(self._position.take, row)
            if changed is not None:
                self._counted += 1
                number = row[_ID] if isinstance(row.get(_ID), int) else self._counted
                items.append((text.encode(), number, changed))
        with self._there:
            self._waiting += items
            self._there.notify_all()
        if link is None or not rows:
            return None
        if isinstance(self._position, ById):  # the next page begins there, whatever is inserted or deleted meanwhile
            self._position.go_on()
            return self._query(self._position.filter, f"{self._by} asc")
        following = quote(urlsplit(link).query, safe=_SAFE)
        if following == query:
            raise self._address.refused(
                "`@iot.nextLink` leads to the same page again", "use `?by=id`, which does not follow `@iot.nextLink`"
            )
        return following

    def _page(self, query: str) -> tuple[list[dict[str, Any]], list[str], str | None]:
        """Request a page. Return its observations, the text of each observation, and the address of the next page.

        Raises HttpFailure if the request fails.
        """
        text = self._reader.get(f"{quote('/' + self._address.path, safe=_SAFE)}?{query}")
        start_of_text = len(text) - len(text.lstrip())
        hint = "is this the path of a SensorThings service, such as `/FROST-Server/v1.1`?"
        try:
            if text[start_of_text : start_of_text + 1] != "{":
                raise Unreadable("json", "it is not an object")
            values, spans, _ = elements(text, start_of_text, "value")
            if (spans and spans[0][0] == start_of_text) or not all(isinstance(value, dict) for value in values):
                raise Unreadable("json", "it has no list `value` of objects")
        except Unreadable as reason:
            start = " ".join(text[start_of_text : start_of_text + 60].split())
            raise HttpFailure(f"the answer is not a page of observations, {reason.reason}: `{start}`", hint) from None
        around = text[: spans[0][0]] + text[spans[-1][1] :] if spans else text
        link = _NEXT.search(around)
        return values, [text[slice(*span)] for span in spans], None if link is None else str(json.loads(link[1]))

    def _query(self, condition: str | None, order: str) -> str:
        own = self._address.options.get("filter")
        both = [f"({own})" if condition else own] if own else []
        both += [condition] if condition else []
        order += "" if self._by == "id" else ",id asc"
        parts = {"filter": " and ".join(both), "orderby": order, "top": str(self._top), "expand": self._expanded()}
        return "&".join(f"${name}={quote(value, safe=_VALUE)}" for name, value in parts.items() if value)

    def _expanded(self) -> str:
        """Return the `$expand` option. By default, the service sends each observation with the id and name of its
        Datastream or MultiDatastream."""
        expanded = self._address.options.get("expand")
        if expanded is None:
            expanded = ",".join(f"{name}($select=id,name)" for name in self._belongs)
        return "" if expanded == "none" else expanded

    def _collections(self) -> tuple[str, ...]:
        """Return the types of the entities to which observations at the address may belong: Datastream,
        MultiDatastream, or both.

        Raises HttpFailure if the service does not answer.
        """
        path, _, _ = self._address.path.rpartition("/")
        if path.endswith(")"):
            return ("MultiDatastream",) if "MultiDatastreams(" in path else ("Datastream",)
        several = "MultiDatastreams" in entity_sets(self._reader, f"/{path}")
        return ("Datastream", "MultiDatastream") if several else ("Datastream",)

    def _take(self, take: Any, row: Any) -> Any:
        try:
            return take(row)
        except ValueError as error:
            hint = "`by` is one of " + ", ".join(ORDERS)
            raise self._address.refused(str(error), hint) from None

    def _failed(self, failure: HttpFailure, first: bool) -> CepError:
        """Return the error for a failed request.

        `first`: True if it was the first request. The error is SourceLost if `first` is False or the failure is
        temporary.
        """
        if failure.passing or not first:
            return SourceLost(f"{self._address.text}: {failure.reason}", hint=failure.hint, code="input")
        hint = failure.hint
        if hint is None and "$top" in failure.reason:
            hint = "use smaller pages, such as `?page=100`; the default is 1000"
        return self._address.refused(failure.reason, hint)

    def _fail(self, error: Exception) -> None:
        with self._there:
            self._error = error
            self._there.notify_all()


def entity_sets(reader: JsonReader, path: str) -> frozenset[str]:
    """Return the names of the entity sets that a service lists. If it lists none, return the standard names.

    `path`: the path of the service, which may lack the final `/`. Raises HttpFailure if the service is unavailable for
    now.
    """
    for target in (path, f"{path}/"):
        try:
            return frozenset(str(entry["name"]) for entry in json.loads(reader.get(quote(target, safe=_SAFE)))["value"])
        except (ValueError, KeyError, TypeError):
            continue
        except HttpFailure as failure:
            if failure.passing:
                raise
    return frozenset(_SETS)


def server(address: Address) -> Server:
    """Return the HTTP connection settings that an address describes."""
    host, port = address.hosts[0]
    options = address.options
    return Server(
        host,
        port,
        address.tls,
        LOGIN,
        address.user,
        address.password or _secret(address, f"{LOGIN}_PASSWORD_FILE"),
        os.environ.get(f"{LOGIN}_TOKEN") or _secret(address, f"{LOGIN}_TOKEN_FILE"),
        address.choice("private", ("no", "yes")) == "yes",
        options.get("ca"),
        options.get("cert"),
        options.get("key"),
    )


def _secret(address: Address, name: str) -> str | None:
    file = os.environ.get(name)
    if not file:
        return None
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise address.refused(f"{name}={file}: {reason}", "the file has to contain the secret alone") from None


def _number(row: dict[str, Any]) -> int:
    number = row.get(_ID)
    if not isinstance(number, int) or isinstance(number, bool) or not -(1 << 62) < number < 1 << 62:
        raise ValueError(f"the ids are not increasing numbers: `{number}`; try `?by=resultTime`")
    return number


def _mark(row: dict[str, Any]) -> int:
    if (name := row.get(_ID)) is None:
        raise ValueError(f"an observation has no `{_ID}`")
    return int.from_bytes(blake2b(str(name).encode(), digest_size=8).digest()) >> 1
