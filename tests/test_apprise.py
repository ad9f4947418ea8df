"""Alerts by Apprise: which URLs it may have, what services are sent, and what becomes of a target that hangs."""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from apprise import plugins

from cep.connectors.alerts.outbox import Outbox
from cep.connectors.receivers import chat_services
from cep.connectors.receivers.chat_services import (
    CHATS,
    HOSTED,
    MARKDOWN,
    PAGING,
    SERVICES,
    AppriseMessages,
    apprise_targets,
)
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.sender import ServerError
from cep.connectors.receivers.senders import sending, targets
from cep.core.errors import CepError
from tests.alert_feeds import WHOLE, filled
from tests.waiting import Received, until

ORIGIN = Publisher("storm.cep", sender="alerts@example.org", address="https://x.org/cep/")
SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#alerts"
FIRST = replace(WHOLE[0], severity="Severe")


class Service:
    """A server as ntfy is one. `answer`: its status; while `stuck` is set it does not answer."""

    def __init__(self) -> None:
        self.taken: Received[dict[str, Any]] = Received()
        self.answer, self.stuck = 200, threading.Event()


@contextmanager
def service() -> Iterator[tuple[Service, int]]:
    found = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            while found.stuck.is_set():
                found.stuck.wait(0)
            self.send_response(found.answer)
            if found.answer == 302:
                self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(b"{}")
            if found.answer == 200:
                found.taken.append(body)

        def log_message(self, format: str, *args: Any) -> None:
            """In silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found, server.server_port
    finally:
        found.stuck.clear()
        server.shutdown()
        server.server_close()


def named(*urls: str, options: str = "", environment: str = "URLS") -> list[Any]:
    return apprise_targets(f"apprise+env://{environment}{options}", {"URLS": "\n".join(urls)})


def test_urls_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "on-call").write_text(
        f"# who is on call\n{SLACK}\n\n  tgram://123456789:ABCdefGHIjklMNOpqrSTUvwxYZ0/987654/\n"
    )
    found = targets([f"apprise+file://{tmp_path}/on-call#attempts=3"])
    assert [one.kind for one in found] == ["apprise", "apprise"] and {one.attempts for one in found} == {3}
    assert [one.name.partition("…")[0] for one in found] == ["slack://", "tgram://"]
    for one in found:
        assert "TIiajkdnlazkcOXrIdevi7FQ" not in repr(one) and "ABCdef" not in repr(one)


@pytest.mark.parametrize(
    "url, message, hint",
    [
        ("json://secret.example.org/", "`json://` is not an allowed scheme", "cloudevents+https://"),
        ("mailto://u:secret@gmail.com", "`mailto://` is not an allowed scheme", "smtp://"),
        ("dbus://secret", "`dbus://` is not an allowed scheme", ""),
        ("syslog://secret", "`syslog://` is not an allowed scheme", ""),
        ("opsgenie://secret", "`opsgenie://` is not an allowed scheme", "cloudevents+https://"),
        ("spike://secret", "`spike://` is not an allowed scheme", "cloudevents+https://"),
        ("slak://secret/secret", "`slak://` is not an allowed scheme", "slack"),
        ("gotify://secret.example.org/token", "the host of a `gotify://` URL cannot be checked", "#private=yes"),
        ("ntfy://secret.example.org/topic", "the host of a `ntfy://` URL cannot be checked", "#private=yes"),
        ("ntfy://topic?mode=private&x=secret", "the host of a `ntfy://` URL cannot be checked", "#private=yes"),
        ("slack://secret", "Apprise does not accept this `slack://` URL", ""),
        ("secret", "the URL has no scheme", "slack://"),
        ("", "the variable `URLS` has no URL", "each line"),
    ],
)
def test_urls_that_are_refused(url: str, message: str, hint: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CepError) as caught:
        named(url)
    assert message in caught.value.message and hint in (caught.value.hint or "")
    told = f"{caught.value.message}{caught.value.hint}{''.join(capfd.readouterr())}"
    assert "secret" not in told.replace("secret.example.org", "secret")


def test_places_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for feed, message in (
        (f"apprise+file://{tmp_path}/none", "no such file"),
        ("apprise+env://URLS#parallel=3", "`parallel=3` is not an option"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/secret", "`slack://` is not a kind of feed"),
        ("apprise://h", "`apprise://` is not a kind of feed"),
    ):
        monkeypatch.setenv("URLS", SLACK)
        with pytest.raises(CepError) as caught:
            targets([feed])
        assert message in caught.value.message.lower()
    monkeypatch.setattr(chat_services, "find_spec", lambda name: None)
    with pytest.raises(CepError, match="needs the package apprise") as caught:
        named(SLACK)
    assert "pip install" in (caught.value.hint or "")


def test_a_topic_of_the_public_ntfy_needs_no_leave() -> None:
    (one,) = named("ntfy://my-topic")
    assert one.name.startswith("ntfy://…")


def test_schemes_are_in_the_right_list() -> None:
    """No URL of a service names a host."""
    for scheme in SERVICES:
        plugin = plugins.N_MGR[scheme]
        assert not any("{host}" in template for template in plugin.templates), scheme
        assert not {"host", "port"} & {*plugin.template_tokens, *plugin.template_args}, scheme
    assert not SERVICES & HOSTED and all(scheme in plugins.N_MGR for scheme in HOSTED)
    assert not {"dbus", "gnome", "macosx", "windows", "syslog", "json", "xml", "form", "mailto"} & (SERVICES | HOSTED)


def test_a_message_for_slack_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its markup is escaped."""
    posts: list[tuple[str, dict[str, Any]]] = []

    def request(method: str, url: str, data: Any = None, **options: Any) -> requests.Response:
        posts.append((url, json.loads(data)))
        assert options["allow_redirects"] is False
        answer = requests.Response()
        answer.status_code, answer._content = 200, b"ok"
        return answer

    monkeypatch.setattr("requests.request", request)
    bad = "<!channel> <https://evil.org|click> & *b*"
    change = replace(FIRST, title=bad, text=bad, labels={"team": bad}, key={"s": bad})
    AppriseMessages(named(SLACK)[0], ORIGIN).give(filled([change]).after(0))
    ((url, body),) = posts
    text = json.dumps(body)
    assert url.startswith("https://hooks.slack.com/") and "<!channel>" not in text and "<https://evil" not in text
    assert r"&lt;\u200b!channel&gt;" in text and f"https://x.org/cep/#alert={FIRST.alert}" in text and change.id in text


