"""The results of rules on DataFrames: one DataFrame per derived event, and the rows that are not valid events."""

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
    """Derived events: a DataFrame for each, with `start` and `end` (timestamps) and one column per attribute.

    `dead` has the rows that are not valid events: `event`, `code` (a short name of the reason), `reason`, and the
    `record` as JSON.
    """

    def __init__(self, events: Mapping[str, DataFrame], dead: DataFrame, shared: DataFrame | None = None) -> None:
        super().__init__(events)
        self.dead, self._shared = dead, shared

    def cache(self) -> Events:
        """Keep the shared intermediate result once it is computed. Otherwise each DataFrame that is used runs the rules
        again."""
        if self._shared is not None:
            self._shared.persist()
        return self

    def unpersist(self) -> None:
        """Release the shared intermediate result."""
        if self._shared is not None:
            self._shared.unpersist()

    def __missing__(self, name: str) -> DataFrame:
        known = ", ".join(sorted(self)) or "none"
        hint = f"derived events are {known}"
        raise CepError(f"the program derives no event `{name}`{closest(name, list(self))}", hint=hint, code="name")
