"""Kernels in the checked run (`make checked`), in which a negative index is out of bounds too."""

from __future__ import annotations

from typing import Any

from numba.core.types import intp
from numba.np import arrayobj


def strict() -> None:
    """From now on numba, which checks bounds, does not count from the end: -1 stands for no row, and is none."""

    def index(context: Any, builder: Any, type: Any, value: Any, size: Any) -> Any:
        return context.cast(builder, value, type, intp)

    arrayobj.fix_integer_index = index
