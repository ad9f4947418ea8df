"""Late imports: packages are loaded when they are first used."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Late(ModuleType):
    """A placeholder for a package. It loads the package when one of its attributes is used."""

    def __getattr__(self, name: str) -> Any:
        if name in ("__file__", "__wrapped__"):  # code that inspects all modules must not trigger the import
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = import_module(self.__name__)
        self.__dict__.update(vars(module))
        return getattr(module, name)


def import_late(*names: str) -> None:
    """Replace packages by placeholders, which load the packages when they are first used.

    Commands that rarely need a package call this function. Loading `polars` and `pyarrow` takes a sixth of a second.
    """
    for name in names:
        if name not in sys.modules:
            module = sys.modules[name] = _Late(name)
            module.__spec__ = ModuleSpec(name, None)
