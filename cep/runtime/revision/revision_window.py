"""How far back what has come may change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RevisionWindow:
    """In microseconds: `length`: how far behind the watermark what changes may be; `behind`: how far the watermark is
    behind the latest time. `final`: what is given is never withdrawn. `handed`: of a stage, what others hand on."""

    length: int
    behind: int
    final: bool
    handed: frozenset[str] | None = None
