"""The versions of a program that a server has run: their texts, their authors, and from when on they apply."""

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
"""The author of edits in the program's files."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a program.

    `texts`: by the names of its files; `author`; `time`: when it started, by the clock; `files`: the hash of the files
    at that time.
    `watermark`: this version derives everything that ends later, None: everything. `since`: the new and changed rules
    have seen the input from then on, None: they have seen none. `cuts`: the earliest time of fluents, and of tables of
    alerts.
    `restores`: the version whose texts it repeats, None: they are new.
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
    """Return a hash of the texts of files."""
    return sha256(json.dumps(sorted(texts.items())).encode()).hexdigest()


class Versions:
    """The versions in a folder, numbered from 1, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        private_folder(folder)

    def numbers(self) -> list[int]:
        """The numbers of all versions."""
        return sorted(int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdecimal())

    def read(self, number: int) -> Version | None:
        """Return a version, None if it does not exist. CepError: its file is damaged."""
        path = self._folder / f"{number}.json"
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return Version(**found)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            hint = "bring it back from a copy, or remove it: then the files of the program count"
            raise CepError(f"--state: {path}: it is damaged", hint=hint, code="state") from None

    def write(self, version: Version) -> None:
        """Write a version; it survives a crash of the machine. OSError: it cannot be written."""
        text = json.dumps(asdict(version), ensure_ascii=False, indent=1)
        write_whole(self._folder / f"{version.number}.json", text.encode())
        sync_names(self._folder)

    def remove(self, number: int) -> None:
        """Remove a version that did not start."""
        (self._folder / f"{number}.json").unlink(missing_ok=True)


def running_version(folder: Path, snapshot_name: str) -> int | None:
    """Return the number of the version to which a snapshot belongs; None: there is no journal of it."""
    for path in (folder / "journal", folder / "journal.part"):
        _, records, _ = read_records(path)
        if records and records[0][0].get("follows") == snapshot_name:
            number = records[0][0]["version"]
            assert isinstance(number, int)
            return number
    return None
