"""Names of parameters in the errors of `cep.spark.Rules`.

The code that the command line uses as well names options in its errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from cep.core.errors import CepError, CepErrors
from cep.spark.driver.failure import worker_error

_NAMES = {
    "dead-letter": "dead_letters",
    "input": "data",
    "knowledge-updates": "changes",
    "once": "available_now",
    "output-format": "format",
    "param": "params",
}
"""The parameters whose names differ from the names of the options."""

_FLAGS = ("available_now", "final", "migrate")

_EXAMPLE = re.compile(r"`--([a-z-]+)(?: (?:(\w+)=)?([^`]+))?`")
_TITLE = re.compile(r"--([a-z-]+)(?=:)")
_OPTION = re.compile(r"--([a-z-]+)")


@contextmanager
def parameters_named() -> Iterator[None]:
    """Name parameters instead of options in the errors that a `with` block raises.

    If a worker has raised a CepError, the block raises this error instead of Spark's.
    """
    try:
        yield
    except CepError as error:
        for mistake in (error, *(error.errors if isinstance(error, CepErrors) else ())):
            mistake.message = renamed(mistake.message)
            mistake.hint = mistake.hint and renamed(mistake.hint)
        raise
    except Exception as error:
        if (cause := worker_error(error)) is None:
            raise
        message, hint = cause
        raise CepError(renamed(message), hint=hint and renamed(hint), code="failed") from None


def renamed(text: str) -> str:
    """Replace the options of the command line in a text by parameters: `--final` by `final=True`."""
    text = _EXAMPLE.sub(_example, text)
    text = _TITLE.sub(lambda option: _parameter(option[1]), text)
    return _OPTION.sub(lambda option: f"`{_parameter(option[1])}`", text)


def _example(option: re.Match[str]) -> str:
    name, key, value = _parameter(option[1]), option[2], option[3]
    if key is not None:
        value = f'{{"{key}": ...}}'
    elif value is not None:
        value = value if value.isdecimal() else f'"{value}"'
    elif name in _FLAGS:
        value = "True"
    return f"`{name}`" if value is None else f"`{name}={value}`"


def _parameter(option: str) -> str:
    return _NAMES.get(option, option.replace("-", "_"))
