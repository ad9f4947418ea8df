"""Late, corrected and withdrawn records in explanations, and their effects on derived events.

- A late record has `late`: {by, at, told}.
- A record that corrects an earlier record has `replaces`: the earlier record and its values.
- An event that a revision has withdrawn or added has `changes`. Each has the form {change, at, told, record}.
  A change of the event's end also has `start` and `end`. A change of the event's sources also has `because`,
  the new sources.
- A withdrawn event has `because`: the sources that it had last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cep.connectors.records.revised import ADD, WITHDRAW
from cep.connectors.why import fluents
from cep.core.literals import say_duration
from cep.explain.occurrences import Occurrence, same
from cep.explain.question import EventQuestion
from cep.explain.revisions import DerivedChange, InputChange

if TYPE_CHECKING:
    from cep.connectors.why.text import Explainer

REVISE = "revise"
"""The kind of a change that replaces the end of a fluent's interval, or the sources of an event."""
Json = dict[str, Any]


def of_record(explainer: Explainer, occurrence: Occurrence) -> Json:
    """Return the keys that describe a late record, or a record that corrects an earlier record. For all other records,
    return an empty dictionary."""
    answer: Json = {}
    if explainer.revisions is None:
        return answer
    if (late := explainer.revisions.late.get(occurrence.order)) is not None:
        answer["late"] = {
            "by": explainer.json_value((late.time - occurrence.end, "duration")),
            **_at(explainer, late),
            "told": _late(explainer, late),
        }
    if (replaced := explainer.revisions.replaced.get(occurrence.order)) is not None:
        old = explainer.occurrence_text(replaced.record)
        answer["replaces"] = {"text": old, **_at(explainer, replaced), "told": f"it corrects {old}"}
    return answer


def of_event(explainer: Explainer, id: str) -> list[Json]:
    """Return the changes of a derived event by late or corrected records as JSON. The list may be empty."""
    changes = [] if explainer.revisions is None else explainer.revisions.changes(id)
    if all(change.why is None for change in changes):
        return []
    answer: list[Json] = []
    for before, change, after in zip([None, *changes], changes, [*changes[1:], None]):
        if not change.added and after is not None and after.why is change.why:
            continue  # otherwise the event exists again
        answer.append(_change(explainer, change))
        if before is not None and not before.added and before.why is change.why:
            answer[-1] |= {"change": REVISE} | fluents.times(explainer, change.occurrence)
            if before.occurrence == change.occurrence:
                answer[-1]["because"] = _because(explainer, change.because)
    return answer


def withdrawn(explainer: Explainer, question: EventQuestion | str) -> list[Json]:
    """Return the withdrawn events that match a question or have an `@id`, as JSON, last withdrawal first."""
    last: dict[str, DerivedChange] = {}
    for change in () if explainer.revisions is None else explainer.revisions.reported:
        if (
            change.id == question.removeprefix("@")
            if isinstance(question, str)
            else _asked(question, change.occurrence)
        ):
            last.pop(change.id, None)
            last[change.id] = change
    gone = [change for change in last.values() if not change.added]
    return [
        explainer.occurrence(change.occurrence, False)
        | {"id": change.id, "changes": of_event(explainer, change.id), "because": _because(explainer, change.because)}
        for change in reversed(gone)
    ]


def told(change: Mapping[str, Any]) -> str:
    """Describe a change of an event on one line."""
    words = {ADD: f"added at {change['at']}", WITHDRAW: f"withdrawn at {change['at']}"}
    if "because" in change:
        words[REVISE] = f"since {change['at']} it comes from {', '.join(change['because'])}"
    elif change["change"] == REVISE:
        end = "it has no end yet" if change["end"] is None else f"it ends at {change['end']}"
        words[REVISE] = f"since {change['at']} {end}"
    why = f": {change['told']}" if "told" in change else ""
    place = change.get("record") or {}
    return words[change["change"]] + why + (f"  {place['file']}:{place['line']}" if place else "")


def _change(explainer: Explainer, change: DerivedChange) -> Json:
    answer: Json = {"change": ADD if change.added else WITHDRAW, "at": explainer.time(change.time)}
    why = change.why
    if why is None:
        return answer
    answer["told"] = _told(explainer, why)
    place = None if explainer.origin is None else explainer.origin(Occurrence("", (), 0, 0, why.by, why.by + 1))
    return answer if place is None else answer | {"record": {"file": place[0], "line": place[1]}}


def _told(explainer: Explainer, why: InputChange) -> str:
    if why.of > 1:
        first = _told(explainer, replace(why, of=1))
        return f"one of {why.of:,} records that came late or were withdrawn, the first of them: {first}"
    text = f"{explainer.occurrence_text(why.record)} at {explainer.time(why.record.end)}"
    if why.kind == "late":
        return f"{text} {_late(explainer, why)}"
    if why.now is None:
        return f"{text} was withdrawn"
    return f"{text} was corrected to {explainer.occurrence_text(why.now)}"


def _late(explainer: Explainer, late: InputChange) -> str:
    return f"came {say_duration(late.time - late.record.end)} late, at {explainer.time(late.time)}"


def _at(explainer: Explainer, change: InputChange) -> Json:
    return {"at": explainer.time(change.time)}


def _asked(question: EventQuestion, occurrence: Occurrence) -> bool:
    fixed = all(
        place < len(occurrence.args) and same(occurrence.args[place], value) for place, value in question.fixed.items()
    )
    return occurrence.event == question.event and fixed and question.touches(occurrence)


def _because(explainer: Explainer, text: str) -> Sequence[str]:
    schemas, texts = explainer.engine.plan.schemas, []
    for load in json.loads(text):
        args = tuple(load[attribute.name] for attribute in schemas[load["type"]].attributes)
        occurrence = Occurrence(load["type"], args, load["start"], load["end"])
        texts.append(f"{explainer.occurrence_text(occurrence)} at {explainer.time(occurrence.end)}")
    return texts
