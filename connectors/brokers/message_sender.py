"""A broker as an output: the messages that it is sent, and the interface of its client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

WAIT = 60.0
"""Seconds in which a broker has to accept messages."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message. `id`: the same for equal events in any run, and different for others."""

    topic: str
    key: bytes | None
    payload: bytes
    id: str


class MessageSender(Protocol):
    """A broker that messages go to."""

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages in this order; the broker has them when this returns. CepError: it has not accepted all."""

    def close(self) -> None: ...
