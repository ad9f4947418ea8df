"""Turn messages of live inputs into batches as they arrive. Several inputs are read at the same time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Protocol

from cep.connectors.addresses import Address
from cep.connectors.brokers.messages import Inbox
from cep.connectors.brokers.sources import LiveSource, Reconnecting, SourceLost, Sources
from cep.connectors.clock_skew import without_ahead
from cep.connectors.idle import IdleTimer
from cep.connectors.inputs import Input
from cep.connectors.records.batch import Batch
from cep.core.schema import Schema
from cep.core.signals import stops

if TYPE_CHECKING:
    from cep.connectors.brokers.kafka import TopicSource
    from cep.connectors.brokers.sensorthings import Observations

_POLL = 0.2  # seconds to wait for messages at a time, so that Ctrl-C is not delayed
_TURN = 0.02  # the same if there are several inputs


class RunState(Protocol):
    """The properties of a run that a live reader needs before it polls its sources again."""

    @property
    def over(self) -> bool:
        """True if the run needs no further input."""

    @property
    def kept(self) -> bool:
        """True if all processed messages are stored, so that sources need not repeat them."""

    def place(self, source: str) -> Mapping[int, int]:
        """Return the position of a source (see `Messages.place`) that an earlier run has stored. Return an empty
        mapping if none is stored."""


def acknowledged(live_input: Input) -> bool:
    """Return True if a broker or service does not send messages again after this run has acknowledged them.

    An input that ends (`until=now`) and has no `group` is read from its start each time, so the result is False.
    """
    address = live_input.address
    if address is None or address.kind not in ("mqtt", "kafka", "sensorthings"):
        return False
    return address.kind == "mqtt" or address.options.get("until") != "now" or "group" in address.options


def opened_source(address: Address, place: Mapping[int, int], lasting: bool = False) -> LiveSource:
    """Open a live source at an address, after a position (see `Messages.place`).

    `lasting`: True if the source should be opened later if it is not available now, and opened again if its connection
    ends. The address can prevent this by `until=now` or `until=closed`.

    Raises CepError if a library is not installed, or if the source is not available and should not be opened later.
    """
    match address.kind:
        case "mqtt":
            from cep.connectors.brokers.mqtt import Subscription

            client = address.options.get("client") or None
            try:
                return Subscription.open(address, client, dict(place))
            except SourceLost as error:
                if not lasting:
                    raise
                return Reconnecting(error, lambda behind: Subscription.open(address, client, dict(behind)), place)
        case "kafka":
            from cep.connectors.brokers.kafka import TopicSource

            return _opened_behind(TopicSource.open, address, place, lasting)
        case "tcp":
            from cep.connectors.brokers.tcp import ConnectionSource

            numbers = count(1)
            lasts = lasting_connection(address, lasting)
            try:
                lines = ConnectionSource(address, lasts, numbers)
            except SourceLost as error:
                if not lasting or not lasts:
                    raise
                return Reconnecting(error, lambda behind: ConnectionSource(address, True, numbers))
            return Reconnecting(lines, lambda behind: ConnectionSource(address, True, numbers)) if lasts else lines
        case "sensorthings":
            from cep.connectors.brokers.sensorthings import Observations

            return _opened_behind(Observations.open, address, place, lasting)
        case kind:
            assert kind == "rate", "there are these"
            from cep.connectors.brokers.rate import Rate

            return Rate(address, time.time_ns() // 1000)


def _opened_behind(
    open: Callable[[Address, Mapping[int, int]], TopicSource | Observations],
    address: Address,
    place: Mapping[int, int],
    lasting: bool,
) -> LiveSource:
    """Open a source after a position, and reopen it whenever it is lost. A source with `until=now` is not reopened."""
    bounded = address.options.get("until") == "now"
    try:
        source = open(address, place)
    except SourceLost as error:
        if bounded or not lasting:
            raise
        return Reconnecting(error, partial(open, address), place)
    return source if bounded else Reconnecting(source, partial(open, address), source.place)


def lasting_connection(address: Address, lasting: bool) -> bool:
    """Return True if a connection is reopened after its end. `lasting`: the result if the address does not say."""
    return address.choice("until", ("ever", "closed") if lasting else ("closed", "ever")) == "ever"


def reach(input: Input) -> None:
    """Check that a live input exists. Raises CepError if it does not exist or a library is not installed.

    TCP addresses are not checked, because the other side could mistake a test connection for the reader of its lines.
    """
    assert input.address is not None, "live inputs have addresses"
    if input.address.kind == "tcp":
        return
    opened_source(replace(input.address, options={**input.address.options, "client": ""}), {}).close()


def listen(
    inputs: Sequence[Input],
    schemas: Mapping[str, Schema],
    most: int,
    first: int,
    idle: float | None,
    rest: RunState | None = None,
    sources: Sources | None = None,
) -> Iterator[Batch]:
    """Yield batches of up to `most` messages from live inputs. `first`: the number of the first record.

    - Records whose time is ahead of the clock become dead letters (see `cep.connectors.clock_skew`).
    - After `idle` seconds without messages, an empty batch tells the engine that the inputs are silent. Further empty
      batches follow until a message arrives (see `cep.connectors.idle`).
    - While the connection to a source is lost, there are no empty batches, because the source may have sent messages.
    - `sources` records which sources are lost.

    Messages count as processed when the caller requests the next batch. If `rest.kept` is True when the sources are
    closed, the last messages also count as processed.
    """
    sources = sources or Sources()
    with ExitStack() as stack:
        opened = []
        names: Counter[str] = Counter()
        for live_input in inputs:
            assert live_input.address is not None, "live inputs have addresses"
            name = f"{live_input.type}={live_input.path}"
            names[name] += 1
            name += f"#{names[name]}" if names[name] > 1 else ""
            with stops.breaking():
                source = opened_source(live_input.address, {} if rest is None else rest.place(name), sources.lasting)
            sources.begin(live_input.path)
            sources.is_now(live_input.path, source.lost)
            opened.append((name, stack.enter_context(closing(source)), Inbox(live_input, schemas)))
        silence = IdleTimer(idle)
        while opened and not (rest is not None and rest.over):
            seconds = _POLL if len(opened) == 1 else _TURN
            for opened_input in list(opened):
                stops.look()
                name, source, inbox = opened_input
                messages = source.poll(most, seconds)
                sources.is_now(inbox.path, source.lost)
                if messages is None:
                    opened.remove(opened_input)
                elif len(messages):
                    batch = replace(inbox.batch(messages, first), source=name, place=messages.place)
                    batch = without_ahead(batch, sources.ahead.live)
                    try:
                        yield batch
                    except GeneratorExit:
                        if rest is not None and rest.kept:
                            source.done()
                            source.kept()
                        raise
                    source.done()
                    source.kept()
                    first = batch.blocks[-1].beyond
                    silence.reset()
            if sources.lost:
                silence.reset()
            elif silence.due():
                yield Batch({}, [], [], silence=silence.length)
