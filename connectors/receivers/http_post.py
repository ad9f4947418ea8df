"""HTTP requests to permitted addresses. For each connection, the host name is resolved and the address is checked. The
connection then uses the checked address. Connections are kept and reused."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from email.message import Message

from cep.connectors.alerts.text import clean
from cep.connectors.receivers.sender import DeliveryRefused, ServerError, Unreachable
from cep.connectors.receivers.targets import Target, reachable

TIMEOUT = 10.0
"""The time limit for connecting and for each part of a response, in seconds."""

_LATER = frozenset((408, 425, 429, 502, 503, 504))
"""Status codes that ask the client to wait, and those of gateways. The content of a request does not cause them."""

_ADDRESS = frozenset((401, 403, 404, 405, 407, 410))
"""Status codes about the address or the authorization. The content of a request rarely causes them. The same is true
for redirections, and for status codes from 500 on."""

_LONGEST_WAIT = 3600.0
_READ = 4096  # bytes of a response that are read
_IDLE, _OLD = 30.0, 300.0  # the seconds for which an unused connection is kept, and the greatest age of a connection


class HttpConnections:
    """Connections to a target, for several threads. Each connection is used by only one thread at a time."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._idle: list[_Kept] = []
        self._lock = threading.Lock()
        self._tls = ssl.create_default_context() if target.tls else None

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a POST request. Return when the target has accepted the request.

        Raises Unreachable or ServerError if the request may be sent again later, and DeliveryRefused if it is refused.
        """
        self.request("POST", path, body, headers)

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Message:
        """Send a request, and return the headers of a successful response. Raises the same errors as `post`.

        Redirections are not followed, because they could lead to any host. If the target has closed a kept connection,
        the request is repeated on a new connection. So the target may receive a request twice.
        """
        headers = {**headers, **_authorization(self.target), "User-Agent": "semcep"}
        kept = self._kept()
        try:
            if kept is not None:
                with suppress(ConnectionError, http.client.BadStatusLine):
                    return self._answer(kept, method, path, body, headers)
            return self._answer(self._connected(), method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(str(error) or type(error).__name__) from None

    def close(self) -> None:
        """Close the unused connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for kept in idle:
            kept.connection.close()

    def _answer(self, kept: _Kept, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Message:
        connection, whole = kept.connection, False
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read(_READ)
            whole = not answer.read(1) and not answer.will_close
        finally:
            if whole:
                with self._lock:
                    self._idle.append(replace(kept, since=time.monotonic()))
            else:
                connection.close()
        if 200 <= answer.status < 300:
            return answer.headers
        said = content.decode("utf-8", "replace").strip()
        reason = f"{answer.status} {answer.reason}" + (f": {clean(said, 200)}" if said else "")
        text = answer.headers.get("Retry-After", "")
        wait = min(float(text), _LONGEST_WAIT) if text.isascii() and text.isdecimal() else 0.0
        if answer.status in _LATER:
            raise Unreachable(reason, wait)
        if answer.status in _ADDRESS or not 400 <= answer.status < 500:
            raise ServerError(reason, wait)
        raise DeliveryRefused(reason)

    def _kept(self) -> _Kept | None:
        """Return an idle connection that is still open and not too old. If there are several, return the one that was
        used last. Return None if there is no such connection."""
        now = time.monotonic()
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            if kept is None:
                return None
            if now - kept.since < _IDLE and now - kept.opened < _OLD and not _readable(kept.connection.sock):
                return kept
            kept.connection.close()

    def _connected(self) -> _Kept:
        """Open a connection. Raises OSError if the host does not exist, does not answer, or is not permitted."""
        target, error = self.target, OSError("no address")
        connection = http.client.HTTPConnection(target.host, target.port, timeout=TIMEOUT)
        for address in reachable(target):
            try:
                plain = socket.create_connection((address, target.port), TIMEOUT)
            except OSError as reason:
                error = reason
                continue
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # headers and body are sent as two packets
            if self._tls is not None:
                connection.default_port = 443
                plain = self._tls.wrap_socket(plain, server_hostname=target.host)
            connection.sock = plain
            return _Kept(connection, time.monotonic(), time.monotonic())
        raise error


@dataclass(frozen=True, slots=True)
class _Kept:
    """A connection, and the times at which it was opened and last used, by the monotonic clock."""

    connection: http.client.HTTPConnection
    opened: float
    since: float


def _readable(connection: socket.socket | None) -> bool:
    """Return True if data have arrived on an idle connection. Usually, the other side has then closed it."""
    if connection is None:
        return True
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _authorization(target: Target) -> dict[str, str]:
    if target.user is not None:
        login = b64encode(f"{target.user}:{target.password or ''}".encode()).decode()
        return {"Authorization": f"Basic {login}"}
    return {} if target.token is None else {"Authorization": f"Bearer {target.token}"}
