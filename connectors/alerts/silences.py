"""Silences: while a silence is active, receivers are not sent the alerts whose labels the silence matches."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import uuid4

from cep.connectors.alerts.matchers import Matchers
from cep.connectors.alerts.text import clean, rfc3339
from cep.core.errors import CepError

SilenceState = Literal["pending", "active", "expired"]

KEPT = 120 * 3600 * 1_000_000
"""The time in microseconds for which a silence is listed after its end. Alertmanager uses the same time."""

LONGEST_COMMENT, LONGEST_AUTHOR = 2_000, 300


@dataclass(frozen=True, slots=True)
class Silence:
    """A silence from `starts` until `ends`, in microseconds of Unix time by the wall clock.

    `updated`: the time at which the silence was last changed. `maintenance`: True if the silence is a maintenance
    window, which only the calendar can end.
    """

    id: str
    matchers: Matchers
    starts: int
    ends: int
    author: str
    comment: str
    updated: int
    maintenance: bool = False

    def state(self, now: int) -> SilenceState:
        """Return the state of the silence at the time `now`."""
        return "pending" if now < self.starts else "active" if now < self.ends else "expired"

    def expired(self, now: int) -> Silence:
        """Return a copy of the silence that ends at `now`."""
        return replace(self, starts=min(self.starts, now), ends=min(self.ends, now), updated=now)

    def dump(self) -> str:
        """Return the silence as JSON, for the outbox."""
        kept = [str(self.matchers), self.starts, self.ends, self.author, self.comment, self.updated]
        return json.dumps(kept, ensure_ascii=False)

    @classmethod
    def load(cls, id: str, text: str) -> Silence:
        matchers, starts, ends, author, comment, updated = json.loads(text)
        return cls(id, Matchers.parse(matchers), starts, ends, author, comment, updated)

    def document(self, now: int) -> dict[str, Any]:
        """Return the silence as an object of Alertmanager's API."""
        return {
            "id": self.id,
            "status": {"state": self.state(now)},
            "matchers": matcher_documents(self.matchers),
            "startsAt": rfc3339(self.starts),
            "endsAt": rfc3339(self.ends),
            "updatedAt": rfc3339(self.updated),
            "createdBy": self.author,
            "comment": self.comment,
        }


def silence(
    matchers: Matchers, starts: int | None, ends: int | None, author: str, comment: str, now: int, id: str = ""
) -> Silence:
    """Create a silence that begins `now` or later.

    Raises CepError if the silence would hide every alert, if it has no end, if it does not end after it begins, or if
    its end is in the past.
    """
    if matchers.match_all:
        message = "silence: these matchers hide every alert" if matchers else "silence: the matchers are missing"
        raise CepError(message, hint='name an alert or a label: `alertname="flood"`, `site=~".+"`', code="silence")
    if ends is None:
        hint = '`"endsAt": "2026-12-01T06:00:00Z"`'
        raise CepError("silence: `endsAt` is missing, so the silence would never end", hint=hint, code="silence")
    starts = now if starts is None else max(starts, now)
    if ends <= now:
        raise CepError(
            f"silence: `endsAt`, {rfc3339(ends)}, is in the past", hint="use a later `endsAt`", code="silence"
        )
    if ends <= starts:
        message = f"silence: `endsAt`, {rfc3339(ends)}, is before `startsAt`, {rfc3339(starts)}"
        raise CepError(message, hint="use an `endsAt` after `startsAt`", code="silence")
    return Silence(
        id or str(uuid4()), matchers, starts, ends, clean(author, LONGEST_AUTHOR), clean(comment, LONGEST_COMMENT), now
    )


def matcher_documents(matchers: Matchers) -> list[dict[str, Any]]:
    """Return matchers as the objects that Alertmanager's API uses."""
    return [
        {
            "name": matcher.name,
            "value": matcher.value,
            "isRegex": matcher.operator in ("=~", "!~"),
            "isEqual": matcher.operator in ("=", "=~"),
        }
        for matcher in matchers
    ]
