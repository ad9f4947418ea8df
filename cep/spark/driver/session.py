"""The Spark session of a run: its settings, jars, master and Java process, and the reasons why it cannot start."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cep.connectors.records.records import closest
from cep.core.errors import CepError, reason_of
from cep.core.signals import stops
from cep.spark.disk import SPARK_LOG
from cep.spark.driver.failure import causes, reason, redirected, said, silence_gateway
from cep.spark.driver.java_start import OPTIONS, JavaStart, java_start
from cep.spark.driver.sockets import unix_sockets

NEEDED: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",  # a task that runs twice would do its work twice
}
"""The Spark settings that a query requires. With other values, the query would fail or return wrong results."""

CHOSEN: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.cleaner.periodicGC.interval": "10min",  # data of finished jobs stays until then
    "spark.python.authenticate.socketTimeout": "60s",  # workers start slowly on a busy machine
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",  # else readers have own workers
}
"""Default settings for a run on one machine. The user's options and those of spark-submit override them."""

TRIES = 4
"""The maximum number of attempts for each task if the run uses only this machine. Clusters use the same number."""

OLDEST = 17
"""The oldest version of Java that Spark 4 supports."""

MASTER = "spark.master"

_HOST = r"(?:\[[0-9a-fA-F:]+\]|[^\s:/,\[\]]+):\d+"
_STANDALONE = rf"spark://{_HOST}(?:,{_HOST})*"
_MASTER = re.compile(
    r"local(?:\[\s*(?:\d+|\*)\s*(?:,\s*\d+\s*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    rf"|{_STANDALONE}|yarn|k8s://\S+"
)
_WORDS = ("local", "local-cluster", "spark://", "yarn", "k8s://")
_TIMEOUT = 3.0  # seconds that a master may take to answer
_STOPPED = "stopped SparkContext"  # a message in the log


def java_program() -> Path | None:
    """Return the path of the Java program, or None if Java is not installed."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java") if not home else os.path.join(home, "bin", "java")
    return Path(program) if program is not None and os.path.exists(program) else None


def java() -> int | None:
    """Return the major version of Java, or None if Java is not installed."""
    program = java_program()
    if program is None:
        return None
    version_match = None
    with suppress(OSError, ValueError):  # a file is faster: starting Java takes a third of a second
        about = program.resolve().parents[1] / "release"
        version_match = re.search(r'^JAVA_VERSION="(\d+)', about.read_text(encoding="utf-8"), re.MULTILINE)
    if version_match is None:
        output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
        version_match = re.search(r'version "(\d+)', output)
    return None if version_match is None else int(version_match[1])


def inherited() -> dict[str, str]:
    """Return all settings of spark-submit, including its defaults. Returns an empty dict if this process was not
    started by spark-submit."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def submitted() -> frozenset[str]:
    """Return the names of the settings that spark-submit has set."""
    return frozenset(inherited())


def needs_java() -> None:
    """Check that a suitable Java is installed. Raises CepError if there is no Java or it is too old for Spark."""
    version, home = java(), os.environ.get("JAVA_HOME")
    if version is None or version < OLDEST:
        named = "none" if version is None else f"Java {version}"
        raise CepError(
            f"Spark needs Java {OLDEST} or newer, but found {named}" + (f" at JAVA_HOME={home}" if home else ""),
            hint="Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17",
            code="spark",
        )


def with_retries(master: str) -> str:
    """Add retries to a local master, so that a failed task is repeated as on a cluster.

    Without retries, a query fails as soon as a worker is killed for lack of memory.
    """
    local_match = re.fullmatch(r"local(?:\[\s*([^,\]]+?)\s*\])?", master)
    return master if local_match is None else f"local[{local_match[1] or 1}, {TRIES}]"


