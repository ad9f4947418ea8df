"""The base of patterns and nodes: a record of properties for passes, made once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

Properties = TypeVar("Properties")


class WithProperties(ABC, Generic[Properties]):
    """A frozen dataclass of some operator; `Properties` is the record of what passes ask of it."""

    __slots__ = ("_properties",)
    _properties: Properties

    def properties(self) -> Properties:
        """Return the properties, computed at the first call."""
        try:
            return self._properties
        except AttributeError:
            object.__setattr__(self, "_properties", self.describe())
            return self._properties

    @abstractmethod
    def describe(self) -> Properties:
        """Its properties; `properties` asks for them once."""
