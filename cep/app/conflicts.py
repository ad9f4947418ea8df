"""Prevent commands from overwriting their own input.

The tables below list which command parameters name files to read, and which name files to write.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from cep.app.durations import refuse
from cep.connectors.addresses import address, live
from cep.connectors.inputs import known_format
from cep.connectors.tables.names import is_table, table_name
from cep.core.errors import CepError
from cep.core.storage.urls import is_url, local_path, url

READ: Mapping[str, str] = {
    "rules": "the program",
    "programs": "a program",
    "paths": "a test file",
    "inputs": "an input",
    "file": "the records",
    "facts": "a table of facts",
    "params": "the file of parameters",
    "knowledge": "knowledge",
    "files": "knowledge",
    "updates": "a file of changes of the knowledge",
    "shapes": "a file of shapes",
    "token_file": "the file of tokens",
    "maintenance": "the calendar of maintenance windows",
    "routes": "the file of routes",
    "shadow": "the shadow program",
    "sparql": "the query",
    "labels": "the file of labels",
}
"""The command parameters that name input, each mapped to the name of that input in messages."""
WRITTEN: Mapping[str, str] = {
    "output": "--output",
    "dead_letter": "--dead-letter",
    "state": "--state",
    "checkpoint": "--checkpoint",
    "picture": "--picture",
    "chart": "--map",
    "compact": "--compact",
    "junit": "--junit",
    "coverage_page": "--coverage-page",
}
"""The command parameters that name output, each mapped to its option."""

_SECRETS = ("ca", "cert", "key")  # options of addresses that name files
_OWN = ("--state", "--checkpoint")  # folders in which a run removes unknown files
_HINT = "name another file"

Identity = tuple[int, int] | str
"""The identity of a file: its device and inode if it exists, otherwise its path with all links resolved."""


class OutputGuard:
    """A guard that prevents a command from overwriting its input.

    - `read`: the input, as pairs (name in messages, path).
    - `spark`: True if the outputs are folders.
    """

    def __init__(self, read: Iterable[tuple[str, str]], spark: bool = False) -> None:
        self._read = [(what, path) for what, text in read for path in _paths(text)]
        self._spark = spark
        self._written: list[tuple[str, str]] = []

    @classmethod
    def of(cls, parameters: Mapping[str, Any], also: Iterable[tuple[str, str]] = ()) -> OutputGuard:
        """Create a guard from the parameters of a command, and check all outputs that the parameters name.

        `also`: further input. Raises CepError if an output would overwrite an input or another output.
        """
        read = [(what, text) for name, what in READ.items() for text in _texts(parameters.get(name))]
        guard = cls([*read, *also], parameters.get("on") == "spark")
        for name, option in WRITTEN.items():
            for path in _texts(parameters.get(name)):
                guard.write(option, path)
        return guard

    def write(self, option: str, path: str) -> None:
        """Check an output file or folder before it is opened for writing.

        Raises CepError if the path is an input, is a folder that contains an input, or is the output of another option.
        """
        if live(path):
            return
        if is_table(path):
            table = table_name(path)
            if table.kind != "delta":
                return
            path = table.place
        path = local_path(path)
        if is_url(path):
            self._write_stored(option, str(url(path)))
            return
        identity = _standard(1) if path == "-" else _identity(path)
        if identity is None:
            return
        shown = "standard output" if path == "-" else f"`{path}`"
        for other, before in self._written:
            if other != option and (_standard(1) if before == "-" else _identity(before)) == identity:
                raise refuse(f"{option}: {shown} is the file of {other} as well", _HINT)
        self._written.append((option, path))
        if isinstance(identity, tuple) and (what := self._is(identity)) is not None:
            raise refuse(f"{option}: {shown} is {what} as well", _HINT)
        if path == "-":
            return
        self._beside(option, path)
        if os.path.isdir(path):
            if (conflict := self._conflict(identity, option)) is not None:
                raise refuse(
                    f"{option}: the folder {shown} holds `{conflict[1]}`, which is {conflict[0]}", "name another one"
                )
        elif (place := self._read_with(path)) is not None:
            raise refuse(f"{option}: {shown} would be {place[0]} as well, by `{place[1]}`", _HINT)

    def _write_stored(self, option: str, path: str) -> None:
        """Check an output whose address is not on a local disk."""
        if (
            other := next((other for other, written in self._written if other != option and written == path), None)
        ) is not None:
            raise refuse(f"{option}: `{path}` is the file of {other} as well", _HINT)
        self._written.append((option, path))
        folder, _, name = path.rpartition("/")
        for what, source in self._read:
            if source == path:
                raise refuse(f"{option}: `{path}` is {what} as well", _HINT)
            reads = what == READ["inputs"] and is_url(source) and known_format(name)
            if reads and (source.rstrip("/") == folder or fnmatch.fnmatchcase(path, source)):
                raise refuse(f"{option}: `{path}` would be {what} as well, by `{source}`", _HINT)

    def _beside(self, option: str, path: str) -> None:
        """Raise CepError if an output is inside the state folder or checkpoint folder of another option."""
        for other, before in self._written:
            for inner, written, outer, folder in ((option, path, other, before), (other, before, option, path)):
                if other != option and outer in _OWN and written != "-" and _identity(folder) in _above(written):
                    raise refuse(f"{inner}: `{written}` lies in the folder of {outer}, `{folder}`", _HINT)

    def _is(self, wanted: tuple[int, int]) -> str | None:
        """Return the input that is or contains the file or folder `wanted`, by its name in messages. Returns None if
        there is no such input."""
        for what, path in self._read:
            if _identity(path) == wanted:
                return what
            if os.path.isdir(path):
                with os.scandir(path) as listed:
                    near = [file for file in listed if file.inode() == wanted[1] or file.is_symlink()]
                if any(_identity(file.path) == wanted for file in near):
                    return what
        return None

    def _conflict(self, folder: Identity, option: str) -> tuple[str, str] | None:
        """Return an input file that is directly inside a folder, as (name in messages, path), or None if there is none.

        If the folder is the output of a Spark job, or belongs to a run like `--state`, any input at any depth counts.
        """
        deep = self._spark or option in _OWN
        for what, path in self._read:
            above = os.path.dirname(os.path.realpath(path))
            while path != "-" and (deep or what == READ["inputs"]):
                if _identity(above) == folder:
                    return what, path
                if not deep or above == (above := os.path.dirname(above)):
                    break
        return None

    def _read_with(self, path: str) -> tuple[str, str] | None:
        """Return the input folder or pattern that would include a new file at `path` in the next run.

        The result is (name in messages, folder or pattern), or None if no input would include the file.
        """
        name, above = os.path.basename(path), _identity(os.path.dirname(os.path.abspath(path)))
        for what, source in self._read:
            if what != READ["inputs"]:
                continue
            if os.path.isdir(source):
                if known_format(name) and _identity(source) == above:
                    return what, source
            elif glob.has_magic(source) and not os.path.exists(source) and _matches(path, source):
                return what, source
        return None


def _above(path: str) -> Iterator[Identity | None]:
    folder, above = os.path.realpath(path), os.path.dirname(os.path.realpath(path))
    while above != folder:
        yield _identity(above)
        folder, above = above, os.path.dirname(above)


def _matches(path: str, pattern: str) -> bool:
    """Return True if a pattern would match a file that does not exist yet. `**` matches any number of folders."""
    parts = os.path.abspath(pattern).split(os.sep)
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    start = os.path.realpath(os.sep.join(parts[:fixed]) or os.sep)
    resolved = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    if os.path.commonpath((start, resolved)) != start:
        return False

    def fits(names: list[str], wanted: list[str]) -> bool:
        if not names or not wanted:
            return not names and not any(part != "**" for part in wanted)
        if wanted[0] == "**":
            return fits(names, wanted[1:]) or fits(names[1:], wanted)
        return fnmatch.fnmatch(names[0], wanted[0]) and fits(names[1:], wanted[1:])

    return fits(os.path.relpath(resolved, start).split(os.sep), parts[fixed:])


def _texts(value: Any) -> list[str]:
    many = value if isinstance(value, list | tuple) else [value]
    return [str(path) for path in many if isinstance(path, str | os.PathLike)]


def _paths(text: str) -> Iterator[str]:
    """Yield the files and folders that the value of a parameter may name.

    These are the value itself, the part after `name=`, the part after `@`, and the files that match the value as a
    pattern. If the value is the address of a live input, they are the files in the address's options.
    """
    for path in map(local_path, dict.fromkeys((text, text.partition("=")[2], text.removeprefix("@")))):
        if live(path):
            with suppress(CepError):  # reported when it is opened
                options = address(path).options
                yield from (options[name] for name in _SECRETS if name in options)
        elif is_url(path):
            yield str(url(path))
        elif path == "-" or (path and os.path.exists(path)):
            yield path
        elif glob.has_magic(path):
            yield path
            yield from glob.iglob(path, recursive=True)


def _identity(path: str) -> Identity | None:
    """Return the identity of the file at a path. Returns None for a device or pipe."""
    if path == "-":
        return _standard(0)
    try:
        return _numbers(os.stat(path))
    except (OSError, ValueError):
        return os.path.realpath(path)


def _standard(descriptor: int) -> Identity | None:
    """Return the identity of the file to which standard input (0) or standard output (1) is connected. Returns None if
    it is not connected to a file."""
    stream = sys.stdout if descriptor else sys.stdin
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return _numbers(status) if stat.S_ISREG(status.st_mode) else None


def _numbers(status: os.stat_result) -> tuple[int, int] | None:
    regular = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_dev, status.st_ino) if regular else None
