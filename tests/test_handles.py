"""What tells where occurrences come from names them by content: neither cuts nor restarts change it."""

from __future__ import annotations

from typing import Any

import pytest

from cep.engine import Engine
from cep.runtime.history import BECAUSE, CONSTITUENTS
from tests.state_programs import begun, given, stream


def derived_of(engine: Engine, size: int, restarts: int = 0) -> list[tuple[Any, ...]]:
    """All that is derived of the stream in pieces of a size, with its columns of lineage; from time to time another
    engine goes on."""
    engine.set_lineage_columns(BECAUSE, CONSTITUENTS)
    found = []
    for number, first in enumerate(range(0, 90, size)):
        found += given(engine.push(stream(first, min(first + size, 90))))
        if restarts and number % restarts == 0:
            blob = engine.snapshot()
            engine = begun(explain=True)
            engine.set_lineage_columns(BECAUSE, CONSTITUENTS)
            engine.restore(blob)
    return sorted(found + given(engine.close()))


@pytest.mark.parametrize(("size", "restarts"), [(1, 0), (7, 0), (13, 1), (1, 4)])
def test_lineage_is_named_by_content(size: int, restarts: int) -> None:
    assert derived_of(begun(explain=True), size, restarts) == derived_of(begun(explain=True), 90)
