"""Three ways to make Java start faster if all processes run on this machine.

- Spark puts the PySpark zip of its home first in the path of Python processes. The zip contains only sources. Each of
  the six processes of a run compiles them, which takes more than a second. So Spark gets a home that consists of links
  to everything except the zip. Python processes then load the installed PySpark.
- Before it opens the first data source, Java starts two more Python processes. They search for data sources of other
  packages, which no run uses. Java skips the search if it finds no Python for it.
- Java reads, checks and links about 14,000 classes. This takes 13 of the 30 s of CPU until the first result. The first
  run saves the linked classes in an archive (class data sharing of the JDK). Later runs map the archive into memory.

The archive's name depends on the sizes and times of the jars, and on the version of Java. It also depends on the
archive's own size, because Java crashes if an archive is truncated. Java checks everything else and ignores an archive
that does not fit.

If Java has an agent, or a folder in its class path, it refuses to start with the option to write an archive. So the
option is only used if the user has set no options of Java.
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
"""Environment variables that may contain options of Java or folders of its class path."""

_HOME, _ORIGIN, _LOCK, _ARCHIVE, _WRITTEN = "home", "origin", "lock", ".jsa", ".new"
_PARTS = ("bin", "conf", "jars", "sbin", "RELEASE")
"""The parts of a Spark home that Java needs to start."""
_PLAIN = re.compile(r"[\w./+@-]+", re.ASCII)
"""A pattern for paths that Spark and Java accept among options without quoting."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_KEPT = 2
"""The number of archives kept per installation of PySpark. Different versions of Java need different archives."""
_LONGEST = 120.0  # seconds that Java may take to write the archive
_LEAVING = 2.0  # seconds that Java may take to remove its files
_POLL = 0.1


