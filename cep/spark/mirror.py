"""A checkpoint and its output in an object store. A run works in local folders, and uploads each micro-batch's changes.

The changed files of a micro-batch become one object, called a pack. Then a numbered manifest is created, which records
the place of each file in its pack. Manifests are never replaced. So a micro-batch is committed as a whole. If two runs
continue from the same manifest, the second one fails.

A pack also contains output files and dead letters. They are copied to their own addresses once the manifest exists. If
the run is killed before they are copied, the next run copies them.

A run begins by downloading the files of the last manifest to new folders. If workers share no folder (`apart`), they
read and write the states themselves (see `cep.spark.worker_dir`), and the local folders contain no states. The manifest
then records where tasks have stored states, output and dead letters.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from cep.core import checksum
from cep.core.errors import CepError
from cep.core.storage import files, objects
from cep.core.storage.creation import KINDS, check_creating, create, remove
from cep.core.storage.failures import StorageError
from cep.core.storage.urls import joined, url
from cep.spark.disk import CHECKPOINT, HANDED, LOCK, SINK_LOG, SPARK_LOG, STOP, TURN
from cep.spark.packs import Packed, Packs, damaged, storing
from cep.spark.sink.commit_log import COMING
from cep.spark.state.bucket_states import state_of
from cep.spark.state.checkpoint import CheckpointInfo

MANIFESTS, PACKS = "manifests", "packs"
"""The names of the folders of manifests and packs, at the address of the checkpoint."""

KEPT = 2
"""The number of manifests that are kept. A run that still reads the last but one must be able to finish."""

STATE, OUTPUT, DEAD = "checkpoint", "output", "dead"
"""The names of the local folders."""

_LOG = f"{OUTPUT}/{SINK_LOG}/"
_STATES = re.compile(rf"{STATE}/[^/]+/w?\d+-\d{{4}}-\d{{8}}(-[0-9a-f]+)?")
"""A pattern of the names of state files (`cep.spark.state.bucket_states`, `cep.spark.state.segment_files`)."""

_OWN = {HANDED, LOCK, TURN, STOP, SPARK_LOG, f"{SPARK_LOG}.1"}
"""Files of the checkpoint that are never uploaded, because they are only useful on this machine."""

Mark = tuple[int, int, int]
"""The inode, size and change time of a file. If they stay the same, the file has not changed."""


class Mirror:
    """Local folders that are copies of a checkpoint, its output and its dead letters in an object store.

    - `root`: an existing, empty local folder.
    - `checkpoint`, `output`, `dead`: addresses in the object store. If `dead` is None, dead letters are written
      elsewhere or dropped.
    - `apart`: True if workers share no folder.
    """

    def __init__(self, root: Path, checkpoint: str, output: str, dead: str | None = None, apart: bool = False) -> None:
        """Download the files of the last manifest.

        Raises CepError if an address cannot be read or contains files that do not belong to a checkpoint, or if another
        run continues meanwhile.
        """
        self.root, self.run, self.apart = root, uuid4().hex, apart
        self.packs = Packs(joined(checkpoint.rstrip("/"), PACKS))
        self.places = {STATE: checkpoint.rstrip("/"), OUTPUT: output.rstrip("/")}
        if dead is not None:
            self.places[DEAD] = dead.rstrip("/")
        self.number = -1
        self._files: dict[str, Packed] = {}
        self._marks: dict[str, Mark] = {}
        self._packs: list[set[str]] = []
        self._away: dict[str, Packed] = {}
        self._coming: dict[str, Packed] = {}
        self._put: dict[str, Packed] = {}
        self._told: dict[str, str] = {}
        check_creating(checkpoint)
        with self.naming(), self._exchanging("option"):
            self._restore()

    def folder(self, name: str) -> Path:
        """Return the path of a local folder. `name`: `STATE`, `OUTPUT` or `DEAD`."""
        return self.root / name

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Replace local folders by addresses of the object store in the messages of errors inside a `with` block."""
        try:
            yield
        except CepError as error:
            message, hint = self.named(error.message), error.hint and self.named(error.hint)
            raise CepError(message, error.source, error.span, hint, error.code) from None

    def named(self, text: str) -> str:
        """Replace the paths of local folders in a text by their addresses in the object store."""
        for name, address in self.places.items():
            text = text.replace(str(self.folder(name)), address)
        return text

    def states(self, folder: Path) -> dict[str, dict[str, Packed]]:
        """Return where the state files of a local folder are stored in the object store. The first key is a bucket such
        as `1-0003`, and the second key is the name of a file."""
        by_state, below = dict[str, dict[str, Packed]](), os.path.relpath(folder, self.root)
        for name, packed in self._away.items():
            place, _, file = name.rpartition("/")
            if place == below:
                by_state.setdefault(state_of(file), {})[file] = packed
        return by_state

    def coming(
        self, folder: Path, states: Mapping[str, Mapping[str, Packed]], written: Mapping[str, Mapping[str, Packed]]
    ) -> None:
        """Record the files that tasks have uploaded, for the next manifest.

        - `states`: the state files of buckets. They replace all earlier files of the same buckets in `folder`.
        - `written`: output files and dead letters, by local folder. Each is a whole object or a part of an object.
        """
        below = os.path.relpath(folder, self.root)
        gone = {f"{below}/{bucket}" for bucket in states}
        self._coming = {
            name: packed
            for name, packed in self._away.items()
            if f"{os.path.dirname(name)}/{state_of(os.path.basename(name))}" not in gone
        }
        self._coming |= {f"{below}/{name}": packed for files in states.values() for name, packed in files.items()}
        self._put = {name: packed for name, packed in self._put.items() if name in self._files}  # not copied yet
        self._put |= {f"{place}/{name}": packed for place, files in written.items() for name, packed in files.items()}

    def ship(self) -> None:
        """Upload the local changes since the last call. Do not call this while tasks run.

        Raises CepError if the upload fails, or if another run has continued from the same manifest.
        """
        with self._exchanging():
            entries, content = dict[str, Packed](), list[bytes]()
            number, size = self.number + 1, 0
            pack = f"{number:012}-{self.run[:12]}"
            poor = self._poor()
            away = {name: packed for name, packed in self._coming.items() if (self.root / name).parent.is_dir()}
            for name, path in sorted(self._present()):
                if name in self._put:
                    continue
                try:
                    mark, known = _mark(path), self._files.get(name)
                    if known is not None and self._marks.get(name) == mark and known.pack not in poor:
                        entries[name] = known
                        continue
                    data = path.read_bytes()
                except FileNotFoundError:
                    continue
                self._marks[name] = mark
                entries[name] = Packed(pack, size, len(data), checksum.digest(data).hex())
                content.append(data)
                size += len(data)
            entries |= away
            entries |= {name: packed for name, packed in self._put.items() if self._counts(name)}
            if entries == self._files:
                if self._put and not self._overtaken():
                    self._publish()
                return
            if content:
                files.put(joined(self.places[STATE], f"{PACKS}/{pack}"), b"".join(content))
            self._enter(number, entries)
            self._away = self._coming = away
            self._publish()

    def leave_log(self) -> None:
        """Upload Spark's log, so that the user can examine a failed run. The log is not part of the checkpoint."""
        log = self.folder(STATE) / SPARK_LOG
        with suppress(StorageError, OSError):
            files.put(joined(self.places[STATE], SPARK_LOG), log.read_bytes())

    def refuse_overtaken(self) -> None:
        """Raise CepError if another run has continued from this run's last manifest."""
        with storing():
            if self._overtaken():
                raise self._taken_over()

    @contextmanager
    def _exchanging(self, code: str = "failed") -> Iterator[None]:
        """Convert errors of the object store inside a `with` block to a CepError. If another run has continued from the
        same manifest, the error reports this, because that run may have removed the files."""
        with storing(code):
            try:
                yield
            except StorageError:
                if self.number < 0 or not self._overtaken():
                    raise
                raise self._taken_over() from None

    def _overtaken(self) -> bool:
        """Return True if a later manifest exists. Only another run can have created it.

        The last manifest always exists. Earlier ones may have been removed.
        """
        return max(_numbers(self.places[STATE]), default=-1) > self.number

    def _taken_over(self) -> CepError:
        message = f"--checkpoint: another run has taken over {self.places[STATE]}"
        return CepError(message, hint="only one run at a time can use a checkpoint", code="checkpoint")

    def _enter(self, number: int, entries: Mapping[str, Packed]) -> None:
        """Create a manifest, after its pack. `entries`: the place of each file.

        Raises CepError if another run has continued from the same manifest, so that the new one is not the last.
        """
        manifest = {"run": self.run, "output": self.places[OUTPUT], "folder": str(self.folder(OUTPUT))}
        text = json.dumps(manifest | {"files": entries})
        address = _manifest(self.places[STATE], number)
        if not create(address, checksum.seal(text.encode(), of=_name(number))):
            raise self._taken_over()
        self.number = number
        # A run that is far ahead has removed the manifest of this number, so it could be created.
        self.refuse_overtaken()
        self._files = dict(entries)
        self._packs.append({packed.pack for packed in entries.values()})
        before = set[str]().union(*self._packs)
        del self._packs[:-KEPT]
        with suppress(StorageError):  # old files may stay: the next run removes them
            if number >= KEPT:
                remove(_manifest(self.places[STATE], number - KEPT))
            objects.remove([self.packs.place(pack) for pack in sorted(before.difference(*self._packs))])

    def _publish(self) -> None:
        """Copy output files and dead letters to their own addresses, then the log that commits them.

        Do not call this if another run has continued from the manifest: it has copied these files and newer ones.
        """
        log = {name: packed.digest for name, packed in self._files.items() if name.startswith(_LOG)}
        objects.at_once(self._copied, [name for name in self._put if name in self._files])
        for name in self._files:
            place, _, rest = name.partition("/")
            if place != STATE and name not in log and place in self.places and (self.root / name).exists():
                with (self.root / name).open("rb") as file:
                    files.put(joined(self.places[place], rest), file)
                (self.root / name).unlink()
        for name in sorted(log, key=lambda name: (name.removeprefix(_LOG)[:1].isdecimal(), name)):
            if self._told.get(name) != log[name]:
                data = (self.root / name).read_bytes()
                files.put(joined(self.places[OUTPUT], name.removeprefix(f"{OUTPUT}/")), data)
        for name in sorted(self._told.keys() - log.keys()):
            remove(joined(self.places[OUTPUT], name.removeprefix(f"{OUTPUT}/")))
        self._told = log

    def _copied(self, name: str) -> None:
        """Copy an output file or dead-letter file from the pack of a task to the file's own address.

        If possible, the object store copies it without a download.
        """
        place, _, rest = name.partition("/")
        packed, to = self._put[name], joined(self.places[place], rest)
        if place == OUTPUT and url(to).place == url(self.places[STATE]).place and url(to).kind in KINDS:
            objects.copy(self.packs.place(packed.pack), to)
        else:
            files.put(to, self.packs.read(packed))
        (self.root / name).unlink(missing_ok=True)
        del self._put[name]

    def _counts(self, name: str) -> bool:
        """Return True if a file that a task has uploaded is committed: a dead-letter file always is, and an output file
        is if `FileWriter.stand_in` has created a local file of the same name."""
        return not name.startswith(f"{OUTPUT}/") or (self.root / name).exists()

    def _poor(self) -> set[str]:
        """Return the packs of which less than half is in use. The files in use are uploaded again in the next pack."""
        used, sizes = Counter[str](), Counter[str]()
        for file in self._files.values():
            used[file.pack] += file.length
            sizes[file.pack] = max(sizes[file.pack], file.offset + file.length)
        return {pack for pack, size in sizes.items() if 2 * used[pack] < size}

    def _present(self) -> Iterator[tuple[str, Path]]:
        """Yield the local files to upload. Each is a pair: the path relative to `root`, and the absolute path."""
        for name in (STATE, *(place for place in self.places if place != STATE)):
            for folder, below, file_names in os.walk(self.folder(name)):
                own = os.path.relpath(folder, self.root)
                if own == STATE:
                    below[:] = [folder_name for folder_name in below if folder_name not in _OWN]
                if own == f"{OUTPUT}/{SINK_LOG}":
                    below[:] = [folder_name for folder_name in below if folder_name != COMING]
                for file_name in file_names:
                    whole = not file_name.startswith(".") or file_name.endswith(".crc")
                    if whole and not (own == STATE and file_name in _OWN):
                        yield f"{own}/{file_name}", Path(folder, file_name)

    # --- the start ---

    def _restore(self) -> None:
        checkpoint = self.places[STATE]
        for name in self.places:
            self.folder(name).mkdir()
        numbers = _numbers(checkpoint)
        if not numbers:
            self._vacant()
            return
        self.number = max(numbers)
        manifest = self._read(self.number)
        if manifest["output"] != self.places[OUTPUT]:
            message = f"--output: the checkpoint was made for {manifest['output']}, not for {self.places[OUTPUT]}"
            hint = "use the earlier output, or start anew with another --checkpoint as well"
            raise CepError(message, hint=hint, code="checkpoint")
        self._files = {name: Packed(*fields) for name, fields in manifest["files"].items()}
        self._packs = [{file.pack for file in self._files.values()}]
        if self.apart:
            self._away = {name: packed for name, packed in self._files.items() if _STATES.fullmatch(name)}
            self._coming = self._away
        self._unpack()
        self._moved(Path(manifest["folder"]))
        log = joined(self.places[OUTPUT], SINK_LOG)
        last = max((_batch(name) for name in self._files if name.startswith(_LOG)), default=-1)
        names = (entry.name for entry in files.listed(log) if not entry.folder)
        # Entries after the last one of this manifest belong to another run, which has continued meanwhile.
        self._told = {f"{_LOG}{name}": "" for name in names if _batch(name) <= last}
        if not self._overtaken():
            self._publish()
        with suppress(StorageError):  # a run that may not remove files continues
            for number in numbers:
                if number <= self.number - KEPT:
                    remove(_manifest(checkpoint, number))
            for pack in files.listed(joined(checkpoint, PACKS)):  # packs of runs that were killed or overtaken
                if pack.name not in self._packs[0] and int(pack.name.partition("-")[0]) <= self.number:
                    remove(pack.address)

    def _read(self, number: int) -> dict[str, Any]:
        address = _manifest(self.places[STATE], number)
        try:
            manifest: dict[str, Any] = json.loads(bytes(checksum.content(files.read(address), of=_name(number))))
            return manifest
        except ValueError:
            raise damaged(address) from None

    def _unpack(self) -> None:
        """Write to the local folders the files that the last manifest lists."""
        here = {name: entry for name, entry in self._files.items() if name not in self._away}
        for pack in sorted({entry.pack for entry in here.values()}):
            address = self.packs.place(pack)
            content = memoryview(files.read(address))
            for name, packed in here.items():
                if packed.pack == pack:
                    data = content[packed.offset : packed.offset + packed.length]
                    if checksum.digest(data).hex() != packed.digest:
                        raise damaged(address)
                    path = self.root / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                    self._marks[name] = _mark(path)

    def _moved(self, before: Path) -> None:
        """Replace the output folder that the checkpoint records, if it is `before`, by the current output folder."""
        file = self.folder(STATE) / CHECKPOINT
        if file.exists():
            info = CheckpointInfo.read(file)
            if info.output == str(before):
                replace(info, output=str(self.folder(OUTPUT))).write(file)

    def _vacant(self) -> None:
        for option, name, own in (("--checkpoint", STATE, {SPARK_LOG, PACKS}), ("--output", OUTPUT, set[str]())):
            if any(entry.name not in own for entry in files.listed(self.places[name])):
                message = f"{option}: {self.places[name]} is not empty, and there is no checkpoint of this command"
                raise CepError(message, hint="use an empty folder", code="checkpoint")


def spark_address(address: str) -> str:
    """Return an address in the notation of Spark and Hadoop."""
    parsed = url(address)
    return str(replace(parsed, scheme={"s3": "s3a", "gcs": "gs"}.get(parsed.scheme, parsed.scheme))).rstrip("/")


def _name(number: int) -> bytes:
    return f"{number:012}".encode()


def _batch(name: str) -> int:
    """Return the number of the micro-batch to which a file of the sink's log belongs, or -1 if there is none."""
    digits = re.search(r"[0-9]+", name.rpartition("/")[2])
    return -1 if digits is None else int(digits[0])


def _numbers(checkpoint: str) -> list[int]:
    return [int(entry.name) for entry in files.listed(joined(checkpoint, MANIFESTS)) if entry.name.isdecimal()]


def _manifest(checkpoint: str, number: int) -> str:
    return joined(checkpoint, f"{MANIFESTS}/{number:012}")


def _mark(path: Path) -> Mark:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns
