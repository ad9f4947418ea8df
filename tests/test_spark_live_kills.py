"""From a broker by Spark to a broker, killed at any moment: nothing is lost, and what comes twice has the same id.

`SEMCEP_KILLS=20` kills half as often, while 20,000 messages come.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.addresses import address
from cep.connectors.brokers.mqtt import Subscription
from cep.spark.disk import OUTGOING
from cep.spark.sink.commit_log import CommitLog
from tests import brokers, spark_runs
from tests.brokers import listening, mosquitto, publish
from tests.test_spark_kills import KILLS, killed

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.skipif(brokers.MOSQUITTO is None, reason=brokers.MISSING),
    pytest.mark.xdist_group("clusters"),  # beside the tests of one session
]

TIMES = max(1, KILLS // 2)
PROGRAM = """event reading(sensor: string, value: int).
rose(S, A, B) <- reading(S, A) SEQ reading(S, B) WITHIN 5 s WHERE B = A + 1.
top(S, N) <- reading(S, A) AGGREGATE N = max(A) OVER LAST 10 s BY S WHERE N > 40.
"""


def test_killed_runs_between_brokers(tmp_path: Path) -> None:
    random = Random(TIMES)
    rules, count = tmp_path / "rules.cep", 2_000 if TIMES == 1 else 20_000
    rules.write_text(PROGRAM)
    moments = (f"2026-01-01T{n // 36000:02}:{n // 600 % 60:02}:{n / 10 % 60:04.1f}Z" for n in range(count))
    records = [
        json.dumps({"time": time, "sensor": f"s{random.randrange(5)}", "value": random.randrange(50)})
        for time in moments
    ]
    (tmp_path / "all.jsonl").write_text("\n".join(records) + "\n")
    cep = [sys.executable, "-m", "cep", "run", str(rules)]
    alone = CliRunner().invoke(app, ["run", str(rules), "--input", f"reading={tmp_path}/all.jsonl"], prog_name="cep")
    assert alone.exit_code == 0, alone.stderr
    expected = alone.stdout.splitlines()
    with mosquitto(tmp_path / "broker") as port, listening(port, "derived/+") as found:
        place = f"mqtt://127.0.0.1:{port}/readings/#?client=roof"
        Subscription.open(address(place), "roof").close()  # from now on there is a session
        options = ["--on", "spark", "--master", "local[2]", "--buckets", "3", "--lateness", "1 s"]
        options += ["--input", f"reading={place}&limit=1000", "--checkpoint", str(tmp_path / "state")]
        options += ["--output", f"mqtt://127.0.0.1:{port}/derived/{{type}}"]
        over = threading.Event()

        def send() -> None:
            for first in range(0, count, 100):
                publish(port, [(f"readings/{n % 3}", records[n].encode()) for n in range(first, first + 100)])
                over.wait(10 * TIMES * 100 / count)

        publisher = threading.Thread(target=send)
        publisher.start()
        for _ in range(TIMES):
            killed([*cep, *options, "--follow", "--every", "200ms"], tmp_path / "state" / "spark", random)
        over.set()  # the rest at once
        publisher.join()
        last = subprocess.run([*cep, *options], capture_output=True, text=True, check=False)
        assert last.returncode == 0, last.stderr
        wanted = Counter(line.split('"')[3] for line in expected)
        found.wait(lambda: len({id for _, id, _ in found}) >= len(expected), f"all of {len(expected)}")
    assert len(expected) > count // 100 and len(wanted) == 2
    assert {payload.decode() for _, _, payload in found} == set(expected)
    assert len({id for _, id, _ in found}) == len(expected)
    assert CommitLog(tmp_path / "state" / OUTGOING).totals() == wanted  # each was derived once
    assert not list((tmp_path / "state" / OUTGOING).glob("part-*"))
    if os.environ.get("SEMCEP_KILLS"):
        print(f"{TIMES} kills: {len(found) - len(expected)} of {len(found)} messages came twice")
