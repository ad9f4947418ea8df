"""What is kept of a kernel, by many processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cep.core.kernel_files import HUNDREDTH, KernelFile, TimeSpent

ROOT = Path(__file__).parent.parent
CALLS = """
import sys
import numpy as np
from cep.core import tiers
from cep.operators.goals.arrival import _disorder
table = np.zeros((4, 8), np.int64)
print(_disorder(table), len(_disorder.overloads), sum(_disorder.stats.cache_hits.values()))
_disorder._compile_for_args.spent.add(float(sys.argv[1]))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Kernels are kept in a folder of their own, and chosen as for a user."""
    return {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept"), "NUMBA_BOUNDSCHECK": "0", "SEMCEP_KERNELS": ""}


def call(environment: dict[str, str], seconds: float) -> list[int]:
    """What a kernel gives, how often it is compiled in that process, and how often it was found so; then Python has
    run it for so many seconds more."""
    ran = subprocess.run(
        [sys.executable, "-c", CALLS, str(seconds)], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return list(map(int, ran.stdout.split()))


def test_what_python_takes_adds_up_over_runs(environment: dict[str, str], tmp_path: Path) -> None:
    assert [call(environment, 0.2) for _ in range(2)] == [[0, 0, 0]] * 2
    assert call(environment, 0) == [0, 1, 0], "two runs took as long as compiling does"
    assert call(environment, 0) == [0, 1, 1]
    assert not list(tmp_path.rglob("*.python")), "it is compiled, so what Python took is of no use"


def test_a_damaged_count_is_no_error(environment: dict[str, str], tmp_path: Path) -> None:
    call(environment, 0.2)
    (count,) = tmp_path.rglob("*.python")
    count.write_bytes(b"\xff" * 3)
    assert call(environment, 0)[0] == 0
    count.unlink()
    count.mkdir()
    assert call(environment, 0.2)[0] == 0


def test_counts_of_several_processes_add_up(tmp_path: Path) -> None:
    path = str(tmp_path / "kernel.python")
    first, second = TimeSpent(path), TimeSpent(path)
    for _ in range(10):
        first.add(0.65 * HUNDREDTH)
        second.add(1.15 * HUNDREDTH)
    assert TimeSpent(path).total == pytest.approx((6 + 11) * HUNDREDTH)
    first.clear()
    second.clear()
    assert TimeSpent(path).total == 0


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    for path in (None, str(tmp_path / "nowhere" / "kernel.python")):
        count = TimeSpent(path)
        count.add(5.0)
        count.clear()
        assert count.total == 5.0 and TimeSpent(path).total == 0


def test_compiled_code_is_never_that_of_another_key(tmp_path: Path) -> None:
    """Also where two processes save at once: each has read the index before the other has written it."""
    first, second = KernelFile(str(tmp_path), "kernel", "stamp"), KernelFile(str(tmp_path), "kernel", "stamp")
    first._load_index = second._load_index = dict  # type: ignore[method-assign]
    first.save("ints", "code of ints")
    kept = dict(KernelFile(str(tmp_path), "kernel", "stamp")._load_index())
    second.save("floats", "code of floats")
    for index in (kept, {"ints": kept["ints"], "floats": second._data_name_of("floats")}):
        first._save_index(index)
        reader = KernelFile(str(tmp_path), "kernel", "stamp")
        assert reader.load("ints") in ("code of ints", None) and reader.load("floats") in ("code of floats", None)
    later = KernelFile(str(tmp_path), "kernel", "later")
    assert later.load("floats") is None
    later.save("floats", "later code")
    assert later.load("floats") == "later code" and len(list(tmp_path.glob("*.nbc"))) == 1


def test_damaged_files_are_none(tmp_path: Path) -> None:
    file = KernelFile(str(tmp_path), "kernel", "stamp")
    for suffix in ("nbc", "nbi"):
        file.save("ints", "code")
        (path,) = tmp_path.glob(f"*.{suffix}")
        for damage in (b"", b"\x80\x04garbage", path.read_bytes()[:-3]):
            path.write_bytes(damage)
            assert file.load("ints") is None
