"""Reminders (`REPEAT`) by brute force, following only on-call.md.

Receivers are reminded by the wall clock while an alert fires and nobody has acknowledged it. They receive nothing about
an alert that is silenced or inhibited.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Heard:
    """The deliveries about one alert: the seconds of the last one and of the last change, and the numbers of its
    reminders, by the id of the change."""

    last: int
    change: int
    reminders: dict[str, list[int]] = field(default_factory=dict)

    def begin_again(self, repeat: int, now: int) -> None:
        """The server has started again: reminders go on from the last change that the receiver has."""
        self.last = self.change + (now - self.change) // repeat * repeat


def due(heard: Heard | None, repeat: int, now: int, fires: bool, acknowledged: bool, hidden: bool) -> bool:
    """Return True if a receiver that is sent no change of an alert at this second is reminded of it."""
    if heard is None or not repeat or acknowledged or hidden or not fires:
        return False
    return now - heard.last >= repeat
