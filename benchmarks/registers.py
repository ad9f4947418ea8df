"""Synthetic registers of any size, from a seed: a GeoNames dump with its companion files, and weather stations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.knowledge.gazetteers.gazetteer import OWN
from cep.knowledge.gazetteers.geonames import FEATURES
from cep.knowledge.gazetteers.tab_separated import DTYPES
from cep.knowledge.stations import SENSORS, Register

Array = NDArray[Any]

CODES = {
    "P.PPL": ("populated place", 0.12),
    "P.PPLA2": ("seat of a second-order administrative division", 0.005),
    "S.CH": ("church", 0.13),
    "S.SCH": ("school", 0.12),
    "S.CMTY": ("cemetery", 0.08),
    "S.BLDG": ("building(s)", 0.1),
    "S.HSP": ("hospital", 0.01),
    "S.AIRP": ("airport", 0.01),
    "S.AIRH": ("heliport", 0.005),
    "H.STM": ("stream", 0.13),
    "H.RSV": ("reservoir(s)", 0.06),
    "H.LK": ("lake", 0.05),
    "L.PRK": ("park", 0.05),
    "T.MT": ("mountain", 0.04),
    "T.VAL": ("valley", 0.05),
    "R.RDJCT": ("road junction", 0.02),
    "V.FRST": ("forest(s)", 0.02),
}
"""Feature codes, with their names and approximate frequencies in the dump of the United States."""

COUNTRY, STATES, COUNTIES = 6252001, 51, 3000
_FIRST = ("Cedar", "Mill", "Oak", "Saint Mary", "Black", "Indian", "Spring", "Cañon", "Fort", "New Hope", "Pine", "Big")
_SECOND = ("Creek", "Hill", "Lake", "Chapel", "Grove", "Ridge", "Hollow", "Ferry", "Point", "Flat", "Branch", "Run")


def dump(folder: Path, features: int, seed: int = 1) -> Path:
    """Write `US.txt` with this many features, including a country, states and counties, and the companion files."""
    rng = np.random.default_rng(seed)
    nation = _rows({"id": COUNTRY, "name": "United States", "class": "A", "code": "PCLI", "admin1": "00"}, 1, rng)
    state = {"id": np.arange(STATES) + 5_800_000, "name": _named("State", STATES), "class": "A", "code": "ADM1"}
    states = _rows(state | {"admin1": _state(np.arange(STATES))}, STATES, rng)
    county = {"id": np.arange(COUNTIES) + 5_900_000, "name": _named("County", COUNTIES), "class": "A", "code": "ADM2"}
    within = {"admin1": _state(np.arange(COUNTIES)), "admin2": _county(np.arange(COUNTIES))}
    counties = _rows(county | within, COUNTIES, rng)
    rest = features - 1 - STATES - COUNTIES
    assert rest > 0, "a dump has more than its divisions"
    table = pl.concat([nation, states, counties, _features(rest, rng)])
    _write(folder / "US.txt", table)
    for name, divisions, parts in (("admin1CodesASCII", states, 1), ("admin2Codes", counties, 2)):
        key = pl.concat_str(["country", "admin1", "admin2"][: parts + 1], separator=".")
        _write(folder / f"{name}.txt", divisions.select(key, "name", "ascii", "id"))
    codes = [(code, name, None) for code, (name, _) in CODES.items()] + [("null", "not available", None)]
    _write(folder / "featureCodes_en.txt", pl.DataFrame(codes, orient="row"))
    _write(folder / "hierarchy.txt", states.select(parent=pl.lit(COUNTRY), child="id", type=pl.lit("ADM")))
    info = "US USA 840 US United_States Washington 9629091 327167434 NA .us USD Dollar 1 #####-#### ^\\d{5}$ en-US"
    line = "\t".join([*(part.replace("_", " ") for part in info.split(" ")), str(COUNTRY), "CA,MX", ""])
    (folder / "countryInfo.txt").write_text(f"# a comment\n#ISO\tISO3\n{line}\n", encoding="utf-8")
    return folder / "US.txt"


def _features(count: int, rng: np.random.Generator) -> pl.DataFrame:
    first, second = rng.integers(0, len(_FIRST), count), rng.integers(0, len(_SECOND), count)
    names = np.char.add(np.char.add(np.array(_FIRST)[first], " "), np.array(_SECOND)[second])
    shares = np.array([share for _, share in CODES.values()])
    kind = rng.choice(len(CODES), count, p=shares / shares.sum())
    classes, codes = (np.array([code.split(".")[part] for code in CODES])[kind] for part in (0, 1))
    county = rng.integers(0, COUNTIES, count)
    values = {
        "id": rng.permutation(count) + 4_000_000,
        "name": names,
        "alternates": np.where(first == 0, np.char.add("Old ", names), ""),
        "class": classes,
        "code": codes,
        "admin1": _state(county),
        "admin2": _county(county),
        "population": np.where(classes == "P", rng.integers(0, 50_000, count), 0),
    }
    return _rows(values, count, rng)


def _rows(values: Mapping[str, Any], count: int, rng: np.random.Generator) -> pl.DataFrame:
    # Return rows with these values, and typical ones in the other columns.
    usual: dict[str, Any] = {
        "ascii": np.char.replace(values["name"], "ñ", "n"),
        "lat": rng.uniform(25, 49, count).round(5),
        "long": rng.uniform(-124, -67, count).round(5),
        "country": "US",
        "population": 0,
        "elevation": rng.integers(0, 2500, count),
        "dem": rng.integers(0, 2500, count),
        "timezone": "America/New_York",
        "modified": "2024-05-01",
    }
    columns = usual | dict(values)
    made = {field.name: np.broadcast_to(columns.get(field.name, ""), count) for field in FEATURES}
    return pl.DataFrame(made).cast({field.name: DTYPES[field.type] for field in FEATURES})


def _named(kind: str, count: int) -> Array:
    return np.char.add(f"{kind} ", np.arange(count).astype("U"))


def _state(county: Array) -> Array:
    return np.char.add("S", np.char.zfill((county % STATES).astype("U"), 2))


def _county(county: Array) -> Array:
    return np.char.zfill((county // STATES).astype("U"), 3)


def _write(path: Path, table: pl.DataFrame) -> None:
    table.write_csv(path, separator="\t", include_header=False, quote_style="never")


def stations(count: int, seed: int = 1) -> Register:
    """Return stations in the United States with five sensors each, about 20 triples per station."""
    rng = np.random.default_rng(seed)
    ids = np.char.add("K", np.char.zfill(np.arange(count).astype("U"), 6))
    table = pl.DataFrame(
        {
            "iri": np.char.add(OWN + "station:", ids),
            "id": ids,
            "name": np.char.add("station ", ids),
            "lat": rng.uniform(25, 49, count).round(5),
            "long": rng.uniform(-124, -67, count).round(5),
        }
    )
    sensors = table.select(station="iri").join(
        SENSORS.select("sensor", observes=pl.col("observes").list.first()), how="cross", maintain_order="left_right"
    )
    named = sensors.select("station", "observes", iri=pl.col("station") + ":" + pl.col("sensor").str.replace(" ", "-"))
    near = pl.DataFrame(schema={"iri": pl.String, "station": pl.String, "place": pl.String, "kilometres": pl.Float64})
    return Register(table, named, near, ())
