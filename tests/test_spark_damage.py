"""A checkpoint and a folder of derived events that are not what was written: told by name, before Java sees it."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cep.connectors.brokers.mqtt import Arrival
from cep.connectors.inputs import Input
from cep.core.errors import CepError
from cep.engine import Engine
from cep.spark import spark_files
from cep.spark.disk import CHECKPOINT, FILES, OUTGOING, SINK_LOG
from cep.spark.sink import file_sink
from cep.spark.sink.commit_log import COMPACTED, CommitLog, OutputFile, intact
from cep.spark.sink.forwarding import forwarding
from cep.spark.source.file_list import FileList
from cep.spark.source.knowledge_changes import FileChangeLog
from cep.spark.source.live import read_or_make
from cep.spark.source.message_log import MessageLog
from cep.spark.state.bucket_states import BucketStates, begin, read_state, state_header
from cep.spark.state.checkpoint import CheckpointInfo
from cep.spark.state.migration import StateLayout
from tests.bucket_versions import newest_versions
from tests.damage import cut, flipped

PROGRAM = "event a(k: string, x: int). s(K, X, Y) <- a(K, X) SEQ a(K, Y)."


def written(folder: Path, seed: int = 0) -> None:
    """One of each file that a query on Spark goes on from."""
    state, out = folder / "state", folder / "out"
    state.mkdir(parents=True)
    engine = Engine.from_text(PROGRAM)
    laid = StateLayout.of(engine, ["s"])
    CheckpointInfo(engine.program, PROGRAM, None, {}, None, 2, "/out", "jsonl", ["s"], laid, name=f"r{seed}").write(
        state / CHECKPOINT
    )
    journal = FileList(str(state / FILES))
    for number in range(3):
        journal.extend([(0, Input(f"/in/{seed}-{number}.jsonl", "jsonl", None, False))])
    (folder / "updates.nq").write_text("")
    for number in range(2):
        graph, when = f"<urn:g:{seed}:{number}>", f'"2026-01-0{number + 1}T00:00:00Z"'
        with (folder / "updates.nq").open("a") as file:
            valid = "<https://w3id.org/semcep#validFrom>"
            file.write(f"{graph} {valid} {when}^^<http://www.w3.org/2001/XMLSchema#dateTime> .\n")
            file.write(f"<urn:s> <urn:p> <urn:o{number}> {graph} .\n")
        assert FileChangeLog(state, [str(folder / "updates.nq")]).look(last=True) == number + 1
    begin(state / "buckets", f"r{seed}-")
    for bucket in range(2):
        engine.push({}) if bucket else None
        for version in (1, 2):
            BucketStates(str(state / "buckets"), 1).write(bucket, version, engine.snapshot(), version)
    for name, value in (("address", "mqtt://h/t"), ("client", f"semcep-{seed}"), ("begin", {"0": 7})):
        read_or_make(state / "input-0" / name, lambda value=value: value)
    with closing(MessageLog(state / "mail")) as mail:
        mail.append([Arrival("rooms", b"%d" % (seed + n), n, 1) for n in range(5)])
    commits = CommitLog(out)
    for batch in range(COMPACTED + 2):
        files = []
        for number in range(batch % 3):
            at = commits.coming(f"part-{number:05}-{seed:08}{batch:028}.jsonl")
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_text(f"{seed} {number}\n")
            files.append(OutputFile.of(at, out / at.name.removesuffix(".new"), {"s": 1}, batch))
        commits.add(batch, files, plan=f"{seed} {batch}")


def read(folder: Path) -> Any:
    """All that such files say, as a run that goes on looks at them."""
    state, out = folder / "state", folder / "out"
    found: list[Any] = [asdict(CheckpointInfo.read(state / CHECKPOINT))]
    journal = FileList(str(state / FILES))
    found.append([one.fields() for one in journal.entries(0, 3)])
    found.append(FileChangeLog(state, [str(folder / "updates.nq")]).lines(0, 2))
    begin(state / "buckets", json.loads(json.dumps(found[0]))["name"] + "-")
    versions = newest_versions(state / "buckets", 2)
    paths = [state / "buckets" / f"{name}-{version:08}" for name, version in versions.items()]
    assert len(paths) == 2 or not paths
    found += [(read_state(path), state_header(path)["program"]) for path in paths]
    found += [read_or_make(state / "input-0" / name, lambda: None) for name in ("address", "client", "begin")]
    with closing(MessageLog(state / "mail", timeout=0)) as mail:
        found += [mail.read(0, 5), mail.known()]
    commits = CommitLog(out)
    found += [list(commits.lines()), commits.totals(), commits.leaving(), commits.last, file_sink.missing_files(out)]
    assert commits.has(commits.last, f"{found[0]['name'][1:]} {commits.last}")
    found.append([intact(out / name, line) for name, line in zip(map(_place, found[-5]), found[-5])])
    return found


def _place(line: str) -> str:
    return str(json.loads(line)["path"]).rpartition("/")[2]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    written(tmp_path / "whole")
    return tmp_path / "whole"


def each(folder: Path) -> list[str]:
    """The files by which a run goes on."""
    names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]
    skipped = (
        "updates.nq",
        "state/mail/lock",
        "state/mail/turn",
        "-00000001",
        f"{SINK_LOG}/note.9",
        f"{SINK_LOG}/note.10",
    )
    old = tuple(f"out/{SINK_LOG}/{number}" for number in range(COMPACTED - 1))
    return [
        name for name in names if not name.endswith(skipped) and name not in old and not name.startswith("out/part")
    ]


def test_flipped_bits(whole: Path) -> None:
    """A hundred of each kind of file: each is reported with the file's name, whatever it would have changed."""
    wanted, random, reported = read(whole), Random(1), Counter[str]()
    assert read(whole) == wanted
    for name in each(whole):
        path, data = whole / name, (whole / name).read_bytes()
        for place, damaged in flipped(data, 20, random):
            path.write_bytes(damaged)
            try:
                assert read(whole) == wanted, (name, place)
            except CepError as error:
                assert str(path) in error.message and error.hint, (name, place, error.message)
                reported[name] += 1
        path.write_bytes(data)
    assert read(whole) == wanted
    quiet = {name for name in each(whole) if reported[name] < 20}
    assert quiet <= {"state/files.jsonl", "state/changes.jsonl"}, reported  # more is said of one torn at its end


