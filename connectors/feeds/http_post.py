"""HTTP requests to allowed addresses: a name is resolved once, its address checked, and that address is used."""

from __future__ import annotations

import http.client
import socket
import ssl
from base64 import b64encode
from collections.abc import Mapping
from email.message import Message

from connectors.alerts.text import clean
from connectors.feeds.sender import DeliveryRefused, ServerError, Unreachable
from connectors.feeds.targets import Target, reachable

TIMEOUT = 10.0
"""Seconds for connecting, and for each step of an answer."""

_LATER = frozenset((408, 425, 429, 502, 503, 504))
"""Answers that ask to wait, or come from a gateway: they are not about the content."""

_ADDRESS = frozenset((401, 403, 404, 405, 407, 410))
"""Answers about address and authorization: like redirections and those from 500 on, seldom about the content."""

_LONGEST_WAIT = 3600.0
_READ = 4096  # bytes of an answer that are looked at


def post(target: Target, path: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Returns when the target has taken it. Unreachable, ServerError: not now. Refused: it does not want this."""
    send_request(target, "POST", path, body, headers)


def send_request(target: Target, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Message:
    """The headers of an answer that is a yes. Raises as `post`.

    No redirection is followed, since it could lead anywhere.
    """
    try:
        connection = _connected(target)
    except OSError as error:
        raise Unreachable(str(error)) from None
    try:
        connection.request(method, path, body, {**headers, **_authorization(target), "User-Agent": "semcep"})
        answer = connection.getresponse()
        content = answer.read(_READ).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(str(error) or type(error).__name__) from None
    finally:
        connection.close()
    if 200 <= answer.status < 300:
        return answer.headers
    reason = f"{answer.status} {answer.reason}" + (f": {clean(content, 200)}" if content else "")
    text = answer.headers.get("Retry-After", "")
    wait = min(float(text), _LONGEST_WAIT) if text.isascii() and text.isdecimal() else 0.0
    if answer.status in _LATER:
        raise Unreachable(reason, wait)
    if answer.status in _ADDRESS or not 400 <= answer.status < 500:
        raise ServerError(reason, wait)
    raise DeliveryRefused(reason)


def _connected(target: Target) -> http.client.HTTPConnection:
    """OSError: there is no such host, it does not answer, or it is not allowed."""
    addresses = reachable(target)
    connection = http.client.HTTPConnection(target.host, target.port, timeout=TIMEOUT)
    error = OSError("no address")
    for address in addresses:
        try:
            plain = socket.create_connection((address, target.port), TIMEOUT)
        except OSError as reason:
            error = reason
            continue
        if target.tls:
            connection.default_port = 443
            plain = ssl.create_default_context().wrap_socket(plain, server_hostname=target.host)
        connection.sock = plain
        return connection
    raise error


def _authorization(target: Target) -> dict[str, str]:
    if target.user is not None:
        login = b64encode(f"{target.user}:{target.password or ''}".encode()).decode()
        return {"Authorization": f"Basic {login}"}
    return {} if target.token is None else {"Authorization": f"Bearer {target.token}"}
