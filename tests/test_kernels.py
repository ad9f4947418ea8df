"""Where compiled kernels are kept, and when they are compiled again."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from cep.core import kernel_cache as kernels
from cep.core.kernel_cache import made_of

ROOT = Path(__file__).parent.parent
READS = """
import numpy as np
from cep.connectors.records.cells import numbers
from cep.connectors.records.numbers import STRING
text, here = np.frombuffer(b"41", np.uint8), np.zeros(1, np.int64)
found = np.zeros(1, np.int64)
numbers(found, text, here, here + 2, np.full(1, STRING, np.uint8), True, ord("."), True)
print(found[0], sum(numbers.stats.cache_hits.values()))
"""


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packages without what belongs to a clone, as an installation has them."""
    made = tmp_path / "site"
    for package in ("cep", "connectors", "knowledge"):
        without = shutil.ignore_patterns("__pycache__", "compiled", "page")
        shutil.copytree(ROOT / package, made / package, symlinks=True, ignore=without)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    return made


def read(copy: Path) -> list[int]:
    """What a kernel gives there that calls one of another file, and how often it was found compiled."""
    env = {**os.environ, "PYTHONPATH": str(copy)}
    ran = subprocess.run([sys.executable, "-c", READS], cwd=copy.parent, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return [int(word) for word in ran.stdout.split()]


def kept(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*.nb?") if path.suffix in (".nbi", ".nbc")}


@pytest.mark.long
def test_an_installation_has_its_kernels_in_the_users_cache(copy: Path, tmp_path: Path) -> None:
    assert [read(copy), read(copy)] == [[41, 0], [41, 1]]
    assert not kept(copy), "`pip uninstall` would leave them"
    assert kept(tmp_path / "cache" / "semcep" / "kernels")
    gone = tmp_path / "cache" / "semcep" / "kernels" / "0000"
    gone.mkdir()
    (gone / kernels.ORIGIN).write_text(str(tmp_path / "removed"))
    other = copy.rename(tmp_path / "moved")
    assert read(other) == [41, 0]
    (left,) = [path.parent.parent for path in kept(tmp_path / "cache")][:1]
    assert (left / kernels.ORIGIN).read_text() == str(other) and len(list(gone.parent.iterdir())) == 1


def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed(copy: Path) -> None:
    (copy / "pyproject.toml").touch()  # as a clone
    assert read(copy) == [41, 0]
    numbers = copy / "connectors" / "records" / "numbers.py"
    numbers.write_text(numbers.read_text().replace("return (-value if negative else value), GOOD", "return 7, GOOD", 1))
    assert [read(copy), read(copy)] == [[7, 0], [7, 1]]
    assert {path.parent.name for path in kept(copy)} == {"__pycache__"}


class Runs:
    """Runs a text where it is unpickled."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (self.text,)


@pytest.mark.parametrize("named", [False, True])
def test_kernels_are_not_taken_from_a_folder_that_others_may_write_to(copy: Path, tmp_path: Path, named: bool) -> None:
    """Kept kernels are unpickled, so whoever can write them runs code."""
    folder, ran = copy / "connectors" / "records" / "__pycache__", tmp_path / "ran"
    env = {**os.environ, "PYTHONPATH": str(copy)}
    if named:
        folder = tmp_path / "named"
        env["NUMBA_CACHE_DIR"] = str(folder)
    else:
        (copy / "pyproject.toml").touch()  # as a clone
    folder.mkdir()

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", READS], cwd=tmp_path, env=env, capture_output=True, text=True)

    def write() -> None:
        for index in folder.rglob("*.nbi"):
            index.write_bytes(pickle.dumps(numba.__version__) + pickle.dumps(Runs(f"open({str(ran)!r}, 'w')")))

    assert run().stdout == "41 0\n" and kept(folder)
    write()
    assert run().returncode == 0 and ran.exists(), "who may write there runs code"
    for place in {folder, next(iter(kept(folder))).parent}:
        ran.unlink(missing_ok=True)
        write()
        place.chmod(0o757)
        done = run()
        assert not ran.exists()
        if named:
            assert done.returncode and "others than you may write to" in done.stderr
        else:
            assert done.stdout.startswith("41 ") and kept(tmp_path / "cache")
        place.chmod(0o755)


def read_again() -> None:
    kernels._read.cache_clear()
    made_of.cache_clear()


def test_it_is_made_of_what_it_calls_and_of_constants(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "ROOT", copy)

    def changed(path: str) -> set[str]:
        """The modules whose kernels have to be compiled again when a file changes."""
        names = "records.cells", "formats.csv_scan", "writing.json_lines"
        modules = (*(f"cep.connectors.{one}" for one in names), "cep.operators.goals.pairs.pairing")
        read_again()
        before = {name: made_of(name) for name in modules}
        file = copy / path
        file.write_text(file.read_text() + "\n# changed\n")
        read_again()
        return {name for name in modules if made_of(name) != before[name]}

    assert changed("connectors/records/numbers.py") == {
        "cep.connectors.records.cells",
        "cep.connectors.formats.csv_scan",
    }
    assert changed("connectors/records/times.py") == {
        "cep.connectors.records.cells",
        "cep.connectors.formats.csv_scan",
        "cep.connectors.writing.json_lines",
    }
    assert changed("cep/operators/goals/store.py") >= {"cep.operators.goals.pairs.pairing"}
    assert changed("connectors/brokers/tcp.py") == changed("cep/command.py") == set()
    read_again()


SMALL = """
import numpy as np
from cep.operators.goals.arrival import _disorder
found = _disorder(np.zeros((4, 8), np.int64))
print(found, sum(_disorder.stats.cache_hits.values()))
"""


def small(copy: Path, **environment: str) -> list[int]:
    """What a small kernel gives there, and how often it was found compiled."""
    env = {**os.environ, "PYTHONPATH": str(copy), "NUMBA_BOUNDSCHECK": "0", **environment}
    ran = subprocess.run([sys.executable, "-c", SMALL], cwd=copy.parent, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return [int(word) for word in ran.stdout.split()]


def test_a_package_brings_its_kernels(copy: Path, tmp_path: Path) -> None:
    target = kernels.target()
    assert target is not None
    folder = copy / "cep" / "compiled" / target.folder.name
    folder.mkdir(parents=True)
    building = {"NUMBA_CPU_NAME": target.name, "NUMBA_CPU_FEATURES": "", kernels.BUILDING: target.name}
    assert small(copy, **building) == [0, 0] and kept(folder)
    assert small(copy, HOME="/nowhere", XDG_CACHE_HOME="/nowhere/cache") == [0, 1]
    assert not kept(tmp_path / "cache"), "nothing was compiled"

    assert small(copy, NUMBA_CPU_NAME=target.name) == [0, 0], "numba is told what to compile for"
    assert small(copy, NUMBA_BOUNDSCHECK="1") == [0, 0], "with other settings the code is other code"
    shutil.rmtree(tmp_path / "cache")

    index, code = next(folder.glob("*.nbi")), next(folder.glob("*.nbc"))
    whole, right = index.read_bytes(), code.read_bytes()
    for path, wrong in (
        (index, pickle.dumps("0.1") + whole[len(pickle.dumps(numba.__version__, protocol=-1)) :]),
        (index, whole[: len(whole) // 2]),
        (code, right[:-9] + bytes(9)),
    ):
        path.write_bytes(wrong)
        assert small(copy) == [0, 0], "another numba, or damage"
        assert kept(tmp_path / "cache")
        shutil.rmtree(tmp_path / "cache")
        index.write_bytes(whole)
        code.write_bytes(right)
    assert small(copy) == [0, 1]
    source = copy / "cep" / "operators" / "goals" / "arrival.py"
    source.write_text(source.read_text() + "\n# changed\n")
    assert small(copy) == [0, 0]


def test_numba_compiles_the_users_code_as_without_us() -> None:
    code = """
import sys
import numba
if len(sys.argv) > 1:
    import numpy as np
    import cep.api
    from cep.operators.goals.arrival import _disorder
    _disorder(np.zeros((4, 8), np.int64))
own = numba.njit(lambda x: x + 1)
own(1)
print(own.targetctx.codegen().magic_tuple(), numba.config.CPU_NAME, numba.config.CPU_FEATURES, type(own._cache))
"""
    ran = [
        subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True)
        for words in ([], ["ours"])
    ]
    assert ran[0].returncode == ran[1].returncode == 0, ran[1].stderr
    assert ran[0].stdout == ran[1].stdout
