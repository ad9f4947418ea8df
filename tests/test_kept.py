"""The folder of a server: whose it is, and what means something else than before."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from cep.errors import CepError
from connectors.serving.kept import Kept


def test_it_says_what_has_changed_and_one_has_it_at_a_time(tmp_path: Path) -> None:
    def changed(**meanings: str) -> list[str]:
        with closing(Kept(tmp_path, meanings)) as kept:
            return kept.changed

    (tmp_path / "program").write_text("0123456789abcdef")  # as an earlier version wrote it
    assert changed(warm="1", cold="2") == [] == changed(warm="1", cold="2", more="3")
    assert changed(warm="4", cold="2") == ["more", "warm"]
    with closing(Kept(tmp_path, {"warm": "5"})), pytest.raises(CepError, match="another server has it"):
        Kept(tmp_path, {})
    assert changed(warm="5") == [], "who cannot have it changes nothing"
