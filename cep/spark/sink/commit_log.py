"""The commit log of the sink: which files count, micro-batch by micro-batch, in the format of Spark's own file sink.

The entry of a micro-batch is a file named by its number, `7`, or one for all until it, `9.compact`: a line `v1`, then
a line of JSON for each file. Spark takes the distance between compact entries from the last two, and expects it to
stay. Ours begin with `v01`, which Spark takes for the same: then the last line has a hash of the whole; or with `v001`
where there is no line.

Files are written beside the log, under names that no reader takes for data. A micro-batch counts once its note,
`note.7`, is on disk; then its files get their names, then it gets its entry. So a reader of the log finds the files,
and a reader that lists the folder finds none that will not count; the next run finishes what was killed in between.
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
"""Every so many micro-batches there is a compact entry, at first."""
WIDEST = 320
"""In a long log, every so many at most; a reader opens as many files."""
LONG = 100
"""The distance is doubled once a compact entry has so many lines for each micro-batch before it."""

LEAVING = "leaving"
"""In the log's folder: the files that were dropped from the log last, and may still be read."""
COMING = "coming"
"""In the log's folder: the files of tasks, until they count."""
NOTE = "note"
"""In the log's folder, before the number of a micro-batch: its lines, a hash of its plan, and how many rows of each
event there were until then."""
WITHDRAWN = ".withdrawn.jsonl"
"""The suffix of files that are to be sent before others of a micro-batch."""
RUN = "run"
"""In the log's folder: a name that no other log has."""
NOTES = 3
"""So many notes are kept. Spark goes back by one micro-batch."""

