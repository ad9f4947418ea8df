"""A reader of JSON from web services. It checks the address of each connection, and refuses slow or malformed
responses."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field

from cep.core.errors import reason_of
from cep.core.ip import linked

WAIT = 30.0
"""The timeout for connecting, and for each read of a response, in seconds."""
LONGEST = 120.0
"""The timeout for a whole response, in seconds."""
MOST = 1 << 28
"""The maximum size of a response, in bytes."""

_PIECE = 1 << 16
_QUOTED = 160  # the maximum length of an answer's text in an error
_LATER = frozenset((408, 425, 429))
"""The status codes 4xx by which a server asks the client to retry later."""


class HttpFailure(Exception):
    """A failed request. `passing`: True if the same request may succeed later."""

    def __init__(self, reason: str, hint: str | None = None, passing: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.hint, self.passing = reason, hint, passing


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and how to log in to it.

    `private`: True if link-local addresses and the addresses of cloud metadata services are allowed. `login`: the
    prefix of the environment variables that hold the login.
    """

    host: str
    port: int
    tls: bool
    login: str
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    private: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


class JsonReader:
    """A reader of JSON texts from one server, over a persistent connection."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: http.client.HTTPConnection | None = None
        self._tls: ssl.SSLContext | None = None
        if server.tls:
            try:
                self._tls = ssl.create_default_context(cafile=server.ca)
                if server.cert is not None:
                    self._tls.load_cert_chain(server.cert, server.key)
            except (OSError, ValueError) as error:
                raise HttpFailure(f"TLS: {reason_of(error)}", "`ca`, `cert` and `key` name PEM files") from None

    def get(self, target: str) -> str:
        """Request a path, which includes its query, and return the response as text.

        Redirects are not followed, because they could lead anywhere. Raises HttpFailure if no response arrives, or if
        the response is not usable.
        """
        try:
            if self._connection is not None:
                with suppress(ConnectionError, http.client.BadStatusLine):  # the server has closed it
                    return self._answer(self._connection, target)
                self.close()
            self._connection = self._connected()
            return self._answer(self._connection, target)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            hint = "is the server running, and are host, port and http or https right?"
            if isinstance(error, ssl.SSLCertVerificationError):
                reason, hint = f"TLS: {error.verify_message.lower()}", "`?ca=FILE` names the authority's certificate"
            elif isinstance(error, ssl.SSLError):
                reason = "TLS: " + (error.reason or "no connection").lower().replace("_", " ")
            elif isinstance(error, TimeoutError):
                reason = f"the server has not answered for {WAIT:g} s"
            else:
                reason = f"no answer: {_plain(reason_of(error)) or type(error).__name__}"
            raise HttpFailure(reason, hint, passing=True) from None
        except HttpFailure:
            self.close()
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _answer(self, connection: http.client.HTTPConnection, target: str) -> str:
        deadline = time.monotonic() + LONGEST
        connection.request("GET", target, headers=self._headers())
        answer = connection.getresponse()
        parts, size = list[bytes](), 0
        while part := answer.read1(_PIECE):
            parts.append(part)
            size += len(part)
            if size > MOST:
                raise HttpFailure(f"the answer has more than {MOST >> 20} MiB", "ask for smaller pages")
            if time.monotonic() > deadline:
                raise HttpFailure(f"the answer did not end within {LONGEST:g} s", "ask for smaller pages", passing=True)
        if answer.length:
            raise HttpFailure(f"the answer ended {answer.length:,} bytes too early", passing=True)
        answer.read()  # no content is left; this frees the connection for the next request
        if answer.will_close:
            self.close()
        body = b"".join(parts)
        if answer.status != 200:
            raise self._refused(answer, body)
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError:
            raise HttpFailure("the answer is not UTF-8, so it is not JSON") from None

    def _refused(self, answer: http.client.HTTPResponse, body: bytes) -> HttpFailure:
        status, text = answer.status, _plain(body.decode("utf-8", "replace"))
        reason, hint = f"the server answers {status} {_plain(answer.reason)}".rstrip(), None
        if 300 <= status < 400 and (place := answer.headers.get("Location")):
            reason, text = f"{reason}: it sends to {_plain(place)}", ""
            hint = "redirections are not followed; write that address if you trust it"
        elif status in (401, 403):
            name = self._server.login
            hint = f"set {name}_USER and {name}_PASSWORD, or {name}_TOKEN, in the environment"
        if text:
            reason += f": {text}"
        if status == 404:
            hint = "the path of a service ends with its version: `/FROST-Server/v1.1`"
        return HttpFailure(reason, hint, passing=status in _LATER or status >= 500)

    def _headers(self) -> dict[str, str]:
        server = self._server
        headers = {"Accept": "application/json", "User-Agent": "semcep"}
        if server.token is not None:
            headers["Authorization"] = f"Bearer {server.token}"
        elif server.user is not None:
            login = b64encode(f"{server.user}:{server.password or ''}".encode()).decode()
            headers["Authorization"] = f"Basic {login}"
        return headers

    def _connected(self) -> http.client.HTTPConnection:
        """Open a connection. Raises OSError if the host is unknown or does not answer. Raises HttpFailure if the host's
        address is not allowed."""
        server, error = self._server, OSError("no address")
        connection = http.client.HTTPConnection(server.host, server.port, timeout=WAIT)
        places = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
        for address in dict.fromkeys(str(place[4][0]) for place in places):
            if not server.private and linked(address):
                reason = f"{address} is a link-local address, or the address of a cloud's metadata service"
                raise HttpFailure(reason, "`?private=yes` allows it, if that is meant")
            try:
                plain = socket.create_connection((address, server.port), WAIT)
            except OSError as reason:
                error = reason
                continue
            if self._tls is not None:
                connection.default_port = 443
                plain = self._tls.wrap_socket(plain, server_hostname=server.host)
            connection.sock = plain
            return connection
        raise error


def _plain(text: str) -> str:
    """Make untrusted text safe to print: on one line, without control characters, and truncated."""
    text = "".join(character if character.isprintable() else " " for character in text[: 4 * _QUOTED])
    text = " ".join(text.split())
    return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"
