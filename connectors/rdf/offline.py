"""A filter of system calls that forbids this process to open sockets, so that a query cannot reach another server."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys
from collections.abc import Mapping
from typing import NamedTuple


class _Machine(NamedTuple):
    """Constants of the Linux kernel for one kind of machine: the numbers of the architecture and of system calls."""

    architecture: int
    seccomp: int
    refused: tuple[int, ...]


_MACHINES: Mapping[str, _Machine] = {  # refused: socket, connect, bind, io_uring_setup
    "x86_64": _Machine(0xC000003E, 317, (41, 42, 49, 425)),
    "aarch64": _Machine(0xC00000B7, 277, (198, 203, 200, 425)),
}
_NO_NEW_PRIVILEGES = 38  # prctl
_FILTER, _ALL_THREADS = 1, 1  # seccomp
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_LOAD, _EQUAL, _LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF: ld [k], jeq, jge, ret
_OTHER_NUMBERS = 0x40000000  # the x32 numbers of x86-64 calls


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def shut() -> bool:
    """Forbid this process and its children to open or connect sockets (EACCES). Open sockets keep working.

    Return True on success. This needs Linux on x86-64 or ARM64, but no special rights.
    """
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None or sys.maxsize < 2**32:
        return False
    steps = _steps(machine)
    program = _Program(len(steps) // 8, steps)
    kernel = ctypes.CDLL(None, use_errno=True)
    kernel.syscall.restype = ctypes.c_long
    if kernel.prctl(_NO_NEW_PRIVILEGES, *(ctypes.c_ulong(value) for value in (1, 0, 0, 0))):
        return False
    numbers = (ctypes.c_long(machine.seccomp), ctypes.c_ulong(_FILTER), ctypes.c_ulong(_ALL_THREADS))
    return bool(kernel.syscall(*numbers, ctypes.byref(program)) == 0)


def _steps(machine: _Machine) -> bytes:
    """Return the BPF program of the filter. The program reads the number of the system call at offset 0, and the number
    of the machine's architecture at offset 4."""
    last = len(machine.refused) + 1  # steps from the first test of a number to the refusal
    steps = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 0, last + 2, machine.architecture),
        (_LOAD, 0, 0, 0),
        (_LEAST, last, 0, _OTHER_NUMBERS),
        *((_EQUAL, last - 1 - i, 0, number) for i, number in enumerate(machine.refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
