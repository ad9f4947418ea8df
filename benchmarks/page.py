"""The web page of a server in Chromium: the time to the first paint, and how long the page blocks the main thread.

    python -m benchmarks.page
    python -m benchmarks.page --stations 5000 --rate 100 --seconds 30
    python -m benchmarks.page --held 20000 --open 200
    python -m benchmarks.page --held 20000 --open 200 --width 390 --slower 4

Tasks are reported with wall time and CPU time. If other processes use the machine, the wall time is longer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

from benchmarks import registers
from benchmarks.browser_tasks import LONG, BrowserTask, traced

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PREFIXES = """
PREFIX dcterms: <http://purl.org/dc/terms/>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX sosa: <http://www.w3.org/ns/sosa/>
PREFIX wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#>
"""
PROGRAM = f"""{PREFIXES}event reading(station: string, temp: float) TIME time.
event warm(station: string, temp: float).
at(S, Lat, Long) :- {{ ?station a sosa:Platform ; dcterms:identifier ?S ; wgs84:lat ?Lat ; wgs84:long ?Long }}.
warm(S, T) <- reading(S, T) WHERE T >= 20.
ALERT hot ON warm(station: S, temp: T) WHERE T >= 38, at(S, Lat, Long)
    SEVERITY "Severe" TITLE "Heat at {{S}}" TEXT "{{T}} degrees" FOR 1 h KEYED BY S AT Lat, Long RADIUS 20000.
"""
ALERTING = 50
"""Every ALERTING-th event belongs to an open alert."""
_OBSERVED = """
window.seen = { paint: 0 };
new PerformanceObserver((list) => {
  for (const each of list.getEntriesByName("first-contentful-paint")) seen.paint = each.startTime;
}).observe({ type: "paint", buffered: true });
"""
_SHOWN = "semcep.store.count"
_THERE = "Boolean(window.semcep?.parts.map && document.getElementById('connection').dataset.state === 'live')"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stations", type=int, default=5000)
    parser.add_argument("--rate", type=int, default=100, help="events a second")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--held", type=int, default=0, help="events that the page has before")
    parser.add_argument("--open", type=int, default=200, help="stations with an open alert")
    parser.add_argument("--width", type=int, default=1280, help="of the page in pixels")
    parser.add_argument("--slower", type=float, default=1, help="as on a machine that is so many times slower")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    load = os.getloadavg()[0]
    with _served(options.stations) as (url, readings), sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        visitor = Visitor(browser, url, options.stations, options.width, options.slower)
        phases: dict[str, list[BrowserTask]] = {}
        empty = [visitor.visit() for _ in range(options.loads)]
        phases["it opens"] = [task for visit in empty for task in visit.tasks]
        page = visitor.visit(stays=True).page
        _fill(page, readings, options.stations, options.held, options.open)
        full = [visitor.visit() for _ in range(options.loads)]
        phases["it opens, with what is held"] = [task for visit in full for task in visit.tasks]
        shown = 0.0
        for tab in ("events", "alerts"):
            page.locator(f"#tab-{tab}").click()
            page.wait_for_timeout(1000)
            if tab == "events":
                phases["the list of events is scrolled"] = traced(browser, page, lambda: _scroll(page))
            coming = _Coming(page, readings, options)
            phases[f"events come, with the list of {tab}"] = traced(browser, page, coming.watch)
            shown = coming.shown
        alerts, held = page.evaluate("[semcep.store.alerts.size, semcep.store.events.length]")
        version = browser.version
        browser.close()
    said = f"{options.stations:,} stations, {options.rate} events a second for {options.seconds} s"
    said += f", {held:,} events held, {alerts} alerts open, {options.width} pixels wide"
    said += f", {options.slower} times slower" if options.slower > 1 else ""
    print(
        f"{said}; Chromium {version}, {os.cpu_count()} cores, load {load:.1f} before and {os.getloadavg()[0]:.1f} after"
    )
    print("| while | longest task | its CPU time | most CPU time | over 50 ms | clock per ms of CPU | what it did |")
    print("|---|---|---|---|---|---|---|")
    for name, tasks in phases.items():
        print(f"| {name} | {' | '.join(_row(tasks))} |")
    for name, visits in (("first contentful paint", empty), ("the same, with what is held", full)):
        print(f"{name}, median of {options.loads}: {statistics.median(each.paint for each in visits):.0f} ms")
    print(f"events a second shown: {shown:.0f}")


def _row(tasks: list[BrowserTask]) -> list[str]:
    longest, dearest = max(tasks, key=lambda each: each.wall), max(tasks, key=lambda each: each.cpu)
    busy = [each for each in tasks if each.cpu >= 1]
    ratio = sum(each.wall for each in busy) / max(1e-9, sum(each.cpu for each in busy))
    steps = ", ".join(f"{name} {cpu:.0f} ms" for name, cpu in dearest.steps)
    over = sum(each.wall > LONG for each in tasks)
    return [
        f"{longest.wall:.0f} ms",
        f"{longest.cpu:.0f} ms",
        f"{dearest.cpu:.0f} ms",
        str(over),
        f"{ratio:.1f} ms",
        steps,
    ]


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit of the page: the milliseconds to its first paint, and its tasks until it was complete."""

    page: Page
    paint: float
    tasks: list[BrowserTask]


