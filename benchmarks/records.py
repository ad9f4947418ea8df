"""`python -m benchmarks.records`: the speed of readers for records in many shapes: FORMAT, ZONE, paths, dialects.

The same values are written in several shapes. The table has rows per second of CPU time, the best of several runs in
turn, and the ratio to the plain shape of the format.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ATTRIBUTES = "station: string{a}, wind: float in 0..250{b}, n: int{c}, gust: float?{d}, sky: string{e}"
CONDITIONS = ("rain", "snow", "fog", "clear", "cloudy")
WEATHER = ("station", "wind", "n", "gust", "sky")


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of records: the parts of a declaration, and the file. `of`: the name of the shape to compare with."""

    name: str
    program: str
    file: str
    of: str | None = None


def _event(times: str, sources: dict[str, str] | None = None, gust: str = "") -> str:
    given = dict(zip("abcde", WEATHER))
    named = {key: f' FROM "{sources[name]}"' if sources else "" for key, name in given.items()}
    named["d"] += gust
    return f"event reading({ATTRIBUTES.format(**named)}) {times}."


LOCAL = 'FORMAT "%d.%m.%Y %H:%M:%S" ZONE "Europe/Zurich"'
MILLISECONDS = "TIME ts FORMAT epoch ms"
GERMAN = 'FORMAT csv(separator: ";", decimal: ",", comment: "#")'
NESTED = {"station": "site.id", "wind": "data.wind.mean", "n": "data.n", "gust": "data.wind.gust", "sky": "data.sky"}
LISTED = {**NESTED, "wind": "list[].wind", "n": "list[].n", "gust": "list[].gust", "sky": "list[].sky"}
SENML = "event reading(station: string FROM n, wind: float FROM v, unit: string FROM u) FORMAT senml."
THINGS = "event reading(station: string FROM datastream, wind: float FROM result) FORMAT sensorthings."
SHAPES = (
    Shape("CSV, ISO 8601", _event("TIME ts"), "iso.csv"),
    Shape("CSV, FORMAT and ZONE", _event(f"TIME ts {LOCAL}"), "local.csv", "CSV, ISO 8601"),
    Shape("CSV, ISO and ZONE", _event('TIME ts ZONE "Europe/Zurich"'), "clock.csv", "CSV, ISO 8601"),
    Shape("CSV, epoch ms", _event(MILLISECONDS), "epoch.csv", "CSV, ISO 8601"),
    Shape(
        "CSV, dialect, two columns, MISSING",
        _event(
            f'TIME day, clock {LOCAL} FORMAT csv(separator: ";", decimal: ",", comment: "#")', None, " MISSING -999"
        ),
        "german.csv",
        "CSV, ISO 8601",
    ),
    Shape("JSON, ISO 8601", _event("TIME ts"), "iso.jsonl"),
    Shape("JSON, FORMAT and ZONE", _event(f"TIME ts {LOCAL}"), "local.jsonl", "JSON, ISO 8601"),
    Shape("JSON, epoch ms", _event(MILLISECONDS), "epoch.jsonl", "JSON, ISO 8601"),
    Shape("JSON, nested, epoch ms", _event(MILLISECONDS, NESTED), "nested.jsonl", "JSON, ISO 8601"),
    Shape("JSON, lists of ten, epoch ms", _event(MILLISECONDS, LISTED), "listed.jsonl", "JSON, ISO 8601"),
    Shape("Parquet, datetimes", _event("TIME ts"), "iso.parquet"),
    Shape("Parquet, texts in ISO 8601", _event("TIME ts"), "text.parquet", "Parquet, datetimes"),
    Shape("Parquet, FORMAT and ZONE", _event(f"TIME ts {LOCAL}"), "local.parquet", "Parquet, texts in ISO 8601"),
    Shape("Parquet, nested, epoch ms", _event(MILLISECONDS, NESTED), "nested.parquet", "Parquet, datetimes"),
)

FORMATS = (
    Shape("SenML, packs of ten", SENML, "packs.senml"),
    Shape("SensorThings, a page", THINGS, "page.json"),
    Shape("InfluxDB line protocol", _event("FORMAT influx"), "points.lp"),
)
"""Formats of sensors. Some of them contain only a part of the values."""


