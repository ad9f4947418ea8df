"""The commit log of the sink: the committed files of each micro-batch, in the format of Spark's own file sink.

The entry of a micro-batch is a file whose name is the micro-batch's number, such as `7`. A compact entry, such as
`9.compact`, repeats all entries up to its number. An entry consists of a line `v1`, and of one line of JSON for each
output file. Spark computes the distance between compact entries from the last two of them, and expects this distance to
stay the same. Our entries begin with `v01`, which Spark reads as the same version, and end with a hash of the entry.
Empty entries begin with `v001`.

Tasks write files beside the log, under names that readers ignore. A micro-batch is committed once its note, such as
`note.7`, is on disk. Then its files get their final names, and then its entry is written. So a reader of the log finds
all files, and a reader of the folder finds only committed ones. If the run is killed after it has written the note, the
next run renames the files and writes the entry.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

from cep.core import checksum
from cep.core.durable_files import sync_names
from cep.core.errors import CepError
from cep.spark.disk import BACK, SINK_LOG, damaged_file, put, sync

COMPACTED = 10
"""The initial number of micro-batches between compact entries."""
WIDEST = 320
"""The maximum number of micro-batches between compact entries. A reader may have to open this many files."""
LONG = 100
"""If a compact entry has more lines than this per micro-batch, the distance between compact entries is doubled."""

LEAVING = "leaving"
"""The name of a file in the log's folder. The file lists the output files that were last dropped from the log, which
readers may still read."""
COMING = "coming"
"""The name of a folder in the log's folder. It contains the files of tasks until they are committed."""
NOTE = "note"
"""The prefix of the file names of notes in the log's folder. There is one note per micro-batch.

A note contains the lines of the entry, a hash of the micro-batch's plan, and for each event the number of rows so far.
"""
WITHDRAWN = ".withdrawn.jsonl"
"""The suffix of files that contain withdrawals. They are sent before the other files of a micro-batch."""
RUN = "run"
"""The name of a file in the log's folder. It contains a unique name of the log."""
NOTES = 3
"""The number of notes that are kept. Spark may repeat the last micro-batch, whose note is then needed."""

