"""A server with a SPARQL endpoint that tests query."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving import Served, served

K = "PREFIX k: <http://example.org/kitchen#> "


def fridges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), seconds=120.0) as one:
        one.push((0, "milk", 4.1), (0, "fish", 2.0), (10, "milk", 8.2), (10, "fish", 2.1), (20, "milk", 9.5))
        one.push((50, "milk", 4.2))
        one.close()
        yield one
