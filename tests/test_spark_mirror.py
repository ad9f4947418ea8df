"""A checkpoint and an output at addresses: what counts is there as a whole, once, and any machine goes on from it."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark")
pytest.importorskip("obstore")

from cep.command import app
from cep.core.errors import CepError
from cep.core.storage import creation
from cep.core.storage.failures import StorageError
from cep.spark import mirror as mirrors
from cep.spark.disk import SINK_LOG
from cep.spark.mirror import DEAD, KEPT, OUTPUT, STATE, Mirror, spark_address
from tests import google_store, spark_runs
from tests.damage import flipped
from tests.object_store import Bucket, reached, served
from tests.test_spark import LATENESS, PROGRAMS, events
from tests.waiting import pause, until

ROOT = str(Path(__file__).parent.parent)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with reached(monkeypatch) as found:
        yield found


def mirror(folder: Path, dead: bool = True) -> Mirror:
    folder.mkdir()
    return Mirror(folder, "s3://bucket/state", "s3://bucket/out/", "s3://bucket/dead" if dead else None)


def put(at: Mirror, name: str, content: str) -> Path:
    path = at.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def there(at: Mirror) -> dict[str, str]:
    found = (path for path in at.root.rglob("*") if path.is_file())
    return {str(path.relative_to(at.root)): path.read_text() for path in found}


def test_one_of_two_creates(bucket: Bucket) -> None:
    assert creation.create("s3://bucket/a/b%20 c?d", b"one") and creation.create("s3://bucket/a/b%20 c?d", b"one")
    assert not creation.create("s3://bucket/a/b%20 c?d", b"two")
    assert bucket.get("a/b%20 c?d") == b"one"
    with pytest.raises(OSError, match="there is no bucket `none`"):
        creation.create("s3://none/a", b"")
    with pytest.raises(CepError, match="hdfs:// has no conditional put"):
        creation.check_creating("hdfs://host/a")


def test_what_counts_is_there_as_a_whole(bucket: Bucket, tmp_path: Path) -> None:
    first = mirror(tmp_path / "1")
    assert bucket.keys() == []
    put(first, f"{STATE}/files.jsonl", "one\n")
    put(first, f"{STATE}/buckets/1-0000-00000001", "state" * 1000)
    put(first, f"{STATE}/spark/offsets/.0.crc", "sum")
    put(first, f"{STATE}/handed/x", "not there")
    put(first, f"{STATE}/spark.log", "not there")
    put(first, f"{STATE}/.files.jsonl.7", "not whole")
    put(first, f"{OUTPUT}/{SINK_LOG}/0", "entry")
    put(first, f"{OUTPUT}/{SINK_LOG}/coming/y", "not there")
    data = put(first, f"{OUTPUT}/type=a/part-1.jsonl", "rows")
    put(first, f"{DEAD}/run-read-1.jsonl", "letter")
    first.ship()
    assert not data.exists() and bucket.get("out/type=a/part-1.jsonl") == b"rows"
    assert bucket.get(f"out/{SINK_LOG}/0") == b"entry" and bucket.get("dead/run-read-1.jsonl") == b"letter"
    before = bucket.keys()
    assert len([key for key in before if key.startswith("state/packs/")]) == 1
    first.ship()
    second = mirror(tmp_path / "2")
    kept = {f"{STATE}/files.jsonl", f"{STATE}/buckets/1-0000-00000001", f"{STATE}/spark/offsets/.0.crc"}
    assert there(second).keys() == kept | {f"{OUTPUT}/{SINK_LOG}/0"}
    assert bucket.get("out/type=a/part-1.jsonl") == b"rows"
    put(second, f"{STATE}/files.jsonl", "one\ntwo\n")
    second.ship()
    sizes = [len(bucket.get(key)) for key in bucket.keys("state/packs/")]
    assert sorted(sizes) == [len("one\ntwo\n"), 5000 + len("one\nsumentryrowsletter")], "what is new"
    put(first, f"{STATE}/files.jsonl", "one\nthree\n")
    with pytest.raises(CepError, match="another run has taken over s3://bucket/state"):
        first.ship()
    assert there(mirror(tmp_path / "3"))[f"{STATE}/files.jsonl"] == "one\ntwo\n"
    (second.root / STATE / "buckets/1-0000-00000001").unlink()
    for number in range(4):
        put(second, f"{STATE}/files.jsonl", f"{number}")
        second.ship()
    last = mirror(tmp_path / "4")
    assert there(last) == {
        f"{STATE}/files.jsonl": "3",
        f"{STATE}/spark/offsets/.0.crc": "sum",
        f"{OUTPUT}/{SINK_LOG}/0": "entry",
    }
    assert sum(len(bucket.get(key)) for key in bucket.keys("state/packs/")) < 100, "what nobody needs is gone"
    assert len(bucket.keys("state/manifests/")) == 2
    assert last.named(f"--output: {last.folder(OUTPUT)}/x") == "--output: s3://bucket/out/x"
    assert spark_address("s3://bucket/out/") == "s3a://bucket/out"


def test_a_run_that_begins_takes_nothing_from_one_that_goes_on(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a run reads what was there, another's micro-batch counts: its entries in the log of the sink stay."""
    first = mirror(tmp_path / "1")
    put(first, f"{OUTPUT}/{SINK_LOG}/run", "name")
    put(first, f"{OUTPUT}/{SINK_LOG}/9", "nine")
    first.ship()
    bucket.put(f"out/{SINK_LOG}/8", "an earlier one, which a killed run has not removed")
    unpack = Mirror._unpack

    def meanwhile(self: Mirror) -> None:
        unpack(self)
        for name in ("10", "note.10"):
            put(first, f"{OUTPUT}/{SINK_LOG}/{name}", "ten")
        put(first, f"{OUTPUT}/part-10", "rows")
        first.ship()

    monkeypatch.setattr(Mirror, "_unpack", meanwhile)
    second = mirror(tmp_path / "2")
    monkeypatch.setattr(Mirror, "_unpack", unpack)

    def names() -> set[str]:
        return {key.rpartition("/")[2] for key in bucket.keys(f"out/{SINK_LOG}/")}

    assert names() == {"run", "8", "9", "10", "note.10"}
    put(second, f"{STATE}/a", "more")
    with pytest.raises(CepError, match="another run has taken over s3://bucket/state"):
        second.ship()
    assert bucket.get("out/part-10") == b"rows"
    mirror(tmp_path / "3")
    assert names() == {"run", "9", "10", "note.10"}


