"""semcep: an engine that evaluates programs of event rules on input events and returns derived events.

Python programs begin with `from cep import Engine, detect, Event` (docs/python.md). Each name is loaded when it is
first used, so `import cep` alone loads nothing. To read the code, begin with `cep.engine`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cep.api import Engine, detect
    from cep.core.errors import CepError
    from cep.derived import Derived
    from cep.events import Event, Iri

__all__ = ["CepError", "Derived", "Engine", "Event", "Iri", "detect"]

_HOMES = {
    "CepError": "cep.core.errors",
    "Derived": "cep.derived",
    "Engine": "cep.api",
    "Event": "cep.events",
    "Iri": "cep.events",
    "detect": "cep.api",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module `cep` has no attribute `{name}`")
    attribute = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return attribute


def load_ipython_extension(shell: object) -> None:
    """Register `%%cep`, which runs the rules of a notebook cell. IPython calls this for `%load_ext cep`."""
    import_module("cep.cells").load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
