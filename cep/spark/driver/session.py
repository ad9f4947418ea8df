"""The Spark session of a run: its settings, jars and master, the Java that it needs, and why it cannot be started."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlparse

import pyspark
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
    "spark.speculation": "false",  # a task that runs twice does the same work twice
}
"""Without these settings a query would be wrong, or would not run."""

CHOSEN: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.cleaner.periodicGC.interval": "10min",  # what jobs leave behind stays until then
    "spark.python.authenticate.socketTimeout": "60s",  # workers start slowly on a busy machine
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",  # else what reads has workers of its own
}
"""Settings that suit a run on one machine; `options` and those of spark-submit come first."""

TRIES = 4
"""How often a task may fail on this machine, as on a cluster."""

OLDEST = 17
"""The oldest version of Java that Spark 4 runs on."""

PACKAGES = "spark.jars.packages"
JARS = "spark.jars"
KAFKA = "spark-sql-kafka-0-10"
"""The artifact of Spark's own connector for Kafka."""

SCALA = "2.13"
"""The version of Scala of all jars of Spark 4."""

_PATHS = (JARS, "spark.driver.extraClassPath", "spark.executor.extraClassPath")
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+", re.ASCII)
_CONNECTOR = re.compile(rf"{re.escape(KAFKA)}_([\d.]+)[:-](\d+\.\d+)([\w.-]*)", re.ASCII)
_UNRESOLVED = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s\],]+)")

MASTER = "spark.master"

_HOST = r"(?:\[[0-9a-fA-F:]+\]|[^\s:/,\[\]]+):\d+"
_STANDALONE = rf"spark://{_HOST}(?:,{_HOST})*"
_MASTER = re.compile(
    r"local(?:\[\s*(?:\d+|\*)\s*(?:,\s*\d+\s*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    rf"|{_STANDALONE}|yarn|k8s://\S+"
)
_WORDS = ("local", "local-cluster", "spark://", "yarn", "k8s://")
_TIMEOUT = 3.0  # seconds that a master may take to answer
_STOPPED = "stopped SparkContext"  # by what the log says


def java_program() -> Path | None:
    """The path of Java; None: there is none."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java") if not home else os.path.join(home, "bin", "java")
    return Path(program) if program is not None and os.path.exists(program) else None


def java() -> int | None:
    """The version of Java; None: there is none."""
    program = java_program()
    if program is None:
        return None
    found = None
    with suppress(OSError, ValueError):  # to start Java and ask it takes a third of a second
        about = program.resolve().parents[1] / "release"
        found = re.search(r'^JAVA_VERSION="(\d+)', about.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
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
    """Return True if the configuration of the installation names a master."""
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


def beginning(master: str | None, options: Mapping[str, str], keep: bool = False) -> JavaStart:
    """How Java begins. `keep`: the run has an end, so that Java may keep its classes for later ones."""
    try:
        return java_start(java_program(), _named(_or_local(master, options), options), options, keep)
    except OSError:  # a full disk, say: Java begins later then
        return JavaStart()


def _or_local(master: str | None, options: Mapping[str, str]) -> str | None:
    """The master that is asked for, all cores of this machine where none is named; None: the configuration names it."""
    if master is None and not ({MASTER} & (submitted() | options.keys()) or master_configured()):
        return "local[*]"
    return master


def _named(master: str | None, options: Mapping[str, str]) -> str:
    """The master as far as it is known."""
    return master or options.get(MASTER) or inherited().get(MASTER, "")


def session(master: str | None, options: Mapping[str, str], begins: JavaStart | None = None) -> SparkSession:
    """Start the session. `begins`: how Java is started, None: as is best here. CepError: there is no Java for it."""
    needs_java()
    os.environ.setdefault("PYSPARK_PYTHON", options.get("spark.pyspark.python", sys.executable))
    home = str(Path(__file__).resolve().parents[3])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if home not in paths:  # run from its source: workers need it as well
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, paths)])
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    builder = SparkSession.builder.appName("semcep")
    master = _or_local(master, options)
    if master is not None:
        builder = builder.master(with_retries(master))
    named = _named(master, options)
    begins = begins or beginning(master, options)
    chosen = {name: value for name, value in {**CHOSEN, **unix_sockets(named)}.items() if name not in submitted()}
    settings = {**chosen, **options, **NEEDED}
    if begins.options:
        settings[OPTIONS] = f"{begins.options} {settings.get(OPTIONS, '')}".strip()
    for name, value in settings.items():
        builder = builder.config(name, value)
    with without_interrupts(), begins.in_environment():
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(builder._options.items())))
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def connector_artifact() -> str:
    """The connector that fits this Spark, as `--packages` names it."""
    return f"org.apache.spark:{KAFKA}_{SCALA}:{pyspark.__version__}"


def with_packages(options: Sequence[str], settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with what `--packages` names. CepError: that is no name of an artifact."""
    names = [name.strip() for text in options for name in text.split(",")]
    for name in names:
        if not _COORDINATES.fullmatch(name):
            raise CepError(
                f"--packages: expected `group:artifact:version`, found `{name}`",
                hint=f"`--packages {connector_artifact()}`",
                code="option",
            )
    known = list(filter(None, settings.get(PACKAGES, "").split(",")))
    return dict(settings) | ({PACKAGES: ",".join(dict.fromkeys([*known, *names]))} if names else {})


