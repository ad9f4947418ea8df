"""What tasks leave beside Spark's own files: states of buckets and dead letters, whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

from cep.connectors.records.batch import Batch, Block, DeadLetter
from cep.core.errors import CepError
from cep.core.schema import ARRIVAL
from cep.spark.dead_letters import LINE_BITS, dead_letter_file, remove_uncounted, stage_letters
from cep.spark.disk import remove_hidden
from cep.spark.source.reading import numbered
from cep.spark.state.bucket_states import KEPT, BucketStates, remove_leftovers
from tests.bucket_versions import newest_versions


def test_states_are_whole_and_the_last_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = BucketStates(str(tmp_path), 1)
    for version in range(1, 6):
        states.write(2, version, b"%d" % version, 10 * version)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [f"1-0002-{n:08}" for n in (3, 4, 5)]
    synced: list[int] = []
    settle, replace = os.fsync, os.replace

    def noted(file: int) -> None:
        settle(file)
        synced.append(len(list(tmp_path.glob("1-*"))))

    monkeypatch.setattr(os, "fsync", noted)
    states.write(2, 6, b"6", 60)
    assert synced == [3], "what a file holds is on disk before it has its name"
    monkeypatch.setattr(os, "replace", lambda *paths: os._exit(9) if "00000007" in str(paths[1]) else replace(*paths))
    if not (child := os.fork()):
        states.write(2, 7, b"7", 70)  # killed just before
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    (tmp_path / "1-0002-00000002").write_bytes(b"left when its bucket was killed")
    BucketStates(str(tmp_path), 2).write(2, 2, b"of another stage", 20)
    assert len(list(tmp_path.iterdir())) == 6
    remove_leftovers(tmp_path)
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {f"1-0002-{n:08}" for n in (4, 5, 6)} | {"2-0002-00000002"} and KEPT == 3
    assert states.opened(2, 6, lambda state, _: state) == b"6"
    assert [newest_versions(tmp_path, last).get("1-0002") for last in (39, 40, 59, 60)] == [None, 4, 5, 6]
    with pytest.raises(CepError, match="1-0002-00000007 is missing: it is a part of the state"):
        states.opened(2, 7, lambda state, _: state)


def test_letters_are_written_as_they_come(tmp_path: Path) -> None:
    folder = tmp_path / "dead"
    letters = [DeadLetter("a.jsonl", line, "no", "json", '"\\ud800') for line in (1, 2)]
    with dead_letter_file(f"{folder}/ab-", "read-1") as write:
        write([])
    assert not folder.exists(), "a file without letters is none"
    for _ in range(2):  # done again, the same
        with dead_letter_file(f"{folder}/ab-", "read-1") as write:
            for letter in letters:
                write([letter])
            assert [path.name[0] for path in folder.iterdir()].count(".") == 1
        (file,) = folder.iterdir()
        assert file.name == "ab-read-1.jsonl" and [json.loads(text)["line"] for text in file.open()] == [1, 2]
    with pytest.raises(KeyError), dead_letter_file(f"{folder}/ab-", "read-2") as write:
        write(letters)
        raise KeyError
    assert list(folder.iterdir()) == [file]
    with dead_letter_file(None, "read-3") as write:
        write(letters)
    with dead_letter_file(f"{folder}/ab-", "read-4") as write:
        write([DeadLetter(None, 3, "no", "type", json.dumps({"a": "\ud800"}))])
    assert json.loads((folder / "ab-read-4.jsonl").read_text())["record"] == {"a": "\ud800"}
    for name in (".ab-read-5.jsonl.0", ".cd-read-5.jsonl.0"):
        (folder / name).write_text("half")
    remove_hidden(folder, "ab-")
    with dead_letter_file(f"{folder}/ab-", "read-4"):
        pass
    assert sorted(each.name for each in folder.iterdir()) == [".cd-read-5.jsonl.0", "ab-read-1.jsonl"], (
        "what is done again without letters has none; what another run is writing is left to it"
    )


def test_letters_of_steps_that_do_not_count_go_when_their_input_is_read_anew(tmp_path: Path) -> None:
    names = [f"ab-{stage_letters(1, bucket, version, 1)}" for bucket in (0, 1) for version in (3, 4)]
    names += [f"ab-{stage_letters(2, 0, 9, 2)}", "ab-read-00000004", f"cd-{stage_letters(1, 0, 4, 1)}"]
    for name in names:
        (tmp_path / f"{name}.jsonl").write_text("{}")
    remove_uncounted(f"{tmp_path}/none/ab-", 1, {})
    remove_uncounted(f"{tmp_path}/ab-", 1, {"1-0000": 4, "1-0001": 5})
    gone = {f"ab-{stage_letters(1, 0, 4, 1)}"}
    assert {path.stem for path in tmp_path.iterdir()} == set(names) - gone
    remove_uncounted(f"{tmp_path}/ab-", 2, {"1-0000": 4})
    assert {path.stem for path in tmp_path.iterdir()} == set(names) - gone - {f"ab-{stage_letters(2, 0, 9, 2)}"}


def test_lines_beyond_those_that_can_be_told_apart() -> None:
    last, table = (1 << LINE_BITS) - 1, pl.DataFrame({"end": [5, 6], ARRIVAL: [0, 1]})
    (made,) = numbered(Batch({"a": table}, [], [Block("x.csv", 0, 2, last - 1)]), 3).values()
    assert made[ARRIVAL].to_list() == [(4 << LINE_BITS) - 2, (4 << LINE_BITS) - 1]
    with pytest.raises(CepError, match="record 68,719,476,736 is beyond 68,719,476,735"):
        numbered(Batch({"a": table}, [], [Block("x.csv", 0, 2, last)]), 3)
