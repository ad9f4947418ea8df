"""Folders of records: hidden files are not read, and those that somebody still writes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep.connectors.files import read
from cep.connectors.inputs import inputs
from cep.core.errors import CepError
from cep.engine import Engine

SCHEMAS = Engine.from_text("event r(x: int) TIME t.\nf(X) <- r(X).\n").inputs


def test_hidden_files_of_a_folder_are_not_read(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", ".c.csv", "._a.csv", ".csv"):
        (tmp_path / name).write_text("t,x\n1,1\n")
    names = [Path(one.path).name for one in inputs([str(tmp_path)], SCHEMAS)]
    assert names == ["a.csv", "b.csv"]
    assert [Path(one.path).name for one in inputs([str(tmp_path / "*.csv")], SCHEMAS)] == names
    assert len(inputs([str(tmp_path / ".c.csv")], SCHEMAS)) == 1  # named, it is read
    for name in names:
        (tmp_path / name).unlink()
    with pytest.raises(CepError, match="no file in this directory"):
        inputs([str(tmp_path)], SCHEMAS)


def test_a_file_that_is_still_being_written_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("t,x\n1,1\n")
        file.flush()
        remarks = [remark for batch in read([str(path)], SCHEMAS) for remark in batch.remarks]
    assert len(remarks) == 1 and "was still being written when it was read" in remarks[0]
    assert not any(batch.remarks for batch in read([str(path)], SCHEMAS))
