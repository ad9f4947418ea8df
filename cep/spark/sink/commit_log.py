"""The log of the sink: which files count, a micro-batch after another, name by name and line by line as Spark's own.

An entry of a micro-batch is a file of its number, `7`, or one of all until it, `9.compact`: a line `v1`, then one of
JSON for each file. Spark reads the way from one such file to the next off the last two, and expects it to stay. Ours
write `v01`, which Spark takes for the same: then the last line has a hash of the whole; and `v001` where there is none.

Files are written beside the log, under names that no reader takes for data. A micro-batch counts from when its note,
`note.7`, is on disk; then its files get their names, then it gets its entry. So whoever reads the log finds the files,
and whoever lists the folder finds none that will not count; what was killed in between, the next run ends.
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
from urllib.parse import unquote
from uuid import uuid4

from cep.core import checksum
from cep.core.errors import CepError
from cep.spark.storage.disk import BACK, damaged, put, sync, sync_names
from cep.spark.storage.layout import SINK_LOG

COMPACTED = 10
"""Each so many micro-batches all that counts is written as one file, at first."""
WIDEST = 320
"""Of a long log, each so many at most; a reader opens as many files."""
LONG = 100
"""The way is doubled where so many lines are written for each micro-batch on it."""

LEAVING = "leaving"
"""In the log's folder: the files that have been dropped from the log last, and may still be read."""
COMING = "coming"
"""In the log's folder: the files of tasks, until they count."""
NOTE = "note"
"""In the log's folder, before the number of a micro-batch: its lines, what was planned for it, and how many rows of
each event there have been until then."""
RUN = "run"
"""In the log's folder: what tells it from others."""
NOTES = 3
"""So many are kept. Spark goes back by one micro-batch."""

_BEFORE, _FORM, _NONE = b"v1", b"v01", b"v001"
_LATEST = re.compile(r'"latest":(-?\d+)')
_TYPE = "type="