def has_kafka_connector(settings: Mapping[str, str]) -> bool:
    """Return True if the connector for Kafka is among the jars that settings name. CepError: it is for another Spark;
    or a jar does not exist."""
    for jar in filter(None, settings.get(JARS, "").split(",")):
        place = urlparse(jar.strip())
        if place.scheme in ("", "file") and "*" not in place.path and not Path(place.path).is_file():
            raise CepError(f"--conf {JARS}: {place.path}: no such file", code="option")
    named = ",".join(settings.get(name, "") for name in (PACKAGES, *_PATHS))
    ours = ".".join(pyspark.__version__.split(".")[:2])
    for scala, version, rest in _CONNECTOR.findall(named):
        if (scala, version) != (SCALA, ours):
            raise CepError(
                f"{KAFKA}_{scala}, version {version}{rest.removesuffix('.jar')}, does not fit this Spark, which is "
                f"{pyspark.__version__} with Scala {SCALA}",
                hint=f"`--packages {connector_artifact()}`",
                code="option",
            )
    return KAFKA in named


def unresolved(said: str) -> CepError | None:
    """The error if Spark did not start because packages could not be downloaded; `said`: its last words. None: there
    was another reason."""
    missing = [":".join(found) for found in _UNRESOLVED.findall(said)]
    if not missing:
        return None
    return CepError(
        f"--packages: {' and '.join(missing)} cannot be downloaded from any repository",
        hint="is the name right, and can Maven Central be reached? `--conf spark.jars.repositories=URL` names another "
        "repository, `--conf spark.jars=FILE,FILE` names local jars",
        code="spark",
    )


def cores(master: str | None, settings: Mapping[str, str]) -> int | None:
    """How many tasks run at once, as far as options say; None: they do not."""
    known = inherited() | dict(settings)
    named = master or known.get(MASTER) or ("" if master_configured() else "local[*]")
    if found := re.fullmatch(r"local(?:\[\s*(\d+|\*)[^\]]*\])?", named):
        return len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1] or 1)
    if found := re.match(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)", named):
        return int(found[1]) * int(found[2])
    each = [known.get(f"spark.executor.{name}", "") for name in ("instances", "cores")]
    if all(text.isdecimal() for text in each):
        return max(1, int(each[0]) * int(each[1]))
    return None


def checked(master: str) -> str:
    """The same master. CepError: it is none."""
    if _MASTER.fullmatch(master):
        return master
    word = (re.match(r"[^\[]*//|[^\[:]*", master) or [""])[0]
    raise CepError(
        f"--master: `{master}` is none{'' if word in _WORDS else closest(word, _WORDS)}",
        hint="`local[2]`, `local[*]`, `spark://host:7077`, `yarn`, `k8s://https://host:443`",
        code="spark",
    )


def silent(master: str) -> str | None:
    """Why no master of a standalone cluster answers; None: one does, or it is no such cluster."""
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
    """Start the session; the log of its processes goes to a file of the folder. `warn` takes what is waited for;
    `begins`: how Java is started. CepError: it cannot be; says why."""
    named = master or settings.get(MASTER, "")
    if (why := silent(named)) is not None:
        warn(f"waiting for {named}, which does not answer: {why}")
    log = folder / SPARK_LOG
    before = log.stat().st_size if log.exists() else 0
    try:
        with redirected(folder):
            made = session(master, settings, begins)
    except (PySparkException, Py4JError, OSError) as error:
        texts = causes(error)
        if why is not None:
            why = f"{named} does not answer: {why}"
        elif texts and _STOPPED not in texts[-1]:
            why = reason(texts)
        else:
            why = said(log, before) or str(error).partition("\n")[0]
        if (absent := unresolved(why)) is not None:
            raise absent from None
        hint = f"look at --master and --conf; {log} has what Spark said"
        raise CepError(f"Spark cannot be started: {why}", hint=hint, code="spark") from None
    silence_gateway(made.sparkContext._accumulatorServer)
    if not str(made.sparkContext.master).startswith("local"):
        atexit.register(_let_go, made.sparkContext)
    return made


def _let_go(context: SparkContext) -> None:
    """Give the executors back before this process ends. Java would, a moment later; but where this is all that a
    container is for, Java ends with it, and executors on Kubernetes would stay until someone removes them."""
    with warnings.catch_warnings(), suppress(PySparkException, Py4JError, OSError):  # Java has ended
        warnings.simplefilter("ignore")
        context.stop()