KEY = "a" * 32
URLS = {
    "46elks": "46elks://user:pass@+15551234567/+15557654321",
    "bulksms": "bulksms://id:secret@15551234567",
    "clickatell": f"clickatell://{KEY}/15551234567",
    "clicksend": "clicksend://user:key@15551234567",
    "d7sms": "d7sms://token@15551234567",
    "discord": f"discord://123456789012345678/{KEY}",
    "firehydrant": f"firehydrant://{KEY}",
    "flock": "flock://134b8gh0-eba0-4fa9-ab9c-257ced0e8221",
    "gchat": "gchat://workspace/key/token",
    "guilded": f"guilded://123456789012345678/{KEY}",
    "ifttt": "ifttt://webhook/event",
    "ilert": f"ilert://{KEY}",
    "incidentio": "incidentio://source/token",
    "line": "line://token/target",
    "msgbird": f"msgbird://{KEY[:25]}/15551234567",
    "nexmo": f"nexmo://{KEY[:8]}:{KEY[:16]}@15551234567",
    "pagerduty": "pagerduty://integration@apikey",
    "pagertree": "pagertree://int_aaaaaaaaaa",
    "pbul": f"pbul://{KEY}",
    "plivo": f"plivo://MA{KEY[:18]}@{KEY}{KEY[:8]}/15551234567",
    "pover": f"pover://{KEY[:30]}@{KEY[:30]}",
    "prowl": f"prowl://{KEY}{KEY[:8]}",
    "pushed": "pushed://key/secret",
    "pushy": "pushy://key/device",
    "revolt": "revolt://token/channel",
    "ryver": "ryver://apprise/ckhrjW8w672m6HG",
    "seven": f"seven://{KEY[:25]}/15551234567",
    "signl4": "signl4://secret",
    "simplepush": "simplepush://aaaaaa",
    "sinch": f"sinch://{KEY}:{KEY}@15551234567",
    "slack": SLACK,
    "splunk": "splunk://route@aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
    "squadcast": f"squadcast://{KEY}",
    "telnyx": "telnyx://key@15551234567",
    "tgram": "tgram://123456789:ABCdefGHIjklMNOpqrSTUvwxYZ0/987654/",
    "threema": "threema://*TESTIDX@secret/15551234567",
    "twilio": f"twilio://AC{KEY}:{KEY}@15551234567",
    "twist": "twist://password:user@example.com/#1:2",
    "victorops": "victorops://route@aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
    "voipms": "voipms://password:user@example.com/15551234567/15551234567",
    "vonage": f"vonage://{KEY[:8]}:{KEY[:16]}@15551234567",
    "webex": f"webex://{KEY}{KEY}{KEY[:16]}",
    "whatsapp": "whatsapp://token@15551234567/15551234567",
    "wxteams": f"wxteams://{KEY}{KEY}{KEY[:16]}",
}
"""A URL of each service, by its scheme; `elks` is another name, and `46elks` is none for our lines."""
UNSEEN = frozenset(("46elks", "elks", "twist"))  # they ask the network for more before they send


