"""Rows that are written before they come to the writer stand in the output as those that it writes itself."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest

from cep.connectors.writing import unordered_rows as written_module
from cep.connectors.writing.json_lines import TextPieces
from cep.connectors.writing.unordered_rows import WrittenRows, stacked_rows
from cep.connectors.writing.writers import Writer, written_rows
from cep.core.schema import Attribute, Schema
from tests.long import seeds

SCHEMAS = {
    "a": Schema("a", (Attribute("because", "string"), Attribute("n", "int", optional=True)), True, False),
    "b": Schema("b", (Attribute("f", "float"), Attribute("t", "time"), Attribute("d", "duration")), True, False),
    "c": Schema("c", (), True, False),
}
TEXTS = ["", "plain", 'a "quote"', "over\nlines", '"\n"', "a,b\tc", "größe\\", "\r\n", None]
COLUMNS = {
    "because": lambda random: random.choice(TEXTS),
    "n": lambda random: random.choice((1, -5, None)),
    "f": lambda random: random.choice((0.1, -0.0, 1e300, None)),
    "t": lambda random: random.randrange(10**15),
    "d": lambda random: random.randrange(10**9),
}
TYPES = {"because": pl.String, "f": pl.Float64}


def cut_and_mixed(random: Random, table: pl.DataFrame, texts: TextPieces) -> WrittenRows:
    """Rows whose texts stand in several parts, in another order, some of them in no row."""
    data, ends = texts.data.tobytes(), texts.ends.tolist()
    each = [data[first:stop] for first, stop in zip(ends, ends[1:])] + [b"nobody's\n"]
    orders = sorted(range(len(each)), key=lambda text: random.random())
    cut = random.randrange(len(each) + 1)
    parts = []
    for some in (orders[:cut], orders[cut:]):
        if random.random() < 0.7:
            some.sort()
        marks = np.cumsum([0, *(len(each[text]) for text in some)])
        parts.append((some, TextPieces(np.frombuffer(b"".join(each[text] for text in some), np.uint8), marks)))
    place = {text: at for at, text in enumerate(text for some, _ in parts for text in some)}
    order = np.array([place[text] for text in range(table.height)], np.int64)
    times, cut = table.select("start", "end"), random.randrange(table.height + 1)
    pieces = [piece for _, piece in parts]
    rows = [WrittenRows.of(times[:cut], pieces, order[:cut]), WrittenRows.of(times[cut:], pieces, order[cut:])]
    return stacked_rows(rows)


@pytest.mark.parametrize("format", ["jsonl", "csv", "tsv"])
@pytest.mark.parametrize("times", ["iso", "seconds"])
@pytest.mark.parametrize("seed", seeds(24))
def test_rows_written_before_are_those_of_the_writer(
    seed: int, format: str, times: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(written_module, "PIECE", random.choice((1, 3, 20, 1 << 14)))
    batches = []
    for _ in range(3):
        tables = {}
        for name, schema in SCHEMAS.items():
            ends = sorted(random.randrange(10**7) for _ in range(random.randrange(1, 9)))
            columns = [pl.Series("start", [end - random.randrange(9) for end in ends]), pl.Series("end", ends)]
            for each in schema.attributes:
                values = [COLUMNS[each.name](random) for _ in ends]
                columns.append(pl.Series(each.name, values, dtype=TYPES.get(each.name, pl.Int64)))
            tables[name] = pl.DataFrame(columns)
        batches.append(tables)
    written = []
    for folder in ("itself", "before"):
        Path(tmp_path, folder).mkdir()
        with Writer(f"{tmp_path}/{folder}/out.{format}", SCHEMAS, times=times) as writer:
            assert writer.of_rows == format
            for tables in batches:
                if folder == "before":
                    chosen = {name: table for name, table in tables.items() if name != "b" or random.random() < 0.5}
                    tables |= {
                        name: cut_and_mixed(random, table, written_rows(name, table, SCHEMAS[name], format, times))
                        for name, table in chosen.items()
                    }
                writer.write(tables)
        written.append({each.name: each.read_bytes() for each in Path(tmp_path, folder).iterdir()})
    assert written[0] == written[1] and len(written[0]) == (1 if format == "jsonl" else 3)
