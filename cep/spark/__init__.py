"""semcep on a Spark cluster. Only this package imports pyspark."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cep.spark.frame_events import Events
    from cep.spark.rules import Rules

__all__ = ["Events", "Rules"]

_HOMES = {"Events": "cep.spark.frame_events", "Rules": "cep.spark.rules"}


def __getattr__(name: str) -> object:
    """Load `Rules` and `Events` on first access, so that processes that only plan need not load them."""
    if name not in __all__:
        raise AttributeError(f"module `cep.spark` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)
