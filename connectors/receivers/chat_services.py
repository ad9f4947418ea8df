"""Send messages to chats, pagers and SMS gateways, such as Slack, through Apprise.

A file (`apprise+file://PATH`) or a variable (`apprise+env://NAME`) lists the services' URLs. Each URL is one receiver.

Apprise resolves host names and connects on its own, so the rules about private addresses cannot be enforced. A URL is
accepted if its service has a fixed public address. Other URLs need `#private=yes`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.notices import plain, plain_body, subject
from cep.connectors.receivers.sender import ServerError
from cep.connectors.receivers.targets import Target, apprise_target
from cep.core.errors import CepError, reason_of
from cep.core.extras import install_command
from cep.core.suggest import did_you_mean

if TYPE_CHECKING:
    from apprise import Apprise

SERVICES = frozenset(
    (
        "46elks", "bulksms", "clickatell", "clicksend", "d7sms", "discord", "elks", "firehydrant", "flock", "gchat",
        "guilded", "ifttt", "ilert", "incidentio", "line", "msgbird", "nexmo", "pagerduty", "pagertree",
        "pbul", "plivo", "pover", "prowl", "pushed", "pushy", "revolt", "ryver", "seven", "signl4", "simplepush",
        "sinch", "slack", "splunk", "squadcast", "telnyx", "tgram", "threema", "twilio", "twist", "victorops",
        "voipms", "vonage", "webex", "whatsapp", "wxteams",
    )
)  # fmt: skip
"""URL schemes of services whose address is fixed, so that a URL cannot change it."""

HOSTED = frozenset(
    (
        "gotify", "gotifys", "hassio", "hassios", "matrix", "matrixs", "mmost", "mmosts", "ncloud", "nclouds", "nctalk",
        "nctalks", "ntfy", "ntfys", "rocket", "rockets", "signal", "signals", "synology", "synologys", "workflow",
        "workflows", "xmpp", "xmpps", "zulip",
    )
)  # fmt: skip
"""URL schemes of services whose URL names a host. The address of the host cannot be checked, because Apprise resolves
the host name itself."""

PAGING: Mapping[str, str] = {
    "firehydrant": "dedup",
    "ilert": "dedup",
    "incidentio": "dedup",
    "pagerduty": "dedup",
    "pagertree": "thirdparty",
    "signl4": "external_id",
    "splunk": "entity_id",
    "squadcast": "dedup",
    "victorops": "entity_id",
}
"""Services that open one incident per key, and close the incident on request. The value is the name of the Apprise
parameter that contains the key."""

CRITICAL = ("splunk", "victorops")
"""Paging services that may be configured so that a warning opens no incident. So open alerts are sent as failures."""

CHATS = frozenset(
    (
        "discord", "flock", "gchat", "guilded", "line", "matrix", "matrixs", "mmost", "mmosts", "ncloud", "nclouds",
        "nctalk", "nctalks", "revolt", "rocket", "rockets", "ryver", "slack", "synology", "synologys", "tgram", "twist",
        "webex", "workflow", "workflows", "wxteams", "xmpp", "xmpps", "zulip",
    )
)  # fmt: skip
"""Services in which `@name` or `<…>` in a text notifies somebody."""

MARKDOWN = frozenset(("discord", "guilded", "mmost", "mmosts", "ryver", "zulip"))
"""Services that read every text as Markdown. Apprise does not escape texts for them."""

_NO_KEY = "Apprise sends no incident key, so each change would open a new incident: use `--feed cloudevents+https://`"
OTHERS: Mapping[str, str] = {
    "opsgenie": _NO_KEY,
    "spike": _NO_KEY,
    "json": "use `--feed cloudevents+https://` for a webhook",
    "xml": "use `--feed cloudevents+https://` for a webhook",
    "form": "use `--feed cloudevents+https://` for a webhook",
    "mailto": "use `--feed smtp://` for mail",
    "mqtt": "use `--feed mqtt://` for a broker",
    "apprise": "use the URLs that the Apprise server would send to",
}

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
_MARKUP = re.compile(r"[\\`*_~|<>\[\]()#]")
_MENTION = re.compile(
    r"@(?=[\w!&])|<(?=[\w!@#])"
)  # `@all`; in Slack and Google Chat: `<!here>`, `<users/all>`, `<URL|text>`
_STATUS = re.compile(r"error=(\d{3})\b")


def apprise_targets(text: str, environment: Mapping[str, str] = os.environ) -> list[Target]:
    """Return one target for each URL in a file or variable.

    Raises CepError if there is no URL or if a URL is not allowed. The error shows only the scheme of the URL.
    """
    place, _, options = text.partition("#")
    if find_spec("apprise") is None:
        raise CepError("--feed apprise: needs the package apprise", hint=install_command("notify"), code="option")
    urls = _urls(place, environment)
    targets = [apprise_target(place, _name(url), url, options) for url in urls]
    for number, target in enumerate(targets, 1):
        _check(f"--feed {place}, URL {number}", target)
    return targets


def _urls(place: str, environment: Mapping[str, str]) -> list[str]:
    scheme, _, name = place.partition("://")
    if scheme == "apprise+env":
        text = environment.get(name, "")
    else:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else "it is not UTF-8"
            hint = "use a file with one URL of Apprise on each line: `apprise+file:///etc/semcep/on-call`"
            raise CepError(f"--feed {place}: {reason}", hint=hint, code="option") from None
    lines = [line.strip() for line in text.splitlines()]
    urls = [line for line in lines if line and not line.startswith("#")]
    if not urls:
        what = f"the variable `{name}` has no URL" if scheme == "apprise+env" else "the file has no URL"
        raise CepError(f"--feed {place}: {what}", hint="use one URL of Apprise on each line", code="option")
    return urls


def _name(url: str) -> str:
    """Return a receiver's name: the scheme of its URL, and a digest, because the URL may contain secrets."""
    return f"{url.partition('://')[0].lower()}://…{sha256(url.encode()).hexdigest()[:8]}"


