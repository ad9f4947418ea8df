"""Routes: which alerts go to which receiver, which are told together and when, and kills while a group waits."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.alerts.lifecycle import AlertChange, AlertState
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.groups import Group, Groups
from cep.connectors.receivers.routes import Routes, lines, unreached
from cep.connectors.receivers.sender import DeliveryRefused, Sender, ServerError
from cep.connectors.receivers.senders import sending, targets
from cep.core.errors import CepError
from cep.core.literals import say_duration
from cep.engine import Engine
from tests.alert_feeds import WHOLE
from tests.alert_server import expected
from tests.long import seeds
from tests.mail_server import mail_server
from tests.ports import free_port
from tests.test_live_change import TOKEN, Editable
from tests.test_outbox import process, said_by
from tests.test_serve import Server
from tests.waiting import pause, until

ORIGIN = Publisher("storm.cep", sender="alerts@example.org")
SECOND = 1_000_000
PROGRAM = """
event level(site: string, cm: float) TIME time.
event mast(id: string) TIME time.
ALERT flood ON level(site: S, cm: C) WHERE C > 100 SEVERITY "Moderate" TITLE "Flood at {S}"
    FOR 1 h KEYED BY S LABELS team: "water", site: S ESCALATE "Severe" AFTER 30 min.
ALERT masts ON mast(id: M) SEVERITY "Minor" TITLE "Mast {M}" FOR 1 h KEYED BY M.
"""
FILE = """
[receivers]
water = "smtp://mail.example.org/water@example.org"
on-call = ["smtp://mail.example.org/on-call@example.org", "cloudevents+https://example.org/hook"]
north = "mqtt://broker.example.org/north"

[[routes]]
receiver = "on-call"
matchers = ['severity=~"severe|extreme"']
continue = true
group_by = ["..."]
group_wait = "0s"

[[routes]]
receiver = "north"
matchers = ['site=~"north.*"']

