"""Kernels that Python runs until it pays to compile them: they give the same, and are compiled in time."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core import tiers
from cep.core.hashtable import ids_of
from cep.core.kernels import njit
from cep.core.tiers import Tiered
from cep.engine import Engine
from cep.operators.goals.intrinsics import as_bits, as_float, bare, prefetch
from cep.operators.goals.keys import mix
from cep.operators.goals.pairs.pairing import pair
from connectors.cells import copy, numbers, read_ticks
from connectors.lines import _escape, _ticks
from connectors.numbers import NUMBER, STRING
from connectors.times import unit_of
from tests.programs import Program, contests, iterations, loops, programs, recursions, windows
from tests.test_equivalence import examples, in_order, push, rows, types

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def choosing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user, also in the checked run."""
    monkeypatch.setattr(tiers, "MODE", "")


def fresh(function: Any, **options: Any) -> tuple[Any, Tiered]:
    """A kernel that nobody has compiled, and what decides how it runs."""
    kernel = njit(**options)(function)
    return kernel, kernel._compile_for_args


def as_python(kernel: Any, *given: Any) -> Any:
    return kernel._compile_for_args._run(*given)


def as_compiled(kernel: Any, *given: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "MODE", "compiled")
        return kernel(*given)


def test_a_kernel_is_compiled_when_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    def total(values: Any) -> Any:
        found = 0
        for i in range(values.shape[0]):
            found += values[i]
        return found

    kernel, tier = fresh(total, linear=True)
    few = np.arange(10)
    assert kernel(few) == 45 and isinstance(kernel(few), int) and not kernel.overloads
    tier.spent.seconds = 60.0
    said: list[str] = []
    tiers.tell(lambda: said.append("compiling"))
    assert kernel(few) == 45 and len(kernel.overloads) == 1 and said == ["compiling"]
    large, _ = fresh(total, linear=True)
    assert large(np.arange(10**6)) == 499999500000 and large.overloads and said == ["compiling"]
    assert large(np.arange(1e6)) == 499999500000.0 and len(large.overloads) == 2, "for other types, too"


def test_what_may_be_quadratic_is_compiled_earlier() -> None:
    def total(values: Any) -> Any:
        return values.shape[0]

    several = np.arange(3000)
    for linear in (True, False):
        kernel, _ = fresh(total, linear=linear)
        assert kernel(several) == 3000 and bool(kernel.overloads) != linear


def test_collection_goes_on_after_compiling() -> None:
    kernel, _ = fresh(lambda value: value + 1)
    assert gc.isenabled() and as_compiled(kernel, 1) == 2 and gc.isenabled()
    gc.disable()
    try:
        assert as_compiled(kernel, 1.5) == 2.5 and not gc.isenabled()
    finally:
        gc.enable()


def test_python_does_what_the_machine_does() -> None:
    """Overflow wraps, narrow integers are wide once they are read, and results are Python's numbers."""

    @bare
    def mixed(a: Any, b: Any, letters: Any, yes: Any) -> Any:
        total = 0
        for letter in letters:
            total += letter - 50
        for i in range(letters.shape[0]):
            total += letters[i] * 1000 - 255
            letters[i] = letters[i] + 200
        prefetch(letters.reshape((letters.shape[0], 1)), 7)
        return a * b, np.uint64(a) ^ mix(np.uint64(a), b), as_bits(as_float(a) / 2.0), total, not yes, letters[0] > 100

    for a, b in ((2**62, 5), (-1, -(2**63)), (7, 3)):
        made = []
        for run in (as_python, as_compiled):
            letters = np.array([1, 77, 255], np.uint8)
            made.append([*run(mixed, a, b, letters, True), *letters.tolist()])
        assert made[0] == made[1] and list(map(type, made[0])) == list(map(type, made[1]))


@given(st.lists(st.text('0123456789-+.eE TZ:"\\aé\x01\n', max_size=30), min_size=1, max_size=6), st.booleans())
def test_text_is_read_the_same(texts: list[str], calendar: bool) -> None:
    data = [text.encode() for text in texts]
    ends = np.cumsum([0] + [len(each) for each in data])
    buffer = np.frombuffer(b"".join(data) + b"\0" * 40, np.uint8)
    length = np.diff(ends)
    kind = np.array([STRING if i % 3 else NUMBER for i in range(len(data))], np.uint8)
    same(read_ticks, buffer, ends[:-1], length, kind, True, calendar, 46)
    for type, point in ((np.int64, 46), (np.float64, 44)):
        made = []
        for run in (as_python, as_compiled):
            values = np.zeros(len(data), type)
            states = run(numbers, values, buffer, ends[:-1], length, kind, True, point, type is np.int64)
            made.append((values.tobytes(), states.tobytes()))
        assert made[0] == made[1]
    same(copy, buffer, ends[:-1], length, kind, True, np.arange(len(data)), 34)
    same(_escape, buffer[: ends[-1]], ends, np.array([bool(i % 4) for i in range(len(data))]))


