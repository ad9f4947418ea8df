"""Ports for test servers. A server may need to know its port before it listens, or release it for a while."""

from __future__ import annotations

import os
import socket
from itertools import chain

_FIRST, _EACH = 12_000, 1_000
"""Below those that systems give to outgoing connections, which would take one that is free; so many a worker."""

_given: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on and no other test is given."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 16
    first, start = _FIRST + worker * _EACH, os.getpid() % _EACH
    for number in chain(range(first + start, first + _EACH), range(first, first + start)):
        if number in _given:
            continue
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", number))
            except OSError:
                continue
        _given.add(number)
        return number
    raise AssertionError("all ports of this worker are taken")
