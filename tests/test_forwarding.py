"""What Spark has committed goes to a broker: all of it, in order, and again only where the sender was killed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from cep.connectors.brokers.sending import Sending
from cep.core.errors import CepError
from cep.engine import Engine
from cep.spark.disk import OUTGOING, STOP
from cep.spark.sink import forwarding as forwards
from cep.spark.sink.commit_log import CommitLog, OutputFile
from cep.spark.sink.forwarding import Broker, forwarding
from tests.brokers import Cluster
from tests.waiting import Received, until

SCHEMAS = Engine.from_text("hot(N) <- reading(N) WHERE N >= 0.").outputs
CHILD = """
import sys
from pathlib import Path
from cep.engine import Engine
from cep.spark.sink.forwarding import forwarding
schemas = Engine.from_text("hot(N) <- reading(N) WHERE N >= 0.").outputs
with forwarding(Path(sys.argv[1]), "job", sys.argv[2], schemas, print):
    pass
"""


def commit(checkpoint: Path, batch: int, numbers: range, length: int = 0) -> None:
    """A micro-batch of two files."""
    folder, half = checkpoint / OUTGOING, len(numbers) // 2
    files = []
    for part, some in enumerate((numbers[:half], numbers[half:])):
        path = folder / f"part-{part:05}-{batch}.jsonl"
        at = CommitLog(folder).coming(path.name)
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text("".join(json.dumps({"type": "hot", "n": n, "x": "x" * length}) + "\n" for n in some))
        files.append(OutputFile.of(at, path, {"hot": len(some)}))
    CommitLog(folder).add(batch, files, passing=True)


def test_a_sender_that_is_killed_repeats_one_file_at_most(tmp_path: Path) -> None:
    cluster = Cluster("derived")
    place = f"kafka://{cluster.servers}/derived?queue.buffering.max.messages=500"
    for batch in range(4):
        commit(tmp_path, batch, range(10_000 * batch, 10_000 * (batch + 1)), length=100)
    files = len(list((tmp_path / OUTGOING).glob("part-*")))
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path), place])
    parts = tmp_path / OUTGOING
    until(
        lambda: len(list(parts.glob("part-*"))) <= files - 3 or child.poll() is not None, "three are sent", every=0.005
    )
    os.kill(child.pid, signal.SIGKILL)  # somewhere in the next one
    assert child.wait() == -signal.SIGKILL
    (tmp_path / OUTGOING / "part-00000-9.jsonl").write_text('{"type": "hot", "n": -1}\n')  # of no finished micro-batch
    with forwarding(tmp_path, "job", place, SCHEMAS, print):
        pass
    found = cluster.received("derived", 40_000)
    assert {json.loads(payload)["n"] for _, _, payload in found} == set(range(40_000))
    ids = Counter(id for id, _, _ in found)
    assert len(ids) == 40_000 and max(ids.values()) <= 2
    again = {json.loads(payload)["n"] // 5_000 for id, _, payload in found if ids[id] == 2}
    assert len(again) <= 1
    assert [path.name for path in (tmp_path / OUTGOING).glob("part-*")] == ["part-00000-9.jsonl"]


def test_what_a_broker_does_not_take_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(tmp_path, 0, range(100))
    reported: Received[str] = Received()
    with monkeypatch.context() as hasty:
        hasty.setattr("cep.connectors.brokers.kafka_sender.ANSWER", 0.2)
        hasty.setattr(forwards, "PATIENCE", 1.0)
        with (
            pytest.raises(CepError, match="no answer: ") as failed,
            forwarding(tmp_path, "job", "kafka://127.0.0.1:1/derived", SCHEMAS, reported.append),
        ):
            pass
    assert failed.value.code == "failed" and "2 files wait in" in str(failed.value.hint) and len(reported) == 1
    cluster = Cluster("derived")
    place = f"kafka://{cluster.servers}/derived"
    with forwarding(tmp_path, "job", place, SCHEMAS, print) as sends:
        for batch in range(1, 12):
            commit(tmp_path, batch, range(100 * batch, 100 * (batch + 1)))
            sends.forward()
            assert not list((tmp_path / OUTGOING).glob("part-*"))
    assert sorted(json.loads(one)["n"] for _, _, one in cluster.received("derived", 1200)) == list(range(1200))
    for batch in range(12, 20):
        commit(tmp_path, batch, range(10))
    assert len(list(CommitLog(tmp_path / OUTGOING).lines())) == 16  # what was sent has left the log

    class Refusing(Sending):
        def write(self, piece: bytes) -> None:
            raise CepError("the broker refuses a message: it is too large", code="output")

    monkeypatch.setattr(forwards, "Sending", Refusing)
    with pytest.raises(CepError, match="it is too large"), forwarding(tmp_path, "job", place, SCHEMAS, print):
        pass
    shutil.rmtree(tmp_path / OUTGOING)
    with forwarding(tmp_path, "job", place, SCHEMAS, print) as sends:
        assert not sends.waiting()


def test_a_disk_that_is_full_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(tmp_path, 0, range(100))
    tries, told = [0], list[str]()

    def take(to: Broker, files: Sequence[Path], number: int) -> None:
        tries[0] += 1
        if tries[0] < 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Broker, "take", take)
    monkeypatch.setattr(forwards, "_PAUSE", 0.05)
    place = "kafka://127.0.0.1:1/derived"
    with forwarding(tmp_path, "job", place, SCHEMAS, told.append):
        pass
    assert tries == [3] and len(told) == 1
    assert told[0].startswith("derived rows cannot be sent: no space left on device; derived")
    tries[0] = -1000
    (tmp_path / STOP).touch()
    with (
        pytest.raises(CepError, match="no space left on device") as failed,
        forwarding(tmp_path, "job", place, SCHEMAS, told.append, lasting=True),
    ):
        pass
    assert "2 files wait in" in str(failed.value.hint) and tries == [-999], "who is to stop tries no more"


def test_who_has_to_end_at_once_leaves_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch in range(6):
        commit(tmp_path, batch, range(10 * batch, 10 * batch + 10))
    hurried, sent = [False], list[bytes]()

    class Slow(Sending):
        def write(self, piece: bytes) -> None:
            sent.append(piece)
            hurried[0] = len(sent) == 3

    monkeypatch.setattr(forwards, "Sending", Slow)
    cluster = Cluster("derived")
    place = f"kafka://{cluster.servers}/derived"
    with forwarding(tmp_path, "job", place, SCHEMAS, print, at_once=lambda: hurried[0]) as sends:
        assert len(sent) == 3 and len(sends.waiting()) == 9


def test_a_mistake_of_ours_ends_the_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(tmp_path, 0, range(10))

    def take(to: Broker, files: Sequence[Path], number: int) -> None:
        raise KeyError("lines")

    monkeypatch.setattr(Broker, "take", take)
    with pytest.raises(KeyError), forwarding(tmp_path, "job", "kafka://127.0.0.1:1/derived", SCHEMAS, print):
        pass