@dataclass(slots=True)
class JavaStart:
    """The parameters with which Java starts.

    - `environment`: environment variables for Java's process.
    - `options`: Java options that precede the user's options.
    - `written`: the archive that Java writes when it ends, or None if Java writes no archive.
    - `well`: True if the run has ended without an error.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    options: str = ""
    written: Path | None = None
    well: bool = False
    _lock: IO[bytes] | None = None

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """Set the environment variables inside a `with` block, for processes that start in it."""
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
        """End Java after the run, if Java is to write an archive of its classes. Otherwise do nothing.

        The archive is kept only if the run ended without an error and no signal arrives before it is complete.
        """
        gateway = SparkContext._gateway
        if self.written is None or gateway is None or gateway.proc is None:
            return
        if self.well:
            log("classes", "storing Java's classes takes some seconds: later runs on Spark start in half the time")
        signals: list[int] = []
        with stops.listening(signals.append):
            if SparkContext._active_spark_context is not None:
                with suppress(Py4JError, OSError):  # Java may have ended by itself
                    SparkContext._active_spark_context.stop()
            gateway.proc.stdin.close()  # Java ends when its input is closed
            until = time.monotonic() + (_LONGEST if self.well else _LEAVING)
            while gateway.proc.poll() is None and not signals and time.monotonic() < until:
                time.sleep(_POLL)
        over = gateway.proc.poll() is not None
        gateway.proc.kill()
        gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None  # the next run in this process starts its own Java
        with suppress(OSError):
            if over and self.well:
                size = self.written.stat().st_size
                archive = self.written.with_name(f"{self.written.stem}-{size}{_ARCHIVE}")
                os.replace(self.written, archive)
                _forget(archive)
            self.written.unlink(missing_ok=True)


def java_start(java: Path | None, master: str, settings: Mapping[str, str], keep: bool = False) -> JavaStart:
    """Return the parameters with which Java starts for the Spark master `master`.

    `java`: the path of the Java program. `keep`: True if this run will end by itself, so that Java may save its classes
    for later runs. Raises OSError if the Spark home with links cannot be created.
    """
    installed = Path(pyspark.__file__).parent
    if not _alone(installed, master, settings):
        return JavaStart()
    folder = _folder(installed)
    home = _linked(installed, Path(own_folder()) if folder is None else folder)
    environment = {"SPARK_HOME": str(home), "PYSPARK_DRIVER_PYTHON": str(home / "no-python")}
    digest = None if folder is None or java is None or _configured(home) else _made_of(installed, java)
    if folder is None or digest is None:
        return JavaStart(environment)
    for archive in folder.glob(f"{digest}-*{_ARCHIVE}"):
        if archive.stem == f"{digest}-{archive.stat().st_size}":
            return JavaStart(environment, f"-XX:SharedArchiveFile={archive} -XX:+VerifySharedSpaces {_QUIET}")
    others = any(settings.get(name) for name in _OTHERS) or any(os.environ.get(name) for name in _VARIABLES)
    lock = _locked(folder / _LOCK) if keep and not others else None
    if lock is None:
        return JavaStart(environment)
    for left in (*folder.glob(f"*{_WRITTEN}"), *folder.glob(f"{digest}-*{_ARCHIVE}")):  # of killed runs; damaged
        left.unlink(missing_ok=True)
    written = folder / f"{digest}{_WRITTEN}"
    return JavaStart(environment, f"-XX:ArchiveClassesAtExit={written} {_QUIET}", written, _lock=lock)


def _alone(installed: Path, master: str, settings: Mapping[str, str]) -> bool:
    """Return True if all processes run on this machine with the PySpark in `installed`, and Java is not started yet."""
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
    """Return the cache folder for an installation of PySpark, or None if nothing can be stored safely."""
    with suppress(OSError, RuntimeError):
        cached = asked_cache() or own_cache()
        folder = cached / "spark" / hashlib.blake2b(str(installed).encode(), digest_size=8).hexdigest()
        if not _PLAIN.fullmatch(str(folder)):
            return None
        if not (folder / _ORIGIN).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _ORIGIN).write_text(str(installed), encoding="utf-8")
            for other in folder.parent.glob(f"*/{_ORIGIN}"):
                if not os.path.isdir(other.read_text(encoding="utf-8")):  # but another machine may have it
                    for archive in other.parent.glob(f"*{_ARCHIVE}"):
                        archive.unlink(missing_ok=True)
        return None if others_may_write(folder, installed.stat().st_uid) else folder  # Java runs code from this folder
    return None


def _linked(installed: Path, folder: Path) -> Path:
    home = folder / _HOME
    home.mkdir(exist_ok=True)
    for name in _PARTS:
        if (installed / name).exists():
            with suppress(FileExistsError):
                (home / name).symlink_to(installed / name)
    return home


def _configured(home: Path) -> bool:
    """Return True if Java's class path contains a folder of settings. Java cannot write an archive in this case."""
    place = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    return place.is_dir() and any(place.iterdir())


def _made_of(installed: Path, java: Path) -> str | None:
    """Return a hash of the jars and of Java, which is the first part of an archive's name. Returns None if this version
    of Java has no archives."""
    home = java.resolve().parents[1]
    if not (home / "lib" / "server" / "classes.jsa").is_file():
        return None
    digest = hashlib.blake2b(str(home).encode(), digest_size=12)
    with suppress(OSError):
        digest.update((home / "release").read_bytes())
    for jar in sorted(os.scandir(installed / "jars"), key=lambda entry: entry.name):
        digest.update(f"\n{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def _locked(path: Path) -> IO[bytes] | None:
    """Lock a file until this process ends. Return None if the file is locked already or cannot be created."""
    with suppress(OSError):
        lock = path.open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError:
            lock.close()
    return None


def _forget(archive: Path) -> None:
    archives = sorted(archive.parent.glob(f"*{_ARCHIVE}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in archives[_KEPT:]:
        if old != archive:
            old.unlink(missing_ok=True)
