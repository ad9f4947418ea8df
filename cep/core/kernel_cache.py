"""Loading of compiled kernels from the package or from a cache. numba compiles all others, and the cache stores them.

**The package** contains kernels for some families of processors (`TARGETS`). A wheel contains them, or `make run`
creates them (`build_kernels.py`). A process uses the best family that its processor supports.

**The cache** is in the folder that `NUMBA_CACHE_DIR` names. Without this variable, it is beside the sources in a clone,
and otherwise in the user's cache. numba would store kernels beside their sources, where `pip uninstall` leaves them
behind. numba unpickles cached files, so a folder that others may write to is not used.

A stored kernel becomes invalid if anything changes on which it depends. It depends on its own module, on the kernels
that it calls, and on constants of other modules (all are hashed). It also depends on numba and its settings.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_features
from numba.core import config as numbas
from numba.core import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.runtime.nrt import rtsys

from cep.core.collection import no_collection
from cep.core.compilation import compilation
from cep.core.kernel_files import KernelFile
from cep.core.private_files import others_may_write
from cep.core.signals import stops
from cep.core.user_cache import asked_cache, own_cache

ROOT = Path(__file__).resolve().parents[2]
"""The folder that contains our Python packages."""
COMPILED = ROOT / "cep" / "compiled"
"""The folder of the package's kernels. It has one subfolder per target."""
ORIGIN = "origin"
"""The name of a file beside cached kernels. It contains the path of the folder that holds their sources."""

config: Any = numbas
unliteral: Any = types.unliteral  # numba's functions have no type annotations
_compile: Any = Dispatcher._compile_for_args  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Target:
    """A family of processors: LLVM's name for it, as in `NUMBA_CPU_NAME`, and the processor features that it
    requires."""

    name: str
    needs: frozenset[str] = frozenset()

    @property
    def folder(self) -> Path:
        """The folder of the package's kernels for this target, this operating system and this Python version."""
        return COMPILED / f"{sys.platform}-{platform.machine().lower()}-{self.name}-{sys.implementation.cache_tag}"

    def magic_tuple(self) -> tuple[str, ...]:
        """Return the part of a kernel's cache key that numba takes from a code generator."""
        return (self.folder.name,)


_V2 = frozenset({"cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"})
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
TARGETS = {
    "x86_64": (Target("x86-64-v3", _V3), Target("x86-64-v2", _V2)),
    "amd64": (Target("x86-64-v3", _V3), Target("x86-64-v2", _V2)),
    "aarch64": (Target("generic"),),
    "arm64": (Target("generic"),),
}
"""The targets of each machine type, the fastest first."""
SETTINGS = ("BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")
"""The settings of numba that change compiled code."""