_FORM, _NONE = b"v01", b"v001"
_LATEST = re.compile(r'"latest":(-?\d+)')
_TYPE = "type="


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file of derived events: `size` in bytes, `changed` in milliseconds. `rows`: how many of each event; none in a
    file that only has columns. `latest`: the last end among them; `hash`: of the content; `times`: the form of times
    that are counts of a unit other than seconds, which a reader could not tell."""

    path: str
    size: int
    changed: int
    rows: Mapping[str, int] = field(default_factory=dict)
    latest: int | None = None
    hash: str | None = None
    times: str | None = None

    @classmethod
    def of(
        cls, at: Path, path: Path, rows: Mapping[str, int], latest: int | None = None, times: str | None = None
    ) -> OutputFile:
        """A file that was written, and is on disk when this returns. `at`: where it is until it counts; `path`: where
        it will be."""
        with at.open("rb+") as file:
            sync(file)
        found = at.stat()
        return cls(str(path), found.st_size, found.st_mtime_ns // 1_000_000, rows, latest, content_hash(at), times)

    def line(self, batch: int, below: str | None = None) -> str:
        """Its line in Spark's log, with the number of its micro-batch, the last end and the hash added; `below`: the
        address that readers have of the folder of the log, with the name of the file in it, None: it is there."""
        known = {"size": self.size, "isDir": False, "modificationTime": self.changed}
        rest = {"blockReplication": 1, "blockSize": 32 << 20, "action": "add"}
        ours = {"batch": batch, "latest": self.latest, "content": self.hash, "times": self.times}
        ours = {name: value for name, value in ours.items() if value is not None}
        return json.dumps({"path": below or Path(self.path).as_uri()} | known | rest | ours, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class CommitLog:
    """The log of the files in a folder; neither need exist yet. `address`: where readers have the folder, None: they
    have this one."""

    files: Path
    address: str | None = None

    @property
    def there(self) -> bool:
        return self._folder.is_dir()

    @property
    def last(self) -> int:
        """The number of the last micro-batch that counts, -1: there is none."""
        return max([self.entered, *self._notes()])

    @property
    def entered(self) -> int:
        """That of the last one that readers know of."""
        return max(self._entries(), default=-1)

    def has(self, batch: int, plan: str = "") -> bool:
        """Return True if the micro-batch counts, and was planned so. CepError: it does, and it was planned otherwise,
        or that is not known any more."""
        if self.last < batch:
            return False
        if self._note(batch).get("plan") != plan:
            message = f"--checkpoint: micro-batch {batch} is in the log of {self.files}, and took other input then"
            raise CepError(message, hint=BACK, code="checkpoint")
        return True

    def coming(self, name: str) -> Path:
        """The path at which a file of this name is written before it counts: no pattern of a reader matches it
        there."""
        return self._folder / COMING / f"{name.replace('/', '.')}.new"

    def lines(self) -> Iterator[str]:
        """A line of JSON for each file that counts, the oldest first. CepError: an entry is damaged, or missing."""
        entries = self._entries()
        whole = max((number for number, name in entries.items() if name.endswith(".compact")), default=0)
        for number in range(whole, max(entries, default=-1) + 1):
            if number not in entries:
                raise damaged_file(self._folder / str(number), "--output", "is missing, an entry of the log")
            yield from entry(self._folder / entries[number])

    def written(self, batch: int) -> list[str]:
        """The names of the files of one of the last micro-batches."""
        return [file_name(line) for line in self._note(batch).get("lines", ())]

    def leaving(self) -> list[str]:
        """The names of the files that were dropped from the log last."""
        path = self._folder / LEAVING
        return _proven(path, path.read_bytes()).decode().splitlines() if path.exists() else []

    def totals(self) -> Counter[str]:
        """How many rows of each event were written, including those in files that were removed."""
        return Counter(self._note(self.last).get("rows"))

    def add(
        self, batch: int, files: Sequence[OutputFile], keep: int | None = None, passing: bool = False, plan: str = ""
    ) -> None:
        """Add the files of the next micro-batch. `plan`: a hash of its plan. `keep`: with compact entries, files whose
        last event ends more than so many microseconds before the last of all are dropped from the log, and removed with
        the compact entry after that. `passing`: the reader removes files, which are then dropped as well. CepError: it
        is not the next micro-batch, or a file is missing: then the micro-batch does not count, and is repeated."""
        if batch != self.last + 1:
            message = f"--output: {self.files} has micro-batches until {self.last}, and the next one is {batch}"
            raise CepError(message, hint=BACK, code="checkpoint")
        for one in files:
            at = self.coming(str(Path(one.path).relative_to(self.files)))
            if not at.exists() or at.stat().st_size != one.size:
                message = f"--output: {at} is missing or cut short, though a task has just written it"
                hint = "nothing but this command is to remove files there"
                raise CepError(message, hint=hint, code="failed")
        self._folder.mkdir(parents=True, exist_ok=True)
        if batch == 0:
            put(self._folder / RUN, checksum.seal(uuid4().hex.encode()))
        totals = self.totals()
        for one in files:
            totals.update(one.rows)
        note = {"plan": plan, "rows": totals, "lines": [one.line(batch, self._below(one)) for one in files]}
        name = f"{NOTE}.{batch}"
        put(self._folder / name, checksum.seal(json.dumps(note).encode(), of=_of(self._folder / name)))
        sync_names(self._folder)
        self.settle(keep, passing)

    def settle(self, keep: int | None = None, passing: bool = False) -> None:
        """Give the files that count their names, and the last micro-batch its entry, if it has none yet; remove what
        does not count. Not while tasks write. CepError: a file is missing."""
        for batch in range(self.entered + 1, self.last + 1):
            new = self._note(batch)["lines"]
            for name in map(file_name, new):
                self._name(name)
            self._enter(batch, new, keep, passing)
            (self._folder / f"{NOTE}.{batch - NOTES}").unlink(missing_ok=True)
        if (coming := self._folder / COMING).is_dir():
            for path in coming.iterdir():
                path.unlink(missing_ok=True)

    def _below(self, one: OutputFile) -> str | None:
        name = quote(str(Path(one.path).relative_to(self.files)))
        return None if self.address is None else f"{self.address}/{name}"

    def _name(self, name: str) -> None:
        path = self.files / name
        path.parent.mkdir(exist_ok=True)
        try:
            self.coming(name).replace(path)
        except FileNotFoundError:
            if not path.exists():
                raise CepError(f"--output: {path} is missing, though it counts", hint=BACK, code="checkpoint") from None

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
        """Remove entries that the last one repeats. Those since the compact entry before stay for readers that are at
        them, and so do two compact ones, whose distance Spark goes by; here it may get longer."""
        entries = self._entries()
        whole = {number for number, name in entries.items() if name.endswith(".compact")}
        wider = way * 2 <= WIDEST and lines > LONG * way and not (batch + 1) % (way * 2)
        if wider and batch - way * 2 in whole:
            (self._folder / entries[batch - way]).unlink(missing_ok=True)
        for number, name in entries.items():
            if number < batch - way * (2 if number in whole else 1):
                (self._folder / name).unlink(missing_ok=True)

    def _distance(self) -> int:
        """Return the number of micro-batches between two compact entries."""
        whole = sorted(number for number, name in self._entries().items() if name.endswith(".compact"))
        return COMPACTED if len(whole) < 2 else whole[-1] - whole[-2]

    def _entries(self) -> dict[int, str]:
        """The names of entries by the numbers of their micro-batches."""
        if not self.there:
            return {}
        names = [file.name for file in self._folder.iterdir()]
        stems = [(name.removesuffix(".compact"), name) for name in names]
        return {int(stem): name for stem, name in stems if stem.isdecimal()}

    def _notes(self) -> list[int]:
        """The numbers of the micro-batches that have notes."""
        return [int(file.suffix[1:]) for file in self._folder.glob(f"{NOTE}.*")]

    def _note(self, batch: int) -> dict[str, Any]:
        path = self._folder / f"{NOTE}.{batch}"
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # nothing yet, or long ago
            return {}
        try:
            found: dict[str, Any] = json.loads(_proven(path, data))
        except ValueError:
            raise damaged_file(path, "--output") from None
        return found

    def _put(self, name: str, lines: Sequence[str]) -> None:
        text = b"\n".join([_FORM, *(line.encode() for line in lines)])
        put(self._folder / name, checksum.Chain(_of(self._folder / name)).add(text) if lines else _NONE)

    @property
    def _folder(self) -> Path:
        return self.files / SINK_LOG


def parted(lines: Sequence[str], keep: int | None) -> tuple[list[str], list[str]]:
    """The lines that stay, and the names of the files that do not. A file without a last end stays."""
    if keep is None:
        return list(lines), []
    ends = [None if (found := _LATEST.search(line)) is None else int(found[1]) for line in lines]
    since = max((end for end in ends if end is not None), default=0) - keep
    stays = [end is None or end >= since for end in ends]
    staying = [line for line, stay in zip(lines, stays, strict=True) if stay]
    return staying, [file_name(line) for line, stay in zip(lines, stays, strict=True) if not stay]


def file_name(line: str) -> str:
    """The name of the file of a line in its folder, wherever the folder was when the line was written."""
    _, above, name = unquote(json.loads(line)["path"]).rsplit("/", 2)
    return f"{above}/{name}" if above.startswith(_TYPE) else name


def batch_of(line: str) -> int:
    """The number of the micro-batch of a line."""
    return int(json.loads(line)["batch"])


def entry(path: Path) -> list[str]:
    """The lines of an entry of the log, one for each file. CepError: it is damaged. FileNotFoundError: it is gone."""
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
    """The input of the hash of a file of ours in the log's folder besides its content."""
    run = path.with_name(RUN)
    try:
        return bytes(checksum.content(run.read_bytes())) + path.name.encode()
    except (FileNotFoundError, checksum.Broken):
        raise damaged_file(run, "--output") from None


def intact(path: Path, line: str) -> bool:
    """Return True if a file holds what its line in the log says."""
    return bool(json.loads(line)["content"] == content_hash(path))


def content_hash(path: Path) -> str:
    """The hash of the content of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=checksum.SIZE)).hexdigest()


def _proven(path: Path, data: bytes) -> bytes:
    """The content of a file of ours in the log's folder. CepError: it is damaged."""
    try:
        return bytes(checksum.content(data, _of(path)))
    except checksum.Broken:
        raise damaged_file(path, "--output") from None
