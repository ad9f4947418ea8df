"""Kernels: compiled once, kept on disk, found again for as long as nothing has changed that they were made of.

Numba would keep them beside their sources, where `pip uninstall` leaves them, and would look only at the file that
holds a kernel. But a kernel holds those it calls, and constants of other modules. So each is kept with a hash of all of
them: in a clone still beside its source, of an installed package in the user's cache, and where there is a
`NUMBA_CACHE_DIR`, there. Numba unpickles what is kept, so a folder that others may write to is not used.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config, types
from numba.core.caching import CacheImpl, _CacheLocator

from cep.core.kernel_files import keep_whole
from cep.core.private_files import others_may_write
from cep.core.tiers import Tiered
from cep.core.user_cache import asked_cache, own_cache

unliteral: Any = types.unliteral  # numba's functions have no types of their own


def njit(linear: bool = False, **options: Any) -> Any:
    """Numba's, in two tiers (`cep.core.tiers`). `linear`: its time grows with the rows of its arrays, no faster.

    What a kernel calls is compiled once for numbers, and not again for each constant that it is called with.
    """

    def made(function: Any) -> Any:
        kernel = numba.njit(**options)(function)
        called = kernel.get_call_template
        kernel.get_call_template = lambda given, named: called(*_without_constants(given, named))
        keep_whole(kernel)
        kernel._compile_for_args = Tiered(kernel, linear)
        return kernel

    return made


def _without_constants(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The types of arguments, `int64` instead of the type of the constant 0."""
    return tuple(map(unliteral, given)), {name: unliteral(each) for name, each in named.items()}


ROOT = Path(__file__).resolve().parents[2]
"""Where our packages are."""
ORIGIN = "origin"
"""The file beside kept kernels that names the folder of their packages: when that is gone, they are of no use."""

_OURS = ("cep", "connectors", "knowledge")
_HOLDS_KERNELS = re.compile(r"\bnjit\b|^@(?:bare|inside)", re.MULTILINE)
_IMPORT = re.compile(r"^from ((?:cep|connectors|knowledge)(?:\.\w+)*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


class Locator(_CacheLocator):
    """Where the kernels of a file of ours are kept."""

    def __init__(self, module: str, folder: Path) -> None:
        self._module, self._folder = module, folder

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        """It may be written: that was seen when it was chosen."""

    def get_source_stamp(self) -> str:
        return made_of(self._module)

    def get_disambiguator(self) -> str:
        return ""  # no two kernels of a module have one name, and one that moves takes the place of itself

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Locator | None:
        """None: it is not ours, or there is no place for it; then numba looks for one. RuntimeError: others may write
        to the places that there are."""
        path = Path(py_file).resolve()
        if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in _OURS:
            return None
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        subpath: str = _CacheLocator.get_suitable_cache_subpath(str(path))  # type: ignore[no-untyped-call]
        shared = None
        with suppress(OSError):  # sources that are no files
            made_of(module)
            for place in _places(path.parent, subpath):
                with suppress(OSError):
                    if _is_own(place):
                        return cls(module, place)
                    shared = place
        if shared is not None:  # where numba would look next there might be the same
            raise RuntimeError(f"no locator available: others than you may write to {shared}")
        return None


@cache
def made_of(module: str) -> str:
    """A hash of the texts that the kernels of a module are made of: its own, those of the modules it takes kernels
    from, and so on, and those of the modules that these take constants from. Raises OSError."""
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name], imported = _read(name)
            waiting += imported
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(found):
        digest.update(f"{name} {len(found[name])} {found[name]}".encode())
    return digest.hexdigest()


@cache
def _read(module: str) -> tuple[str, list[str]]:
    """The text of a module, and the modules of ours that it imports from where it holds kernels."""
    path = ROOT.joinpath(*module.split("."))
    package = path.is_dir()
    text = (path / "__init__.py" if package else path.with_suffix(".py")).read_text(encoding="utf-8")
    imported: list[str] = []
    for name, what in _IMPORT.findall(text) if _HOLDS_KERNELS.search(text) else ():
        inside = ROOT.joinpath(*name.split("."))
        below = [f"{name}.{one}" for one in re.findall(r"\w+", what) if (inside / f"{one}.py").is_file()]
        imported += below if inside.is_dir() else [name]
    return text, imported


def _places(source: Path, subpath: str) -> Iterator[Path]:
    """The folders for the kernels of a file, the best first."""
    if given := getattr(config, "CACHE_DIR", None):
        yield Path(given, subpath)
        return
    if (ROOT / "pyproject.toml").is_file():  # a clone
        yield source / "__pycache__"
    with suppress(RuntimeError):  # a user without a home
        yield _kept() / subpath


@cache
def _kept() -> Path:
    """The folder of the kernels of this installation, in the user's cache; those of others that are gone go."""
    cached = asked_cache()
    if cached is None or (cached.exists() and not cached.is_dir()):
        cached = own_cache()  # also where it keeps nothing: each start would take half a minute
    folder = cached / "kernels" / hashlib.blake2b(str(ROOT).encode(), digest_size=8).hexdigest()
    if not (folder / ORIGIN).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ORIGIN).write_text(str(ROOT), encoding="utf-8")
        for other in folder.parent.glob(f"*/{ORIGIN}"):
            if not os.path.isdir(os.path.join(other.read_text(encoding="utf-8"), "cep")):
                shutil.rmtree(other.parent, ignore_errors=True)
    return folder


@cache
def _is_own(folder: Path) -> bool:
    """Make a folder, and return False if others may write to it who cannot write our sources. OSError: we cannot."""
    for place in (*reversed(folder.parents), folder):
        if not place.is_dir():
            place.mkdir(0o755, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()
    return not others_may_write(folder, ROOT.stat().st_uid)


CacheImpl._locator_classes.insert(0, Locator)