_FORM, _NONE = b"v01", b"v001"
_LATEST = re.compile(r'"latest":(-?\d+)')
_TYPE = "type="


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file of derived events.

    - `size`: the size in bytes.
    - `changed`: the time of the last change, in milliseconds.
    - `rows`: the number of rows of each event. It is empty if the file only contains the columns of a table without
      rows.
    - `latest`: the latest end of a row.
    - `hash`: the hash of the content.
    - `times`: the format of times, if they are numbers in a unit other than seconds. A reader could not detect this
      unit.
    """

    path: str
    size: int
    changed: int
    rows: Mapping[str, int] = field(default_factory=dict)
    latest: int | None = None
    hash: str | None = None
    times: str | None = None

    @classmethod
    def of(
        cls, written: Path, path: Path, rows: Mapping[str, int], latest: int | None = None, times: str | None = None
    ) -> OutputFile:
        """Sync a new file to disk, and describe it. `written`: its current path. `path`: its path after the commit."""
        with written.open("rb+") as file:
            sync(file)
        stat = written.stat()
        return cls(str(path), stat.st_size, stat.st_mtime_ns // 1_000_000, rows, latest, content_hash(written), times)

    def line(self, batch: int, below: str | None = None) -> str:
        """Return the line of the file in the log. In addition to Spark's own fields, it contains the micro-batch, the
        latest end and the hash.

        `below`: the address at which readers find the sink's folder. None means the folder's local path.
        """
        known = {"size": self.size, "isDir": False, "modificationTime": self.changed}
        rest = {"blockReplication": 1, "blockSize": 32 << 20, "action": "add"}
        ours = {"batch": batch, "latest": self.latest, "content": self.hash, "times": self.times}
        ours = {name: value for name, value in ours.items() if value is not None}
        return json.dumps({"path": below or Path(self.path).as_uri()} | known | rest | ours, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class CommitLog:
    """The log of the files in a folder. The log and the folder need not exist yet.

    `address`: the address at which readers find the folder. None means its local path.
    """

    files: Path
    address: str | None = None

    @property
    def there(self) -> bool:
        return self._folder.is_dir()

    @property
    def last(self) -> int:
        """The number of the last committed micro-batch, or -1 if no micro-batch is committed."""
        return max([self.entered, *self._notes()])

    @property
    def entered(self) -> int:
        """The number of the last micro-batch that has an entry, or -1 if the log has no entries. Readers see the
        micro-batches up to this one."""
        return max(self._entries(), default=-1)

    def has(self, batch: int, plan: str = "") -> bool:
        """Return True if the micro-batch is committed.

        Raises CepError if it was committed with another plan, or if its note no longer exists.
        """
        if self.last < batch:
            return False
        if self._note(batch).get("plan") != plan:
            message = f"--checkpoint: micro-batch {batch} is already in the log of {self.files}, with other input"
            raise CepError(message, hint=BACK, code="checkpoint")
        return True

    def coming(self, name: str) -> Path:
        """Return the path at which a file is written before it is committed. Readers ignore this path."""
        return self._folder / COMING / f"{name.replace('/', '.')}.new"

    def lines(self) -> Iterator[str]:
        """Yield a line of JSON per committed file, oldest first. Raises CepError if an entry is damaged or missing."""
        entries = self._entries()
        whole = max((number for number, name in entries.items() if name.endswith(".compact")), default=0)
        for number in range(whole, max(entries, default=-1) + 1):
            if number not in entries:
                raise damaged_file(self._folder / str(number), "--output", "is missing: it is an entry of the log")
            yield from entry(self._folder / entries[number])

    def written(self, batch: int) -> list[str]:
        """Return the names of a micro-batch's files, or an empty list if its note no longer exists."""
        return [file_name(line) for line in self._note(batch).get("lines", ())]

    def leaving(self) -> list[str]:
        """Return the names of the files that were last dropped from the log."""
        path = self._folder / LEAVING
        return _proven(path, path.read_bytes()).decode().splitlines() if path.exists() else []

    def totals(self) -> Counter[str]:
        """Return for each event the number of rows written so far, including rows of removed files."""
        return Counter(self._note(self.last).get("rows"))

    def add(
        self, batch: int, files: Sequence[OutputFile], keep: int | None = None, passing: bool = False, plan: str = ""
    ) -> None:
        """Commit the files of the next micro-batch.

        - `keep`: the age of output files, in microseconds before the latest event. When a compact entry is written,
          files whose last event is older are dropped from the log. When the next compact entry is written, these files
          are removed.
        - `passing`: True if the reader removes files. Missing files are then dropped as well.
        - `plan`: a hash of the micro-batch's plan.

        Raises CepError if `batch` is not the next micro-batch, or if a file is missing. The micro-batch is then not
        committed, and is repeated.
        """
        if batch != self.last + 1:
            message = f"--output: {self.files} has micro-batches up to {self.last}, but the next one is {batch}"
            raise CepError(message, hint=BACK, code="checkpoint")
        for file in files:
            pending = self.coming(str(Path(file.path).relative_to(self.files)))
            if not pending.exists() or pending.stat().st_size != file.size:
                message = f"--output: {pending} is missing or cut short, though a task has just written it"
                hint = "only this command may remove files there"
                raise CepError(message, hint=hint, code="failed")
        self._folder.mkdir(parents=True, exist_ok=True)
        if batch == 0:
            put(self._folder / RUN, checksum.seal(uuid4().hex.encode()))
        totals = self.totals()
        for file in files:
            totals.update(file.rows)
        note = {"plan": plan, "rows": totals, "lines": [file.line(batch, self._below(file)) for file in files]}
        name = f"{NOTE}.{batch}"
        put(self._folder / name, checksum.seal(json.dumps(note).encode(), of=_of(self._folder / name)))
        sync_names(self._folder)
        self.settle(keep, passing)

    def settle(self, keep: int | None = None, passing: bool = False) -> None:
        """Finish the last commit: rename its files, write its entry, and remove uncommitted files.

        Do not call this while tasks write. Raises CepError if a file is missing.
        """
        for batch in range(self.entered + 1, self.last + 1):
            new = self._note(batch)["lines"]
            for name in map(file_name, new):
                self._name(name)
            self._enter(batch, new, keep, passing)
            (self._folder / f"{NOTE}.{batch - NOTES}").unlink(missing_ok=True)
        if (coming := self._folder / COMING).is_dir():
            for path in coming.iterdir():
                path.unlink(missing_ok=True)

    def _below(self, output_file: OutputFile) -> str | None:
        name = quote(str(Path(output_file.path).relative_to(self.files)))
        return None if self.address is None else f"{self.address}/{name}"

    def _name(self, name: str) -> None:
        path = self.files / name
        path.parent.mkdir(exist_ok=True)
        try:
            self.coming(name).replace(path)
        except FileNotFoundError:
            if not path.exists():
                raise CepError(
                    f"--output: {path} is missing, though it is committed", hint=BACK, code="checkpoint"
                ) from None

    def _enter(self, batch: int, new: Sequence[str], keep: int | None, passing: bool) -> None:
        way = self._distance()
        if (batch + 1) % way:
            self._put(str(batch), new)
            return
        kept, old = parted([*self.lines(), *new], keep)
        if passing:
            kept = [line for line in kept if (self.files / file_name(line)).exists()]
        gone = self.leaving()
        self._put(f"{batch}.compact", kept)
        if old or gone:
            put(self._folder / LEAVING, checksum.seal("\n".join(old).encode(), of=_of(self._folder / LEAVING)))
            still = {file_name(line) for line in kept} | set(old)
            for name in set(gone) - still:
                (self.files / name).unlink(missing_ok=True)
        self._forget(batch, way, len(kept))

    def _forget(self, batch: int, way: int, lines: int) -> None:
        """Remove entries that the new compact entry repeats.

        Entries since the previous compact entry stay, because a reader may be using them. The last two compact entries
        stay, because Spark computes the distance between compact entries from them.

        - `batch`: the number of the new entry.
        - `way`: the distance between compact entries. It is doubled if the new entry has too many `lines`.
        """
        entries = self._entries()
        whole = {number for number, name in entries.items() if name.endswith(".compact")}
        wider = way * 2 <= WIDEST and lines > LONG * way and not (batch + 1) % (way * 2)
        if wider and batch - way * 2 in whole:
            (self._folder / entries[batch - way]).unlink(missing_ok=True)
        for number, name in entries.items():
            if number < batch - way * (2 if number in whole else 1):
                (self._folder / name).unlink(missing_ok=True)

    def _distance(self) -> int:
        whole = sorted(number for number, name in self._entries().items() if name.endswith(".compact"))
        return COMPACTED if len(whole) < 2 else whole[-1] - whole[-2]

    def _entries(self) -> dict[int, str]:
        if not self.there:
            return {}
        names = [file.name for file in self._folder.iterdir()]
        stems = [(name.removesuffix(".compact"), name) for name in names]
        return {int(stem): name for stem, name in stems if stem.isdecimal()}

    def _notes(self) -> list[int]:
        return [int(file.suffix[1:]) for file in self._folder.glob(f"{NOTE}.*")]

    def _note(self, batch: int) -> dict[str, Any]:
        path = self._folder / f"{NOTE}.{batch}"
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # not written yet, or removed
            return {}
        try:
            note: dict[str, Any] = json.loads(_proven(path, data))
        except ValueError:
            raise damaged_file(path, "--output") from None
        return note

    def _put(self, name: str, lines: Sequence[str]) -> None:
        text = b"\n".join([_FORM, *(line.encode() for line in lines)])
        put(self._folder / name, checksum.Chain(_of(self._folder / name)).add(text) if lines else _NONE)

    @property
    def _folder(self) -> Path:
        return self.files / SINK_LOG


