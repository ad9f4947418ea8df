"""Kafka through Spark's own connector: its options, whether it is there, and its rows as events.

The connector is a jar of Maven. Where `SEMCEP_KAFKA_JARS` names it, and the jars it needs, by their files with commas
between, it is tried itself; everywhere a source of the same columns stands in for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from typer.testing import CliRunner, Result

from cep.command import app
from cep.connectors.addresses import address
from cep.connectors.ahead_limits import LIVE
from cep.connectors.brokers.kafka import Topic
from cep.core.compilation import Compilation
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.spark.driver.failure import said
from cep.spark.driver.session import PACKAGES, connector_artifact, has_kafka_connector, unresolved, with_packages
from cep.spark.source import kafka_connector
from cep.spark.source.control_messages import IdleWatermark
from cep.spark.source.data_source import alive
from cep.spark.spark_files import next_watermark
from tests import spark_runs
from tests.brokers import Cluster
from tests.cases_format import difference
from tests.program_maker import SECOND
from tests.spark_runs import alone, distributed, job

pytestmark = pytest.mark.xdist_group("spark")

PROGRAM = """event reading(room: string, temp: float).
event door(room: string).
warm(R, T) <- door(R) SEQ reading(R, T) WITHIN 5 s WHERE T > 10.
"""
OURS = ".".join(pyspark.__version__.split(".")[:2])
JARS = os.environ.get("SEMCEP_KAFKA_JARS")


def message(n: int) -> bytes:
    return json.dumps({"time": n, "room": f"urn:{n % 3}", "temp": n % 30}).encode()


def door(n: int) -> str:
    return json.dumps({"time": n + 0.5, "room": f"urn:{n % 3}"}) + "\n"


def expected(folder: Path, until: int) -> list[Event]:
    """What one process derives of so many seconds."""
    written = folder / "all.jsonl"
    readings = [json.dumps({"type": "reading"} | json.loads(message(n))) + "\n" for n in range(until)]
    written.write_text("".join([*readings, *('{"type": "door", ' + door(n)[1:] for n in range(until))]))
    return alone(PROGRAM, [str(written)], 100 * SECOND)


def test_what_an_address_says_in_the_words_of_the_connector(tmp_path: Path) -> None:
    plain = {"kafka.security.protocol": "PLAINTEXT", "kafka.isolation.level": "read_committed"}
    known = {
        "kafka.bootstrap.servers": "one:9092,two:9093",
        "subscribe": "readings",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "maxRecordsPerPartition": "100000",
    }
    assert kafka_connector.options(address("kafka://one,two:9093/readings"), None) == known | plain
    more = "kafka://one,two:9093/readings?from=latest&gone=skip&limit=50&group=cep&fetch.max.bytes=1000"
    assert kafka_connector.options(address(more), 500) == known | plain | {
        "startingOffsets": "latest",
        "failOnDataLoss": "false",
        "maxOffsetsPerTrigger": "50",
        "kafka.group.id": "cep",
        "kafka.fetch.max.bytes": "1000",
    }
    assert kafka_connector.options(address("kafka://one/readings"), 500)["maxOffsetsPerTrigger"] == "500"
    (tmp_path / "ca.pem").write_text("trusted")
    login = f"kafkas://cep:p%22%5C@one/readings?ca={tmp_path}/ca.pem&ssl.endpoint.identification.algorithm=none"
    secret = 'ScramLoginModule required username="cep" password="p\\"\\\\";'
    found = kafka_connector.options(address(f"{login}&sasl=SCRAM-SHA-512"), None)
    assert {name: value for name, value in found.items() if "s.l" in name or ".s" in name} == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f"org.apache.kafka.common.security.scram.{secret}",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "trusted",
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.bootstrap.servers": "one:9093",
    }


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("kafka://one", "kafka://one: the address names no topic"),
        ("kafka://one/a?group.id=b", "`group.id` cannot be set by an address: Spark's connector sets it"),
        ("kafka://me@one/a?sasl=GSSAPI", "`sasl=GSSAPI` is not known"),
        ("kafkas://one/a?ca=none.pem", "`ca=none.pem`: no such file or directory"),
        ("kafka://one/a?from=now", "`from=now` is not known"),
    ],
)
def test_what_an_address_may_not_say(text: str, refusal: str) -> None:
    with pytest.raises(CepError) as refused:
        kafka_connector.options(address(text), None)
    assert refusal in refused.value.message


def test_which_of_the_two_reads() -> None:
    plain, spark, python = (address(f"kafka://one/a{more}") for more in ("", "?through=spark", "?through=python"))
    assert [kafka_connector.reads_address(one, False) for one in (plain, spark, python)] == [False, True, False]
    assert [kafka_connector.reads_address(one, True) for one in (plain, spark, python)] == [True, True, False]
    assert not kafka_connector.reads_address(address("mqtt://one/a"), True)
    with pytest.raises(CepError, match="`through=spark` works on Spark only"):
        Topic(spark)


def test_the_jar_that_fits(tmp_path: Path) -> None:
    assert has_kafka_connector(with_packages([connector_artifact()], {})) and not has_kafka_connector({})
    assert with_packages(["a:b:1, c:d:2", "a:b:1"], {PACKAGES: "e:f:3"}) == {PACKAGES: "e:f:3,a:b:1,c:d:2"}
    with pytest.raises(CepError, match="--packages: expected `group:artifact:version`, found `kafka`"):
        with_packages(["kafka"], {})
    for name in (f"spark-sql-kafka-0-10_2.12:{OURS}.0", "spark-sql-kafka-0-10_2.13:3.5.1"):
        with pytest.raises(CepError, match="does not fit this Spark, which is") as refused:
            has_kafka_connector(with_packages([f"org.apache.spark:{name}"], {}))
        assert refused.value.hint == f"`--packages {connector_artifact()}`"
    jar = tmp_path / f"spark-sql-kafka-0-10_2.13-{OURS}.0.jar"
    with pytest.raises(CepError, match=f"--conf spark.jars: {jar}: no such file"):
        has_kafka_connector({"spark.jars": str(jar)})
    jar.touch()
    assert has_kafka_connector({"spark.jars": f"file:{jar}"})
    jar.rename(old := tmp_path / "spark-sql-kafka-0-10_2.12-3.5.1.jar")
    with pytest.raises(CepError, match=r"_2\.12, version 3\.5\.1, does not fit"):
        has_kafka_connector({"spark.jars": str(old)})


def test_packages_that_cannot_be_had(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(
        "\t\t:: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found\n"
        'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: '
        "org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found]\n\tat org.apache.spark.util.MavenUtils$.x(y:5)\n"
    )
    found = unresolved(said(log, 0) or "")
    assert found is not None and unresolved("Invalid maximum heap size: -Xmxmuch") is None
    refusal = "--packages: org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 cannot be downloaded from any repository"
    assert found.message == refusal


def test_a_busy_topic_is_no_silence(tmp_path: Path) -> None:
    now = [0.0]
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
    (tmp_path / "commits/0").write_text('v1\n{"nextBatchWatermarkMs": 7000}')

    def planned(batch: int, offset: int) -> None:
        (tmp_path / f"offsets/{batch}").write_text(f'v1\n{{}}\n{{"readings":{{"0":{offset}}}}}\n{{"files":0,"end":0}}')

    planned(0, 5)
    hush = IdleWatermark(5 * SECOND, 0, tmp_path, lambda: next_watermark(tmp_path), lambda: now[0])
    hush.reset()
    now[0] = 6.0
    planned(1, 9)
    assert hush.due() is None, "the topic went on meanwhile"
    now[0] = 12.0
    assert hush.due() is not None


class StandIn(DataSource):
    """A source of the columns that Spark's connector has, which reads by Python's client."""

    @classmethod
    def name(cls) -> str:
        return "kafka_stand_in"

    def schema(self) -> str:
        return (
            "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
        )

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return Reader(dict(self.options))


class Part(InputPartition):
    def __init__(self, number: int, first: int, end: int) -> None:
        super().__init__(number)
        self.number, self.first, self.end = number, first, end


class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: dict[str, str]) -> None:
        found = {name.lower(): value for name, value in options.items()}
        self.servers, self.topic = found["kafka.bootstrap.servers"], found["subscribe"]
        self.last: dict[str, Any] = {}

    def read_from(self) -> Topic:
        return Topic(address(f"kafka://{self.servers}/{self.topic}"))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {self.topic: {}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.last = self.now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return self.last

    def now(self) -> dict[str, Any]:
        topic = self.read_from()
        try:
            return {self.topic: {str(number): last for number, (_, last) in topic.bounds().items()}}
        finally:
            topic.close()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        before = start[self.topic]
        every = [Part(int(n), before.get(n, 0), last) for n, last in end[self.topic].items()]
        return [one for one in every if one.end > one.first]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Part)
        topic, number = self.read_from(), partition.number
        for found, _ in topic.read({number: partition.first}, {number: partition.end}):
            for offset, payload in zip(found.numbers, found.payloads, strict=True):
                yield None, payload or None, self.topic, number, offset, None, 0
        topic.close()


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_rows_of_a_connector_beside_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = spark_runs.spark()
    with pytest.raises(CepError, match="Spark's connector for Kafka, spark-sql-kafka-0-10, is not on its class path"):
        kafka_connector.check_installed(spark)
    spark.dataSource.register(StandIn)
    monkeypatch.setattr(kafka_connector, "FORMAT", StandIn.name())
    kafka_connector.check_installed(spark)
    cluster, doors = Cluster("readings"), tmp_path / "doors"
    doors.mkdir()
    inputs = [f"reading=kafka://{cluster.servers}/readings", f"door={doors}"]
    topic = alive(Engine.from_text(PROGRAM).inputs, inputs[0], None)
    options: dict[str, Any] = {
        "lateness": 5 * SECOND,
        "dead_letters": f"{tmp_path}/dead",
        "closing": False,
        "most": 500,
    }
    for first in (0, 30):
        cluster.send([(n % 4, n, message(n)) for n in range(first, first + 30)])
        (doors / f"{first:02}.jsonl").write_text("".join(map(door, range(first, first + 30))))
        if first == 30:
            cluster.send([(1, 0, b"ajar"), (2, 0, None)])
        rows = kafka_connector.topic_rows(0, topic[0], options["most"], LIVE.live)
        query = job(PROGRAM, inputs, tmp_path, frames=(rows,), **options)
        found = distributed(query)
    assert difference([one for one in expected(tmp_path, 60) if one.end <= 54 * SECOND], found) == ""
    letters = [json.loads(line) for file in (tmp_path / "dead").iterdir() for line in file.read_text().splitlines()]
    where = f"kafka://{cluster.servers}/readings/1"
    assert [(one["file"], one["line"], one["record"], one["code"]) for one in letters] == [(where, 15, "ajar", "json")]


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_topics_come_and_go_with_a_new_checkpoint_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_runs.spark().dataSource.register(StandIn)
    monkeypatch.setattr(kafka_connector, "FORMAT", StandIn.name())
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    cluster = Cluster("readings")
    cluster.send([(n % 4, n, message(n)) for n in range(30)])
    Path("doors.jsonl").write_text("".join(map(door, range(30))))
    Path("warm.cep").write_text(PROGRAM)
    Path("other.cep").write_text(PROGRAM.replace("> 10", "> 11"))
    files, topic = "door=doors.jsonl", f"reading=kafka://{cluster.servers}/readings?through=spark"

    def run(name: str, *inputs: str, rules: str = "warm.cep", once: bool = True) -> Result:
        places = [f"--output=out-{name}", f"--checkpoint=state-{name}", "--output-format=jsonl", "--buckets=2"]
        options = ["--on=spark", "--lateness=5s", *(["--once"] if once else [])]
        named = [part for spec in inputs for part in ("--input", spec)]
        return CliRunner().invoke(app, ["run", rules, *options, *places, *named], prog_name="cep")

    refused = run("two", f"{topic}&gone=never", files, once=False)
    assert refused.exit_code == 2 and "has no end" in refused.stderr, "before anything is asked for"
    place = f"kafka://{cluster.servers}/readings"
    for name, before, now, refusal in (
        ("one", [files], [files, topic], f"read through Spark: none before, input 2, {place} now"),
        ("two", [topic, files], [files], f"read through Spark: input 1, {place} before, none now"),
    ):
        assert (first := run(name, *before)).exit_code == 0, first.stderr
        changed = run(name, *now)
        assert changed.exit_code == 2 and refusal in " ".join(changed.stderr.split()), changed.stderr
        hinted = "--migrate" in run(name, *before, rules="other.cep").stderr
        assert hinted == (topic not in before), "what would be refused as well"
    assert (again := run("one", files)).exit_code == 0, again.stderr


if JARS is not None:

    @pytest.mark.long
    @pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
    def test_the_connector_itself(tmp_path: Path) -> None:
        cluster, doors = Cluster("readings"), tmp_path / "doors"
        doors.mkdir()
        (tmp_path / "warm.cep").write_text(PROGRAM)
        inputs = ["--input", f"reading=kafka://{cluster.servers}/readings?limit=40", "--input", f"door={doors}"]
        places = ["--output", "out", "--checkpoint", "state", "--output-format", "jsonl", "--lateness", "5s", "--once"]
        command = [sys.executable, "-c", "from cep.command import main; main()", "run", "warm.cep", "--on", "spark"]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        for first in (0, 30):
            cluster.send([(n % 4, n, message(n)) for n in range(first, first + 30)])
            (doors / f"{first:02}.jsonl").write_text("".join(map(door, range(first, first + 30))))
            line = [*command, "--master", "local[2]", "--conf", f"spark.jars={JARS}", *inputs, *places]
            done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        found = spark_runs.derived(job(PROGRAM, inputs[1::2], tmp_path, output=str(tmp_path / "out")))
        assert difference([one for one in expected(tmp_path, 60) if one.end <= 54 * SECOND], found) == ""
