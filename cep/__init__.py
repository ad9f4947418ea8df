"""semcep: event rules in, derived events out.

`from cep import Engine, detect, Event` is what programs in Python begin with (docs/python.md); each name is loaded when
it is first asked for, so that `import cep` costs nothing. To read the code, begin with `cep.engine`.
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
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def load_ipython_extension(shell: object) -> None:
    """`%load_ext cep`: from then on `%%cep` runs the rules of a cell."""
    import_module("cep.cells").load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
