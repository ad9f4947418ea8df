"""The files of a server are readable by their owner alone."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cep.core.private_files import make_private
from tests.serving import KITCHEN
from tests.test_serve import PAIRS, Server


@pytest.fixture(autouse=True)
def everybody_may() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)
    while Server.running:
        Server.running.pop().kill()


def open_to_others(folder: Path) -> list[str]:
    """List the files that others may read, write or enter."""
    paths = (folder, *folder.rglob("*"))
    return sorted(str(path) for path in paths if path.exists() and stat.S_IMODE(path.lstat().st_mode) & 0o077)


@pytest.mark.parametrize("there", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_server_keeps_its_state_to_itself(tmp_path: Path, there: bool) -> None:
    """Also where the folder was there, or an earlier version has written it."""
    (tmp_path / "pairs.cep").write_text(PAIRS)
    (tmp_path / "kitchen.ttl").write_text(KITCHEN)
    state, dead = tmp_path / "state", tmp_path / "dead.jsonl"
    arguments = [str(tmp_path / "pairs.cep"), "--input", "-", "--state", str(state), "--dead-letter", str(dead)]
    arguments += ["--feed", "cloudevents+http://127.0.0.1:9/#private=yes", "-k", str(tmp_path / "kitchen.ttl")]
    if there:
        state.mkdir(0o777)
    for attempt in range(2):
        server = Server(*arguments)
        for minute in range(3):
            server.say(10 * attempt + minute, "milk", 5.0 + 10 * attempt + minute)
        server.rows(count=3 + 3 * attempt)
        assert not open_to_others(state), "while it runs"
        assert {"program", "journal", "alerts.db", "events", "events.nq"} <= {path.name for path in state.iterdir()}
        assert server.end(signal.SIGTERM if attempt else signal.SIGKILL) == (0 if attempt else -signal.SIGKILL)
        assert not open_to_others(state), "when it has ended"
        for path in (state, *state.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
    if dead.exists():
        assert stat.S_IMODE(dead.stat().st_mode) == 0o666, "what is written for others stays as the umask has it"


def test_what_a_link_leads_to_is_not_changed(tmp_path: Path) -> None:
    state, outside = tmp_path / "state", tmp_path / "outside"
    state.mkdir(0o755)
    outside.write_text("")
    (state / "link").symlink_to(outside)
    (state / "file").write_text("")
    make_private(state)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (state, state / "file", outside)]
    assert modes == [0o700, 0o600, 0o666]