@dataclass(frozen=True, slots=True)
class OutputFile:
    """`size` in bytes, `changed` in milliseconds. `rows`: how many of each event; none at all in a file that says what
    columns there are. `latest`: the last end among them; `hash`: of what it holds."""

    path: str
    size: int
    changed: int
    rows: Mapping[str, int] = field(default_factory=dict)
    latest: int | None = None
    hash: str | None = None

    @classmethod
    def of(cls, at: Path, path: Path, rows: Mapping[str, int], latest: int | None = None) -> OutputFile:
        """A file that is there, at a place of its own until it counts, from now on for good."""
        with at.open("rb+") as file:
            sync(file)
        found = at.stat()
        return cls(str(path), found.st_size, found.st_mtime_ns // 1_000_000, rows, latest, content_hash(at))

    def line(self) -> str:
        """As Spark's log has it, and the last end and the hash beside."""
        known = {"size": self.size, "isDir": False, "modificationTime": self.changed}
        rest = {"blockReplication": 1, "blockSize": 32 << 20, "action": "add"}
        ours = {"latest": self.latest, "content": self.hash}
        ours = {name: value for name, value in ours.items() if value is not None}
        return json.dumps({"path": Path(self.path).as_uri()} | known | rest | ours, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class CommitLog:
    """The log of the files in a folder, which need not be there yet."""

    files: Path

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
        """Whether the micro-batch counts, and was planned so. CepError: it does, and it was planned otherwise, or that
        is not known any more."""
        if self.last < batch:
            return False
        if self._note(batch).get("plan") != plan:
            told = f"--checkpoint: micro-batch {batch} is in the log of {self.files}, and took other input then"
            raise CepError(told, hint=BACK, code="checkpoint")
        return True

    def coming(self, name: str) -> Path:
        """Where a file is written, named as it will be in the folder: not as data are, in no reader's pattern."""
        return self._folder / COMING / f"{name.replace('/', '.')}.new"

    def lines(self) -> Iterator[str]:
        """A line of JSON for each file that counts, the oldest first. CepError: an entry is damaged, or missing."""
        entries = self._entries()
        whole = max((number for number, name in entries.items() if name.endswith(".compact")), default=0)
        for number in range(whole, max(entries, default=-1) + 1):
            if number not in entries:
                raise damaged(self._folder / str(number), "--output", "is missing, an entry of the log")
            yield from entry(self._folder / entries[number])

    def leaving(self) -> list[str]:
        """The files that have left the log last, by their places."""
        path = self._folder / LEAVING
        return _proven(path, path.read_bytes()).decode().splitlines() if path.exists() else []

    def totals(self) -> Counter[str]:
        """How many rows of each event have been written, those in files that are gone as well."""
        return Counter(self._note(self.last).get("rows"))

    def add(
        self, batch: int, files: Sequence[OutputFile], keep: int | None = None, passing: bool = False, plan: str = ""
    ) -> None:
        """The files of the next micro-batch, and what was planned for it. `keep`: from time to time, files whose last
        event ends more than so many microseconds before the last of all leave the log, and are removed the time after.
        `passing`: who takes a file removes it, and it leaves the log after that. CepError: it is not the next one, or
        a file is not there: then the micro-batch does not count, and is done again."""
        if batch != self.last + 1:
            told = f"--output: {self.files} has micro-batches until {self.last}, and the next one is {batch}"
            raise CepError(told, hint=BACK, code="checkpoint")
        for one in files:
            at = self.coming(str(Path(one.path).relative_to(self.files)))
            if not at.exists() or at.stat().st_size != one.size:
                told = f"--output: {at} is gone, or cut short, which a task has just written"
                hint = "nothing but this command is to remove files there"
                raise CepError(told, hint=hint, code="failed")
        self._folder.mkdir(parents=True, exist_ok=True)
        if batch == 0:
            put(self._folder / RUN, checksum.seal(uuid4().hex.encode()))
        totals = self.totals()
        for one in files:
            totals.update(one.rows)
        note = {"plan": plan, "rows": totals, "lines": [one.line() for one in files]}
        name = f"{NOTE}.{batch}"
        put(self._folder / name, checksum.seal(json.dumps(note).encode(), of=_of(self._folder / name)))
        sync_names(self._folder)
        self.settle(keep, passing)

    def settle(self, keep: int | None = None, passing: bool = False) -> None:
        """Give the files that count their names, and the last micro-batch its entry, where it has none yet; away with
        what does not count. Not while tasks write. CepError: a file is gone."""
        for batch in range(self.entered + 1, self.last + 1):
            new = self._note(batch)["lines"]
            for name in map(place, new):
                self._name(name)
            self._enter(batch, new, keep, passing)
            (self._folder / f"{NOTE}.{batch - NOTES}").unlink(missing_ok=True)
        if (coming := self._folder / COMING).is_dir():
            for path in coming.iterdir():
                path.unlink(missing_ok=True)

    def _name(self, name: str) -> None:
        path = self.files / name
        path.parent.mkdir(exist_ok=True)
        try:
            self.coming(name).replace(path)
        except FileNotFoundError:
            if not path.exists():
                raise CepError(f"--output: {path} is missing, which counts", hint=BACK, code="checkpoint") from None

    def _enter(self, batch: int, new: Sequence[str], keep: int | None, passing: bool) -> None:
        way = self._way()
        if (batch + 1) % way:
            self._put(str(batch), new)
            return
        kept, old = parted([*self.lines(), *new], keep)
        if passing:
            kept = [line for line in kept if (self.files / place(line)).exists()]
        gone = self.leaving()
        self._put(f"{batch}.compact", kept)
        if old or gone:
            put(self._folder / LEAVING, checksum.seal("\n".join(old).encode(), of=_of(self._folder / LEAVING)))
            still = {place(line) for line in kept} | set(old)
            for name in set(gone) - still:
                (self.files / name).unlink(missing_ok=True)
        self._forget(batch, way, len(kept))

    def _forget(self, batch: int, way: int, lines: int) -> None:
        """Away with what the last entry holds. Those on the way to it stay for readers that are at them, and whole ones
        by which the way is known; it gets longer here."""
        entries = self._entries()
        whole = {number for number, name in entries.items() if name.endswith(".compact")}
        wider = way * 2 <= WIDEST and lines > LONG * way and not (batch + 1) % (way * 2)
        if wider and batch - way * 2 in whole:
            (self._folder / entries[batch - way]).unlink(missing_ok=True)
        for number, name in entries.items():
            if number < batch - way * (2 if number in whole else 1):
                (self._folder / name).unlink(missing_ok=True)

    def _way(self) -> int:
        """How many micro-batches there are from one whole entry to the next."""
        whole = sorted(number for number, name in self._entries().items() if name.endswith(".compact"))
        return COMPACTED if len(whole) < 2 else whole[-1] - whole[-2]

    def _entries(self) -> dict[int, str]:
        """The names of entries by their micro-batches."""
        if not self.there:
            return {}
        names = [file.name for file in self._folder.iterdir()]
        stems = [(name.removesuffix(".compact"), name) for name in names]
        return {int(stem): name for stem, name in stems if stem.isdecimal()}

    def _notes(self) -> list[int]:
        """The micro-batches of which there are notes."""
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
            raise damaged(path, "--output") from None
        return found

    def _put(self, name: str, lines: Sequence[str]) -> None:
        text = b"\n".join([_FORM, *(line.encode() for line in lines)])
        put(self._folder / name, checksum.Chain(_of(self._folder / name)).add(text) if lines else _NONE)

    @property
    def _folder(self) -> Path:
        return self.files / SINK_LOG


def parted(lines: Sequence[str], keep: int | None) -> tuple[list[str], list[str]]:
    """The lines that stay, and the places of the files that do not. What does not say when it ends stays."""
    if keep is None:
        return list(lines), []
    ends = [None if (found := _LATEST.search(line)) is None else int(found[1]) for line in lines]
    since = max((end for end in ends if end is not None), default=0) - keep
    stays = [end is None or end >= since for end in ends]
    kept = [line for line, stay in zip(lines, stays, strict=True) if stay]
    return kept, [place(line) for line, stay in zip(lines, stays, strict=True) if not stay]


def place(line: str) -> str:
    """Where the file of a line stands in the folder, wherever that was when it was written."""
    _, above, name = unquote(json.loads(line)["path"]).rsplit("/", 2)
    return f"{above}/{name}" if above.startswith(_TYPE) else name


def entry(path: Path) -> list[str]:
    """The lines of an entry of the log, one for each file. CepError: it is damaged. FileNotFoundError: it is gone."""
    data = path.read_bytes()
    if data == _NONE:
        return []
    form = data.partition(b"\n")[0]
    try:
        plain = checksum.Chain(_of(path)).read(data) if form == _FORM else data
        lines = plain.decode().split("\n")[1:]
        if form not in (_BEFORE, _FORM) or (form == _FORM and plain == data.removesuffix(b"\n")):
            raise damaged(path, "--output")
        if form == _BEFORE:
            for line in lines:
                place(line)
    except (ValueError, KeyError, TypeError):
        raise damaged(path, "--output") from None
    return lines


def _of(path: Path) -> bytes:
    """What a file of ours in the log's folder is sealed with."""
    run = path.with_name(RUN)
    try:
        return bytes(checksum.content(run.read_bytes())) + path.name.encode()
    except FileNotFoundError:  # of the version before
        return path.name.encode()
    except checksum.Broken:
        raise damaged(run, "--output") from None


def intact(path: Path, line: str) -> bool:
    """Whether a file holds what its line in the log says; the version before has not said it."""
    known = json.loads(line).get("content")
    return known is None or known == content_hash(path)


def content_hash(path: Path) -> str:
    """The hash of what a file holds."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=checksum.SIZE)).hexdigest()


def _proven(path: Path, data: bytes) -> bytes:
    """What a file of ours in the log's folder says. CepError: it is damaged."""
    try:
        return checksum.plain(data, _of(path))
    except checksum.Broken:
        raise damaged(path, "--output") from None
