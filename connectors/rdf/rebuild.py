"""Rebuild of a store: the quads that remain in it are loaded into a new store, which replaces the old one.

Oxigraph never deletes a text, such as the IRI of an event, from its files. RocksDB keeps an index of these texts in
memory. When most quads have been removed, a fork of the store's process dumps the remaining quads. Another process
loads the dump at low priority. Meanwhile the old store remains in use. Its changes are logged, and applied to the new
store after loading. The dump may contain some of these changes already. Applying them again does no harm, because only
the last logged change of a quad determines whether the quad exists.

Until the new store has replaced the old one, there are further entries beside the folder `events`. These are
`events.new` with `events.new.hashes`, the dump `events.new.quads`, and the log `events.new.changes`. When the new store
is complete, there is also `events.old`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import groupby, islice, takewhile
from pathlib import Path
from shutil import disk_usage, rmtree

import pyoxigraph as ox

from cep.connectors.rdf.quad_writer import QuadWriter
from cep.connectors.rdf.query_process import end_with
from cep.connectors.rdf.store_files import StoreFiles
from cep.core.durable_files import sync_names

_REMOVED = 250_000  # the removed quads for which a rebuild pays; in a large store, three times the rest
_NICENESS = 10  # with a lower priority it would never finish on a busy machine
_FEW = 1 << 18  # bytes of changes that may be left to apply while writers are blocked
_MANY = 1 << 26  # with this many bytes of changes, and more than the dump, writers wait for loading
_LINES = 10_000  # lines of changes that are applied together
_LEFT = 1 << 28  # bytes to leave free on the disk


class Rebuild:
    """A rebuild of the store at `path`. As soon as this object exists, the caller must write all changes to `log`.

    Raise OSError if there is not enough disk space.
    """

    def __init__(self, path: str) -> None:
        self._path, self._new, self.dump = Path(path), Path(f"{path}.new"), Path(f"{path}.new.quads")
        size = 0
        for file in self._path.iterdir():
            with suppress(FileNotFoundError):  # it was merged into another
                size += file.stat().st_size
        if disk_usage(self._path).free < 2 * size + _LEFT:
            raise OSError("too little room for two stores")
        discard(path)
        self.log = _changes(path).open("wb")
        self._applied = self._dumped = 0
        self._over = threading.Event()

    def load(self) -> None:
        """Load the dump, and the changes logged so far, into the new store. Other threads may log further changes.

        Loading runs in another process. Raise CalledProcessError if this process fails.
        """
        self._dumped = self.dump.stat().st_size
        command = [sys.executable, "-P", "-m", "cep.connectors.rdf.rebuild", str(self._path), str(os.getpid())]
        process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        self._applied = int(process.stdout)

    def end(self) -> None:
        """Record that loading has ended or failed, so that `keep_pace` no longer waits."""
        self._over.set()

    def keep_pace(self) -> None:
        """Wait until loading has ended, if changes are written faster than they can be loaded."""
        if self.log.tell() > max(_MANY, self._dumped):
            self._over.wait()

    def complete(self) -> None:
        """Apply the remaining changes. The new store is on disk when this function returns.

        Raise OSError if the log could not be written.
        """
        self.log.close()
        files = StoreFiles(str(self._new))
        writer = QuadWriter(ox.Store(self._new), files)
        _apply(writer, _changes(self._path), self._applied)
        writer.flush()
        del writer  # close it
        files.note()  # record files that were merged meanwhile
        _sync(self._new)


def worthwhile(left: int = 0) -> int:
    """Return the minimum number of removed quads for which a rebuild is worthwhile, if `left` quads remain."""
    return max(_REMOVED, 3 * left - 2 * _REMOVED)


def swap(path: str) -> None:
    """Replace the old store by the new one. Both must be closed, and the new one must be complete."""
    sync_names(Path(path).parent)
    os.rename(path, f"{path}.old")
    _put_in_place(path)


def recover(path: str) -> None:
    """Finish or undo a rebuild that an earlier process left incomplete."""
    if os.path.exists(f"{path}.old") and os.path.exists(f"{path}.new") and not os.path.exists(path):
        _put_in_place(path)
    discard(path)


def discard(path: str) -> None:
    for folder in (f"{path}.new", f"{path}.old"):
        rmtree(folder, ignore_errors=True)
    for file in (f"{path}.new.hashes", f"{path}.new.quads", _changes(path)):
        Path(file).unlink(missing_ok=True)


def _put_in_place(path: str) -> None:
    """Rename the new store's file of hashes, and then its folder, which is the last step of a rebuild."""
    folder = Path(path).parent
    sync_names(folder)
    if os.path.exists(f"{path}.new.hashes"):  # otherwise they were renamed before a crash
        os.replace(f"{path}.new.hashes", f"{path}.hashes")
        sync_names(folder)
    os.rename(f"{path}.new", path)
    sync_names(folder)


def _changes(path: Path | str) -> Path:
    return Path(f"{path}.new.changes")


def _sync(folder: Path) -> None:
    for file in (*folder.iterdir(), Path(f"{folder}.hashes")):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_names(folder)


def _apply(writer: QuadWriter, changes: Path, place: int) -> int:
    with changes.open("rb") as file:
        file.seek(place)
        whole = takewhile(lambda line: line.endswith(b"\n"), file)
        for sign, lines in groupby(whole, lambda line: line[:1]):
            while some := list(islice(lines, _LINES)):
                quads = ox.parse(b"".join(line[1:] for line in some), ox.RdfFormat.N_QUADS, lenient=True)
                writer.add(quads) if sign == b"+" else writer.remove(list(quads))
                place += sum(map(len, some))
    return place


def main(path: str, parent: str) -> None:
    """Load the dump and the logged changes of the store at `path` into the new store.

    Print the number of bytes of the log that were applied. `parent`: the id of the process that started this one.
    """
    end_with(int(parent))
    os.nice(_NICENESS)
    print(_load(path))


def _load(path: str) -> int:
    """Load the dump and the logged changes into the new store. Return the number of applied bytes of the log."""
    new, dump = Path(f"{path}.new"), Path(f"{path}.new.quads")
    files = StoreFiles(str(new))
    writer = QuadWriter(ox.Store(new), files)
    writer.add(ox.parse(path=dump, format=ox.RdfFormat.N_QUADS, lenient=True))
    dump.unlink()
    before, place = 0, _apply(writer, _changes(path), 0)
    while place - before > _FEW:
        before, place = place, _apply(writer, _changes(path), place)
    files.removed = 0  # the new files contain no removed quads
    writer.flush()
    del writer  # close it: an open store merges and removes files
    _sync(new)
    return place


if __name__ == "__main__":
    main(*sys.argv[1:])
