"""Inputs, outputs and knowledge in a file system that is no disk of this machine: S3, by its protocol."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from cep.connectors.inputs import inputs
from cep.connectors.tables import delta
from cep.connectors.tables.names import table_name
from cep.core.errors import CepError
from cep.core.storage import creation, files, stores
from cep.core.storage.failures import StorageError, explained
from cep.core.storage.urls import is_url, local_path, near_scheme, url
from tests.cli_runs import EVENTS, FIRE, cep, events, here, jsonl
from tests.object_store import Bucket, answers, reached
from tests.ports import free_port
from tests.waiting import until

HERE = pytest.fixture(autouse=True)(here)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with reached(monkeypatch) as found:
        yield found


def test_addresses() -> None:
    assert is_url("s3://b/k") and is_url("GS://b/k") and not is_url("kafka://h/t") and not is_url("/s3://b")
    one = url("abfs://days@account.dfs.core.windows.net//a/b.csv")
    assert (one.path, one.at("days/a/c.csv")) == ("days/a/b.csv", f"{one.root}a/c.csv")
    assert url("hdfs://node:8020/a/b").path == "/a/b"
    assert url("s3://b/a%20b?c").key == "a%20b?c"
    assert local_path("file:///a%20b/c") == "/a b/c" == local_path("/a b/c")
    assert near_scheme("s4") == near_scheme("3s") == "; did you mean `s3://`?"
    for text, what in (
        ("s3:///key", "no bucket is named"),
        ("s3://me:secret@bucket/key", "no user and password"),
        ("abfs://container/key", "the account is not named"),
    ):
        with pytest.raises(CepError) as wrong:
            url(text)
        assert what in str(wrong.value) and "secret@" not in str(wrong.value)
    with pytest.raises(CepError, match="another machine"):
        local_path("file://host/a")


def test_files_are_listed_read_and_put_whole(bucket: Bucket) -> None:
    for key in ("days/1.csv", "days/2.csv", "days/old/1.csv", "other.txt"):
        bucket.put(key, key)
    listed = files.listed("s3://bucket/days")
    assert [(one.name, one.folder, one.size) for one in listed] == [
        ("1.csv", False, 10),
        ("2.csv", False, 10),
        ("old", True, 0),
    ]
    assert [one.address for one in files.matching("s3://bucket/days/**/1.*")] == [
        "s3://bucket/days/1.csv",
        "s3://bucket/days/old/1.csv",
    ]
    assert [one.name for one in files.matching("s3://bucket/da*/[2-9].csv")] == ["2.csv"]
    files.put("s3://bucket/new", b"abcdefgh")
    files.put("s3://bucket/new", io.BytesIO(b"0123456789"))
    assert files.read("s3://bucket/new") == b"0123456789" and files.size("s3://bucket/new") == 10
    with files.StoredFile("s3://bucket/new") as file:
        file.seek(4)
        assert (file.read(2), file.tell(), io.BufferedReader(file).read()) == (b"45", 6, b"6789")
    creation.remove("s3://bucket/new")
    creation.remove("s3://bucket/new")
    assert files.found("s3://bucket/new") is None


def test_what_is_given_up_is_not_put(bucket: Bucket) -> None:
    upload = files.Upload("s3://bucket/out")
    upload.write(bytes(12 << 20))
    upload.discard()
    assert bucket.keys() == [] and bucket.uploads() == 0
    upload = files.Upload("s3://bucket/out")
    upload.write(bytes(12 << 20))
    upload.close()
    assert len(bucket.get("out")) == 12 << 20


def test_errors_say_what_is_wrong(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(address: str) -> StorageError:
        with pytest.raises(StorageError) as caught:
            files.read(address)
        return caught.value

    gone = refused("s3://bucket/none")
    assert (gone.errno, gone.strerror, gone.filename) == (errno.ENOENT, "no such file", "s3://bucket/none")
    lost = refused("s3://bukket/none")
    assert lost.strerror == "there is no bucket `bukket`" and "AWS_ENDPOINT_URL" in str(lost.hint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    files.forget()
    away = refused("s3://bucket/none")
    assert away.errno == errno.EIO and away.strerror == "http://127.0.0.1:1 cannot be reached"


def test_a_server_that_is_not_there_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's file system would try for a quarter of an hour."""
    assert files._PATIENCE.total_seconds() <= 60
    monkeypatch.setattr(files, "_PATIENCE", timedelta(milliseconds=100))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    files.forget()
    with pytest.raises(StorageError, match=r"127\.0\.0\.1:1 cannot be reached"):
        files.read("gs://bucket/none")
    files.forget()
    found = explained(OSError("Could not create a OAuth2 access token: Could not resolve hostname"), url("gs://b/k"))
    assert found.strerror == "there are no credentials" and "GOOGLE_APPLICATION_CREDENTIALS" in str(found.hint)