[[routes]]
receiver = "water"
matchers = ['team="water"', 'severity!="minor"']
group_by = ["alertname", "site"]
group_wait = "10s"
group_interval = "1m 30s"
"""


def read(tmp_path: Path, text: str = FILE) -> Routes:
    file = tmp_path / "routes.toml"
    file.write_text(text, encoding="utf-8")
    return Routes.read(file)


def change(severity: str = "Moderate", site: str = "south", **fields: object) -> AlertChange:
    return replace(
        WHOLE[0], name="flood", severity=severity, labels={"team": "water", "site": site}, key={"site": site},
        slot=site, **fields,
    )  # fmt: skip


def receivers(routes: Routes, one: AlertChange) -> set[str]:
    return {name for name in routes.receivers if routes.of(name, ORIGIN).wants(one)}


def test_the_first_route_that_matches_unless_it_goes_on(tmp_path: Path) -> None:
    routes = read(tmp_path)
    assert receivers(routes, change()) == {"water"}
    assert receivers(routes, change(site="north-1")) == {"north"}
    assert receivers(routes, change("Severe")) == {"water", "on-call"}
    assert receivers(routes, change("Extreme", "north-2")) == {"north", "on-call"}
    assert receivers(routes, change("Minor")) == set()


def test_who_was_told_hears_of_the_end(tmp_path: Path) -> None:
    """An alert that becomes graver takes another route, too, and stays in the group in which it began."""
    text = FILE.replace('severity!="minor"', 'severity="moderate"').replace("continue = true\n", "")
    routes = read(tmp_path, text.replace('"alertname", "site"', '"severity"'))
    life = [
        change(revision=0, severities=["Moderate", "Severe"], escalated=0),
        change("Severe", revision=1, severities=["Moderate", "Severe"], escalated=1, state="escalated"),
        change("Severe", revision=2, severities=["Moderate", "Severe"], escalated=1, state="resolved"),
    ]
    assert [receivers(routes, one) for one in life] == [{"water"}, {"water", "on-call"}, {"water", "on-call"}]
    assert len({routes.of("water", ORIGIN).group(one).key for one in life}) == 1


def test_groups_of_labels(tmp_path: Path) -> None:
    routes = read(tmp_path)
    water, call = routes.of("water", ORIGIN), routes.of("on-call", ORIGIN)
    first, other = change("Severe"), change("Severe", "west", alert="a" * 32)
    assert water.group(first) != water.group(other) and (water.group(first).wait, water.group(first).interval) == (
        10 * SECOND,
        90 * SECOND,
    )
    assert water.group(first).key == water.group(change("Moderate", alert="b" * 32)).key
    assert call.group(first).key != call.group(other).key and call.group(first).wait == 0


@pytest.mark.parametrize(
    "old, new, message, hint",
    [
        ("[receivers]", "[receiver]", "`receiver` is not known", "`receivers`"),
        ("[[routes]]", "[[rout", "--routes ", "TOML"),
        ('receiver = "water"', 'receiver = "watre"', "there is no receiver `watre`", "`water`"),
        ('receiver = "water"', "", "route 3: the route has no receiver", "receiver ="),
        ('receiver = "water"', "receiver = 3", "route 3: the route has no receiver", "receiver ="),
        ('receiver = "water"', 'receiver = "north"', "no route leads to the receiver `water`", "without matchers"),
        ("continue = true", 'continue = "yes"', "`continue` is neither true nor false", "true"),
        ("continue = true", "contniue = true", "`contniue` is not known", "`continue`"),
        ("group_by = [\"...\"]", 'group_by = "site"', "`group_by` is not a list of texts", "group_by = ["),
        ("matchers = ['site=~\"north.*\"']", "matchers = 'site'", "`matchers` is not a list of texts", "team="),
        ('site=~"north.*"', 'site=~"north(*"', "is not a regular expression", "RE2"),
        ('site=~"north.*"', "site", "is not followed by an operator", "="),
        ('severity!="minor"', 'severity="hihg"', "no alert has the severity `hihg`", ""),
        ('"0s"', '"soon"', "`soon` is not a valid duration", "30s"),
        ('"0s"', '"-3s"', "`-3s` is not a valid duration", "30s"),
        ('"1m 30s"', '"0s"', "`0s` is not a valid duration", "5m"),
        ('"1m 30s"', "90", "`90` is not a valid duration", "5m"),
        ('"mqtt://broker.example.org/north"', "{}", "the receiver `north` is not an address", "north ="),
        ('"mqtt://broker.example.org/north"', "[]", "the receiver `north` is not an address", "north ="),
    ],
)  # fmt: skip
def test_files_that_are_refused(old: str, new: str, message: str, hint: str, tmp_path: Path) -> None:
    assert old in FILE
    before, _, behind = FILE.rpartition(old)  # the last one
    text = f"{before}{new}{behind}"
    with pytest.raises(CepError) as caught:
        read(tmp_path, text)
    assert message in caught.value.message and hint in (caught.value.hint or "")


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(CepError, match="no such file"):
        Routes.read(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(CepError, match="routes"):
        Routes.read(tmp_path / "bytes")
    with pytest.raises(CepError, match="the receivers are missing"):
        read(tmp_path, "")
    with pytest.raises(CepError, match="the routes are missing"):
        read(tmp_path, '[receivers]\na = "mqtt://h/a"\n')


def test_groups_are_for_people(tmp_path: Path) -> None:
    routes = read(tmp_path, FILE.replace("matchers = ['site", "group_wait = '1s'\nmatchers = ['site"))
    with pytest.raises(CepError, match="receiver `north`: groups are for mail and Apprise, not for `mqtt`"):
        targets([], routes)
    with pytest.raises(CepError, match="appears twice"):
        targets(["mqtt://broker.example.org/north"], read(tmp_path))


def test_a_wrong_address_is_said_with_the_file_and_the_receiver(tmp_path: Path) -> None:
    routes = read(tmp_path, FILE.replace("example.org/north", "example.org/north#form=start"))
    with pytest.raises(CepError) as caught:
        targets([], routes)
    assert caught.value.message.startswith(f"--routes {tmp_path / 'routes.toml'}, receiver `north`: mqtt://broker")
    assert "`form=start` is not an option" in caught.value.message and "--feed" not in caught.value.message


def test_where_each_alert_goes(tmp_path: Path) -> None:
    alerts = Engine.from_text(PROGRAM, alerts=True).alerts
    routes = read(tmp_path)
    assert lines(routes, alerts, ORIGIN, say_duration) == [
        "flood: Moderate, Severe after 30 min",
        '  north  if site=~"north.*"',
        "  water  otherwise  [alertname, site; wait 10 s, then every 1 min 30 s]",
        "  on-call  from Severe on  [each alert; wait 0 s, then every 5 min]",
        "masts: Minor",
        "  reaches no receiver",
        "masts: reaches no receiver",
    ]
    assert unreached(routes, alerts, ORIGIN) == ["masts"]
    some = read(tmp_path, FILE.replace("'team=\"water\"', 'severity!=\"minor\"'", "'severity=\"severe\"'"))
    assert "  no receiver until Severe, unless an `if` above is true" in lines(some, alerts, ORIGIN, say_duration)
    two = read(tmp_path, TWO_ROUTES.format(port=25, wait="30s"))
    assert lines(two, alerts[:1], ORIGIN, say_duration) == [
        "flood: Moderate, Severe after 30 min",
        "  on-call  [alertname; wait 30 s, then every 5 min]",
        "  on-call  from Severe on  [each alert; wait 0 s, then every 1 s]",
    ]
    rest = read(tmp_path, FILE + '[[routes]]\nreceiver = "water"\n')
    assert not unreached(rest, alerts, ORIGIN)


def test_the_example_of_the_page(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "receivers.md").read_text(encoding="utf-8")
    routes = read(tmp_path, page.partition("```toml\n")[2].partition("```")[0])
    shown = page.partition("--check-routes\nflood")[2].partition("```")[0]
    alerts = Engine.from_text(PROGRAM, alerts=True).alerts
    assert "\n".join(lines(routes, alerts, ORIGIN, say_duration)) == f"flood{shown}".rstrip()


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.cep").write_text(PROGRAM)
    Path("routes.toml").write_text(FILE)

    def run(*options: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["serve", "rules.cep", *options], prog_name="cep")
        return result.exit_code, result.output

    status, output = run("--routes", "routes.toml", "--check-routes")
    assert status == 1 and "masts: reaches no receiver" in output
    status, output = run("--routes", "routes.toml", "--check-routes", "--feed", "mqtt://h/all")
    assert status == 0 and output.splitlines()[-1] == "every alert: mqtt://h/all"
    assert run("--check-routes")[0] == 2 and "--check-routes: `--routes` is missing" in run("--check-routes")[1]
    Path("routes.toml").write_text(FILE.replace('"site"]', '"siet"]'))
    for options in (["--check-routes"], ["--input", "level=none.csv", "--port", "0"]):
        Path("none.csv").write_text("time,site,cm\n")
        status, output = run("--routes", "routes.toml", *options)
        assert status == 2 and "no alert of the program has the label `siet`" in output and "`site`" in output


SERVED = """
event reading(fridge: string, temp: float) TIME time.
ALERT warm ON reading(fridge: F, temp: T) WHERE T > 8 SEVERITY "Severe" TITLE "Warm: {F}" FOR 1 h KEYED BY F.
"""


def test_a_server_warns_of_alerts_that_reach_nobody_and_of_links_that_lead_nowhere(tmp_path: Path) -> None:
    """At the start, and when another program takes over."""
    (tmp_path / "rules.cep").write_text(SERVED)
    (tmp_path / "tokens").write_text(f"ann editor {TOKEN}\n")
    (tmp_path / "tokens").chmod(0o600)
    hook = "cloudevents+http://127.0.0.1:9/#private=yes"
    (tmp_path / "routes.toml").write_text(
        f'[receivers]\nhook = "{hook}"\n[[routes]]\nreceiver = "hook"\nmatchers = ["severity=severe"]\n'
    )
    server = Editable(
        str(tmp_path / "rules.cep"), "--input", "reading=-", "--state", str(tmp_path / "state"), "--idle", "never",
        "--token-file", str(tmp_path / "tokens"), "--routes", str(tmp_path / "routes.toml"),
    )  # fmt: skip
    try:
        (links,) = [each for each in server.logged if each["event"] == "links"]
        assert "messages have no link" in links["text"] and "--public-url" in links["text"]
        assert not any(each["event"] == "routes" for each in server.logged), "its alert reaches one"
        cold = SERVED + SERVED.split("\n", 2)[2].replace("warm", "cold").replace("Severe", "Minor")
        answer = server.put(cold).json()
        assert answer["warnings"] == ["cold: reaches no receiver; `--check-routes` prints where each alert goes"]
        (tmp_path / "rules.cep").write_text(cold)
        assert server.end(signal.SIGTERM) == 0
        server = Editable(*server.process.args[4:-4])  # type: ignore[index]
        (routes,) = [each for each in server.logged if each["event"] == "routes"]
        assert routes["level"] == "warning" and routes["text"] == answer["warnings"][0]
        assert server.end(signal.SIGTERM) == 0
    finally:
        while Server.running:
            Server.running.pop().kill()


# --- when groups are sent ---


def test_when_a_group_is_due() -> None:
    outbox = Outbox(None)
    group = Group("g", 30 * SECOND, 300 * SECOND)
    groups = Groups(outbox, "r", lambda change: group, lambda number: False, lambda change: True)
    outbox.add([replace(WHOLE[0], alert="a" * 32), replace(WHOLE[0], alert="b" * 32, slot="b")], {"p": 0})
    first, second = (replace(entry, recorded=100 * SECOND) for entry in outbox.after(0))
    assert groups.due("g", [first]) == 130 * SECOND
    assert groups.batch("g", [first], 130 * SECOND) == [first] and groups.due("g", [first]) == 0, "it is under way"
    groups.done("g", [first])
    for came, due in ((131, 430), (429, 430), (430, 430), (431, 730), (5000, 5230)):
        assert groups.due("g", [replace(second, recorded=came * SECOND)]) == due * SECOND, (
            "every five minutes from the first on"
        )
    assert groups.due("g", [replace(second, recorded=129 * SECOND)]) == 0, "it did not fit"
    groups.batch("g", [second], 430 * SECOND)
    groups.done("g", [second])
    over = [replace(entry, change=replace(entry.change, state="resolved")) for entry in (first, second)]
    groups.batch("g", over, 730 * SECOND)
    groups.done("g", over)
    groups.settle()
    assert groups.due("g", [replace(first, recorded=731 * SECOND)]) == 761 * SECOND, "a new group"
    assert outbox.groups("r") == {}


def test_a_group_goes_on_after_a_start() -> None:
    outbox = Outbox(None)
    group = Group("g", 30 * SECOND, 300 * SECOND)

    def begin(*has: int) -> Groups:
        return Groups(outbox, "r", lambda change: group, lambda number: number in has, lambda change: True)

    outbox.add([replace(WHOLE[0], alert=name * 32, slot=name) for name in "abc"], {"p": 0})
    entries = [replace(entry, recorded=100 * SECOND) for entry in outbox.after(0)]
    assert begin().batch("g", entries[:2], 130 * SECOND) == entries[:2]
    again = begin()
    assert again.due("g", entries) == 0 and again.batch("g", entries, 150 * SECOND) == entries[:2], "the same ones"
    after = begin(1, 2)
    assert after.due("g", [replace(entries[2], recorded=140 * SECOND)]) == 430 * SECOND, "the clock has not begun anew"
    assert begin(2).batch("g", [entries[0], entries[2]], 150 * SECOND) == [entries[0]]


@pytest.mark.parametrize("seed", seeds(12))
def test_groups_against_an_oracle(seed: int) -> None:
    """By the clock of the test: changes come, groups are sent when they are due, the process is started anew at any
    moment. Each alert's changes are in order, none is missing, none comes twice, and none waits longer than it may."""
    chance = random.Random(seed)
    outbox, wait, interval = Outbox(None), chance.choice((0, 7, 30)) * SECOND, chance.choice((1, 20, 60)) * SECOND
    has: set[int] = set()

    def begin() -> Groups:
        return Groups(outbox, "r", group_of, has.__contains__, lambda change: True)

    def group_of(change: AlertChange) -> Group:
        return Group(change.slot[0], wait, interval)

    groups, now, waiting, sent = begin(), 1000 * SECOND, [], Counter[int]()
    last_sent: dict[str, int] = {}
    for _ in range(200):
        now += chance.randrange(1, 9) * SECOND
        if chance.random() < 0.4:
            slot = chance.choice(("a1", "a2", "b1", "b2", "b3"))
            before = [entry for entry in outbox.live() if entry.change.slot == slot]
            state: AlertState = "updated" if chance.random() < 0.5 else "resolved"
            made = replace(WHOLE[0], alert=f"{slot}-{outbox.last}", slot=slot, revision=0, state="firing")
            if before:
                made = replace(before[0].change, revision=before[0].change.revision + 1, state=state)
            outbox.add([made], {"p": 0})
            waiting.append(replace(outbox.after(outbox.last - 1)[0], recorded=now))
        if chance.random() < 0.1:
            groups = begin()
        for key in "ab":
            queue = [entry for entry in waiting if entry.change.slot[0] == key]
            if queue and groups.due(key, queue) <= now:
                batch = groups.batch(key, queue, now)
                assert batch == queue[: len(batch)], "in order"
                if chance.random() < 0.3:  # it is killed before or after it is taken
                    groups = begin()
                    again = groups.batch(key, queue, now)
                    assert again == batch, "the same ones together"
                if key in last_sent and now - last_sent[key] < interval:
                    alive = {e.change.alert for e in outbox.live() if e.number in has and e.change.slot[0] == key}
                    assert not alive or all(e.recorded <= last_sent[key] for e in batch if e.recorded), (
                        "not before its time"
                    )
                last_sent[key] = now
                sent.update(entry.number for entry in batch)
                has.update(entry.number for entry in batch)
                groups.done(key, batch)
                groups.settle()
                waiting = [entry for entry in waiting if entry not in batch]
            elif queue:
                assert now - queue[0].recorded <= max(wait, interval) + 9 * SECOND
    assert set(sent.values()) <= {1} and len(sent) + len(waiting) == outbox.last


