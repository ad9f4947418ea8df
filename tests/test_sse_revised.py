"""Who reads the streams of a server that revises, and is away for a while: what comes after is one story with what came
before."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.page_server import SECOND, Shown, shown

PROGRAM = """
event reading(station: string, temp: float, y: float?, x: float?) TIME time KEY station.
warm(S, T) <- reading(S, T, _, _) WHERE T > 30.
fluent high(station: string).
initiate high(S) <- reading(S, T, _, _) WHERE T > 30.
terminate high(S) <- reading(S, T, _, _) WHERE T <= 30.
ALERT heat ON warm(s: S, t: T) TITLE "{S} at {T}" FOR 10 min KEYED BY S.
ALERT high ON high(S) TITLE "{S} is high" FOR 5 s KEYED BY S.
"""


def read(url: str, path: str, last: str, until: str) -> list[tuple[str, dict[str, Any]]]:
    """What a client is sent behind its last event, up to one."""
    found: list[tuple[str, dict[str, Any]]] = []
    fields: dict[str, str] = {}
    with httpx.stream("GET", f"{url}{path}", headers={"Last-Event-ID": last}, timeout=60) as answer:
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif "data" in fields:
                found.append((fields["id"], json.loads(fields["data"])))
                if fields["id"] == until:
                    return found
            fields = fields if line else {}
    raise AssertionError("the stream ended")


def happens(one: Shown, rng: random.Random, minute: int) -> None:
    """Some records, late or not, corrected or withdrawn."""
    for _ in range(rng.randrange(1, 4)):
        at = 60 * max(0, minute - rng.choice((0, 0, 0, 2, 5)))
        one.push((at, rng.choice(("vie", "grz")), rng.choice((20.0, 31.0, 40.0))), change=rng.choice((1, 1, 1, -1)))


@pytest.mark.parametrize("seed", range(2))
def test_a_client_that_was_away_goes_on_with_the_same_story(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"away {seed}")
    told: list[tuple[str, dict[str, Any]]] = []
    page: dict[str, int | None] = {}
    place, gone = "", 0
    with shown(tmp_path, PROGRAM, revise=3600 * SECOND) as one:
        for minute in range(12):
            happens(one, rng, minute)
            if rng.random() < 0.5 and minute < 11:
                continue  # nobody reads
            if rng.random() < 0.3:  # the server goes and comes, too
                one.stop()
                one.start()
                place = ""
            last = str(one.outbox.last)
            before = told[-1][0] if told else "0"
            if before != last:
                told += read(one.url, "/feeds/events?after=0", before, last)
            state = httpx.get(f"{one.url}/api/state").json()
            if not place:
                page = {each["id"]: each["end"] for each in state["events"]}
            elif state["at"] != place:
                for _, news in read(one.url, "/api/stream", place, state["at"]):
                    gone += len(news["withdrawn"])
                    for each in news["withdrawn"]:
                        page.pop(each["id"], None)
                    page |= {each["id"]: each["end"] for each in news["events"]}
            place = state["at"]
            assert page == {each["id"]: each["end"] for each in state["events"]}, "as who opens it now"
        live = {entry.change.alert: entry.change.occurrences for entry in one.outbox.live()}
    assert [number for number, _ in told] == [str(number) for number in range(1, len(told) + 1)], "each once, in order"
    revisions: dict[str, int] = {}
    standing: dict[str, int] = {}
    for _, change in told:
        name = change["alert"]
        assert change["revision"] == revisions.get(name, -1) + 1, "none is missing"
        if change["withdrawn"]:
            assert name in revisions and change["note"].startswith("Taken back: "), "it was told, and it is said why"
        revisions[name] = change["revision"]
        standing.pop(name, None)
        if change["state"] != "resolved":
            standing[name] = change["occurrences"]
    assert standing == live and any(change["withdrawn"] for _, change in told) and gone
