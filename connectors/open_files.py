"""Files that somebody is still writing."""

from __future__ import annotations

import errno
import fcntl
import os
import signal


def is_being_written(path: str) -> bool:
    """Return True if a process has a file open for writing, where the system can tell: Linux, files of this user.

    A lease on a file is refused while somebody may write it. It is given back at once; who opens the file just then
    sends a signal, which is one that does no harm.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False
