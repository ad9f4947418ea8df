"""Messages to a broker, and the interface of the clients that send them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

WAIT = 60.0
"""The time limit for a broker to accept messages, in seconds."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to a broker.

    `id`: a hash of the event that the message contains. It is the same in every run, and different events have
    different hashes. If an event occurs several times, each occurrence has its own hash.
    """

    topic: str
    key: bytes | None
    payload: bytes
    id: str


class MessageSender(Protocol):
    """A client that sends messages to a broker."""

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages in this order. Wait until the broker has accepted them.

        Raises CepError if the broker has not accepted all messages.
        """

    def close(self) -> None: ...
