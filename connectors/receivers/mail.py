"""Send alerts by e-mail (RFC 5322), one message per group of changes. The messages about an alert form a thread."""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.text import at, clean
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.notices import html, plain, subject
from cep.connectors.receivers.sender import DeliveryRefused, ServerError, Unreachable
from cep.connectors.receivers.targets import MAILBOX, Target, reachable
from cep.core.errors import CepError

TIMEOUT = 20.0
"""The time limit for connecting and for each answer of the server, in seconds."""

_IDLE = 10.0  # seconds for which an unused connection is kept
_WIRE = SMTP.clone(cte_type="7bit")  # a line length that every server accepts
_DOMAIN = re.compile(r"[A-Za-z0-9.-]+")


class Mail:
    """A delivery that sends messages to one mailbox.

    The Message-ID is `<id@domain>`, where `id` is the id of the first change in the message. If the message is sent
    again, it has the same Message-ID, even if it leaves out the first change. `References` names the first message
    about each alert.

    Status codes from 400 to 499 are temporary errors, like an unreachable server. A code from 500 on is final if the
    server rejects the content. If the server rejects the login or the mailbox, somebody can correct these, so the
    message is sent again.
    """

    most, lanes, states = 100, 1, False

    def __init__(self, target: Target, origin: Publisher, outbox: Outbox) -> None:
        self.target, self.origin, self.outbox = target, origin, outbox
        if not MAILBOX.fullmatch(origin.sender):
            hint = "`--sender 'Weather Service <alerts@example.org>'`, or `alerts@example.org` alone"
            raise CepError(f"--sender `{origin.sender}`: mail needs a mailbox as its sender", hint=hint, code="option")
        self._tls = ssl.create_default_context()
        self._smtp: smtplib.SMTP | None = None
        self._used = 0.0

    def key(self, entry: OutboxEntry) -> str:
        return entry.change.slot

    def give(self, entries: Sequence[OutboxEntry]) -> None:
        self._send(self.message(entries))

    def message(self, entries: Sequence[OutboxEntry]) -> EmailMessage:
        """Return the message for a group of changes. Record it as the first message for each new alert.

        Raises CepError if the disk cannot be written.
        """
        first = entries[0]
        id = _id(first, self.origin)
        alerts = list(dict.fromkeys(entry.change.alert for entry in entries))
        threads = self.outbox.threads(self.target.name, alerts, id)
        return message(entries, self.target.path, self.origin, [thread for thread in threads if thread != id])

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        self.give([entry])

    def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
        if time.monotonic() - self._used > _IDLE:
            self.close()

    def close(self) -> None:
        smtp, self._smtp = self._smtp, None
        if smtp is not None:
            with suppress(OSError, smtplib.SMTPException):
                smtp.quit()
            smtp.close()

    def _send(self, sent: EmailMessage) -> None:
        try:
            self._deliver(sent)
        except Exception:
            self.close_now()
            raise
        self._used = time.monotonic()

    def close_now(self) -> None:
        """Close the connection without the command QUIT."""
        if self._smtp is not None:
            self._smtp.close()
            self._smtp = None

    def _deliver(self, sent: EmailMessage) -> None:
        try:
            smtp = self._kept() or self._connected()
            stage = "message"
            code, text = smtp.mail(self.origin.sender)
            if code == 250:
                code, text = smtp.rcpt(self.target.path)
                if code in (250, 251):
                    code, text = smtp.data(sent.as_bytes())
                    stage = "content"
        except smtplib.SMTPDataError as error:  # the server accepts no data now
            raise _refused(error.smtp_code, error.smtp_error, "message") from None
        except smtplib.SMTPResponseException as error:
            raise _refused(error.smtp_code, error.smtp_error, "login") from None
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise Unreachable(clean(str(error), 200) or type(error).__name__) from None
        if code not in (250, 251):
            raise _refused(code, text, stage)

    def _kept(self) -> smtplib.SMTP | None:
        if self._smtp is None:
            return None
        with suppress(OSError, smtplib.SMTPException):
            if time.monotonic() - self._used < _IDLE and self._smtp.noop()[0] == 250:
                return self._smtp
        self.close_now()
        return None

    def _connected(self) -> smtplib.SMTP:
        """Open a connection. Encrypt it and log in if the target requires this."""
        target = self.target
        smtp = _Checked(target, self._tls)
        self._smtp = smtp
        code, text = smtp.connect(target.host, target.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, text)
        smtp.ehlo_or_helo_if_needed()
        if not target.tls and not target.plain:
            if not smtp.has_extn("starttls"):
                raise OSError("the server does not support STARTTLS")
            smtp.starttls(context=self._tls)
            smtp.ehlo()
        if target.user is not None:
            smtp.login(target.user, target.password or "")
        return smtp


class _Checked(smtplib.SMTP):
    """An SMTP connection to an address that was checked. It does not resolve the host name again, because the result
    could be another address than the checked one."""

    def __init__(self, target: Target, tls: ssl.SSLContext) -> None:
        self._target, self._context = target, tls
        super().__init__(timeout=TIMEOUT)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        self._host = host  # the name that certificates must have
        error = OSError("no address")
        for address in reachable(self._target):
            try:
                plain = socket.create_connection((address, port), timeout)
            except OSError as reason:
                error = reason
                continue
            return self._context.wrap_socket(plain, server_hostname=host) if self._target.tls else plain
        raise error


def message(entries: Sequence[OutboxEntry], to: str, origin: Publisher, threads: Sequence[str] = ()) -> EmailMessage:
    """Return the message for a group of changes.

    `threads`: the ids of earlier messages. Each of them was the first message about an alert in the group.
    """
    mail = EmailMessage(policy=_WIRE)
    mail["From"] = Address(clean(origin.speaker, 100), addr_spec=origin.sender)
    mail["To"] = Address(addr_spec=to)
    mail["Subject"] = subject(entries, origin)
    first = entries[0]
    times = (first.composed, first.recorded, first.change.time)
    mail["Date"] = format_datetime(at(next(time for time in times if time is not None)))
    mail["Message-ID"] = _id(first, origin)
    if threads:
        mail["In-Reply-To"] = threads[0]
        mail["References"] = " ".join(threads)
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Semcep-Changes"] = " ".join(entry.message for entry in entries)
    mail.set_content(plain(entries, origin), cte="quoted-printable")
    mail.add_alternative(html(entries, origin), subtype="html", cte="quoted-printable")
    mail.set_boundary(f"={first.change.id}=")  # no text contains it, because quoted-printable encodes `=`
    return mail


def _id(first: OutboxEntry, origin: Publisher) -> str:
    return f"<{first.group or first.message}@{_domain(origin)}>"


def _domain(origin: Publisher) -> str:
    name = origin.sender.rpartition("@")[2]
    return name if _DOMAIN.fullmatch(name) else "semcep.invalid"


def _refused(code: int, text: bytes | str, stage: str) -> Exception:
    said = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    reason = f"{code} {clean(said, 200)}".strip()
    if 400 <= code < 500 or code < 0:
        return ServerError(reason) if stage == "content" else Unreachable(reason)
    return DeliveryRefused(reason) if stage == "content" else ServerError(reason)
