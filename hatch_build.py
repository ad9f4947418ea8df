"""When a wheel is built: what the page of `cep serve` needs of others is fetched, and becomes part of it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Fetched(BuildHookInterface):  # type: ignore[type-arg]
    """An editable install has what `make page` has fetched; without a network a wheel has no map, and says so."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            runpy.run_path(str(Path(self.root) / "connectors" / "serving" / "vendor.py"))["main"]()
