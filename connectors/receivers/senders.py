"""The senders of a server. There is one sender for each `--feed`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.receivers.alertmanager import Alertmanager
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.groups import by_alert
from cep.connectors.receivers.mail import Mail
from cep.connectors.receivers.notices import news
from cep.connectors.receivers.routes import Routes
from cep.connectors.receivers.sender import Delivery, ReportTrouble, Sender
from cep.connectors.receivers.targets import Target, target
from cep.connectors.receivers.webhooks import Webhook
from cep.core.errors import CepError
from cep.core.extras import install_command

CLOSING_TIMEOUT = 5.0
"""The time in seconds after which the server no longer waits for its senders to finish the steps in progress. It
applies to all senders together."""

PEOPLE = ("smtp", "apprise")
"""The kinds of targets that are for people. A message to people may contain several changes. People are not sent
further occurrences of an open alert."""


def targets(feeds: Sequence[str], routes: Routes | None = None) -> list[Target]:
    """Return the targets in `--feed` options and in a file of routes.

    Raises CepError if a target is not valid, occurs twice, or needs a library that is not installed.
    """
    listed = [target for text in feeds for target in _targets(text)]
    for receiver, texts in () if routes is None else routes.receivers.items():
        assert routes is not None, "it has receivers"
        try:
            own = [replace(target, receiver=receiver) for text in texts for target in _targets(text)]
        except CepError as error:
            where = f"--routes {routes.file}, receiver `{receiver}`"
            message = f"{where}: {error.message.removeprefix('--feed').lstrip(': ')}"
            raise CepError(message, hint=error.hint, code="routes") from None
        if any(r.grouped for r in routes.routes if r.receiver == receiver) and not any(t.kind in PEOPLE for t in own):
            hint = "leave out `group_by`, `group_wait` and `group_interval`: each change is sent at once"
            where = f"--routes {routes.file}, receiver `{receiver}`"
            message = f"{where}: groups are for mail and Apprise, not for `{own[0].kind}`"
            raise CepError(message, hint=hint, code="routes")
        listed += own
    names = [listed_target.name for listed_target in listed]
    for name in names:
        if names.count(name) > 1:
            hint = "each address once"
            if routes is not None:
                hint += ": several routes may lead to one receiver, and `--feed` is for addresses not in --routes"
            raise CepError(f"--feed {name} appears twice", hint=hint, code="option")
    if any(listed_target.kind == "mqtt" for listed_target in listed) and find_spec("paho") is None:
        raise CepError("--feed mqtt:// needs paho-mqtt", hint=install_command("mqtt"), code="option")
    return listed


def _targets(text: str) -> list[Target]:
    if text.startswith(("apprise+file://", "apprise+env://")):
        from cep.connectors.receivers.chat_services import apprise_targets

        return apprise_targets(text)
    return [target(text)]


@contextmanager
def sending(
    outbox: Outbox,
    targets: Sequence[Target],
    origin: Publisher,
    report: ReportTrouble,
    routes: Routes | None = None,
) -> Iterator[list[Sender]]:
    """Run senders during a `with` block. Enter the block before the program runs, because a new receiver gets only the
    changes that are added after that."""
    senders = [_sender(target, outbox, origin, report, routes) for target in targets]
    try:
        for sender in senders:
            sender.start()
        yield senders
    finally:
        until = time.monotonic() + CLOSING_TIMEOUT
        for sender in senders:
            sender.halt()
        for sender in senders:
            sender.stop(max(0.0, until - time.monotonic()))


def _sender(target: Target, outbox: Outbox, origin: Publisher, report: ReportTrouble, routes: Routes | None) -> Sender:
    people = target.kind in PEOPLE
    own = None if routes is None or target.receiver is None else routes.of(target.receiver, origin)

    def everything(change: AlertChange) -> bool:
        return True

    return Sender(
        outbox,
        target.name,
        delivery(target, origin, outbox),
        report,
        attempts=target.attempts,
        start=target.start,
        wants=everything if own is None else own.wants,
        group_of=None if not people else by_alert if own is None else own.group,
        news=partial(news, outbox=outbox) if people else everything,
    )


def delivery(target: Target, origin: Publisher, outbox: Outbox) -> Delivery:
    """Create the delivery for the protocol of a target."""
    match target.kind:
        case "cloudevents":
            return Webhook(target, origin)
        case "alertmanager":
            return Alertmanager(target, origin, outbox)
        case "smtp":
            return Mail(target, origin, outbox)
        case "apprise":
            from cep.connectors.receivers.chat_services import AppriseMessages

            return AppriseMessages(target, origin)
        case _:
            from cep.connectors.receivers.mqtt import Topics

            return Topics(target, origin)
