"""Kafka through Spark's own connector, a jar: a second stream of shuffle blocks beside that of our own source.

Spark keeps its offsets, in a line of their own in each plan of a micro-batch, before the line of our own source. The
connector only fetches messages; they are read as all others are.
"""

from __future__ import annotations

import json
import pickle
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
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
from cep.core.checksum import content, seal
from cep.core.errors import CepError, reason_of
from cep.spark import spark_files
from cep.spark.disk import INPUTS, damaged_file, put, writing_to
from cep.spark.driver.session import KAFKA, connector_artifact
from cep.spark.handover import COLUMNS, as_row, with_dead_letters
from cep.spark.source.file_list import FILE_BITS

if TYPE_CHECKING:
    import pyarrow as pa

    from cep.spark.program import ShippedProgram
    from cep.spark.shuffle_blocks import ShuffleBlock

FORMAT = "kafka"
"""The name by which Spark knows it."""

EACH = 100_000
"""The most messages of a task."""

NOTE = "through"
"""A file in the folder of an input that the connector reads."""

_AS_BEFORE = "name the inputs as before, in the same order, or start anew with another folder"

_TIMEOUT = 10.0  # seconds in which a broker has to answer
_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_BESIDE = {
    "org.apache.kafka.clients.consumer.KafkaConsumer": "kafka-clients",
    "org.apache.spark.kafka010.KafkaTokenUtil": "spark-token-provider-kafka-0-10",
    "org.apache.commons.pool2.impl.GenericKeyedObjectPool": "commons-pool2",
}
"""Classes that the connector needs, and the jars that have them."""

_TAKEN = (
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "group.id",
    "interceptor.classes",
    "key.deserializer",
    "value.deserializer",
)
"""Settings of the Java client that the connector, or another option of an address, sets."""

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_ENDPOINT = "ssl.endpoint.identification.algorithm"


def reads_address(address: Address, named: bool) -> bool:
    """Return True if the connector reads an address: as its option `through=` says, else if the jar is `named`
    among the settings. CepError: the option has another value."""
    if address.kind != "kafka":
        return False
    return address.choice("through", ("spark", "python") if named else ("python", "spark")) == "spark"


def check_same_reader(checkpoint: Path, place: int, address: Address, ours: bool) -> None:
    """Make sure that the input at a place is read as before: by the connector (`ours`), or by Python's client. Neither
    knows the offsets of the other. CepError: it is not."""
    folder = checkpoint / f"{INPUTS}{place}"
    if address.kind != "kafka" or not (folder / "address").exists():
        return
    was = (folder / NOTE).exists()
    if was and not spark_files.has_planned(checkpoint):
        return  # its run ended before anything was read
    if not was and not ours:
        return
    before = _noted(folder / "address")
    if was != ours and before == address.text:
        ways = {True: "through Spark's own connector", False: "through Python's client"}
        back = f"`--packages {connector_artifact()}`, or `?through=spark`," if was else "`?through=python`"
        raise CepError(
            f"--checkpoint: {address.text} was read {ways[was]}, and would be {ways[ours]}: neither goes on from "
            "the offsets of the other",
            hint=f"{back} is as before; or start anew with other folders",
            code="checkpoint",
        )
    if before != address.text:
        message = f"--checkpoint: this input was {before}, and is {address.text}"
        raise CepError(message, hint=_AS_BEFORE, code="checkpoint")


def check_same_topics(checkpoint: Path, places: Collection[int]) -> None:
    """Check that the connector reads the same inputs as before, at these places: Spark continues with as many sources
    as it began with. Raises CepError if it read others.
    """
    if not spark_files.has_planned(checkpoint):
        return
    before = _places(checkpoint)
    for place in sorted(before.symmetric_difference(places)):
        if place in before:
            was = _noted(checkpoint / f"{INPUTS}{place}" / "address")
            message = f"input {place + 1} was {was} through Spark's own connector, and is not any more"
        else:
            message = f"input {place + 1} was not read through Spark's own connector, and would be now"
        raise CepError(
            f"--checkpoint: {message}: Spark goes on with the topics that it began with, and no others",
            hint=_AS_BEFORE,
            code="checkpoint",
        )


def note_topics(checkpoint: Path, inputs: Mapping[int, Input]) -> None:
    """Note which inputs the connector reads, by their places, if no micro-batch was planned yet. CepError: the note
    cannot be written."""
    if spark_files.has_planned(checkpoint):
        return
    with writing_to("--checkpoint", checkpoint, begins=True):
        for place in _places(checkpoint) - inputs.keys():
            folder = checkpoint / f"{INPUTS}{place}"
            for name in (NOTE, "address"):
                (folder / name).unlink(missing_ok=True)
            with suppress(OSError):  # something else is there
                folder.rmdir()
        for place, one in inputs.items():
            folder = checkpoint / f"{INPUTS}{place}"
            folder.mkdir(exist_ok=True)
            put(folder / "address", seal(json.dumps(one.path).encode(), of=b"address"))
            put(folder / NOTE, b"")


def _places(checkpoint: Path) -> set[int]:
    """The places of the inputs that the connector reads, as noted."""
    return {int(file.parent.name.partition("-")[2]) for file in checkpoint.glob(f"{INPUTS}*/{NOTE}")}


def _noted(file: Path) -> str:
    """The address that a file holds. CepError: it holds none."""
    try:
        return str(json.loads(bytes(content(file.read_bytes(), file.name.encode()))))
    except (OSError, ValueError):
        raise damaged_file(file) from None


