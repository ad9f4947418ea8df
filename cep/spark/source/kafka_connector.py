"""Kafka through Spark's own connector (a jar). Messages arrive as DataFrames (`cep.spark.source.data_frames.provided`).

Spark stores the offsets. The connector only fetches messages. Their records are parsed like all other records.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from cep.connectors.addresses import Address
from cep.connectors.brokers.kafka import layer
from cep.connectors.brokers.messages import Messages
from cep.connectors.inputs import Input
from cep.core.errors import CepError, reason_of
from cep.spark.driver.session import KAFKA, connector_artifact
from cep.spark.source.file_list import FILE_BITS

if TYPE_CHECKING:
    import pyarrow as pa

    from cep.spark.program import ShippedProgram
    from cep.spark.shuffle_blocks import ShuffleBlock

FORMAT = "kafka"
"""The name of the connector in Spark."""

EACH = 100_000
"""The maximum number of messages per task."""

_TIMEOUT = 10.0  # seconds that a broker may take to answer
_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_BESIDE = {
    "org.apache.kafka.clients.consumer.KafkaConsumer": "kafka-clients",
    "org.apache.spark.kafka010.KafkaTokenUtil": "spark-token-provider-kafka-0-10",
    "org.apache.commons.pool2.impl.GenericKeyedObjectPool": "commons-pool2",
}
"""Classes that the connector needs, and the jar that contains each."""

_TAKEN = (
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "group.id",
    "interceptor.classes",
    "key.deserializer",
    "value.deserializer",
)
"""Settings of the Java client that the user cannot set in an address. The connector or another option of the address
sets them."""

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_ENDPOINT = "ssl.endpoint.identification.algorithm"


def reads_address(address: Address, named: bool) -> bool:
    """Return True if the connector should read an address.

    The option `through=` of the address decides. Without this option, the connector is used if its jar is `named` in
    the settings. Raises CepError if the option has an unknown value.
    """
    if address.kind != "kafka":
        return False
    return address.choice("through", ("spark", "python") if named else ("python", "spark")) == "spark"


def check_reachable(address: Address) -> None:
    """Check that a server of an address accepts connections. Raises CepError if none does."""
    options(address, None)
    reasons = []
    for place in address.hosts:
        try:
            socket.create_connection(place, _TIMEOUT).close()
            return
        except OSError as error:
            reasons.append(reason_of(error))
    raise address.refused(f"no answer: {reasons[0]}", "is a broker running there?")


def options(address: Address, most: int | None) -> dict[str, str]:
    """Return the options of the connector: servers, login, start, and the approximate number of messages in a
    micro-batch.

    `most`: this number, unless the address has the option `limit=`. Raises CepError if a file does not exist or an
    option is not valid.
    """
    if not address.path or "/" in address.path:
        raise address.refused("the address names no topic", f"e.g. `kafka://{address.servers}/readings`")
    limit = None if most is None else int(address.number("limit", most, 1))
    reader_options = {
        "kafka.bootstrap.servers": address.servers,
        "subscribe": address.path,
        "startingOffsets": address.choice("from", ("earliest", "latest")),
        "failOnDataLoss": "true" if address.choice("gone", ("refuse", "skip")) == "refuse" else "false",
        "maxRecordsPerPartition": str(EACH),
    }
    if limit is not None:
        reader_options["maxOffsetsPerTrigger"] = str(limit)
    return reader_options | {f"kafka.{name}": value for name, value in client(address).items()}


def client(address: Address) -> dict[str, str]:
    """Return the settings of the Java client for an address. Raises CepError as `options` does."""
    options_given = address.options
    settings = {"security.protocol": layer(address), "isolation.level": "read_committed"}
    if "group" in options_given:
        settings["group.id"] = options_given["group"]
    if address.user is not None:
        mechanism = options_given.get("sasl", "PLAIN")
        if mechanism not in _MODULES:
            raise address.refused(f"`sasl={mechanism}` is not known", f"`sasl` is one of {', '.join(_MODULES)}")
        secret = address.password or ""
        login = f"username={_quoted(address.user)} password={_quoted(secret)}"
        settings["sasl.mechanism"] = mechanism
        settings["sasl.jaas.config"] = f"{_MODULES[mechanism]} required {login};"
    for option, names in {
        "ca": ("ssl.truststore.type", "ssl.truststore.certificates"),
        "cert": ("ssl.keystore.type", "ssl.keystore.certificate.chain"),
        "key": ("ssl.keystore.type", "ssl.keystore.key"),
    }.items():
        if option in options_given:
            settings |= dict(zip(names, ("PEM", _text(address, option)), strict=True))
    for name, value in options_given.items():
        if "." in name:
            if name in _TAKEN:
                raise address.refused(f"`{name}` cannot be set by an address: Spark's connector sets it")
            settings[name] = "" if (name, value) == (_ENDPOINT, "none") else value
    return settings


def check_installed(spark: SparkSession) -> None:
    """Check that the connector and all classes that it needs are on Spark's class path. Raises CepError if one is
    missing."""
    java: Any = spark._jvm
    loader = java.org.apache.spark.util.Utils.getContextOrSparkClassLoader()

    def loads(name: str) -> bool:
        try:
            java.java.lang.Class.forName(name, False, loader)
        except Py4JJavaError:
            return False
        return True

    missing = [jar for name, jar in _BESIDE.items() if not loads(name)] if loads(_PROVIDER) else []
    if missing:
        raise CepError(
            f"Spark's connector for Kafka lacks {' and '.join(missing)} on the class path",
            hint=f"use `--packages {connector_artifact()}`, or name each jar with `--conf spark.jars=`",
            code="spark",
        )
    try:
        spark.readStream.format(FORMAT).option("kafka.bootstrap.servers", "-").option("subscribe", "-").load()
    except AnalysisException:
        raise CepError(
            f"Spark's connector for Kafka, {KAFKA}, is not on its class path",
            hint=f"add `--packages {connector_artifact()}`, or use Python's client with `?through=python`",
            code="spark",
        ) from None


@dataclass(frozen=True, slots=True)
class TopicRows:
    """Reads the messages of a topic as rows of a DataFrame.

    - `place`: the number of the input.
    - `ahead`: how far messages may be ahead of the clock, in microseconds. The clock is the time of the micro-batch.
      Spark records this time, so a repeated micro-batch has the same one.
    """

    place: int
    input: Input
    ahead: int | None = None

    @property
    def name(self) -> str:
        """The name of the input in a checkpoint."""
        return f"input {self.place + 1}, {self.input.path}"

    @property
    def metric(self) -> str:
        """The name under which Spark's progress reports the number of rows."""
        return f"semcep_{self.place}"

    def blocks(
        self, program: ShippedProgram, batches: RecordBatches, dead_letters: str | None, name: str
    ) -> Iterator[ShuffleBlock]:
        """Yield the messages of a task as blocks.

        The name of a dead-letter file consists of the partition and the first offset, so `name` is not used.
        """
        from cep.spark.source.reading import message_blocks

        first_partition = self.place << FILE_BITS
        for (partition, clock), parts in groupby(message_runs(batches, self.input.path), key=lambda part: part[:2]):
            run = (part for *_, part in parts)
            first = next(run)
            number, here = first_partition + partition, replace(self.input, path=first.sources[0])
            file = f"read-{number:08}-{first.numbers[0]:012}"
            yield from message_blocks(
                program, number, here, chain([first], run), dead_letters, file, (self.ahead, clock)
            )


