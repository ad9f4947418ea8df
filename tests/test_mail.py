"""Alerts by mail: how messages look, which belong together, what a server may answer, and kills."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from cep.connectors.alerts.lifecycle import AlertChange, AlertState, resolved
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.receivers import mail
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.groups import Groups, by_alert
from cep.connectors.receivers.mail import Mail
from cep.connectors.receivers.sender import DeliveryRefused, ServerError, Unreachable
from cep.connectors.receivers.senders import sending, targets
from cep.connectors.receivers.targets import Target, target
from cep.core.errors import CepError
from tests.alert_feeds import WHOLE, filled
from tests.alert_server import expected
from tests.mail_server import Certificates, mail_server, tls_mail_server
from tests.ports import free_port
from tests.test_outbox import process, said_by
from tests.waiting import Received, pause, until

ORIGIN = Publisher("storm.cep", sender="alerts@example.org", name="Weather Service", address="https://x.org/cep/")
FIRST = WHOLE[0]
LIFE = [change for change in WHOLE if change.alert == FIRST.alert]


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return Certificates()


@pytest.fixture
def trusting(certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certificates:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.trusted(tmp_path)))
    return certificates


def to(port: int, options: str = "tls=none", scheme: str = "smtp", user: str = "", **environment: str) -> Target:
    place = f"{scheme}://{user}{'@' if user else ''}localhost:{port}/team@example.org#private=yes"
    return target(f"{place}&{options}" if options else place, environment)


def made(changes: list[AlertChange], origin: Publisher = ORIGIN, **fields: Any) -> EmailMessage:
    outbox = filled(changes)
    entries = [replace(entry, **fields) for entry in outbox.after(0)]
    return Mail(to(25), origin, outbox).message(entries)


def texts(found: EmailMessage) -> tuple[str, str]:
    """What people see who read text, and who read HTML."""
    plain, html = found.get_body(("plain",)), found.get_body(("html",))
    assert plain is not None and html is not None
    return plain.get_content(), html.get_content()


def test_a_message_has_what_the_alert_says() -> None:
    change = replace(
        FIRST, title="Blizzard at kewr", text="4 readings", instruction="Stay inside.", runbook="https://r.org/a%20b",
        labels={"team": "water"}, severity="Severe",
    )  # fmt: skip
    found = made([change], recorded=1_700_000_000_000_000)
    assert found["From"] == "Weather Service <alerts@example.org>" and found["To"] == "team@example.org"
    assert found["Subject"] == "Firing (Severe): Blizzard at kewr" and found["Auto-Submitted"] == "auto-generated"
    assert found["Message-ID"] == f"<{change.id}@example.org>" and found["X-Semcep-Changes"] == change.id
    assert found.as_bytes() == made([change], recorded=1_700_000_000_000_000).as_bytes(), "nothing is left to chance"
    assert found["Date"] == "Tue, 14 Nov 2023 22:13:20 +0000"
    assert found["In-Reply-To"] is None and found["References"] is None
    plain, html = texts(found)
    link = f"https://x.org/cep/#alert={change.alert}"
    for text in ("4 readings", "Stay inside.", "Severe", "team", "water", "kewr", "https://r.org/a%20b", link):
        assert text in plain and text in html, text
    assert f'<a href="{link}">' in html and "<script" not in html
    assert "Stay inside." not in texts(made([replace(change, state="resolved")]))[0]
    assert (
        made([change], replace(ORIGIN, status="Exercise"))["Subject"] == "Exercise: Firing (Severe): Blizzard at kewr"
    )


def test_the_messages_of_an_alert_are_a_thread() -> None:
    outbox = filled(LIFE)
    mails = [Mail(to(25), ORIGIN, outbox).message([entry]) for entry in outbox.after(0)]
    first = f"<{LIFE[0].id}@example.org>"
    assert [one["Message-ID"] for one in mails] == [f"<{change.id}@example.org>" for change in LIFE]
    assert (
        [one["References"] for one in mails[1:]]
        == [one["In-Reply-To"] for one in mails[1:]]
        == [first] * (len(LIFE) - 1)
    )
    assert mails[-1]["Subject"] == f"Resolved: {LIFE[-1].title}"
    assert made([LIFE[1]])["References"] is None, "it is the first that this mailbox is sent"


def test_a_group_is_one_message() -> None:
    others = [change for change in WHOLE if change.alert != FIRST.alert and change.state == "firing"][:2]
    assert len({change.alert for change in others}) == 2
    found = made([FIRST, *others])
    assert "; 2 more: " in found["Subject"] and found["Message-ID"] == f"<{FIRST.id}@example.org>"
    assert found["X-Semcep-Changes"].split() == [FIRST.id, *(change.id for change in others)]
    plain, html = texts(found)
    assert all(change.id in plain and change.id in html for change in (FIRST, *others))
    assert "In-Reply-To" not in found
    assert made(LIFE)["Subject"] == f"Resolved: {LIFE[-1].title}", "of one alert how it is by then"


def test_a_subject_begins_with_the_gravest_alert_that_is_open() -> None:
    """Neither the end of another alert nor a longer list hides that one has become graver, or is new."""

    def one(alert: str, revision: int, severity: str, state: AlertState, **more: Any) -> AlertChange:
        title = f"Low pressure at {alert}"
        return replace(
            FIRST, alert=alert, revision=revision, severity=severity, state=state, title=title, sent=0, **more
        )

    kept, over = one("north", 3, "Moderate", "kept"), one("west", 4, "Extreme", "resolved")
    new, graver = one("south", 0, "Moderate", "firing"), one("east", 2, "Severe", "escalated")
    subjects = [made(changes)["Subject"] for changes in ([kept, over, new], [over, new, graver, kept])]
    assert subjects[0] == (
        "Firing (Moderate): Low pressure at south; "
        "2 more: Condition has ended, alert still open (Moderate): Low pressure at north; "
        "Resolved: Low pressure at west"
    )
    assert subjects[1].startswith("Escalated to Severe: Low pressure at east; 3 more: Firing (Moderate): ")
    plain, html = texts(made([over, new, graver]))
    for text in (plain, html):
        assert text.index("at east") < text.index("at south") < text.index("at west"), "as in the subject"
    more = one("east", 3, "Severe", "updated", action="commented", by="ann", comment="on my way")
    assert made([graver, more])["Subject"] == "Escalated to Severe: Low pressure at east", "a comment hides nothing"
    mine = replace(more, action="acknowledged", acknowledged="ann")
    assert made([graver, mine])["Subject"] == "Acknowledged (Severe): Low pressure at east"
    heard = replace(new, revision=5, sent=5, state="firing", action="unsilenced", by="semcep")
    assert made([heard])["Subject"] == "Firing (Moderate): Low pressure at south", "nobody has heard of it before"


def test_an_escalation_while_nobody_was_told_is_called_one() -> None:
    """It escalates while another alert inhibits it, or while it is silenced."""
    firing = replace(FIRST, severity="Minor", severities=["Minor", "Severe"], title="Low pressure")
    hidden = replace(firing, revision=1, state="inhibited", inhibited=True)
    graver = replace(hidden, revision=2, state="escalated", severity="Severe", escalated=1)
    heard = replace(graver, revision=3, state="updated", inhibited=False)
    more = replace(heard, revision=4, note="the input was corrected")
    silent = replace(hidden, inhibited=False, silenced=["s"], action="silenced")
    shown = replace(heard, action="unsilenced", by="ann")
    for life in ([firing, hidden, graver, heard, more], [firing, silent, replace(graver, silenced=["s"]), shown, more]):
        subjects = []
        with mail_server() as (taken, port):
            outbox = Outbox(None)
            feed = f"smtp://localhost:{port}/team@example.org#private=yes&tls=none"
            with sending(outbox, targets([feed]), ORIGIN, lambda *said, **more: None):
                for change in life:
                    outbox.add([change], {"p": 0})
                    until(lambda: not outbox.statuses()[0].waiting, "it is sent")  # noqa: B023
            subjects = [one["Subject"] for one in taken.messages]
        assert subjects == [
            "Firing (Minor): Low pressure", "Escalated to Severe: Low pressure", "Updated (Severe): Low pressure"
        ]  # fmt: skip


def test_the_date_is_when_the_group_was_put_together() -> None:
    """A server that was killed while it sent a message sends the same bytes again."""
    outbox = filled(LIFE[:2])
    mails = []
    for now in (1_700_000_000_000_000, 1_700_000_900_000_000):  # the second time after a kill
        groups = Groups(outbox, "team", by_alert, lambda number: False, lambda change: True)
        batch = groups.batch(FIRST.slot, outbox.after(0), now)
        mails.append(Mail(to(25), ORIGIN, outbox).message(batch))
    assert mails[0]["Date"] == "Tue, 14 Nov 2023 22:13:20 +0000"
    assert mails[0].as_bytes() == mails[1].as_bytes()


def test_a_label_that_is_of_the_key_is_said_once() -> None:
    change = replace(FIRST, key={"site": "north"}, values={"site": "north"}, labels={"site": "north", "team": "water"})
    plain, html = texts(made([change]))
    assert plain.count("site: ") == 1 and html.count(">site<") == 1 and "team: water" in plain


def test_since_is_when_the_condition_began() -> None:
    """As on the page and in `cep alerts`; when it fired is said besides."""
    plain, _ = texts(made([replace(FIRST, start=0, end=600_000_000, fired=300_000_000)]))
    assert "Since: 1970-01-01 00:00:00 UTC\nFired: 1970-01-01 00:05:00 UTC\n" in plain


def test_references_are_to_messages_that_are_there() -> None:
    """An alert that was first told of behind another one goes on in the thread of that message, also after a start."""
    other = next(change for change in WHOLE if change.alert != FIRST.alert and change.state == "firing")
    over = replace(other, revision=1, state="resolved")
    outbox = filled([FIRST, other, replace(FIRST, revision=1), over])
    first, second, again, end = outbox.after(0)

    def ids(*entries: OutboxEntry) -> tuple[str, str | None]:
        mail = Mail(to(25), ORIGIN, outbox)
        assert mail.message(entries).as_bytes() == mail.message(entries).as_bytes(), "it may be sent twice"
        found = mail.message(entries)
        return found["Message-ID"], found["References"]

    digest = f"<{FIRST.id}@example.org>"
    assert ids(first, second) == (digest, None)
    assert ids(end) == (f"<{over.id}@example.org>", digest) and ids(again)[1] == digest
    assert ids(replace(second, reminder=2)) == (f"<{other.id}.2@example.org>", digest)
    assert ids(end, again) == (f"<{over.id}@example.org>", digest)


def test_what_people_do_after_the_end_is_told_in_the_thread_with_when_it_was_over() -> None:
    over = resolved(FIRST, FIRST.time + 60 * 1_000_000)
    later = replace(
        over, revision=2, action="commented", by="anna", comment="it was a boat", time=over.time + 3600_000_000
    )
    outbox = filled([FIRST, over, later])
    sent: list[EmailMessage] = []
    mail = Mail(to(25), ORIGIN, outbox)
    mail._send = sent.append  # type: ignore[method-assign]
    for entry in outbox.after(0):
        mail.give([entry])
    assert [one["References"] for one in sent] == [None, *[sent[0]["Message-ID"]] * 2]
    (said,) = {line for one in sent for line in texts(one)[0].splitlines() if line.startswith("Over:")}
    assert said == "Over: 1970-01-01 00:01:00 UTC"


def test_threads_of_alerts_that_are_not_kept_any_more_are_forgotten() -> None:
    outbox = Outbox(None, keep=10)
    first = f"<{FIRST.id}@example.org>"

    def thread(alert: str) -> list[str]:
        return outbox.threads("mail:team@example.org", [alert], "<other@example.org>")

    outbox.add([FIRST], {})
    assert outbox.threads("mail:team@example.org", [FIRST.alert], first) == [first] == thread(FIRST.alert)
    outbox.add([resolved(FIRST, FIRST.time)], {})
    assert thread(FIRST.alert) == [first]
    for number in range(30):
        outbox.add([replace(FIRST, alert=f"{number:032x}", slot=str(number))], {})
    assert outbox.revision(FIRST.alert) is None and thread(FIRST.alert) == ["<other@example.org>"]


def test_a_reminder_is_another_message_of_its_thread() -> None:
    (entry,) = (outbox := filled([FIRST])).after(0)
    mail = Mail(to(25), ORIGIN, outbox)
    mail.message([entry])
    found = mail.message([replace(entry, reminder=2)])
    assert found["Message-ID"] == f"<{FIRST.id}.2@example.org>" and found["Subject"].startswith("Reminder")
    assert found["In-Reply-To"] == f"<{FIRST.id}@example.org>"


def test_what_people_do_is_told() -> None:
    done = replace(
        FIRST,
        revision=1,
        action="acknowledged",
        by="anna",
        comment="I drive there",
        acknowledged="anna",
        assignee="ben",
    )
    found = made([done])
    plain, html = texts(found)
    assert found["Subject"] == f"Acknowledged ({FIRST.severity}): {FIRST.title}"
    for text in ("anna: I drive there", "Acknowledged by", "Assigned to", "ben"):
        assert text in plain and text in html


@pytest.mark.parametrize("bad", ["x\r\nBcc: all@example.org", "x\nSubject: y", "a\0b", "\u202egnp.exe", "x" * 5000])
def test_nothing_in_an_alert_becomes_a_header(bad: str) -> None:
    change = replace(FIRST, title=bad, text=bad, note=bad, labels={"team": bad}, key={"a": bad}, runbook=bad)
    found = made([change], replace(ORIGIN, name=bad))
    raw = found.as_bytes()
    head = raw.partition(b"\r\n\r\n")[0]
    names = re.findall(rb"^([A-Za-z-]+):", head, re.M)
    assert b"Bcc" not in names and names.count(b"Subject") == 1
    assert all(len(line) <= 998 for line in raw.split(b"\r\n")) and raw.isascii()


def test_no_text_ends_a_part_of_a_message() -> None:
    bad = f"--={FIRST.id}=--"
    plain, html = texts(made([replace(FIRST, title="x", text=bad, note=bad)]))
    assert plain.count(bad) == html.count(bad) == 2


def test_markup_in_an_alert_is_text() -> None:
    bad = '<img src=x onerror="alert(1)"> & <a href="https://evil.org">x</a>'
    change = replace(
        FIRST, title=bad, text=bad, labels={bad: bad}, key={bad: bad}, values={bad: bad}, runbook=f'javascript:"{bad}'
    )
    _, html = texts(made([change]))
    assert "<img" not in html and 'evil.org">' not in html and "javascript:" not in html
    assert "&lt;img src=x onerror=&quot;alert(1)&quot;&gt; &amp; &lt;a" in html


def test_a_server_with_starttls_and_a_login(trusting: Certificates, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    with mail_server(trusting, login=True) as (taken, port):
        Mail(to(port, f"password-file={secret}", user="on%40call"), ORIGIN, outbox := filled([FIRST])).give(
            outbox.after(0)
        )
        assert taken.logins == [("on@call", "hush")] and len(taken.messages) == 1
        assert taken.messages[0]["X-Envelope"] == "alerts@example.org team@example.org"
        wrong = Mail(to(port, "", user="x", SEMCEP_SMTP_PASSWORD="nosuch"), ORIGIN, outbox)
        with pytest.raises(ServerError, match="535") as caught:
            wrong.give(outbox.after(0))
        assert "nosuch" not in str(caught.value) and "nosuch" not in repr(wrong.target)


def test_a_server_that_is_encrypted_from_the_first_byte_on(trusting: Certificates) -> None:
    with tls_mail_server(trusting) as (taken, port):
        delivery = Mail(to(port, "", "smtps"), ORIGIN, outbox := filled(LIFE))
        for entry in outbox.after(0):
            delivery.give([entry])
        delivery.close()
        assert [one["X-Semcep-Changes"] for one in taken.messages] == [change.id for change in LIFE]


def test_a_server_that_nobody_vouches_for(certificates: Certificates) -> None:
    with mail_server(certificates) as (taken, port), pytest.raises(Unreachable, match="certificate verify failed"):
        Mail(to(port, ""), ORIGIN, outbox := filled([FIRST])).give(outbox.after(0))
    with mail_server() as (taken, port), pytest.raises(Unreachable, match="the server does not support STARTTLS"):
        Mail(to(port, ""), ORIGIN, outbox).give(outbox.after(0))
    assert not taken.messages


@pytest.mark.parametrize(
    "stage, answer, error",
    [
        ("MAIL", "451 busy", Unreachable),
        ("MAIL", "553 not you", ServerError),
        ("RCPT", "450 greylisted", Unreachable),
        ("RCPT", "550 no such mailbox", ServerError),
        ("DATA", "451 later", ServerError),
        ("DATA", "554 spam", DeliveryRefused),
    ],
)
def test_what_an_answer_means(stage: str, answer: str, error: type[Exception]) -> None:
    with mail_server() as (taken, port):
        delivery = Mail(to(port), ORIGIN, outbox := filled([FIRST]))
        taken.answers[stage] = answer
        with pytest.raises((Unreachable, DeliveryRefused)) as caught:
            delivery.give(outbox.after(0))
        assert type(caught.value) is error and str(caught.value) == answer
        taken.answers.clear()
        delivery.give(outbox.after(0))
        assert len(taken.messages) == 1


def test_a_server_that_is_not_there_or_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "TIMEOUT", 0.3)
    outbox = filled([FIRST])
    with pytest.raises(Unreachable, match="refused"):
        Mail(to(free_port()), ORIGIN, outbox).give(outbox.after(0))
    with mail_server() as (taken, port):
        taken.stuck.set()
        delivery = Mail(to(port), ORIGIN, outbox)
        with pytest.raises(Unreachable, match="timed out"):
            delivery.give(outbox.after(0))
        taken.stuck.clear()
        delivery.give(outbox.after(0))
        assert {one["Message-ID"] for one in taken.messages} == {f"<{FIRST.id}@example.org>"}


def test_what_is_refused_for_good_is_a_dead_letter_and_the_rest_goes_on() -> None:
    said: Received[str] = Received()
    with mail_server() as (taken, port):
        feed = f"smtp://localhost:{port}/team@example.org#private=yes&tls=none&attempts=2"
        taken.answers["DATA"] = "554 spam"
        outbox = Outbox(None)
        with sending(outbox, targets([feed]), ORIGIN, lambda name, text, **more: said.append(text)):
            outbox.add([FIRST], {"p": 0})
            until(lambda: outbox.statuses()[0].dead == 1, "it is given up")
            taken.answers.clear()
            outbox.add([change for change in WHOLE if change.state == "firing"][1:3], {"p": 0})
            until(lambda: not outbox.statuses()[0].waiting, "the others are taken")
            (letter,) = outbox.dead(outbox.statuses()[0].name)
            assert letter.reason == "554 spam" and letter.entry.change.id == FIRST.id
            outbox.retry(outbox.statuses()[0].name, "ben")
            until(lambda: not outbox.statuses()[0].dead, "it is taken when it is sent again")
        assert len(taken.messages) == 3


def test_a_server_that_hangs_delays_only_itself() -> None:
    with mail_server() as (stuck, first), mail_server() as (taken, second):
        stuck.stuck.set()
        feeds = [f"smtp://localhost:{port}/team@example.org#private=yes&tls=none" for port in (first, second)]
        outbox = Outbox(None)
        with sending(outbox, targets(feeds), ORIGIN, lambda *said, **more: None):
            outbox.add(LIFE, {"p": 0})
            taken.messages.at_least(1)
            assert not stuck.messages
            stuck.stuck.clear()
            until(lambda: not any(one.waiting for one in outbox.statuses()), "it gets all when it answers")
        assert stuck.messages


def test_further_occurrences_are_no_message() -> None:
    assert "updated" in {change.state for change in WHOLE}
    with mail_server() as (taken, port):
        outbox = Outbox(None)
        feed = f"smtp://localhost:{port}/team@example.org#private=yes&tls=none"
        with sending(outbox, targets([feed]), ORIGIN, lambda *said, **more: None):
            outbox.add(WHOLE, {"p": 0})
            until(lambda: not outbox.statuses()[0].waiting, "all are sent")
    told = [id for one in taken.messages for id in one["X-Semcep-Changes"].split()]
    assert sorted(told) == sorted(change.id for change in WHOLE if change.state != "updated")
    assert len(taken.messages) < len(told), "what waits of an alert goes together"


@pytest.mark.parametrize(
    "feed, message",
    [
        ("smtp://u:hush@mail.example.org/a@b.org", "smtp://mail.example.org/a@b.org: a password does not belong here"),
        ("smtp://u@mail.example.org/a@b.org", "the password of `u` is missing"),
        ("smtp://u@mail.example.org/a@b.org#password-file=/no/such", "password-file /no/such: "),
        ("smtp://mail.example.org/", "`` is not a mailbox"),
        ("smtp://mail.example.org/a@b.org,c@d.org", "`a@b.org,c@d.org` is not a mailbox"),
        ("smtp://mail.example.org/a%0d%0aBcc:x@b.org", "this is not a mailbox"),
        ("smtp://mail.example.org/ä@b.org", "is not a mailbox"),
        ("smtp://localhost/a@b.org", "`localhost` is a private address"),
        ("smtp://10.0.0.1/a@b.org", "`10.0.0.1` is a private address"),
        ("smtp://169.254.169.254/a@b.org", "is a private address"),
        ("smtps://mail.example.org/a@b.org#tls=none", "`tls=none`: `smtps://` is encrypted"),
        ("smtp://mail.example.org/a@b.org#tls=maybe", "`tls=maybe` is not known"),
        ("smtp://mail.example.org/a@b.org#parallel=3", "`parallel=3` is not an option"),
        ("mailto://a@b.org", "`mailto://` is not a kind of feed"),
    ],
)
def test_addresses_that_are_refused(feed: str, message: str) -> None:
    with pytest.raises(CepError) as caught:
        target(feed, {})
    assert message in caught.value.message and "hush" not in f"{caught.value}{caught.value.hint}"


def test_a_password_is_not_sent_unencrypted() -> None:
    with pytest.raises(CepError, match="a password is not sent unencrypted"):
        to(25, "tls=none", user="u", SEMCEP_SMTP_PASSWORD="hush")


def test_mail_needs_a_mailbox_as_its_sender() -> None:
    with pytest.raises(CepError, match="mail needs a mailbox as its sender"):
        Mail(to(25), Publisher("p", sender="semcep"), filled([]))


def test_a_name_that_leads_to_the_own_network_is_not_connected_to() -> None:
    with mail_server() as (taken, port):
        aim = replace(to(port), private=False)
        with pytest.raises(Unreachable, match="is a private address"):
            Mail(aim, ORIGIN, outbox := filled([FIRST])).give(outbox.after(0))
    assert not taken.messages


@pytest.mark.long
def test_server_and_mail_server_are_killed_at_random_moments(tmp_path: Path) -> None:
    """No transition is missing or out of order for an alert, and what comes twice comes under the same id."""
    chance = random.Random(20261129)
    port, file, state = free_port(), tmp_path / "taken", tmp_path / "alerts.sqlite"
    feed = f"smtp://127.0.0.1:{port}/team@example.org#private=yes&tls=none"
    listening = process("tests.mail_server", str(port), str(file), "0")
    for attempt in range(4):
        server = process("tests.alert_server", str(state), feed)
        said_by(server, "runs")
        for _ in range(2):
            pause(chance.uniform(0.05, 0.4))
            listening.kill()
            listening.wait()
            pause(chance.uniform(0, 0.2))
            listening = process("tests.mail_server", str(port), str(file), str(attempt))
        pause(chance.uniform(0, 0.5))
        server.kill()
        server.wait()
    server = process("tests.alert_server", str(state), feed)
    said_by(server, "done")
    listening.kill()
    assert server.wait() == 0 and listening.wait() < 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    mails: dict[str, list[str]] = dict(lines)
    assert all(mails[id] == changes for id, changes in lines), "the same id, the same changes"
    assert len(lines) > len(mails), "some came twice"
    told = [change for changes in mails.values() for change in changes]
    whole = [change for change in expected() if change.state != "updated"]
    assert len(told) == len({*told}) == len(whole)
    for alert in {change.alert for change in whole}:
        assert [id for id in told if id.startswith(alert)] == [change.id for change in whole if change.alert == alert]
