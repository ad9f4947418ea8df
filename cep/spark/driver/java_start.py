"""How Java begins sooner where a run is on this machine alone: a home of Spark without its copy of PySpark, and classes
that were kept.

- Spark puts the zip of PySpark in its home before all else that a Python process knows. It has sources alone, so
  each process compiles them anew, for a second and more; a run starts six. In a home of links to all but that zip
  they load PySpark as it is installed.
- Before its first source Java starts two more of them, to look for sources of other packages. There are none that a run
  asks for, and it does not look where it finds no Python for it.
- Java reads, checks and links some 14,000 classes, for 13 s of a core of 30 until the first result. What a first run
  has made of them is kept in an archive (JDK's class data sharing), and mapped by the next ones.

The archive is of these jars, by their sizes and times, and of this Java. It is named by them, and by its own size:
Java crashes over one that ends early. All else Java checks as it begins: it holds the archive against the jars and its
sums, and goes without it where anything is wrong. Where it is to write one, it does not begin at all with an agent,
say, or with a folder in its path: so that is only asked of a Java that has no options of others.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

from cep.core.logs import Log
from cep.core.private_files import others_may_write
from cep.core.signals import stops
from cep.core.user_cache import asked_cache, own_cache
from cep.spark.working_folder import own_folder

OPTIONS = "spark.driver.extraJavaOptions"
PYTHON = "spark.pyspark.python"

_OTHERS = (OPTIONS, "spark.driver.defaultJavaOptions", "spark.driver.extraClassPath")
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
"""Variables that may hold options of Java, or folders in its path."""

_HOME, _ORIGIN, _LOCK, _ARCHIVE, _WRITTEN = "home", "origin", "lock", ".jsa", ".new"
_PARTS = ("bin", "conf", "jars", "sbin", "RELEASE")
"""All of a home of Spark that Java is started from."""
_PLAIN = re.compile(r"[\w./+@-]+", re.ASCII)
"""A path that Spark and Java read as it is among options."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_KEPT = 2
"""How many archives are kept for one PySpark: of so many Javas."""
_LONGEST = 120.0  # seconds that Java may take to write
_LEAVING = 2.0  # seconds in which it removes its own files
_POLL = 0.1


@dataclass(slots=True)
class JavaStart:
    """`environment`: variables that Java is started with; `options`: of Java, before those of the user;
    `written`: where Java puts the classes of this run as it ends, None: it does not. `well`: the run has ended well."""

    environment: Mapping[str, str] = field(default_factory=dict)
    options: str = ""
    written: Path | None = None
    well: bool = False
    _lock: IO[bytes] | None = None

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """Processes that are started in the block have its variables."""
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def end(self, log: Log) -> None:
        """End a Java that writes its classes, once the run is over: they are kept where that has ended well, and no
        signal comes meanwhile."""
        gateway = SparkContext._gateway
        if self.written is None or gateway is None or gateway.proc is None:
            return
        if self.well:
            log("classes", "keeping Java's classes for some seconds: later runs on Spark begin in half the time")
        came: list[int] = []
        with stops.listening(came.append):
            if SparkContext._active_spark_context is not None:
                with suppress(Py4JError, OSError):  # it may have ended by itself
                    SparkContext._active_spark_context.stop()
            gateway.proc.stdin.close()  # Java ends when nobody speaks to it
            until = time.monotonic() + (_LONGEST if self.well else _LEAVING)
            while gateway.proc.poll() is None and not came and time.monotonic() < until:
                time.sleep(_POLL)
        over = gateway.proc.poll() is not None
        gateway.proc.kill()
        gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None  # another run of this process starts its own
        with suppress(OSError):
            if over and self.well:
                size = self.written.stat().st_size
                archive = self.written.with_name(f"{self.written.stem}-{size}{_ARCHIVE}")
                os.replace(self.written, archive)
                _forget(archive)
            self.written.unlink(missing_ok=True)


