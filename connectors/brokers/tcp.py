"""A TCP connection as an input. Each line is a message."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, cast

from cep.connectors.addresses import Address
from cep.connectors.brokers.messages import Messages
from cep.connectors.brokers.mqtt import Arrival
from cep.connectors.brokers.sources import SourceLost
from cep.connectors.formats.streams import BOM, LONGEST
from cep.core.errors import CepError, reason_of

WAIT = 10.0
"""The time limit for opening a connection, in seconds."""

_CHUNK = 1 << 20
_HEAD = 1000  # bytes that are kept of a line that is too long
# without keepalive, a crash of the other machine goes unnoticed
_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_SLOWEST = 30.0  # seconds between two attempts to reconnect


def connected(address: Address) -> BinaryIO:
    """Open a connection, and return its stream. Raises CepError if no program listens at the address."""
    sock = _connection(address)
    sock.settimeout(None)
    file = cast(BinaryIO, sock.makefile("rb", buffering=0))
    sock.close()  # the file object keeps the connection open
    return file


class ConnectionSource:
    """A TCP connection whose lines are messages.

    `numbers`: the numbers of the lines, which continue across all connections to the same address. The source ends when
    the other side closes the connection. If `lasting` is True or the connection breaks, it raises SourceLost instead.
    """

    lost = None

    def __init__(self, address: Address, lasting: bool, numbers: Iterator[int]) -> None:
        """Open a connection. Raises CepError if no program listens at the address."""
        self._address, self._lasting, self._numbers = address, lasting, numbers
        self._connection = Connection(address, lasting=False)
        self._begun = False

    def poll(self, most: int, seconds: float) -> Messages | None:
        lines = self._connection.lines(seconds)
        if lines is None:
            if self._connection.broken is not None:
                raise SourceLost(f"{self._address.text}: {self._connection.broken}", code="input")
            if self._lasting:
                raise SourceLost(f"{self._address.text}: the other side has closed the connection", code="input")
            return None
        if lines and not self._begun:
            self._begun, lines[0] = True, lines[0].removeprefix(BOM)
        return Messages([self._address.text] * len(lines), list(islice(self._numbers, len(lines))), lines)

    def done(self) -> None:
        """Do nothing, because the connection has no acknowledgements."""

    def kept(self) -> None:
        """Do nothing, because the connection has no acknowledgements."""

    def close(self) -> None:
        self._connection.close()


class Connection:
    """The lines of a TCP connection, for a reader that logs the lines before they are processed.

    `lasting`: True to reopen the connection after its end. The waits before the attempts grow from 1 s to 30 s. Lines
    that the other side sends while the connection is closed are lost. `broken`: the reason why the connection last
    broke. It is None if it has never broken, even if the other side has closed it.
    """

    def __init__(self, address: Address, lasting: bool) -> None:
        """Open a connection. Raises CepError if no program listens at the address."""
        self._address, self._lasting = address, lasting
        self._socket: socket.socket | None = _connection(address)
        self._rest = b""
        self.broken: str | None = None
        self._skipping = False
        self._pause, self._again = 1.0, 0.0

    def take(self, most: int, seconds: float) -> list[Arrival] | None:
        """Return the lines that arrive within `seconds`, or None if the connection has ended.

        The result may contain more than `most` lines, because up to a megabyte is read at a time.
        """
        lines = self.lines(seconds)
        return None if lines is None else [Arrival("", line, 0, 0) for line in lines]

    def lines(self, seconds: float) -> list[bytes] | None:
        """Return the lines that arrive within `seconds`, or None if the connection has ended."""
        if self._socket is None:
            return self._anew(seconds)
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(_CHUNK)
        except TimeoutError:
            return []
        except OSError as error:
            self.broken = f"the connection broke: {reason_of(error)}"
            data, self._rest = b"", b""  # broken, not closed: a line without an end is incomplete
        if data:
            self._pause = 1.0
            return self._lines(data)
        last, self._rest = self._rest, b""
        self._socket.close()
        self._socket, self._again = None, time.monotonic() + self._pause
        return [last] if last and not self._skipping else []

    def done(self) -> None:
        """Do nothing, because the connection has no acknowledgements."""

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _anew(self, seconds: float) -> list[bytes] | None:
        if not self._lasting:
            return None
        if (left := self._again - time.monotonic()) > 0:
            time.sleep(min(seconds, left))
            return []
        self._pause = min(2 * self._pause, _SLOWEST)
        try:
            self._socket, self._skipping = _connection(self._address), False
        except CepError:
            self._again = time.monotonic() + self._pause
        return []

    def _lines(self, data: bytes) -> list[bytes]:
        """Return the complete lines in the data read so far. A line that is too long for a record is cut."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        whole = [line[:_HEAD] if len(line) > LONGEST else line for line in whole]
        if whole and self._skipping:
            del whole[0]
            self._skipping = False
        if self._skipping:
            self._rest = b""
        elif len(self._rest) > LONGEST:
            whole.append(self._rest[:_HEAD])
            self._rest, self._skipping = b"", True
        return whole


def _connection(address: Address) -> socket.socket:
    host, port = address.hosts[0]
    try:
        connection = socket.create_connection((host, port), WAIT)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _ALIVE.items():
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return connection
    except OSError as error:
        reason = reason_of(error)
        hint = f"a program has to listen at this address, for example `nc -lk {port}`"
        raise SourceLost(f"{address.text}: no connection: {reason}", hint=hint, code="input") from None