def test_a_group_is_one_mail(tmp_path: Path) -> None:
    with mail_server() as (taken, port):
        feed = f"smtp://localhost:{port}/team@example.org#private=yes&tls=none"
        other = feed.replace("team@", "all@")
        routes = read(
            tmp_path,
            f'[receivers]\nteam = "{feed}"\n[[routes]]\nreceiver = "team"\ngroup_by = ["alertname"]\n'
            'group_wait = "500ms"\ngroup_interval = "1s"\nmatchers = ["alertname=storm"]\n',
        )
        outbox = Outbox(None)
        firing = [one for one in WHOLE if one.state == "firing"]
        storms = [one for one in firing if one.name == "storm"]
        assert len(storms) > 1 and len(firing) > len(storms)
        with sending(outbox, targets([other], routes), ORIGIN, lambda *said, **more: None, routes):
            for one in firing:
                outbox.add([one], {"p": 0})
            until(lambda: not any(one.waiting for one in outbox.statuses()), "all are sent")
        team = [one for one in taken.messages if one["To"] == "team@example.org"]
        assert [one["X-Semcep-Changes"].split() for one in team] == [[one.id for one in storms]]
        rest = [one for one in taken.messages if one["To"] == "all@example.org"]
        everything = [id for one in rest for id in one["X-Semcep-Changes"].split()]
        assert sorted(everything) == sorted(one.id for one in firing)