def topic_rows(
    place: int, input: Input, most: int | None, ahead: int | None
) -> tuple[Callable[[SparkSession], DataFrame], TopicRows]:
    """Return a function that creates the DataFrame of a topic's messages, and the reader of its rows.

    `place`: the number of the input. `most`: the approximate number of messages in a micro-batch. `ahead`: as for
    `TopicRows`. Raises CepError as `options` does.
    """
    assert input.address is not None, "a topic has an address"
    rows = TopicRows(place, replace(input, address=None), ahead)
    return partial(_messages, options(input.address, most)), rows


def _messages(options: Mapping[str, str], spark: SparkSession) -> DataFrame:
    """Create a DataFrame of messages. `options`: options of the connector. Raises CepError if the connector is
    missing."""
    check_installed(spark)
    rows = spark.readStream.format(FORMAT).options(**options).load()
    return rows.selectExpr(*_FIELDS, f"unix_micros(current_timestamp()) {_CLOCK}")


RecordBatches = Iterable["pa.RecordBatch"]
_FIELDS, _CLOCK = ("partition", "offset", "key", "value"), "clock"


def message_runs(rows: RecordBatches, topic: str) -> Iterator[tuple[int, int, Messages]]:
    """Group successive messages of the same partition.

    Yield the number of the partition, the time of the micro-batch, and the messages.
    """
    for batch in rows:
        partitions, offsets, values = (batch.column(name).to_pylist() for name in ("partition", "offset", "value"))
        keys, clock = batch.column("key").to_pylist(), batch.column(_CLOCK)
        for partition, run in groupby(range(batch.num_rows), key=partitions.__getitem__):
            these = list(run)
            names = [f"{topic}/{partition}"] * len(these)
            payloads = [values[i] or b"" for i in these]
            yield (
                partition,
                clock[0].as_py(),
                Messages(names, [offsets[i] for i in these], payloads, keys=[keys[i] for i in these]),
            )


def _quoted(text: str) -> str:
    """Quote a value for a Java login configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _text(address: Address, option: str) -> str:
    path = Path(address.options[option])
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise address.refused(f"`{option}={path}`: {reason_of(error)}") from None
