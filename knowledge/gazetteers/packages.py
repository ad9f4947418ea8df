"""Data files of installed packages. They are found without an import of the package, because an import may be slow."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cep.core.errors import CepError


def data(package: str, path: str, install: str = "") -> Path:
    """Return the path of a data file in a package. Raises CepError if the package or the file does not exist."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise CepError(
            f"the package {install or package} is not installed",
            hint=f"do `pip install {install or package}`",
            code="places",
        )
    file = Path(spec.origin).parent / path
    if not file.exists():
        raise CepError(f"the package {install or package} has no {path}", hint="install another version", code="places")
    return file


def package_records(file: Path, wanted: Callable[[dict[str, Any]], Any]) -> Any:
    """Read a JSON file, and replace each object in it by the result of the function `wanted` as soon as the object is
    read.

    To keep an object, `wanted` returns it. All other objects are freed at once, so a file of 80 MB takes little memory.
    Raises CepError if the file is not JSON, or if an object lacks a required member.
    """
    try:
        return json.loads(file.read_bytes(), object_hook=wanted)
    except KeyError as error:
        raise CepError(
            f"{file}: a record has no {error}: install another version of the package", code="places"
        ) from None
    except ValueError as error:
        raise CepError(f"{file}: {error}", code="places") from None
