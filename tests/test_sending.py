"""Derived events to brokers: each as a message with its id, to topics by its type; what can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.core.compilation import Compilation
from tests import brokers
from tests.brokers import Cluster, listening, mosquitto

PROGRAM = """hot(S, T) <- reading(S, T) WHERE T > 30.
cold(S) <- reading(S, T) WHERE T < 5.
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("rules.cep").write_text(PROGRAM)
    lines = (json.dumps({"type": "reading", "time": n, "args": [f"s{n % 7}", n % 50]}) + "\n" for n in range(1000))
    Path("in.jsonl").write_text("".join(lines))


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["run", "rules.cep", "--input", "in.jsonl", *options], prog_name="cep")


def test_events_become_messages_with_keys_and_ids() -> None:
    cluster = Cluster("derived")
    result = run("--output", f"kafka://{cluster.servers}/derived?by=s")
    assert result.exit_code == 0, result.stderr
    lines = run().stdout.splitlines()
    assert "480 derived events" in result.stderr and len(lines) == 480
    found = cluster.received("derived", 480)
    assert sorted(payload.decode() for _, _, payload in found) == sorted(lines)
    assert all(json.loads(payload)["s"] == key.decode() for _, key, payload in found)
    run("--output", f"kafka://{cluster.servers}/derived")  # again: the same ids, which are the keys now
    again = cluster.received("derived", 960)
    assert len(again) == 960 and len({id for id, _, _ in again}) == 480
    assert all(key.decode() == id for id, key, _ in again if (id, key) not in {(a, b) for a, b, _ in found})


@pytest.mark.skipif(brokers.MOSQUITTO is None, reason=brokers.MISSING)
def test_events_go_to_topics_by_type(tmp_path: Path) -> None:
    with mosquitto(tmp_path / "broker") as port:
        with listening(port, "alerts/#") as found:
            result = run("--output", f"mqtt://127.0.0.1:{port}/alerts/{{type}}?retain=1")
            assert result.exit_code == 0, result.stderr
            found.at_least(480)
        assert [payload.decode() for _, _, payload in found] == run().stdout.splitlines()
        assert all(topic == f"alerts/{json.loads(payload)['type']}" for topic, _, payload in found)
        assert len({id for _, id, _ in found}) == 480
        with listening(port, "alerts/#") as kept:
            kept.at_least(2)
        assert {topic for topic, _, _ in kept} == {"alerts/hot", "alerts/cold"}
        older = run("--output", f"mqtt://127.0.0.1:{port}/alerts?version=3&qos=2")
        assert older.exit_code == 0, older.stderr


@pytest.mark.parametrize(
    "place, message",
    [
        ("kafka://127.0.0.1:1/derived?message.timeout.ms=100", "kafka://127.0.0.1:1/derived: no answer: "),
        ("kafka://127.0.0.1:1", "the address names no topic"),
        ("kafka://127.0.0.1:1/derived?by=room", "`by=room`: no derived event has this attribute"),
        ("kafka://127.0.0.1:1/derived?group=one", "`group` is not an option"),
        ("kafka://127.0.0.1:1/of/{type}", "the path is not a valid topic"),
        ("mqtt://u:secret@127.0.0.1:1/derived", "mqtt://127.0.0.1:1/derived: no broker: connection refused"),
        ("mqtt://127.0.0.1:1/derived/#", "the path is not a valid topic"),
        ("rate://10", "`rate://` is not a kind of output"),
    ],
)
def test_what_is_wrong_is_said(place: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep.connectors.brokers.kafka_sender.ANSWER", 0.3)
    result = run("--output", place)
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[0], result.stderr
    assert "secret" not in result.stderr
    assert "messages are JSON, not csv" in run("--output", place, "--output-format", "csv").stderr
