"""The folder of a server: whose it is, and what means something else than before."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from cep.connectors.serving.state_folder import StateFolder
from cep.core.errors import CepError


def test_it_says_what_has_changed_and_one_has_it_at_a_time(tmp_path: Path) -> None:
    def changed(**meanings: str) -> list[str]:
        with closing(StateFolder(tmp_path, meanings)) as kept:
            return kept.changed

    assert changed(warm="1", cold="2") == [] == changed(warm="1", cold="2", more="3")
    assert changed(warm="4", cold="2") == ["more", "warm"]
    with closing(StateFolder(tmp_path, {"warm": "5"})), pytest.raises(CepError, match="another server uses it"):
        StateFolder(tmp_path, {})
    assert changed(warm="5") == [], "who cannot have it changes nothing"


@pytest.mark.parametrize("name", ["events.nq", "alerts.db", "journal", "snapshot", "program", "events/mine.txt"])
def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(CepError, match="written"):
        StateFolder(tmp_path, {"warm": "1"})
    assert (tmp_path / name).read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


def test_what_has_been_damaged_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    """Any bit; a file that is cut short, or ends in zeros, was not written to its end."""
    meanings = {"warm": "1", "cold": "2"}
    StateFolder(tmp_path, meanings).close()
    path = tmp_path / "program"
    whole = path.read_bytes()
    for place in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(CepError, match=f"--state {tmp_path}: the file `program` in the folder is damaged"):
            StateFolder(tmp_path, meanings)
        assert path.read_bytes() == damaged
    for torn in (whole[:-1], whole[:5], whole[:-20] + bytes(20), bytes(len(whole)), b""):
        path.write_bytes(torn)
        with closing(StateFolder(tmp_path, {"warm": "3"})) as kept:
            assert kept.changed == []
    with closing(StateFolder(tmp_path, {"warm": "4"})) as kept:
        assert kept.changed == ["warm"]


@pytest.mark.parametrize("begun", [0, 5, 12])
def test_a_start_that_was_killed_is_gone_on_from(tmp_path: Path, begun: int) -> None:
    StateFolder(tmp_path, {"warm": "1"}).close()
    (tmp_path / "program").write_bytes((tmp_path / "program").read_bytes()[:begun])
    (tmp_path / "events").mkdir()
    with closing(StateFolder(tmp_path, {"warm": "1"})) as kept:
        assert kept.changed == []