@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=6),
    st.sampled_from(("iso", "seconds", "ms", "us", "ns", "7 us", "60000000 us")),
    st.booleans(),
)
def test_times_are_written_the_same(ticks: list[int], times: str, json: bool) -> None:
    same(_ticks, np.array(ticks), np.array([i % 3 != 1 for i in range(len(ticks))]), *unit_of(times), json)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9), st.booleans())
def test_keys_are_found_the_same(values: list[int], groups: bool) -> None:
    columns = np.array([values, values[::-1]])
    made = []
    for run in (as_python, as_compiled):
        index, keys = np.full(32, -1, np.int64), np.zeros((16, 2), np.int64)
        ids, fresh = np.empty(len(values), np.int64), np.zeros(len(values), np.int64)
        found = run(ids_of, columns, np.array([0, 1]), index, keys, 0, 0, True, not groups, ids, fresh)
        made.append([ids.tolist(), fresh.tolist(), found, index.tolist(), keys.tolist()])
    assert made[0] == made[1]


@examples(2)
@given(st.lists(st.one_of(programs(), contests(), windows(), iterations(), loops(), recursions()), min_size=20))
def test_programs_derive_the_same(given: list[Program]) -> None:
    """Also the state is the same, to the bit."""
    ran = subprocess.run(
        [sys.executable, "-c", "from tests.test_tiers import outcomes; outcomes()"],
        cwd=ROOT,
        env={**os.environ, "NUMBA_BOUNDSCHECK": "0", "SEMCEP_KERNELS": "python"},
        input=pickle.dumps(given),
        capture_output=True,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    slow, loaded = pickle.loads(ran.stdout)
    assert slow == [outcome(program) for program in given] and loaded == 0


def outcomes() -> None:
    """In a process where kernels run as Python: what each program gives, and how many kernels were compiled."""
    made = [outcome(program) for program in pickle.loads(sys.stdin.buffer.read())]
    sys.stdout.buffer.write(pickle.dumps((made, len(pair.overloads) + len(ids_of.overloads))))


@pytest.mark.parametrize("modes", [[""], pytest.param(["", "compiled"], marks=pytest.mark.long)], ids="-".join)
def test_a_first_program_compiles_nothing(modes: list[str], tmp_path: Path) -> None:
    (tmp_path / "hot.cep").write_text(
        "event reading(fridge: string, temp: float) TIME time.\n"
        "warming(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE A > 7, B > A WITHIN 15 min.\n"
        "silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN 30 min.\n"
    )
    (tmp_path / "in.csv").write_text(
        "time,fridge,temp\n2024-05-01 08:00,milk,8.1\n2024-05-01 08:10,milk,9.5\n2024-05-01 08:20,milk,broken\n"
    )
    command = ["-m", "cep", "run", "hot.cep", "--input", "reading=in.csv"]
    made = []
    for mode in modes:
        kept = tmp_path / f"kernels{mode}"
        ran = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "NUMBA_CACHE_DIR": str(kept),
                "NUMBA_BOUNDSCHECK": "0",
                "SEMCEP_KERNELS": mode,
            },
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        made.append([json.loads(line) for line in ran.stdout.splitlines()])
        assert bool(list(kept.rglob("*.nbc"))) == (mode == "compiled")
    assert all(each == made[0] for each in made) and len(made[0]) == 2


def same(kernel: Any, *given: Any) -> None:
    """Both tiers give the same arrays."""
    for left, right in zip(as_python(kernel, *given), as_compiled(kernel, *given), strict=True):
        assert type(left) is type(right) and left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()


def outcome(program: Program) -> tuple[list[Any], bytes, list[Any]]:
    events = in_order(program.events)
    half = len(events) // 2
    engine = Engine.from_text(program.text, types=types(program.events), explain=True)
    first = push(engine, events[:half])
    return first, engine.snapshot(), push(engine, events[half:]) + rows(engine.close())
