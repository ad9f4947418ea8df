"""Sockets between Java and Python: Unix's, on which a task begins at once.

Over TCP it begins 40 ms late: Java sends what it is to do in two parts, and Linux acknowledges the first only then.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from cep.spark.working_folder import own_folder

ENABLED = "spark.python.unix.domain.socket.enabled"
FOLDER = "spark.python.unix.domain.socket.dir"

LONGEST = 48
"""Bytes of the name of a folder: a socket's path has at most a hundred or so, and its own name takes 42."""

SHARED = "/tmp"
"""The folder where other machines make theirs, and which each of them has."""


def unix_sockets(master: str) -> Mapping[str, str]:
    """The settings by which they are used; empty where there are none, or their paths would be too long."""
    folder = own_folder() if master.startswith("local") else SHARED
    if not hasattr(socket, "AF_UNIX") or len(os.fsencode(folder)) > LONGEST:
        return {}
    return {ENABLED: "true", FOLDER: folder}
