"""What patterns and nodes have in common: a record of facts that passes ask for, made once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

Facts = TypeVar("Facts")


class WithFacts(ABC, Generic[Facts]):
    """A frozen dataclass of some operator; `Facts` is the record of what passes ask of it."""

    __slots__ = ("_facts",)
    _facts: Facts

    def facts(self) -> Facts:
        """What passes ask of it."""
        try:
            return self._facts
        except AttributeError:
            object.__setattr__(self, "_facts", self.describe())
            return self._facts

    @abstractmethod
    def describe(self) -> Facts:
        """Its facts; `facts` asks for them once."""
