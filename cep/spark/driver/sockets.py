"""Settings that connect Java and Python by Unix sockets, so that tasks start faster.

Over TCP, a task starts 40 ms late. Java sends the request in two parts, and waits for the acknowledgement of the first
part before it sends the second one. Linux delays this acknowledgement.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from cep.spark.working_folder import own_folder

ENABLED = "spark.python.unix.domain.socket.enabled"
FOLDER = "spark.python.unix.domain.socket.dir"

LONGEST = 48
"""The maximum length of the socket folder's path in bytes. A socket's whole path is limited to about 100 bytes, and the
socket's own name takes 42."""

SHARED = "/tmp"
"""The folder of sockets if tasks also run on other machines. It exists on every machine."""


def unix_sockets(master: str) -> Mapping[str, str]:
    """Return the Spark settings for Unix sockets. Returns an empty mapping if sockets cannot be used here or their
    paths would be too long."""
    folder = own_folder() if master.startswith("local") else SHARED
    if not hasattr(socket, "AF_UNIX") or len(os.fsencode(folder)) > LONGEST:
        return {}
    return {ENABLED: "true", FOLDER: folder}
