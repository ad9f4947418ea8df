"""Metrics of alerts, of their receivers, and of sources, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import Closed
from cep.connectors.brokers.sources import Sources
from cep.connectors.receivers.sse import Stream


class ProgramMetrics(Collector):
    """Metrics of the program whose alerts are sent. `up`: returns True unless the program has failed."""

    def __init__(self, up: Callable[[], bool]) -> None:
        self.up = up

    def collect(self) -> Iterable[Metric]:
        text = "1: the program runs, or its input has ended; 0: it has failed."
        yield GaugeMetricFamily("semcep_program_up", text, self.up())


class MaintenanceMetrics(Collector):
    """The metric of maintenance windows.

    `up`: a function that returns True if the calendar can be read, False if it cannot, and None without a calendar.
    """

    def __init__(self, up: Callable[[], bool | None]) -> None:
        self.up = up

    def collect(self) -> Iterable[Metric]:
        text = "1: the calendar of maintenance windows was read; 0: it cannot be read, and its earlier windows apply."
        if (up := self.up()) is not None:
            yield GaugeMetricFamily("semcep_maintenance_calendar_up", text, up)


class SourceMetrics(Collector):
    """Metrics of live inputs. They show whether each input is available, and how often it was lost."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("semcep_source_up", "1: the source is connected; 0: it is lost.", labels=["source"])
        losses = CounterMetricFamily("semcep_source_losses", "How many times the source was lost.", labels=["source"])
        for name, number in self.sources.losses.items():
            up.add_metric([name], name not in self.sources.lost)
            losses.add_metric([name], number)
        yield from (up, losses)


class AlertMetrics(Collector):
    """Metrics of alerts. `unplaced`: for each alert name, the number of occurrences whose place is not valid."""

    def __init__(self, outbox: Outbox, stream: Stream, unplaced: Mapping[str, int]) -> None:
        self.outbox = outbox
        self.stream = stream
        self.unplaced = unplaced

    def collect(self) -> Iterable[Metric]:
        try:
            standings, live = self.outbox.statuses(), self.outbox.open
        except Closed:  # the server is about to end
            return
        waiting = GaugeMetricFamily(
            "semcep_feed_waiting", "Changes that a receiver has not received yet.", labels=["receiver"]
        )
        dead = GaugeMetricFamily(
            "semcep_feed_dead_letters", "Changes that a receiver has refused.", labels=["receiver"]
        )
        for status in standings:
            waiting.add_metric([status.name], status.waiting)
            dead.add_metric([status.name], status.dead)
        up = GaugeMetricFamily("semcep_feed_up", "1: the last attempt went well; 0: it failed.", labels=["receiver"])
        text = "Changes that a receiver has accepted since the start."
        delivered = CounterMetricFamily("semcep_feed_delivered", text, labels=["receiver"])
        failures = CounterMetricFamily("semcep_feed_failures", "Attempts that failed.", labels=["receiver"])
        for name, counts in sorted(self.outbox.counts.items()):
            up.add_metric([name], not counts.failing)
            delivered.add_metric([name], counts.delivered)
            failures.add_metric([name], counts.failures)
        unplaced = CounterMetricFamily(
            "semcep_alerts_unplaced", "Occurrences whose coordinates are not a place on earth.", labels=["alert"]
        )
        for name, number in sorted(self.unplaced.items()):
            unplaced.add_metric([name], number)
        yield from (waiting, dead, up, delivered, failures, unplaced)
        yield GaugeMetricFamily("semcep_alerts_open", "Alerts that are not resolved.", live)
        yield CounterMetricFamily(
            "semcep_alerts_changes", "Changes of alerts since the outbox was created.", self.outbox.last
        )
        yield GaugeMetricFamily("semcep_feed_clients", "Clients that read the stream of alerts.", self.stream.clients)
