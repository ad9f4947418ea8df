"""Spark's own files in a checkpoint. This module reads them, syncs them to disk, and repairs them after a power failure
has emptied some of them.

Spark does not sync its files to disk. We sync the offsets of a micro-batch before its output is committed. So an empty
file either belongs to an uncommitted micro-batch, or only records that a micro-batch is finished.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from cep.core.durable_files import sync_names
from cep.spark.disk import SPARK, damaged_file, sync

_SUMS = b"crc\0"
"""The first bytes of a checksum file. The block size and the checksums follow."""


def sync_batch(folder: Path, batch: int) -> None:
    """Sync Spark's files of a micro-batch, before the sink commits it. For the first micro-batch, sync all files."""
    offsets = _of(folder / "offsets", str(batch))
    for path in filter(Path.is_file, folder.rglob("*")) if batch == 0 else offsets:
        try:
            with path.open("rb+") as file:
                sync(file)
        except FileNotFoundError:  # Spark was still writing it
            continue
    sync_names(folder / "offsets")  # the sink may be on another file system


def plan_hash(folder: Path, batch: int) -> str:
    """Return a hash of a micro-batch's plan. The plan consists of the watermark and the offsets of the input."""
    lines = (folder / "offsets" / str(batch)).read_bytes().split(b"\n", 2)
    watermark = re.findall(rb'"batchWatermarkMs":-?\d+', lines[1])
    return hashlib.sha256(b"\n".join([*watermark, *lines[2:]])).hexdigest()[:32]


def verify_checksums(folder: Path) -> None:
    """Compare Spark's files with their checksum files, block by block. Raises CepError if a file has changed."""
    for beside in sorted(folder.rglob(".*.crc")):
        path, sums = _summed(beside), beside.read_bytes()
        size = int.from_bytes(sums[len(_SUMS) : len(_SUMS) + 4])
        if not path.is_file():
            continue
        data = memoryview(path.read_bytes())
        crcs = b"".join(crc32(data[i : i + size]).to_bytes(4) for i in range(0, len(data), size)) if size else b""
        if sums != _SUMS + size.to_bytes(4) + crcs:
            raise damaged_file(path)


def offset(folder: Path, batch: int) -> dict[str, Any]:
    """Return the offset of our own source at the end of a micro-batch.

    Raises CepError if Spark's file that contains the offset is missing or damaged.
    """
    return _json(folder / "offsets" / str(batch), -1, "end")


def watermark(folder: Path, batch: int) -> int:
    """Return the watermark that follows from a finished micro-batch, in milliseconds, or 0 if there is none yet.

    Raises CepError as `offset` does.
    """
    name = "nextBatchWatermarkMs"
    return int(_json(folder / "commits" / str(batch), 1, name)[name])


def planned_at(folder: Path, batch: int) -> int:
    """Return the watermark with which a micro-batch was planned, in milliseconds. Raises CepError as `offset` does."""
    name = "batchWatermarkMs"
    return int(_json(folder / "offsets" / str(batch), 1, name)[name])


def last(log: Path) -> int:
    """Return the number of the last micro-batch in one of Spark's logs, or -1 if the log is empty. `log`: the folder
    `offsets` or `commits`."""
    return max((int(path.name) for path in log.glob("[0-9]*")), default=-1)


def moved(folder: Path) -> int | None:
    """Return the number of the last finished micro-batch if it has moved the watermark, so that another micro-batch
    must process the rows that waited. Returns None otherwise."""
    done = last_ended(folder)
    return None if done is None or watermark(folder, done) == planned_at(folder, done) else done


def last_ended(folder: Path) -> int | None:
    """Return the number of the last finished micro-batch, or None if there is none or a later one has begun."""
    done = last(folder / "commits")
    return None if done < 0 or last(folder / "offsets") > done else done


def input_ended(folder: Path) -> bool:
    """Return True if a finished micro-batch has ended the input, so that all later input would be late."""
    done = last(folder / "commits")
    return done >= 0 and int(offset(folder, done)["end"]) > 1


