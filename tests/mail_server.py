"""A mail server for tests: `MailServer` in this process, or `python -m tests.mail_server PORT FILE SEED`.

It records each message that it accepts. Now and then it answers with an error, or disconnects before it answers.
"""

from __future__ import annotations

import json
import os
import random
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.ports import free_port
from tests.waiting import Received, turn


class Taken:
    """The handler of a server. `answers`: the reply to a stage, `MAIL`, `RCPT` or `DATA`, in place of a good one;
    `stuck`: while it is set, no message is answered."""

    def __init__(self) -> None:
        self.messages: Received[EmailMessage] = Received()
        self.answers: dict[str, str] = {}
        self.stuck = threading.Event()
        self.logins: list[tuple[str, str]] = []

    async def handle_MAIL(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        return self.answers.get("MAIL", "250 OK")

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if "RCPT" in self.answers:
            return self.answers["RCPT"]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        while self.stuck.is_set():
            await turn(0.02)
        answer = self.answers.get("DATA", "250 OK")
        if answer.startswith("250"):
            content = envelope.content
            assert isinstance(content, bytes)
            message = message_from_bytes(content, policy=default)
            assert isinstance(message, EmailMessage)
            message["X-Envelope"] = f"{envelope.mail_from} {' '.join(envelope.rcpt_tos)}"
            self.messages.append(message)
        return answer

    def login(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        name, password = data.login.decode(), data.password.decode()
        self.logins.append((name, password))
        return AuthResult(success=password == "hush", handled=False)


class Certificates:
    """A certificate for `localhost` and 127.0.0.1, of an authority that `trusted` makes known to this process."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("localhost", "127.0.0.1").configure_cert(self.context)

    def trusted(self, folder: Path) -> Path:
        """The file that `SSL_CERT_FILE` is to name."""
        file = folder / "authority.pem"
        self.authority.cert_pem.write_to_path(str(file))
        return file


@contextmanager
def mail_server(
    certificates: Certificates | None = None, login: bool = False, port: int = 0
) -> Iterator[tuple[Taken, int]]:
    """A server with STARTTLS, without certificates an unencrypted one, and its port."""
    taken = Taken()
    options: dict[str, Any] = {} if certificates is None else {"tls_context": certificates.context}
    options |= {"authenticator": taken.login, "auth_required": login} if login else {}
    controller = Controller(taken, "127.0.0.1", free_port(), **options)
    controller.start()
    try:
        yield taken, controller.port
    finally:
        taken.stuck.clear()
        controller.stop()


@contextmanager
def tls_mail_server(certificates: Certificates) -> Iterator[tuple[Taken, int]]:
    """A server that is encrypted from the first byte on."""
    taken = Taken()
    controller = Controller(taken, "localhost", free_port(), ssl_context=certificates.context)
    controller.start()
    try:
        yield taken, controller.port
    finally:
        controller.stop()


class Moody(Taken):
    """Writes each message to a file as a line of JSON with its id and its changes. It accepts most messages; the sender
    never learns that the first one was accepted."""

    def __init__(self, file: Path, chance: random.Random) -> None:
        super().__init__()
        self.file, self.chance, self.written = file, chance, False

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        mood = self.chance.random()
        if mood < 0.1 and self.written:
            return "451 later"
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=default)
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps([message["Message-ID"], message["X-Semcep-Changes"].split()]) + "\n")
            out.flush()
            os.fsync(out.fileno())
        if mood > 0.9 or not self.written:  # accepted, and the sender does not learn of it
            assert server.transport is not None
            server.transport.abort()
        self.written = True
        return "250 OK"


if __name__ == "__main__":
    controller = Controller(Moody(Path(sys.argv[2]), random.Random(sys.argv[3])), "127.0.0.1", int(sys.argv[1]))
    controller.start()
    print("listens", flush=True)
    threading.Event().wait()