def parted(lines: Sequence[str], keep: int | None) -> tuple[list[str], list[str]]:
    """Split the lines of a log. Return the lines that stay, and the names of the files to drop.

    `keep`: how far the latest end in a file may be behind the latest event, in microseconds. If it is None, all lines
    stay. A line without a latest end also stays.
    """
    if keep is None:
        return list(lines), []
    ends = [None if (latest_match := _LATEST.search(line)) is None else int(latest_match[1]) for line in lines]
    since = max((end for end in ends if end is not None), default=0) - keep
    stays = [end is None or end >= since for end in ends]
    staying = [line for line, stay in zip(lines, stays, strict=True) if stay]
    return staying, [file_name(line) for line, stay in zip(lines, stays, strict=True) if not stay]


def file_name(line: str) -> str:
    """Return the file name in a line of the log, relative to the sink's folder. The line contains an absolute path, but
    the folder may have moved since."""
    _, above, name = unquote(json.loads(line)["path"]).rsplit("/", 2)
    return f"{above}/{name}" if above.startswith(_TYPE) else name


def batch_of(line: str) -> int:
    """Return the number of the micro-batch in a line of the log."""
    return int(json.loads(line)["batch"])


def entry(path: Path) -> list[str]:
    """Return the lines of an entry, one for each output file.

    Raises CepError if the entry is damaged, and FileNotFoundError if it was removed.
    """
    data = path.read_bytes()
    if data == _NONE:
        return []
    try:
        form, *lines = checksum.Chain(_of(path)).read(data).decode().split("\n")
    except ValueError:
        raise damaged_file(path, "--output") from None
    if form.encode() != _FORM:
        raise damaged_file(path, "--output")
    return lines


def _of(path: Path) -> bytes:
    """Return the log's unique name and the name of a file as bytes. These bytes are hashed together with the file's
    content, so that a copy of another file is not valid."""
    run = path.with_name(RUN)
    try:
        return bytes(checksum.content(run.read_bytes())) + path.name.encode()
    except (FileNotFoundError, checksum.Broken):
        raise damaged_file(run, "--output") from None


def intact(path: Path, line: str) -> bool:
    """Return True if the hash of a file's content is the hash in its line of the log."""
    return bool(json.loads(line)["content"] == content_hash(path))


def content_hash(path: Path) -> str:
    """Return the hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=checksum.SIZE)).hexdigest()


def _proven(path: Path, data: bytes) -> bytes:
    try:
        return bytes(checksum.content(data, _of(path)))
    except checksum.Broken:
        raise damaged_file(path, "--output") from None