def java_start(java: Path | None, master: str, settings: Mapping[str, str], keep: bool = False) -> JavaStart:
    """How `java` (its program) begins for a master. `keep`: the run has an end, so its classes may be kept. OSError:
    nothing can be prepared."""
    installed = Path(pyspark.__file__).parent
    if not _alone(installed, master, settings):
        return JavaStart()
    folder = _folder(installed)
    home = _linked(installed, Path(own_folder()) if folder is None else folder)
    environment = {"SPARK_HOME": str(home), "PYSPARK_DRIVER_PYTHON": str(home / "no-python")}
    made = None if folder is None or java is None or _configured(home) else _made_of(installed, java)
    if folder is None or made is None:
        return JavaStart(environment)
    for archive in folder.glob(f"{made}-*{_ARCHIVE}"):
        if archive.stem == f"{made}-{archive.stat().st_size}":
            return JavaStart(environment, f"-XX:SharedArchiveFile={archive} -XX:+VerifySharedSpaces {_QUIET}")
    others = any(settings.get(name) for name in _OTHERS) or any(os.environ.get(name) for name in _VARIABLES)
    lock = _locked(folder / _LOCK) if keep and not others else None
    if lock is None:
        return JavaStart(environment)
    for left in (*folder.glob(f"*{_WRITTEN}"), *folder.glob(f"{made}-*{_ARCHIVE}")):  # killed; damaged
        left.unlink(missing_ok=True)
    written = folder / f"{made}{_WRITTEN}"
    return JavaStart(environment, f"-XX:ArchiveClassesAtExit={written} {_QUIET}", written, _lock=lock)


def _alone(installed: Path, master: str, settings: Mapping[str, str]) -> bool:
    """Return True if all processes are on this machine and of this installation, and Java is yet to be started."""
    home = os.environ.get("SPARK_HOME")
    pythons = (settings.get(PYTHON), os.environ.get("PYSPARK_PYTHON"))
    return (
        (master == "local" or master.startswith("local["))
        and "PYSPARK_GATEWAY_PORT" not in os.environ
        and SparkContext._gateway is None
        and "PYSPARK_DRIVER_PYTHON" not in os.environ
        and (installed / "bin" / "spark-submit").is_file()
        and (installed / "jars").is_dir()
        and (home is None or (os.path.isdir(home) and os.path.samefile(home, installed)))
        and all(python in (None, sys.executable) for python in pythons)
    )


def _folder(installed: Path) -> Path | None:
    """The folder of a PySpark in the user's cache; None: nothing can be kept, or is to be."""
    with suppress(OSError, RuntimeError):
        cached = asked_cache() or own_cache()
        folder = cached / "spark" / hashlib.blake2b(str(installed).encode(), digest_size=8).hexdigest()
        if not _PLAIN.fullmatch(str(folder)):
            return None
        if not (folder / _ORIGIN).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _ORIGIN).write_text(str(installed), encoding="utf-8")
            for other in folder.parent.glob(f"*/{_ORIGIN}"):
                if not os.path.isdir(other.read_text(encoding="utf-8")):  # here: it may be there on another machine
                    for archive in other.parent.glob(f"*{_ARCHIVE}"):
                        archive.unlink(missing_ok=True)
        return None if others_may_write(folder, installed.stat().st_uid) else folder  # Java runs what is there
    return None


def _linked(installed: Path, folder: Path) -> Path:
    """A home of Spark there. OSError: it cannot be made."""
    home = folder / _HOME
    home.mkdir(exist_ok=True)
    for name in _PARTS:
        if (installed / name).exists():
            with suppress(FileExistsError):
                (home / name).symlink_to(installed / name)
    return home


def _configured(home: Path) -> bool:
    """Return True if a folder of settings is in Java's path: then it keeps no classes."""
    place = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    return place.is_dir() and any(place.iterdir())


def _made_of(installed: Path, java: Path) -> str | None:
    """Return the name of a class archive for these jars and this Java, or None if this Java keeps no classes."""
    home = java.resolve().parents[1]
    if not (home / "lib" / "server" / "classes.jsa").is_file():
        return None
    digest = hashlib.blake2b(str(home).encode(), digest_size=12)
    with suppress(OSError):
        digest.update((home / "release").read_bytes())
    for jar in sorted(os.scandir(installed / "jars"), key=lambda one: one.name):
        digest.update(f"\n{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def _locked(path: Path) -> IO[bytes] | None:
    """A lock that goes with this process; None: another has it."""
    with suppress(OSError):
        lock = path.open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError:
            lock.close()
    return None


def _forget(archive: Path) -> None:
    """Remove archives but the latest ones, and this one."""
    found = sorted(archive.parent.glob(f"*{_ARCHIVE}"), key=lambda one: one.stat().st_mtime, reverse=True)
    for old in found[_KEPT:]:
        if old != archive:
            old.unlink(missing_ok=True)