def check_reachable(address: Address) -> None:
    """CepError: none of the servers answers."""
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
    """The options of the connector: servers, login, where to begin, and about how many messages (`most`, or `limit=`)
    a micro-batch has. CepError: a file does not exist, or an option is wrong."""
    if not address.path or "/" in address.path:
        raise address.refused("it names no topic", f"e.g. `kafka://{address.servers}/readings`")
    limit = None if most is None else int(address.number("limit", most, 1))
    found = {
        "kafka.bootstrap.servers": address.servers,
        "subscribe": address.path,
        "startingOffsets": address.choice("from", ("earliest", "latest")),
        "failOnDataLoss": "true" if address.choice("gone", ("refuse", "skip")) == "refuse" else "false",
        "maxRecordsPerPartition": str(EACH),
    }
    if limit is not None:
        found["maxOffsetsPerTrigger"] = str(limit)
    return found | {f"kafka.{name}": value for name, value in client(address).items()}


def client(address: Address) -> dict[str, str]:
    """The settings of the Java client that an address asks for. CepError: as `options`."""
    options_given = address.options
    found = {"security.protocol": layer(address), "isolation.level": "read_committed"}
    if "group" in options_given:
        found["group.id"] = options_given["group"]
    if address.user is not None:
        mechanism = options_given.get("sasl", "PLAIN")
        if mechanism not in _MODULES:
            raise address.refused(f"`sasl={mechanism}` is not known", f"`sasl` is one of {', '.join(_MODULES)}")
        secret = address.password or ""
        login = f"username={_quoted(address.user)} password={_quoted(secret)}"
        found["sasl.mechanism"] = mechanism
        found["sasl.jaas.config"] = f"{_MODULES[mechanism]} required {login};"
    for option, names in {
        "ca": ("ssl.truststore.type", "ssl.truststore.certificates"),
        "cert": ("ssl.keystore.type", "ssl.keystore.certificate.chain"),
        "key": ("ssl.keystore.type", "ssl.keystore.key"),
    }.items():
        if option in options_given:
            found |= dict(zip(names, ("PEM", _text(address, option)), strict=True))
    for name, value in options_given.items():
        if "." in name:
            if name in _TAKEN:
                raise address.refused(f"`{name}` cannot be set by an address: Spark's connector sets it")
            found[name] = "" if (name, value) == (_ENDPOINT, "none") else value
    return found


def check_installed(spark: SparkSession) -> None:
    """CepError: the connector is not on the class path of Spark, or not all that it needs."""
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
            hint=f"`--packages {connector_artifact()}` has all of it; `--conf spark.jars=` has to name each jar",
            code="spark",
        )
    try:
        spark.readStream.format(FORMAT).option("kafka.bootstrap.servers", "-").option("subscribe", "-").load()
    except AnalysisException:
        raise CepError(
            f"Spark's connector for Kafka, {KAFKA}, is not on its class path",
            hint=f"`--packages {connector_artifact()}`; or read by Python's client, `?through=python`",
            code="spark",
        ) from None


def topic_blocks(
    spark: SparkSession,
    program: ShippedProgram,
    inputs: Mapping[int, Input],
    most: int | None,
    dead_letters: str | None,
    handed: str | None,
    ahead: int | None,
) -> DataFrame | None:
    """The messages of inputs, by their places, as shuffle blocks; None: there are no inputs. `dead_letters`: the prefix
    of the paths of dead letters; `handed`: the folder of what tasks hand on, None: they share none. `ahead`: how far
    records may be ahead of the clock, which is that of the micro-batch: Spark notes it, so that a repeated one has it
    again."""
    carried = pickle.dumps(program.bare())
    found = []
    for place, one in inputs.items():
        assert one.address is not None, "a topic has an address"
        rows = spark.readStream.format(FORMAT).options(**options(one.address, most)).load()
        taken = reading(carried, place << FILE_BITS, one, dead_letters, handed, ahead)
        found.append(rows.selectExpr(*_FIELDS, f"unix_micros(current_timestamp()) {_CLOCK}").mapInArrow(taken, COLUMNS))
    return reduce(DataFrame.union, found) if found else None


RecordBatches = Iterator["pa.RecordBatch"]
_FIELDS, _CLOCK = ("partition", "offset", "key", "value"), "clock"


def reading(
    program: bytes, number: int, input: Input, dead_letters: str | None, handed: str | None, ahead: int | None = None
) -> Callable[[RecordBatches], RecordBatches]:
    """The function by which a worker makes shuffle blocks of the rows of a task. `number`: of the first partition."""

    def taken(rows: RecordBatches) -> RecordBatches:
        known = pickle.loads(program)
        for (partition, clock), parts in groupby(message_runs(rows, input.path), key=lambda part: part[:2]):
            run = (part for *_, part in parts)
            first = next(run)
            mine, here = number + partition, replace(input, path=first.sources[0], address=None)
            name = f"read-{mine:08}-{first.numbers[0]:012}"
            read = partial(_blocks, known, mine, here, chain([first], run), name, (ahead, clock))
            yield from as_row(with_dead_letters(read, dead_letters) if handed is None else read(dead_letters), handed)

    return taken


def _blocks(
    program: ShippedProgram,
    number: int,
    input: Input,
    run: Iterable[Messages],
    name: str,
    ahead: tuple[int | None, int | None],
    dead_letters: str | None,
) -> Iterator[ShuffleBlock]:
    from cep.spark.source.reading import message_blocks

    return message_blocks(program, number, input, run, dead_letters, name, ahead)


def message_runs(rows: RecordBatches, topic: str) -> Iterator[tuple[int, int, Messages]]:
    """Runs of messages of one partition, each with the number of the partition and the clock of its micro-batch."""
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
    """A value in a login of Java."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _text(address: Address, option: str) -> str:
    path = Path(address.options[option])
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise address.refused(f"`{option}={path}`: {reason_of(error)}") from None
