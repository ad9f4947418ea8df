"""Unix sockets between Java and Python, on which tasks start faster.

Over TCP a task starts 40 ms late, because Java sends the request in two parts. Before Java sends the second part, it
waits for the acknowledgement of the first, which Linux delays.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from cep.spark.working_folder import own_folder

ENABLED = "spark.python.unix.domain.socket.enabled"
FOLDER = "spark.python.unix.domain.socket.dir"

LONGEST = 48
"""The maximum length of the folder's name in bytes. A socket's path is limited to about 100; its own name takes 42."""

SHARED = "/tmp"
"""The folder of sockets on other machines, which exists on all of them."""


def unix_sockets(master: str) -> Mapping[str, str]:
    """Return the settings that enable Unix sockets; empty if there are none here, or if their paths would be too
    long."""
    folder = own_folder() if master.startswith("local") else SHARED
    if not hasattr(socket, "AF_UNIX") or len(os.fsencode(folder)) > LONGEST:
        return {}
    return {ENABLED: "true", FOLDER: folder}