TWO_ROUTES = """
[receivers]
on-call = "smtp://localhost:{port}/on-call@example.org#private=yes&tls=none"

[[routes]]
receiver = "on-call"
matchers = ['severity=~"severe|extreme"']
group_by = ["..."]
group_wait = "0s"
group_interval = "1s"

[[routes]]
receiver = "on-call"
group_by = ["alertname"]
group_wait = "{wait}"
group_interval = "5m"
"""


def life(alert: str, *words: str) -> list[AlertChange]:
    """An alert that fires and changes by these states."""
    severities = ["Minor", "Severe", "Extreme"]
    found, escalated = [], 0
    for revision, word in enumerate(words):
        escalated += word == "escalated"
        state: AlertState = word  # type: ignore[assignment]
        found.append(
            change(
                severities[escalated], alert=alert * 32, revision=revision, state=state, escalated=escalated,
                severities=severities, sent=0,
            )
        )  # fmt: skip
    return found


def test_an_escalation_takes_the_route_of_its_severity(tmp_path: Path) -> None:
    """Both routes lead to one mailbox, and the group of the first severity is sent again only after five minutes."""
    with mail_server() as (taken, port):
        routes = read(tmp_path, TWO_ROUTES.format(port=port, wait="0s"))
        outbox = Outbox(None)
        with sending(outbox, targets([], routes), ORIGIN, lambda *said, **more: None, routes):
            for number, one in enumerate(life("a", "firing", "escalated", "escalated", "resolved"), 1):
                outbox.add([one], {"p": 0})
                until(lambda: len(taken.messages) == number, "it is sent")  # noqa: B023
    subjects = [one["Subject"].partition(":")[0] for one in taken.messages]
    assert subjects == ["Firing (Minor)", "Escalated to Severe", "Escalated to Extreme", "Resolved"]
    threads = [one["References"] for one in taken.messages]
    assert threads == [None, *[taken.messages[0]["Message-ID"]] * 3], "one thread"