def ends_sent(folder: Path) -> int:
    """Return how often the end of the input was sent. The last micro-batch that has begun counts too."""
    begun = last(folder / "offsets")
    return 0 if begun < 0 else int(offset(folder, begun)["end"])


def other_sources(folder: Path) -> list[str]:
    """Return the offsets of all sources except the project's own source, from the last micro-batch that has begun."""
    begun = last(folder / "offsets")
    if begun < 0:
        return []
    return (folder / "offsets" / str(begun)).read_text(encoding="utf-8").splitlines()[2:-1]


def next_watermark(folder: Path) -> int | None:
    """Return the watermark of the next micro-batch in microseconds. Returns None if there is no watermark yet."""
    done = last(folder / "commits")
    return None if done < 0 else watermark(folder, done) * 1000 or None


def _json(path: Path, line: int, name: str) -> dict[str, Any]:
    """Return a line of one of Spark's files as JSON. `name`: a field of the line that must be a whole number.

    Raises CepError if the file is missing or the line has no such field.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8").splitlines()[line])
        if isinstance(document, dict) and isinstance(document.get(name), int):
            return document
    except FileNotFoundError:
        raise damaged_file(path, what="is missing") from None
    except (ValueError, IndexError):
        pass
    raise damaged_file(path)


def carry(before: Path, after: Path, batch: int, mark: dict[str, Any]) -> None:
    """Create Spark's files of a new generation from those of the former one. DataFrames then continue at the same
    offsets, which only these files contain.

    The query keeps its id and its numbers of micro-batches. The micro-batch after `batch` is already planned: at the
    watermark of `batch`, without rows of DataFrames, and with `mark` in the offset of our own source.

    `batch`: the last micro-batch of the former generation, or -1 if that generation has finished none.
    """
    logs = "offsets", "commits"
    if not before.is_dir():
        return
    shutil.copytree(before, after, ignore=lambda folder, _: logs if folder == str(before) else ())
    for log in logs:
        (after / log).mkdir()
    if batch >= 0:
        watermark, done = planned_at(before, batch), before / "commits" / str(batch)
        *others, own = (before / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate((own, json.dumps(json.loads(own) | mark)), batch):
            (after / "offsets" / str(number)).write_text("\n".join([*others, line]), encoding="utf-8")
        commit = done.read_bytes() if done.exists() else b'v1\n{"nextBatchWatermarkMs":%d}' % watermark
        (after / "commits" / str(batch)).write_bytes(commit)
    sync_batch(after, 0)


def has_planned(checkpoint: Path) -> bool:
    """Return True if a micro-batch was planned in any generation of the checkpoint."""
    return any(checkpoint.glob(f"{SPARK}*/offsets/[0-9]*"))


def remove_spoilt(folder: Path) -> list[Path]:
    """Remove files that a power failure has emptied. Return their paths. Do not call this while a query runs.

    - The last entries of `offsets`, if they are empty. Spark then repeats these micro-batches.
    - All empty entries of `commits`, which only record that a micro-batch is finished.
    - Checksum files that are empty, or whose file is missing.
    - `metadata`, which Spark writes first, if it is empty.
    """
    gone = [path for path in folder.rglob(".*.crc") if not path.stat().st_size or not _summed(path).exists()]
    for path in folder.glob("metadata"):
        gone += [] if path.stat().st_size else _of(path.parent, path.name)
    for log in ("commits", "offsets"):
        for path in sorted((folder / log).glob("[0-9]*"), key=lambda path: -int(path.name)):
            if path.stat().st_size:
                if log == "offsets":
                    break
                continue
            gone += [path, *path.parent.glob(f".{path.name}.crc")]
    for path in gone:
        path.unlink(missing_ok=True)
    return sorted(set(gone))


def _summed(beside: Path) -> Path:
    return beside.with_name(beside.name[1:].removesuffix(".crc"))


def _of(folder: Path, name: str) -> Iterator[Path]:
    yield from folder.glob(name)
    yield from folder.glob(f".{name}.crc")