def test_what_is_cut_short_emptied_or_missing(whole: Path, tmp_path: Path) -> None:
    """It is reported; a last line or message that was half written was told to no one, but a run knows how many there
    were."""
    wanted = read(whole)
    for name in each(whole):
        path, data = whole / name, (whole / name).read_bytes()
        for number, damaged in enumerate([*cut(data, Random(2)), None]):
            path.unlink()
            if damaged is not None:
                path.write_bytes(damaged)
            try:
                found = read(whole)
            except (CepError, FileNotFoundError) as error:
                assert (
                    str(path).removesuffix(".compact") in str(error)
                    or re.search("messages|with other input", str(error))
                    or name.endswith("/run")
                )
            else:
                torn = name.endswith((".jsonl", ".mail")) and number == 3  # a byte behind it
                again = damaged is None and name.startswith(
                    ("state/input-0", "out", "state/buckets", "state/mail/known")
                )
                assert torn or again or found == wanted, (name, number)
            for leftover in (whole / "state" / "input-0").glob(".*"):
                leftover.unlink()
            path.write_bytes(data)


def test_files_of_another_run_and_of_another_name(whole: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    written(other, 1)
    read(other)
    for name in each(whole):
        if name in (f"state/{CHECKPOINT}", f"state/{FILES}", "state/changes.jsonl") or "/mail/" in name:
            continue
        if "input-0" in name or (whole / name).read_bytes() == (other / name).read_bytes():
            continue  # whole logs; Spark's own, and the plans of micro-batches, say that these are another's
        path, data = whole / name, (whole / name).read_bytes()
        path.write_bytes((other / name).read_bytes())
        with pytest.raises(CepError, match="damaged"):
            read(whole)
        path.write_bytes(data)
    pairs = [("state/buckets/1-0000-00000002", "state/buckets/1-0001-00000002")]
    pairs += [(f"out/{SINK_LOG}/10", f"out/{SINK_LOG}/11"), (f"out/{SINK_LOG}/note.10", f"out/{SINK_LOG}/note.11")]
    pairs += [("state/input-0/client", "state/input-0/address")]
    for one, two in pairs:
        first, second = (whole / one).read_bytes(), (whole / two).read_bytes()
        (whole / one).write_bytes(second), (whole / two).write_bytes(first)
        with pytest.raises(CepError, match=r"damaged|with other input"):
            read(whole)
        (whole / one).write_bytes(first), (whole / two).write_bytes(second)
    read(whole)


def test_the_files_of_spark_are_held_against_their_check_sums(tmp_path: Path) -> None:
    """As Hadoop writes them: of each 512 bytes one, in a file beside."""
    folder = tmp_path / "spark" / "offsets"
    folder.mkdir(parents=True)
    data = bytes(range(256)) * 5
    sums = b"crc\0" + (512).to_bytes(4) + b"".join(sealed_crc(data[at : at + 512]) for at in range(0, len(data), 512))
    path, beside = folder / "0", folder / ".0.crc"
    path.write_bytes(data), beside.write_bytes(sums)
    spark_files.verify_checksums(tmp_path)
    for which, whole in ((path, data), (beside, sums)):
        for _, damaged in flipped(whole, 60, Random(3)):
            which.write_bytes(damaged)
            with pytest.raises(CepError, match=f"--checkpoint: {path} is damaged"):
                spark_files.verify_checksums(tmp_path)
        which.write_bytes(whole)
    for wrong in cut(data, Random(4)):
        path.write_bytes(wrong)
        with pytest.raises(CepError, match="is damaged"):
            spark_files.verify_checksums(tmp_path)
    path.unlink()
    spark_files.verify_checksums(tmp_path)
    for name, look in (("offsets", spark_files.offset), ("commits", spark_files.watermark)):
        (tmp_path / "spark" / name).mkdir(exist_ok=True)
        for text in ("", "v1", "v1\n{}\n[]", "v1\n\n{"):
            (tmp_path / "spark" / name / "3").write_text(text)
            with pytest.raises(CepError, match=f"{name}/3 is damaged"):
                look(tmp_path / "spark", 3)


def sealed_crc(data: bytes) -> bytes:
    from zlib import crc32

    return crc32(data).to_bytes(4)


def test_a_file_that_a_task_wrote_is_looked_for_before_it_counts(tmp_path: Path) -> None:
    """Else the checkpoint would be lost: what counts and is not there is reported each time."""
    commits = CommitLog(tmp_path)
    at = commits.coming("part-0.jsonl")
    at.parent.mkdir(parents=True)

    def task() -> OutputFile:
        at.write_text("one\n")
        return OutputFile.of(at, tmp_path / "part-0.jsonl", {"s": 1})

    losses: list[Callable[[], object]] = [at.unlink, lambda: at.write_text("on")]
    for lose in losses:
        file = task()
        lose()
        with pytest.raises(CepError, match=r"part-0\.jsonl\.new is missing or cut short"):
            commits.add(0, [file])
        assert commits.last == -1, "it is done again"
    commits.add(0, [task()])
    assert commits.last == 0 and (tmp_path / "part-0.jsonl").read_text() == "one\n"


def test_what_is_sent_on_is_what_was_written(tmp_path: Path) -> None:
    folder = tmp_path / OUTGOING
    commits = CommitLog(folder)
    at = commits.coming("part-0.jsonl")
    at.parent.mkdir(parents=True)
    at.write_text('{"type": "s"}\n')
    commits.add(0, [OutputFile.of(at, folder / "part-0.jsonl", {"s": 1})])
    (folder / "part-0.jsonl").write_text('{"type": "t"}\n')
    with (
        pytest.raises(CepError, match=r"part-0\.jsonl is damaged"),
        forwarding(tmp_path, "job", "kafka://127.0.0.1:1/never-asked", {}, pytest.fail),
    ):
        pass


def test_an_entry_of_the_log_that_is_missing_takes_no_file_away(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(whole / "out", folder)
    parts = sorted(folder.glob("part-*"))
    for name in (f"{COMPACTED - 1}.compact", str(COMPACTED)):
        shutil.rmtree(folder)
        shutil.copytree(whole / "out", folder)
        (folder / SINK_LOG / name).unlink()
        if name.endswith(".compact"):
            for number in range(COMPACTED - 1):
                (folder / SINK_LOG / str(number)).unlink(missing_ok=True)
        with pytest.raises(CepError, match="is missing: it is an entry of the log"):
            file_sink.finish_batches(folder)
        assert sorted(folder.glob("part-*")) == parts
