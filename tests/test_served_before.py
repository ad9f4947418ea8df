"""`cep serve --state` goes on from the folder that commit db814b7 left: `tests/written_before/served`.

It had read five records of `a` and `b` from standard input, and ended by SIGTERM. For Spark see
`tests/test_spark_before.py`.
"""

from __future__ import annotations

import json
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_serve import Server

BEFORE = Path(__file__).parent / "written_before" / "served"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def test_a_server_goes_on_from_the_state_of_the_version_before(tmp_path: Path) -> None:
    with tarfile.open(BEFORE / "state.tar.gz") as packed:
        packed.extractall(tmp_path / "state", filter="data")
    server = Server(str(BEFORE / "rules.cep"), "--input", "-", "--idle", "never", "--state", str(tmp_path / "state"))
    before = server.rows()
    assert len(before) == 2, "a pair and a rise"
    server.look("/feeds/alerts", lambda alerts: "one at 3" in json.dumps(alerts))
    assert server.process.stdin is not None
    for key, second in (("one", 20), ("end", 40)):  # the second ends the time of the first
        record = {"type": "a", "k": key, "x": 9, "at": f"2026-01-01T00:00:{second}Z"}
        server.process.stdin.write(json.dumps(record) + "\n")
    server.process.stdin.flush()
    after = server.rows(count=4)
    assert len(after) == 4 and all(row in after for row in before), "what waited before meets what comes now"
    assert server.end(signal.SIGTERM) == 0