def test_an_escalation_takes_along_what_waits_in_another_group(tmp_path: Path) -> None:
    with mail_server() as (taken, port):
        routes = read(tmp_path, TWO_ROUTES.format(port=port, wait="1h"))
        outbox = Outbox(None)
        firing, escalated = life("a", "firing", "escalated")
        other = life("b", "firing")[0]
        with sending(outbox, targets([], routes), ORIGIN, lambda *said, **more: None, routes):
            outbox.add([firing, other], {"p": 0})
            outbox.add([escalated], {"p": 0})
            until(lambda: taken.messages, "it is sent")
            (status,) = outbox.statuses()
            assert status.waiting, "the other alert waits in its group"
        (mail,) = taken.messages
        assert mail["X-Semcep-Changes"].split() == [firing.id, escalated.id]
        assert mail["Subject"].startswith("Escalated to Severe")


class Recorded:
    """A delivery that fails now and then, and keeps what was taken."""

    most, lanes, states = 4, 2, False

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.taken = chance, list[list[str]]()

    def key(self, entry: OutboxEntry) -> str:
        return entry.change.slot

    def give(self, entries: Sequence[OutboxEntry]) -> None:
        kind = self.chance.randrange(6)
        if kind == 0:
            raise ServerError("busy")
        if kind == 1:
            raise DeliveryRefused("no")
        pause(self.chance.choice((0, 0, 0.01)))
        self.taken.append([entry.change.id for entry in entries])

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        raise AssertionError("nothing is a dead letter")

    def rest(self, outbox: Outbox, told: object) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("seed", seeds(8))
