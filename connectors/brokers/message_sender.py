"""A broker as an output: its messages, and the interface of its client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

WAIT = 60.0
"""The time limit for a broker to accept messages, in seconds."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message. `id`: a hash of the event, the same in every run; different events have different ids."""

    topic: str
    key: bytes | None
    payload: bytes
    id: str


class MessageSender(Protocol):
    """A client that sends messages to a broker."""

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages in this order, and wait until the broker has accepted them. Raises CepError if it has not
        accepted all."""

    def close(self) -> None: ...
