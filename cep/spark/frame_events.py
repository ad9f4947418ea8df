"""The events that rules derive from DataFrames, one DataFrame each, and the rows that became no event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cep.connectors.records.records import closest
from cep.core.errors import CepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LETTERS = "event string, code string, reason string, record string"
"""The columns of rows that became no event."""


class Events(dict[str, "DataFrame"]):
    """Derived events: a DataFrame for each, with `start` and `end` (timestamps) and a column for each attribute. `dead`
    has the rows that became no event: `event`, `code` (a short name for why), `reason` and the `record` as JSON."""

    def __init__(self, events: Mapping[str, DataFrame], dead: DataFrame, shared: DataFrame | None = None) -> None:
        super().__init__(events)
        self.dead, self._shared = dead, shared

    def cache(self) -> Events:
        """Keep what all of them are computed from, once it is: else each that is used steps the rules anew."""
        if self._shared is not None:
            self._shared.persist()
        return self

    def unpersist(self) -> None:
        """Let go of it."""
        if self._shared is not None:
            self._shared.unpersist()

    def __missing__(self, name: str) -> DataFrame:
        known = ", ".join(sorted(self)) or "none"
        hint = f"derived events are {known}"
        raise CepError(f"the program derives no event `{name}`{closest(name, list(self))}", hint=hint, code="name")