def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 30 s at most; else three minutes would be tried."""
    assert stores._REQUEST.total_seconds() <= 30 and stores._PATIENCE.total_seconds() <= 30
    monkeypatch.setattr(stores, "_REQUEST", timedelta(milliseconds=300))
    monkeypatch.setattr(delta, "_PATIENCE", {"timeout": "300ms", "retry_timeout": "300ms"})
    with reached(monkeypatch), socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", server)
        stores.forget()
        for does in (creation.remove, lambda address: creation.create(address, b"")):
            with pytest.raises(StorageError, match=f"{server} does not answer in time"):
                does("s3://bucket/a")
        with pytest.raises(CepError, match=f"--output delta:s3://bucket/t: {server} does not answer in time"):
            delta.table(table_name("delta:s3://bucket/t"))


def test_a_login_that_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    env = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "0"}
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until(lambda: answers(port), "the server of buckets")
            with reached(monkeypatch):
                monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
                files.forget()
                for does in (files.read, files.listed, files.Upload, creation.remove):
                    with pytest.raises(StorageError) as caught:
                        does("s3://bucket/a")
                    assert (caught.value.errno, caught.value.strerror) == (errno.EACCES, "access is denied")
                    assert "AWS_SECRET_ACCESS_KEY" in str(caught.value.hint)
                with pytest.raises(CepError, match="--output delta:s3://bucket/t: access is denied"):
                    delta.table(table_name("delta:s3://bucket/t"))
        finally:
            server.kill()


def test_azure_is_asked_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server of it can be had from Python's packages; docs/limits.md says what was tried with another."""
    at = url("abfs://days@account.dfs.core.windows.net/a")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:1/account")
    files.forget()
    assert files.filesystem(at).type_name == "abfs" and stores.endpoint() == ("http", "127.0.0.1:1")
    assert stores.store(at).config["container_name"] == "days"
    with pytest.raises(StorageError, match=r"http://127\.0\.0\.1:1/account cannot be reached"):
        creation.remove(str(at))
    monkeypatch.delenv("AZURE_STORAGE_ENDPOINT")
    files.forget()
    assert files.filesystem(at).type_name == "abfs" and stores.endpoint() is None
    files.forget()


