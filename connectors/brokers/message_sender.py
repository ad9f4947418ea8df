"""A broker as an output: the messages it is sent, and what a client of it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

WAIT = 60.0
"""Seconds in which a broker has to take what it is sent."""


@dataclass(frozen=True, slots=True)
class Message:
    """`id`: the same of equal events, whichever run has derived them, and of no others."""

    topic: str
    key: bytes | None
    payload: bytes
    id: str


class MessageSender(Protocol):
    """A broker that messages go to."""

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages in this order; the broker has them when this returns. CepError: it has not taken all."""

    def close(self) -> None: ...
