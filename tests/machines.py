"""A standalone cluster of Spark whose machines share no folder.

Each worker has its own folders. If the kernel allows it, a worker sees empty folders in place of those of others.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyspark

from tests.ports import free_port
from tests.waiting import until

DRIVER = "driver"
WORKERS = {"one": "127.0.0.2", "two": "127.0.0.3"}
"""With addresses of their own: Spark reads what another executor of its own host has handed on from the disk."""

_HIDE = 'for folder in $HIDDEN; do mount -t tmpfs -o size=64k none "$folder" || exit 1; done; exec "$@"'


@cache
def hides() -> bool:
    """Whether a process may have mounts of its own."""
    try:
        command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@dataclass
class Machines:
    """`root`: with a folder for each; `master`: the address; `workers`: their processes, each of a session of its
    own."""

    root: Path
    master: str
    workers: list[subprocess.Popen[bytes]]

    def driver(self) -> Path:
        """A new folder of the driver's machine."""
        return _made(self.root / DRIVER / f"run-{len(list((self.root / DRIVER).iterdir()))}")

    def executors(self) -> list[int]:
        """The processes of executors."""
        mine, found = {each.pid for each in self.workers}, []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return [pid for pid in found if _session(pid) in mine]


@contextmanager
def machines(root: Path, env: Mapping[str, str]) -> Iterator[Machines]:
    """A master and two workers of a core each."""
    for name in (DRIVER, *WORKERS):
        _made(root / name)
    home = pyspark.__path__[0]
    run, port = f"{home}/bin/spark-class", free_port()
    known = {**os.environ, **env, "SPARK_HOME": home, "SPARK_DAEMON_MEMORY": "256m"}
    started: list[subprocess.Popen[bytes]] = []

    def start(command: list[str], own: Path, host: str, more: Mapping[str, str]) -> None:
        command = [*command, "--host", host, "--webui-port", "0"]
        with (own / "said").open("wb") as said:
            made = known | {"TMPDIR": str(own), "SPARK_LOCAL_DIRS": str(_made(own / "local")), "SPARK_LOCAL_IP": host}
            made |= more
            started.append(subprocess.Popen(command, start_new_session=True, stdout=said, stderr=said, env=made))

    try:
        master = f"spark://127.0.0.1:{port}"
        command = [run, "org.apache.spark.deploy.master.Master", "--port", str(port)]
        start(command, _made(root / "master"), "127.0.0.1", {})
        for name, host in WORKERS.items():
            hidden = " ".join(str(root / other) for other in (DRIVER, *WORKERS) if other != name)
            own = ["--cores", "1", "--memory", "1g", "--work-dir", str(_made(root / name / "work"))]
            command = [run, "org.apache.spark.deploy.worker.Worker", master, *own]
            prefix = ["unshare", "-rm", "sh", "-c", _HIDE, "sh"] if hides() else []
            start([*prefix, *command], root / name, host, {"HIDDEN": hidden})
        for name in WORKERS:
            said = root / name / "said"
            until(lambda said=said: b"registered with master" in said.read_bytes(), f"worker {name}")  # type: ignore[misc]
        yield Machines(root, master, started[1:])
    finally:
        for each in started:
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()
        for pid in Machines(root, "", started[1:]).executors():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
