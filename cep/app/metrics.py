"""Metrics of a run for Prometheus. An HTTP server provides them on a port while the run lasts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import time

from prometheus_client import start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from cep.app.meter import Meter
from cep.core.errors import CepError, reason_of

SECOND = 1_000_000
HERE = "127.0.0.1"


class MetricsCollector(Collector):
    """A Prometheus collector that reads a meter. It returns the state between two batches."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def collect(self) -> Iterable[Metric]:
        with self._meter.lock:
            return [*self._run(), self._keys(), *self._revision(), *self._rules(), *self._goals()]

    def _run(self) -> Iterator[Metric]:
        meter = self._meter
        yield GaugeMetricFamily("semcep_start_time_seconds", "When the run began, in Unix time.", meter.began)
        yield CounterMetricFamily("semcep_records", "Records read, including those that are not events.", meter.records)
        text = "Records that match no WHEN, so they are not events of the program."
        yield CounterMetricFamily("semcep_records_of_no_event", text, meter.unmatched)
        for name, text, label, counts in (
            ("semcep_events_read", "Events that were read from the input.", "event", meter.read),
            ("semcep_events_late", "Events that arrived too late; dead letters.", "event", meter.late),
            ("semcep_events_derived", "Events that rules derived.", "event", meter.derived),
            ("semcep_dead_letters", "Records that could not be read as events, and late events.", "reason", meter.dead),
        ):
            family = CounterMetricFamily(name, text, labels=[label])
            for value, number in sorted(counts.items()):
                family.add_metric([value], number)
            yield family
        if meter.watermark is not None:
            text = "Events that end at or before this time are no longer accepted, in Unix time of the events."
            yield GaugeMetricFamily("semcep_watermark_seconds", text, meter.watermark / SECOND)
            text = "How far event time is behind the clock: alerts fire and end that much later."
            yield GaugeMetricFamily("semcep_clock_lag_seconds", text, time() - meter.watermark / SECOND)
        if meter.latest is not None:
            text = "The latest end of an event, in Unix time of the events."
            yield GaugeMetricFamily("semcep_latest_event_seconds", text, meter.latest / SECOND)
        if meter.watermark is not None and meter.latest is not None:
            lag = max(0, meter.latest - meter.watermark) / SECOND
            yield GaugeMetricFamily(
                "semcep_watermark_lag_seconds", "How far the watermark is behind the latest event.", lag
            )
        text = "Batches run (on Spark micro-batches), and how long they took."
        yield SummaryMetricFamily("semcep_batch_seconds", text, meter.batches, meter.seconds)
        rows = GaugeMetricFamily(
            "semcep_state_rows", "Rows that operators keep for later events or times.", labels=["stage"]
        )
        size = GaugeMetricFamily(
            "semcep_state_bytes", "Size of the state in bytes, including values.", labels=["stage"]
        )
        for stage in range(1, len(meter.charts) + 1):
            mine = [size_of_bucket for (number, _), size_of_bucket in meter.state_by_bucket.items() if number == stage]
            rows.add_metric([str(stage)], sum(row_count for row_count, _ in mine))
            size.add_metric([str(stage)], sum(size_of_state for _, size_of_state in mine))
        yield from (rows, size)

    def _keys(self) -> Metric:
        text = "Share of an event's rows that belong to one key, in the last batch that was divided among partitions."
        family = GaugeMetricFamily("semcep_hot_key_share", text, labels=["event", "key"])
        for shares in self._meter.keys:
            for key, share in shares.shares().items():
                family.add_metric([shares.event, key], share)
        return family

    def _revision(self) -> Iterator[Metric]:
        """Yield the metrics of revision if the run revises results."""
        if (stats := self._meter.revision) is None:
            return
        for name, text, number in (
            (
                "semcep_revision_late",
                "Records added or withdrawn after the watermark had passed them, within the time of --revise.",
                stats.late,
            ),
            ("semcep_revisions", "Batches with records that came or were withdrawn late.", stats.revisions),
            ("semcep_revision_withdrawn", "Events and alerts that were derived and withdrawn.", stats.withdrawn),
            ("semcep_revision_keys_replayed", "Keys for which rules were run again.", stats.keys_replayed),
            ("semcep_revision_seconds", "Time spent on running rules again.", stats.seconds),
        ):
            yield CounterMetricFamily(name, text, number)

    def _rules(self) -> Iterator[Metric]:
        names = ["stage", "rule", "event"]
        into = CounterMetricFamily(
            "semcep_rule_in", "Rows that the last operator of a rule's body has read.", labels=names
        )
        out = CounterMetricFamily("semcep_rule_out", "How many times a rule's body has matched.", labels=names)
        for stage, chart in enumerate(self._meter.charts, 1):
            for rule in chart.rules:
                values = [str(stage), rule.name, rule.users]
                into.add_metric(values, self._meter.made(stage, rule.reads))
                out.add_metric(values, self._meter.made(stage, [rule.node]))
        yield from (into, out)

    def _goals(self) -> Iterator[Metric]:
        names = ["stage", "goal", "rules"]
        into = CounterMetricFamily("semcep_goal_in", "Rows that an operator has read.", labels=names)
        out = CounterMetricFamily("semcep_goal_out", "Rows that an operator has produced.", labels=names)
        spent = CounterMetricFamily("semcep_goal_step_seconds", "Time spent in the steps of an operator.", labels=names)
        rows = GaugeMetricFamily("semcep_goal_state_rows", "Rows that an operator keeps.", labels=names)
        size = GaugeMetricFamily("semcep_goal_state_bytes", "Bytes of the rows that an operator keeps.", labels=names)
        for stage, chart in enumerate(self._meter.charts, 1):
            for named in chart.goals:
                values = [str(stage), named.name, named.users]
                into.add_metric(values, self._meter.made(stage, named.reads))
                goal = self._meter.goals.get((stage, named.node))
                buckets = [] if goal is None else list(goal.state_by_bucket.values())
                out.add_metric(values, 0 if goal is None else goal.produced)
                spent.add_metric(values, 0 if goal is None else goal.time / 1e9)
                rows.add_metric(values, sum(number for number, _ in buckets))
                size.add_metric(values, sum(number for _, number in buckets))
        yield from (into, out, spent, rows, size)


def host_and_port(text: str) -> tuple[str, int]:
    """Split an address into host and port: `9464`, `0.0.0.0:9464`, `[::]:9464`. Raises CepError if it is not valid."""
    host, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535 or (colon and not host):
        hint = "use a port, `--metrics 9464`, or an address that other machines can reach, `--metrics 0.0.0.0:9464`"
        raise CepError(f"--metrics: `{text}` is not a port", hint=hint, code="option")
    return host.strip("[]") or HERE, int(port)


@contextmanager
def serving(meter: Meter, text: str) -> Iterator[str]:
    """Serve the metrics inside a `with` block, and yield the URL. Raises CepError if the port cannot be used."""
    host, port = host_and_port(text)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricsCollector(meter))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise CepError(f"--metrics {text}: {reason_of(error)}", code="option") from None
    try:
        name = f"[{host}]" if ":" in host else host
        yield f"http://{name}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