def _check(where: str, target: Target) -> None:
    """Check that messages to the URL are allowed. Raises CepError if they are not."""
    from apprise import Apprise

    url = target.path
    match = _SCHEME.match(url.lower())
    if match is None:
        raise CepError(
            f"{where}: the URL has no scheme", hint="e.g. `slack://`, `tgram://`, `pagerduty://`", code="option"
        )
    scheme = match[1]
    if scheme not in SERVICES and not (scheme in HOSTED and _public_ntfy(scheme, url)):
        if scheme not in HOSTED:
            hint = OTHERS.get(scheme.removesuffix("s")) or did_you_mean(scheme, SERVICES | HOSTED)
            hint = hint or f"use one of {', '.join(sorted(SERVICES | HOSTED))}"
            raise CepError(f"{where}: `{scheme}://` is not an allowed scheme", hint=hint, code="option")
        if not target.private:
            reason = f"the host of a `{scheme}://` URL cannot be checked, because Apprise resolves it itself"
            hint = "add `#private=yes` to the name of the file or variable to allow any host"
            raise CepError(f"{where}: {reason}", hint=hint, code="option")
    _quiet()
    if Apprise.instantiate(url, suppress_exceptions=True) is None:
        message = f"{where}: Apprise does not accept this `{scheme}://` URL"
        raise CepError(message, hint="see Apprise's documentation for the parts of this URL", code="option")


def _quiet() -> None:
    """Keep Apprise's log messages out of the process log, because they may contain parts of URLs."""
    logger = logging.getLogger("apprise")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def _public_ntfy(scheme: str, url: str) -> bool:
    """Return True if a URL such as `ntfy://topic` names a topic of ntfy.sh. If a URL has no path, its first part is the
    topic and not a host."""
    parts = urlsplit(url)
    return scheme in ("ntfy", "ntfys") and not parts.path.strip("/") and not parts.query and "@" not in parts.netloc


class AppriseMessages:
    """A delivery that sends messages to one URL.

    Apprise reports that a message failed, but not why. So a message that failed is sent again. The sender gives up the
    message only if the service accepts other messages. A paging service is sent the current state of each alert. The
    alert's id is the key of the incident.
    """

    most, lanes = 100, 1

    def __init__(self, target: Target, origin: Publisher) -> None:
        self.target, self.origin = target, origin
        self.scheme = target.path.partition("://")[0].lower()
        self.states = self.scheme in PAGING
        self._only: Apprise | None = None

    def key(self, entry: OutboxEntry) -> str:
        return entry.change.slot

    def give(self, entries: Sequence[OutboxEntry]) -> None:
        if not self.states:
            self._send(entries, self._service())
            return
        last = {entry.change.alert: entry for entry in entries}
        for alert, entry in last.items():
            self._send([entry], self._service(alert))

    def _send(self, entries: Sequence[OutboxEntry], service: Apprise) -> None:
        from apprise import NotifyFormat, NotifyType

        last = entries[-1].change
        kind = NotifyType.SUCCESS if last.over else NotifyType.WARNING
        if not last.over and (self.scheme in CRITICAL or last.severity in ("Extreme", "Severe")):
            kind = NotifyType.FAILURE
        title = self._safe(subject(entries, self.origin))
        body = (
            plain_body(entries[-1], self.origin, self._safe) if self.states else plain(entries, self.origin, self._safe)
        )
        result = service.notify(body=body, title=title, notify_type=kind, body_format=NotifyFormat.TEXT)
        if not result:
            status = next((match[1] for log in result.logs() if (match := _STATUS.search(log.message))), "")
            raise ServerError(f"the service has not accepted the message{f': {status}' if status else ''}")

    def _safe(self, text: str) -> str:
        """Escape a text for the service, so that the text notifies nobody and contains no disguised links."""
        if self.scheme in MARKDOWN:
            text = _MARKUP.sub(r"\\\g<0>", text)
        return _MENTION.sub("\\g<0>\u200b", text) if self.scheme in CHATS else text

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        self.give([replace(entry, change=now) if self.states else entry])

    def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
        """Do nothing: open alerts are not sent again."""

    def close(self) -> None:
        """Do nothing: Apprise opens a connection for each message."""

    def _service(self, key: str = "") -> Apprise:
        """Return the Apprise object that sends to the service. `key`: the key of the incident, or ""."""
        from apprise import Apprise, AppriseAsset, PersistentStoreMode
        from apprise.plugins import url_to_dict

        if not key and self._only is not None:
            return self._only
        asset = AppriseAsset(
            http_redirects=False,
            interpret_emojis=False,
            interpret_escapes=False,
            secure_logging=True,
            storage_mode=PersistentStoreMode.MEMORY,
        )
        service = Apprise(asset=asset)
        options = url_to_dict(self.target.path)  # type: ignore[no-untyped-call]
        assert options is not None, "it was checked"
        if key:
            options |= {PAGING[self.scheme]: key, "action": "map"}
        service.add(options)
        if not key:
            self._only = service
        return service
