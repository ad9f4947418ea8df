"""The Spark session of a run, and what has to be so for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from cep.errors import CepError

NEEDED: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
}
"""Without these a query is not right, or not run at all."""

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
    "spark.python.authenticate.socketTimeout": "60s",  # workers start slowly on a busy machine
}
"""What suits a run on one machine; `options` come first, and what spark-submit was given."""


OLDEST = 17
"""The first Java that Spark 4 runs on."""


def java() -> int | None:
    """Which Java there is, None: none."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java") if not home else os.path.join(home, "bin", "java")
    if program is None or not os.path.exists(program):
        return None
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    return None if found is None else int(found[1])


def submitted() -> frozenset[str]:
    """The settings that spark-submit was given or has by default, where it has started this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return frozenset()
    SparkContext._ensure_initialized()
    return frozenset(name for name, _ in SparkConf().getAll())


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


def session(master: str | None, options: Mapping[str, str]) -> SparkSession:
    """The session. CepError: there is no Java for it."""
    needs_java()
    os.environ.setdefault("PYSPARK_PYTHON", options.get("spark.pyspark.python", sys.executable))
    home = str(Path(__file__).resolve().parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if home not in paths:  # run from its source: workers are to find it as well
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, paths)])
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    builder = SparkSession.builder.appName("semcep")
    if master is not None:
        builder = builder.master(master)
    chosen = {name: value for name, value in CHOSEN.items() if name not in submitted()}
    for name, value in {**chosen, **options, **NEEDED}.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made
