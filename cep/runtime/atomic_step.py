"""Steps that are done wholly: where an exception ends one in the middle, what it left is not gone on from.

A step changes arrays in place, and a kernel writes where they say. So one that Ctrl-C, a lack of memory or the limit of
derivations ended could write anywhere, later, and a snapshot of it would be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from cep.core.errors import CepError


class Steppable(Protocol):
    """What takes steps; `broken`: it is in the middle of one, or one ended there."""

    broken: bool


P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Steppable)


def wholly(refuses: bool = False) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], T]]:
    """Of a method: a step. `refuses`: it looks at what it is given before it changes anything, so that an error but a
    lack of memory is a refusal, after which nothing is broken."""

    def of(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
        @wraps(method)
        def step(self: S, /, *args: P.args, **options: P.kwargs) -> T:
            if self.broken:
                raise CepError(
                    "the engine stopped in the middle of a step, and what it holds is not whole",
                    hint="go on with a new engine of the program, restored from the last snapshot",
                    code="broken",
                )
            self.broken = True
            try:
                given = method(self, *args, **options)
            except Exception as error:
                self.broken = not refuses or isinstance(error, MemoryError)
                raise
            self.broken = False
            return given

        return step

    return of
