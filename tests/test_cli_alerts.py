"""`cep alerts`: what people type, what they read, and what they are told of mistakes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from tests import desk as desks
from tests.desk import BEN, PROGRAM, WALL, Desk


class Terminal:
    """Commands against a server; `desk` is what they are about."""

    def __init__(self, desk: Desk, url: str) -> None:
        self.desk, self.url = desk, url

    def run(self, *words: str, token: str = BEN) -> Result:
        environment = {"CEP_SERVER": self.url, "CEP_TOKEN": token, "COLUMNS": "80"}
        return CliRunner().invoke(app, ["alerts", *words], env=environment)

    def says(self, *words: str) -> str:
        done = self.run(*words)
        assert done.exit_code == 0, done.output
        assert all(len(line) <= 80 for line in done.stdout.splitlines() if "page" not in line), done.stdout
        return done.stdout.rstrip("\n")

    def refuses(self, *words: str, token: str = BEN) -> str:
        done = self.run(*words, token=token)
        assert done.exit_code == 2, done.output
        return done.stderr


MORE = """ALERT deep ON level(site: S, cm: L) WHERE L > 50 TITLE "Deep at {S}" INSTRUCTION "Stay inside."
  FOR 1 h KEYED BY S.
ALERT any_flood ON level(site: S, cm: L) WHERE L > 50 TITLE "Floods" FOR 1 h.
"""


@pytest.fixture
def terminal(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setattr(desks, "PROGRAM", desks.PROGRAM + getattr(request, "param", ""))
    desk = Desk(tmp_path)
    with closing(desk.outbox):
        desk.take((0, "a", 9), (1, "b", 9), (2, "c", 9), (3, "c", 0), (4, "x", 4))
        with desk.served() as url:
            yield Terminal(desk, url)


def test_an_alert_is_worked_on_from_a_terminal(terminal: Terminal) -> None:
    desk, alert = terminal.desk, terminal.desk.alert()
    short = alert[:8]
    assert terminal.says("list").splitlines() == [
        "id        severity  state   since UTC    who  what",
        f"{desk.alert('b')[:8]}  Minor     firing  01-01 00:00  -    Flood at b",
        f"{short}  Minor     firing  01-01 00:00  -    Flood at a",
    ]
    assert terminal.says("ack", short, "-m", "on my way") == f"{short} Flood at a: acknowledged by ben"
    assert terminal.says("assign", short, "ann") == f"{short} Flood at a: assigned to ann"
    assert terminal.says("comment", short, "a \x1b[31mboat").endswith("Flood at a: comment added")
    assert terminal.says("list").splitlines()[2] == (
        f"{short}  Minor     acknowledged  01-01 00:00  ben, for ann  Flood at a"
    )
    assert terminal.says("close", short, "true").endswith("closed as true")
    assert terminal.says("list").splitlines()[2].endswith("ben, for ann  [true] Flood at a")
    assert terminal.says("close", short, "--undo").endswith("no longer closed")
    assert terminal.says("list").splitlines()[2].endswith("ben, for ann  Flood at a")
    assert terminal.run("close", short).exit_code and terminal.run("close", short, "true", "--undo").exit_code
    assert terminal.says("close", short, "true").endswith("closed as true")
    shown = terminal.says("show", short)
    assert "acknowledged by ben: on my way" in shown and "assigned to ann by ben" in shown
    assert "closed as true by ben" in shown and "\x1b" not in shown
    assert "  state         acknowledged, Minor" in shown.splitlines(), "the same word as in the list and on the page"
    assert terminal.says("ack", short, "--undo").endswith("no longer acknowledged")
    assert [each["alert"] for each in json.loads(terminal.says("list", "--assignee", "ann", "--json"))] == [alert]
    assert len(terminal.says("list", "--all").splitlines()) == 4
    assert terminal.says("list", "--assignee", "cat") == "no alert matches"
    assert terminal.says("list", "--matcher", "site=nowhere", "--all") == "no alert matches"
    terminal.desk.take((30, "a", 0), (31, "b", 0), (32, "x", 4))
    assert terminal.says("list") == "no alerts are open"


def test_the_most_severe_alerts_come_first_and_a_cut_is_said(terminal: Terminal) -> None:
    desk = terminal.desk
    desk.take((12, "d", 9), (13, "x", 4))  # the first ones have escalated by then
    done = terminal.run("list", "--limit", "2")
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["severity", "Severe", "Severe"]
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["what", "b", "a"], "the newest of them first"
    assert done.stderr.splitlines() == ["2 of 3 shown; `--limit N` shows more"]
    assert not terminal.run("list").stderr


@pytest.mark.parametrize("terminal", [MORE], indirect=True)
def test_one_alert_is_shown_with_all_that_it_says(terminal: Terminal) -> None:
    terminal.desk.take((5, "d", 100), (6, "x", 4))
    (deep,) = json.loads(terminal.says("list", "--name", "deep", "--json"))
    shown = terminal.says("show", deep["alert"][:8]).splitlines()
    for line in ("since         1970-01-01 00:00:05 UTC", "key           site=d", "instruction   Stay inside."):
        assert f"  {line}" in shown, shown
    assert "  values        cm=100" in shown and shown[-1].endswith("  01-01 00:00:05  firing, Unknown")


def test_the_end_of_an_alert_is_shown_also_after_people_spoke_of_it(terminal: Terminal) -> None:
    (over,) = json.loads(terminal.says("list", "--state", "resolved", "--json"))
    terminal.says("close", over["alert"], "false", "-m", "a boat")
    shown = terminal.says("show", over["alert"])
    assert "\n  over          1970-01-01 00:00:03 UTC\n" in shown and "\n  state         resolved, Minor\n" in shown


def test_what_is_recorded_and_event_time_have_columns_of_their_own(terminal: Terminal) -> None:
    alert = terminal.desk.alert()
    terminal.says("ack", alert)
    terminal.desk.take((30, "x", 4))
    rows = terminal.says("show", alert).split("\n\n")[1].splitlines()
    assert rows[0] == "recorded UTC    event time      what happened"
    times = [row[:14] for row in rows[1:]]
    assert times == sorted(times) and "-" not in [time.strip() for time in times]
    events = [row[16:30].strip() for row in rows[1:]]
    assert events[0] == "01-01 00:00:00" and events[-1] == "" and rows[-1].endswith("acknowledged by ben")


@pytest.mark.parametrize("terminal", ['ALERT wet ON high(S) TITLE "Wet at {S}" KEYED BY S KEEP 1 h.\n'], indirect=True)
def test_a_kept_alert_is_listed_as_kept_also_when_somebody_has_it(terminal: Terminal) -> None:
    (kept,) = json.loads(terminal.says("list", "--state", "kept", "--json"))
    terminal.says("ack", kept["alert"])
    assert terminal.says("list", "--state", "kept").splitlines()[1].split()[2:] == [
        "kept", "01-01", "00:00", "ben", "Wet", "at", "c",
    ]  # fmt: skip
    assert "\n  state         kept, Unknown\n" in terminal.says("show", kept["alert"])


def test_comments_go_with_what_is_taken_back(terminal: Terminal) -> None:
    alert = terminal.desk.alert()
    for words, said in (
        (["ack", alert], ""), (["ack", alert, "--undo", "-m", "my shift ends"], "my shift ends"),
        (["close", alert, "test"], ""), (["close", alert, "--undo", "-m", "it was real"], "it was real"),
    ):  # fmt: skip
        terminal.says(*words)
        assert terminal.desk.ask("GET", f"/alerts/{alert}")["comment"] == said
    silenced = terminal.says("silence", "site=a", "--until", "2099-01-01")[:36]
    terminal.says("unsilence", silenced, "-m", "pump runs")
    assert "unsilenced by ben: pump runs" in terminal.says("show", alert)


def test_silences_are_made_listed_and_ended(terminal: Terminal) -> None:
    assert "Flood at a" in terminal.says("silence", "site=a", "--preview")
    times = ["--from", "2098-11-30T01:00Z", "--until", "2098-11-30T06:00"]
    made = terminal.says("silence", "site=a", 'team=~"w.*"', *times, "-m", "new pump")
    assert made.endswith("\nuntil 2098-11-30 06:00 UTC; it begins at 2098-11-30 01:00 UTC")
    listed = terminal.says("silences")
    assert "pending" in listed and 'site="a",team=~"w.*" new' in listed.replace("…", "")
    assert terminal.says("unsilence", made[:8]) == f"{made[:36]} has ended"
    assert terminal.says("silences") == "nothing is silenced" and "expired" in terminal.says("silences", "--all")


def test_a_silence_of_a_label_that_there_is_not_is_warned_of(terminal: Terminal) -> None:
    done = terminal.run("silence", "sit=a", "--until", "2099-01-01")
    assert done.exit_code == 0
    assert done.stderr == "warning: no alert of the program has the label `sit`; did you mean `site`?\n"
    done = terminal.run("silence", "alertname=flod", "--from", "2099-01-01", "--for", "30m")
    assert done.stderr == "warning: the program has no ALERT `flod`; did you mean `flood`?\n"
    assert "until 2099-01-01 00:30 UTC; it begins" in done.stdout
    done = terminal.run("silence", "site=a", "--until", "2099-01-01")
    assert done.stdout.endswith("; it hides 1 open alert now\n") and not done.stderr


def test_what_people_do_later_does_not_move_the_end_of_a_label(terminal: Terminal) -> None:
    """An open alert lasts, as a label, until event time was where it was when it was first closed."""
    desk = terminal.desk
    terminal.says("close", desk.alert(), "true")
    before = terminal.says("verdicts")
    assert before.splitlines()[1:] == ["1970-01-01T00:00:00Z,1970-01-01T00:00:03.999999Z,a,flood"]
    desk.take((8, "x", 4))
    terminal.says("comment", desk.alert(), "still high")
    terminal.says("close", desk.alert(), "true", "-m", "sure")
    assert terminal.says("verdicts") == before


@pytest.mark.parametrize("terminal", [MORE], indirect=True)
def test_labels_of_alerts_with_different_keys_in_one_file_are_warned_of(terminal: Terminal) -> None:
    terminal.says("close", terminal.desk.alert(), "true")
    assert not terminal.run("verdicts").stderr
    terminal.says("close", terminal.desk.alert("b"), "true")
    assert not terminal.run("verdicts").stderr
    terminal.desk.take((5, "deep", 100), (6, "x", 4))
    (deep,) = [each["alert"] for each in terminal.desk.ask("GET", "/alerts?name=any_flood")]
    terminal.says("close", deep, "true")
    done = terminal.run("verdicts")
    assert "an empty cell stands for every key" in done.stderr and "`--name any_flood`, `--name flood`" in done.stderr
    assert not terminal.run("verdicts", "--name", "flood").stderr


def test_verdicts_are_labels_of_a_backtest(terminal: Terminal, tmp_path: Path) -> None:
    from cep.backtest.labels import read_labels
    from cep.core.schema import Attribute

    desk = terminal.desk
    for site, verdict in (("a", "true"), ("b", "false")):
        terminal.says("close", desk.alert(site), verdict)
    over = desk.ask("GET", "/alerts?state=resolved")[0]["alert"]
    terminal.says("close", over, "true", "-m", "wet feet")
    desk.take((30, "a", 0), (31, "x", 4))
    text = terminal.says("verdicts", "--name", "flood")
    assert text.splitlines() == [
        "start,end,site,alert",
        "1970-01-01T00:00:02Z,1970-01-01T00:00:03Z,c,flood",
        "1970-01-01T00:00:00Z,1970-01-01T00:00:30Z,a,flood",
    ]
    assert len(terminal.says("verdicts", "--all").splitlines()) == 4
    file = tmp_path / "labels.csv"
    file.write_text(text)
    labels, others = read_labels(file, [Attribute("site", "string")], None)
    found = [(each.start, each.end, each.key) for each in labels]
    assert found == [(0, 30_000_000, ("a",)), (2_000_000, 3_000_000, ("c",))]
    assert others == ["site", "alert"]


def test_verdicts_of_a_server_are_labels_of_a_backtest(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = terminal.desk
    for site, verdict in (("a", "true"), ("b", "false")):
        terminal.says("close", desk.alert(site), verdict)
    desk.take((30, "a", 0), (31, "x", 4))
    rules, history = tmp_path / "rules.cep", tmp_path / "level.csv"
    rules.write_text(PROGRAM)
    history.write_text("time,site,cm\n" + "".join(f"{at},{site},{cm}\n" for at, site, cm in desk.pushed))
    monkeypatch.setenv("CEP_TOKEN", BEN)

    def backtest(place: str) -> Result:
        words = ["backtest", str(rules), "--input", f"level={history}", "--labels", place, "--detect", "flood"]
        return CliRunner().invoke(app, [*words, "--key", "site", "--merge", "1s", "--json"])

    for place in (f"server:{terminal.url}", f"server:{terminal.url}#flood"):
        done = backtest(place)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["labels"] == 1, "what was false is no incident"
    assert (
        "no alert of `flod` was closed\nhint: did you mean `flood`?" in backtest(f"server:{terminal.url}#flod").output
    )
    monkeypatch.setenv("CEP_TOKEN", "wrong")
    assert "(401)" in backtest(f"server:{terminal.url}").output
    monkeypatch.setenv("CEP_TOKEN", BEN)
    desk.ask("POST", f"/alerts/{desk.ask('GET', '/alerts/verdicts')[0]['alert']}/close", {"verdict": "test"})
    desk.ask("DELETE", f"/alerts/{desk.ask('GET', '/alerts/verdicts')[-1]['alert']}/close")
    assert "none of 1 verdicts is `true`" in backtest(f"server:{terminal.url}").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["close", "ALERT", "ture"], "`ture` is not a verdict\nhint: did you mean `true`?"),
        (["ack", "zzz"], "no alert has an id that begins with `zzz`"),
        (["silence", "site=a"], "a silence needs either --for or --until"),
        (["silence", "--for", "2h"], "MATCHER is missing"),
        (["silence", "site=a", "--for", "soon"], "`soon` is not a valid duration"),
        (["silence", "site=a", "--until", "soon"], "`soon` is not a valid time"),
        (["silence", 'site=~".*"', "--until", "2099-01-01"], "hide every alert"),
        (["silence", "site=a", "--until", "2001-01-01"], "--until: the silence ends in the past"),
        (["silence", "site=a", "--from", "2098-01-01", "--until", "2097-01-01"], "ends not after --from 2098-01-01"),
        (["comment", "ALERT", " "], "TEXT is empty"),
        (["assign", "ALERT", "bne"], "did you mean `ben`?"),
        (["list", "--severity", "Sever"], "did you mean `Severe`?"),
        (["list", "--name", "flod"], "did you mean `flood`?"),
        (["silence", "sit=a", "--preview"], "did you mean `site`?"),
        (["unsilence", "zzz"], "no silence has an id that begins with `zzz`"),
        (["list", "--state", "fireing"], "`fireing` is not a state\nhint: did you mean `firing`?"),
        (["list", "--server", "host"], "this is not a valid web address"),
        (["list", "--server", "http://127.0.0.1:9"], "connection refused"),
        (["list", "--token-file", "none"], "no such file"),
    ],
)
def test_mistakes_are_said(terminal: Terminal, words: list[str], message: str) -> None:
    alert = terminal.desk.alert()
    assert message in terminal.refuses(*[alert if each == "ALERT" else each for each in words])


def test_a_viewer_and_a_stranger_are_told_what_they_need(terminal: Terminal, tmp_path: Path) -> None:
    alert = terminal.desk.alert()
    assert "wall is viewer" in terminal.refuses("ack", alert, token=WALL)
    assert "CEP_TOKEN" in terminal.refuses("list", token="")
    (tmp_path / "all").write_text(f"ben responder {BEN}\n")
    assert "write your own token" in terminal.refuses("list", "--token-file", str(tmp_path / "all"))
    (tmp_path / "mine").write_text(f"{BEN}\n")
    assert terminal.run("list", "--token-file", str(tmp_path / "mine"), token="").exit_code == 0


@pytest.mark.parametrize("words", [["list"], ["silence", "site=a", "--for", "1h"]])
def test_a_token_is_not_sent_to_another_server(terminal: Terminal, words: list[str]) -> None:
    """A server that redirects, as one that was taken over might, gets nobody's token to go elsewhere."""
    asked: list[str] = []

    def take(request: BaseHTTPRequestHandler) -> None:
        asked.append(f"{request.server.server_port} {request.headers['Authorization']}")  # type: ignore[attr-defined]
        request.send_response(302)
        request.send_header("Location", f"http://localhost:{other.server_port}/alerts")
        request.end_headers()

    handler = type("Handler", (BaseHTTPRequestHandler,), {"do_GET": take, "do_POST": take, "log_message": print})
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as first,
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as other,
    ):
        for server in (first, other):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        said = terminal.refuses(*words, "--server", f"http://127.0.0.1:{first.server_port}")
        for server in (first, other):
            server.shutdown()
    assert "it redirects elsewhere (302)" in said and f"http://localhost:{other.server_port}/alerts" in said
    assert asked == [f"{first.server_port} Bearer {BEN}"]
