"""Alerts and derived events: the latency from a reading to the clients of a real server.

python -m benchmarks.alerts
python -m benchmarks.alerts --hundred --rate 1000 --readings 30000
python -m benchmarks.alerts --clients 1000 --rate 10 --readings 300 --idle 20ms
python -m benchmarks.alerts --rate 1000 --readings 200000 --keep 60s
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, urlsplit

PROGRAM = """
event reading(station: string, number: int, x: int) TIME time.
high(S, N) <- reading(S, N, X) WHERE X >= 0.
ALERT hot ON high(s: S, n: N) SEVERITY "Severe" TITLE "Heat at {S}" FOR 1 h KEYED BY S.
"""
QUERY = "SELECT (max(?n) AS ?last) { ?e a <urn:semcep:type/high> ; <urn:semcep:attribute/high/n> ?n }"
STATIONS = 50
SPAN, LEVELS, LEVEL, PAIRS, PAIR = 1009, 70, 56, 30, 29
"""Parameters of the hundred rules. Values are below `SPAN`.

A level rule accepts a band of `LEVEL` values. A pair rule needs two readings of a station, from two bands of `PAIR`
values. Together, the rules derive 4.9 events from each reading.
"""
_NUMBER = re.compile(rb'event: (?:firing|updated)\ndata: [^\n]*"n":(\d+)')
_SHOWN = re.compile(rb'"n":(\d+)')
_LAST = re.compile(rb'"last": \{[^}]*"value": "(\d+)"')


def hundred_rules() -> str:
    """Return a program with seventy level rules, the last of which alerts, and thirty pair rules within two seconds."""
    lines = ["event reading(station: string, number: int, x: int) TIME time.\n"]
    lows = [13 * number for number in range(LEVELS - 1)]
    levels = [(f"level{low}", low) for low in lows] + [("high", SPAN - LEVEL)]
    lines += [f"{name}(S, N) <- reading(S, N, X) WHERE X >= {low}, X < {low + LEVEL}.\n" for name, low in levels]
    for low in range(0, PAIR * PAIRS, PAIR):
        bands = f"X >= {low}, X < {low + PAIR}, Y >= {low + 100}, Y < {low + 100 + PAIR}"
        lines.append(f"pair{low}(S, N) <- (reading(S, _, X) SEQ reading(S, N, Y) WHERE {bands}) WITHIN 2 s.\n")
    return "".join(lines) + PROGRAM.splitlines()[-1] + "\n"


def value(number: int) -> int:
    """Return the value of a reading. It is the same in each run."""
    return random.Random(number).randrange(SPAN)


class Clients:
    """Clients that listen at a path. `seconds`: latencies from sending a reading to its arrival at a client."""

    def __init__(self, url: str, path: str, number: re.Pattern[bytes], sent: dict[int, float]) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._path, self._number, self._sent = parts.hostname, parts.port, path, number, sent
        self.seconds: list[float] = []
        self.got: list[int] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, count: int) -> None:
        """Connect `count` clients, and return when the server has accepted all."""
        for first in range(0, count, 50):
            await asyncio.gather(*(self._one(at) for at in range(first, min(first + 50, count))))

    async def _one(self, at: int) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        writer.write(f"GET {self._path} HTTP/1.1\r\nHost: {self._host}\r\nAccept: text/event-stream\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head, head
        self.got.append(0)
        self._tasks.append(asyncio.create_task(self._listen(reader, writer, at)))

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, at: int) -> None:
        rest = b""
        with contextlib.closing(writer):
            while data := await reader.read(1 << 16):
                now = time.perf_counter()
                whole, _, rest = (rest + data).rpartition(b"\n\n")
                for number in self._number.findall(whole):
                    if (sent := self._sent.get(int(number))) is not None:
                        self.seconds.append(now - sent)
                        self.got[at] += 1


async def measure(options: argparse.Namespace, url: str, server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None, "readings are given there"
    sent: dict[int, float] = {}

    def say(number: int) -> None:
        message = {"type": "reading", "time": datetime.now(UTC).isoformat(), "station": f"s{number % STATIONS}"}
        assert server.stdin is not None, "readings are given there"
        server.stdin.write(json.dumps(message | {"number": number, "x": value(number)}).encode() + b"\n")
        server.stdin.flush()

    say(0)
    clients = Clients(url, "/feeds/events", _NUMBER, sent)
    watching = Clients(url, f"/sparql/subscribe?query={quote(QUERY)}", _LAST, sent)
    with urllib.request.urlopen(url + "api/state") as state:
        shown = Clients(url, f"/api/stream?after={json.load(state)['at']}", _SHOWN, sent)
    await clients.open(options.clients)
    await shown.open(options.pages)
    await watching.open(options.subscribers)
    warm = options.rate  # a second of readings before the measurement
    before = 0.0
    began = time.perf_counter()
    for number in range(warm + options.readings):
        if number == warm:
            before = _cpu(server.pid)
        await asyncio.sleep(max(0.0, began + number / options.rate - time.perf_counter()))
        if number >= warm:
            sent[number] = time.perf_counter()
        say(number)
    seconds = time.perf_counter() - began - warm / options.rate
    server.stdin.close()  # the last events are derived at the end of the input
    until = time.monotonic() + 20
    alerting = sum(not options.hundred or value(number) >= SPAN - LEVEL for number in sent)
    while min(clients.got) < alerting and time.monotonic() < until:
        await asyncio.sleep(0.05)
    spent = _cpu(server.pid) - before
    whole = sum(got == alerting for got in clients.got)
    print(f"{options.readings} readings, {options.rate} a second, {options.clients} clients: {whole} got all")
    listeners = (("client", clients), ("page, of each derived event", shown), ("subscriber of a query", watching))
    for name, some in listeners:
        if some.seconds:
            times = sorted(1000 * each for each in some.seconds)
            median, most = statistics.median(times), times[min(len(times) - 1, len(times) * 99 // 100)]
            print(f"reading to {name}: median {median:.0f} ms, 99 % within {most:.0f} ms, worst {times[-1]:.0f} ms")
    print(f"CPU of the server: {100 * spent / seconds:.0f} % of a core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--subscribers", type=int, default=0, help="of one query in SPARQL")
    parser.add_argument("--pages", type=int, default=0, help="that are sent all derived events")
    parser.add_argument(
        "--hundred", action="store_true", help="a hundred rules, which derive 4.9 events from a reading"
    )
    parser.add_argument("--rate", type=int, default=200, help="readings, and so alerts, a second")
    parser.add_argument("--readings", type=int, default=2000)
    parser.add_argument("--idle", default=None, help="as for `cep serve`")
    parser.add_argument("--keep", default=None, help="as for `cep serve`")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        rules = Path(folder, "rules.cep")
        rules.write_text(hundred_rules() if options.hundred else PROGRAM)
        command = [sys.executable, "-m", "cep", "serve", str(rules), "--input", "-", "--port", "0", "--log", "json"]
        command += ["--rate", "0", "--state", f"{folder}/state"]
        limit = (min(1024, most), most)  # the usual limit of a shell
        command += ["--idle", options.idle] if options.idle else []
        command += ["--keep", options.keep] if options.keep else []
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit),
        ) as server:
            assert server.stderr is not None, "it tells there"
            message = (json.loads(line) for line in server.stderr)
            first = next(line for line in message if line["event"] == "serving")
            reading = threading.Thread(target=lambda: [_complain(line, server) for line in message])
            reading.start()
            try:
                asyncio.run(measure(options, first["url"], server))
            finally:
                server.terminate()
                reading.join()


def _complain(message: dict[str, str], server: subprocess.Popen[bytes]) -> None:
    if message["level"] == "error":
        print(message["text"], file=sys.stderr)
        server.kill()


def _cpu(process: int) -> float:
    """Return the CPU seconds that a process has used."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
