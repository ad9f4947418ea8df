"""A client that follows the changes of alerts, for tests. It compares the final state of each with
`reference_alerts`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tests.reference_alerts import Change

Document = Mapping[str, Any]


class Told:
    """Changes of alerts as documents of JSON (`cep.connectors.receivers.document`), in the order in which they came.
    `second`: so many microseconds; `since`: the second that is 0."""

    def __init__(self, second: int, since: int = 0) -> None:
        self.second, self.since = second, since
        self.changes: list[Document] = []
        self._names: dict[tuple[Any, ...], str] = {}

    def take(self, every: Sequence[Document]) -> None:
        """All changes from the first on. AssertionError: what came before has changed, or a change is missing, there
        twice or out of order."""
        assert list(every[: len(self.changes)]) == self.changes, "what was told stays told"
        self.changes = list(every)
        lives: dict[str, list[Document]] = {}
        for change in every:
            lives.setdefault(change["alert"], []).append(change)
        for alert, life in lives.items():
            assert [each["revision"] for each in life] == list(range(len(life))), alert
            assert life[0]["state"] in ("pending", "firing", "resolved"), alert
            for one, other in zip(life, life[1:]):
                assert other["state"] != "firing" or one["fired"] is None or one["withdrawn"] or one["inhibited"]
                assert {**one, "id": 0, "revision": 0} != {**other, "id": 0, "revision": 0}, "none is told twice"

    def names(self) -> Mapping[tuple[Any, ...], str]:
        """The id of each alert that was compared, by the statement's name, the key and the first occurrence."""
        return self._names

    def standing(self) -> dict[str, Document]:
        """The final state of each alert; one that is withdrawn never was."""
        last = {change["alert"]: change for change in self.changes}
        return {alert: change for alert, change in last.items() if not change["withdrawn"]}

    def check(self, expected: Sequence[Change]) -> None:
        """AssertionError: what the alerts came to is not what these changes come to."""
        last = {(each.name, each.key, each.first): each for each in expected}
        due = sorted(map(_due, last.values()), key=repr)
        mine = sorted(map(self._said, self.standing().values()), key=repr)
        assert mine == due, f"\n{_difference(mine, due)}"
        self._named(last.values())

    def check_all(self, expected: Sequence[Change]) -> None:
        """AssertionError: not each of these changes was told, once and in the order of their times."""
        lives: dict[tuple[Any, ...], list[Change]] = {}
        for each in expected:
            lives.setdefault((each.name, each.key, each.first), []).append(each)
        told: dict[str, list[Document]] = {}
        for change in self.changes:
            told.setdefault(change["alert"], []).append(change)
        due = sorted(([(each.state, each.time, _due(each)) for each in life] for life in lives.values()), key=repr)
        mine = sorted(
            ([(each["state"], self._time(each["time"]), self._said(each)) for each in life] for life in told.values()),
            key=repr,
        )
        assert mine == due, f"\n{_difference(mine, due)}"
        times = [self._time(change["time"]) for change in self.changes]
        assert times == sorted(times), "in the order of their times"
        self._named([life[0] for life in lives.values()])

    def _said(self, change: Document) -> tuple[Any, ...]:
        over = _standing(change["state"])
        times = [self._time(change[name]) for name in ("start", "end", "until")]
        at = self._time(change["time"]) if over == "resolved" else times[1]
        return (
            change["name"],
            tuple(change["key"].values()),
            over,
            at,
            *times,
            change["occurrences"],
            change["severity"],
            change["title"],
            change["text"],
            tuple(change["values"].items()),
            None if change["fired"] is None else self._time(change["fired"]),
            tuple(change["labels"].items()),
            change["runbook"],
            change["inhibited"] if over not in ("resolved", "pending") else None,
        )

    def _time(self, text: str) -> float:
        return (datetime.fromisoformat(text).timestamp() * 1_000_000 - self.since) / self.second

    def _named(self, expected: Iterable[Change]) -> None:
        """One alert has one name, whatever happens."""
        there = {self._said(change): alert for alert, change in self.standing().items()}
        for each in expected:
            place = (each.name, each.key, each.first)
            name = there.get(_due(each))
            if name is not None:
                assert self._names.setdefault(place, name) == name, f"{place} has another name"


def _due(change: Change) -> tuple[Any, ...]:
    over = _standing(change.state)
    at = change.time if over == "resolved" else change.end
    said = (change.name, change.key, over, at, change.start, change.end, change.until, change.occurrences)
    words = change.severity, change.title, change.text, change.values
    inhibited = change.inhibited if over not in ("resolved", "pending") else None
    return (*said, *words, change.fired, change.labels, change.runbook, inhibited)


def _standing(state: str) -> str:
    """The state of an alert, however it came to it."""
    return "fires" if state in ("firing", "updated", "escalated", "inhibited", "kept") else state


def _difference(mine: Sequence[Any], due: Sequence[Any]) -> str:
    told = [f"told: {each}" for each in mine if each not in due]
    return "\n".join((*told, *(f"due:  {each}" for each in due if each not in mine)))