def test_a_run_whose_files_go_while_it_reads_them_was_overtaken(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, unpack = mirror(tmp_path / "1"), Mirror._unpack
    put(first, f"{STATE}/a", "0")
    first.ship()

    def meanwhile(self: Mirror) -> None:
        for number in range(KEPT + 1):
            put(first, f"{STATE}/a", f"{number} more")
            first.ship()
        unpack(self)

    monkeypatch.setattr(Mirror, "_unpack", meanwhile)
    with pytest.raises(CepError, match="another run has taken over s3://bucket/state"):
        mirror(tmp_path / "2")


def test_a_run_that_was_slow_puts_nothing_over_what_is_newer(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its micro-batch counts, and another run has gone on from it before it could put the files: that one has."""
    first = mirror(tmp_path / "1")
    put(first, f"{OUTPUT}/{SINK_LOG}/leaving", "old")
    put(first, f"{OUTPUT}/part-1", "rows")
    create = mirrors.create

    def slow(address: str, content: bytes) -> bool:
        monkeypatch.setattr(mirrors, "create", create)
        done = create(address, content)
        second = mirror(tmp_path / "2")
        put(second, f"{OUTPUT}/{SINK_LOG}/leaving", "new")
        second.ship()
        return done

    monkeypatch.setattr(mirrors, "create", slow)
    with pytest.raises(CepError, match="another run has taken over s3://bucket/state"):
        first.ship()
    assert bucket.get(f"out/{SINK_LOG}/leaving") == b"new" and bucket.get("out/part-1") == b"rows"
    put(first, f"{STATE}/a", "more")
    with pytest.raises(CepError, match="another run has taken over s3://bucket/state"):
        first.ship()


def test_a_run_that_is_far_behind_does_not_count_where_a_manifest_was_removed(bucket: Bucket, tmp_path: Path) -> None:
    """The manifests that would refuse it are gone, but the last one is there; so it puts no output a second time."""
    first = mirror(tmp_path / "1")
    put(first, f"{STATE}/files.jsonl", "0")
    first.ship()
    second = mirror(tmp_path / "2")
    for number in range(1, 5):
        put(first, f"{STATE}/files.jsonl", f"{number}")
        put(first, f"{OUTPUT}/{SINK_LOG}/{number}", f"part-{number}-first")
        put(first, f"{OUTPUT}/part-{number}-first", f"rows {number}")
        first.ship()
    before = {key: bucket.get(key) for key in bucket.keys("out/")}
    assert len(before) == 8 and len(bucket.keys("state/manifests/")) == KEPT
    with pytest.raises(CepError, match="another run has taken over s3://bucket/state"):
        second.refuse_overtaken()
    put(second, f"{STATE}/files.jsonl", "1")
    put(second, f"{OUTPUT}/{SINK_LOG}/1", "part-1-second")
    put(second, f"{OUTPUT}/part-1-second", "rows 1")
    with pytest.raises(CepError, match="another run has taken over s3://bucket/state"):
        second.ship()
    assert {key: bucket.get(key) for key in bucket.keys("out/")} == before
    last = mirror(tmp_path / "3")
    assert there(last)[f"{STATE}/files.jsonl"] == "4"
    assert {key: bucket.get(key) for key in bucket.keys("out/")} == before
    assert len(bucket.keys("state/manifests/")) == KEPT
    assert not [key for key in bucket.keys("state/packs/") if second.run[:12] in key], "what it put in vain is gone"


def test_a_run_that_is_killed_at_any_put_is_gone_on_from(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a micro-batch are there in the end whenever it counted, and never before it does."""
    from cep.core.storage import files

    class Killed(Exception):
        pass

    left, whole = [0], files.put

    def killed(address: str, content: object) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        whole(address, content)  # type: ignore[arg-type]

    rng, number, done = random.Random(2), 0, 0
    while done < 12:
        number += 1
        left[0] = rng.choice((0, 1, 2, 99, 99))
        monkeypatch.setattr(files, "put", killed)
        try:
            at = mirror(tmp_path / str(number))
        except Killed:
            continue  # before it has put all that counts
        state = at.root / STATE / "count"
        count = int(state.read_text()) if state.exists() else 0
        assert sorted(bucket.keys("out/part-")) == sorted(f"out/part-{n}" for n in range(count))
        assert count >= done
        done = count
        for batch in range(count, count + 3):
            state.write_text(str(batch + 1))
            put(at, f"{OUTPUT}/part-{batch}", f"rows {batch}")
            put(at, f"{OUTPUT}/{SINK_LOG}/{batch}", f"part-{batch}")
            (at.root / OUTPUT / SINK_LOG / str(batch - 2)).unlink(missing_ok=True)
            left[0] = rng.randrange(7)
            try:
                at.ship()
            except Killed:
                break
            log = sorted(int(key.rpartition("/")[2]) for key in bucket.keys(f"out/{SINK_LOG}/"))
            assert log == [n for n in (batch - 1, batch) if n >= 0]
        shutil.rmtree(at.root)
    assert [bucket.get(f"out/part-{n}").decode() for n in range(12)] == [f"rows {n}" for n in range(12)]


def test_a_run_that_ended_before_it_counted_stands_in_no_ones_way(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("state/packs/000000000000-0123456789ab", b"of a first micro-batch")
    bucket.put("state/spark.log", b"what Spark said")
    at = mirror(tmp_path / "1")
    for number in range(3):
        put(at, f"{STATE}/a", str(number))
        at.ship()
    shutil.rmtree(at.root)
    again = mirror(tmp_path / "2")
    assert there(again) == {f"{STATE}/a": "2"}
    assert "state/packs/000000000000-0123456789ab" not in bucket.keys("state/")


def test_what_may_not_be_removed_ends_no_run(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: object) -> None:
        raise StorageError(errno.EACCES, "access is denied", "s3://bucket/state")

    with monkeypatch.context() as strict:
        strict.setattr("cep.spark.mirror.remove", refused)
        strict.setattr("cep.core.storage.objects.remove", refused)
        at = mirror(tmp_path / "1")
        for number in range(5):
            put(at, f"{STATE}/a", str(number))
            at.ship()
        assert len(bucket.keys("state/manifests/")) == 5
        assert there(mirror(tmp_path / "2")) == {f"{STATE}/a": "4"}
    assert there(mirror(tmp_path / "3")) == {f"{STATE}/a": "4"}
    assert len(bucket.keys("state/manifests/")) == KEPT, "one that may removes them"


def test_what_is_damaged_or_of_something_else_is_told(bucket: Bucket, tmp_path: Path) -> None:
    first = mirror(tmp_path / "1")
    put(first, f"{STATE}/a", "content" * 10)
    first.ship()
    (manifest,), (pack,) = bucket.keys("state/manifests/"), bucket.keys("state/packs/")
    number = 1
    for key in (manifest, pack):
        data = bucket.get(key)
        for _, damaged in flipped(data, 12, random.Random(3)):
            bucket.put(key, damaged)
            number += 1
            with pytest.raises(CepError, match=f"s3://bucket/{key} is damaged"):
                mirror(tmp_path / str(number))
        bucket.put(key, data)
    (tmp_path / "other").mkdir()
    with pytest.raises(
        CepError, match="--output: the checkpoint was made for s3://bucket/out, not for s3://bucket/other"
    ):
        Mirror(tmp_path / "other", "s3://bucket/state", "s3://bucket/other")
    (tmp_path / "more").mkdir()
    bucket.put("used/file", "x")
    with pytest.raises(CepError, match="--checkpoint: s3://bucket/used is not empty"):
        Mirror(tmp_path / "more", "s3://bucket/used", "s3://bucket/fresh")
    for name in (STATE, OUTPUT):
        (tmp_path / "more" / name).rmdir()
    with pytest.raises(CepError, match="--output: s3://bucket/used is not empty"):
        Mirror(tmp_path / "more", "s3://bucket/fresh", "s3://bucket/used")


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ("--checkpoint s3://b/s --output out", "--checkpoint is at an address, but --output is a folder"),
        ("--checkpoint state --output s3://b/o", "--output is at an address, but --checkpoint is a folder"),
        (
            "--checkpoint state --output out --dead-letter s3://b/d",
            "--dead-letter is at an address, but --checkpoint is",
        ),
        ("--checkpoint s3://b/s --output delta:t", "output to a broker or a table needs a folder as --checkpoint"),
        (
            "--checkpoint s3://b/s --output s3://b/o --keep 1d",
            "--keep works only with folders, but --output is at an address",
        ),
        (
            "--checkpoint s3://b/s --output s3://b/o --master spark://h:7077 --dead-letter dead",
            "--dead-letter: dead is a folder of this machine, which the other machines do not have",
        ),
        ("--checkpoint hdfs://h/s --output hdfs://h/o", "hdfs:// has no conditional put"),
        ("--checkpoint ftp://h/s --output out", "`ftp://h/s` is an address, not a folder"),
    ],
)
def test_what_cannot_be_there(options: str, refusal: str, tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text("event a(x: int).\nb(X) <- a(X).\n")
    (tmp_path / "in.jsonl").write_text("")
    command = ["run", f"{tmp_path}/rules.cep", "--on", "spark", "--input", f"{tmp_path}/in.jsonl", *options.split()]
    result = CliRunner().invoke(app, command, prog_name="cep")
    assert refusal in result.stderr and result.exit_code == 2, result.stderr


KILLS = int(os.environ.get("SEMCEP_KILLS", "2"))


@pytest.mark.long
@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_killed_runs_lose_nothing_and_say_nothing_twice(kind: str, tmp_path: Path) -> None:
    """Each of them on a machine of its own: nothing is there but what is in the bucket."""
    bucket: Bucket | google_store.Bucket = served() if kind == "s3" else google_store.served()
    root = f"{kind}://bucket"
    rng = random.Random(KILLS)
    rules = tmp_path / "rules.cep"
    rules.write_text(PROGRAMS["stages"])
    inputs = spark_runs.write(tmp_path / "in", events("stages", rng), KILLS + 3, rng, LATENESS)
    (tmp_path / "in" / "bad.jsonl").write_text("no record\n")
    command = [sys.executable, "-m", "cep", "run", str(rules), "--on", "spark", "--input", *inputs, "--files", "1"]
    command += ["--lateness", "4 s", "--master", "local[2]", "--buckets", "3", "--dead-letter", f"{root}/dead"]
    command += ["--checkpoint", f"{root}/state", "--output", f"{root}/out", "--output-format", "jsonl"]
    env = {**os.environ, **bucket.env, "PYTHONPATH": ROOT}
    for _ in range(KILLS):
        killed(command, env, bucket, rng)
    last = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert last.returncode == 0, last.stderr
    assert f"{root}/out" in last.stderr or "derived" in last.stderr, last.stderr
    entries = [key for key in bucket.keys(f"out/{SINK_LOG}/") if key.rpartition("/")[2].isdecimal()]
    lines = [json.loads(line) for key in entries for line in bucket.get(key).splitlines()[1:]]
    assert any("path" in line for line in lines)
    assert all(line["path"].startswith(f"{spark_address(root)}/out/part-") for line in lines if "path" in line)
    found = [line for key in bucket.keys("out/part-") for line in bucket.get(key).splitlines()]
    letters = [json.loads(line) for key in bucket.keys("dead/") for line in bucket.get(key).splitlines()]
    alone = tmp_path / "alone.jsonl"
    one = [sys.executable, "-m", "cep", "run", str(rules), "--input", *inputs, "--lateness", "4 s"]
    subprocess.run([*one, "--output", str(alone)], check=True, capture_output=True, env=env)
    assert len(found) > 50 and ordered(found) == ordered(alone.read_bytes().splitlines())
    assert [letter["code"] for letter in letters] == ["json"]


def ordered(lines: list[bytes]) -> list[str]:
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines)


def killed(command: list[str], env: dict[str, str], bucket: Bucket | google_store.Bucket, rng: random.Random) -> None:
    """Run, and kill at any moment after the next micro-batch counts or the one after it."""

    def last() -> str:
        return max(bucket.keys("state/manifests/"), default="")

    before = last()
    with TemporaryFile() as said:
        run = subprocess.Popen(command, start_new_session=True, stdout=said, stderr=said, env=env)
        try:
            until(lambda: last() > before or run.poll() is not None, "a micro-batch counts", 600)
            pause(rng.random() * 2)
            if run.poll() is not None:
                said.seek(0)
                assert run.returncode == 0, said.read().decode()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
