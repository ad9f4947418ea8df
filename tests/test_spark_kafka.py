"""A topic of Kafka through Spark's own connector, as the page "From your own PySpark" reads it.

The connector is a jar of Maven, so a source of the same columns stands in for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from cep.connectors.addresses import address
from cep.connectors.brokers.kafka import Topic
from cep.spark import Rules
from cep.spark.source.control_messages import IdleWatermark
from cep.spark.spark_files import next_watermark
from tests import spark_runs
from tests.brokers import Cluster
from tests.cases_format import difference
from tests.program_maker import SECOND
from tests.spark_runs import alone, derived, job

pytestmark = pytest.mark.xdist_group("spark")

PROGRAM = """event reading(room: string, temp: float) TIME time.
warm(R, T) <- (reading(R, S) SEQ reading(R, T)) WITHIN 5 s WHERE T > S + 2.
"""


def message(n: int) -> bytes:
    return json.dumps({"time": n, "room": f"urn:{n % 3}", "temp": n % 30}).encode()


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
def test_messages_of_a_connector_go_through_rules(tmp_path: Path) -> None:
    spark, cluster, rules = spark_runs.spark(), Cluster("readings"), Rules.from_text(PROGRAM)
    spark.dataSource.register(StandIn)
    output, checkpoint, letters_in = (tmp_path / name for name in ("derived", "state", "dead"))
    for first in (0, 30):
        cluster.send([(n % 4, n, message(n)) for n in range(first, first + 30)])
        if first == 30:
            cluster.send([(1, 0, b"ajar")])
        messages = spark.readStream.format(StandIn.name()).option("kafka.bootstrap.servers", cluster.servers)
        rows = "from_json(CAST(value AS STRING), 'time DOUBLE, room STRING, temp DOUBLE') row"
        readings = messages.option("subscribe", "readings").load().selectExpr("partition", "offset", rows)
        columns = "timestamp_seconds(row.time) time", "row.room", "row.temp", "partition", "offset"
        readings = readings.selectExpr(*columns)
        stream = rules.over({"reading": readings}, order={"reading": ["partition", "offset"]}, lateness="5 s")
        query = stream.start(
            output=output, checkpoint=checkpoint, dead_letters=letters_in, format="jsonl", available_now=True
        )
        query.awaitTermination()
    written = tmp_path / "all.jsonl"
    written.write_text("".join(json.dumps({"type": "reading"} | json.loads(message(n))) + "\n" for n in range(60)))
    expected = [event for event in alone(PROGRAM, [str(written)], 100 * SECOND) if event.end < 54 * SECOND]
    found = derived(job(PROGRAM, [], tmp_path))
    assert len(expected) > 20 and difference(expected, found) == ""
    letters = [json.loads(line) for file in letters_in.iterdir() for line in file.read_text().splitlines()]
    assert [(letter["file"], letter["code"]) for letter in letters] == [("reading", "time")]
