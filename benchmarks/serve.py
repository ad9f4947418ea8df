"""The SPARQL endpoint: queries while derived events are added, then a selective query over all events.

python -m benchmarks.serve --events 1000000
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from contextlib import closing
from tempfile import TemporaryDirectory

import polars as pl

from cep.connectors.rdf import triples
from cep.connectors.rdf.question import Question
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import PREFIXES, EventVocabulary
from cep.core.identity import identified
from cep.core.schema import Attribute, Schema

SCHEMA = Schema("warning", (Attribute("station", "string"), Attribute("readings", "int")), True, False)
STATIONS, SECOND = 5000, 1_000_000
BEGINNING = 1_767_225_600 * SECOND
SELECTIVE = """SELECT ?e ?n ?t { ?e <urn:semcep:attribute/warning/station> "s%d" ; a <urn:semcep:type/warning> ;
    <urn:semcep:attribute/warning/readings> ?n ; time:hasEnd/time:inXSDDateTimeStamp ?t } ORDER BY ?t LIMIT 100"""


def events(first: int, count: int, rate: int) -> pl.DataFrame:
    """Return warnings, `rate` per second of event time."""
    number = pl.int_range(first, first + count, eager=True)
    end = BEGINNING + number // rate * SECOND
    station = "s" + (number * 7919 % STATIONS).cast(pl.String)
    return pl.DataFrame({"start": end - 3600 * SECOND, "end": end, "station": station, "readings": number // STATIONS})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=20_000)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two queries while events come")
    options = parser.parse_args()
    words = EventVocabulary()
    made = words.derivation("program", "warning", ["line-1-1"])
    with TemporaryDirectory() as folder, closing(StoreProcess(folder, words)) as store:

        def ask(number: int) -> float:
            began = time.perf_counter()
            text = SELECTIVE % (number * 31 % STATIONS)
            store.ask(Question(text, prefixes=tuple(PREFIXES.items()), seconds=60)).result()
            return (time.perf_counter() - began) * 1000

        during: list[float] = []
        over = threading.Event()

        def asking() -> None:
            while not over.wait(options.pause):
                during.append(ask(len(during)))

        thread = threading.Thread(target=asking)
        thread.start()
        process = store.process
        began, spent, here, there = time.perf_counter(), 0.0, time.process_time(), _cpu(process)
        making = 0.0
        for first in range(0, options.events, options.batch):
            start, first_cpu = time.perf_counter(), time.thread_time()
            table = identified(events(first, options.batch, options.batch), SCHEMA, "program")
            text = triples.event_triples([triples.Derived(table, SCHEMA, made)], words)
            spent += time.perf_counter() - start
            making += time.thread_time() - first_cpu
            store.add(text)
        store.flush()
        seconds = time.perf_counter() - began
        over.set()
        thread.join()
        here, there = time.process_time() - here, _cpu(process) - there
        asked = sum(during) / 1000
        store.settle()
        store.flush()
        after = [ask(number) for number in range(50)]
    summary = f"{options.events:,} events in {seconds:.1f} s: {options.events / seconds:,.0f} a second"
    print(f"{summary} ({options.events / spent:,.0f} where they are made triples)")
    each = 1e6 / options.events
    print(
        f"microseconds of CPU an event: {making * each:.1f} to make triples, "
        f"{(here - making) * each:.1f} to send them, {there * each:.1f} in the store's process "
        f"({len(during)} queries took {asked * each:.1f} of the clock)"
    )
    for name, times in (("while they came", during), ("after", after)):
        if times:
            print(f"a selective query {name}: median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms")


def _cpu(process: int) -> float:
    """Return the CPU seconds that a process has used."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
