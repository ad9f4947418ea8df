"""Webhooks: changes of alerts per second to a slow receiver, and their CPU cost.

python -m benchmarks.webhooks
python -m benchmarks.webhooks --milliseconds 200 --parallel 128
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.senders import sending, targets

ALERTS = 1000
FIRST = AlertChange(
    "", 0, "firing", 0, "hot", "high", "", "Severe", "Other", "Heat", "", 0, 0, 3_600_000_000, 1, "", "", {}, {}
)
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


async def receive(seconds: float) -> None:
    """Run a receiver that answers each request after `seconds`. It prints its port. This is a separate process."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
                await asyncio.sleep(seconds)
                writer.write(ANSWER)

    async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    server = await asyncio.start_server(quietly, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def changes(count: int) -> list[AlertChange]:
    """Return changes of a thousand alerts, in turn."""
    return [
        replace(FIRST, alert=f"{number % ALERTS:032x}", slot=str(number % ALERTS), revision=number // ALERTS)
        for number in range(count)
    ]


def measure(options: argparse.Namespace, port: int) -> None:
    whole = changes(options.changes)
    feeds = targets([f"cloudevents+http://127.0.0.1:{port}/in#private=yes&parallel={options.parallel}"])

    def report(name: str, text: str, /, **more: str) -> None:
        print(text, file=sys.stderr)

    with (
        TemporaryDirectory() as folder,
        closing(Outbox(Path(folder, "alerts.db"))) as outbox,
        sending(outbox, feeds, Publisher("rules.cep"), report),
    ):
        began, before = time.perf_counter(), time.process_time()
        for first in range(0, len(whole), 100):
            outbox.add(whole[first : first + 100], {})
        while outbox.statuses()[0].waiting:
            time.sleep(0.02)
        seconds, spent = time.perf_counter() - began, time.process_time() - before
    print(
        f"{len(whole)} changes of {ALERTS} alerts, {options.milliseconds:g} ms an answer, {options.parallel} at once:"
    )
    print(f"{len(whole) / seconds:,.0f} a second, {1e6 * spent / len(whole):,.0f} µs of CPU each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=5000)
    parser.add_argument("--milliseconds", type=float, default=50, help="that the receiver takes for an answer")
    parser.add_argument("--parallel", type=int, default=64)
    parser.add_argument("--receive", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        asyncio.run(receive(options.milliseconds / 1000))
        return
    command = [sys.executable, "-m", "benchmarks.webhooks", "--receive", "--milliseconds", str(options.milliseconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as receiver:
        assert receiver.stdout is not None, "it writes its port there"
        try:
            measure(options, int(receiver.stdout.readline()))
        finally:
            receiver.terminate()


if __name__ == "__main__":
    main()
