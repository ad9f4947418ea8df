"""Search for the file and line of a literal that does not fit its datatype, for the user to correct it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from cep.core.errors import CepError
from cep.knowledge.load import files, open_rdf, rdf_format

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\^\^|@)')


def with_place(error: CepError, names: str | Path | Iterable[str | Path]) -> CepError:
    """Add the files and lines of the literal to an error about an invalid literal. Return other errors unchanged."""
    literal = _LITERAL.search(error.message) if "(rule dt-not-type)" in error.message else None
    if literal is None:
        return error
    places = [
        f"  {path}:{number}: {line.strip()[:100]}"
        for path in files(names)
        if isinstance(path, Path) and rdf_format(path) is not None
        for number, line in _lines(path)
        if f'"{literal[1]}"' in line or f">{literal[1]}<" in line
    ]
    if not places:
        return error
    head, _, proof = error.message.partition("\n")
    more = [f"  and at {len(places) - 3} more places"] if len(places) > 3 else []
    message = "\n".join([head, *places[:3], *more, *([proof] if proof else [])])
    return CepError(message, error.source, error.span, error.hint, error.code)


def _lines(path: Path) -> list[tuple[int, str]]:
    with open_rdf(path) as file:
        return list(enumerate(file.read().decode("utf-8", "replace").splitlines(), 1))
