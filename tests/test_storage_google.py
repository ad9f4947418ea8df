"""Inputs and outputs in Google Cloud Storage, by its protocols: also its folders, and puts on a condition."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from cep.connectors.tables import delta
from cep.connectors.tables.names import table_name
from cep.core.storage import creation, files
from cep.core.storage.failures import StorageError
from tests.cli_runs import EVENTS, FIRE, cep, events, here, jsonl
from tests.google_store import Bucket, reached

HERE = pytest.fixture(autouse=True)(here)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with reached(monkeypatch) as found:
        yield found


def test_files_are_listed_read_and_put_whole(bucket: Bucket) -> None:
    for key in ("days/1.csv", "days/old/1.csv", "days/old/2.csv", "other.txt"):
        bucket.put(key, key)
    assert [(one.name, one.folder, one.size) for one in files.listed("gs://bucket/days")] == [
        ("1.csv", False, 10),
        ("old", True, 0),
    ]
    assert [one.address for one in files.listed("gs://bucket")] == ["gs://bucket/days", "gs://bucket/other.txt"]
    assert [one.address for one in files.matching("gs://bucket/days/**/1.*")] == [
        "gs://bucket/days/1.csv",
        "gs://bucket/days/old/1.csv",
    ]
    files.put("gs://bucket/a%20 b?", b"abcdefgh")
    files.put("gs://bucket/a%20 b?", io.BytesIO(b"0123456789"))
    with files.StoredFile("gs://bucket/a%20 b?") as file:
        file.seek(4)
        assert (file.size, file.read(2), file.tell()) == (10, b"45", 6)
    assert bucket.get("a%20 b?") == b"0123456789"
    for address, said in (("gs://bucket/none", "no such file"), ("gs://bukket/none", "there is no bucket `bukket`")):
        with pytest.raises(StorageError, match=said):
            files.read(address)


def test_one_of_two_creates(bucket: Bucket) -> None:
    at = "gs://bucket/a/b%20 c?d"
    assert creation.create(at, b"one") and creation.create(at, b"one") and not creation.create(at, b"two")
    assert bucket.get("a/b%20 c?d") == b"one" == files.read(at)
    creation.remove(at)
    creation.remove(at)
    assert bucket.keys() == [] and creation.create(at, b"two")
    with pytest.raises(StorageError, match="there is no bucket `bukket`"):
        creation.create("gs://bukket/a", b"")


def test_a_delta_table_there(bucket: Bucket) -> None:
    given = bucket.put("in.jsonl", jsonl(EVENTS))
    for name in ("a", "b", "a"):
        done = cep("run", "fire.cep", "--input", given, "--output", f"delta:gs://bucket/fires?append={name}")
        assert done.exit_code == 0, done.output
    log = [key for key in bucket.keys("fires/_delta_log/") if key.endswith(".json")]
    assert log == [f"fires/_delta_log/{number:020}.json" for number in range(2)]
    assert delta.is_added(table_name("delta:gs://bucket/fires?append=b"))
    assert sum(key.endswith(".parquet") for key in bucket.keys("fires/")) == 2
    done = cep("run", "fire.cep", "--input", given, "--output", "delta:gs://bukket/fires")
    assert done.exit_code == 2 and "bukket" in done.output


def test_a_run_reads_and_writes_there(bucket: Bucket) -> None:
    bucket.put("in/1.jsonl", jsonl(EVENTS[:1]) + "no json\n")
    bucket.put("in/2.jsonl", jsonl(EVENTS[1:]))
    for given in ("gs://bucket/in", "gs://bucket/in/*.jsonl"):
        outputs = ["--output", "gs://bucket/out/fires.jsonl", "--dead-letter", "gs://bucket/dead.jsonl"]
        done = cep("run", "fire.cep", "--input", given, *outputs)
        assert done.exit_code == 0, done.output
        assert events(bucket.get("out/fires.jsonl").decode()) == [FIRE]
        assert [one["code"] for one in events(bucket.get("dead.jsonl").decode())] == ["json"]