@dataclass(frozen=True, slots=True)
class Visitor:
    """A visitor with an empty browser cache, on a machine that is `slower` times slower."""

    browser: Browser
    url: str
    stations: int
    width: int
    slower: float

    def visit(self, stays: bool = False) -> Visit:
        """Open the page and wait until all stations are drawn. Close it unless it `stays`."""
        page = self.browser.new_context(viewport={"width": self.width, "height": 800}).new_page()
        page.add_init_script(_OBSERVED)
        if self.slower > 1:
            page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": self.slower})
        tasks = traced(self.browser, page, lambda: self._open(page))
        found = Visit(page, float(page.evaluate("seen.paint")), tasks)
        if not stays:
            page.context.close()
        return found

    def _open(self, page: Page) -> None:
        page.goto(self.url)
        for condition in (_THERE, f"semcep.parts.map.clusters.cellOf.size === {self.stations} && seen.paint > 0"):
            until = time.monotonic() + 120
            while not page.evaluate(condition):
                if time.monotonic() > until:
                    raise SystemExit(f"it does not come to be: {condition}")
                page.wait_for_timeout(50)
        page.wait_for_timeout(1000)


class _Coming:
    """Events that arrive at a steady rate. They measure the number of events per second that the page shows."""

    def __init__(self, page: Page, readings: IO[bytes], options: argparse.Namespace) -> None:
        self.page = page
        self.count = options.rate * options.seconds
        self.feeding = threading.Thread(
            target=feed, args=(readings, options.stations, options.rate, self.count, options.open)
        )
        self.shown = 0.0

    def watch(self) -> None:
        """Start sending, and return when all events are shown."""
        before, began = int(self.page.evaluate(_SHOWN)), time.perf_counter()
        self.feeding.start()
        while self.feeding.is_alive():
            self.page.wait_for_timeout(500)
        while int(self.page.evaluate(_SHOWN)) - before < self.count:
            self.page.wait_for_timeout(50)
        self.shown = self.count / (time.perf_counter() - began)
        self.page.wait_for_timeout(1000)  # wait until the last ones are drawn


def _fill(page: Page, readings: IO[bytes], stations: int, held: int, opened: int) -> None:
    """Send `held` events, and alerts at `opened` stations, and wait until the page has them."""
    for number in range(opened):
        _say(readings, number, 40)
    for number in range(held - opened):
        _say(readings, number * 7919 % stations, 25)
        if number % 500 == 0:
            page.wait_for_timeout(100)
    _say(readings, 0, 1)
    until = time.monotonic() + 300
    while int(page.evaluate(_SHOWN)) < held or int(page.evaluate("semcep.store.alerts.size")) < opened:
        if time.monotonic() > until:
            raise SystemExit(f"the page does not come to hold {held} events and {opened} alerts")
        page.wait_for_timeout(200)


def _scroll(page: Page) -> None:
    """Scroll the list of events from its beginning to its end and back, in 200 steps."""
    for step in [*range(100), *range(100, -1, -1)]:
        page.locator("#panel-events").evaluate(
            "(box, part) => { box.scrollTop = box.scrollHeight * part; }", step / 100
        )
        page.wait_for_timeout(20)
    page.wait_for_timeout(500)


def feed(readings: IO[bytes], stations: int, rate: int, count: int, opened: int) -> None:
    """Send readings at a rate in real time, each of which causes an event. Then send two later readings, so that the
    last events become final."""
    began = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.perf_counter()))
        hot = number % ALERTING == 0
        _say(readings, number // ALERTING % max(1, opened) if hot else number * 7919 % stations, 40 if hot else 25)
    for _ in range(2):  # later readings make the last ones final
        time.sleep(0.2)
        _say(readings, 0, 1)


def _say(readings: IO[bytes], station: int, temp: int) -> None:
    message = {"type": "reading", "time": datetime.now(UTC).isoformat(), "station": f"K{station:06}", "temp": temp}
    readings.write(json.dumps(message).encode() + b"\n")
    readings.flush()


def _turtle(stations: int) -> str:
    table = registers.stations(stations).stations.select("iri", "name", "id", "lat", "long")
    return "".join(
        f'<{iri}> a sosa:Platform ; rdfs:label "{name}" ; dcterms:identifier "{id}" ; '
        f"wgs84:lat {lat} ; wgs84:long {long} .\n"
        for iri, name, id, lat, long in table.iter_rows()
    )


@contextmanager
def _served(stations: int) -> Iterator[tuple[str, IO[bytes]]]:
    """Start `cep serve` with these stations. Yield its address, and the pipe for readings."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        rules, register = Path(folder, "heat.cep"), Path(folder, "stations.ttl")
        rules.write_text(PROGRAM)
        register.write_text(PREFIXES + _turtle(stations))
        command = [sys.executable, "-m", "cep", "serve", str(rules), "--knowledge", str(register), "--input", "-"]
        command += ["--port", "0", "--log", "json", "--rate", "0", "--state", f"{folder}/state"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as server:
            assert server.stdin is not None and server.stderr is not None, "they are pipes"
            message = (json.loads(line) for line in server.stderr)
            rest = threading.Thread(target=lambda: [_complain(line, server) for line in message])
            try:
                first = next(message)
                while "url" not in first and first["level"] != "error":
                    first = next(message)
                if "url" not in first:
                    raise SystemExit(first["text"])
                rest.start()
                yield first["url"], server.stdin
            finally:
                server.terminate()
                if rest.ident is not None:
                    rest.join()


def _complain(message: dict[str, str], server: subprocess.Popen[bytes]) -> None:
    if message["level"] == "error":
        print(message["text"], file=sys.stderr)
        server.kill()


if __name__ == "__main__":
    main()
