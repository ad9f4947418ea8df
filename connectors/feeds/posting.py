"""A POST to where it may go: the address is looked up once, judged, and it is that address that is connected to."""

from __future__ import annotations

import http.client
import socket
import ssl
from base64 import b64encode
from collections.abc import Mapping

from connectors.feeds.sender import Refused, Unreachable
from connectors.feeds.targets import Target, public

PATIENCE = 10.0
"""Seconds for connecting, and for each step of an answer."""

_LATER = frozenset((408, 425, 429, 502, 503, 504))
_LONGEST_WAIT = 3600.0
_READ = 4096  # bytes of an answer that are looked at


def post(target: Target, path: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Returns when the target has taken it. Unreachable: not now. Refused: it answered, and not with yes.

    No redirection is followed, since it could lead anywhere.
    """
    try:
        connection = _connected(target)
    except OSError as error:
        raise Unreachable(f"{target.name}: {error}") from None
    try:
        connection.request("POST", path, body, {**headers, **_authorization(target), "User-Agent": "semcep"})
        answer = connection.getresponse()
        said = answer.read(_READ).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{target.name}: {error or type(error).__name__}") from None
    finally:
        connection.close()
    if 200 <= answer.status < 300:
        return
    reason = f"{target.name}: {answer.status} {answer.reason}" + (f": {said[:200]}" if said else "")
    if answer.status in _LATER:
        wait = answer.headers.get("Retry-After", "")
        raise Unreachable(reason, min(float(wait), _LONGEST_WAIT) if wait.isdecimal() else 0.0)
    raise Refused(reason)


def _connected(target: Target) -> http.client.HTTPConnection:
    """OSError: there is no such host, it is not there, or it is not to be spoken to."""
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(place[4][0]) for place in found))
    if target.kind == "cloudevents" and not target.private:
        for address in addresses:
            if not public(address):
                raise OSError(f"{address} is an address of the own network, which needs `#private=yes`")
    connection = http.client.HTTPConnection(target.host, target.port, timeout=PATIENCE)
    error = OSError("no address")
    for address in addresses:
        try:
            plain = socket.create_connection((address, target.port), PATIENCE)
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
