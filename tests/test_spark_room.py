"""Folders that cannot be written: refused before a query begins, and told in a sentence by the one that fails."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cep.connectors.records.batch import DeadLetter
from cep.core.errors import CepError
from cep.spark import disk
from cep.spark.dead_letters import write_dead_letters
from cep.spark.disk import SINK_LOG, SPARK_LOG
from cep.spark.driver import failure
from cep.spark.driver.failure import failed
from cep.spark.state.bucket_states import BucketStates


def test_a_folder_is_made_and_tried_and_nothing_stays_in_it(tmp_path: Path) -> None:
    disk.check_writable("--output", tmp_path / "far/out")
    assert list((tmp_path / "far/out").iterdir()) == []
    (tmp_path / "file").touch()
    for folder, why in ((tmp_path / "file", "file exists"), (tmp_path / "file/out", "not a directory")):
        with pytest.raises(CepError) as refused:
            disk.check_writable("--output", folder)
        assert refused.value.message == f"--output: {folder} cannot be created or written: {why}"
        assert refused.value.code == "option"


@pytest.mark.parametrize(
    ("number", "code", "refusal"),
    [
        (errno.ENOSPC, "failed", "cannot be written: no space left on device"),
        (errno.EROFS, "option", "cannot be created or written: read-only file system"),
    ],
)
def test_a_disk_that_is_full_may_have_room_again(
    number: int, code: str, refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Path] = []

    def put(path: Path, content: bytes) -> None:
        tried.append(path)
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(disk, "put", put)
    (tmp_path / SINK_LOG).mkdir()
    with pytest.raises(CepError) as refused:
        disk.check_writable("--output", tmp_path)
    assert (refused.value.message, refused.value.code) == (f"--output: {tmp_path} {refusal}", code)
    assert [path.parent for path in tried] == [tmp_path / SINK_LOG], "where tasks write"


def test_what_tasks_write_is_told_by_the_option_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CepError, match=r"--dead-letter: \S+/file cannot be written: (file exists|not a directory)"):
        write_dead_letters(f"{tmp_path}/file/dead-", "read-1", [DeadLetter(None, 1, "why", "json")])
    write_dead_letters(f"{tmp_path}/none/dead-", "read-1", [])
    with pytest.raises(CepError, match=r"--checkpoint: \S+/gone cannot be written: no such file or directory \("):
        BucketStates(f"{tmp_path}/gone", 1).write(0, 1, b"", 0)


def test_a_log_on_a_full_disk_holds_no_one_up(tmp_path: Path) -> None:
    for file in (tmp_path / SPARK_LOG, Path("/dev/full"), tmp_path / "none" / SPARK_LOG):
        reading, writing = os.pipe()
        copying = threading.Thread(target=failure._copy, args=(reading, file), daemon=True)
        copying.start()
        with os.fdopen(writing, "wb") as out:  # more than the pipe holds
            out.writelines(b"%06d a line of Spark's\n" % n for n in range(20_000))
        copying.join()
    assert (tmp_path / SPARK_LOG).read_bytes().count(b"\n") == 20_000


def test_a_full_disk_of_spark_itself_is_named() -> None:
    cause = SimpleNamespace(getMessage=lambda: "java.io.IOException: No space left on device", getCause=lambda: None)
    error: Any = SimpleNamespace(_origin=SimpleNamespace(getMessage=lambda: "it failed", getCause=lambda: cause))
    found = failed(error, "/state/spark.log")
    assert (
        "--checkpoint: /state, or Spark's folder of temporary files" in found.message
        and "no space left" in found.message
    )
    assert found.hint is not None and found.hint.startswith(
        "free space on the disk; once the cause is gone, the same command continues"
    )


def test_what_a_worker_says_is_a_sentence_and_a_hint() -> None:
    refusal = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x\n"
    refusal += "cep.core.errors.CepError: --output: /out cannot be written: no space left on device\n"
    refusal += "hint: free space on its disk"
    raised = SimpleNamespace(getMessage=lambda: f"{refusal}\n SQLSTATE: 38000", getCause=lambda: None)
    error: Any = SimpleNamespace(_origin=raised)
    found = failed(error, "spark.log")
    assert found.message == "the query has failed: --output: /out cannot be written: no space left on device"
    assert found.hint is not None and found.hint.startswith(
        "free space on its disk; once the cause is gone, the same command continues"
    )