def master_configured() -> bool:
    """Return True if the configuration of the Spark installation names a master."""
    place = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    try:
        return "spark.master" in Path(place, "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return False


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until a `with` block has ended. A second signal takes effect at once.

    Callers start Java in the block. If this process ended meanwhile, the Java process would continue to run.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught = 0

    def note(number: int) -> None:
        nonlocal caught
        caught = number

    with stops.listening(note):
        yield
    if caught:
        raise KeyboardInterrupt


def beginning(master: str | None, options: Mapping[str, str], keep: bool = False) -> JavaStart:
    """Return the parameters with which Java starts.

    `keep`: True if this run will end by itself. Java may then save its classes for later runs.
    """
    try:
        return java_start(java_program(), named_master(master, options), options, keep)
    except OSError:  # e.g. the disk is full: Java then starts later
        return JavaStart()


def named_master(master: str | None, settings: Mapping[str, str]) -> str:
    """Return the master that the user or spark-submit names. If nothing names one, return all cores of this machine.

    Returns an empty text if only the configuration of the Spark installation names a master.
    """
    known = inherited() | dict(settings)
    return master or known.get(MASTER) or ("" if master_configured() else "local[*]")


def session(master: str | None, options: Mapping[str, str], begins: JavaStart | None = None) -> SparkSession:
    """Start the Spark session. Raises CepError if Java is missing or too old.

    `begins`: the parameters with which Java starts. If it is None, this function chooses them.
    """
    needs_java()
    os.environ.setdefault("PYSPARK_PYTHON", options.get("spark.pyspark.python", sys.executable))
    home = str(Path(__file__).resolve().parents[3])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if home not in paths:  # it runs from a source tree: workers need the path as well
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, paths)])
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    builder = SparkSession.builder.appName("semcep")
    named = named_master(master, options)
    if named and (master or MASTER not in submitted() | options.keys()):
        builder = builder.master(with_retries(named))
    begins = begins or beginning(master, options)
    chosen = {name: value for name, value in {**CHOSEN, **unix_sockets(named)}.items() if name not in submitted()}
    settings = {**chosen, **options, **NEEDED}
    if begins.options:
        settings[OPTIONS] = f"{begins.options} {settings.get(OPTIONS, '')}".strip()
    for name, value in settings.items():
        builder = builder.config(name, value)
    with without_interrupts(), begins.in_environment():
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(builder._options.items())))
    spark_session = builder.getOrCreate()
    spark_session.sparkContext.setLogLevel("ERROR")
    return spark_session


def cores(master: str | None, settings: Mapping[str, str]) -> int | None:
    """Return the number of tasks that can run at once, or None if neither master nor settings determine it."""
    known, named = inherited() | dict(settings), named_master(master, settings)
    if master_match := re.fullmatch(r"local(?:\[\s*(\d+|\*)[^\]]*\])?", named):
        return len(os.sched_getaffinity(0)) if master_match[1] == "*" else int(master_match[1] or 1)
    if master_match := re.match(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)", named):
        return int(master_match[1]) * int(master_match[2])
    counts = [known.get(f"spark.executor.{name}", "") for name in ("instances", "cores")]
    if all(text.isdecimal() for text in counts):
        return max(1, int(counts[0]) * int(counts[1]))
    return None


def checked(master: str) -> str:
    """Return `master` unchanged if it is valid. Raises CepError if it is not."""
    if _MASTER.fullmatch(master):
        return master
    word = (re.match(r"[^\[]*//|[^\[:]*", master) or [""])[0]
    raise CepError(
        f"--master: `{master}` is not a valid master{'' if word in _WORDS else closest(word, _WORDS)}",
        hint="use `local[2]`, `local[*]`, `spark://host:7077`, `yarn`, `k8s://https://host:443`",
        code="spark",
    )


def silent(master: str) -> str | None:
    """Return the reason why no master of a standalone cluster answers.

    Returns None if one of the masters answers, or if the cluster is of another kind.
    """
    if not re.fullmatch(_STANDALONE, master):
        return None
    why = ""
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT).close()
            return None
        except (OSError, OverflowError) as error:
            why = why or reason_of(error)
    return why


def start_session(
    master: str | None,
    settings: Mapping[str, str],
    folder: Path,
    warn: Callable[[str], None],
    begins: JavaStart | None = None,
) -> SparkSession:
    """Start the session, and write the log of the session's processes into `folder`.

    `warn`: a function that is called if the start has to wait for something. `begins`: the parameters with which Java
    starts. Raises CepError with the reason if the session cannot start.
    """
    named = master or settings.get(MASTER, "")
    if (why := silent(named)) is not None:
        warn(f"waiting for {named}, which does not answer: {why}")
    log = folder / SPARK_LOG
    before = log.stat().st_size if log.exists() else 0
    try:
        with redirected(folder):
            spark_session = session(master, settings, begins)
    except (PySparkException, Py4JError, OSError) as error:
        texts = causes(error)
        if why is not None:
            why = f"{named} does not answer: {why}"
        elif texts and _STOPPED not in texts[-1]:
            why = reason(texts)
        else:
            why = said(log, before) or str(error).partition("\n")[0]
        hint = f"check --master and --conf; {log} is Spark's log"
        raise CepError(f"Spark cannot be started: {why}", hint=hint, code="spark") from None
    silence_gateway(spark_session.sparkContext._accumulatorServer)
    if not str(spark_session.sparkContext.master).startswith("local"):
        atexit.register(_let_go, spark_session.sparkContext)
    return spark_session


def _let_go(context: SparkContext) -> None:
    """Stop the session before this process ends, so that the cluster releases the executors.

    Java would stop the session a moment later. But if this process is the only one of a container, the container would
    end first and kill Java. On Kubernetes, the executors would then run until someone removes them.
    """
    with warnings.catch_warnings(), suppress(PySparkException, Py4JError, OSError):  # Java may have ended
        warnings.simplefilter("ignore")
        context.stop()
