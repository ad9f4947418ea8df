"""Programs that change while a server runs: each instant is derived by one of them, also where the server is killed.

`SEMCEP_CHANGES=200` changes so often, with as many kills.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.addresses import address
from cep.connectors.brokers.mqtt import Subscription
from tests import brokers
from tests.brokers import mosquitto, publish
from tests.live_programs import BEGINNING, Reading, Row, Rules, expected, results
from tests.page_server import CHROMIUM, MISSING
from tests.serving import EIGHT
from tests.test_serve import Server
from tests.waiting import PATIENCE, pause, until

CHANGES = int(os.environ.get("SEMCEP_CHANGES", "6"))
TOKEN = "a-secret-of-the-house"
ANN = {"Authorization": f"Bearer {TOKEN}"}
EVENTS = ("state", "rising", "steep", "silent", "often", "same")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


class Editable(Server):
    """A server whose program can be changed."""

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {**ANN, **more.pop("headers", {})}  # the first program may have kernels to compile
        return httpx.request(method, self.url + path, headers=headers, timeout=PATIENCE, **more)

    def put(self, text: str) -> httpx.Response:
        return self.ask("PUT", "/program", content=text, headers={"Content-Type": "text/plain"})

    def select(self, query: str) -> list[dict[str, Any]]:
        answer = self.ask(
            "GET", "/sparql", params={"query": query}, headers={"Accept": "application/sparql-results+json"}
        )
        assert answer.status_code == 200, answer.text
        return [{name: _value(each) for name, each in row.items()} for row in answer.json()["results"]["bindings"]]

    def told(self, names: Sequence[str] = EVENTS) -> set[Row]:
        """All derived events, as `expected` has them."""
        found: set[Row] = set()
        for name in names:
            rows = self.select(
                f"SELECT * {{ ?x a <urn:semcep:type/{name}> ; ?p ?v ; time:hasBeginning/time:inXSDDateTimeStamp ?s ; "
                "time:hasEnd/time:inXSDDateTimeStamp ?e FILTER(contains(str(?p), 'attribute')) }"
            )
            events: dict[str, dict[str, Any]] = {}
            for row in rows:
                events.setdefault(row["x"], {"s": row["s"], "e": row["e"]})[row["p"].rpartition("/")[2]] = row["v"]
            for event in events.values():
                start, end = event.pop("s"), event.pop("e")
                found.add((name, *(value for _, value in sorted(event.items())), start, end))
        return found


def _value(term: dict[str, str]) -> Any:
    kind = term.get("datatype", "").rpartition("#")[2]
    if kind in ("dateTime", "dateTimeStamp"):
        return round(datetime.fromisoformat(term["value"]).timestamp() * 1e6)
    return float(term["value"]) if kind in ("double", "integer", "decimal") else term["value"]


def drawn(random: Random, count: int) -> list[Reading]:
    """Readings of four fridges, and at the end all of them cold, and time that goes on."""
    readings = [(n * 700_000, f"f{random.randrange(4)}", float(random.randrange(10))) for n in range(count)]
    last = readings[-1][0]
    readings += [(last + 700_000, f"f{number}", 0.0) for number in range(4)]
    return [*readings, (last + 10**8, "end", 2.0), (last + 2 * 10**8, "end", 2.0)]


def lines(readings: Sequence[Reading]) -> list[str]:
    return [
        json.dumps({"type": "reading", "time": (EIGHT + at) / 1e6, "fridge": fridge, "temp": temp})
        for at, fridge, temp in readings
    ]


def started(folder: Path, rules: Rules) -> list[str]:
    """The arguments of a server of a program, and its files."""
    (folder / "rules.cep").write_text(rules.text)
    (folder / "tokens").write_text(f"ann editor {TOKEN}\nben responder {TOKEN[::-1]}\n")
    (folder / "tokens").chmod(0o600)
    arguments = [str(folder / "rules.cep"), "--state", str(folder / "state"), "--token-file", str(folder / "tokens")]
    return [*arguments, "--idle", "never", "--rate", "0", "--readings"]


def versions_of(server: Editable, texts: dict[str, Rules]) -> list[tuple[Rules, int]]:
    """The programs that took over, as the history has them, each with its watermark."""
    found: list[tuple[Rules, int]] = []
    for each in reversed(server.ask("GET", "/program/history").json()):
        text = server.ask("GET", f"/program/history/{each['version']}").json()["files"]["rules.cep"]
        time = BEGINNING if each["from"] is None else round(datetime.fromisoformat(each["from"]).timestamp() * 1e6)
        found.append((texts[text], time))
    return found


def check(
    server: Editable,
    versions: Sequence[tuple[Rules, int]],
    readings: Sequence[Reading],
    names: Sequence[str] = EVENTS,
) -> None:
    """All is derived that is to be, and nothing else, once all is read."""
    last = "SELECT ?x { ?x a <urn:semcep:type/silent> ; <urn:semcep:attribute/silent/f> 'end' }"
    until(lambda: server.select(last), "the last but one reading is followed by silence", every=0.2)
    wanted, told = expected(versions, readings), server.told(names)
    assert sorted(map(str, told - wanted)) == [], "nothing else is derived"
    assert sorted(map(str, wanted - told)) == [], "nothing is missing"


def test_programs_take_over_under_load(tmp_path: Path) -> None:
    random = Random(CHANGES)
    readings = drawn(random, 80 * CHANGES)
    rules = Rules.edits(random, CHANGES)
    server = Editable("--input", "reading=-", *started(tmp_path, rules[0]))
    sent = 0

    def say(texts: list[str]) -> None:
        stdin = server.process.stdin
        assert stdin is not None
        for text in texts:
            stdin.write(text + "\n")
            stdin.flush()
            pause(0.004)

    for number, new in enumerate(rules[1:], 1):
        feeder = threading.Thread(target=say, args=[lines(readings[sent : 80 * number])])
        feeder.start()
        sent = 80 * number
        pause(random.uniform(0, 0.25))
        answer = server.put(new.text)
        assert answer.status_code == 200, answer.text
        said = answer.json()
        assert said["version"] == number + 1 and said["author"] == "ann" and said["tests"] == 0
        feeder.join()
    say(lines(readings[sent:]))
    versions = versions_of(server, {each.text: each for each in rules})
    assert [each for each, _ in versions] == rules and [time for _, time in versions] == sorted(t for _, t in versions)
    check(server, versions, readings)
    assert server.end(signal.SIGTERM) == 0


@pytest.mark.long
@pytest.mark.skipif(brokers.MOSQUITTO is None, reason=brokers.MISSING)
def test_each_instant_is_derived_by_one_program_whenever_the_server_is_killed(tmp_path: Path) -> None:
    random = Random(CHANGES + 1)
    readings = drawn(random, 60 * CHANGES)
    rules = Rules.edits(random, CHANGES)
    records = [("readings/a", line.encode()) for line in lines(readings)]
    with mosquitto(tmp_path / "broker") as port:
        place = f"mqtt://127.0.0.1:{port}/readings/#?client=roof"
        Subscription.open(address(place), "roof").close()  # from now on there is a session
        arguments = ["--input", f"reading={place}", *started(tmp_path, rules[0])]
        server, killed = changed_and_killed(
            arguments, random, rules, lambda number: publish(port, records[60 * (number - 1) : 60 * number])
        )
        publish(port, records[60 * CHANGES :])
        versions = versions_of(server, {each.text: each for each in rules})
        assert killed and len(versions) > 1
        check(server, versions, readings)
        assert server.end(signal.SIGTERM) == 0


def changed_and_killed(
    arguments: Sequence[str], random: Random, rules: Sequence[Rules], feed: Callable[[int], None]
) -> tuple[Editable, int]:
    """Have programs take over from each other while input comes, and kill the server at random moments: before, while
    and after one takes over. Returns the last server, and how often one was killed. `feed`: sends a part of the
    input."""
    server, killed, took = Editable(*arguments), 0, 0.0
    for number, new in enumerate(rules[1:], 1):
        feeder = threading.Thread(target=feed, args=[number])
        feeder.start()
        pause(random.uniform(0, 0.3))
        began = monotonic()
        change = threading.Thread(target=_put_in_silence, args=[server, new.text])
        change.start()
        if number > 1 and random.random() < 0.7:
            killed += 1
            pause(random.uniform(0, 1.3 * took))
            assert server.end(signal.SIGKILL) == -signal.SIGKILL
            change.join()
            server = Editable(*arguments)
        else:
            change.join()
            took = monotonic() - began
        feeder.join()
    return server, killed


def _put_in_silence(server: Editable, text: str) -> None:
    """Change the program of a server that may be killed meanwhile."""
    try:
        while "try again" in (answer := server.put(text)).text:
            pause(0.1)
    except httpx.HTTPError:
        return
    assert answer.status_code == 200, answer.text


SMALL = Rules(0, 9, 4, 8, 7, False)


def test_what_cannot_take_over_is_refused_and_the_program_runs_on(tmp_path: Path) -> None:
    arguments = started(tmp_path, SMALL)
    (tmp_path / "rules.test.yaml").write_text("""