@contextmanager
def posts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """Yield the messages that would be sent: the fields of each body or query. Every service accepts them."""
    found: list[dict[str, Any]] = []

    def request(self: requests.Session, method: str, url: str, **options: Any) -> requests.Response:
        body = options.get("data") or options.get("json") or options.get("params")
        found.append(json.loads(body) if isinstance(body, (str, bytes)) else dict(body or {}))
        answer = requests.Response()
        answer.status_code, answer._content = 200, b'{"id": "1", "success": true, "status": "success"}'
        if "slack" in url:
            answer._content = b"ok"
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(requests.Session, "request", request)
        yield found


def test_urls_of_all_services_are_tried() -> None:
    assert (
        {*URLS} | UNSEEN == SERVICES | UNSEEN and PAGING.keys() < URLS.keys() and (CHATS | MARKDOWN) < SERVICES | HOSTED
    )


BAD = "@everyone <@123> <@&45> <!channel> <users/all> [click](https://evil.org) <https://evil.org|click> *b* `c`"
CALLS = ("@everyone", "@123", "@&45", "<@", "<!", "<users/", "<https:")
TITLED = replace(FIRST, title=BAD, text=f"{BAD}.", labels={"team": BAD}, key={"s": BAD})


def texts(value: Any) -> Iterator[str]:
    """All texts in the bodies that are sent."""
    if isinstance(value, (str, bytes)):
        yield value if isinstance(value, str) else value.decode()
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)


def said(scheme: str, monkeypatch: pytest.MonkeyPatch) -> str:
    with posts(monkeypatch) as sent:
        AppriseMessages(named(URLS[scheme])[0], ORIGIN).give(filled([TITLED]).after(0))
    return "\n".join(texts(sent))


