"""Lines of a connection on Spark, killed at any moment: what is in the log is derived from once, and nothing else is.
What is ahead of the clock is a dead letter once, and moves no time.

`SEMCEP_KILLS=20` kills half as often.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.spark.source.message_log import MessageLog
from tests import spark_runs
from tests.test_spark_kills import KILLS, killed
from tests.test_spark_live_kills import PROGRAM
from tests.waiting import pause

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("clusters"),  # beside the tests of one session
]

TIMES = max(1, KILLS // 2)


def line(n: int, random: Random) -> bytes:
    year = 2199 if n % 50 == 7 else 2026
    time = f"{year}-01-01T{n // 36000:02}:{n // 600 % 60:02}:{n / 10 % 60:04.1f}Z"
    record = {"time": time, "sensor": f"s{random.randrange(5)}", "value": random.randrange(50)}
    return json.dumps(record).encode() + b"\n"


def test_what_a_connection_brought_is_derived_from_once(tmp_path: Path) -> None:
    random, over, sent = Random(TIMES), threading.Event(), [0]
    rules, state = tmp_path / "rules.cep", tmp_path / "state"
    rules.write_text(PROGRAM)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            lines = Random(7)
            while not over.is_set():
                with suppress(OSError), server.accept()[0] as made:
                    while not over.is_set():
                        pause(0.01)
                        first, sent[0] = sent[0], sent[0] + 20
                        made.sendall(b"".join(line(n, lines) for n in range(first, first + 20)))

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        place = f"tcp://127.0.0.1:{server.getsockname()[1]}?limit=5000&quiet=0.5"
        cep = [sys.executable, "-m", "cep", "run", str(rules), "--on", "spark", "--master", "local[2]"]
        cep += ["--buckets", "3", "--lateness", "1 s", "--input", f"reading={place}", "--checkpoint", str(state)]
        cep += ["--output", str(tmp_path / "out"), "--output-format", "jsonl", "--dead-letter", str(tmp_path / "dead")]
        for _ in range(TIMES):
            killed([*cep, "--follow", "--every", "200ms"], state / "spark", random)
        last = subprocess.Popen(cep, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = last.communicate()[1]
        over.set()
        assert last.returncode == 0, said
    log = MessageLog(state / "input-0")
    kept = [one.payload for one in log.read(0, log.end)]
    log.close()
    assert 100 < len(kept) <= sent[0] and len(set(kept)) == len(kept), "some lines were lost, none came twice"
    timely = [one for one in kept if b"2199-" not in one]
    letters = [json.loads(text) for file in (tmp_path / "dead").iterdir() for text in file.read_text().splitlines()]
    assert [one["code"] for one in letters] == ["ahead"] * (len(kept) - len(timely)) and letters
    (tmp_path / "kept.jsonl").write_bytes(b"\n".join(timely) + b"\n")
    asked = ["run", str(rules), "--input", f"reading={tmp_path}/kept.jsonl", "--lateness", "1 s"]
    alone = CliRunner().invoke(app, asked, prog_name="cep")
    assert alone.exit_code == 0, alone.stderr
    files = [file for file in (tmp_path / "out").rglob("part-*.jsonl") if file.is_file()]
    found = Counter(text for file in files for text in file.read_text().splitlines())
    assert found == Counter(alone.stdout.splitlines()) and len(found) > 10
