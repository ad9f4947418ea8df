"""Tables in and out without copies of numbers, and what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

import cep
from cep import CepError, Derived, Engine, detect
from cep import engine as inner
from cep.connectors.frames.reading import read_data
from tests.frame_shapes import FOUND, FRAME, PROGRAM, Stream


def test_facts_of_any_library() -> None:
    program = """
    event reading(station: string) TIME time.
    hub(S) <- reading(S) WHERE large(S).
    """
    data = {"time": [0, 1], "station": ["JFK", "ISP"]}
    for facts in (pl.DataFrame({"s": ["JFK"]}), pd.DataFrame({"s": ["JFK"]}), pa.table({"s": ["JFK"]})):
        assert [event.args for event in detect(program, data, facts={"large": facts})] == [("JFK",)]
        engine = Engine.from_text(program, facts={"large": facts})
        assert [event.args for event in [*engine.push(data), *engine.finish()]] == [("JFK",)]


def test_numbers_of_numpy_in_records() -> None:
    program = "event e(a: int, b: float, c: duration, d: float?) TIME t. f(A, B, C, D) <- e(A, B, C, D)."
    record = {
        "t": np.datetime64("2024-01-01T00:00:00.5"),
        "a": np.int32(3),
        "b": np.float32(0.5),
        "c": np.timedelta64(90, "s"),
        "d": Decimal("1.5"),
    }
    missing = {"t": pd.Timestamp("2024-01-01T01:00:00+01:00"), "a": 1, "b": 2, "c": timedelta(days=-1), "d": pd.NA}
    assert [event.args for event in detect(program, [missing, record])] == [
        (1, 2.0, -86_400_000_000, None),
        (3, 0.5, 90_000_000, 1.5),
    ]


def address(column: pl.Series) -> int:
    return int(column.to_arrow().buffers()[1].address)


@pytest.mark.parametrize("shape", ["polars", "pandas", "pyarrow", "stream", "arrays"])
def test_numbers_and_times_are_not_copied(shape: str) -> None:
    """Tables that an engine is given lie where the data lie: integers, floats, timestamps of microseconds."""
    n = 1000
    arrays = {
        "time": np.arange(n).astype("datetime64[us]"),
        "a": np.arange(n),
        "b": np.linspace(0, 1, n),
    }
    table = pa.table(arrays)
    given: Any = {
        "polars": lambda: pl.DataFrame(pl.from_arrow(table)),
        "pandas": lambda: pd.DataFrame(arrays),
        "pyarrow": lambda: table,
        "stream": lambda: Stream(table),
        "arrays": lambda: arrays,
    }[shape]()
    engine = inner.Engine.from_text("event e(a: int, b: float) TIME time. f(A, B) <- e(A, B).")
    (batch,) = read_data(given, engine.inputs, "e")
    if shape == "pandas":
        places = [given[name].to_numpy().ctypes.data for name in arrays]
    else:
        places = [array.ctypes.data for array in arrays.values()]
    read = batch.tables["e"]
    assert [address(read[name]) for name in ("start", "a", "b")] == places
    assert address(read["end"]) == places[0]


def test_what_is_derived_is_not_copied_on_its_way_out() -> None:
    data = {"time": list(range(100)), "a": list(range(100))}
    found = detect("event e(a: int) TIME time. f(A) <- e(A).", data)
    assert (
        address(found._given["f"]["a"])
        == address(found["f"]["a"])
        == found.to_arrow()["a"].chunk(0).buffers()[1].address
    )
    assert address(found._given["f"]["start"]) == address(found["f"]["start"])


def test_a_program_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.cep"
    path.write_text(PROGRAM)
    assert detect(path, FRAME) == FOUND
    assert Engine.from_file(path).push(FRAME) == FOUND[:2]
    path.write_text("f(X) <- ")
    for read in (lambda: detect(path, FRAME), lambda: Engine.from_file(path)):
        with pytest.raises(CepError) as caught:
            read()
        assert str(caught.value).startswith(f"{path}:1:")


def test_importing_costs_nothing() -> None:
    script = """
import sys
import cep
heavy = {"numba", "numpy", "polars", "pyarrow", "pandas", "pyspark", "rdflib"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
from cep import Event
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
from cep import Engine, detect
detect("b(X) <- a(X).", [Event("a", (1,), 0, 0)])
assert not {"pandas", "pyspark", "rdflib"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert set(cep.__all__) <= set(dir(cep))
    for name in cep.__all__:
        assert getattr(cep, name).__name__ == name
    with pytest.raises(AttributeError):
        cep.nothing  # noqa: B018
    typed = ast.parse(Path(cep.__file__).read_text(encoding="utf-8"))
    declared = {
        name.name: node.module for node in ast.walk(typed) if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert {name: declared[name] for name in cep.__all__} == cep._HOMES, "types and values come from one place"
    assert Path(cep.__file__).with_name("py.typed").exists(), "checkers of types look at an installed package"
    assert isinstance(detect("b(X) <- a(X).", []), Derived)
