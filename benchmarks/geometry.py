"""Workloads with points on the earth: distances between pairs, points in an area, places near a point."""

from __future__ import annotations

import math

import numpy as np

from benchmarks import enriched, streams
from benchmarks.streams import Stream
from benchmarks.workload import K, M, Workload

CORNERS = 200
"""The number of corners of the area around New York. Their distance from the centre alternates."""

POSITION = "event a(id: int, lat: float, long: float) TIME t.\n"


def area() -> str:
    turns = [2 * math.pi * i / CORNERS for i in range(CORNERS)]
    ring = [f"{-74 + far * math.cos(turn)} {41 + far * math.sin(turn)}" for turn, far in zip(turns, [8, 12] * CORNERS)]
    return f'"POLYGON(({", ".join([*ring, ring[0]])}))"'


def positions(events: int, keys: int) -> Stream:
    """Return a stream of `a(id, lat, long)` at random places in the United States."""
    random = np.random.default_rng(1)
    times = streams.milliseconds(events, random)
    columns = {
        "id": random.integers(0, keys, events),
        "lat": random.uniform(25, 49, events),
        "long": random.uniform(-124, -67, events),
    }
    return Stream({"a": streams.point_table(times, columns)})


def program(rule: str) -> str:
    return POSITION + rule + "\n"


listed: tuple[Workload, ...] = (
    Workload(
        "distance",
        lambda keys: program("long(I, D) <- a(I, Lat, Long) WHERE D = distance(Lat, Long, 40.6, -73.8), D > 3e6."),
        positions,
        flat=False,
        sizes=((2 * M, 100),),
    ),
    Workload(
        "closer than",
        lambda keys: program(
            "moved(I) <- (a(I, A, B) SEQ a(I, C, D) WHERE distance(A, B, C, D) > 3000000) WITHIN 1 s POLICY recent."
        ),
        positions,
        flat=False,
        sizes=((2 * M, 100),),
    ),
    Workload(
        "inside",
        lambda keys: program(f"here(I) <- a(I, Lat, Long) WHERE inside(Lat, Long, {area()})."),
        positions,
        flat=False,
        sizes=((2 * M, 100),),
    ),
    Workload(
        "anything near",
        lambda keys: program(f"busy(I) <- a(I, Lat, Long) WHERE near(Lat, Long, {enriched.REACH}, _, _)."),
        positions,
        options=lambda keys: {"knowledge": enriched.places()},
        flat=False,
        sizes=((500 * K, enriched.PLACES),),
    ),
)
