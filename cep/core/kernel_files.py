"""The files of a kernel: numba's index of signatures, and the compiled code of each signature.

Any number of processes may read and write these files, and each process may end at any moment. Therefore a file of
compiled code is complete before the index names it. The file's name is a hash of the signature's key, because numba's
own numbers collide between processes. The file begins with a checksum, and a damaged file counts as missing.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import pickle
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile
from numba.core.environment import Environment, lookup_environment

from cep.core.checksum import content, seal


class KernelFile(IndexDataCacheFile):
    """The index and the compiled code of one kernel."""

    @property
    def folder(self) -> str:
        """The folder that contains these files."""
        return str(self._cache_path)

    def save(self, key: Any, data: Any) -> None:
        """Store the compiled code for a key. Raises OSError if a file cannot be written."""
        kept = self.index()
        name = self._data_name_of(key)
        if not kept:  # the existing files were compiled from other sources
            for old in glob.glob(glob.escape(self._index_path.removesuffix(".nbi")) + ".*.nbc"):
                with suppress(OSError):
                    os.unlink(old)
        self._save_data(name, data)
        self._save_index({**kept, key: name})  # type: ignore[no-untyped-call]

    def load(self, key: Any) -> Any:
        """Return the compiled code for a key, or None if it is missing or damaged."""
        with suppress(Exception):  # unpickling a damaged file may raise any exception
            name = self.index().get(key)
            return None if name is None else self._load_data(name)
        return None

    def index(self) -> dict[Any, str]:
        """Return the file name for each key. The result is empty if the index is missing or damaged, or if it belongs
        to other sources or another version of numba."""
        with suppress(Exception):
            kept: dict[Any, str] = super()._load_index()  # type: ignore[no-untyped-call]
            return kept
        return {}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other process compiles this kernel. Make other processes wait during the block."""
        with ExitStack() as held:
            with suppress(OSError):  # if the folder is read-only, no process waits
                file = held.enter_context(open(self._index_path.removesuffix("nbi") + "lock", "w"))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _data_name_of(self, key: Any) -> str:
        digest = hashlib.blake2b(repr((self._source_stamp, key)).encode(), digest_size=8).digest()
        name: str = self._data_name(int.from_bytes(digest))  # type: ignore[no-untyped-call]
        return name

    def _load_data(self, name: str) -> Any:
        return _Unpickler(BytesIO(content(Path(self._data_path(name)).read_bytes()))).load()  # type: ignore[no-untyped-call]

    def _save_data(self, name: str, data: Any) -> None:
        with self._open_for_write(self._data_path(name)) as file:  # type: ignore[no-untyped-call]
            file.write(seal(self._dump(data)))  # type: ignore[no-untyped-call]


class _Unpickler(pickle.Unpickler):
    """An unpickler of compiled code that does not import the modules of numba that define its helper functions.
    Importing them takes longer than loading most kernels."""

    def find_class(self, module: str, name: str) -> Any:
        return _environment if name == "_rebuild_env" else super().find_class(module, name)


def _environment(module: str, constants: list[Any], name: str) -> Any:
    environment: Any = lookup_environment(name)  # type: ignore[no-untyped-call]
    if environment is None:
        environment = Environment({"__name__": module})
        environment.consts[:] = constants
        environment.env_name = name
        Environment._memo[name] = environment
    return environment