@pytest.mark.parametrize("scheme", sorted(URLS.keys() - UNSEEN))
def test_what_an_alert_says_reaches_each_service(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The title, and the id of the change, in whatever way the service or Apprise writes them."""
    shown = unescape(said(scheme, monkeypatch).replace("\\", "")).replace("\u200b", "")
    assert "@everyone" in shown and "[click](https://evil.org)" in shown and TITLED.id in shown
    assert f"https://x.org/cep/#alert={TITLED.alert}" in shown


@pytest.mark.parametrize("scheme", sorted((URLS.keys() - UNSEEN) & CHATS))
def test_what_an_alert_says_calls_nobody(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mention is broken, even if the service should take back what Apprise escapes."""
    text = said(scheme, monkeypatch)
    for shown in (text, unescape(text), text.replace("\\", "")):
        assert not [call for call in CALLS if call in shown]


@pytest.mark.parametrize("scheme", sorted((URLS.keys() - UNSEEN) & MARKDOWN))
def test_what_an_alert_says_hides_no_link(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = said(scheme, monkeypatch)
    assert "[click](" not in text and r"\[click\]\(https://evil.org\)" in text
    assert f"https://x.org/cep/#alert={TITLED.alert}" in text, "our own link stays one"


@pytest.mark.parametrize("scheme", sorted(PAGING))
def test_a_paging_service_has_an_incident_for_each_alert(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message has the alert as its key, the last one ends the incident, and remarks are none."""
    outbox, ends = Outbox(None), ["resolve", "RESOLVE", "resolved", "CLOSED", "RECOVERY"]
    (aim,) = named(URLS[scheme])
    other = replace(FIRST, alert="b" * 32, slot="b")
    said = replace(FIRST, revision=1, state="updated", action="commented", by="ann", comment="see you")
    graver = replace(FIRST, revision=2, state="escalated")
    over = replace(FIRST, revision=3, state="resolved")
    with posts(monkeypatch) as sent, sending(outbox, [aim], ORIGIN, lambda *said, **more: None):
        for changes in ([FIRST, other], [said, graver], [over]):
            outbox.add(changes, {})
            until(lambda: not outbox.statuses()[0].waiting, "all is sent", seconds=60)
    texts = [json.dumps(each) for each in sent]
    assert len(texts) == 4 and not any("see you" in text for text in texts)
    mine = [FIRST.alert in text for text in texts]
    assert mine == [True, False, True, True] or mine == [False, True, True, True]
    assert [any(f'"{word}"' in text for word in ends) for text in texts] == [False, False, False, True]
    keys = {value for each in sent for value in each.values() if value in (FIRST.alert, other.alert)}
    assert keys == {FIRST.alert, other.alert}, "the key is a field of its own"


def test_a_digest_for_a_paging_service_is_an_incident_for_each_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = filled([FIRST, replace(FIRST, alert="b" * 32), replace(FIRST, revision=1, state="resolved")]).after(0)
    with posts(monkeypatch) as sent:
        AppriseMessages(named(URLS["pagerduty"])[0], ORIGIN).give(entries)
    said = [(each["dedup_key"], each["event_action"]) for each in sent]
    assert said == [(FIRST.alert, "resolve"), ("b" * 32, "trigger")]


def test_a_paging_service_is_told_how_severe_an_alert_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """PagerDuty shows the summary: its first line is the heading, which is there once."""
    minor = replace(FIRST, severity="Minor", severities=["Minor", "Severe"], title="Low pressure")
    graver = replace(minor, revision=1, state="escalated", severity="Severe", escalated=1)
    over = replace(graver, revision=2, state="resolved")
    entries = filled([minor, graver, over]).after(0)
    with posts(monkeypatch) as sent:
        for entry in entries:
            AppriseMessages(named(URLS["pagerduty"])[0], ORIGIN).give([entry])
    assert [each["event_action"] for each in sent] == ["trigger", "trigger", "resolve"]
    assert {each["dedup_key"] for each in sent} == {FIRST.alert}
    assert [each["payload"]["severity"] for each in sent[:2]] == ["warning", "critical"]
    summaries = [each["payload"]["summary"] for each in sent[:2]]
    headings = ["Firing (Minor): Low pressure", "Escalated to Severe: Low pressure"]
    assert [text.splitlines()[0] for text in summaries] == headings
    assert [text.count("Low pressure") for text in summaries] == [1, 1]
    assert all(FIRST.id[:-1] in text for text in summaries), "the rest is there too"


@pytest.mark.parametrize("scheme", ["splunk", "victorops"])
def test_a_service_in_which_warnings_may_begin_no_incident(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with posts(monkeypatch) as sent:
        AppriseMessages(named(URLS[scheme])[0], ORIGIN).give(filled([replace(FIRST, severity="Minor")]).after(0))
    assert [each["message_type"] for each in sent] == ["CRITICAL"]


def test_messages_of_a_service() -> None:
    with service() as (found, port):
        (one,) = named(f"ntfy://127.0.0.1:{port}/topic", options="#private=yes")
        delivery = AppriseMessages(one, ORIGIN)
        delivery.give(filled([FIRST, WHOLE[1]]).after(0))
        assert "; 1 more: Firing (" in found.taken[0]["title"] and FIRST.id in found.taken[0]["message"]


@pytest.mark.parametrize("answer", [302, 401, 429, 500])
def test_a_service_that_refuses(answer: int, capfd: pytest.CaptureFixture[str]) -> None:
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        with service() as (found, port):
            found.answer = answer
            (one,) = named(f"ntfy://127.0.0.1:{port}/hush-hush", options="#private=yes")
            with pytest.raises(ServerError, match=f"the service has not accepted the message: {answer}") as caught:
                AppriseMessages(one, ORIGIN).give(filled([FIRST]).after(0))
    finally:
        logging.getLogger().removeHandler(handler)
    assert "hush" not in f"{caught.value}{''.join(capfd.readouterr())}{logged}{one.name}"


def test_a_target_that_hangs_delays_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with service() as (stuck, first), service() as (found, second):
        stuck.stuck.set()
        monkeypatch.setenv("URLS", f"ntfy://127.0.0.1:{first}/a?rto=600\nntfy://127.0.0.1:{second}/b\n")
        outbox = Outbox(None)
        changes = [change for change in WHOLE if change.state != "updated"]
        with sending(outbox, targets(["apprise+env://URLS#private=yes"]), ORIGIN, lambda *said, **more: None):
            outbox.add(changes, {"p": 0})
            until(lambda: {one.waiting for one in outbox.statuses()} == {0, len(changes)}, "one has all")
            assert found.taken and not stuck.taken
            stuck.stuck.clear()
            until(lambda: not any(one.waiting for one in outbox.statuses()), "it gets all when it answers")
        assert stuck.taken


@pytest.mark.long
def test_random_titles_reach_a_service_as_they_are() -> None:
    chance = random.Random(36)
    with service() as (found, port):
        delivery = AppriseMessages(named(f"ntfy://127.0.0.1:{port}/t", options="#private=yes")[0], ORIGIN)
        for _ in range(5):
            title = "".join(chance.choice("aé<>&*_`~[]()!#:{}\\\"'|@ ") for _ in range(30)).strip() + "."
            delivery.give(filled([replace(FIRST, title=title, text=title)]).after(0))
            assert found.taken[-1]["message"].startswith(f"Firing ({FIRST.severity}): {title}\n\n"), title