def test_alerts_that_change_groups(seed: int, tmp_path: Path) -> None:
    """A receiver that fails, and starts of the sender: each change of an alert comes once, in order."""
    chance = random.Random(seed)
    wait = chance.choice(("0s", "50ms", "1h"))
    text = TWO_ROUTES.format(port=1, wait=wait).replace("5m", "1s")
    if chance.random() < 0.5 and wait != "1h":
        text = text.replace("severe|extreme", "severe")  # an alert that is extreme goes back to its first group
    routes = read(tmp_path, text.replace('["..."]', chance.choice(('["..."]', '["severity"]'))))
    own = routes.of("on-call", ORIGIN)
    outbox, delivery = Outbox(None), Recorded(chance)

    def begin() -> Sender:
        sender = Sender(
            outbox, "r", delivery, lambda *said, **more: None, attempts=1000, wants=own.wants, group_of=own.group
        )
        sender.start()
        return sender

    lives = {}
    for name in "abcdef":
        words = ["firing", *chance.choices(("updated", "escalated"), k=chance.randrange(1, 6)), "resolved"]
        while words.count("escalated") > 2:
            words.remove("escalated")
        if "escalated" not in words:
            words.insert(1, "escalated")
        lives[name] = life(name, *words)
    waiting = {name: list(changes) for name, changes in lives.items()}
    sender = begin()
    while waiting:
        name = chance.choice(sorted(waiting))
        outbox.add([waiting[name].pop(0)], {"p": 0})
        if not waiting[name]:
            del waiting[name]
        pause(chance.choice((0, 0, 0.02, 0.2)))
        if chance.random() < 0.1:
            sender.stop()
            sender = begin()
    if wait != "1h":
        until(lambda: not any(one.waiting for one in outbox.statuses()), "all are sent")
    else:
        until(lambda: sum(map(len, delivery.taken)) == outbox.last, "an escalation takes all along")
    sender.stop()
    taken = [id for batch in delivery.taken for id in batch]
    for name, changes in lives.items():
        assert [id for id in taken if id.startswith(name * 32)] == [one.id for one in changes]


