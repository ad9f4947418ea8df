"""Levels of topics, keys, nested records and times as brokers and Spark bring them."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cep.connectors.files import read
from cep.engine import Engine
from cep.events import Event
from tests import brokers
from tests.brokers import FIRST, Cluster, mosquitto, publish
from tests.waiting import PATIENCE

needs_mosquitto = pytest.mark.skipif(brokers.MOSQUITTO is None, reason=brokers.MISSING)

TOPICS = """\
event reading(site: string FROM topic[1], floor: int FROM topic[2], bar: float? FROM "pump.bar" MISSING -1)
    TIME ts FORMAT epoch ms.
high(S, F) <- reading(site: S, floor: F, bar: B) WHERE B > 2.
"""
KEYS = """\
event reading(sensor: string FROM key, v: float FROM values[]) TIME ts FORMAT "%d.%m.%Y %H:%M" ZONE "Europe/Zurich".
high(S) <- reading(S, V) WHERE V > 2.
"""


def taken(source: str, program: str, records: int) -> list[tuple[Any, ...]]:
    """Rows of `reading` as they come from a source, without their numbers."""
    rows: list[tuple[Any, ...]] = []
    batches: Generator[Any] = read([source], Engine.from_text(program).inputs, idle=0.3)
    for batch in batches:
        assert not batch.dead
        rows += [row for table in batch.tables.values() for row in table.drop("end", "@order").rows()]
        if len(rows) >= records:
            break
    batches.close()
    return rows


@needs_mosquitto
def test_levels_of_mqtt_topics(tmp_path: Path) -> None:
    with mosquitto(tmp_path / "broker") as port:
        source = f"reading=mqtt://127.0.0.1:{port}/plant/#?client=test"
        taken(source, TOPICS, 0)  # a session begins
        sent = [("plant/zurich/3", {"bar": 2.5}), ("plant/bern/0", {"bar": -1}), ("plant/bern/1", {})]
        messages = [json.dumps({"ts": FIRST + i, "pump": pump}).encode() for i, (_, pump) in enumerate(sent)]
        publish(port, zip([topic for topic, _ in sent], messages))
        assert taken(source, TOPICS, 3) == [
            (1000 * FIRST, "zurich", 3, 2.5),
            (1000 * (FIRST + 1), "bern", 0, None),
            (1000 * (FIRST + 2), "bern", 1, None),
        ]


def test_keys_of_kafka() -> None:
    from confluent_kafka import Producer

    cluster = Cluster("readings")
    producer = Producer({"bootstrap.servers": cluster.servers, "log_level": 0})
    for key, clock in (("a", "01.07.2024 08:00"), ("b", "1.7.2024 9:00")):
        producer.produce("readings", json.dumps({"ts": clock, "values": [1, 2.5]}).encode(), key=key, partition=0)
    assert producer.flush(PATIENCE) == 0
    found = taken(f"reading=kafka://{cluster.servers}/readings?until=now", KEYS, 4)
    hour = 3_600_000_000
    eight = 1_719_813_600_000_000
    assert found == [(eight, "a", 1.0), (eight, "a", 2.5), (eight + hour, "b", 1.0), (eight + hour, "b", 2.5)]


@pytest.mark.long
@pytest.mark.xdist_group("spark")
def test_spark_reads_records_as_one_process_does(tmp_path: Path) -> None:
    from tests import spark_runs

    if not spark_runs.THERE:
        pytest.skip(spark_runs.MISSING)
    (tmp_path / "in").mkdir()
    lines = [
        {"pump": {"id": f"p{i % 3}"}, "day": "1.7.2024", "clock": f"{i}:00", "readings": [{"bar": i}, {"bar": 9.5}, {}]}
        for i in range(6)
    ]
    (tmp_path / "in" / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    program = """\
event reading(pump: string FROM "pump.id", bar: float? FROM readings[].bar) TIME day, clock
    FORMAT "%d.%m.%Y %H:%M" ZONE "Europe/Zurich".
high(P, B) <- reading(P, B) WHERE B > 4.
"""
    inputs = [f"reading={tmp_path / 'in' / 'r.jsonl'}"]
    expected = sorted(map(repr, spark_runs.alone(program, inputs, 0)))
    found = spark_runs.distributed(spark_runs.job(program, inputs, tmp_path))
    assert sorted(map(repr, found)) == expected
    assert len(expected) == 7 and all(isinstance(event, Event) for event in found)
