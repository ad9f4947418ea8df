"""A TCP connection as an input: lines, as they come, until the other side closes it."""

from __future__ import annotations

import socket
from typing import BinaryIO, cast

from connectors.addresses import Address

WAIT = 10.0
"""Seconds in which a connection has to be made."""


def connected(address: Address) -> BinaryIO:
    """The bytes that come. CepError: nobody listens there."""
    host, port = address.hosts[0]
    try:
        made = socket.create_connection((host, port), WAIT)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise address.refused(f"no connection: {reason}", f"something has to listen there: `nc -lk {port}`") from None
    made.settimeout(None)
    file = cast(BinaryIO, made.makefile("rb", buffering=0))
    made.close()  # the file holds it
    return file