def test_a_repeated_message_has_its_name_though_the_first_change_is_left_out() -> None:
    outbox = Outbox(None)
    changes = [life(name, "firing")[0] for name in "ab"]
    outbox.add(changes, {"p": 0})
    entries = outbox.after(0)

    def groups() -> Groups:
        return Groups(outbox, "r", lambda change: Group("all"), lambda number: False, lambda change: True)

    first = groups().batch("all", entries, 5)
    assert [each.group for each in first] == [changes[0].id] * 2
    again = groups()
    (left,) = again.batch("all", entries[1:], 9)
    assert (left.group, left.composed) == (changes[0].id, 5)
    again.send_alone("all")
    (alone,) = groups().batch("all", entries[1:], 9)
    assert alone.group is None, "the first may have been sent by itself"


@pytest.mark.long
def test_kills_while_groups_wait(tmp_path: Path) -> None:
    """At two mailboxes, in different groups: no transition is missing or out of order for an alert."""
    chance = random.Random(36)
    port, file, state = free_port(), tmp_path / "taken", tmp_path / "alerts.sqlite"
    feed = f"smtp://127.0.0.1:{port}/a@example.org#private=yes&tls=none"
    (tmp_path / "routes.toml").write_text(
        f'[receivers]\na = "{feed}"\n[[routes]]\nreceiver = "a"\ngroup_by = ["alertname"]\ngroup_wait = "200ms"\n'
        'group_interval = "1s"\n'
    )
    words = [str(state), f"routes={tmp_path / 'routes.toml'}"]
    listening = process("tests.mail_server", str(port), str(file), "0")
    for attempt in range(6):
        server = process("tests.alert_server", *words)
        said_by(server, "runs")
        pause(chance.uniform(0.1, 1.2))
        if attempt % 2:
            listening.kill()
            listening.wait()
            listening = process("tests.mail_server", str(port), str(file), str(attempt))
            pause(chance.uniform(0.1, 0.6))
        server.kill()
        server.wait()
    server = process("tests.alert_server", *words)
    said_by(server, "done")
    listening.kill()
    assert server.wait() == 0 and listening.wait() < 0
    sent = [json.loads(line) for line in file.read_text().splitlines()]
    mails: dict[str, list[str]] = dict(sent)
    assert all(mails[id] == changes for id, changes in sent), "the same id, the same changes"
    told = [change for changes in mails.values() for change in changes]
    whole = [one for one in expected() if one.state != "updated"]
    names = {one.id: one.name for one in whole}
    assert sorted(told) == sorted(names) and len(mails) < len(told) / 2
    assert all(len({names[id] for id in changes}) == 1 for changes in mails.values()), "a group for each name"
    for alert in {one.alert for one in whole}:
        assert [id for id in told if id.startswith(alert)] == [one.id for one in whole if one.alert == alert]
