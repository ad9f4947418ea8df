"""The Spark session of a run: its settings, and the Java that it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from cep.core.errors import CepError
from cep.core.signals import stops

NEEDED: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",  # a bucket makes one step at a time
}
"""Without these settings a query would be wrong, or would not run."""

CHOSEN: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",  # what changed, not all
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",  # no look before each write
    "spark.cleaner.periodicGC.interval": "10min",  # what crossed a shuffle stays on disk until then
    "spark.python.authenticate.socketTimeout": "60s",  # workers start slowly on a busy machine
}
"""Settings that suit a run on one machine; `options` and those of spark-submit come first."""


TRIES = 4
"""How often a task may fail on this machine, as on a cluster."""

OLDEST = 17
"""The oldest version of Java that Spark 4 runs on."""


def java() -> int | None:
    """The version of Java; None: there is none."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java") if not home else os.path.join(home, "bin", "java")
    if program is None or not os.path.exists(program):
        return None
    output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', output)
    return None if found is None else int(found[1])


def inherited() -> dict[str, str]:
    """The settings of spark-submit, given or by default, if it has started this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def submitted() -> frozenset[str]:
    """The names of the settings of spark-submit."""
    return frozenset(inherited())


def needs_java() -> None:
    """CepError: there is no Java that Spark runs on."""
    found, home = java(), os.environ.get("JAVA_HOME")
    if found is None or found < OLDEST:
        there = "none" if found is None else f"Java {found}"
        raise CepError(
            f"Spark needs Java {OLDEST} or newer, and there is {there}" + (f" at JAVA_HOME={home}" if home else ""),
            hint="Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17",
            code="spark",
        )


def with_retries(master: str) -> str:
    """The same master, where a failed task on this machine is repeated, as on a cluster: a worker may be killed for
    want of memory."""
    found = re.fullmatch(r"local(?:\[\s*([^,\]]+?)\s*\])?", master)
    return master if found is None else f"local[{found[1] or 1}, {TRIES}]"


def master_configured() -> bool:
    """Whether the configuration of the installation names a master."""
    place = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    try:
        return "spark.master" in Path(place, "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return False


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C or SIGTERM while the block runs takes effect when it has ended, a second one at once: a Java process that
    is left alone while it starts does not end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = 0

    def note(number: int) -> None:
        nonlocal came
        came = number

    with stops.listening(note):
        yield
    if came:
        raise KeyboardInterrupt


def session(master: str | None, options: Mapping[str, str]) -> SparkSession:
    """Start the session. CepError: there is no Java for it."""
    needs_java()
    os.environ.setdefault("PYSPARK_PYTHON", options.get("spark.pyspark.python", sys.executable))
    home = str(Path(__file__).resolve().parents[3])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if home not in paths:  # run from its source: workers need it as well
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, paths)])
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    builder = SparkSession.builder.appName("semcep")
    if master is None and not ({"spark.master"} & (submitted() | options.keys()) or master_configured()):
        master = "local[*]"
    if master is not None:
        builder = builder.master(with_retries(master))
        if master.startswith("local"):
            builder = builder.config("spark.shuffle.compress", "false")  # it stays on this machine
    chosen = {name: value for name, value in CHOSEN.items() if name not in submitted()}
    for name, value in {**chosen, **options, **NEEDED}.items():
        builder = builder.config(name, value)
    with without_interrupts():
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(builder._options.items())))
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made