@pytest.mark.parametrize(
    ("text", "number", "reason"),
    [
        ("PUT failed: 403 Forbidden\n\nDebug source:\nretry_timeout: 20s", errno.EACCES, "access is denied"),
        ("CURL error [28]=Timeout was reached", errno.EIO, "S3 does not answer in time"),
        (
            "AWS Error INTERNAL_FAILURE during PutObject operation: gone",
            errno.EIO,
            "S3 answers with an error of its own",
        ),
        ("AWS Error ACCESS_DENIED during HeadObject operation: No response body.", errno.EACCES, "access is denied"),
        ("AWS Error PERMANENT_REDIRECT during PutObject", errno.EIO, "the bucket is in another region"),
        ("Unable to load libhdfs: ./libhdfs.so: cannot open", errno.EIO, "HDFS needs Hadoop's library"),
        ("AWS Error SLOW_DOWN during PutObject operation: Reduce your rate.", errno.EIO, "Reduce your rate"),
    ],
)
def test_what_libraries_say_in_words(
    text: str, number: int, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    found = explained(OSError(text), url("s3://bucket/key"))
    assert found.errno == number and found.strerror.startswith(reason)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    if number == errno.EACCES:
        found = explained(OSError(text), url("s3://bucket/key"))
        assert found.strerror == "there are no credentials" and "AWS_SECRET_ACCESS_KEY" in str(found.hint)


def test_inputs_and_the_output_at_addresses(bucket: Bucket) -> None:
    bucket.put("in/1.jsonl", jsonl(EVENTS[:1]))
    bucket.put("in/2.jsonl.gz", gzip.compress(jsonl(EVENTS[1:]).encode()))
    bucket.put("in/readme.md", "not read")
    for given in (
        ["s3://bucket/in"],
        ["s3://bucket/in/*.jsonl*"],
        ["s3://bucket/in/1.jsonl", "s3://bucket/in/2.jsonl.gz"],
    ):
        chosen = [part for one in given for part in ("--input", one)]
        done = cep("run", "fire.cep", *chosen, "--output", "s3://bucket/out/fires.jsonl")
        assert done.exit_code == 0, done.output
        assert "s3://bucket/out/fires.jsonl is written whole, when the run ends" in done.output
        assert events(bucket.get("out/fires.jsonl").decode()) == [FIRE]
    assert bucket.keys("out") == ["out/fires.jsonl"]


@pytest.mark.parametrize("name", ["fires.parquet", "fires.csv", "fires.jsonl.gz", "fires.nq", "folder/"])
def test_formats_of_outputs(bucket: Bucket, name: str) -> None:
    given = ["--input", bucket.put("in.jsonl", jsonl(EVENTS))]
    assert cep("run", "fire.cep", *given, "--output", f"s3://bucket/{name}").exit_code == 0
    assert cep("run", "fire.cep", *given, "--output", name).exit_code == 0
    key = f"{name}fire.jsonl" if name.endswith("/") else name
    assert bucket.get(key) == Path(key).read_bytes()


def test_a_bound_parquet_input_and_a_revised_one(bucket: Bucket) -> None:
    table = pl.DataFrame({"time": [1, 4], "room": ["attic", "attic"], "level": [3, 4]})
    table.write_parquet(out := io.BytesIO())
    bucket.put("smoke.parquet", out.getvalue())
    bucket.put("heat.csv", "time,room,temp\n4,attic,80.5\n5,cellar,90\n")
    inputs = ["--input", "smoke=s3://bucket/smoke.parquet", "--input", "heat=s3://bucket/heat.csv"]
    done = cep("run", "fire.cep", *inputs)
    assert events(done.stdout) == [FIRE]
    done = cep("run", "fire.cep", *inputs, "--lateness", "10s", "--explain")
    assert [one["temp"] for one in events(done.stdout)] == [80.5]


def test_dead_letters_know_their_place_and_go_to_an_address(bucket: Bucket) -> None:
    broken = jsonl(EVENTS) + '{"type": "heat", "time": 6, "room": "hall", "temp": 999}\nno json\n'
    address = bucket.put("in.jsonl", broken)
    done = cep("run", "fire.cep", "--input", address, "--dead-letter", "s3://bucket/dead.jsonl")
    assert done.exit_code == 0, done.output
    dead = events(bucket.get("dead.jsonl").decode())
    assert [(one["file"], one["line"], one["code"]) for one in dead] == [(address, 5, "json"), (address, 4, "range")]
    assert dead[1]["record"]["temp"] == 999


def test_knowledge_and_facts_at_addresses(bucket: Bucket) -> None:
    Path("known.cep").write_text(
        "PREFIX ex: <http://example.org/>\n"
        "event heat(room: string, temp: float).\nevent hot(room: string, floor: int).\n"
        "hot(R, F) <- heat(R, _) WHERE floor(R, F), { ?a ex:roomName ?R }.\n"
    )
    turtle = '@prefix ex: <http://example.org/> . <#a> ex:roomName "attic" .'
    bucket.put("known/a.ttl", turtle)
    Path("here.ttl").write_text(turtle)
    given = [
        "--input",
        bucket.put("heat.jsonl", jsonl(EVENTS[1:])),
        "--facts",
        f"floor={bucket.put('floor.csv', 'room,floor' + chr(10) + 'attic,5' + chr(10))}",
    ]
    done = cep("run", "known.cep", *given, "--knowledge", "s3://bucket/known")
    assert done.exit_code == 0, done.output
    assert events(done.stdout) == events(cep("run", "known.cep", *given, "--knowledge", "here.ttl").stdout) != []
    done = cep(
        "run", "known.cep", *given[:2], "--facts", f"floor={bucket.put('bad.csv', 'a;b' + chr(10) + '1;2' + chr(10))}"
    )
    assert done.exit_code == 2 and "s3://bucket/bad.csv" in done.output and "/tmp" not in done.output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["--input", "s3://bucket/none.jsonl"],
            "s3://bucket/none.jsonl: no such file\nhint: did you mean `s3://bucket/nine.jsonl`?",
        ),
        (["--input", "s3://bucket/days/*.csv"], "s3://bucket/days/*.csv: no file matches"),
        (["--input", "s3://bukket/a.jsonl"], "s3://bukket/a.jsonl: there is no bucket `bukket`"),
        (["--input", "s4://bucket/a.jsonl"], "`s4://` is not a kind of input"),
        (["--input", "s4://bucket/a.jsonl"], "did you mean `s3://`?"),
        (
            ["--input", "events.jsonl", "--output", "s3://bukket/a.jsonl"],
            "cannot write s3://bukket/a.jsonl: there is no bucket",
        ),
        (["--input", "events.jsonl", "--output", "s4://bucket/a.jsonl"], "did you mean `s3://`?"),
        (["--input", "s3://bucket/nine.jsonl", "--output", "s3://bucket//nine.jsonl"], "is an input as well"),
        (["--input", "s3://bucket/", "--output", "s3://bucket/ten.jsonl"], "would be an input as well"),
        (["--input", "events.jsonl", "--output", "file:events.jsonl"], ""),
        (
            ["--input", "mqtt://localhost/t", "--output", "s3://bucket/ten.jsonl"],
            "semcep writes it when the input ends",
        ),
        (["--input", "events.jsonl", "--knowledge", "s3://bucket/none.ttl"], "s3://bucket/none.ttl: no such file"),
        (["--input", "events.jsonl", "--facts", "f=s3://bucket/none.csv"], "s3://bucket/none.csv: no such file"),
    ],
)
def test_refusals(bucket: Bucket, given: list[str], said: str) -> None:
    bucket.put("nine.jsonl", jsonl(EVENTS))
    done = cep("run", "fire.cep", *given)
    if said:
        assert done.exit_code == 2 and said in done.output, done.output


def test_a_file_named_by_its_address(tmp_path: Path) -> None:
    done = cep(
        "run", "fire.cep", "--input", f"file://{tmp_path}/events.jsonl", "--output", f"file://{tmp_path}/out.jsonl"
    )
    assert done.exit_code == 0, done.output
    assert json.loads(Path("out.jsonl").read_text()) == FIRE
    done = cep("run", "fire.cep", "--input", "events.jsonl", "--output", f"file://{tmp_path}/events.jsonl")
    assert done.exit_code == 2 and "is an input as well" in done.output


def test_known_addresses_are_passed_over(bucket: Bucket) -> None:
    from cep.compile import compile
    from cep.engine import Engine

    bucket.put("in/1.jsonl", "")
    second = bucket.put("in/2.jsonl", "")
    found = inputs(
        ["s3://bucket/in"], Engine(compile(Path("fire.cep").read_text())).inputs, known={"s3://bucket/in/1.jsonl"}
    )
    assert [one.path for one in found] == [second]
