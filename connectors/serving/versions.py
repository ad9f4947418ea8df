"""The versions of a program that a server has run: their texts, authors, and times from which they are valid."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from cep.connectors.input_history import read_records
from cep.core.durable_files import sync_names, write_whole
from cep.core.errors import CepError
from cep.core.private_files import private_folder

FILES = "the files"
"""The name that is stored as the author of a version if someone has changed the program's files on disk."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a program.

    - `texts`: the text of each file, by name.
    - `time`: the wall-clock time at which the version started.
    - `files`: the hash of the files on disk at the start.
    - `watermark`: the time after which the version derives all events, or None if it derives all events.
    - `since`: the time from which the new and changed rules have read the input, or None if they have only read input
      that arrived after the start.
    - `cuts`: for some fluents, and for some alerts on fluents, the time before which their intervals are cut off.
    - `restores`: the number of the earlier version that has the same texts, or None.
    """

    number: int
    texts: Mapping[str, str]
    author: str
    time: str
    files: str
    watermark: int | None = None
    since: int | None = None
    cuts: Mapping[str, int] = field(default_factory=dict)
    restores: int | None = None


def files_hash(texts: Mapping[str, str]) -> str:
    """Return a hash of all files. `texts`: the text of each file, by name."""
    return sha256(json.dumps(sorted(texts.items())).encode()).hexdigest()


class Versions:
    """The versions in a folder, numbered from 1. Each version is stored in its own file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        private_folder(folder)

    def numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdecimal())

    def read(self, number: int) -> Version | None:
        """Return the version with this number, or None if there is none. Raises CepError if its file is damaged."""
        path = self._folder / f"{number}.json"
        try:
            document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return Version(**document)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            hint = "restore the file from a backup, or remove it to use the files of the program"
            raise CepError(f"--state: {path}: the file is damaged", hint=hint, code="state") from None

    def write(self, version: Version) -> None:
        """Write a version to its file, and flush the file to disk. Raises OSError if this is not possible."""
        text = json.dumps(asdict(version), ensure_ascii=False, indent=1)
        write_whole(self._folder / f"{version.number}.json", text.encode())
        sync_names(self._folder)

    def remove(self, number: int) -> None:
        """Delete the version with this number, because it did not start."""
        (self._folder / f"{number}.json").unlink(missing_ok=True)


def running_version(folder: Path, snapshot_name: str) -> int | None:
    """Return the number of the version that runs after a snapshot. The journal that continues the snapshot contains
    this number. Return None if no journal continues the snapshot."""
    for path in (folder / "journal", folder / "journal.part"):
        _, records, _ = read_records(path)
        if records and records[0][0].get("follows") == snapshot_name:
            number = records[0][0]["version"]
            assert isinstance(number, int)
            return number
    return None