program: rules.cep
tests:
  - name: five degrees more are a rise
    given:
      reading:
        - {time: 2024-05-01 08:00:00, fridge: milk, temp: 1}
        - {time: 2024-05-01 08:00:01, fridge: milk, temp: 6}
    expect: [{rising: {f: milk}}]
  - name: of another program
    given: {reading: [{time: 2024-05-01 08:00:00, fridge: milk, temp: 1}]}
    none: [rising]
""")
    server = Editable("--input", "reading=-", *arguments)
    text = SMALL.text
    ask, kind = server.ask, {"Content-Type": "text/plain"}
    for answer, status, message in (
        (server.put(text.replace("B > A", "B > Q")), 422, "rules.cep"),
        (server.put(text.replace("temp: float", "temp: int")), 409, "declares `reading` differently"),
        (server.put(f"event other(x: int).\nnew(X) <- other(X).\n{text}"), 409, "reads `other`"),
        (server.put(text.replace("B > A + 0", "B > A + 8")), 422, "five degrees more are a rise"),
        (server.put(""), 422, "no rules and no alerts"),
        (server.put("event reading(fridge: string, temp: float) TIME time."), 422, "no rules and no alerts"),
        (ask("PUT", "/program", content=b"\xff", headers=kind), 422, "UTF-8"),
        (ask("PUT", "/program", json={"other.cep": text}), 422, "the files rules.cep"),
        (ask("PUT", "/program", content="[", headers={"Content-Type": "application/json"}), 422, "not JSON"),
        (ask("POST", "/program/history/9/restore"), 404, "no version 9"),
        (ask("GET", "/program/history/9"), 404, "no version 9"),
    ):
        assert (answer.status_code, message in answer.text) == (status, True), answer.text
        assert status == 404 or "nothing has changed" in answer.text or status == 422, answer.text
        assert str(tmp_path) not in answer.text, "nobody learns the folder"
    ben = {"Authorization": f"Bearer {TOKEN[::-1]}"}
    refused = httpx.put(server.url + "/program", content=text, headers=ben)
    assert refused.status_code == 403 and "needs the role editor; ben is responder" in refused.text
    nobody = httpx.put(server.url + "/program", content=text)
    assert (nobody.status_code, nobody.text) == (401, "a token is needed\n")
    wrong = httpx.get(server.url + "/program", headers={"Authorization": "Bearer of-nobody-in-the-house"})
    assert (wrong.status_code, wrong.text) == (401, "the token is not known\n")
    shadow = ask("PUT", "/shadow", content=text.replace("temp: float", "temp: int"), headers=kind)
    assert shadow.status_code == 409 and "runs on" not in shadow.text and "nothing has changed" in shadow.text
    same = server.put(text)
    assert (same.status_code, same.json()["version"], same.json()["same"]) == (200, 1, True), same.text
    assert [each["version"] for each in ask("GET", "/program/history").json()] == [1]
    other = Rules(2, 9, 4, 8, 7, False)
    taken = server.put(other.text).json()
    assert (taken["version"], taken["tests"]) == (2, 2) and "line 3: rising" in taken["warmed"]
    again = ask("POST", "/program/history/1/restore").json()
    assert (again["version"], again["restores"], again["same"], again["cut"]) == (3, 1, False, [])
    listed = ask("GET", "/program/history").json()
    assert [each.get("restores") for each in listed] == [1, None, None]
    cold = f"{text}fluent cold(f: string).\ninitiate cold(F) <- reading(F, T) WHERE T < 3.\n"
    new = server.put(cold + "PARAM Unused = 3.\n").json()
    assert new["cut"] == [] and new["warnings"] and str(tmp_path) not in str(new["warnings"]), new
    said = [line["text"] for line in server.logged if line["event"] == "program"]
    assert not any(": none" in line for line in said), said
    assert ask("POST", "/program/history/1/restore").json()["version"] == 5
    assert ask("GET", "/program").json()["files"] == {"rules.cep": text}
    assert [each["running"] for each in ask("GET", "/program/history").json()] == [True] + 4 * [False]
    assert ask("GET", "/api/program").json()["version"] == 5
    assert server.end(signal.SIGTERM) == 0
    (tmp_path / "rules.cep").write_text(other.text)  # edited in between: the files count
    server = Editable("--input", "reading=-", *arguments)
    now = server.ask("GET", "/program").json()
    assert (now["version"], now["author"], now["files"]) == (6, "the files", {"rules.cep": other.text})
    assert server.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--revise", "1h", "--explain"), "with --revise"),
        (("--input", "FILE"), "the input is files"),
    ],
)
@pytest.mark.long
def test_a_program_whose_state_cannot_be_kept_does_not_change(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    arguments = started(tmp_path, SMALL)
    (tmp_path / "some.jsonl").write_text("\n".join(lines([(0, "milk", 1.0)])) + "\n")
    if "--input" in options:
        arguments = [each for each in arguments if each not in ("--idle", "never")]
        server = Editable("--input", f"reading={tmp_path / 'some.jsonl'}", *arguments)
    else:
        server = Editable("--input", "reading=-", *arguments, *options)
    answer = server.put(SMALL.text.replace("2 s", "3 s"))
    assert answer.status_code == 409 and message in answer.text, answer.text
    assert server.end(signal.SIGTERM) == 0


def test_a_token_that_is_taken_out_of_the_file_is_refused(tmp_path: Path) -> None:
    server = Editable("--input", "reading=-", *started(tmp_path, SMALL))

    def status() -> int:
        return httpx.get(f"{server.url}/program", headers={"Authorization": f"Bearer {TOKEN[::-1]}"}).status_code

    assert status() == 200
    (tmp_path / "tokens").write_text(f"ann editor {TOKEN}\n")
    until(lambda: status() == 401, "the token is void", every=0.1)
    until(lambda: any(line["event"] == "tokens" and line["void"] == 1 for line in _logged(server)), "it is logged")
    assert server.ask("GET", "/program").json()["version"] == 1
    assert server.end(signal.SIGTERM) == 0


def test_files_that_change_take_over(tmp_path: Path) -> None:
    """With --watch, and without a folder that is kept."""
    (tmp_path / "rules.cep").write_text(SMALL.text)
    server = Editable("--input", "reading=-", str(tmp_path / "rules.cep"), "--watch", "--idle", "never")
    refused = httpx.put(server.url + "/program", content="x", headers={"Content-Type": "text/plain"})
    assert refused.status_code == 403 and "--token-file" in refused.text
    (tmp_path / "rules.cep").write_text(SMALL.text.replace("B > A", "B > Q"))
    until(lambda: any(line["event"] == "watch" for line in _logged(server)), "it says what is wrong")
    (tmp_path / "rules.cep").write_text(SMALL.text.replace("B > A + 0", "B > A + 1"))
    until(lambda: server.ask("GET", "/program").json()["version"] == 2, "it takes over", every=0.1)
    assert server.ask("GET", "/program").json()["author"] == "the files"
    (change,) = server.ask("GET", "/feeds/actions?action=change_program").json()
    assert (change["by"], change["version"]) == ("the files", 2)
    assert server.end(signal.SIGTERM) == 0


def _logged(server: Editable) -> list[dict[str, Any]]:
    """What the server has written by now, a line more at least."""
    next(server.lines)
    return server.logged


def test_one_change_at_a_time(tmp_path: Path) -> None:
    server = Editable("--input", "reading=-", *started(tmp_path, SMALL))
    answers: list[httpx.Response] = []
    texts = [SMALL.text.replace("LAST 8 s", f"LAST {number} s") for number in range(10, 16)]
    threads = [threading.Thread(target=lambda text: answers.append(server.put(text)), args=[text]) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = [answer for answer in answers if answer.status_code == 200]
    assert taken and {answer.status_code for answer in answers} == {200, 409}
    assert all("another request" in answer.text for answer in answers if answer.status_code == 409)
    assert len(server.ask("GET", "/program/history").json()) == 1 + len(taken)
    assert server.end(signal.SIGTERM) == 0


def test_a_new_alert_on_a_fluent_begins_where_it_takes_over(tmp_path: Path) -> None:
    """That of before is withdrawn; the other one begins at the watermark, and ends with its condition."""
    alert = 'ALERT state ON state(F) = W SEVERITY "Minor" TITLE "{F} is {W}" KEYED BY F.\n'
    arguments = started(tmp_path, SMALL)
    (tmp_path / "rules.cep").write_text(SMALL.text + alert)
    server = Editable("--input", "reading=-", *arguments)
    assert server.process.stdin is not None
    server.process.stdin.write(
        "\n".join(lines([(0, "milk", 6.0), (10**6, "fish", 2.0), (2 * 10**6, "fish", 2.0)])) + "\n"
    )
    server.process.stdin.flush()
    until(lambda: server.ask("GET", "/feeds/alerts").json(), "it fires")
    taken = server.put((SMALL.text + alert).replace("T > 7", "T > 5").replace("T <= 7", "T <= 5"))
    assert taken.json()["cut"] == ["state"], taken.text
    (new,) = until(lambda: server.ask("GET", "/feeds/alerts").json(), "the new one") or [{}]
    assert (new["title"], new["start"]) == ("milk is hot", taken.json()["from"]), new
    server.process.stdin.write("\n".join(lines([(3 * 10**6, "milk", 0.0), (4 * 10**6, "fish", 2.0)])) + "\n")
    server.process.stdin.flush()
    until(lambda: not server.ask("GET", "/feeds/alerts").json(), "it is over")
    (last,) = [
        each for each in server.ask("GET", f"/feeds/alerts/{new['alert']}").json() if each["state"] == "resolved"
    ]
    assert last["withdrawn"] is False
    assert server.end(signal.SIGTERM) == 0


def test_a_shadow_says_how_it_differs_and_is_promoted(tmp_path: Path) -> None:
    random = Random(5)
    readings = drawn(random, 160)
    new = Rules(2, 9, 4, 8, 7, False)
    (tmp_path / "new.cep").write_text(new.text)
    arguments = ["--input", "reading=-", *started(tmp_path, SMALL), "--explain"]
    server = Editable(*arguments, "--shadow", str(tmp_path / "new.cep"))
    until(lambda: server.ask("GET", "/shadow").status_code == 200, "it runs", every=0.1)
    stdin = server.process.stdin
    assert stdin is not None
    stdin.write("\n".join(lines(readings[:80])) + "\n")
    stdin.flush()
    reached = EIGHT + readings[79][0] - 1
    ended = datetime.fromtimestamp(reached / 1e6, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    until(lambda: server.ask("GET", "/shadow").json()["until"] == ended, "it has come as far", every=0.1)
    found = server.ask("GET", "/shadow", params={"limit": 1000}).json()
    wanted = [Counter(row for row in results(each.text, readings[:80]) if row[0] == "rising") for each in (SMALL, new)]
    gone, appeared = wanted[0] - wanted[1], wanted[1] - wanted[0]
    counts = found["events"]["rising"]
    assert (
        counts["gone"] + counts["moved"] == gone.total() > 0
        and counts["appeared"] + counts["moved"] == appeared.total()
    )
    assert counts["same"] == (wanted[0] & wanted[1]).total() and counts["left_out"] == 0
    shown = [each for each in found["differences"] if each["event"] == "rising"]
    assert len(shown) == counts["gone"] + counts["moved"] + counts["appeared"]
    for each in shown:
        assert (each["old"] is None, each["new"] is None) == (each["kind"] == "appeared", each["kind"] == "gone")
    assert {each["event"] for each in found["differences"]} == {"rising"} and found["failed"] is None
    assert found["explained"] is True
    some = server.ask("GET", "/shadow", params={"limit": 3, "reasons": 2}).json()["differences"]
    assert len(some) > 2 and [each for each in some if "reasons" not in each]
    for each in (one for one in some if "reasons" in one):
        deriving, other = ("new", "old") if each["old"] is None or each["kind"] == "moved" else ("old", "new")
        tree, refused = each["reasons"][deriving], each["reasons"][other]
        assert tree["event"] == "rising" and tree["rule"]["line"] == 3 and len(tree["parts"]) == 2, tree
        assert refused["rules"] and refused["asked"].startswith("rising("), refused
    gone_one = next(each for each in some if each["kind"] == "gone" and "reasons" in each)
    failed = gone_one["reasons"]["new"]["rules"][0]["failure"]
    assert "B > A + 2" in json.dumps(failed), failed
    told = server.told()
    assert {row[1:] for row in told if row[0] == "rising"} == {(*args, s, e) for _, args, s, e in wanted[0]}
    taken = server.ask("POST", "/shadow/promote")
    assert taken.status_code == 200 and taken.json()["version"] == 2, taken.text
    gone_now = server.ask("GET", "/shadow")
    assert gone_now.status_code == 404 and "no shadow" in gone_now.text
    stdin.write("\n".join(lines(readings[80:])) + "\n")
    stdin.flush()
    check(server, versions_of(server, {each.text: each for each in (SMALL, new)}), readings)
    assert server.put(new.text.replace("B > A", "B > Q")).status_code == 422
    wrong = server.ask("PUT", "/shadow", content="x", headers={"Content-Type": "text/plain"})
    assert wrong.status_code == 422, wrong.text
    again = server.ask("PUT", "/shadow", content=SMALL.text, headers={"Content-Type": "text/plain"})
    assert again.status_code == 200, again.text
    assert server.end(signal.SIGTERM) == 0
    server = Editable(*arguments)
    until(lambda: server.ask("GET", "/shadow").status_code == 200, "it begins again", every=0.1)
    assert server.ask("GET", "/shadow").json()["files"] == {"rules.cep": SMALL.text}
    assert server.ask("DELETE", "/shadow").status_code == 204 and server.ask("DELETE", "/shadow").status_code == 404
    acted = [(each["action"], each["by"], each.get("version")) for each in server.ask("GET", "/feeds/actions").json()]
    assert acted == [
        ("begin_shadow", "the files", None), ("change_program", "ann", 2), ("promote_shadow", "ann", 2),
        ("begin_shadow", "ann", None), ("end_shadow", "ann", None),
    ], "that it begins again after a restart is nobody's action"  # fmt: skip
    assert server.end(signal.SIGTERM) == 0


def test_a_shadow_that_cannot_run_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(SMALL.text)
    (tmp_path / "wrong.cep").write_text("x(X) <- reading(")
    (tmp_path / "some.jsonl").write_text("\n".join(lines([(0, "milk", 1.0)])) + "\n")
    serve = ["serve", str(tmp_path / "rules.cep"), "--port", "0"]
    for arguments, message in (
        (["--input", "reading=-", "--shadow", str(tmp_path / "wrong.cep")], "wrong.cep"),
        (["--input", "reading=-", "--shadow", str(tmp_path / "rules.cep"), "--shadow", "x.cep"], "there are 2 files"),
        (["--input", f"reading={tmp_path}/some.jsonl", "--shadow", str(tmp_path / "rules.cep")], "the input is files"),
        (["--input", f"reading={tmp_path}/some.jsonl", "--watch"], "--watch: the input is files"),
        (["--input", "reading=-", "--watch", "--revise", "1h", "--explain"], "--watch: with --revise"),
    ):
        refused = CliRunner().invoke(app, [*serve, *arguments])
        assert refused.exit_code == 2 and message in " ".join(refused.stderr.split()), refused.stderr


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_the_page_shows_the_program_that_took_over(tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    server = Editable("--input", "reading=-", *started(tmp_path, SMALL))
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.set_default_timeout(120_000)
        expect.set_options(timeout=120_000)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{server.url}/?access_token={TOKEN}")
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator("body")).to_contain_text("B > A + 0")
        assert server.put(SMALL.text.replace("A + 0", "A + 1")).status_code == 200
        expect(page.locator("body")).to_contain_text("B > A + 1")
        expect(page.locator("#connection")).to_have_text("live")
        assert wrong == []
        browser.close()
    assert server.end(signal.SIGTERM) == 0


PAIR = """event a(p: string) TIME ts.
event b(p: string) TIME ts.
pair(P) <- b(P) SEQ a(P) WITHIN 1 h.
"""
TWO = "event a(p: string) TIME ts.\ntwo(P) <- a(P) SEQ a(P) WITHIN 1 h.\n"


def record(event: str, minute: int, part: str = "x") -> str:
    return json.dumps({"type": event, "ts": f"2024-05-01T08:{minute:02}:00Z", "p": part})


def say(server: Editable, *records: str) -> None:
    assert server.process.stdin is not None
    server.process.stdin.write("".join(each + "\n" for each in records))
    server.process.stdin.flush()


def taken_in(server: Editable, number: int) -> None:
    """Wait until so many records are read."""
    until(
        lambda: server.ask("GET", "/api/state").json()["numbers"]["records"] >= number, f"{number} records", every=0.1
    )


PAIRS = "SELECT ?x { ?x a <urn:semcep:type/pair> }"


def test_events_that_the_program_of_now_does_not_read_are_kept(tmp_path: Path) -> None:
    arguments = started(tmp_path, SMALL)
    (tmp_path / "rules.cep").write_text(PAIR)
    server = Editable("--input", "-", *arguments)
    assert server.put(TWO).status_code == 200
    say(server, record("b", 30), record("b", 40, "y"))
    taken_in(server, 2)
    restored = server.ask("POST", "/program/history/1/restore").json()
    assert restored["seen"] == "2024-05-01T08:30:00Z", restored
    assert restored["from"] == "2024-05-01T08:39:59.999999Z", "time has gone on meanwhile"
    say(server, record("a", 50), record("a", 55))
    until(lambda: len(server.select(PAIRS)) == 1, "the pair", every=0.2)
    assert server.put(TWO).status_code == 200
    say(server, record("b", 56, "z"))
    taken_in(server, 5)
    assert server.end(signal.SIGTERM) == 0
    assert server.logged[-1]["records"] == 5 and "in the input" not in server.logged[-1]["text"], server.logged[-1]
    server = Editable("--input", "-", *arguments)  # the files read `b`
    say(server, record("b", 57, "u"), record("a", 58, "u"))
    taken_in(server, 2)
    assert server.ask("POST", "/program/history/1/restore").status_code == 200
    say(server, record("a", 58, "z"), record("a", 59, "t"))
    until(lambda: len(server.select(PAIRS)) == 3, "the pairs of both", every=0.2)
    assert server.end(signal.SIGTERM) == 0


def test_a_shadow_reads_events_that_the_program_does_not(tmp_path: Path) -> None:
    arguments = started(tmp_path, SMALL)
    (tmp_path / "rules.cep").write_text(TWO)
    (tmp_path / "new.cep").write_text(PAIR)
    server = Editable("--input", "-", *arguments, "--shadow", str(tmp_path / "new.cep"))
    until(lambda: server.ask("GET", "/shadow").status_code == 200, "it runs", every=0.1)
    say(server, record("b", 30), record("a", 31), record("b", 32))
    events = until(
        lambda: (found := server.ask("GET", "/shadow").json()["events"])["pair"]["appeared"] and found, "a pair"
    )
    assert events is not None and events["pair"]["appeared"] == 1, events
    assert server.ask("POST", "/shadow/promote").status_code == 200
    say(server, record("a", 33), record("a", 34))
    until(lambda: len(server.select(PAIRS)) >= 1, "the pair", every=0.2)
    assert server.end(signal.SIGTERM) == 0
