"""Numba's sort and its argsort are made of functions that may have one name, compiled by two processes: a kept kernel
with one, loaded beside the other, does not sort. So kernels have no argsort but that of the merge sort."""

from __future__ import annotations

import importlib

from cep.core.kernel_cache import ROOT
from cep.core.kernels import Kernel


def test_kernels_that_are_kept_sort_in_one_way() -> None:
    found: dict[str, set[object]] = {}
    for package in ("cep", "connectors", "knowledge"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "cep.core.kernels" in path.read_text(encoding="utf-8"):
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                module = importlib.import_module(name if package == "cep" else f"cep.{name}")
                for name, each in vars(module).items():
                    if isinstance(each, Kernel):
                        found[f"{module.__name__}.{name}"] = {
                            *each.py_func.__code__.co_names,
                            *each.py_func.__code__.co_consts,
                        }
    assert "cep.knowledge.point_index._sort" in found and len(found) > 100
    assert [name for name, called in found.items() if "sort" in called], "else there may be argsort"
    assert not [name for name, called in found.items() if "argsort" in called and "mergesort" not in called]
