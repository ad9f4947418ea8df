"""Brokers for tests: a real mosquitto, and librdkafka's mock cluster, which speaks Kafka's protocol."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.ports import free_port
from tests.waiting import PATIENCE, Received, until

MOSQUITTO = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
MISSING = "no mosquitto (Debian, Ubuntu: apt install mosquitto)"
PASSWORD = "sesame"
FIRST = 1_700_000_000_000
"""The timestamp of second 0."""


@contextmanager
def mosquitto(folder: Path, login: bool = False) -> Iterator[int]:
    """The port of a broker that keeps its sessions in a folder; with `login` it knows the user `cep` alone."""
    assert MOSQUITTO is not None, MISSING
    folder.mkdir(exist_ok=True)
    port = free_port()
    lines = [f"listener {port} 127.0.0.1", f"allow_anonymous {'false' if login else 'true'}"]
    lines += ["persistence true", f"persistence_location {folder}/", "max_queued_messages 0"]
    if os.getuid() == 0:
        lines.append("user root")
    if login:
        program = str(Path(MOSQUITTO).with_name("mosquitto_passwd"))
        program = program if Path(program).exists() else str(shutil.which("mosquitto_passwd"))
        subprocess.run([program, "-b", "-c", str(folder / "users"), "cep", PASSWORD], check=True, capture_output=True)
        lines.append(f"password_file {folder}/users")
    (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
    broker = subprocess.Popen(
        [MOSQUITTO, "-c", str(folder / "mosquitto.conf")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: broker.poll() is not None or answers(port), "mosquitto answers")
        assert broker.poll() is None, "mosquitto has ended"
        yield port
    finally:
        broker.terminate()
        broker.wait()


def answers(port: int) -> bool:
    """Whether somebody listens."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def publish(port: int, messages: Iterable[tuple[str, bytes]], retain: bool = False, **login: str) -> None:
    """Messages to topics, each kept by the broker when this returns."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    client = Client(CallbackAPIVersion.VERSION2)
    if login:
        client.username_pw_set(login["user"], login["password"])
    client.connect("127.0.0.1", port)
    client.loop_start()
    for sent in [client.publish(topic, payload, qos=1, retain=retain) for topic, payload in messages]:
        sent.wait_for_publish(PATIENCE)
        assert sent.is_published(), "the broker has it"
    client.disconnect()
    client.loop_stop()


class Cluster:
    """A mock cluster of one broker with one topic of four partitions: it lives as long as this."""

    def __init__(self, topic: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
        brokers = self._producer.list_topics(topic, timeout=PATIENCE).brokers.values()
        self._topic = topic
        self.servers = ",".join(f"{one.host}:{one.port}" for one in brokers)

    def send(self, messages: Iterable[tuple[int, int, bytes | None]]) -> None:
        """Messages (partition, second of the timestamp, bytes) to the topic; there when this returns."""
        for partition, second, payload in messages:
            options: dict[str, Any] = {"partition": partition, "timestamp": FIRST + 1000 * second}
            self._producer.produce(self._topic, payload, **options)
        assert self._producer.flush(PATIENCE) == 0, "all are sent"

    def received(self, topic: str, count: int) -> list[tuple[str, bytes, bytes]]:
        """The first so many messages of a topic, or more if they are there: `id`, key and bytes."""
        from confluent_kafka import Consumer, TopicPartition

        reader = Consumer({"bootstrap.servers": self.servers, "group.id": "test", "log_level": 0})
        places = reader.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        reader.assign([TopicPartition(topic, number, 0) for number in places])
        found: list[tuple[str, bytes, bytes]] = []
        end = time.monotonic() + PATIENCE
        while True:
            came = [one for one in reader.consume(10_000, 0.5) if one.error() is None]
            found += [(dict(one.headers())["id"].decode(), one.key(), one.value()) for one in came]
            if not came and len(found) >= count:
                break
            assert time.monotonic() < end, f"{len(found)} of {count} have come"
        reader.close()
        return found


@contextmanager
def listening(port: int, topic: str) -> Iterator[Received[tuple[str, str, bytes]]]:
    """What comes to a topic while the block runs: topic, `id` and bytes."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

    found: Received[tuple[str, str, bytes]] = Received()
    stands = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    client.on_subscribe = lambda *_: stands.set()
    client.on_message = lambda _, __, one: found.append(
        (one.topic, dict(getattr(one.properties, "UserProperty", [("id", "")]))["id"], one.payload)
    )
    client.connect("127.0.0.1", port)
    client.loop_start()
    client.subscribe(topic, qos=1)
    assert stands.wait(PATIENCE), "it is granted"
    try:
        yield found
    finally:
        client.disconnect()
        client.loop_stop()
