"""The results of rules on DataFrames: one DataFrame per derived event, and one for rows that are not valid events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cep.connectors.records.records import closest
from cep.core.errors import CepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LETTERS = "event string, code string, reason string, record string"
"""The columns of rows that are not valid events."""


class Events(dict[str, "DataFrame"]):
    """Derived events: one DataFrame per event type, with the columns `start`, `end` (timestamps) and the attributes.

    `dead` contains the rows that are not valid events. Its columns are `event`, `code` (a short name of the reason),
    `reason`, and `record` (the rejected row as JSON).
    """

    def __init__(self, events: Mapping[str, DataFrame], dead: DataFrame, shared: DataFrame | None = None) -> None:
        super().__init__(events)
        self.dead, self._shared = dead, shared

    def cache(self) -> Events:
        """Cache the intermediate result that all DataFrames share. Otherwise Spark runs the rules for each
        DataFrame."""
        if self._shared is not None:
            self._shared.persist()
        return self

    def unpersist(self) -> None:
        """Release the cached intermediate result."""
        if self._shared is not None:
            self._shared.unpersist()

    def __missing__(self, name: str) -> DataFrame:
        known = ", ".join(sorted(self)) or "none"
        hint = f"derived events are {known}"
        raise CepError(f"the program derives no event `{name}`{closest(name, list(self))}", hint=hint, code="name")