_HOLDS_KERNELS = re.compile(r"\bnjit\b|^@(?:bare|inside)", re.MULTILINE)
_IMPORT = re.compile(r"^from (cep(?:\.\w+)*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


BUILDING = "SEMCEP_BUILD_KERNELS"
"""The environment variable that names the target for which a process compiles kernels into the package."""


@cache
def _built() -> Target | None:
    name = os.environ.get(BUILDING)
    return None if name is None else next(target for target in targets() if target.name == name)


def targets() -> tuple[Target, ...]:
    """Return the targets of this machine's type, the fastest first."""
    return TARGETS.get(platform.machine().lower(), ())


@cache
def target() -> Target | None:
    """Return the target whose kernels this process loads.

    Returns None if no target fits this machine, or if the user has configured a processor for numba.
    """
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return None
    features = get_host_cpu_features()
    return next((target for target in targets() if all(features.get(name) for name in target.needs)), None)


def dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Create numba's dispatcher of a kernel, which uses the cache of this module. `options`: those of `numba.njit`."""
    kernel = numba.njit(**options)(function)
    called, compiled = kernel.get_call_template, kernel.compile
    kernel._cache = cache = KernelCache(function)

    def compile(signature: Any) -> Any:
        with cache.compiling():
            return compiled(signature)

    def compile_for(*arguments: Any, **named: Any) -> Any:
        stops.between()  # a stop request works here, because hundreds of kernels take a minute
        with no_collection():
            return _compile(kernel, *arguments, **named)

    def template(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Treat constants in a kernel's calls as numbers of their type. Otherwise the callee would be compiled for each
        constant."""
        return called(tuple(map(unliteral, arguments)), {name: unliteral(argument) for name, argument in named.items()})

    kernel.get_call_template, kernel.compile, kernel._compile_for_args = template, compile, compile_for
    return kernel


class KernelCache(FunctionCache):
    """The stored code of one kernel, by signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._py_func = function
        self._module: str = function.__module__
        self._held: ExitStack | None = None
        self.enable()  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        return f"<kernel {self._module}.{self._py_func.__qualname__}>"

    @cached_property
    def _impl(self) -> CompileResultCacheImpl:
        return _Kept(self._py_func)  # type: ignore[no-untyped-call]

    @cached_property
    def _cache_file(self) -> KernelFile:  # type: ignore[override]
        if (built := _built()) is not None:
            return self._in_package(built)
        locator = self._impl.locator
        return KernelFile(locator.get_cache_path(), self._impl.filename_base, locator.get_source_stamp())  # type: ignore[no-untyped-call]

    @property
    def cache_path(self) -> str:
        return self._cache_file.folder

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the compiled code for a signature. Return None if numba must compile it.

        Compiled code needs only numba's runtime. Numba's registries of types and functions take longer to load than the
        code, and numba loads them itself before it compiles.
        """
        rtsys.initialize(target_context)
        fitting = target() if _built() is None else None
        if fitting is not None:
            with suppress(OSError):  # the sources are not files
                payload = self._in_package(fitting).load(self._index_key(sig, fitting))
                if payload is not None:
                    return CompileResult._rebuild(target_context, *payload)  # type: ignore[no-untyped-call]
        overload = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if overload is None and self._held is not None:
            self._held.enter_context(self._cache_file.alone())
            overload = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            if overload is None:
                self._held.enter_context(compilation.one())
            self._held = None
        return overload

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Let only this process compile the kernel during the block. Other processes that need the kernel wait until
        the block ends, and then load it."""
        with ExitStack() as self._held:
            yield

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return super()._index_key(sig, _built() or codegen)  # type: ignore[no-untyped-call]

    def _in_package(self, target: Target) -> KernelFile:
        name = f"{self._module}.{self._py_func.__qualname__}"
        return KernelFile(str(target.folder), name, stamp(self._module))  # type: ignore[no-untyped-call]


def stamp(module: str) -> str:
    """Return a text that identifies everything on which a module's kernels depend, except numba.

    Raises OSError if a source file cannot be read.
    """
    settings = " ".join(f"{name}={int(getattr(config, name) or 0)}" for name in SETTINGS)
    return f"{made_of(module)} {settings}"


class Locator(_CacheLocator):
    """A locator, by which numba finds the cached kernels of one of our source files."""

    def __init__(self, module: str, folder: Path) -> None:
        self._module, self._folder = module, folder

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        """Do nothing: the folder was checked when it was chosen."""

    def get_source_stamp(self) -> str:
        return stamp(self._module)

    def get_disambiguator(self) -> str:
        return ""  # names of kernels are unique in a module, and a moved kernel replaces itself

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Locator | None:
        """Return the locator for a function. Return None if the function is not ours, or if no folder is available;
        numba then tries its own locators.

        Raises RuntimeError if others may write to all available folders.
        """
        path, module = Path(py_file).resolve(), str(py_func.__module__)
        if not path.is_relative_to(ROOT) or not module.startswith("cep."):
            return None
        subpath: str = _CacheLocator.get_suitable_cache_subpath(str(path))  # type: ignore[no-untyped-call]
        shared = None
        with suppress(OSError):  # the sources are not files
            made_of(module)
            for place in _places(path.parent, subpath):
                with suppress(OSError):
                    if _is_own(place):
                        return cls(module, place)
                    shared = place
        if shared is not None:  # numba's own locators might choose the same folder
            raise RuntimeError(f"no locator available: others than you may write to {shared}")
        return None


@cache
def made_of(module: str) -> str:
    """Return a hash of the texts on which a module's kernels depend.

    These are the module's own text and the texts of our modules that it imports. If an imported module contains
    kernels, the modules that it imports count, too. Raises OSError if a source file cannot be read.
    """
    texts: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in texts:
            texts[name], imported = _read(name)
            waiting += imported
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(texts):
        digest.update(f"{name} {len(texts[name])} {texts[name]}".encode())
    return digest.hexdigest()


@cache
def _read(module: str) -> tuple[str, list[str]]:
    path = ROOT.joinpath(*module.split("."))
    package = path.is_dir()
    text = (path / "__init__.py" if package else path.with_suffix(".py")).read_text(encoding="utf-8")
    imported: list[str] = []
    for name, what in _IMPORT.findall(text) if _HOLDS_KERNELS.search(text) else ():
        inside = ROOT.joinpath(*name.split("."))
        below = [f"{name}.{module}" for module in re.findall(r"\w+", what) if (inside / f"{module}.py").is_file()]
        imported += below if inside.is_dir() else [name]
    return text, imported


def _places(source: Path, subpath: str) -> Iterator[Path]:
    """Yield the folders that may hold the kernels of a source file, the best first."""
    if configured := getattr(config, "CACHE_DIR", None):
        yield Path(configured, subpath)
        return
    if (ROOT / "pyproject.toml").is_file():  # a clone of the repository
        yield source / "__pycache__"
    with suppress(RuntimeError):  # the user has no home folder
        yield _kept() / subpath


@cache
def _kept() -> Path:
    """Return the cache folder of this installation. Remove the folders of installations that no longer exist."""
    cached = asked_cache()
    if cached is None or (cached.exists() and not cached.is_dir()):
        cached = own_cache()  # needed even if caching is off: compiling takes half a minute at each start
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
    """Create a folder. Return True if only the user, root and the owner of our sources may write to it.

    Raises OSError if the folder cannot be created or inspected.
    """
    for place in (*reversed(folder.parents), folder):
        if not place.is_dir():
            place.mkdir(0o755, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()
    return not others_may_write(folder, ROOT.stat().st_uid)


class _Kept(CompileResultCacheImpl):
    """numba's cache implementation, which tries our locator first."""

    _locator_classes = [  # noqa: RUF012
        Locator,
        *CompileResultCacheImpl._locator_classes,
    ]