def write(folder: Path, rows: int) -> None:
    """Write all files with the same values. Each local time in Zurich is unambiguous."""
    import polars as pl

    source = random.Random(13)
    at = [datetime(2024, 4, 2) + timedelta(seconds=7 * i) for i in range(rows)]
    columns = {
        "station": [f"K{source.randrange(400):03}" for _ in range(rows)],
        "wind": [round(source.random() * 100, 2) for _ in range(rows)],
        "n": [source.randrange(10**6) for _ in range(rows)],
        "gust": [None if source.random() < 0.1 else round(source.random() * 100, 1) for _ in range(rows)],
        "sky": [CONDITIONS[i % 5] for i in range(rows)],
    }
    plain = pl.DataFrame(columns)
    moments = pl.Series("ts", at)
    texts = {
        "iso": moments.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "clock": moments.dt.strftime("%Y-%m-%dT%H:%M:%S"),
        "local": moments.dt.strftime("%d.%m.%Y %H:%M:%S"),
        "epoch": moments.dt.epoch("ms"),
    }
    for name, column in texts.items():
        table = plain.with_columns(column.alias("ts"))
        table.write_csv(folder / f"{name}.csv")
        table.write_ndjson(folder / f"{name}.jsonl")
    german = plain.with_columns(
        pl.col("gust").fill_null(-999.0),
        moments.dt.strftime("%d.%m.%Y").alias("day"),
        moments.dt.strftime("%H:%M:%S").alias("clock"),
    )
    german.write_csv(folder / "german.csv", separator=";", decimal_comma=True)
    ends = texts["epoch"].to_list()
    nested = [
        {
            "site": {"id": one["station"]},
            "data": {"wind": {"mean": one["wind"], "gust": one["gust"]}, "n": one["n"], "sky": one["sky"]},
            "ts": time,
        }
        for one, time in zip(plain.iter_rows(named=True), ends)
    ]
    (folder / "nested.jsonl").write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in nested))
    with (folder / "listed.jsonl").open("w") as file:
        for i in range(0, rows, 10):
            elements = plain[i : i + 10].drop("station").to_dicts()
            record = {"site": {"id": columns["station"][i]}, "ts": ends[i], "list": elements}
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
    _sensors(folder, columns, ends)
    plain.with_columns(moments).write_parquet(folder / "iso.parquet")
    plain.with_columns(texts["iso"].alias("ts")).write_parquet(folder / "text.parquet")
    plain.with_columns(texts["local"].alias("ts")).write_parquet(folder / "local.parquet")
    pl.DataFrame(nested).write_parquet(folder / "nested.parquet")


def _sensors(folder: Path, columns: dict[str, list[Any]], ends: list[int]) -> None:
    """Write the values as packs of SenML, a page of SensorThings, and lines of InfluxDB."""
    with (folder / "packs.senml").open("w") as file:
        for i in range(0, len(ends), 10):
            pack: list[dict[str, Any]] = [{"bn": "urn:dev:", "bt": ends[i] // 1000, "bu": "m/s"}]
            for j in range(i, i + 10):
                pack.append({"n": columns["station"][j], "t": 7 * (j - i), "v": columns["wind"][j]})
            file.write(json.dumps(pack, separators=(",", ":")) + "\n")
    page = [
        {
            "@iot.id": i,
            "@iot.selfLink": f"https://example.org/v1.1/Observations({i})",
            "phenomenonTime": f"{datetime.fromtimestamp(end // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}",
            "resultTime": None,
            "result": columns["wind"][i],
            "Datastream@iot.navigationLink": f"https://example.org/v1.1/Datastreams({columns['station'][i][1:]})",
        }
        for i, end in enumerate(ends)
    ]
    (folder / "page.json").write_text(json.dumps({"value": page}, indent=1))
    with (folder / "points.lp").open("w") as file:
        for i, (station, wind, n, gust, sky) in enumerate(zip(*columns.values())):
            more = "" if gust is None else f",gust={gust}"
            file.write(f"reading,station={station},sky={sky} wind={wind},n={n}i{more} {ends[i]}000000\n")


def measured(folder: Path, rows: int, runs: int, only: str = "") -> Iterator[tuple[Shape, float]]:
    """Yield the rows per second of CPU time for each shape."""
    from cep.connectors.files import read
    from cep.engine import Engine

    known = {}
    for shape in (*SHAPES, *FORMATS):
        engine = Engine.from_text(shape.program + " strong(S) <- reading(station: S, wind: W) WHERE W > 249.")
        known[shape.name] = {name: engine.plan.schemas[name] for name in engine.plan.inputs}
    best: dict[str, float] = {}
    shapes = [shape for shape in (*SHAPES, *FORMATS) if only in shape.name]
    for _ in range(runs):
        for shape in shapes:
            begun = time.process_time()
            batches = [
                (batch.rows, batch.dead) for batch in read([f"reading={folder / shape.file}"], known[shape.name])
            ]
            took = time.process_time() - begun
            assert sum(count for count, _ in batches) == rows and not any(dead for _, dead in batches), shape.name
            best[shape.name] = min(took, best.get(shape.name, took))
    for shape in shapes:
        yield shape, rows / best[shape.name]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.records", description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", metavar="WORD", default="", help="shapes whose name holds this")
    asked = parser.parse_args()
    rows = asked.rows // 10 * 10
    print("| records | million rows a CPU second | of the plain ones |\n|---|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), rows)
        speeds: dict[str, float] = {}
        for shape, speed in measured(Path(folder), rows, asked.runs, asked.only):
            speeds[shape.name] = speed
            part = "" if shape.of not in speeds else f"{speed / speeds[shape.of]:.0%}"
            print(f"| {shape.name} | {speed / 1e6:.2f} | {part} |", flush=True)


if __name__ == "__main__":
    main()
