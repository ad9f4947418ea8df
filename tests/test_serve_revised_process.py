"""`cep serve --revise` as a process: what its options refuse, records by hand, a crash in between."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from cep.command import app
from tests.test_serve import Server

KEYED = """
event reading(fridge: string, n: int, temp: float) TIME time KEY fridge, n.
warm(F, T) <- reading(F, _, T) WHERE T > 7.
ALERT warm ON warm(f: F, t: T) TITLE "{F} at {T}" FOR 1 h KEYED BY F.
"""
WARM = "SELECT ?t { ?e <urn:semcep:attribute/warm/t> ?t } ORDER BY ?t"
READ = "SELECT ?t { ?e a sosa:Observation ; <urn:semcep:attribute/reading/temp> ?t } ORDER BY ?t"
GONE = "SELECT ?t { GRAPH ?g { ?e <urn:semcep:attribute/warm/t> ?t ; prov:invalidatedAtTime ?at } } ORDER BY ?t"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def say(server: Server, minute: int, temp: float | None = None, n: int = 1, **more: str) -> None:
    record = {"type": "reading", "time": f"2024-05-01T08:{minute:02}:00Z", "fridge": "milk", "n": n, **more}
    assert server.process.stdin is not None
    server.process.stdin.write(json.dumps(record | ({} if temp is None else {"temp": temp})) + "\n")
    server.process.stdin.flush()


@pytest.mark.parametrize(
    "options, message",
    [
        (["--revise", "soon"], "--revise"),
        (["--keep-history"], "--keep-history needs --revise"),
        (["--revise", "-1h"], "--revise"),
        (["--revise", "1h", "--lateness", "2h"], "--lateness 2h is more than --revise 1h"),
        (["--revise", "1h", "--on", "spark"], "--revise cannot be used with `--on spark`"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(KEYED)
    result = CliRunner().invoke(app, ["serve", str(tmp_path / "rules.cep"), "--input", "-", *options])
    assert result.exit_code == 2 and message in result.stderr.replace("\n", " "), result.stderr


def test_records_are_corrected_and_withdrawn_also_after_a_crash(tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(KEYED)
    dead = tmp_path / "dead.jsonl"
    arguments = [str(tmp_path / "rules.cep"), "--input", "-", "--idle", "never", "--state", str(tmp_path / "state")]
    arguments += ["--revise", "30min", "--keep-history", "--dead-letter", str(dead), "--readings", "--explain"]
    first = Server(*arguments)
    say(first, 20, 8.0)
    say(first, 0, 9.0)  # late
    assert first.rows(WARM, 2) == [["8"], ["9"]]
    say(first, 0, 7.5)  # corrected
    assert first.rows(GONE, 1) == [["9"]]
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    second = Server(*arguments)
    assert second.rows(WARM) == [["7.5"], ["8"]] and second.rows(GONE) == [["9"]]
    assert second.rows(READ) == [["7.5"], ["8"]]
    say(second, 20, **{"@change": "withdraw"})  # no more than key and time
    assert second.rows(GONE, 2) == [["8"], ["9"]] and second.rows(WARM) == [["7.5"]]
    say(second, 20, **{"@change": "withdraw"})
    say(second, 20, 1.0, **{"@change": "remove"})
    say(second, 50, 1.0)
    say(second, 19, 9.5)  # more than 30 minutes before
    metrics = "semcep_dead_letters_total"
    second.look("/api/state", lambda state: state["numbers"]["dead"] >= 3)
    text = httpx.get(second.url + "/metrics").text
    assert f'{metrics}{{reason="unknown-withdrawal"}} 1.0' in text and f'{metrics}{{reason="change"}} 1.0' in text
    assert f'{metrics}{{reason="late"}} 1.0' in text and 'semcep_events_late_total{event="reading"} 1.0' in text
    for name in ("revision_late", "revisions", "revision_withdrawn", "revision_keys_replayed", "revision_seconds"):
        assert re.search(rf"^semcep_{name}_total [0-9.e-]*[1-9]", text, re.MULTILINE), name
    told = [one for each in _alerts(second.url) for one in httpx.get(f"{second.url}/feeds/alerts/{each}").json()]
    late = "reading(milk, 1, 7.5) at 2024-05-01T08:00:00Z came 20 min late, at 2024-05-01T08:20:00Z"
    assert f"Taken back: {late}; the events that led to this alert no longer exist." in {
        one["note"] for one in told if one["withdrawn"]
    }
    (right,) = (one for one in told if one["note"].startswith("Put right"))
    assert right["note"] == "Put right: reading(milk, 1) at 2024-05-01T08:20:00Z was withdrawn."
    assert right["title"] == "milk at 7.5" and right["state"] == "updated"
    assert [one["state"] for one in told if one["title"] == "milk at 7.5" and not one["note"]] == ["firing"]
    assert second.rows(READ) == [["1"], ["7.5"]]
    (taken_back,) = (one["last"] for one in told if one["withdrawn"] and one["title"] == "milk at 8")
    why = httpx.get(f"{second.url}/why/{taken_back}", params={"format": "text"}).text
    assert "was withdrawn" in why and 'reading("milk", 1, 8)' in why
    assert second.end(signal.SIGTERM) == 0
    reasons = [json.loads(line)["reason"] for line in dead.read_text().splitlines()]
    assert "withdraws a record that does not exist" in reasons and len(reasons) == 3


@pytest.mark.long
def test_what_is_changed_begins_anew_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(KEYED)
    arguments = [str(tmp_path / "rules.cep"), "--input", "-", "--idle", "never", "--state", str(tmp_path / "state")]
    revising = ["--revise", "30min", "--keep-history"]
    first = Server(*arguments, *revising)
    say(first, 0, 7.5)
    assert first.rows(WARM, 1) == [["7.5"]]
    say(first, 50, 1.0)
    assert first.end(signal.SIGTERM) == 0
    (tmp_path / "rules.cep").write_text(KEYED.replace("T > 7", "T > 6"))
    second = Server(*arguments, *revising)
    (told,) = (line["text"] for line in second.logged if line["event"] == "begins_anew")
    assert "the program has changed, and with --revise no rule can keep its state" in told
    say(second, 50, **{"@change": "withdraw"})
    say(second, 55, 6.5)
    assert second.rows(WARM, 2) == [["6.5"], ["7.5"]], "what was derived stays"
    second.look("/api/state", lambda state: state["numbers"]["dead"] == 1)
    assert second.end(signal.SIGTERM) == 0
    third = Server(*arguments)
    assert any(line["event"] == "begins_anew" for line in third.logged), "it says that it begins anew"
    assert third.rows(WARM) == [["6.5"], ["7.5"]]
    assert third.end(signal.SIGTERM) == 0


def _alerts(url: str) -> set[str]:
    changes = httpx.get(f"{url}/api/state").json()["alerts"]
    return {one["alert"] for one in changes}


def test_without_revise_a_record_replaces_one_that_waits(tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(KEYED)
    arguments = [str(tmp_path / "rules.cep"), "--input", "-", "--idle", "never", "--lateness", "10min"]
    server = Server(*arguments)
    say(server, 0, 9.0)
    say(server, 1, 8.5, 2)
    say(server, 0, 7.5)
    say(server, 1, 8.5, 2, **{"@change": "withdraw"})
    say(server, 30, 8.0)
    say(server, 50, 1.0)
    assert server.rows(WARM, 2) == [["7.5"], ["8"]], "corrected and withdrawn while it waited"
    assert server.end(signal.SIGTERM) == 0
