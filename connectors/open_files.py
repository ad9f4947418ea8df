"""Detection of files that another process is still writing."""

from __future__ import annotations

import errno
import fcntl
import os
import signal


def is_being_written(path: str) -> bool:
    """Return True if another process has opened the file for writing. This is only detected on Linux, for files of this
    user.

    The function requests a lease, which Linux refuses for a file that is open for writing. If Linux grants the lease,
    the function releases it at once. If another process opens the file meanwhile, this process receives a harmless
    signal.
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
