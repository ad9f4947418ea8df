"""Late, corrected and withdrawn records in explanations, and their effects.

A late record has `late`: {by, at, told}. A record that corrects another has `replaces`: the earlier record with its
values. An event that was withdrawn, or added by a revision, has `changes`, each {change, at, told, record}. A revision
that changes its end has start and end; one that changes its sources has `because`, the new sources. For a withdrawn
event, `because` contains its last sources.
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
"""The kind of change by which a fluent's interval gets another end, or an event other sources."""
Json = dict[str, Any]


def of_record(explainer: Explainer, one: Occurrence) -> Json:
    """Return the keys for a record that was late or corrected another."""
    answer: Json = {}
    if explainer.revisions is None:
        return answer
    if (late := explainer.revisions.late.get(one.order)) is not None:
        answer["late"] = {
            "by": explainer.json_value((late.at - one.end, "duration")),
            **_at(explainer, late),
            "told": _late(explainer, late),
        }
    if (replaced := explainer.revisions.replaced.get(one.order)) is not None:
        old = explainer.occurrence_text(replaced.record)
        answer["replaces"] = {"text": old, **_at(explainer, replaced), "told": f"it corrects {old}"}
    return answer


def of_event(explainer: Explainer, id: str) -> list[Json]:
    """Return the changes of an event; none if it only arrived in order."""
    found = [] if explainer.revisions is None else explainer.revisions.changes(id)
    if all(each.why is None for each in found):
        return []
    answer: list[Json] = []
    for before, each, after in zip([None, *found], found, [*found[1:], None]):
        if not each.added and after is not None and after.why is each.why:
            continue  # otherwise the event exists again
        answer.append(_change(explainer, each))
        if before is not None and not before.added and before.why is each.why:
            answer[-1] |= {"change": REVISE} | fluents.times(explainer, each.occurrence)
            if before.occurrence == each.occurrence:
                answer[-1]["because"] = _because(explainer, each.because)
    return answer


def withdrawn(explainer: Explainer, question: EventQuestion | str) -> list[Json]:
    """Return the withdrawn events that match a question or an `@id`, latest first."""
    last: dict[str, DerivedChange] = {}
    for each in () if explainer.revisions is None else explainer.revisions.given:
        if each.id == question.removeprefix("@") if isinstance(question, str) else _asked(question, each.occurrence):
            last.pop(each.id, None)
            last[each.id] = each
    gone = [each for each in last.values() if not each.added]
    return [
        explainer.occurrence(each.occurrence, False)
        | {"id": each.id, "changes": of_event(explainer, each.id), "because": _because(explainer, each.because)}
        for each in reversed(gone)
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
    answer: Json = {"change": ADD if change.added else WITHDRAW, "at": explainer.time(change.at)}
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
    return f"came {say_duration(late.at - late.record.end)} late, at {explainer.time(late.at)}"


def _at(explainer: Explainer, change: InputChange) -> Json:
    return {"at": explainer.time(change.at)}


def _asked(question: EventQuestion, one: Occurrence) -> bool:
    fixed = all(place < len(one.args) and same(one.args[place], value) for place, value in question.fixed.items())
    return one.event == question.event and fixed and question.touches(one)


def _because(explainer: Explainer, text: str) -> Sequence[str]:
    """Convert records from the form of lineage to the form of rules."""
    schemas, found = explainer.engine.plan.schemas, []
    for each in json.loads(text):
        args = tuple(each[attribute.name] for attribute in schemas[each["type"]].attributes)
        one = Occurrence(each["type"], args, each["start"], each["end"])
        found.append(f"{explainer.occurrence_text(one)} at {explainer.time(one.end)}")
    return found
