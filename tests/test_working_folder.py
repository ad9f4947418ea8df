"""The folder of a run whose checkpoint is elsewhere goes with it, and that of a killed one with the next."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from cep.spark.working_folder import working_folder


def test_what_killed_runs_have_left_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "semcep-others").mkdir()  # without a lock it is not known whose it is
    with working_folder() as first:
        (first / "state").write_text("a")
        with working_folder() as second:
            assert first != second and (first / "state").exists(), "one that goes on keeps its own"
        killed = tmp_path / "semcep-killed"
        shutil.copytree(first.parent, killed)
        with working_folder():
            assert not killed.exists() and (first / "state").exists()
    assert os.listdir(tmp_path) == ["semcep-others"]
