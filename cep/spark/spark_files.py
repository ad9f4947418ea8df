"""Spark's own files in a checkpoint: read, brought to disk, and repaired where a cut of power has emptied them.

Spark does not wait until its files are on disk. What a micro-batch depends on, its offsets, is on disk before its
events count. So an emptied file belongs to a micro-batch that does not count yet, or only says that it was done.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from cep.core.durable_files import sync_names
from cep.spark.disk import SPARK, damaged_file, sync

_SUMS = b"crc\0"
"""The first bytes of a file of check sums; then come their block size, and the sums."""


def sync_batch(folder: Path, batch: int) -> None:
    """Return when what Spark wrote of a micro-batch before its sink commits is on disk; of the first, all files."""
    offsets = _of(folder / "offsets", str(batch))
    for path in filter(Path.is_file, folder.rglob("*")) if batch == 0 else offsets:
        try:
            with path.open("rb+") as file:
                sync(file)
        except FileNotFoundError:  # Spark was still writing it
            continue
    sync_names(folder / "offsets")  # the sink may be on another file system


def plan_hash(folder: Path, batch: int) -> str:
    """A hash of the plan of a micro-batch: its watermark, and where the input was."""
    lines = (folder / "offsets" / str(batch)).read_bytes().split(b"\n", 2)
    watermark = re.findall(rb'"batchWatermarkMs":-?\d+', lines[1])
    return hashlib.sha256(b"\n".join([*watermark, *lines[2:]])).hexdigest()[:32]


def verify_checksums(folder: Path) -> None:
    """Compare Spark's files with the check sums beside them, each of so many bytes. CepError: one is not what Spark
    wrote."""
    for beside in sorted(folder.rglob(".*.crc")):
        path, sums = _summed(beside), beside.read_bytes()
        each = int.from_bytes(sums[len(_SUMS) : len(_SUMS) + 4])
        if not path.is_file():
            continue
        data = memoryview(path.read_bytes())
        made = b"".join(crc32(data[at : at + each]).to_bytes(4) for at in range(0, len(data), each)) if each else b""
        if sums != _SUMS + each.to_bytes(4) + made:
            raise damaged_file(path)


def offset(folder: Path, batch: int) -> dict[str, Any]:
    """The offset of the input at the end of a micro-batch. CepError: Spark's file that says it is damaged."""
    return _json(folder / "offsets" / str(batch), -1, "end")


def watermark(folder: Path, batch: int) -> int:
    """The watermark of the micro-batch after this one (milliseconds), 0: none. CepError: as `offset`."""
    name = "nextBatchWatermarkMs"
    return int(_json(folder / "commits" / str(batch), 1, name)[name])


def planned_at(folder: Path, batch: int) -> int:
    """The watermark of a micro-batch (milliseconds). CepError: as `offset`."""
    name = "batchWatermarkMs"
    return int(_json(folder / "offsets" / str(batch), 1, name)[name])


def last(log: Path) -> int:
    """The number of the last micro-batch in a log of Spark's, `offsets` or `commits`; -1: there is none."""
    return max((int(path.name) for path in log.glob("[0-9]*")), default=-1)


def moved(folder: Path) -> int | None:
    """The last micro-batch that has ended, if it has moved the watermark: what waits for that is yet to be stepped."""
    done = last_ended(folder)
    return None if done is None or watermark(folder, done) == planned_at(folder, done) else done


def last_ended(folder: Path) -> int | None:
    """The last micro-batch that has ended, if no other was begun."""
    done = last(folder / "commits")
    return None if done < 0 or last(folder / "offsets") > done else done


def input_ended(folder: Path) -> bool:
    """Return True if the input has ended for good, so that what comes now would be late."""
    done = last(folder / "commits")
    return done >= 0 and int(offset(folder, done)["end"]) > 1


def ends_sent(folder: Path) -> int:
    """How often the end of the input was sent until the last micro-batch that was begun."""
    begun = last(folder / "offsets")
    return 0 if begun < 0 else int(offset(folder, begun)["end"])


def other_sources(folder: Path) -> list[str]:
    """The offsets of sources beside our own in the last micro-batch that was begun."""
    begun = last(folder / "offsets")
    if begun < 0:
        return []
    return (folder / "offsets" / str(begun)).read_text(encoding="utf-8").splitlines()[2:-1]


def next_watermark(folder: Path) -> int | None:
    """The watermark of the next micro-batch (microseconds); None: there is none."""
    done = last(folder / "commits")
    return None if done < 0 else watermark(folder, done) * 1000 or None


def _json(path: Path, line: int, name: str) -> dict[str, Any]:
    """A line of a file of Spark's as JSON, which has a whole number under a name. CepError: it has not."""
    try:
        found = json.loads(path.read_text(encoding="utf-8").splitlines()[line])
        if isinstance(found, dict) and isinstance(found.get(name), int):
            return found
    except FileNotFoundError:
        raise damaged_file(path, what="is missing") from None
    except (ValueError, IndexError):
        pass
    raise damaged_file(path)


def has_planned(checkpoint: Path) -> bool:
    """Return True if a micro-batch was planned, in any generation."""
    return any(checkpoint.glob(f"{SPARK}*/offsets/[0-9]*"))


def remove_spoilt(folder: Path) -> list[Path]:
    """Remove what a cut of power has spoilt: the last entries if they are empty, so that Spark repeats these
    micro-batches, and of those that only say that one was done all that are empty; empty check sums, and those whose
    file is gone; and `metadata`, which Spark writes first, where that is empty. Not while a query runs. Gives what was
    removed."""
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
    """The file whose check sums are in this one."""
    return beside.with_name(beside.name[1:].removesuffix(".crc"))


def _of(folder: Path, name: str) -> Iterator[Path]:
    """Files of that name, with their check sums."""
    yield from folder.glob(name)
    yield from folder.glob(f".{name}.crc")
