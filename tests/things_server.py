"""A stand-in for an OGC SensorThings 1.1 server.

It has pages with `@iot.nextLink`, and the parts of `$filter`, `$orderby`, `$top`, `$skip` and `$expand` that a client
uses.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote_plus, unquote, urlsplit

ROOT = "/FROST-Server/v1.1"
_TERM = re.compile(r"(\S+) (gt|ge|lt|le|eq) (\S+)")


class ThingsServer:
    """`observations`: what is there, in the order in which it was entered; `entities`: the other sets, by name.
    `broken`: answers a request instead of the server, with status, type and body; None: the server does. `asked`: the
    queries of all requests. `cap`: the server's own largest page."""

    def __init__(self) -> None:
        self.observations: list[dict[str, Any]] = []
        self.entities: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.broken: Callable[[], tuple[int, str, bytes] | None] = lambda: None
        self.cap = 1000
        self.lock = threading.Lock()
        self.port = 0

    @property
    def place(self) -> str:
        return f"sensorthings+http://127.0.0.1:{self.port}{ROOT}"

    def enter(self, id: int | str, seconds: int, result: Any, stream: int | None = 7, **more: Any) -> None:
        """An observation of a Datastream; or with `multi` of a MultiDatastream, and no `stream`."""
        time = f"2024-05-01T08:{seconds // 60:02}:{seconds % 60:02}Z"
        self.observations.append({
            "@iot.id": id, "@iot.selfLink": f"http://elsewhere/v1.1/Observations({id})", "phenomenonTime": time,
            "resultTime": time, "result": result, "Datastream@iot.navigationLink": f"http://e/Observations({id})/Datastream",
            "MultiDatastream@iot.navigationLink": f"http://e/Observations({id})/MultiDatastream",
            "stream": stream, **more,
        })  # fmt: skip

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        name = path.removeprefix(ROOT + "/")
        if path == ROOT:
            sets = ["Observations", *self.entities]
            return 200, json.dumps(
                {"value": [{"name": one, "url": f"http://localhost:8080{ROOT}/{one}"} for one in sets]}
            ).encode()
        stream = re.fullmatch(r"(Multi)?Datastreams\((\d+)\)/Observations", name)
        if not path.startswith(ROOT):
            return 404, b'{"code": 404, "message": "Nothing found."}'
        with self.lock:
            if name == "Observations" or stream is not None:
                rows = list(self.observations)
                if stream is not None:
                    kind, number = "multi" if stream[1] else "stream", int(stream[2])
                    rows = [row for row in rows if row.get(kind) == number]
            elif name in self.entities:
                rows = list(self.entities[name])
            else:
                return 404, b'{"code": 404, "message": "Nothing found."}'
            if condition := query.get("$filter"):
                rows = [row for row in rows if all(_holds(row, one) for one in condition.split(" and "))]
        for part in reversed(query.get("$orderby", "id asc").split(",")):
            key, _, way = part.partition(" ")
            rows.sort(key=lambda row: row["@iot.id" if key == "id" else key], reverse=way == "desc")
        first = re.fullmatch(r"\(id gt (\d+)\)", query.get("$skipFilter", ""))
        if first is not None:  # what FROST puts into its links, besides `$skip`
            rows, query = [row for row in rows if row["@iot.id"] > int(first[1])], {**query, "$skip": "0"}
        skip, top = int(query.get("$skip", 0)), min(int(query.get("$top", 100)), self.cap)
        page = [dict(row) for row in rows[skip : skip + top]]
        for row in page:
            numbers = {"Datastream": row.pop("stream", None), "MultiDatastream": row.pop("multi", None)}
            for kind in query.get("$expand", "").replace("$select=id,name", "").split(","):
                if (part := kind.partition("(")[0]) in numbers:
                    if part == "MultiDatastream" and "MultiDatastreams" not in self.entities:
                        return 400, b'{"code": 400, "message": "Query is not valid."}'
                    if (number := numbers[part]) is not None:
                        row[part] = {"@iot.id": number, "name": f"stream {number}"}
        found: dict[str, Any] = {}
        if skip + top < len(rows):
            rest = {**query, "$skip": str(skip + top)}
            if query.get("$orderby") == "id asc" and isinstance(page[-1]["@iot.id"], int):
                rest["$skipFilter"] = f"(id gt {page[-1]['@iot.id']})"
            text = "&".join(f"{key}={quote_plus(value)}" for key, value in rest.items())
            found["@iot.nextLink"] = f"http://localhost:8080/other{path}?{text}"
        return 200, json.dumps({**found, "value": page}).encode()


def _holds(row: dict[str, Any], condition: str) -> bool:
    match = _TERM.fullmatch(condition.strip("()"))
    assert match is not None, condition
    key, sign, text = match.groups()
    value = row["@iot.id" if key == "id" else key]
    if isinstance(value, str):
        value, other = value.removesuffix("Z"), text.removesuffix("Z").strip("'")
    else:
        other = type(value)(text)
    held = {"gt": value > other, "ge": value >= other, "lt": value < other, "le": value <= other}
    return bool(held.get(sign, value == other))


@contextmanager
def things_server(served: ThingsServer | None = None, port: int = 0) -> Iterator[ThingsServer]:
    """A server that answers while the block runs."""
    things = served or ThingsServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query, strict_parsing=bool(parts.query)).items()}
            if query:
                things.asked.append(query)
            things.headers.append(dict(self.headers.items()))
            answer = things.broken()
            if answer is None:
                status, body = things.answer(unquote(parts.path), query)
                answer = status, "application/json", body
            status, kind, body = answer
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if 300 <= status < 400:
                self.send_header("Location", "http://169.254.169.254/latest")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        things.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield things
        finally:
            server.shutdown()
            thread.join()
