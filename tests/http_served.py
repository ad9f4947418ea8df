"""A page and a store served over HTTP, for tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.page_server import Shown, shown
from tests.serving import Served, served

HOUR = 3_600_000_000


def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with shown(tmp_path_factory.mktemp("page"), remember=HOUR) as one:
        yield one


def fridges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("fridges")) as one:
        one.push((0, "milk", 8.2), (50, "milk", 4.2))
        one.close()
        yield one


def places(openapi: dict[str, Any], method: str) -> list[str]:
    """Addresses that are there, of all paths that take a method."""
    filled = {"{alert}": "0" * 32, "{revision}": "0", "{name}": "style.css", "{id}": "0" * 32, "{part}": "2024-05-01"}
    query = {"/why-not": "?event=hot&at=2024-05-01", "/api/station": "?key=vie", "/sparql": "?query=ASK%20%7B%7D"}
    query["/partial"] = "?event=warm"
    query |= {"/api/past": "?at=0", "/api/series": "?event=reading&attribute=temp&key=vie"}
    found = []
    for path, methods in openapi["paths"].items():
        if method.lower() in methods:
            found.append(re.sub(r"{\w+}", lambda each: filled[each[0]], path) + query.get(path, ""))
    return found
