"""What is wrong with a LARS program that can be read: variables without values and the like."""

from __future__ import annotations

from cep.core.errors import Source
from cep.language.dialects.lars.ast import LarsProgram


def refuse_unsafe(program: LarsProgram, source: Source) -> None:
    """Raises CepError with all that is wrong."""
