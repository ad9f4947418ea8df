"""The base class of patterns and nodes. It computes the properties of a pattern or node once, and caches the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

Properties = TypeVar("Properties")


class WithProperties(ABC, Generic[Properties]):
    """A frozen dataclass with a cached record of type `Properties`, which passes read."""

    __slots__ = ("_properties",)
    _properties: Properties

    def properties(self) -> Properties:
        """Return the properties. They are computed at the first call."""
        try:
            return self._properties
        except AttributeError:
            object.__setattr__(self, "_properties", self.describe())
            return self._properties

    @abstractmethod
    def describe(self) -> Properties:
        """Compute the properties. `properties` calls this once."""
