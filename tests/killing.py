"""Runs that are killed: in a named phase, just before an operation on a file, or at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.waiting import pause

HOOK = Path(__file__).parent / "kill_points"
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class KillPoint:
    """Before something is done with a file for the `nth` time: `does` is open, rename, remove or rmtree, `path` a
    pattern of it, `within` a function that is under way. `batches`: after so many files the run has come there.
    `alone`: the process that does it is killed, and the run goes on; else all processes are."""

    does: str
    path: str
    within: str | None = None
    nth: int = 1
    batches: int = 2
    alone: bool = False


def killed(command: Sequence[str], env: Mapping[str, str], at: KillPoint) -> None:
    """Run a command until it is killed there; with `alone` to its end."""
    with TemporaryDirectory() as folder:
        told = Path(folder, "told")
        asked = {"does": at.does, "path": at.path, "within": at.within, "nth": at.nth, "alone": at.alone}
        more = {"SEMCEP_KILL": json.dumps(asked | {"told": str(told)}), "PYTHONPATH": f"{HOOK}:{ROOT}"}
        status, said = ran(command, {**env, **more})
        assert told.exists(), (at, status, said)
        assert status == (0 if at.alone else -signal.SIGKILL), (at, said)


def killed_at_any_moment(command: Sequence[str], env: Mapping[str, str], seconds: float) -> bool:
    """Run a command, and kill it after some seconds; gives whether it had not ended before."""
    status, said = ran(command, env, seconds)
    assert status in (0, -signal.SIGKILL), said
    return status != 0


def ran(command: Sequence[str], env: Mapping[str, str], seconds: float | None = None) -> tuple[int, str]:
    """Run a command in a session of its own, of which nothing is left; its status, and what it said. `seconds`: it is
    killed then."""
    with TemporaryDirectory() as folder, Path(folder, "said").open("w+b") as said:
        run = subprocess.Popen(command, start_new_session=True, stdout=said, stderr=said, env={**os.environ, **env})
        try:
            with suppress(subprocess.TimeoutExpired):
                run.wait(800 if seconds is None else seconds)
        finally:
            kill_session(run.pid)
            run.wait()
        said.seek(0)
        return run.returncode, said.read().decode()


def kill_session(leader: int) -> None:
    """Kill all processes of a session, also those that have left the group of its leader, until none is there."""
    while True:
        found = [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _of(pid, leader)]
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        pause(0.01)


def _of(pid: int, leader: int) -> bool:
    """Whether a process is of the session, and no zombie."""
    try:
        return os.getsid(pid) == leader and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
