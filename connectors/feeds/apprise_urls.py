"""Apprise: messages to what its URLs name, each a receiver of its own (`apprise+file://PATH`, `apprise+env://NAME`).

Apprise looks hosts up and connects by itself, past the rules for private addresses. So a URL is taken if its service
has one address for everybody, which nothing in the URL changes; others only with `#private=yes`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cep.core.errors import CepError, reason_of
from cep.core.extras import install_command
from cep.core.suggest import did_you_mean
from connectors.alerts.lifecycle import AlertChange
from connectors.alerts.outbox import Outbox
from connectors.alerts.outbox_entries import OutboxEntry
from connectors.feeds.document import Publisher
from connectors.feeds.notices import plain, subject
from connectors.feeds.sender import ServerError
from connectors.feeds.targets import Target, apprise_target

if TYPE_CHECKING:
    from apprise import Apprise

SERVICES = frozenset(
    (
        "46elks", "bulksms", "clickatell", "clicksend", "d7sms", "discord", "elks", "firehydrant", "flock", "gchat",
        "guilded", "ifttt", "ilert", "incidentio", "line", "msgbird", "nexmo", "opsgenie", "pagerduty", "pagertree",
        "pbul", "plivo", "pover", "prowl", "pushed", "pushy", "revolt", "ryver", "seven", "signl4", "simplepush",
        "sinch", "slack", "spike", "splunk", "squadcast", "telnyx", "tgram", "threema", "twilio", "twist", "victorops",
        "voipms", "vonage", "webex", "whatsapp", "wxteams",
    )
)  # fmt: skip
"""Schemes of services whose address no URL changes."""

HOSTED = frozenset(
    (
        "gotify", "gotifys", "hassio", "hassios", "matrix", "matrixs", "mmost", "mmosts", "ncloud", "nclouds", "nctalk",
        "nctalks", "ntfy", "ntfys", "rocket", "rockets", "signal", "signals", "synology", "synologys", "workflow",
        "workflows", "xmpp", "xmpps", "zulip",
    )
)  # fmt: skip
"""Schemes whose URL names a host, which cannot be checked: Apprise looks it up anew."""

OTHERS: Mapping[str, str] = {
    "json": "a webhook gets CloudEvents: `--feed cloudevents+https://`",
    "xml": "a webhook gets CloudEvents: `--feed cloudevents+https://`",
    "form": "a webhook gets CloudEvents: `--feed cloudevents+https://`",
    "mailto": "mail goes by `--feed smtp://`",
    "mqtt": "a broker is reached by `--feed mqtt://`",
    "apprise": "name here what that server would send to",
}

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
_STATUS = re.compile(r"error=(\d{3})\b")


def apprise_targets(text: str, environment: Mapping[str, str] = os.environ) -> list[Target]:
    """Return a target for each URL in a file or a variable. CepError: there is none, or one is refused; the message
    holds nothing of a URL but its scheme."""
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
            hint = "a URL of Apprise on each line: `apprise+file:///etc/semcep/on-call`"
            raise CepError(f"--feed {place}: {reason}", hint=hint, code="option") from None
    lines = [line.strip() for line in text.splitlines()]
    urls = [line for line in lines if line and not line.startswith("#")]
    if not urls:
        what = f"the variable `{name}` has no URL" if scheme == "apprise+env" else "there is no URL in it"
        raise CepError(f"--feed {place}: {what}", hint="a URL of Apprise on each line", code="option")
    return urls


def _name(url: str) -> str:
    """A receiver's name, which holds nothing of its URL but the scheme."""
    return f"{url.partition('://')[0].lower()}://…{sha256(url.encode()).hexdigest()[:8]}"


def _check(where: str, target: Target) -> None:
    """CepError: the URL is not one that messages may go to."""
    from apprise import Apprise

    url = target.path
    match = _SCHEME.match(url.lower())
    if match is None:
        raise CepError(f"{where}: it has no scheme", hint="e.g. `slack://`, `tgram://`, `pagerduty://`", code="option")
    scheme = match[1]
    if scheme not in SERVICES and not (scheme in HOSTED and _public_ntfy(scheme, url)):
        if scheme not in HOSTED:
            hint = OTHERS.get(scheme.removesuffix("s")) or did_you_mean(scheme, SERVICES | HOSTED)
            hint = hint or f"allowed are {', '.join(sorted(SERVICES | HOSTED))}"
            raise CepError(f"{where}: `{scheme}://` is not among the schemes allowed", hint=hint, code="option")
        if not target.private:
            reason = f"the host in a `{scheme}://` cannot be checked, since Apprise looks it up by itself"
            hint = "`#private=yes` behind the name of the file or variable allows any host"
            raise CepError(f"{where}: {reason}", hint=hint, code="option")
    _quiet()
    if Apprise.instantiate(url, suppress_exceptions=True) is None:
        message = f"{where}: Apprise does not take this `{scheme}://` URL"
        raise CepError(message, hint="Apprise's documentation says what belongs into it", code="option")


def _quiet() -> None:
    """Keep what Apprise logs from the log of the process: it may hold parts of URLs."""
    logger = logging.getLogger("apprise")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def _public_ntfy(scheme: str, url: str) -> bool:
    """Return True for `ntfy://topic`, which is a topic of ntfy.sh: a URL without a path names no host."""
    parts = urlsplit(url)
    return scheme in ("ntfy", "ntfys") and not parts.path.strip("/") and not parts.query and "@" not in parts.netloc


class AppriseMessages:
    """Messages to one URL. Apprise says no more than that it failed, so what fails is sent again, and is given up only
    when the service takes others."""

    most, lanes, states = 100, 1, False

    def __init__(self, target: Target, origin: Publisher) -> None:
        self.target, self.origin = target, origin
        self._apprise: Apprise | None = None

    def key(self, entry: OutboxEntry) -> str:
        return entry.change.slot

    def give(self, entries: Sequence[OutboxEntry]) -> None:
        from apprise import NotifyFormat, NotifyType

        last = entries[-1].change
        kind = NotifyType.SUCCESS if last.over else NotifyType.WARNING
        if not last.over and last.severity in ("Extreme", "Severe"):
            kind = NotifyType.FAILURE
        title, body = subject(entries, self.origin), plain(entries, self.origin)
        result = self._service().notify(body=body, title=title, notify_type=kind, body_format=NotifyFormat.TEXT)
        if not result:
            status = next((found[1] for one in result.logs() if (found := _STATUS.search(one.message))), "")
            raise ServerError(f"the service has not taken it{f': {status}' if status else ''}")

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        self.give([entry])

    def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
        """Nothing is sent again."""

    def close(self) -> None:
        """There is nothing to close: Apprise connects for each message."""

    def _service(self) -> Apprise:
        from apprise import Apprise, AppriseAsset, PersistentStoreMode

        if self._apprise is None:
            asset = AppriseAsset(
                http_redirects=False,
                interpret_emojis=False,
                interpret_escapes=False,
                secure_logging=True,
                storage_mode=PersistentStoreMode.MEMORY,
            )
            self._apprise = Apprise(asset=asset)
            self._apprise.add(self.target.path)
        return self._apprise
