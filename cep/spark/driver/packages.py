"""Jars that are added to Spark's own: whether they fit, and why they cannot be downloaded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlparse

import pyspark

from cep.core.errors import CepError

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
    """Whether the connector for Kafka is among the jars that settings name. CepError: it is for another Spark; or a jar
    does not exist."""
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
