"""Rows that are written before they come to the writer stand in the output as those that it writes itself."""

from __future__ import annotations

from pathlib import Path
from random import Random

import polars as pl
import pytest

from cep.core.schema import Attribute, Schema
from connectors.lines import as_texts
from connectors.writers import LINE, Writer, written_rows
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


@pytest.mark.parametrize("format", ["jsonl", "csv", "tsv"])
@pytest.mark.parametrize("times", ["iso", "seconds"])
@pytest.mark.parametrize("seed", seeds(24))
def test_rows_written_before_are_those_of_the_writer(seed: int, format: str, times: str, tmp_path: Path) -> None:
    random = Random(seed)
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
                        name: table.select("start", "end").with_columns(
                            as_texts(written_rows(name, table, SCHEMAS[name], format, times == "iso")).alias(LINE)
                        )
                        for name, table in chosen.items()
                    }
                writer.write(tables)
        written.append({each.name: each.read_bytes() for each in Path(tmp_path, folder).iterdir()})
    assert written[0] == written[1] and len(written[0]) == (1 if format == "jsonl" else 3)
